package nodegroup

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/shared/cluster"
)

const (
	// reconcileInterval is how often Next is called. No event reports changes of an Auto Scaling
	// group.
	reconcileInterval = time.Minute
	// pauseAfter is the time without a call after which all waits are extended by the gap.
	// Nothing could be replaced in it, so it must not make anything fail (static stability).
	pauseAfter = 5 * time.Minute
	// maxSteps is more than the steps that an update can take in one call. Should it ever be less,
	// the next call goes on.
	maxSteps = 100
)

// Next takes an update as far as it can go now, and returns what must be done for it to go on (N1
// to N7). The result is the same pointer if nothing has changed, and otherwise a new row, to be
// written before anything is done. An update that has ended needs nothing done.
func Next(u *cluster.Update, g Group, instances []Instance, now time.Time) (*cluster.Update, []Action) {
	if u.HasEnded() {
		return u, nil
	}
	next := cloneUpdate(u)
	v := newView(next, g, instances, now)
	pauseWaits(&next.UpdateProgress, &next.NodeReplacement, now)
	recordUserMaximum(next, g.Max)
	maps.DeleteFunc(next.Refusals, func(id, _ string) bool { return v.byID[id] == nil })
	for range maxSteps {
		before := cloneUpdate(next)
		phases[next.Phase].advance(next, v).applyTo(next, v)
		if next.HasEnded() || reflect.DeepEqual(before, next) {
			break
		}
		v = newView(next, g, instances, now) // which nodes are up to date may have changed
	}
	var actions []Action
	next.WaitingFor = ""
	if !next.HasEnded() {
		actions = phases[next.Phase].actions(next, v)
		recordOwnMaxima(next, actions)
		next.WaitingFor = phases[next.Phase].waitingFor(next, v)
	}
	if reflect.DeepEqual(u, next) {
		return u, actions
	}
	return next, actions
}

// cloneUpdate copies an update deeply enough that changing the copy does not change the original.
func cloneUpdate(u *cluster.Update) *cluster.Update {
	c := *u
	c.Errors, c.Removals = slices.Clone(u.Errors), slices.Clone(u.Removals)
	c.InitiallyUnready, c.UnhealthyBefore = slices.Clone(u.InitiallyUnready), slices.Clone(u.UnhealthyBefore)
	c.KnownMaxima, c.Refusals = slices.Clone(u.KnownMaxima), maps.Clone(u.Refusals)
	c.RetainedNodes, c.RetainedReasons = slices.Clone(u.RetainedNodes), slices.Clone(u.RetainedReasons)
	c.AbandonedNodes = slices.Clone(u.AbandonedNodes)
	return &c
}

// phase is one stage of an update.
type phase interface {
	// advance takes the update one step further. It changes what the phase remembers, and returns
	// where the update goes.
	advance(u *cluster.Update, v *view) transition
	// actions returns what must be done for the phase to go on.
	actions(u *cluster.Update, v *view) []Action
	// waitingFor says what the phase waits for; empty while it waits only for its own actions to
	// take effect.
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

var noTransition transition

func enterOnly(p cluster.UpdatePhase) transition { return transition{enter: p} }

func failWith(errors ...cluster.UpdateError) transition { return transition{errors: errors} }

// applyTo carries out the transition on the update.
func (t transition) applyTo(u *cluster.Update, v *view) {
	switch {
	case len(t.errors) > 0:
		failUpdate(u, v, t.errors...)
	case t.end != "":
		endUpdate(u, v.group.Sizes, t.end, v.now)
	case t.enter != "":
		if t.enter == cluster.PhaseUpgrade {
			u.RequiredNodes = v.countInService()
		}
		enterPhase(u, t.enter)
	}
}

// enterPhase starts a phase, with its waiting still to begin.
func enterPhase(u *cluster.Update, p cluster.UpdatePhase) {
	if u.Phase != cluster.PhaseScaleDown {
		u.ObservedDesired = 0
	}
	u.Phase, u.WaitingSince = p, time.Time{}
}

// endUpdate ends the update, with the sizes that the group keeps.
func endUpdate(u *cluster.Update, final cluster.Sizes, s cluster.UpdateStatus, now time.Time) {
	u.Status, u.EndedAt, u.FinalSizes, u.Removals, u.WaitingSince = s, now, &final, nil, time.Time{}
}

// pauseWaits records that the update is being reconciled. A gap since the last time moves the start
// of every wait.
func pauseWaits(p *cluster.UpdateProgress, r *cluster.NodeReplacement, now time.Time) {
	gap := now.Sub(p.ReconciledAt)
	switch {
	case p.ReconciledAt.IsZero() || gap < 0:
		p.ReconciledAt = now
	case gap >= pauseAfter:
		p.ReconciledAt = now
		starts := []*time.Time{&p.WaitingSince, &r.Shortage.Since, &r.StalledSince, &r.DomainReplacedAt}
		for i := range r.Removals {
			starts = append(starts, &r.Removals[i].StepSince, &r.Removals[i].DrainingAt)
		}
		for _, start := range starts {
			if !start.IsZero() {
				*start = start.Add(gap)
			}
		}
	case gap >= reconcileInterval:
		p.ReconciledAt = now
	}
}
