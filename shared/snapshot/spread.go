package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// A Zone is an availability zone with its instances: those that have a row and are not
// deregistered. Instances without a zone share the one whose name is empty.
type Zone struct {
	Name      string
	Instances []*InstanceView // sorted by id
}

// A TaskSpread says where the tasks of one owner are that count for spreading (S2): those on an
// instance that have not ended, are not being stopped, and have no replacement on an instance yet.
// Zones leaves out tasks on instances that are unknown or deregistered.
type TaskSpread struct {
	instances map[int32]int32 // by InstanceView.Index
	Zones     map[string]int  // by zone name
	// ending counts the tasks that hold capacity but do not count, by InstanceView.Index
	ending map[int32]int32
}

// TasksOn returns how many of the tasks are on the instance, which may be nil.
func (c TaskSpread) TasksOn(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.instances[int32(v.Index)])
}

// EndingOn returns how many of the owner's tasks hold capacity of the instance, which may be nil,
// and do not count for spreading.
func (c TaskSpread) EndingOn(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.ending[int32(v.Index)])
}

// InstanceCount returns how many instances have any of the tasks.
func (c TaskSpread) InstanceCount() int { return len(c.instances) }

// An ownerSpread has the spread of all tasks of an owner, and that of each group if they are in
// several. A service's tasks are all in one group; standalone tasks need not be.
type ownerSpread struct {
	all    TaskSpread
	group  string                 // group of all tasks while groups is nil
	groups map[string]*TaskSpread // nil while there is only one group
}

// A zoneSet holds the availability zones of a cluster.
type zoneSet struct{ zones []*Zone }

// Zones returns the cluster's zones sorted by name. They are kept up to date as rows come in, so
// readers need not sort instances. The caller must not change the slice.
func (x *zoneSet) Zones() []*Zone { return x.zones }

// SpreadOf returns the spread of an owner's tasks, or if group is not empty, of those in the group.
// The caller must not change its maps.
func (x *taskSet) SpreadOf(owner, group string) TaskSpread {
	o := x.owners[owner]
	switch {
	case o == nil:
		return TaskSpread{}
	case group == "" || o.spread.groups == nil && group == o.spread.group:
		return o.spread.all
	}
	if c := o.spread.groups[group]; c != nil {
		return *c
	}
	return TaskSpread{}
}

// Zone returns the instance's availability zone. It is empty if the instance has none, is unknown
// or is deregistered.
func (v *InstanceView) Zone() string {
	if v.zone == nil {
		return ""
	}
	return v.zone.Name
}

// updateZone moves the instance, and the counts of its tasks, to the zone that its row names.
func (s *Snapshot) updateZone(v *InstanceView) {
	in := v.Instance != nil && !v.IsDeregistered()
	if in && v.zone != nil && v.zone.Name == v.Instance.Zone() || !in && v.zone == nil {
		return
	}
	for _, t := range v.Tasks {
		o := s.owners[t.Owner]
		o.spread.countTask(t, v, o.countsForSpread(t), -1)
	}
	s.removeFromZone(v)
	if in {
		s.addToZone(v, v.Instance.Zone())
	}
	for _, t := range v.Tasks {
		o := s.owners[t.Owner]
		o.spread.countTask(t, v, o.countsForSpread(t), 1)
	}
}

// addToZone adds an instance to the zone with the name.
func (x *zoneSet) addToZone(v *InstanceView, name string) {
	at, found := slices.BinarySearchFunc(x.zones, name, compareZoneName)
	if !found {
		x.zones = slices.Insert(x.zones, at, &Zone{Name: name})
	}
	v.zone = x.zones[at]
	i, _ := slices.BinarySearchFunc(v.zone.Instances, v.ID, compareInstanceID)
	v.zone.Instances = slices.Insert(v.zone.Instances, i, v)
}

// removeFromZone removes an instance from its zone, and the zone with its last instance.
func (x *zoneSet) removeFromZone(v *InstanceView) {
	z := v.zone
	if z == nil {
		return
	}
	v.zone = nil
	i, _ := slices.BinarySearchFunc(z.Instances, v.ID, compareInstanceID)
	z.Instances = slices.Delete(z.Instances, i, i+1)
	if len(z.Instances) == 0 {
		at, _ := slices.BinarySearchFunc(x.zones, z.Name, compareZoneName)
		x.zones = slices.Delete(x.zones, at, at+1)
	}
}

func compareZoneName(z *Zone, name string) int         { return cmp.Compare(z.Name, name) }
func compareInstanceID(v *InstanceView, id string) int { return cmp.Compare(v.ID, id) }

// countsForSpread reports whether a task that holds capacity counts for spreading.
func (o *owner) countsForSpread(t *cluster.Task) bool { return t.IsActive() && o.replaced[t.ID] == 0 }

// countTask adds (sign 1) or subtracts (-1) a task on the instance, for all tasks and for its
// group. counts says whether the task counts for spreading.
func (c *ownerSpread) countTask(t *cluster.Task, v *InstanceView, counts bool, sign int) {
	if c.all.isEmpty() {
		c.group, c.groups = t.Group, nil
	}
	if c.groups == nil && c.group != t.Group {
		c.groups = map[string]*TaskSpread{c.group: {maps.Clone(c.all.instances), maps.Clone(c.all.Zones),
			maps.Clone(c.all.ending)}}
	}
	c.all.countTask(v, counts, sign)
	if c.groups == nil {
		return
	}
	g := c.groups[t.Group]
	if g == nil {
		g = &TaskSpread{}
		c.groups[t.Group] = g
	}
	if g.countTask(v, counts, sign); g.isEmpty() {
		delete(c.groups, t.Group)
	}
}

func (c *TaskSpread) isEmpty() bool { return len(c.instances) == 0 && len(c.ending) == 0 }

func (c *TaskSpread) countTask(v *InstanceView, counts bool, sign int) {
	if !counts {
		if c.ending == nil {
			c.ending = map[int32]int32{}
		}
		addCount(c.ending, int32(v.Index), int32(sign))
		return
	}
	if c.instances == nil {
		c.instances, c.Zones = map[int32]int32{}, map[string]int{}
	}
	addCount(c.instances, int32(v.Index), int32(sign))
	if v.zone != nil {
		addCount(c.Zones, v.zone.Name, sign)
	}
}

// addCount adds to a count, and removes it when it becomes 0.
func addCount[K comparable, N int | int32](m map[K]N, key K, sign N) {
	if m[key] += sign; m[key] == 0 {
		delete(m, key)
	}
}
