package snapshot

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/tally"
)

// A Zone is an availability zone with its instances: those that have a row and are not
// deregistered. Instances without a zone share the one whose name is empty.
type Zone struct {
	Name      string
	Instances []*InstanceView // sorted by id
}

// A TaskSpread says where the tasks of one owner are that count for spreading (S2): those on an
// instance that have not ended, are not being stopped, and have no replacement on an instance yet.
type TaskSpread struct {
	instances tally.Counts // by InstanceView.Index
	// ending counts the tasks that hold capacity but do not count, by InstanceView.Index.
	ending tally.Counts
	// zones leaves out tasks on instances that are unknown or deregistered. There are few.
	zones []zoneCount
}

// A zoneCount is the number of tasks in a zone.
type zoneCount struct {
	name  string
	tasks int
}

// noTasks is the spread of an owner that has none.
var noTasks TaskSpread

// TasksOn returns how many of the tasks are on the instance, which may be nil.
func (c *TaskSpread) TasksOn(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.instances.Of(int32(v.Index)))
}

// EndingOn returns how many of the owner's tasks hold capacity of the instance, which may be nil,
// and do not count for spreading.
func (c *TaskSpread) EndingOn(v *InstanceView) int {
	if v == nil {
		return 0
	}
	return int(c.ending.Of(int32(v.Index)))
}

// InstanceCount returns how many instances have any of the tasks.
func (c *TaskSpread) InstanceCount() int { return c.instances.Len() }

// Zones returns the number of tasks by zone name, without those on instances that are unknown or
// deregistered.
func (c *TaskSpread) Zones() map[string]int {
	out := make(map[string]int, len(c.zones))
	for _, z := range c.zones {
		out[z.name] = z.tasks
	}
	return out
}

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
func (x *taskSet) SpreadOf(owner, group string) *TaskSpread { return x.owners[owner].SpreadOf(group) }

// SpreadOf is the snapshot's SpreadOf for the owner, which may be nil.
func (o *Owner) SpreadOf(group string) *TaskSpread {
	switch {
	case o == nil:
		return &noTasks
	case group == "" || o.spread.groups == nil && group == o.spread.group:
		return &o.spread.all
	}
	if c := o.spread.groups[group]; c != nil {
		return c
	}
	return &noTasks
}

// DeploymentTasksOn returns how many tasks of a deployment are on the instance, of those that count
// for spreading. The owner and the instance may be nil.
func (o *Owner) DeploymentTasksOn(v *InstanceView, deployment string) (n int) {
	if o == nil || v == nil || o.spread.all.TasksOn(v) == 0 {
		return 0
	}
	for _, t := range v.Tasks {
		if t.Owner == o.name && t.Revision == deployment && o.countsForSpread(t) {
			n++
		}
	}
	return n
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
func (o *Owner) countsForSpread(t *cluster.Task) bool { return t.IsActive() && o.replaced[t.ID] == 0 }

// countTask adds (sign 1) or subtracts (-1) a task on the instance, for all tasks and for its
// group. counts says whether the task counts for spreading.
func (c *ownerSpread) countTask(t *cluster.Task, v *InstanceView, counts bool, sign int) {
	if c.all.isEmpty() {
		c.group, c.groups = t.Group, nil
	}
	if c.groups == nil && c.group != t.Group {
		c.groups = map[string]*TaskSpread{c.group: {c.all.instances.Clone(), c.all.ending.Clone(),
			slices.Clone(c.all.zones)}}
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

func (c *TaskSpread) isEmpty() bool { return c.instances.Len() == 0 && c.ending.Len() == 0 }

func (c *TaskSpread) countTask(v *InstanceView, counts bool, sign int) {
	if !counts {
		c.ending.Add(int32(v.Index), int32(sign))
		return
	}
	c.instances.Add(int32(v.Index), int32(sign))
	if v.zone != nil {
		c.countInZone(v.zone.Name, sign)
	}
}

// countInZone adds to the count of a zone, and removes it when it becomes 0.
func (c *TaskSpread) countInZone(name string, sign int) {
	at := slices.IndexFunc(c.zones, func(z zoneCount) bool { return z.name == name })
	if at < 0 {
		at = len(c.zones)
		c.zones = append(c.zones, zoneCount{name: name})
	}
	if c.zones[at].tasks += sign; c.zones[at].tasks == 0 {
		c.zones = slices.Delete(c.zones, at, at+1)
	}
}

// addCount adds to a count, and removes it when it becomes 0.
func addCount(m map[string]int, key string, sign int) {
	if m[key] += sign; m[key] == 0 {
		delete(m, key)
	}
}
