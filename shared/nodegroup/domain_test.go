package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

func pause(d time.Duration) func(*nodegroup.Request) {
	return func(r *nodegroup.Request) { r.Waits.Domain = d }
}

// out returns the upgrade domains with old nodes that the update has taken out of service.
func (w *world) out() (of []string) {
	for _, v := range w.sorted() {
		if v.ours && v.image == oldImage && v.Row != nil {
			of = append(of, v.Row.Attributes[cluster.AttributeUpgrade])
		}
	}
	slices.Sort(of)
	return slices.Compact(of)
}

// Upgrade domains are replaced one after another, in the order of their numbers, with the wait
// between them (N7).
func TestUpgradeDomains(t *testing.T) {
	for _, strategy := range []cluster.UpdateStrategy{cluster.UpdateDefault, cluster.UpdateMinimal} {
		t.Run(string(strategy), func(t *testing.T) {
			w := newWorldOf(t, 2, 6, 4, cluster.UpdateConfig{MaxUnavailable: 2, Strategy: strategy})
			w.slow = 10 * time.Minute
			w.begin(pause(30 * time.Minute))
			var turns []string
			var left time.Time
			u := w.until(func(u *cluster.Update) bool {
				out := w.out()
				switch {
				case len(out) > 1:
					t.Fatalf("nodes of %v are out of service at once", out)
				case len(out) == 1 && !slices.Contains(turns, out[0]):
					if waited := w.now.Sub(left); !left.IsZero() && waited < 39*time.Minute {
						t.Errorf("%s begins %v after %v", out[0], waited, turns)
					}
					turns = append(turns, out[0])
				}
				if len(out) > 0 {
					left = w.now
				}
				return u.HasEnded()
			})
			w.check()
			if u.Status != cluster.UpdateSuccessful || !slices.Equal(turns, []string{"ud8", "ud9", "ud10", "ud11"}) {
				t.Errorf("%s, turns %v: %+v", u.Status, turns, u.Errors)
			}
		})
	}
}

// Old nodes of other domains accept tasks until their own turn, because they must hold the load.
func TestOnlyTheCurrentDomainIsUnschedulable(t *testing.T) {
	w := newWorldOf(t, 2, 4, 2, cluster.UpdateConfig{})
	w.begin()
	u := w.until(func(u *cluster.Update) bool { return len(u.Removals) > 0 })
	for _, v := range w.vms {
		_, marked := v.Row.Attributes[cluster.AttributeUnschedulable]
		if want := v.image == oldImage &&
			v.Row.Attributes[cluster.AttributeUpgrade] == u.CurrentDomain; marked != want {
			t.Errorf("%s of %s, %s: unschedulable %v", v.ID, v.Row.Attributes[cluster.AttributeUpgrade], v.image,
				marked)
		}
	}
}

func TestDomainWhoseLoadDoesNotFitElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		force bool
		lasts time.Duration // of the lack
		want  cluster.UpdateStatus
	}{
		"Fails":            {false, 24 * time.Hour, cluster.UpdateFailed},
		"WaitsForRoom":     {false, time.Hour + 10*time.Minute, cluster.UpdateSuccessful},
		"GoesOnWhenForced": {true, 24 * time.Hour, cluster.UpdateSuccessful},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 1, 4, 2, cluster.UpdateConfig{MaxUnavailable: 2})
			w.group.WhyNoRoom = func(leaving []string) string {
				for _, v := range w.vms {
					if slices.Contains(leaving, v.Row.ID) && v.Row.Attributes[cluster.AttributeUpgrade] == "ud9" {
						return "12 GiB of memory are missing"
					}
				}
				return ""
			}
			w.begin(func(r *nodegroup.Request) { r.Force = c.force })
			var asked time.Time
			u := w.until(func(u *cluster.Update) bool {
				if strings.Contains(u.WaitingFor, "room for the load of upgrade domain ud9: 12 GiB") && asked.IsZero() {
					asked = w.now
				}
				if !asked.IsZero() && w.now.Sub(asked) >= c.lasts-time.Hour {
					w.group.WhyNoRoom = nil
				}
				return u.HasEnded()
			})
			w.check()
			if u.Status != c.want || asked.IsZero() == !c.force {
				t.Errorf("%s %+v, asked %v", u.Status, u.Errors, asked)
			}
			if c.want == cluster.UpdateFailed {
				e := says(t, u, cluster.PodEvictionFailure,
					"The other upgrade domains cannot hold the load of ud9: 12 GiB")
				if len(e.Resources) != 2 {
					t.Errorf("resources %v", e.Resources)
				}
			}
		})
	}
}

