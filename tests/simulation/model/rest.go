package model

import (
	"fmt"
	"slices"
)

// Surroundings are what a service finds around it.
type Surroundings struct {
	// Room tells that some instance could take one more task of the PRIMARY revision; Believed that unhealthy tasks are
	// replaced, as not more than half of the cluster's look unhealthy (S6).
	Room, Believed bool
	// Eligible are, for a DAEMON service, the ACTIVE instances that satisfy its constraints; Roomy those of them that have
	// room for its task; Kept DRAINING ones on which others still run, so that its task there stays (S11).
	Eligible, Roomy, Kept []string
	// Zones are, for a service whose zones are balanced, those with an eligible instance, and whether it has room.
	Zones map[string]bool
}

// Seen is a service as it is.
type Seen struct {
	Status      string   // of the service
	Deployments []string // ids, the PRIMARY one first
	State       string   // rolloutState of the PRIMARY one
	Release     string   // status of its service deployment
	Desired     int
	// Tasks are all that have not ended; On is where those of a DAEMON service are.
	Tasks []Task
	On    []string
	// ByZone counts them by zone.
	ByZone map[string]int
	// Explained tells that the service says what it waits for; Crowded that it is room that tasks hold.
	Explained, Crowded bool
}

// Rest says what is wrong with a service that has come to rest, by the rules; nothing where all is well.
func (s Service) Rest(c *Course, around Surroundings, seen Seen) (wrong []string) {
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
	if len(seen.Deployments) == 0 || seen.Deployments[0] != c.Primary.ID || seen.State != c.Primary.State || seen.Release != c.Release {
		fail("its deployments are %v, the first %s, by a service deployment %s; it should be %s, %s, by one %s",
			seen.Deployments, seen.State, seen.Release, c.Primary.ID, c.Primary.State, c.Release)
	}
	if s.Daemon {
		s.daemons(around, seen, fail)
	} else if n := len(seen.Tasks); n > max(s.Desired, s.Ceiling(s.Desired)) {
		fail("it has %d tasks, more than the %d that maximumPercent allows", n, s.Ceiling(s.Desired))
	}
	if c.Primary.State == Failed {
		s.stalled(c, seen, fail)
		return wrong
	}
	switch {
	case c.Primary.Fate == Runs && !s.Daemon:
		s.replicas(c, around, seen, fail)
	case c.Primary.Fate != Runs && seen.Desired > 0 && s.Breaker.Enable && around.Room && !(len(seen.Tasks) > 0 && s.Stuck(seen.Desired)) && (around.Believed || c.Primary.Fate == Crashes):
		fail("its revision cannot work, its circuit breaker is on, and deployment %s is %s", c.Primary.ID, c.Primary.State)
	}
	return wrong
}

// replicas checks a service whose revision works: it has all tasks of it and none of others, if its percentages, room and
// protection let it.
func (s Service) replicas(c *Course, around Surroundings, seen Seen, fail func(string, ...any)) {
	current, old, leaving, protected, well := 0, 0, 0, 0, 0
	for _, t := range seen.Tasks {
		if t.Running && (!t.Checked || t.Container == Healthy) && (!t.Balanced || t.Target == Healthy) {
			well++
		}
		switch {
		case t.Protected && (t.Revision != c.Primary.ID || t.Leaving):
			protected++
		case t.Revision != c.Primary.ID:
			old++
		case t.Leaving:
			leaving++
		default:
			current++
		}
	}
	all := current + old + leaving + protected
	excused := seen.Explained && (!around.Room || s.Stuck(s.Desired))
	switch {
	case all > s.Desired && protected == 0 && !excused:
		fail("it has %d tasks, and wants %d", all, s.Desired)
	case all < s.Desired && !excused:
		fail("it has %d tasks of %d, and says nothing, or there is room", all, s.Desired)
	case old > 0 && !excused:
		fail("%d tasks of earlier revisions are left", old)
	case leaving > 0 && !excused && !s.Stuck(s.Desired) && around.Room:
		fail("%d tasks are left on instances that drain", leaving)
	}
	if leaving > 0 && protected == 0 && current < s.Desired && well > s.Floor(s.Desired) {
		fail("%d tasks are left on instances that drain, and %d are healthy, of %d that have to be", leaving, well, s.Floor(s.Desired))
	}
	if old > 0 && seen.Crowded && protected == 0 && current < s.Desired && well > s.Floor(s.Desired) {
		fail("%d tasks of earlier revisions take the room of those that wait, and %d are healthy, of %d that have to be", old, well, s.Floor(s.Desired))
	}
	done := current == s.Desired && old+leaving+protected == 0
	if completed := c.Primary.State == Completed; done != completed && !(leaving > 0 || all < s.Desired || s.Early && completed) {
		fail("%d of %d tasks are of its revision, none of others: %t; and it is %s", current, s.Desired, done, c.Primary.State)
	}
	if done && len(seen.Deployments) != 1 {
		fail("it is done and shows %d deployments", len(seen.Deployments))
	}
	if done && around.Zones != nil && !Zones(seen.ByZone, around.Zones) {
		fail("its zones have %v tasks, with room %v", seen.ByZone, around.Zones)
	}
}

// stalled checks a service whose deployment failed for good: it launches nothing, what there was of others goes on.
func (s Service) stalled(c *Course, seen Seen, fail func(string, ...any)) {
	for _, t := range seen.Tasks {
		if t.Revision == c.Primary.ID && c.Primary.Fate == Crashes {
			fail("a task of the failed deployment %s is there, and none can run", c.Primary.ID)
		}
	}
}

// daemons checks that there is exactly one task on each instance that should and can have one, and none elsewhere (S4).
func (s Service) daemons(around Surroundings, seen Seen, fail func(string, ...any)) {
	count := map[string]int{}
	for _, i := range seen.On {
		count[i]++
	}
	for i, n := range count {
		if n > 1 {
			fail("it has %d tasks on instance %s", n, i)
		}
		if !slices.Contains(around.Eligible, i) && !slices.Contains(around.Kept, i) {
			fail("it has a task on instance %s, which should have none", i)
		}
	}
	for _, i := range around.Roomy {
		if count[i] == 0 {
			fail("it runs no task on instance %s, which has room", i)
		}
	}
}
