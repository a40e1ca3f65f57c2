package decide

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/service"
	"berth/shared/state"
)

// A serviceDraft is a service's next row while it is being decided, with the events and rows that
// are written together with it.
type serviceDraft struct {
	row    *cluster.Service
	stored *cluster.Service // as last read or written
	events []service.Event
	// counted are failed starts that the row now includes. emitted are registrations that the
	// events report.
	counted []*cluster.Task
	emitted []*cluster.Target
	// zonesWait is set if zone rebalancing waits for the next decision.
	zonesWait bool
	// started is the outcome of the starts.
	started startResult
	// after are the events of the plan that come after those of its stops and starts.
	after []service.Event
}

// maxMarked is the most events, and the most rows of a kind, that are written in one commit with
// the service's row.
const maxMarked = 30

// rowsPerService counts the service's own row, its service deployment's, an outbox row and a few
// service events.
const rowsPerService = 6

func newDraft(stored, next *cluster.Service) *serviceDraft {
	return &serviceDraft{row: new(*next), stored: stored}
}

// rowsNeeded returns how many rows a commit must have left for the service's row and what goes with
// it. More events than [maxMarked] are written in commits of their own before the row.
func (d *serviceDraft) rowsNeeded() int {
	return rowsPerService + min(len(d.events)+len(d.after), maxMarked) + len(d.counted) + min(len(d.emitted), maxMarked)
}

// isChanged reports whether the row has to be written: it differs from what is stored, or there are
// events.
func (d *serviceDraft) isChanged() bool {
	now, old := *d.row, *d.stored
	now.Head, old.Head = cluster.Head{}, cluster.Head{}
	return len(d.events)+len(d.counted)+len(d.emitted) > 0 || !reflect.DeepEqual(now, old)
}

// addMessage appends an event that only DescribeServices shows.
func (d *serviceDraft) addMessage(message string) {
	d.events = append(d.events, service.Event{Message: message})
}

// emitOnce appends an event unless it was emitted under the same key within the last hours.
func (d *serviceDraft) emitOnce(key string, now time.Time, e service.Event) {
	if service.MarkEmitted(d.row, key, now) {
		d.events = append(d.events, e)
	}
}

// keepPlacementKeys removes the event keys about placing except these, because the cause of the
// others is over.
func (d *serviceDraft) keepPlacementKeys(keys ...string) {
	kept := maps.Clone(d.row.EmittedKeys)
	maps.DeleteFunc(kept, func(key string, _ time.Time) bool {
		return strings.HasPrefix(key, service.PlacementKeyPrefix) && !slices.Contains(keys, key)
	})
	if len(kept) == 0 {
		kept = nil
	}
	d.row.EmittedKeys = kept
}

// writeDraft writes the service's row, its new events and the rows that go with it into the open
// commit, and continues the draft from there. If events and marks are too many for one commit, the
// first ones are written in commits before it. That is safe: until the row counts an event, the
// next event takes the same place in the ring.
//
// The row has the whole outcome of the plan, so all of the plan's events are written with it, even if more
// starts follow: if these are cut off, no later plan repeats the events.
func writeDraft(view *clusterView, commits *plan.Builder, draft *serviceDraft) {
	draft.events, draft.after = append(draft.events, draft.after...), nil
	next := *draft.row
	if commits.IsWriting(&next) {
		commits.CloseCommit()
	}
	for len(draft.emitted) > maxMarked {
		markEmitted(commits, draft.emitted[:maxMarked])
		draft.emitted = draft.emitted[maxMarked:]
	}
	for len(draft.events) > maxMarked {
		commits.KeepTogether(maxMarked + 1)
		writeEvents(view, commits, &next, draft.events[:maxMarked])
		draft.events = draft.events[maxMarked:]
	}
	commits.KeepTogether(draft.rowsNeeded())
	markCounted(commits, draft.counted)
	markEmitted(commits, draft.emitted)
	writeEvents(view, commits, &next, draft.events)
	if now, old := next.Release, draft.stored.Release; now != nil &&
		(old == nil || old.ID != now.ID || old.Status != now.Status) {
		commits.AddWrite(state.Write{Any: true, Put: &cluster.ServiceDeployment{
			Head:    cluster.Head{Cluster: next.Cluster, Expires: view.now.Add(KeepHistory).Unix()},
			Service: next.Name, Short: next.Short, Release: *now, Configuration: next.DeploymentConfiguration(),
		}})
	}
	next.Rev++
	next.Stamp = 0
	commits.PutRow(&next)
	draft.row, draft.stored = new(next), new(next) // the row in the commit must not change any more
	draft.events, draft.counted, draft.emitted = nil, nil, nil
}

// writeManyCounted marks failed starts as counted until few enough are left to be written with the
// draft. Each of its commits also writes the service's row, with those of the PRIMARY deployment added.
func writeManyCounted(commits *plan.Builder, draft *serviceDraft) {
	for len(draft.counted) > maxMarked {
		row := *draft.stored
		marked := draft.counted[:maxMarked]
		for _, t := range marked {
			if t.Revision == row.Deployment.ID {
				row.Deployment.Failed++
			}
		}
		commits.KeepTogether(maxMarked + 1)
		markCounted(commits, marked)
		row.Rev++
		row.Stamp = 0
		commits.PutRow(&row)
		commits.CloseCommit()
		draft.stored, draft.row.Rev = new(row), row.Rev
		draft.counted = draft.counted[maxMarked:]
	}
}

// markCounted marks failed starts as counted.
func markCounted(commits *plan.Builder, failures []*cluster.Task) {
	for _, t := range failures {
		next := *t
		next.Counted, next.Rev = true, t.Rev+1
		commits.PutRow(&next)
	}
}

// markEmitted marks registrations whose outcome the service's events have.
func markEmitted(commits *plan.Builder, targets []*cluster.Target) {
	for _, t := range targets {
		next := *t
		next.Rev++
		for _, r := range t.Registrations {
			switch r.State {
			case cluster.Registered, cluster.RegistrationFailed:
				next.RegistrationEmitted = true
			case cluster.Deregistered:
				next.RegistrationEmitted, next.DrainEmitted = true, true
			}
		}
		commits.KeepTogether(1)
		commits.PutRow(&next)
	}
}
