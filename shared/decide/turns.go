package decide

import (
	"slices"
	"time"

	"berth/shared/snapshot"
	"berth/shared/state"
)

// SweepGeneration marks the due rows of a sweep, which have placement rely on nothing that it remembers.
const SweepGeneration = -1

// quickTurn is how soon a due row has to come for its chain to count: one that comes each minute costs next to nothing.
const quickTurn = time.Minute

// Turns carries generations on: a due row that a decision writes for what has just fallen due, and for which it starts
// and stops nothing, is one hop further. It gives the longest such chain.
func Turns(records []state.Record, chain []state.Commit, snap *snapshot.Snapshot, now time.Time) (most int) {
	type subject struct {
		kind state.DueKind
		name string
	}
	fallen := map[subject]int{}
	for _, r := range records {
		if due, ok := r.Old.(*state.Due); ok && r.Op == state.Remove {
			s := subject{due.Kind, due.Subject}
			fallen[s] = max(fallen[s], due.Generation, 0)
		}
	}
	for _, c := range chain {
		for _, w := range c.Writes {
			due, ok := w.Put.(*state.Due)
			if !ok {
				continue
			}
			hops, again := fallen[subject{due.Kind, due.Subject}]
			if again && due.At.Sub(now) < quickTurn && !acts(chain, ownerOf(due, snap)) {
				due.Generation = hops + 1
				most = max(most, due.Generation)
			}
		}
	}
	return most
}

// ownerOf is the short key of the due row's service, empty where it is of none: whatever is done is progress then.
func ownerOf(due *state.Due, snap *snapshot.Snapshot) string {
	if s := snap.Services[due.Subject]; s != nil && due.Kind == state.DueService {
		return s.Short
	}
	return ""
}

// acts reports whether the commits start or stop a task of the owner; of any where that is empty.
func acts(chain []state.Commit, owner string) bool {
	for _, c := range chain {
		for _, w := range c.Writes {
			o, ok := w.Put.(*state.Outbox)
			if ok && (owner == "" || o.Owner == owner || slices.ContainsFunc(o.Stops, func(s state.StopItem) bool { return s.Owner == owner })) {
				return true
			}
		}
	}
	return false
}
