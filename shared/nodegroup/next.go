package nodegroup

import (
	"maps"
	"reflect"
	"time"

	"berth/shared/cluster"
)

// maxSteps is more than the steps that an update can take in one call. Should it ever be less,
// the next call continues.
const maxSteps = 100

// Next advances an update until it must wait, and returns what must be done for it to go on (N1
// to N7). The result is the same pointer if nothing has changed, and otherwise a new row, to be
// written before anything is done. An update that has ended needs nothing done, and one that has
// asked for something waits until that shows.
func Next(u *cluster.Update, g Group, instances []Instance, now time.Time) (*cluster.Update, []Action) {
	if u.HasEnded() {
		return u, nil
	}
	next := cloneUpdate(u)
	beginAgain(next, now)
	v := newView(next, g, instances, now)
	if awaitsEffect(next, v) {
		return u, nil
	}
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
	recordDrained(next, v, actions)
	recordAsked(next, v, actions)
	forgetPassedDenials(next, v, actions)
	if reflect.DeepEqual(u, next) {
		return u, actions
	}
	return next, actions
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
		endUpdate(u, new(v.group.Sizes), new(v.group.ScaleOuts), t.end, v.now)
	case t.enter != "":
		if t.enter == cluster.PhaseUpgrade {
			u.RequiredNodes = v.countInService()
		}
		enterPhase(u, t.enter)
	}
}
