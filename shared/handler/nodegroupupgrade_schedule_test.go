package handler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// slowGroups takes 50 seconds to list the node groups of one cluster.
type slowGroups struct {
	state.Store
	list func(clusterName string)
}

func (s slowGroups) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if strings.HasPrefix(r.From, state.PrefixNodeGroup) {
		s.list(r.Cluster)
	}
	return s.Store.List(ctx, r)
}

// A cluster that uses up an invocation's time does not keep the others from theirs.
func TestNodeGroupUpgrade_EachClusterHasItsTurn(t *testing.T) {
	w := emptyWorld(t)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.ecs.clusters[name] = true
		if err := w.api.Clusters.ClusterCreated(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	var looked []string
	n, _ := groupsOf(w)
	n.function.State = slowGroups{w.state, func(name string) {
		looked = append(looked, name)
		w.clock.now = w.clock.now.Add(50 * time.Second)
	}}
	w.clock.now = time.Now().Add(time.Hour) // a context's deadline is by the machine's clock
	for range names {
		limited, cancel := context.WithDeadline(ctx, w.clock.now.Add(60*time.Second))
		if err := n.function.RunSchedule(limited, "node-groups"); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	slices.Sort(looked)
	want(t, "looked at", strings.Join(looked, " "), "a b c")
}

// Rounds that come some seconds early or late replace nodes as fast as punctual ones, and none
// before ECS has had no task there for a minute (N4).
func TestNodeGroupUpgrade_UnpunctualRounds(t *testing.T) {
	took := func(jitter time.Duration, early int) (looks int) {
		w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		pool.terminated = func(id string) {
			for _, task := range w.ecs.tasks {
				if task.Instance == id && w.clock.now.Sub(task.Stopped) < time.Minute {
					t.Errorf("node %s is terminated %v after its last task", id, w.clock.now.Sub(task.Stopped))
				}
			}
		}
		pool.runs(upgrade, 120, func(minute int) {
			looks++
			if minute%2 == early {
				w.clock.now = w.clock.now.Add(-jitter)
			} else {
				w.clock.now = w.clock.now.Add(jitter)
			}
		})
		return looks
	}
	punctual := took(0, 0)
	for early := range 2 {
		want(t, "looks", took(4*time.Second, early), punctual)
	}
}

// A scale-out by managed scaling keeps the nodes that the update has added (N5).
func TestNodeGroupUpgrade_StopsScalingDownAfterAScaleOut(t *testing.T) {
	for _, c := range []struct {
		name string
		off  bool
		late time.Duration // of the look that sees it
	}{{"On", false, 0}, {"SeenLongAfter", false, time.Hour}, {"Off", true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
			p := providerRow("p", "a")
			if p.Scaling.Enabled = !c.off; c.off {
				p.Protection = false
			}
			if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, p); err != nil {
				t.Fatal(err)
			}
			u := pool.runs(upgrade, 300, func(int) {
				u := rows[*cluster.Update](w, state.PrefixUpdate)[0]
				if u.Phase != cluster.PhaseScaleDown || c.late > 0 && (u.DesiredFloor == nil || len(rows[*cluster.ScalingHistory](w, state.PrefixScaling)) > 0) {
					return
				}
				history := &cluster.ScalingHistory{Head: cluster.Head{Cluster: prod}, Provider: "p", LastScaleOut: w.clock.now}
				if _, err := w.state.Write(ctx, state.Write{Put: history, Any: true}); err != nil {
					t.Fatal(err)
				}
				w.advance(c.late)
			})
			want(t, "status", u.Status, cluster.UpdateSuccessful)
			want(t, "stopped", u.SizesReason != "", !c.off)
			want(t, "nodes", pool.groups["a"].Desired > 4, !c.off)
		})
	}
}

// A scale-out before the surplus is removed does not, however long the instances warm up: what it
// added is not surplus (N5).
func TestNodeGroupUpgrade_RemovesTheSurplusAfterAScaleOut(t *testing.T) {
	w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	p := providerRow("p", "a")
	p.Scaling.Warmup = 10_000 * time.Second
	if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, p); err != nil {
		t.Fatal(err)
	}
	scaledOut := false
	u := pool.runs(upgrade, 300, func(int) {
		if u := rows[*cluster.Update](w, state.PrefixUpdate)[0]; u.Phase != cluster.PhaseUpgrade || scaledOut {
			return
		}
		history := &cluster.ScalingHistory{Head: cluster.Head{Cluster: prod}, Provider: "p", LastScaleOut: w.clock.now}
		if _, err := w.state.Write(ctx, state.Write{Put: history, Any: true}); err != nil {
			t.Fatal(err)
		}
		pool.groups["a"].Desired++
		scaledOut = true
	})
	want(t, "status", u.Status, cluster.UpdateSuccessful)
	want(t, "nodes", pool.groups["a"].Desired, 5)
}
