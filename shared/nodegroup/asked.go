package nodegroup

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// Messages may wake the update at any time, also right after a call whose answer was lost: the call
// may not have been made, or take effect only later. To ask again at once could do it twice, and to
// go on could be undone by it. So the update writes down what it asks for, and continues when it sees
// that it was done, or after settleTime.

// settleTime is how long the update waits for the effect of a change that it has asked for. It is
// a tenth less than the interval of the schedule, whose rounds come some seconds early or late.
const settleTime = reconcileInterval - reconcileInterval/10

// awaitsEffect reports whether the update must see first that a change was made.
func awaitsEffect(u *cluster.Update, v *view) bool {
	return slices.ContainsFunc(u.Asked, func(a cluster.AskedChange) bool {
		age := v.now.Sub(a.At)
		return age > 0 && age < settleTime && !isSeen(u, v, a)
	})
}

// SettledAt returns when an update continues that waits for the effect of what it has asked for: the
// first time after now, or zero if it waits for none.
func SettledAt(u *cluster.Update, now time.Time) (at time.Time) {
	for _, a := range u.Asked {
		end := a.At.Add(settleTime)
		if cluster.RemainingWait(end, now, settleTime) > 0 && (at.IsZero() || end.Before(at)) {
			at = end
		}
	}
	return at
}

// isSeen reports whether a change shows, or can show no more because its node is gone.
func isSeen(u *cluster.Update, v *view, a cluster.AskedChange) bool {
	switch kind := ActionKind(a.Kind); kind {
	case CreateTemplate:
		return u.Template != "" || v.group.PreparedTemplate != ""
	case UseTemplate:
		return v.group.Template == a.Template
	case Resize:
		return v.group.Max == a.Max && v.group.Desired == a.Desired
	default:
		n := v.byID[a.Instance]
		if n == nil || n.isLeaving() || n.nodeID() == "" && kind != Terminate {
			return true
		}
		mark, marked := n.cordonMark()
		return kind == Cordon && marked || kind == Uncordon && mark != u.ID ||
			kind == Drain && n.isDraining() || kind == Activate && !n.isDraining()
	}
}

// recordAsked records the changes that the actions ask for, in place of those that were seen or
// have been waited for. Tasks that are stopped by force are not among them: their rows say so.
func recordAsked(u *cluster.Update, v *view, actions []Action) {
	asked := slices.DeleteFunc(slices.Clone(u.Asked),
		func(a cluster.AskedChange) bool { return !a.At.Equal(v.now) || isSeen(u, v, a) })
	for _, a := range actions {
		c := askFor(a, v.now)
		if a.Kind != StopTasks && !slices.ContainsFunc(asked,
			func(b cluster.AskedChange) bool { return isSame(b, c) }) {
			asked = append(asked, c)
		}
	}
	if u.Asked = asked; len(asked) == 0 {
		u.Asked = nil
	}
}

func askFor(a Action, now time.Time) cluster.AskedChange {
	return cluster.AskedChange{Kind: string(a.Kind), Instance: a.Instance, Template: a.Template, Max: a.Max,
		Desired: a.Desired, At: now}
}

// isSame reports whether two changes are the same, whenever they were asked for.
func isSame(a, b cluster.AskedChange) bool {
	a.At, b.At = time.Time{}, time.Time{}
	return a == b
}

// Withdraw returns the update without having asked for some actions, because they were not tried.
func Withdraw(u *cluster.Update, actions []Action) *cluster.Update {
	next := cloneUpdate(u)
	next.Asked = slices.DeleteFunc(next.Asked, func(c cluster.AskedChange) bool {
		return slices.ContainsFunc(actions, func(a Action) bool {
			return string(a.Kind) == c.Kind && a.Instance == c.Instance
		})
	})
	return next
}
