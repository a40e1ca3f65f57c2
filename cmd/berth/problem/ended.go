package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/handler"
)

// ends are the tasks of a service's PRIMARY deployment, or of one of its task sets, that ended for one
// reason, as long as their rows are kept.
type ends []*cluster.Task

// recent returns those that ended within [listing.EndsFor].
func (e ends) recent(now time.Time) (recent ends) {
	for _, t := range e {
		if now.Sub(t.Stopped.Time()) <= listing.EndsFor {
			recent = append(recent, t)
		}
	}
	return recent
}

func (e ends) last() *cluster.Task {
	return slices.MaxFunc(e, func(a, b *cluster.Task) int { return a.Stopped.Compare(b.Stopped) })
}

// begin returns when the latest series of ends began, in which no two neighbours are more than
// [listing.EndsFor] apart. With ends at 12:00, 12:30, 12:35 and 12:41, that is 12:30. It is complete if
// an end before the series would still be known: rows of stopped tasks are deleted after a while, an
// hour by default.
func (e ends) begin(s *cluster.Service, now time.Time) (begin time.Time, complete bool) {
	sorted := slices.SortedFunc(slices.Values(e), func(a, b *cluster.Task) int { return b.Stopped.Compare(a.Stopped) })
	first := sorted[0]
	for _, t := range sorted {
		if first.Stopped.Time().Sub(t.Stopped.Time()) > listing.EndsFor {
			break
		}
		first = t
	}
	begin = first.Stopped.Time()
	kept := handler.DefaultSettings().KeepStopped
	if first.Expires > 0 {
		kept = time.Unix(first.Expires, 0).Sub(begin)
	}
	known := now.Add(-kept) // since then, all ends are
	return begin, !s.Deployment.CreatedAt.Before(known) || begin.Sub(known) > listing.EndsFor
}

// checkEnds reports tasks of the PRIMARY deployment, or of a task set, that exit by themselves, that
// ECS refuses to start, and that are replaced for their health, again and again. Failed starts are
// throttled, and reported with the throttle.
func (f serviceFinder) checkEnds(s *cluster.Service, c taskCounts) {
	if !s.HasTaskSets() {
		endFinder{f, s, "service " + s.Name, c}.check(s)
		return
	}
	for _, part := range s.Parts() {
		set := part.Deployment.ID
		endFinder{f, s, describeTaskSet(s, set), f.countTasks(s, set)}.check(part)
	}
}

// endFinder finds tasks that keep ending, of a service or of one of its task sets.
type endFinder struct {
	finder  serviceFinder
	service *cluster.Service
	owner   string // in words
	counts  taskCounts
}

// check reports what keeps ending of a part of the service, see [cluster.Service.Parts].
func (f endFinder) check(part *cluster.Service) {
	var exits, refused, unhealthy ends
	for _, t := range f.finder.in.Snapshot.TasksOf(part.Short) {
		switch {
		case !t.HasEnded() || t.Revision != part.Deployment.ID:
		case t.WasRefused():
			refused = append(refused, t)
		case listing.HasExited(part, t):
			exits = append(exits, t)
		case t.StopCode == cluster.StopByScheduler && strings.Contains(t.Reason, "health checks"):
			unhealthy = append(unhealthy, t)
		}
	}
	runNow := fmt.Sprintf("and %d of %d run now.", f.counts.running, part.Desired)
	f.add(part, exits, TasksExit, func(recent ends, last *cluster.Task) (what, why string, help []Help) {
		return fmt.Sprintf("Tasks of %s keep exiting.", f.owner),
			fmt.Sprintf("%s of %s exited by themselves within the last 10 minutes, %s %s",
				whatif.CountNoun(len(recent), "task"), part.Deployment.TaskDefinition, runNow,
				describeExit(last)), f.replaceHelp(part)
	})
	f.add(part, refused, StartsRefused, func(recent ends, last *cluster.Task) (what, why string, help []Help) {
		return fmt.Sprintf("ECS refuses to start tasks of %s.", f.owner),
			fmt.Sprintf("It refused %s within the last 10 minutes, %s %s",
				whatif.CountNoun(len(recent), "start"), runNow, describeReason(last.Reason)),
			f.finder.startHelp(part.Deployment.TaskDefinition, last.Reason)
	})
	if f.counts.unhealthy > 0 {
		return // the same problem, with the tasks that are unhealthy now
	}
	f.add(part, unhealthy, TasksUnhealthy, func(recent ends, last *cluster.Task) (what, why string, help []Help) {
		return fmt.Sprintf("Tasks of %s keep failing their health checks.", f.owner),
			fmt.Sprintf("%s replaced for that within the last 10 minutes, %s The last one: %s",
				pastTense(len(recent), "task"), runNow, sentence(last.Reason)), f.replaceHelp(part)
	})
}

