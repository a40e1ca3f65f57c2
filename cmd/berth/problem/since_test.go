package problem_test

import (
	"slices"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
	"berth/shared/operation"
)

// since is what the state says of when a problem began; another time that it has is a different one.
var since = noon.Add(-7 * time.Minute)

// Each kind of problem says since when it lasts, where the state knows.
func TestSince(t *testing.T) {
	for name, c := range map[string]struct {
		kind    problem.Kind
		prepare func(w *world)
	}{
		"UnhealthyTasks": {problem.TasksUnhealthy, func(w *world) {
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) { s.UnhealthySince = since })
			w.task("web", 1, "n-1", func(t *cluster.Task) { t.Health = cluster.Unhealthy })
		}},
		"AnUnusedInstanceSinceItRegistered": {problem.InstanceUnused, func(w *world) {
			unused(w, func(i *cluster.Instance) { i.RegisteredAt = cluster.At(since) })
		}},
		"AnUnusedInstanceSinceItsAttributesChanged": {problem.InstanceUnused, func(w *world) {
			unused(w, func(i *cluster.Instance) { i.AttributesChangedAt = cluster.At(since) })
		}},
		"AnUnusedInstanceSinceAServiceChanged": {problem.InstanceUnused, func(w *world) {
			unused(w).RulesChangedAt = since
		}},
		"AProviderThatNoClusterHas": {problem.ProviderFailed, func(w *world) {
			w.instance(1)
			w.capacity().Unattachable = []*cluster.CapacityProvider{{Name: "bad", GroupProblem: "no group",
				UpdateStatus: cluster.ProviderCreateFailed, FailedAt: since}}
		}},
		"AProviderThatCouldNotBeCreated": {problem.ProviderFailed, func(w *world) {
			w.instance(1)
			w.capacity(func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) {
				p.UpdateStatus, p.GroupProblem, p.FailedAt = cluster.ProviderCreateFailed, "no group", since
			})
		}},
		"AProviderThatCouldNotBeChanged": {problem.ProviderFailed, func(w *world) {
			w.instance(1)
			w.capacity(func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) {
				p.UpdateStatus, p.UpdateReason, p.FailedAt = cluster.ProviderUpdateFailed, "no protection", since
			})
		}},
		"AProviderWithoutItsGroup": {problem.ProviderFailed, func(w *world) {
			w.instance(1)
			k := w.capacity()
			k.Groups = map[string]*cluster.AutoScalingGroup{}
			k.Histories["spot"] = &cluster.ScalingHistory{Provider: "spot",
				Attachment: cluster.Attachment{MissingSince: since}}
		}},
		"DeadLetters": {problem.DeadLetters, func(w *world) {
			w.input.DeadLetters = []operation.DeadLetters{{Queue: "dead", Messages: 1, Since: since}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.prepare(w)
			all := w.find(t)
			at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == c.kind })
			if at < 0 || all[at].Since == nil || !all[at].Since.Equal(since) {
				t.Errorf("no %q since %s in %+v", c.kind, since, all)
			}
		})
	}
}

// unused adds an instance that web cannot use, and returns web.
func unused(w *world, change ...func(*cluster.Instance)) *cluster.Service {
	w.instance(1)
	w.instance(2, append(change, withAttributes(map[string]string{"rack": "r2"}))...)
	w.task("web", 1, "n-1")
	return w.service("web", 1, func(s *cluster.Service) {
		s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
			Expression: "attribute:rack == r1"}}
	})
}

// A dead-letter queue of berth up has no address at SQS, so its remedy is another one.
func TestDeadLettersOfBerthUp(t *testing.T) {
	w := newWorld()
	w.input.DeadLetters = []operation.DeadLetters{{Queue: "dead", Messages: 1}}
	if got := w.find(t); len(got) != 1 || len(got[0].Help) != 1 || got[0].Help[0].Command != "berth up" {
		t.Errorf("%+v", got)
	}
}

// Tasks that keep ending have done so since the first end of an unbroken series. The rows of earlier
// ends may be deleted: then it lasts at least so long.
func TestSinceTasksKeepEnding(t *testing.T) {
	const hourly = 61 // one end a minute for as long as rows are kept
	for name, c := range map[string]struct {
		ends    []time.Duration // before now
		created time.Duration   // the deployment, before now
		kept    time.Duration
		want    string
	}{
		"TheDeploymentBeganLately": {minutes(0, 20), 30 * time.Minute, time.Hour, "since 2026-11-21T11:50:00Z (20m)"},
		"ItRanBefore":              {minutes(0, 20), 48 * time.Hour, time.Hour, "since 2026-11-21T11:50:00Z (20m)"},
		"ItPausedOnce": {append(minutes(0, 5), 50*time.Minute), 48 * time.Hour, time.Hour,
			"since 2026-11-21T12:05:00Z (5m)"},
		"LongerThanRowsAreKept": {minutes(0, hourly), 48 * time.Hour, time.Hour,
			"since 2026-11-21T11:09:00Z or earlier (at least 1h1m)"},
		"RowsAreKeptForLess": {minutes(0, 14), 48 * time.Hour, 15 * time.Minute,
			"since 2026-11-21T11:56:00Z or earlier (at least 14m)"},
		"RowsAreKeptForLessButSinceItBegan": {minutes(0, 14), 15 * time.Minute, 15 * time.Minute,
			"since 2026-11-21T11:56:00Z (14m)"},
	} {
		for _, code := range []string{cluster.StopContainerExited, cluster.StopRefused, cluster.StopByScheduler} {
			w := newWorld()
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) { s.Deployment.CreatedAt = tenPast.Add(-c.created) })
			for k, ago := range c.ends {
				w.task("web", 2+k, "n-1", ended(code, "failed container health checks", tenPast.Sub(noon)-ago),
					func(t *cluster.Task) { t.Expires = t.Stopped.Time().Add(c.kept).Unix() })
			}
			w.task("web", 1, "n-1")
			all := w.find(t)
			if len(all) != 1 || all[0].Lasts(tenPast) != c.want {
				t.Errorf("%s, %s: %+v, want it %s", name, code, all, c.want)
			}
		}
	}
}

// minutes returns each minute of a range.
func minutes(first, last int) (out []time.Duration) {
	for k := first; k <= last; k++ {
		out = append(out, time.Duration(k)*time.Minute)
	}
	return out
}
