package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/oracle"
)

// large returns a cluster in three zones with four tasks on each instance: one of "web", the others
// of other owners.
func large(instances int) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for n := range instances {
		id := cluster.Digest("instance", fmt.Sprint(n))
		i := oracle.Instance(id, oracle.Zone(fmt.Sprintf("us-east-1%c", 'a'+n%3)), oracle.CPU(8192),
			oracle.Memory(16384), oracle.Attribute("ecs.capability.task-eni", ""))
		if n%2 == 0 {
			oracle.Attribute("disk", "ssd")(i)
		}
		s.Put(i)
		for k := range 4 {
			t := oracle.Task(cluster.Digest(id, fmt.Sprint(k)), id, oracle.Group("service:web"))
			if k > 0 {
				t.Owner = fmt.Sprintf("other-%d", n%40)
			}
			s.Put(t)
		}
	}
	return s
}

// BenchmarkPlace asks for the same placement on an unchanged cluster.
func BenchmarkPlace(b *testing.B) {
	e := placement.New(large(5000))
	none := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 99 * cluster.VCPU}, Owner: "web"},
		Count: 1}
	attributes := oracle.WebRequest(1)
	attributes.Spec.Attributes = []string{"ecs.capability.task-eni"}
	idle, thousand := oracle.WebRequest(1), oracle.WebRequest(1000)
	idle.Spec.Owner, thousand.Spec.Owner = "new", "new"
	for name, r := range map[string]placement.Request{
		"One": oracle.WebRequest(1), "OneOfNewOwner": idle, "OneWithAttribute": attributes,
		"Ten":                oracle.WebRequest(10),
		"Thousand":           oracle.WebRequest(1000),
		"ThousandOfNewOwner": thousand, "NoneFits": none,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var placed []placement.Placement
			for b.Loop() {
				placed = e.PlaceInto(placed[:0], r).Placed
			}
		})
	}
}

// BenchmarkChurn places a task of one of 50 kinds, makes it a row and removes another task.
func BenchmarkChurn(b *testing.B) {
	for _, n := range []int{1000, 5000, 15000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := large(n)
			e := placement.New(s)
			var requests []placement.Request
			for k := range 50 {
				r := placement.Request{Count: 1, Spec: &placement.Spec{Owner: fmt.Sprintf("churn-%d", k),
					Needs: cluster.Resources{
						CPU: int64(1+k%5) * 100 * cluster.CPUUnit, Memory: int64(1+k/5%5) * 200}}}
				if k%3 == 0 {
					r.Spec.Attributes = []string{"disk=ssd"}
				}
				requests = append(requests, r)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var running []*cluster.Task
			var placed []placement.Placement
			ids := 0
			b.ReportAllocs()
			for b.Loop() {
				r := requests[rng.IntN(len(requests))]
				placed = e.PlaceInto(placed[:0], r).Placed
				ids++
				t := oracle.Task(fmt.Sprint(ids), placed[0].Instance, oracle.Owner(r.Spec.Owner),
					oracle.Needs(r.Spec.Needs))
				s.Put(t)
				running = append(running, t)
				if len(running) > 2*n {
					at := rng.IntN(len(running))
					gone := *running[at]
					gone.Rev, gone.Last = 2, cluster.TaskStopped
					s.Put(&gone)
					s.ApplyRecord(state.Record{Op: state.Remove, Old: &gone})
					running[at] = running[len(running)-1]
					running = running[:len(running)-1]
				}
			}
		})
	}
}

func BenchmarkDaemon(b *testing.B) {
	e := placement.New(large(5000))
	r := placement.Request{Spec: &placement.Spec{Needs: oracle.Small, Owner: "agent", PerInstance: 1}}
	r.Instances = e.EligibleInstances(r.Spec)
	r.Count = len(r.Instances)
	b.Run("Eligible", func(b *testing.B) {
		for b.Loop() {
			e.EligibleInstances(r.Spec)
		}
	})
	b.Run("Place", func(b *testing.B) {
		for b.Loop() {
			e.Place(r)
		}
	})
}

func BenchmarkChooseStops(b *testing.B) {
	s := large(5000)
	e := placement.New(s)
	for b.Loop() {
		e.ChooseStops(oracle.WebRequest(2500), s.TasksOf("web"))
	}
}
