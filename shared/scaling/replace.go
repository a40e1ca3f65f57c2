package scaling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// A replacementPlan says which unregistered instances are replaced, and why the others are not.
type replacementPlan struct {
	replace, unregistered []string
	lastReplaced          time.Time
	events                []Event
	reasons               reasons
}

// replacesUnregistered reports whether instances that never registered are replaced, so that the
// group needs none beside them. While its nodes are upgraded they are not.
func (v *view) replacesUnregistered() bool { return v.settings.ReplaceUnregistered && !v.Upgrading }

// planReplacement terminates instances that never registered, if that is enabled, so that the group
// launches others (C5).
//
// It replaces only as many as the group lacks without them; the rest is left to the scale-in.
// Within the time that an instance has to register, no more are replaced than may be taken in a
// minute: a group whose instances never work must not launch them faster. An instance is never
// replaced if it is protected from scale-in, was not seen to come while the cluster had the
// provider, or belongs to another cluster.
func planReplacement(v *view, metric Metric) replacementPlan {
	p := replacementPlan{lastReplaced: v.History.LastReplacement, reasons: reasons{}}
	short := v.clampToLimits(v.desiredFor(metric.Needed)) - (v.running - v.unregistered)
	if !v.settings.ReplaceUnregistered {
		short = 0
	}
	left, deferred := min(short, max(1, v.running*v.settings.MaxScaleInPercent/100)), v.whyReplacementDeferred()
	var replaced []*instance
	for _, m := range v.instances {
		switch age := v.Now.Sub(m.launchedAt); {
		case m.foreign != "":
			p.reasons[m.ID] = m.foreign + ": it counts as used and is not touched"
			p.events = append(p.events,
				v.providerEvent("not of the provider "+m.ID, "instance %s: %s.", m.ID, p.reasons[m.ID]))
		case !m.neverRegistered():
		case left > 0 && deferred == "" && v.isReplaceable(m):
			left--
			replaced = append(replaced, m)
			p.reasons[m.ID] = "it never registered with the cluster, so it is replaced"
		default:
			p.unregistered = append(p.unregistered, m.ID)
			switch {
			case short > 0 && deferred != "":
				p.reasons[m.ID] = "it never registered with the cluster; it is not replaced yet: " + deferred
			case short > 0 && m.Protected:
				p.reasons[m.ID] = "it never registered with the cluster; its scale-in protection must end before it " +
					"is replaced"
			}
			p.events = append(p.events, v.providerEvent("never registered "+m.ID,
				"instance %s has not registered with the cluster %s after it was launched: %s.", m.ID,
				age.Truncate(time.Second), v.unregisteredOutcome()))
		}
	}
	if len(replaced) > 0 {
		for _, m := range replaced {
			p.replace, p.unregistered = append(p.replace, m.ID), append(p.unregistered, m.ID)
		}
		p.lastReplaced = v.Now
		p.events = append(p.events, v.replacementEvents(p.replace)...)
	}
	return p
}

// whyReplacementDeferred says why no instance is replaced now; empty if some may be.
func (v *view) whyReplacementDeferred() string {
	switch last := v.History.LastReplacement; {
	case v.Upgrading:
		return "the group's nodes are being upgraded"
	case !last.IsZero() && v.Now.Sub(last) < v.registrationTimeout():
		return fmt.Sprintf("other instances were replaced at %s; the next replacement waits for %s", formatTime(last),
			v.registrationTimeout())
	}
	return ""
}

func (v *view) isReplaceable(m *instance) bool {
	age := min(v.Now.Sub(m.launchedAt), v.Now.Sub(m.firstSeen))
	return m.IsInService() && !m.Protected && age >= v.registrationTimeout()
}

// unregisteredOutcome says what becomes of an instance that has not registered in time.
func (v *view) unregisteredOutcome() string {
	if v.settings.ReplaceUnregistered {
		return "it counts as empty, and is replaced if tasks wait"
	}
	return "it counts as empty, and the group gets another instance if tasks wait; with the tag " +
		cluster.TagReplaceUnregistered + " it would be replaced"
}

// replacementEvents reports, to the operator and to services whose tasks wait, which instances are
// replaced.
func (v *view) replacementEvents(replaced []string) []Event {
	verb := "are"
	if len(replaced) == 1 {
		verb = "is"
	}
	text := fmt.Sprintf("%s of capacity provider %s did not register with the cluster within %s, and %s replaced: %s",
		pluralize(len(replaced), "instance"), v.Provider.Name, v.registrationTimeout(), verb,
		strings.Join(replaced[:min(len(replaced), maxNamed)], ", "))
	if more := len(replaced) - maxNamed; more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	events := []Event{{Message: text + ".", AfterResize: true}}
	var informed []string
	for _, w := range v.Waiting {
		if w.Count > 0 && !slices.Contains(informed, w.Name) {
			informed = append(informed, w.Name)
			events = append(events,
				Event{Owner: w.Name, Message: fmt.Sprintf("(%s) tasks wait: %s.", w.Name, text), AfterResize: true})
		}
	}
	return events
}
