package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// repeat is how long the same cause is not told of again.
const repeat = 6 * time.Hour

// PlacementKeyPrefix is what the keys of [cluster.Service.Said] start with that are the caller's.
const PlacementKeyPrefix = "place/"

// event appends an event.
func (c *census) event(e Event) { c.plan.EventsAfter = append(c.plan.EventsAfter, e) }

// say appends an event if its cause is news.
func (c *census) say(cause string, e Event) {
	c.said[cause] = true
	if MarkEmitted(c.next, cause, c.Now) {
		c.event(e)
	}
}

// MarkEmitted reports whether a cause is to be told of now, and has the service remember that: it was not within the last 6
// hours, or has been over since (S12). Who asks takes causes that are over out of [cluster.Service.Said].
func MarkEmitted(s *cluster.Service, cause string, now time.Time) bool {
	if at, ok := s.Said[cause]; ok && now.Sub(at) < repeat {
		return false
	}
	said := maps.Clone(s.Said)
	if said == nil {
		said = map[string]time.Time{}
	}
	said[cause] = now
	s.Said = said
	return true
}

// tell adds the events that follow from where the service stands, and forgets causes that are over.
func (c *census) tell() {
	c.tellThrottled()
	c.tellAlarms()
	c.tellTooMany()
	c.tellStuck()
	c.tellTargets()
	said := map[string]time.Time{}
	for cause, at := range c.next.Said {
		if c.said[cause] || strings.HasPrefix(cause, PlacementKeyPrefix) {
			said[cause] = at
		}
	}
	if len(said) == 0 {
		said = nil
	}
	c.next.Said = said
}

// tellThrottled tells of the revision whose starts are slowed down most: from the first that is, as ECS does (S7).
func (c *census) tellThrottled() {
	var worst cluster.Backoff
	var of string
	for _, g := range c.groups {
		if b := c.backoffs[g.ID]; b.Step > worst.Step {
			worst, of = b, g.ID
		}
	}
	if of != "" && c.Service.Status == cluster.ServiceActive {
		c.say("throttle/"+of, Event{
			Message: StartsImpairedMessage(c.Service.Name), Name: "SERVICE_TASK_START_IMPAIRED", Deployment: of,
			Reason: worst.Reason, Failures: worst.Failures, NextAttemptAt: worst.NextAttemptAt,
		})
	}
}

// tellAlarms tells of alarms of a deployment under way that do not exist: a name with a slip in it would protect nothing.
func (c *census) tellAlarms() {
	state := c.Service.Deployment.State
	if w := c.watch(); w != nil && len(w.Missing) > 0 && (state == "" || state == cluster.RolloutInProgress) {
		c.say("alarms/"+strings.Join(w.Missing, ","), Event{Message: MissingAlarmsMessage(c.Service.Name, c.next.Deployment.ID, w.Missing)})
	}
}

// mostSeen is how many unhealthy tasks of a service are told of at once: its row remembers each.
const mostSeen = 20

// see tells of tasks that are unhealthy, before anything is done about them; of none where that is not believed.
func (c *census) see() {
	seen := 0
	for _, g := range c.groups {
		for _, m := range g.members {
			if m.state == bad && !m.lost && !c.DistrustChecks && seen < mostSeen {
				c.say("unhealthy/"+m.ID, c.symptom(m))
				seen++
			}
		}
	}
}

// tellTooMany says that unhealthy tasks are left as they are.
func (c *census) tellTooMany() {
	if c.unhealthy > 0 {
		c.lookAgain(c.Now.Add(time.Minute)) // no event tells that fewer look so
		c.say("unhealthy", Event{Message: TooManyUnhealthyMessage(c.Service.Name, c.unhealthy)})
	}
}

// tellStuck says that a deployment cannot take a step, as its percentages allow neither a start nor a stop.
func (c *census) tellStuck() {
	p := c.primary()
	stuck := c.Service.Strategy == cluster.Replica && c.Service.Status == cluster.ServiceActive &&
		p.State == cluster.RolloutInProgress && len(c.groups) > 1 && c.idle() && c.refused && c.ending == 0 &&
		p.fresh() < c.next.Desired && c.active >= c.ceiling && !c.backoffs[p.ID].NextAttemptAt.After(c.Now) && !c.changing()
	if stuck {
		c.say("stuck", Event{Message: DeploymentStuckMessage(c.Service.Name)})
	}
}

