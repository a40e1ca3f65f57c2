package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"berth/shared/cluster"
)

// Zone is an availability zone with the instances that are in the cluster: known and not gone.
// Instances without a zone share the one that has no name.
type Zone struct {
	Name      string
	Instances []*InstanceView // in order of id
}

// TaskSpread is where the tasks of one owner are that count for spreading (S2): those with an instance
// that have not ended, are not being stopped and have no replacement on an instance yet
// ([Task.Replaces]): the two are one. Zones leaves out tasks on instances that are unknown or gone.
type TaskSpread struct {
	instances map[int32]int32 // by InstanceView.Index
	Zones     map[string]int  // by zone name
	// ending are those that hold capacity but do not count, by InstanceView.Index.
	ending map[int32]int32
}

// On is how many of the tasks are on the instance; 0 for no instance.
func (c TaskSpread) On(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.instances[int32(v.Index)])
}

// Ending is how many of the owner's tasks hold capacity of the instance and do not count; 0 for no
// instance.
func (c TaskSpread) Ending(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.ending[int32(v.Index)])
}

// Spread is how many instances have any of the tasks.
func (c TaskSpread) Spread() int { return len(c.instances) }

// ownerSpread are those of one owner: of all its tasks, and by group where they are in several. A
// service's tasks are all in one.
type ownerSpread struct {
	all    TaskSpread
	group  string                 // of all tasks, while groups is nil
	groups map[string]*TaskSpread // nil while there is only one
}

// A zoneSet holds the availability zones of a cluster.
type zoneSet struct{ zones []*Zone }

// Zones are the cluster's zones, in order of name, kept up to date as rows come in: whoever looks
// at all instances need not sort them. The caller changes nothing.
func (x *zoneSet) Zones() []*Zone { return x.zones }

// SpreadOf is where the tasks of an owner are, or where group is not empty, those of its tasks that
// are in the group. The caller changes nothing.
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

// Zone is the instance's availability zone; empty when it has none, is unknown or gone.
func (v *InstanceView) Zone() string {
	if v.zone == nil {
		return ""
	}
	return v.zone.Name
}

// updateZone moves the instance to the zone that its row names now, and its tasks' counts with it.
func (s *Snapshot) updateZone(v *InstanceView) {
	in := v.Instance != nil && !v.IsDeregistered()
	if in && v.zone != nil && v.zone.Name == v.Instance.Zone() || !in && v.zone == nil {
		return
	}
	for _, t := range v.Tasks {
		o := s.owners[t.Owner]
		o.spread.count(t, v, o.countsForSpread(t), -1)
	}
	s.removeFromZone(v)
	if in {
		s.addToZone(v, v.Instance.Zone())
	}
	for _, t := range v.Tasks {
		o := s.owners[t.Owner]
		o.spread.count(t, v, o.countsForSpread(t), 1)
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

// removeFromZone takes an instance out of its zone, which goes with its last instance.
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

// count counts a task that the instance holds in (1) or out (-1), for all and for its group.
func (c *ownerSpread) count(t *cluster.Task, v *InstanceView, counts bool, sign int) {
	if c.all.isEmpty() {
		c.group, c.groups = t.Group, nil
	}
	if c.groups == nil && c.group != t.Group {
		c.groups = map[string]*TaskSpread{c.group: {maps.Clone(c.all.instances), maps.Clone(c.all.Zones),
			maps.Clone(c.all.ending)}}
	}
	c.all.count(v, counts, sign)
	if c.groups == nil {
		return
	}
	g := c.groups[t.Group]
	if g == nil {
		g = &TaskSpread{}
		c.groups[t.Group] = g
	}
	if g.count(v, counts, sign); g.isEmpty() {
		delete(c.groups, t.Group)
	}
}

func (c *TaskSpread) isEmpty() bool { return len(c.instances) == 0 && len(c.ending) == 0 }

func (c *TaskSpread) count(v *InstanceView, counts bool, sign int) {
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

func addCount[K comparable, N int | int32](m map[K]N, key K, sign N) {
	if m[key] += sign; m[key] == 0 {
		delete(m, key)
	}
}
