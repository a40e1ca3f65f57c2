package moves

import (
	"slices"
	"testing"

	"berth/shared/cluster"
)

// The roomiest instances are those with the most left of a dimension, of the instances that limit
// it and take tasks; the first ones by number if they have as much left.
func TestRoomiestInstances(t *testing.T) {
	p := &problem{names: []string{"CPU"}, load: []int64{5, 0, 1, 2, 0, 1}, total: []int64{20, 100, unlimited, 10, 8, 31},
		instances: make([]problemInstance, 6)}
	for i := range p.instances {
		p.instances[i].takesTasks = i != 1
	}
	for most, want := range map[int][]int32{0: nil, 1: {5}, 3: {5, 0, 3}, 9: {5, 0, 3, 4}} {
		if got := roomiestInstances(p, 0, most); !slices.Equal(got, want) {
			t.Errorf("the %d roomiest instances are %v, expected %v", most, got, want)
		}
	}
}

// Two tasks are in each other's way if they use a port in common.
func TestSharesPort(t *testing.T) {
	port := func(n int) cluster.Port { return cluster.Port{Number: n, Protocol: cluster.TCP} }
	udp := cluster.Port{Number: 80, Protocol: cluster.UDP}
	s := &assignment{problem: &problem{tasks: []problemTask{{ports: []cluster.Port{port(80), port(81)}},
		{ports: []cluster.Port{port(82), port(81)}}, {ports: []cluster.Port{port(82), udp}}, {}}}}
	for other, want := range []bool{true, true, false, false} {
		if got := sharesPort(s, openViolation{task: 0}, int32(other)); got != want {
			t.Errorf("task %d shares a port with task 0: %v, expected %v", other, got, want)
		}
	}
}