// changing reports whether a task may yet come to be healthy by itself.
func (c *census) changing() bool {
	for _, g := range c.groups {
		if g.unsettled() > 0 {
			return true
		}
	}
	return false
}

// tellTargets tells of registrations made and ended since; of those made, once none is under way any more.
func (c *census) tellTargets() {
	slices.SortFunc(c.targets, func(a, b *cluster.Target) int { return cmp.Compare(a.Task, b.Task) })
	n := news{made: map[string]int{}, ended: map[string]int{}, failed: map[string]string{}}
	n.wait = slices.ContainsFunc(c.targets, (*cluster.Target).Open)
	for _, target := range c.targets {
		if n.take(target, c.Now) {
			c.plan.EmittedTargets = append(c.plan.EmittedTargets, target)
		}
	}
	for _, arn := range n.order {
		if k := n.made[arn]; k > 0 {
			c.event(Event{Message: TargetsRegisteredMessage(c.Service.Name, k, arn)})
		}
		if k := n.ended[arn]; k > 0 {
			c.event(Event{Message: TargetsDeregisteredMessage(c.Service.Name, k, arn)})
		}
		if why := n.failed[arn]; why != "" {
			c.say("register/"+arn, Event{Message: RegistrationFailedMessage(c.Service.Name, arn, why)})
		}
	}
	if n.draining > 0 {
		c.event(Event{Message: ConnectionsDrainingMessage(c.Service.Name, n.draining)})
	}
}

// news is what has become of registrations, by target group or Cloud Map service.
type news struct {
	wait        bool // with those that were made
	made, ended map[string]int
	failed      map[string]string // why
	order       []string
	draining    int // tasks that get no new connections any more
}

// take takes in one task's registrations and reports whether they are to be marked as told of.
func (n *news) take(t *cluster.Target, now time.Time) (told bool) {
	for _, r := range t.Registrations {
		if !slices.Contains(n.order, r.ARN) && !r.Registry { // ECS tells of target groups alone
			n.order = append(n.order, r.ARN)
		}
		switch {
		case r.State == cluster.RegistrationFailed:
			n.failed[r.ARN] = r.Reason
		case r.State == cluster.Registered && !t.Told && !n.wait:
			n.made[r.ARN]++
			told = true
		case r.State == cluster.Deregistered && !t.ToldDrain:
			n.ended[r.ARN]++
			told = true
			if r.DrainedAt.After(now) {
				n.draining++
			}
		}
	}
	return told
}

// ailment is why an unhealthy task is stopped, in ECS's words.
func (c *census) ailment(m *member) string {
	if m.lost {
		return "The agent of its container instance has been disconnected for too long."
	}
	switch {
	case c.DistrustChecks && m.leaving:
		return drained
	case c.DistrustChecks: // that is not believed: there is one too many
		return c.scaling(c.of(m.Task))
	}
	if m.Health == cluster.Unhealthy {
		return "Task failed container health checks"
	}
	if r := c.sick(m); r != nil && !r.Registry {
		return fmt.Sprintf("Task failed ELB health checks in (target-group %s)", r.ARN)
	}
	return "Task failed Cloud Map health checks"
}

// symptom tells that a task is unhealthy.
func (c *census) symptom(m *member) Event {
	r := c.sick(m)
	switch {
	case m.Health == cluster.Unhealthy || r == nil:
		return Event{Message: UnhealthyContainerMessage(c.Service.Name, m.ID)}
	case r.Registry:
		return Event{Message: UnhealthyTargetMessage(c.Service.Name, m.ID, r), Name: "SERVICE_DISCOVERY_INSTANCE_UNHEALTHY"}
	}
	return Event{Message: UnhealthyTargetMessage(c.Service.Name, m.ID, r)}
}

// sick is the registration of a task that is unhealthy.
func (c *census) sick(m *member) *cluster.Registration {
	target := c.target(m.Task)
	if target == nil {
		return nil
	}
	for i, r := range target.Registrations {
		if r.Health == cluster.Unhealthy {
			return &target.Registrations[i]
		}
	}
	return nil
}
