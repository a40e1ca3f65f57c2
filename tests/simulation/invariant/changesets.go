package invariant

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// announcements checks that change sets have every task which placement lets wait or places: whoever
// applies the sets of all batches up to a placement version knows the tasks of that version.
type announcements struct {
	batch   int64 // of the last set in sequence
	version int64
	// later are the sets that came before an earlier batch's.
	later map[int64]*state.ChangeSet
	// open are tasks that no set in sequence has had, with the placement version that came with them.
	open map[state.Key]int64
}

// maxMissing is how many batches may end before an earlier one. If more do, that has been cut off.
const maxMissing = 2

// checkChangeSets applies the records of one commit.
func (c *Checker) checkChangeSets(records []state.Record) {
	a := &c.announced
	var version int64
	for _, r := range records {
		if meta, ok := r.New.(*state.Meta); ok {
			version = meta.Version
		}
	}
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Task:
			old, _ := r.Old.(*cluster.Task)
			if version > 0 && (old == nil || old.Instance != row.Instance) {
				a.open[r.Key] = version
			}
		case *state.ChangeSet:
			if row.Batch > a.batch { // otherwise it comes too late for who reads on from here
				a.later[row.Batch] = row
			}
		}
	}
	for len(a.later) > 0 {
		set := a.later[a.batch+1]
		if set == nil && len(a.later) <= maxMissing {
			return
		}
		if set == nil || set.Omitted {
			a.restart()
			return
		}
		delete(a.later, set.Batch)
		a.batch, a.version = set.Batch, max(a.version, set.Version)
		c.checkChangeSet(set)
	}
}

// restart begins anew, as a reader does who reads everything.
func (a *announcements) restart() {
	for batch := range a.later {
		a.batch = max(a.batch, batch)
	}
	clear(a.later)
	clear(a.open)
}

func (c *Checker) checkChangeSet(set *state.ChangeSet) {
	changes, err := set.Unpack()
	if err != nil {
		c.Fail("the change set of batch %d: %v", set.Batch, err)
		return
	}
	for _, change := range changes {
		delete(c.announced.open, change.Key)
	}
	var missing []string
	for key, version := range c.announced.open {
		if version <= c.announced.version {
			missing = append(missing, key.Sort)
			delete(c.announced.open, key)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		c.Fail("no change set up to batch %d, which ended at placement version %d, has %v", set.Batch, set.Version, missing)
	}
}
