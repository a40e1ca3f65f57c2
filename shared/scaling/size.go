package scaling

import (
	"fmt"
	"strings"
	"time"
)

// sizing is the desired capacity, and what it depends on.
type sizing struct {
	desired int
	why     string
	// hold is why an instance without tasks is not removed now, or that it may be
	hold            string
	low             lowCount
	lastOut, lastIn time.Time
	// lookAgainAt is when what blocks an immediate scale-out has ended; zero if nothing blocks it
	lookAgainAt time.Time
	events      []Event
}

// lowCount is how many minutes in a row the metric has been below the target, and the last minute
// that was counted.
type lowCount struct {
	Low    int
	Minute time.Time
}

// computeSize decides on the desired capacity: up at once, down slowly.
func computeSize(v *view, d demandPlan, m Metric, drains *drainPlan) sizing {
	target := v.settings.Target
	s := sizing{desired: v.Group.Desired, lastOut: v.History.LastScaleOut, lastIn: v.History.LastScaleIn}
	needsMore := v.running == 0 && m.Needed > 0 || m.exceedsTarget(target)
	waits := v.Between && !(needsMore && v.settings.Immediate)
	if s.low = (lowCount{v.History.LowMinutes, v.History.LastLowMinute}); !waits {
		s.low = countLowMinutes(v, m.isBelowTarget(target) && !v.settings.TargetTracking)
	}
	switch {
	case v.settings.TargetTracking:
		s.hold = "a target tracking policy sizes the group"
	case waits:
		s.hold, s.lookAgainAt = whyNotBetween(v), v.History.LookAgainAt
	case needsMore:
		s.hold = fmt.Sprintf("%s, %s", areNeeded(v.desiredFor(m.Needed)), areRunning(v.running))
		return scaleOut(v, d, m, drains, s)
	case m.isBelowTarget(target):
		s = scaleIn(v, m, s)
	case m.Running == 0 && m.Needed == 0:
		s.hold = "the group needs no instance, and has none"
	default:
		s.hold = fmt.Sprintf("the group has the right size: %s", m.describeFor(target))
	}
	s.why = s.hold
	for _, ignored := range d.demands {
		if ignored.ExcludedBecause != "" {
			s.why += "; " + ignored.String()
		}
	}
	return s
}

// countLowMinutes counts the minute's datapoint (C5). A minute counts once, however often it is
// reconciled. After a gap the count starts again, because the metric in between is unknown.
func countLowMinutes(v *view, isLow bool) lowCount {
	c, minute := lowCount{v.History.LowMinutes, v.History.LastLowMinute}, v.Now.Truncate(time.Minute)
	passed := minute.Sub(c.Minute)
	switch {
	case !isLow || v.Upgrading:
		return lowCount{}
	case c.Low > 0 && passed <= 0:
		return c
	case passed > 2*time.Minute || c.Low == 0:
		return lowCount{1, minute}
	}
	return lowCount{c.Low + 1, minute}
}

// scaleOut raises the desired capacity to what is needed, by no more than the largest step, and
// from zero to two instances. An instance in its warm-up blocks it (C3).
//
// Instances that are being emptied take tasks again. At the group's maximum they do so only for
// tasks that wait: to empty them is then the only way to the free instances that the target wants.
func scaleOut(v *view, d demandPlan, m Metric, drains *drainPlan, s sizing) sizing {
	current := v.Group.Desired
	want := v.desiredFor(m.Needed)
	if v.running == 0 {
		want = 2
	}
	goal := min(v.clampToLimits(want), max(current, v.Group.Min)+v.settings.MaxStep)
	restored := (d.hasWaiting() || v.canGrow()) && drains.cancelAll(v, "more instances are needed")
	switch {
	case restored && d.hasWaiting():
		s.why = fmt.Sprintf("%s; instances that were draining receive tasks again first", areNeeded(want))
	case goal <= current && want > v.Group.Max && current >= v.Group.Max:
		s.why = fmt.Sprintf("%s, but the group is at its maximum of %d", areNeeded(max(want, v.desiredFor(m.Needed))),
			v.Group.Max)
		s.events = append(s.events, v.providerEvent("at maximum", "%s. %s", s.why, describeNeed(v, d, m)))
		s.events = append(s.events, waitingEvents(v, d, "at maximum", s.why)...)
	case goal <= current:
		s.why = "the group is on its way to " + pluralize(current, "instance")
	case v.Between && !s.lastIn.IsZero() && v.Now.Sub(s.lastIn) < scaleInTime:
		s.lookAgainAt = s.lastIn.Add(scaleInTime)
		s.why = fmt.Sprintf("%s; the group was scaled in at %s, which must have ended first", areNeeded(want),
			formatTime(s.lastIn))
	case v.settings.Immediate && isGathering(v):
		s.why = fmt.Sprintf("%s so far; further tasks are beginning to wait", areNeeded(want))
	case v.countLaunched() < current && v.Now.Sub(s.lastOut) < v.settings.Warmup:
		s.lookAgainAt = whenImmediate(v, s.lastOut.Add(v.settings.Warmup))
		s.why = fmt.Sprintf(
			"%s; the instances requested at %s are not launched yet and block scaling out", areNeeded(want),
			formatTime(s.lastOut))
		s.events = waitingEvents(v, d, "warms up", s.why)
	case len(v.warming) > 0:
		first := v.warming[0]
		s.lookAgainAt = whenImmediate(v, lastWarmupEnd(v))
		s.why = fmt.Sprintf("%s; instance %s is warming up until %s and blocks scaling out",
			areNeeded(want), first.ID, formatTime(first.launchedAt.Add(v.settings.Warmup)))
		s.events = waitingEvents(v, d, "warms up", s.why)
	default:
		s.desired, s.lastOut = goal, v.Now
		s.why = strings.TrimSpace(fmt.Sprintf("desired capacity from %d to %d. %s", current, goal,
			describeNeed(v, d, m)))
		s.events = append(s.events, doneEvent(v.providerEvent("", "%s", s.why)))
	}
	return s
}

