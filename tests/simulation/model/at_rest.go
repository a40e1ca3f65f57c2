package model

import (
	"fmt"
	"slices"
)

// Surroundings are what matters of the cluster around a service.
type Surroundings struct {
	// HasRoom means that some instance could take one more task of the PRIMARY revision.
	// TrustsHealth means that unhealthy tasks are replaced, because no more than half of the
	// cluster's tasks look unhealthy (S6).
	HasRoom, TrustsHealth bool
	// For a DAEMON service: Eligible are the ACTIVE instances that satisfy its constraints,
	// WithRoom those of them with room for its task, KeepingTask the DRAINING ones on which other
	// tasks still run, so that its task stays (S11).
	Eligible, WithRoom, KeepingTask []string
	// Zones are, for a service whose zones are balanced, those with an eligible instance, and
	// whether the zone has room.
	Zones map[string]bool
}

// An Observed is a service as its rows show it.
type Observed struct {
	Status      string   // of the service
	Deployments []string // ids, the PRIMARY one first
	State       string   // rolloutState of the PRIMARY one
	Release     string   // status of its service deployment
	Desired     int
	// Tasks are all that have not ended; InstanceOf lists the instances of a DAEMON service's
	// tasks.
	Tasks      []Task
	InstanceOf []string
	// ByZone counts the tasks by zone.
	ByZone map[string]int
	// Explained means that the service says what it waits for, Crowded that it waits for room that
	// tasks hold.
	Explained, Crowded bool
}

// CheckAtRest returns what is wrong with a service that has come to rest. It returns nothing if all
// rules hold.
func (s Service) CheckAtRest(c *DeploymentHistory, around Surroundings, seen Observed) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if s.Deleted {
		if seen.Status != "INACTIVE" || len(seen.Tasks) > 0 {
			fail("it was deleted, is %s and has %d tasks", seen.Status, len(seen.Tasks))
		}
		return wrong
	}
	if seen.Status != "ACTIVE" {
		fail("it is %s", seen.Status)
	}
	if !s.Daemon && seen.Desired != s.Desired {
		fail("it wants %d tasks and was asked for %d", seen.Desired, s.Desired)
	}
	if len(seen.Deployments) == 0 || seen.Deployments[0] != c.Primary.ID || seen.State != c.Primary.State ||
		seen.Release != c.Release {
		fail("its deployments are %v, the first %s, by a service deployment %s; it should be %s, %s, by one %s",
			seen.Deployments, seen.State, seen.Release, c.Primary.ID, c.Primary.State, c.Release)
	}
	if s.Daemon {
		s.checkDaemons(around, seen, fail)
	} else if n := len(seen.Tasks); n > max(s.Desired, s.Ceiling(s.Desired)) {
		fail("it has %d tasks, more than the %d that maximumPercent allows", n, s.Ceiling(s.Desired))
	}
	if c.Primary.State == Failed {
		s.checkFailed(c, seen, fail)
		return wrong
	}
	switch {
	case c.Primary.Outcome == RunHealthy && !s.Daemon:
		s.checkReplicas(c, around, seen, fail)
	case c.Primary.Outcome != RunHealthy && seen.Desired > 0 && s.Breaker.Enable && around.HasRoom &&
		!(len(seen.Tasks) > 0 && s.IsStuck(seen.Desired)) && (around.TrustsHealth || c.Primary.Outcome == NeverRun):
		fail("its revision cannot work, its circuit breaker is on, and deployment %s is %s", c.Primary.ID,
			c.Primary.State)
	}
	return wrong
}

// checkReplicas checks a service whose revision works: it has all tasks of that revision and no
// others, as far as percentages, room and protection allow.
func (s Service) checkReplicas(c *DeploymentHistory, around Surroundings, seen Observed, fail func(string, ...any)) {
	current, older, leaving, protected, healthy := 0, 0, 0, 0, 0
	for _, t := range seen.Tasks {
		if t.Running && (!t.Checked || t.Container == Healthy) && (!t.Balanced || t.Target == Healthy) {
			healthy++
		}
		switch {
		case t.Protected && (t.Revision != c.Primary.ID || t.MustLeave):
			protected++
		case t.Revision != c.Primary.ID:
			older++
		case t.MustLeave:
			leaving++
		default:
			current++
		}
	}
	all := current + older + leaving + protected
	excused := seen.Explained && (!around.HasRoom || s.IsStuck(s.Desired))
	switch {
	case all > s.Desired && protected == 0 && !excused:
		fail("it has %d tasks, and wants %d", all, s.Desired)
	case all < s.Desired && !excused:
		fail("it has %d tasks of %d, and says nothing, or there is room", all, s.Desired)
	case older > 0 && !excused:
		fail("%d tasks of earlier revisions are left", older)
	case leaving > 0 && !excused && !s.IsStuck(s.Desired) && around.HasRoom:
		fail("%d tasks are left on instances that drain", leaving)
	}
	if leaving > 0 && protected == 0 && current < s.Desired && healthy > s.Floor(s.Desired) {
		fail("%d tasks are left on instances that drain, and %d are healthy, of %d that have to be", leaving, healthy,
			s.Floor(s.Desired))
	}
	if older > 0 && seen.Crowded && protected == 0 && current < s.Desired && healthy > s.Floor(s.Desired) {
		fail("%d tasks of earlier revisions take the room of those that wait, and %d are healthy, of %d that have to be", older, healthy, s.Floor(s.Desired))
	}
	done := current == s.Desired && older+leaving+protected == 0
	if completed := c.Primary.State == Completed; done != completed &&
		!(leaving > 0 || all < s.Desired || s.EarlySuccess && completed) {
		fail("%d of %d tasks are of its revision, none of others: %t; and it is %s", current, s.Desired, done,
			c.Primary.State)
	}
	if done && len(seen.Deployments) != 1 {
		fail("its deployment is done, and it shows %d deployments", len(seen.Deployments))
	}
	if done && around.Zones != nil && !ZonesAreEven(seen.ByZone, around.Zones) {
		fail("its zones have %v tasks, with room %v", seen.ByZone, around.Zones)
	}
}

// checkFailed checks a service whose deployment failed without a rollback: it starts nothing, and
// tasks of other revisions stay.
func (s Service) checkFailed(c *DeploymentHistory, seen Observed, fail func(string, ...any)) {
	for _, t := range seen.Tasks {
		if t.Revision == c.Primary.ID && c.Primary.Outcome == NeverRun {
			fail("a task of the failed deployment %s is there, and none can run", c.Primary.ID)
		}
	}
}

// checkDaemons checks that exactly one task runs on each instance that should and can have one, and
// none elsewhere (S4).
func (s Service) checkDaemons(around Surroundings, seen Observed, fail func(string, ...any)) {
	count := map[string]int{}
	for _, i := range seen.InstanceOf {
		count[i]++
	}
	for i, n := range count {
		if n > 1 {
			fail("it has %d tasks on instance %s", n, i)
		}
		if !slices.Contains(around.Eligible, i) && !slices.Contains(around.KeepingTask, i) {
			fail("it has a task on instance %s, which should have none", i)
		}
	}
	for _, i := range around.WithRoom {
		if count[i] == 0 {
			fail("it runs no task on instance %s, which has room", i)
		}
	}
}