func TestHealthAfterADomain(t *testing.T) {
	for name, c := range map[string]struct {
		recovers time.Duration
		want     cluster.UpdateStatus
	}{
		"Stops":    {time.Hour, cluster.UpdateFailed},
		"Recovers": {8 * time.Minute, cluster.UpdateSuccessful},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 1, 4, 2, cluster.UpdateConfig{MaxUnavailable: 2})
			w.begin(pause(5 * time.Minute))
			w.until(func(u *cluster.Update) bool { return !u.DomainReplacedAt.IsZero() })
			done := w.now
			w.group.Unhealthy = map[string]string{"web": "service web: 3 of 8 healthy"}
			u := w.until(func(u *cluster.Update) bool {
				if w.now.Sub(done) > 5*time.Minute+c.recovers {
					w.group.Unhealthy = nil
				}
				return u.HasEnded()
			})
			w.check()
			if u.Status != c.want {
				t.Errorf("%s %+v", u.Status, u.Errors)
			}
			if c.want == cluster.UpdateFailed {
				says(t, u, cluster.PodEvictionFailure,
					"Unhealthy after upgrade domain ud8 was updated: service web: 3 of 8 healthy")
				for _, v := range w.vms {
					if v.image == oldImage && v.Row.Attributes[cluster.AttributeUpgrade] != "ud9" {
						t.Errorf("%s of %s is old", v.ID, v.Row.Attributes[cluster.AttributeUpgrade])
					}
				}
			}
		})
	}
}

// A service that was unhealthy before an upgrade domain began does not fail it, and does not hide
// another one that does.
func TestHealthBeforeADomain(t *testing.T) {
	w := newWorldOf(t, 1, 4, 2, cluster.UpdateConfig{MaxUnavailable: 2})
	w.group.Unhealthy = map[string]string{"huge": "service huge: 0 of 2 placed"}
	w.begin(pause(5 * time.Minute))
	if u := w.run(); u.Status != cluster.UpdateSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	w.check()
	w = newWorldOf(t, 1, 4, 2, cluster.UpdateConfig{MaxUnavailable: 2})
	w.group.Unhealthy = map[string]string{"huge": "service huge: 0 of 2 placed"}
	w.begin(pause(5 * time.Minute))
	w.until(func(u *cluster.Update) bool { return !u.DomainReplacedAt.IsZero() })
	w.group.Unhealthy["web"] = "service web: 3 of 8 healthy"
	if e := says(t, w.run(), cluster.PodEvictionFailure,
		"Unhealthy after upgrade domain ud8 was updated: service web: 3 of 8 healthy"); strings.Contains(e.Message,
		"huge") {
		t.Error(e.Message)
	}
}

// Order says before the update what then happens.
func TestOrder(t *testing.T) {
	for _, domains := range []int{0, 3} {
		t.Run(fmt.Sprintf("%dDomains", domains), func(t *testing.T) {
			w := newWorldOf(t, 2, 4, domains, cluster.UpdateConfig{})
			u := w.begin()
			_, instances := w.see(u)
			want := nodegroup.ReplacementOrder(u, instances)
			slices.Reverse(instances)
			if again := nodegroup.ReplacementOrder(u, instances); !slices.Equal(want, again) || len(want) != 8 ||
				slices.IsSorted(want) {
				t.Errorf("order %v, then %v", want, again)
			}
			u.Seed++
			if slices.Equal(nodegroup.ReplacementOrder(u, instances), want) {
				t.Error("another seed gives the same order")
			}
			var got []string
			w.until(func(u *cluster.Update) bool {
				if u.Phase == cluster.PhaseUpgrade {
					for _, n := range u.Removals {
						if !slices.Contains(got, n.Instance) {
							got = append(got, n.Instance)
						}
					}
				}
				return u.HasEnded()
			})
			if !slices.Equal(got, want) {
				t.Errorf("taken were %v, in the plan %v", got, want)
			}
		})
	}
}

// Between upgrade domains an update waits for services, and for room if there is none; at no other
// time, and not after its end.
func TestWhatAnUpdateWaitsForBetweenDomains(t *testing.T) {
	for name, c := range map[string]struct {
		phase          cluster.UpdatePhase
		change         func(*cluster.Update)
		services, room bool
	}{
		"ADomainWasReplaced": {cluster.PhaseUpgrade, func(u *cluster.Update) { u.DomainReplacedAt = noon }, true,
			false},
		"NoRoom": {cluster.PhaseUpgrade, func(u *cluster.Update) { u.WaitingSince = noon }, false, true},
		"Both": {cluster.PhaseUpgrade, func(u *cluster.Update) { u.DomainReplacedAt, u.WaitingSince = noon, noon },
			true, true},
		"Neither": {cluster.PhaseUpgrade, func(*cluster.Update) {}, false, false},
		"Ended": {cluster.PhaseUpgrade, func(u *cluster.Update) {
			u.DomainReplacedAt, u.WaitingSince, u.Status = noon, noon, cluster.UpdateFailed
		}, false, false},
		"NoDomains": {cluster.PhaseUpgrade, func(u *cluster.Update) {
			u.DomainReplacedAt, u.WaitingSince, u.ByDomain = noon, noon, false
		}, false, false},
		"AnotherPhase": {cluster.PhaseScaleUp, func(u *cluster.Update) {
			u.DomainReplacedAt, u.WaitingSince = noon, noon
		}, false, false},
	} {
		u := begunAt(c.phase, func(u *cluster.Update) {
			u.ByDomain = true
			c.change(u)
		})
		if services, room := nodegroup.AwaitsServices(u),
			nodegroup.AwaitsRoom(u); services != c.services || room != c.room {
			t.Errorf("%s: it waits for services: %v, for room: %v", name, services, room)
		}
	}
}
