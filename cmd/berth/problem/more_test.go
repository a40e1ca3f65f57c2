package problem_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
)

// Situations found by hand on a running Berth, in which the cause or the remedy was wrong.

func TestAStrategyWithATypoIsCorrected(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 1, func(s *cluster.Service) {
		s.Rules.Strategies = []cluster.PlacementStrategy{{Type: "spread", Field: "attribute:rak"},
			{Type: "binpack", Field: "memory"}, {Type: "random"}}
	})
	w.task("web", 1, "n-1")
	all := w.find(t)
	want := "aws ecs update-service --cluster prod --service web --placement-strategy " +
		"type=spread,field=attribute:rack type=binpack,field=memory type=random"
	if len(all) == 0 || all[0].Kind != problem.NameUnknown || all[0].Help[0].Command != want {
		t.Errorf("%+v, want %s", all, want)
	}
}

// A service that has no room when its next attempt is due is not throttled: more time would not help.
func TestAnAttemptThatIsDueButHasNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		blocked bool
		kind    problem.Kind
		why     string
	}{
		"NoRoom": {true, problem.ServiceShort, "0 of 1 instance can take one: 1 constraint not met (attribute:rack == r9). " +
			"No instance has the value \"r9\" of the attribute \"rack\"; the nearest value is \"r1\". " +
			"Before that, 3 attempts failed, one after the other. Last failure: No image."},
		"Due": {false, problem.ServiceThrottled, "The next attempt has been due since 2026-11-21T12:00:00Z."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) {
				if c.blocked {
					s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
						Expression: "attribute:rack == r9"}}
					s.Blocked, s.BlockedSince = &cluster.Diagnosis{Unplaced: 1}, noon
				}
			})
			w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
				Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 3, Failures: 3, Since: noon,
					NextAttemptAt: noon, Reason: "no image"}}})
			all := w.find(t)
			if len(all) == 0 || all[0].Kind != c.kind || !strings.Contains(all[0].Why, c.why) {
				t.Errorf("%+v, want %q with %q", all, c.kind, c.why)
			}
		})
	}
}

// A service whose next attempt is later and has no room has two problems: to remove one does not end
// the other.
func TestThrottledServiceWithoutRoom(t *testing.T) {
	for name, c := range map[string]struct {
		rack string
		want []problem.Kind
	}{
		"NoRoom":          {"r9", []problem.Kind{problem.ServiceShort, problem.ServiceThrottled}},
		"ThereIsRoomNow":  {"r1", []problem.Kind{problem.ServiceThrottled}},
		"NothingIsWanted": {"", []problem.Kind{problem.ServiceThrottled}},
	} {
		w := newWorld()
		w.instance(1)
		w.service("web", 1, func(s *cluster.Service) {
			if c.rack != "" {
				s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
					Expression: "attribute:rack == " + c.rack}}
				s.Blocked, s.BlockedSince = &cluster.Diagnosis{Unplaced: 1}, noon
			}
		})
		w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
			Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 3, Failures: 3, Since: noon,
				NextAttemptAt: tenPast.Add(time.Hour)}}})
		var got []problem.Kind
		for _, p := range w.find(t) {
			if p.Type == "service" {
				got = append(got, p.Kind)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A draining or disconnected instance that the service could not use anyway is no remedy.
func TestRemediesAreOfTheServicesProviders(t *testing.T) {
	for provider, want := range map[string]bool{"spot": true, "other": false} {
		w := newWorld()
		w.instance(1, func(i *cluster.Instance) { i.Status, i.Provider = cluster.InstanceDraining, "spot" })
		w.service("web", 1, func(s *cluster.Service) {
			s.Providers = []cluster.ProviderShare{{Provider: provider, Weight: 1}}
			s.Blocked, s.BlockedSince = &cluster.Diagnosis{Unplaced: 1}, noon
		})
		all := w.find(t)
		found := false
		for _, h := range all[0].Help {
			found = found || strings.Contains(h.Command, "--status ACTIVE")
		}
		if found != want {
			t.Errorf("%s: %+v", provider, all[0])
		}
	}
}
