package decide

import (
	"slices"
	"time"

	"berth/shared/decide/plan"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// SweepGeneration marks the due rows that a sweep writes. Placement loads its snapshot anew when
// one falls due.
const SweepGeneration = -1

// idleGap is how soon a due row has to come back to count as an idle hop. One that comes back each
// minute costs next to nothing.
const idleGap = time.Minute

// CountIdleHops numbers the due rows in the commits that only repeat what has just fallen due: the
// decision starts and stops nothing for the subject and sets its timer again. Each such row gets a
// generation of one more than the row that fell due. It returns the highest, the length of the
// longest cycle without progress.
func CountIdleHops(records []state.Record, commits []state.Commit, snap *snapshot.Snapshot, now time.Time) (most int) {
	fallen := map[plan.Timer]int{}
	for _, r := range records {
		if due, ok := r.Old.(*state.Due); ok && r.Op == state.Remove {
			timer := plan.Timer{Kind: due.Kind, Subject: due.Subject}
			fallen[timer] = max(fallen[timer], due.Generation, 0)
		}
	}
	for _, c := range commits {
		for _, w := range c.Writes {
			due, ok := w.Put.(*state.Due)
			if !ok {
				continue
			}
			hops, repeats := fallen[plan.Timer{Kind: due.Kind, Subject: due.Subject}]
			if repeats && due.At.Sub(now) < idleGap && !makesProgress(commits, ownerOf(due, snap)) {
				due.Generation = hops + 1
				most = max(most, due.Generation)
			}
		}
	}
	return most
}

// ownerOf returns the short key of the due row's service. It is empty for other subjects: for these
// any start or stop is progress.
func ownerOf(due *state.Due, snap *snapshot.Snapshot) string {
	if s := snap.Services[due.Subject]; s != nil && due.Kind == state.DueService {
		return s.Short
	}
	return ""
}

// makesProgress reports whether the commits start or stop a task of the owner, or of any owner if
// it is empty.
func makesProgress(commits []state.Commit, owner string) bool {
	for _, c := range commits {
		for _, w := range c.Writes {
			o, ok := w.Put.(*state.Outbox)
			if ok && (owner == "" || o.Owner == owner ||
				slices.ContainsFunc(o.Stops, func(s state.StopItem) bool { return s.Owner == owner })) {
				return true
			}
		}
	}
	return false
}