// canGrow reports whether the group may have more instances than it wants now.
func (v *view) canGrow() bool { return v.Group.Desired < v.Group.Max }

// doneEvent makes an event one that is true only once the decision is carried out.
func doneEvent(e Event) Event {
	e.AfterResize = true
	return e
}

// waitingEvents reports to the owners of waiting tasks why there are no more instances.
func waitingEvents(v *view, d demandPlan, key, why string) (events []Event) {
	reported := map[string]bool{}
	for _, demand := range d.demands {
		for _, owner := range demand.Owners {
			if demand.ExcludedBecause != "" || demand.Instances == 0 || reported[owner] {
				continue
			}
			reported[owner] = true
			events = append(events, Event{Owner: owner, Key: key + " " + owner, Message: fmt.Sprintf(
				"(%s) tasks wait for capacity provider %s: %s.", owner, v.Provider.Name, why)})
		}
	}
	return events
}

// describeNeed says what the waiting tasks need, or that free instances are wanted.
func describeNeed(v *view, d demandPlan, m Metric) string {
	var needs []string
	for _, demand := range d.demands {
		if demand.ExcludedBecause == "" && demand.Instances > 0 {
			needs = append(needs, demand.String()+".")
		}
	}
	if len(needs) == 0 {
		return m.describeFor(v.settings.Target) + "."
	}
	return strings.Join(needs, " ")
}

// scaleIn lowers the desired capacity by what may go in a minute (C5), unless something forbids it
// (C8). Hold says what does, or what is done.
func scaleIn(v *view, m Metric, s sizing) sizing {
	set, current := &v.settings, v.Group.Desired
	goal := v.clampToLimits(v.desiredFor(m.Needed))
	next := max(goal, current-v.maxRemovals(), v.countLaunched()-v.countInstances(v.isTakeable))
	switch {
	case v.Upgrading:
		s.hold = "the group's nodes are being upgraded"
	case goal >= current && v.Group.Min >= current:
		s.hold = fmt.Sprintf("the group is at its minimum of %d", v.Group.Min)
	case goal >= current:
		s.hold = fmt.Sprintf("free capacity is needed: %s", m.describeFor(set.Target))
	case s.low.Low < set.LowDatapoints:
		s.hold = fmt.Sprintf("the metric has been low for %s of %d", pluralize(s.low.Low, "minute"), set.LowDatapoints)
	case v.isCoolingDown(s.lastOut):
		s.hold = v.cooldownReason(s.lastOut)
	case isSameMinute(s.lastIn, v.Now):
		s.hold = fmt.Sprintf("it was already scaled in this minute; at most %d %% of the group, "+
			"but at least one instance, may be terminated per minute", set.MaxScaleInPercent)
	case next >= current:
		s.hold = "every instance without tasks is protected from scale-in"
	case v.hasUnmarkedReleasable():
		s.hold = "instances that may be terminated must be recorded first"
	default:
		s.desired, s.lastIn = next, v.Now
		s.hold = fmt.Sprintf("desired capacity from %d to %d: %s", current, next, m.describeFor(set.Target))
		s.events = append(s.events, doneEvent(v.providerEvent("", "%s.", s.hold)))
	}
	return s
}

func (v *view) isCoolingDown(lastOut time.Time) bool {
	return !lastOut.IsZero() && v.Now.Sub(lastOut) < v.settings.Cooldown
}

func (v *view) cooldownReason(lastOut time.Time) string {
	return fmt.Sprintf("the group was scaled out at %s; it is not scaled in for %s", formatTime(lastOut),
		v.settings.Cooldown)
}
