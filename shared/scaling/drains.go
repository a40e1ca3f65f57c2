package scaling

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

const (
	// emptyTimeout is how long an instance that is drained may take to become empty.
	emptyTimeout = 15 * time.Minute
	// deferTime is how long an instance that did not become empty is left alone.
	deferTime = time.Hour
	// drainingTimeout is how long an instance may take to become DRAINING.
	drainingTimeout = 2 * time.Minute
)

// A drainPlan says what happens to the instances that consolidation is emptying.
type drainPlan struct {
	drains []cluster.Drain
	// deferredUntil are instances that are left alone, with the end of that time.
	deferredUntil map[string]time.Time
	// drain and undrain are container instances to make DRAINING, or ACTIVE again.
	drain, undrain []string
	// reasons are those of all steps of the decision: consolidation leaves an instance alone that
	// has one already.
	reasons reasons
}

// resumeDrains continues the drains of the history: cancelled instances are made ACTIVE until they
// are, and drains that ended long enough ago are dropped.
func resumeDrains(v *view) *drainPlan {
	p := &drainPlan{
		reasons: reasons{},
		drains: slices.DeleteFunc(slices.Clone(v.History.Drains), func(d cluster.Drain) bool {
			return d.Finished && v.Now.Sub(d.At) >= v.settings.Consolidation.BudgetWindow
		}),
	}
	for id, until := range v.History.DeferredUntil {
		if until.After(v.Now) {
			p.deferInstance(id, until)
		}
	}
	for n := range p.drains {
		d := &p.drains[n]
		if d.Finished || !d.Cancelled {
			continue
		}
		m := v.instanceOf(d.Instance)
		if m == nil || !m.counts || m.node.Status != cluster.InstanceDraining || v.isUpgraded(m) {
			d.Finished = true
			continue
		}
		p.undrain = append(p.undrain, d.Instance)
		p.reasons[m.ID] = "it can receive tasks again"
	}
	return p
}

// isUpgraded reports whether an update of the group's nodes has marked the instance. The update
// drains and ends it.
func (v *view) isUpgraded(m *instance) bool {
	_, marked := m.node.Attributes[cluster.AttributeUnschedulable]
	return v.Upgrading && marked
}

// cancelAll lets all instances that are being emptied take tasks again, and reports whether there
// were any.
func (p *drainPlan) cancelAll(v *view, why string) (cancelled bool) {
	for n := range p.drains {
		d := &p.drains[n]
		switch m := v.instanceOf(d.Instance); {
		case d.Cancelled || d.Finished || m == nil || !m.counts:
		case v.isUpgraded(m):
			d.Finished = true
		default:
			p.cancelDrain(d, m, why)
			cancelled = true
		}
	}
	return cancelled
}

// cancelDrain lets an instance take tasks again, even if it is not seen DRAINING yet.
func (p *drainPlan) cancelDrain(d *cluster.Drain, m *instance, why string) {
	d.Cancelled = true
	p.undrain = append(p.undrain, d.Instance)
	p.reasons[m.ID] = "it can receive tasks again: " + why
}

func (p *drainPlan) deferInstance(instance string, until time.Time) {
	if p.deferredUntil == nil {
		p.deferredUntil = map[string]time.Time{}
	}
	p.deferredUntil[instance] = until
}

// beginDrain drains an instance.
func (p *drainPlan) beginDrain(instance string, now time.Time) {
	p.drain = append(p.drain, instance)
	p.drains = append(p.drains, cluster.Drain{Instance: instance, At: now})
}

// terminations is the result of advancing the drains.
type terminations struct {
	// desired is the desired capacity with what is terminated taken off.
	desired   int
	terminate []string
	why       string
	lastIn    time.Time
	events    []Event
}

// advanceDrains terminates the instances that are empty, and lets those that take too long take
// tasks again.
func advanceDrains(v *view, m Metric, s sizing, p *drainPlan) terminations {
	if off := v.whyConsolidationOff(); off != "" {
		p.cancelAll(v, off)
	}
	t := terminations{desired: s.desired, lastIn: s.lastIn}
	for n := range p.drains {
		if d := &p.drains[n]; !d.Finished && !d.Cancelled {
			t = advanceDrain(v, m, d, p, t)
		}
	}
	return t
}

func advanceDrain(v *view, metric Metric, d *cluster.Drain, p *drainPlan, t terminations) terminations {
	m, age := v.instanceOf(d.Instance), v.Now.Sub(d.At)
	if m == nil || !m.counts {
		d.Finished = true
		return t
	}
	isDraining := m.node.Status == cluster.InstanceDraining
	switch {
	case !isDraining && age < drainingTimeout:
		p.drain = append(p.drain, d.Instance)
		p.reasons[m.ID] = "it is being drained"
	case !isDraining:
		d.Finished = true
		p.deferInstance(d.Instance, v.Now.Add(deferTime))
	case !m.isEmpty() && age < emptyTimeout:
		p.reasons[m.ID] = fmt.Sprintf("it has been draining since %s and waits for its tasks to stop", formatTime(d.At))
	case !m.isEmpty():
		p.cancelDrain(d, m, fmt.Sprintf("after %s it still has %s", emptyTimeout, m.describeLoad()))
		p.deferInstance(d.Instance, v.Now.Add(deferTime))
		t.events = append(t.events, v.providerEvent("", "instance %s: %s.", m.ID, p.reasons[m.ID]))
	case isScalingIn(v, t), isSameMinute(v.History.LastScaleIn, v.Now), len(t.terminate) >= v.maxRemovals():
		p.reasons[m.ID] = "it is drained, and will be terminated after this minute's scale-in"
	case t.desired-1 < v.Group.Min || v.desiredFor(metric.Needed) > t.desired-1:
		p.cancelDrain(d, m, "it is needed as free capacity")
		p.deferInstance(d.Instance, v.Now.Add(deferTime))
	case !v.isTakeable(m):
		p.reasons[m.ID] = "it is protected from scale-in"
	default:
		t.terminate = append(t.terminate, m.ID)
		t.desired--
		t.lastIn = v.Now
		p.reasons[m.ID] = "its tasks run elsewhere, so it is terminated"
		t.why = fmt.Sprintf("desired capacity from %d to %d: drained instances are terminated", v.Group.Desired,
			t.desired)
	}
	return t
}

// isScalingIn reports whether the desired capacity changes for a reason other than terminations.
func isScalingIn(v *view, t terminations) bool { return t.desired != v.Group.Desired-len(t.terminate) }
