package placement

import (
	"fmt"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

func newView(id string) *snapshot.InstanceView {
	return &snapshot.InstanceView{ID: id, Instance: &cluster.Instance{ID: id, Status: cluster.InstanceActive}}
}

// labelled returns columns with the ids at positions 0, 1, ...
func labelled(ids ...string) *columns {
	c := &columns{}
	for i, id := range ids {
		c.growColumns(i + 1)
		c.observeRow(i, newView(id))
	}
	return c
}

// expectOrder fails unless the labels are in the order of ids.
func expectOrder(t *testing.T, c *columns, instances int) {
	t.Helper()
	if len(c.byID) != instances {
		t.Fatalf("%d of %d instances have a label", len(c.byID), instances)
	}
	for n := range c.byID[1:] {
		i, j := c.byID[n], c.byID[n+1]
		if c.views[i].ID > c.views[j].ID || c.idLabel[i] >= c.idLabel[j] || !c.hasLowerID(i, j) || c.hasLowerID(j, i) {
			t.Fatalf("%s has label %d, %s has %d", c.views[i].ID, c.idLabel[i], c.views[j].ID, c.idLabel[j])
		}
	}
}

// A new id gets a label between those of its neighbours, which keep theirs: 30 times in one place,
// and any number of times at the end. Where no number is left between two labels, all are assigned
// again.
func TestLabelsOfIDs(t *testing.T) {
	ids := []string{"a", "c"}
	for n := range 100 { // each between "a" and the one before
		ids = append(ids, fmt.Sprintf("b%03d", 100-n))
	}
	c, again := labelled(ids[:2]...), 0
	for n, id := range ids[2:] {
		before := slices.Clone(c.idLabel)
		c.growColumns(n + 3)
		c.observeRow(n+2, newView(id))
		expectOrder(t, c, n+3)
		if !slices.Equal(before, c.idLabel[:n+2]) {
			if again++; n < 30 {
				t.Fatalf("the labels change with id %d", n)
			}
		}
	}
	if again > 3 {
		t.Errorf("labels are assigned %d times for 100 ids", again)
	}
	c, before := labelled("a"), int64(0)
	for n := range 1000 {
		before = c.idLabel[0]
		c.growColumns(n + 2)
		c.observeRow(n+1, newView(fmt.Sprintf("b%04d", n)))
		if c.idLabel[0] != before {
			t.Fatalf("the labels change with id %d at the end", n)
		}
	}
	expectOrder(t, c, 1001)
}

// A change of an instance's row changes no label, although there is room for another one.
func TestLabelsOutlastChangesOfRows(t *testing.T) {
	c := labelled("a", "d", "c", "b")
	before := slices.Clone(c.idLabel)
	for i, v := range c.views {
		v.Status = cluster.InstanceDraining
		c.observeRow(i, v)
	}
	if expectOrder(t, c, 4); !slices.Equal(before, c.idLabel) {
		t.Errorf("the labels were %d, and are %d", before, c.idLabel)
	}
}

// Until the changes of both are applied, two instances may have one id: one that left, and one that
// came back in another place.
func TestTwoInstancesOfOneID(t *testing.T) {
	for _, leaves := range []int{1, 2} {
		c := labelled("a", "b", "b", "c")
		c.observeRow(leaves, nil)
		if want := []int32{0, int32(3 - leaves), 3}; !slices.Equal(c.byID, want) {
			t.Errorf("after %d left, the order is %v, expected %v", leaves, c.byID, want)
		}
	}
}

// An index keeps its blocks small as instances come one after the other, and few as they leave.
func TestIndexFollowsGrowth(t *testing.T) {
	s := memorySnapshot(30)
	e := New(s)
	var specs []*Spec
	for n := range 4 {
		specs = append(specs, otherSpec(t, n))
	}
	check := func() {
		t.Helper()
		for _, spec := range specs {
			if got := e.Place(Request{Spec: spec, Count: 2}); len(got.Placed) != 2 {
				t.Fatalf("placed %v: %v", got.Placed, got.Diagnosis)
			}
		}
		if err := e.CheckKept(); err != nil {
			t.Fatal(err)
		}
	}
	check()
	for n := range 90 {
		s.Put(&cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: fmt.Sprintf("j-%03d", n*37%90),
			Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: int64(1+n%7) * cluster.VCPU, Memory: 8192},
			Attributes: map[string]string{cluster.AttributeZone: "0", "rack": "r"}})
		check()
	}
	for n := range 115 {
		id := fmt.Sprintf("j-%03d", n)
		if n >= 90 {
			id = fmt.Sprintf("i-%03d", n-90)
		}
		gone := *s.Instances[id].Instance
		gone.Rev, gone.Status = 2, cluster.InstanceInactive
		s.Put(&gone)
		check()
	}
	for n := range 60 { // they come back, and use the memory of those that left
		back := *s.Instances[fmt.Sprintf("j-%03d", n)].Instance
		back.Rev, back.Status = 3, cluster.InstanceActive
		s.Put(&back)
		check()
	}
}

// Blocks of an index in which no instance has room are not looked at: of 2000 instances, of which one
// has room, no more are checked than a block has.
func TestBlocksWithoutRoomAreSkipped(t *testing.T) {
	s := memorySnapshot(2000)
	for n := range 2000 {
		if n == 1234 {
			continue
		}
		full := putTask(s, fmt.Sprint("t", n), "other", fmt.Sprintf("i-%03d", n))
		more := *full
		more.Rev, more.Needs = 2, cluster.Resources{CPU: 4 * cluster.VCPU, Memory: 8192}
		s.Put(&more)
	}
	e := New(s)
	r := Request{Spec: &Spec{Owner: "web", Scoring: BestFit, Needs: cluster.Resources{CPU: cluster.VCPU, Memory: 1}},
		Count: 1}
	got := e.Place(r)
	if len(got.Placed) != 1 || got.Placed[0].Instance != "i-1234" || e.InstanceVisits() > maxBlock {
		t.Errorf("placed %v after %d checks", got.Placed, e.InstanceVisits())
	}
}
