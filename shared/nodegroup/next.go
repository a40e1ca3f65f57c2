package nodegroup

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/shared/cluster"
)

const (
	// lookInterval is how often Next is called. No event reports changes of an Auto Scaling group.
	lookInterval = time.Minute
	// pauseAfter is the time without a call after which all waits are extended by the gap.
	// Nothing could be replaced in it, so it must not make anything fail (static stability).
	pauseAfter = 5 * time.Minute
	// maxSteps is more than the steps that an update can take in one call. Should it ever be less, the next call goes on.
	maxSteps = 100
)

// Next takes an update as far as it can go now, and returns what must be done for it to go on (N1 to N7).
// The result is the same pointer if nothing has changed, and otherwise a new row, to be written before anything is done.
// An update that has ended needs nothing done.
func Next(u *cluster.Update, g Group, instances []Instance, now time.Time) (*cluster.Update, []Action) {
	if u.Ended() {
		return u, nil
	}
	next := clone(u)
	v := newView(next, g, instances, now)
	pauseWaits(&next.UpdateProgress, &next.NodeReplacement, now)
	recordUserMaximum(next, g.Max)
	maps.DeleteFunc(next.Refused, func(id, _ string) bool { return v.byID[id] == nil })
	for range maxSteps {
		before := clone(next)
		phases[next.Phase].advance(next, v).apply(next, v)
		if next.Ended() || reflect.DeepEqual(before, next) {
			break
		}
		v = newView(next, g, instances, now) // which nodes are up to date may have changed
	}
	var actions []Action
	next.Waiting = ""
	if !next.Ended() {
		actions = phases[next.Phase].actions(next, v)
		recordOwnMaxima(next, actions)
		next.Waiting = phases[next.Phase].waitingFor(next, v)
	}
	if reflect.DeepEqual(u, next) {
		return u, actions
	}
	return next, actions
}

func clone(u *cluster.Update) *cluster.Update {
	c := *u
	c.Errors, c.Work = slices.Clone(u.Errors), slices.Clone(u.Work)
	c.Unready, c.Sick = slices.Clone(u.Unready), slices.Clone(u.Sick)
	c.Maxima, c.Refused = slices.Clone(u.Maxima), maps.Clone(u.Refused)
	c.Kept, c.Blocked, c.Abandoned = slices.Clone(u.Kept), slices.Clone(u.Blocked), slices.Clone(u.Abandoned)
	return &c
}

// phase is one stage of an update.
type phase interface {
	// advance takes the update one step further. It changes what the phase remembers, and returns where the update goes.
	advance(u *cluster.Update, v *view) transition
	// actions returns what must be done for the phase to go on.
	actions(u *cluster.Update, v *view) []Action
	// waitingFor says what the phase waits for; empty while it waits only for its own actions to take effect.
	waitingFor(u *cluster.Update, v *view) string
}

var phases = map[cluster.UpdatePhase]phase{
	cluster.PhaseSetup:     setupPhase{},
	cluster.PhaseScaleUp:   scaleUpPhase{},
	cluster.PhaseUpgrade:   upgradePhase{},
	cluster.PhaseScaleDown: scaleDownPhase{},
	cluster.PhaseRestore:   scaleDownPhase{},
}

// transition is where an update goes from a phase. The zero value stays.
type transition struct {
	enter  cluster.UpdatePhase
	errors []cluster.UpdateError // not empty: the update fails
	end    cluster.UpdateStatus
}

var stay transition

func enter(p cluster.UpdatePhase) transition { return transition{enter: p} }

func failWith(errors ...cluster.UpdateError) transition { return transition{errors: errors} }

func (t transition) apply(u *cluster.Update, v *view) {
	switch {
	case len(t.errors) > 0:
		failUpdate(u, v, t.errors...)
	case t.end != "":
		endUpdate(u, v.group.Sizes, t.end, v.now)
	case t.enter != "":
		if t.enter == cluster.PhaseUpgrade {
			u.Nodes = v.countInService()
		}
		enterPhase(u, t.enter)
	}
}

func enterPhase(u *cluster.Update, p cluster.UpdatePhase) {
	if u.Phase != cluster.PhaseScaleDown {
		u.SeenDesired = 0
	}
	u.Phase, u.Since = p, time.Time{}
}

// endUpdate closes the update, with the sizes that the group keeps.
func endUpdate(u *cluster.Update, final cluster.Sizes, s cluster.UpdateStatus, now time.Time) {
	u.Status, u.EndedAt, u.Final, u.Work, u.Since = s, now, &final, nil, time.Time{}
}

// pauseWaits records that the update is being looked at. A gap since the last look moves the start of every wait.
func pauseWaits(p *cluster.UpdateProgress, r *cluster.NodeReplacement, now time.Time) {
	gap := now.Sub(p.LookedAt)
	switch {
	case p.LookedAt.IsZero() || gap < 0:
		p.LookedAt = now
	case gap >= pauseAfter:
		p.LookedAt = now
		starts := []*time.Time{&p.Since, &r.Short.Since, &r.Stalled, &r.DomainDone}
		for i := range r.Work {
			starts = append(starts, &r.Work[i].Since, &r.Work[i].DrainingAt)
		}
		for _, start := range starts {
			if !start.IsZero() {
				*start = start.Add(gap)
			}
		}
	case gap >= lookInterval:
		p.LookedAt = now
	}
}
