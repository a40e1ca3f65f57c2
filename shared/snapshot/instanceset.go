package snapshot

import "berth/shared/cluster"

// An instanceSet holds the instances of a cluster, the capacity reserved on them, and a journal of
// what changed.
type instanceSet struct {
	Instances map[string]*InstanceView // by id
	dense     []*InstanceView
	free      []int // unused positions in dense
	statics   uint64
	provided  int // instances that belong to a capacity provider
	journal   journal
	reserved  map[string]map[*InstanceView]cluster.Resources // by owner
}

func newInstanceSet() instanceSet {
	return instanceSet{Instances: map[string]*InstanceView{},
		reserved: map[string]map[*InstanceView]cluster.Resources{}}
}

// ProvidedInstances returns how many instances belong to a capacity provider.
func (x *instanceSet) ProvidedInstances() int { return x.provided }

// InstancesByIndex returns the instances by [InstanceView.Index], nil at unused positions. The
// caller must not change the slice.
func (x *instanceSet) InstancesByIndex() []*InstanceView { return x.dense }

// viewOf returns the view of an instance. It adds one if only a task has named the instance so far:
// events of tasks may arrive before those of their instance.
func (x *instanceSet) viewOf(of *Snapshot, id string) *InstanceView {
	v := x.Instances[id]
	if v != nil {
		return v
	}
	v = &InstanceView{ID: id, snap: of, Index: len(x.dense)}
	if last := len(x.free) - 1; last >= 0 {
		v.Index, x.free = x.free[last], x.free[:last]
		x.dense[v.Index] = v
	} else {
		x.dense = append(x.dense, v)
	}
	x.Instances[id] = v
	x.markChanged(v)
	return v
}

// dropUnknown removes the view of an instance that has neither a row nor tasks.
func (x *instanceSet) dropUnknown(v *InstanceView) {
	if v.Instance == nil && len(v.Tasks) == 0 {
		delete(x.Instances, v.ID)
		x.dense[v.Index] = nil
		x.free = append(x.free, v.Index)
	}
}

// markChanged records that more than the instance's tasks changed.
func (x *instanceSet) markChanged(v *InstanceView) {
	x.statics++
	v.StaticRev = x.statics
	x.journal.addChange(v.Index, nil)
}

// Reserve keeps CPU, memory and ENIs of instances free for future tasks of an owner (S4), replacing
// what it reserved before. Placement gives reserved capacity to no task, not even to the owner's.
func (x *instanceSet) Reserve(owner string, on map[*InstanceView]cluster.Resources) {
	old, by := x.reserved[owner], &Owner{name: owner, number: -1}
	for v, was := range old {
		if on[v] != was {
			x.reserveOn(v, was, by, -1)
		}
	}
	for v, is := range on {
		if old[v] != is {
			x.reserveOn(v, is, by, 1)
		}
	}
	delete(x.reserved, owner)
	if len(on) > 0 {
		x.reserved[owner] = on
	}
}

// Reservations returns what an owner has reserved, by instance. The caller must not change the map.
func (x *instanceSet) Reservations(owner string) map[*InstanceView]cluster.Resources {
	return x.reserved[owner]
}

// reserveOn adds (sign 1) or subtracts (-1) a reservation on one instance.
func (x *instanceSet) reserveOn(v *InstanceView, what cluster.Resources, owner *Owner, sign int) {
	if v.reserved == nil {
		v.reserved = new(cluster.Resources) // few instances ever have any
	}
	v.reserved.CPU += int64(sign) * what.CPU
	v.reserved.Memory += int64(sign) * what.Memory
	v.reserved.ENIs += int32(sign) * what.ENIs
	if x.Instances[v.ID] == v {
		x.journal.addChange(v.Index, owner)
	}
}

// ChangeSeq returns the number of changes of instances so far, to be given to
// [Snapshot.ChangedSince] later.
func (x *instanceSet) ChangeSeq() uint64 { return x.journal.seq }

// ChangedSince calls f for each change after the sequence number, oldest first. index is the
// [InstanceView.Index] of the changed instance, and owner the owner of the task that changed on it.
// If owner is nil, anything may have changed: the instance's row, its limits, its loads, or that
// it is in the snapshot at all.
//
// It calls nothing and returns false if the journal no longer reaches back that far. Then every
// instance may have changed.
func (x *instanceSet) ChangedSince(seq uint64, f func(index int, owner *Owner)) bool {
	j := &x.journal
	if seq > j.seq || j.seq-seq > uint64(len(j.changes)) {
		return false
	}
	for ; seq < j.seq; seq++ {
		c := j.changes[seq%journalSize]
		f(int(c.index), c.owner)
	}
	return true
}
