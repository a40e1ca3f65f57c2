package cluster

import (
	"cmp"
	"slices"
)

// Zone is an availability zone with the instances that are in the cluster: known and not gone. Instances without a
// zone share the one that has no name.
type Zone struct {
	Name      string
	Instances []*InstanceView // in order of id
}

// Crowd is where the tasks of one owner are that count for spreading (S2): those with an instance that have not ended
// and are not being stopped. Zones leaves out tasks on instances that are unknown or gone.
type Crowd struct {
	Instances map[string]int // by instance id
	Zones     map[string]int // by zone name
}

type crowdKey struct{ owner, group string }

// Zones are the cluster's zones, in order of name, kept up to date as rows come in: whoever looks at all instances
// need not sort them. The caller changes nothing.
func (s *Snapshot) Zones() []*Zone { return s.zones }

// Crowd is where the tasks of an owner are, or where group is not empty, those of its tasks that are in the group.
// The caller changes nothing.
func (s *Snapshot) Crowd(owner, group string) Crowd { return s.crowds[crowdKey{owner, group}] }

// Zone is the instance's availability zone; empty when it has none, is unknown or gone.
func (v *InstanceView) Zone() string {
	if v.zone == nil {
		return ""
	}
	return v.zone.Name
}

// settle moves the instance to the zone that its row names now, and its tasks' counts with it.
func (s *Snapshot) settle(v *InstanceView) {
	in := v.Instance != nil && !v.Gone()
	if in && v.zone != nil && v.zone.Name == v.Instance.Zone() || !in && v.zone == nil {
		return
	}
	for _, t := range v.Tasks {
		s.crowd(t, v, -1)
	}
	s.leave(v)
	if in {
		s.enter(v, v.Instance.Zone())
	}
	for _, t := range v.Tasks {
		s.crowd(t, v, 1)
	}
}

func (s *Snapshot) enter(v *InstanceView, name string) {
	at, found := slices.BinarySearchFunc(s.zones, name, byName)
	if !found {
		s.zones = slices.Insert(s.zones, at, &Zone{Name: name})
	}
	v.zone = s.zones[at]
	i, _ := slices.BinarySearchFunc(v.zone.Instances, v.ID, byID)
	v.zone.Instances = slices.Insert(v.zone.Instances, i, v)
}

func (s *Snapshot) leave(v *InstanceView) {
	z := v.zone
	if z == nil {
		return
	}
	v.zone = nil
	i, _ := slices.BinarySearchFunc(z.Instances, v.ID, byID)
	z.Instances = slices.Delete(z.Instances, i, i+1)
	if len(z.Instances) == 0 {
		at, _ := slices.BinarySearchFunc(s.zones, z.Name, byName)
		s.zones = slices.Delete(s.zones, at, at+1)
	}
}

func byName(z *Zone, name string) int     { return cmp.Compare(z.Name, name) }
func byID(v *InstanceView, id string) int { return cmp.Compare(v.ID, id) }

// crowd counts a task that the instance holds in (1) or out (-1), for its owner and for its group.
func (s *Snapshot) crowd(t *Task, v *InstanceView, sign int) {
	if !t.Active() {
		return
	}
	s.count(crowdKey{t.Owner, ""}, v, sign)
	if t.Group != "" {
		s.count(crowdKey{t.Owner, t.Group}, v, sign)
	}
}

func (s *Snapshot) count(key crowdKey, v *InstanceView, sign int) {
	c, ok := s.crowds[key]
	if !ok {
		c = Crowd{Instances: map[string]int{}, Zones: map[string]int{}}
		s.crowds[key] = c
	}
	tally(c.Instances, v.ID, sign)
	if v.zone != nil {
		tally(c.Zones, v.zone.Name, sign)
	}
	if len(c.Instances) == 0 {
		delete(s.crowds, key)
	}
}

func tally(m map[string]int, key string, sign int) {
	if m[key] += sign; m[key] == 0 {
		delete(m, key)
	}
}