// add adds a problem if enough tasks ended lately, as describe puts it into words.
func (f endFinder) add(part *cluster.Service, e ends, kind Kind,
	describe func(recent ends, last *cluster.Task) (what, why string, help []Help)) {
	recent := e.recent(f.finder.in.Now)
	if len(recent) < listing.KeepsEnding {
		return
	}
	last := recent.last()
	what, why, help := describe(recent, last)
	begin, complete := e.begin(part, f.finder.in.Now)
	f.finder.add(Problem{Kind: kind, Type: "service", Name: f.service.Name, Count: len(recent), What: what,
		Why: why, SinceEarlier: !complete}, begin, append([]Help{f.finder.stoppedHelp(last)}, help...)...)
}

// replaceHelp returns what replaces tasks that do not work: the revision before, or another task set.
func (f endFinder) replaceHelp(part *cluster.Service) []Help {
	if !f.service.HasTaskSets() {
		return f.finder.returnHelp(f.service)
	}
	return deployHelp(f.finder.finder, f.service, part.Deployment.ID, part.Deployment.TaskDefinition,
		"Register a revision that works, and make a task set of it")
}

func pastTense(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return fmt.Sprintf("%d %ss were", n, noun)
}

// describeExit says how a task ended, and how long it had run.
func describeExit(t *cluster.Task) string {
	ran := "less than a second"
	if d := t.Stopped.Time().Sub(t.Started.Time()); d >= time.Second {
		ran = shortDuration(d)
	}
	text := "The last one ran for " + ran
	if t.ExitCode != nil {
		text += fmt.Sprintf(" and exited with code %d", *t.ExitCode)
	}
	if t.ExitCode != nil && *t.ExitCode == exitKilled {
		text += " (killed: often it had no memory left)"
	}
	return sentence(text) + " " + sentence(cmp.Or(t.Reason, "ECS gave no reason"))
}

// exitKilled is the exit code of a container that a SIGKILL ended.
const exitKilled = 137

// stoppedHelp returns the command that shows why a task stopped, and with which codes its containers
// exited.
func (f serviceFinder) stoppedHelp(t *cluster.Task) Help {
	return Help{"See why the last one stopped", f.aws("describe-tasks --tasks %s "+
		"--query 'tasks[].[stoppedReason,containers[].[name,exitCode,reason]]'", t.ID)}
}

// returnHelp returns the command that brings back the last revision that completed, if it is another
// one: a rollback while the deployment is in progress, and a deployment afterwards.
func (f serviceFinder) returnHelp(s *cluster.Service) []Help {
	if s.Last == nil || s.Last.ID == s.Deployment.ID {
		return nil
	}
	what, command := "Return to the deployment before", f.berth("rollback %s", s.Name)
	if s.Deployment.State != cluster.RolloutInProgress {
		if s.Last.TaskDefinition == "" || s.Last.TaskDefinition == s.Deployment.TaskDefinition {
			return nil
		}
		command = f.aws("update-service --service %s --task-definition %s", s.Name, s.Last.TaskDefinition)
	}
	return []Help{{what, command}}
}

// hasFailed reports whether a deployment is the PRIMARY one and FAILED: it starts nothing more.
func hasFailed(s *cluster.Service, deployment string) bool {
	return s.Deployment.ID == deployment && s.Deployment.State == cluster.RolloutFailed
}

// definitionOf returns the task definition of a deployment: the service's own record, or that of its
// tasks as long as they are known; empty if neither is.
func (f serviceFinder) definitionOf(s *cluster.Service, deployment string) string {
	if r := s.Revision(deployment); r != nil && r.TaskDefinition != "" {
		return r.TaskDefinition
	}
	for _, t := range f.in.Snapshot.TasksOf(s.Short) {
		if t.Revision == deployment {
			return t.TaskDefinition
		}
	}
	return ""
}

// percentages returns the command that lets a service go below its desired count or above it.
func (f *finder) percentages(s *cluster.Service) string {
	most := max(s.MaxPercent, 200)
	if s.Strategy == cluster.Daemon { // never two on an instance
		most = 100
	}
	return f.aws("update-service --service %s --deployment-configuration minimumHealthyPercent=%d,maximumPercent=%d",
		s.Name, min(s.MinHealthy, 50), most)
}
