package invariant

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A changeSetReader reads change sets as managed scaling does, and checks that those of all batches up to
// a placement version have each task that was written with that version: one that waits, was placed, or
// is to stop.
type changeSetReader struct {
	createdAt time.Time // of the cluster
	batch     int64     // of the last set in sequence
	version   int64
	// later are the sets that came before an earlier batch's.
	later map[int64]*state.ChangeSet
	// open are tasks that no set in sequence has had, with the placement version that came with them.
	open map[state.Key]int64
}

// maxMissing is how many batches may end before an earlier one. If more do, that has been cut off.
const maxMissing = 2

// checkChangeSets applies the records of one commit.
func (c *Checker) checkChangeSets(records []state.Record) {
	a := &c.changeSets
	var version int64
	for _, r := range records {
		if meta, ok := r.New.(*state.Meta); ok {
			version = meta.Version
			if !meta.CreatedAt.Equal(a.createdAt) {
				*a = changeSetReader{
					createdAt: meta.CreatedAt, later: map[int64]*state.ChangeSet{}, open: map[state.Key]int64{},
				}
			}
		}
	}
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Task:
			old, _ := r.Old.(*cluster.Task)
			if version > 0 && (old == nil || old.Instance != row.Instance || old.Desired != row.Desired) {
				a.open[r.Key] = version
			}
		case *state.ChangeSet:
			if row.Batch > a.batch && row.ClusterCreatedAt.Equal(a.createdAt) { // or it comes too late
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
func (a *changeSetReader) restart() {
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
		delete(c.changeSets.open, change.Key)
	}
	var missing []string
	for key, version := range c.changeSets.open {
		if version <= c.changeSets.version {
			missing = append(missing, key.Sort)
			delete(c.changeSets.open, key)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		c.Fail("no change set up to batch %d, which ended at placement version %d, has %v", set.Batch, set.Version, missing)
	}
}
