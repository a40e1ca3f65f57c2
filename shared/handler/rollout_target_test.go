package handler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

var blue = cluster.LoadBalancer{TargetGroup: "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/blue/1", Container: "app", Port: 80}

// behind creates a service of n tasks behind a target group. Dispatch does nothing about targets;
// the test does it.
func (w *world) behind(n int, change func(*operation.CreateService)) {
	w.t.Helper()
	spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: &n}
	spec.LoadBalancers = &[]cluster.LoadBalancer{blue}
	if change != nil {
		change(&spec)
	}
	w.createAs(spec)
	w.pump()
}

func (w *world) targets() []*cluster.Target { return rows[*cluster.Target](w, state.PrefixTarget) }

// set changes every registration, as dispatch and health-check do.
func (w *world) set(change func(t *cluster.Target, r *cluster.Registration)) {
	w.t.Helper()
	for _, row := range w.targets() {
		next := *row
		next.Rev++
		next.Registrations = slices.Clone(row.Registrations)
		for i := range next.Registrations {
			change(&next, &next.Registrations[i])
		}
		if _, err := w.store.Write(ctx, state.Write{Put: &next}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.pump()
}

// items returns the tasks whose registrations the outbox names.
func (w *world) items() (out []state.TargetItem) {
	for _, o := range w.outbox() {
		out = append(out, o.Targets...)
	}
	return out
}

func TestPlacement_Targets(t *testing.T) {
	begin := func(t *testing.T, n int) *world {
		w := newWorld(t)
		w.instances("i", 2, 8192, 16384)
		w.behind(n, nil)
		return w
	}
	registered := func(_ *cluster.Target, r *cluster.Registration) {
		r.State, r.Health = cluster.Registered, cluster.Healthy
	}
	t.Run("RegistersRunningTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 8192, 16384)
		w.ecs.frozen = true
		w.behind(2, nil)
		wantCount(t, "registrations of tasks that do not run", w.targets(), 0)
		w.ecs.frozen, w.dispatchAsleep = false, true
		w.pump()
		rows := w.targets()
		wantCount(t, "registrations", rows, 2)
		want(t, "target group", rows[0].Registrations[0].ARN, blue.TargetGroup)
		want(t, "port", rows[0].Registrations[0].ContainerPort, 80)
		wantCount(t, "outbox items", w.items(), 2)
		w.set(registered)
		wantEvent(t, w.events("web"), "(service web) registered 2 targets in (target-group "+blue.TargetGroup+")")
		want(t, "told", w.targets()[0].RegistrationEmitted, true)
		want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
		n := len(w.events("web"))
		w.set(registered)
		wantCount(t, "events", w.events("web"), n)
	})
	t.Run("DrainsThenStops", func(t *testing.T) {
		w := begin(t, 2)
		w.dispatchAsleep = true
		w.set(registered)
		w.scale("web", 1)
		w.pump()
		var drained []state.StopItem
		for _, o := range w.outbox() {
			drained = append(drained, o.Stops...)
		}
		wantCount(t, "stops", drained, 1)
		want(t, "drains", drained[0].Drain, true)
		w.set(func(row *cluster.Target, r *cluster.Registration) {
			if row.Task == drained[0].ID {
				r.State, r.DrainedAt = cluster.Deregistered, w.clock.now.Add(time.Minute)
			}
		})
		events := w.events("web")
		wantEvent(t, events, "(service web) deregistered 1 targets in (target-group "+blue.TargetGroup+")")
		wantEvent(t, events, "(service web) has begun draining connections on 1 tasks.")
	})
	t.Run("DeregistersTasksThatEnded", func(t *testing.T) {
		w := begin(t, 1)
		w.set(registered)
		w.dispatchAsleep = true
		w.ecs.exit(w.ecs.live()[0], 1)
		w.pump()
		wantCount(t, "outbox items", w.items(), 1)
		for range 3 { // further decisions do not ask again
			w.scale("web", 2)
			w.scale("web", 1)
			w.pump()
		}
		ended := slices.DeleteFunc(w.items(), func(i state.TargetItem) bool { return w.task(i.ID).Status() != cluster.TaskStopped })
		wantCount(t, "outbox items of the task that ended", ended, 1)
	})
	t.Run("LostItemsAreFoundByTheSweep", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 8192, 16384)
		w.ecs.frozen = true
		w.behind(2, nil)
		w.ecs.frozen, w.dispatchAsleep = false, true
		w.pump()
		forget := func() {
			for _, o := range w.outbox() {
				key := state.KeyOf(o)
				if _, err := w.store.Write(ctx, state.Write{Delete: &key}); err != nil {
					t.Fatal(err)
				}
			}
		}
		forget()
		w.sweep()
		wantCount(t, "outbox items", w.items(), 2)
		w.set(registered)
		forget()
		w.sweep()
		wantCount(t, "outbox items once they are registered", w.items(), 0)
	})
	t.Run("TheSweepFindsOrphans", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.dispatchAsleep = true
		orphan := &cluster.Target{Head: cluster.Head{Cluster: prod, Rev: 1}, Task: "t", Owner: "o", Service: "web"}
		if _, err := w.store.Write(ctx, state.Write{Put: orphan}); err != nil {
			t.Fatal(err)
		}
		w.sweep()
		wantCount(t, "outbox items", w.items(), 1)
	})
	t.Run("ReplacesWhatTheTargetGroupFindsUnhealthy", func(t *testing.T) {
		w := begin(t, 2)
		w.dispatchAsleep = true
		w.set(registered)
		w.dispatchAsleep = false
		bad := w.targets()[0].Task
		w.set(func(row *cluster.Target, r *cluster.Registration) {
			if row.Task == bad {
				r.Health, r.Reason = cluster.Unhealthy, "Health checks failed with these codes: [503]"
			}
		})
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 3)
		events := w.events("web")
		wantEvent(t, events, "(task "+bad+") (port 0) is unhealthy in (target-group "+blue.TargetGroup+") due to (reason Health checks failed with these codes: [503]).")
		wantEvent(t, events, "Amazon ECS replaced 1 tasks due to an unhealthy status.")
	})
}

// protect protects every RUNNING task until a time.
func (w *world) protect(until time.Time) {
	w.t.Helper()
	for _, task := range w.with(cluster.TaskRunning) {
		row := &cluster.Protection{Head: cluster.Head{Cluster: prod, Rev: 1}, Task: task.ID, Owner: task.Owner, Until: until}
		if _, err := w.store.Write(ctx, state.Write{Put: row}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestPlacement_Protected(t *testing.T) {
	w := rolled(t, 2, operation.CreateService{})
	w.protect(w.clock.now.Add(10 * time.Minute))
	w.scale("web", 1)
	w.advance(9 * time.Minute)
	wantCount(t, "running tasks while they are protected", w.with(cluster.TaskRunning), 2)
	wantEvent(t, w.events("web"), "tasks under protection")
	w.advance(2 * time.Minute)
	wantCount(t, "running tasks once they are not", w.with(cluster.TaskRunning), 1)
}

// No protection lasts longer than two days: one that would was stored by a clock that had jumped.
func TestPlacement_ProtectedByAClockThatJumped(t *testing.T) {
	w := rolled(t, 2, operation.CreateService{})
	w.protect(w.clock.now.Add(75 * time.Hour))
	running := w.with(cluster.TaskRunning)[0].ID
	protected, _, err := w.api.TaskProtections.DescribeTaskProtections(ctx, prod, []string{running})
	if err != nil || len(protected) != 1 || !protected[0].Until.IsZero() {
		t.Errorf("described as %+v, %v", protected, err)
	}
	w.scale("web", 1)
	w.advance(time.Minute)
	wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
}

func TestPlacement_WhileMostTasksAreUnhealthy(t *testing.T) {
	for _, c := range []struct {
		name               string
		tasks, unchecked   int
		unhealthy, running int
	}{
		{"MostOfThemAreLeft", 12, 0, 11, 12},
		{"HalfOfThemAreReplacedInWaves", 12, 0, 6, 15}, // a wave is a fifth of the tasks, rounded up
		{"TenAreReplacedWhateverShareTheyAre", 10, 0, 10, 12},
		{"TasksWithoutACheckLookNeitherWay", 12, 30, 11, 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			def := definition("checked", 1, 256, 512)
			def.HealthChecked = true
			w.ecs.define(def)
			w.instances("i", 4, 8192, 16384)
			w.create("web", "checked", c.tasks)
			w.pump()
			checked := w.ecs.live()
			w.create("worker", "web", c.unchecked)
			w.pump()
			for _, id := range checked {
				w.ecs.turn(id, cluster.Healthy)
			}
			w.pump()
			want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
			w.placementAsleep = true
			for _, id := range checked[:c.unhealthy] {
				w.ecs.turn(id, cluster.Unhealthy)
			}
			w.pump()
			w.placementAsleep = false
			w.pump()
			wantCount(t, "running tasks", w.with(cluster.TaskRunning), c.running)
		})
	}
}

func TestPlacement_Zones(t *testing.T) {
	// There is one zone at first, then two.
	begin := func(t *testing.T, change func(*operation.CreateService)) (w *world, from int) {
		w = newWorld(t)
		w.ecs.register(zoned("a", "zone-a"))
		w.pump()
		spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4)}
		if change != nil {
			change(&spec)
		}
		w.createAs(spec)
		w.advance(2 * time.Minute)
		wantCount(t, "running tasks at first", w.with(cluster.TaskRunning), 4)
		from = len(w.changed)
		w.ecs.register(zoned("b", "zone-b"))
		w.advance(5 * time.Minute)
		return w, from
	}
	t.Run("TheSweepFindsAWakeUpThatWasLost", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.register(zoned("a", "zone-a"))
		w.pump()
		w.create("web", "web", 4)
		w.advance(2 * time.Minute)
		w.placementAsleep = true
		w.ecs.register(zoned("b", "zone-b"))
		w.pump()
		w.decide, w.placementAsleep = nil, false
		w.placement = w.newPlacement("env-2", w.placement.Settings)
		w.advance(10 * time.Minute)
		want(t, "tasks in the new zone before the sweep", placed(w.with(cluster.TaskRunning))["b"], 0)
		w.sweep()
		w.advance(5 * time.Minute)
		want(t, "tasks in the new zone", placed(w.with(cluster.TaskRunning))["b"], 2)
		dues := len(w.dues())
		w.sweep()
		want(t, "due rows where there is nothing to do", len(w.dues()), dues)
	})
	for _, protected := range []string{"a", "b"} {
		t.Run("BesideAZoneOfProtectedTasks/"+protected, func(t *testing.T) {
			w := newWorld(t)
			w.ecs.register(zoned("a", "zone-a"))
			w.ecs.register(zoned("b", "zone-b"))
			w.pump()
			w.create("web", "web", 6)
			w.advance(2 * time.Minute)
			for _, x := range w.with(cluster.TaskRunning) {
				if x.Instance == protected {
					_, _, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{x.ID}, 4*time.Hour)
					want(t, "error", err, nil)
				}
			}
			w.ecs.register(zoned("c", "zone-c"))
			w.minutes(5)
			on := placed(w.with(cluster.TaskRunning))
			want(t, "tasks of the protected zone and the new one", fmt.Sprint(on[protected], on["c"]), "3 1")
		})
	}
	t.Run("StayBalancedThroughAnUpdate", func(t *testing.T) {
		// Two tasks are in zones a and b. The three that take their place would rather go to the smaller
		// instances of zone c, which has none of the two. Each zone gets one, so none moves afterwards.
		w := newWorld(t)
		for _, id := range []string{"a0", "a1", "b0", "b1"} {
			w.ecs.register(zoned(id, "zone-"+id[:1]))
		}
		w.pump()
		w.create("web", "web", 2)
		w.advance(2 * time.Minute)
		for n := range 3 {
			c := zoned(fmt.Sprint("c", n), "zone-c")
			c.Registered.CPU /= 2
			w.ecs.register(c)
		}
		w.advance(2 * time.Minute)
		_, err := w.update(operation.UpdateService{Name: "web", Desired: new(3), Force: true})
		want(t, "error", err, nil)
		w.advance(5 * time.Minute)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 3)
		if events := strings.Join(w.events("web"), "\n"); strings.Contains(events, "AZ") {
			t.Errorf("tasks move after the update:\n%s", events)
		}
	})
	t.Run("BalancesOverANewZone", func(t *testing.T) {
		w, from := begin(t, nil)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks in the old zone", on["a"], 2)
		want(t, "tasks in the new zone", on["b"], 2)
		events := strings.Join(w.events("web"), "\n")
		at := -1
		for _, text := range []string{
			"(service web) is not AZ balanced with 4 tasks in zone-a, 0 tasks in zone-b. AZ Rebalancing in progress.",
			"(service web) has started 2 tasks in zone-b to AZ Rebalance: (task ",
			"(service web) has stopped 2 running tasks in zone-a due to AZ rebalancing: (task ",
			"(service web) is AZ balanced with 2 tasks in zone-a, 2 tasks in zone-b.",
		} {
			next := strings.Index(events, text)
			if next <= at {
				t.Errorf("%q is missing, or too early, in\n%s", text, events)
			}
			at = next
		}
		want(t, "rebalancing", w.service("web").Service.Rebalancing, false)
		fewest, most := w.bounds(from)
		want(t, "fewest running", fewest, 4)
		want(t, "most at once", most, 6)
	})
	for name, change := range map[string]func(*operation.CreateService){
		"NotWhereItIsOff": func(s *operation.CreateService) { s.ZoneRebalancing = new(false) },
		"NotWithAnotherStrategy": func(s *operation.CreateService) {
			s.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}
		},
		"NotWithAZoneConstraint": func(s *operation.CreateService) {
			s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:ecs.availability-zone in [zone-a, zone-b]"}}
		},
		"NotAtMaximumPercent100": func(s *operation.CreateService) {
			s.MaxPercent, s.MinHealthy, s.ZoneRebalancing = new(100), new(50), new(false)
		},
		"NotUnderADomainPolicy": func(s *operation.CreateService) {
			s.Rules.DomainPolicy = cluster.PolicyNone
			s.ZoneRebalancing = new(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := begin(t, change)
			want(t, "tasks in the old zone", placed(w.with(cluster.TaskRunning))["a"], 4)
		})
	}
	t.Run("BesideADaemonThatLacksCapacity", func(t *testing.T) {
		w, _ := begin(t, func(s *operation.CreateService) {
			s.Rules.Metrics = []cluster.Metric{{Name: "connections", Load: 1}}
		})
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks in each zone", fmt.Sprint(on["a"], on["b"]), "2 2")
		for _, id := range []string{"a", "b"} {
			w.ecs.change(id, func(i *cluster.Instance) { i.Registered.Metrics = map[string]int64{"connections": 10} })
		}
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon,
			Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 5000}}},
		})
		w.advance(time.Minute)
		w.drain("b")
		w.advance(5 * time.Minute)
		w.ecs.register(zoned("c", "zone-b"))
		w.advance(5 * time.Minute)
		want(t, "tasks in the zone", placed(w.with(cluster.TaskRunning))["c"] >= 2, true)
	})
	uses := func(n int64) cluster.Rules {
		return cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: n}}}
	}
	metered := func(w *world, zone string, n int64, ids ...string) {
		for _, id := range ids {
			i := zoned(id, zone)
			i.Registered.Metrics = map[string]int64{"connections": n}
			w.ecs.register(i)
		}
		w.pump()
	}
	runs := func(w *world, name string, n int, load int64) {
		w.createAs(operation.CreateService{
			Cluster: prod, Name: name, TaskDefinition: "web", Desired: &n, Rules: uses(load),
		})
		w.advance(2 * time.Minute)
	}
	t.Run("BesideServicesThatNoMovesHelp", func(t *testing.T) {
		w := newWorld(t)
		metered(w, "zone-a", 100, "a")
		runs(w, "shop", 2, 30)
		metered(w, "zone-a", 25, "c", "d", "e")
		runs(w, "big", 1, 100) // would fit on a, which one task of shop can leave
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "web", Desired: new(1), Controller: cluster.ExternalController, Rules: uses(100),
		})
		must(t)(w.api.TaskSets.MakePrimary(ctx, w.taskSet(100)))
		w.advance(2 * time.Minute)
		metered(w, "zone-b", 30, "b")
		w.advance(5 * time.Minute)
		for _, name := range []string{"big", "web"} {
			want(t, name+" waits for capacity", w.service(name).Service.Blocked != nil, true)
		}
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks in each zone", fmt.Sprint(on["a"], on["b"]), "1 1")
	})
	t.Run("AfterMovesThatMakeRoom", func(t *testing.T) {
		w := newWorld(t)
		metered(w, "zone-a", 40, "c")
		runs(w, "app", 4, 10)
		metered(w, "zone-a", 100, "a")
		onlyElsewhere := uses(10)
		onlyElsewhere.Constraints = []cluster.PlacementConstraint{
			{Type: cluster.MemberOf, Expression: "ec2InstanceId != i-c"},
		}
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "shop", TaskDefinition: "web", Desired: new(2), Rules: onlyElsewhere,
		})
		w.advance(2 * time.Minute)
		metered(w, "zone-a", 9, "d", "e", "f")
		runs(w, "big", 1, 100)
		want(t, "big waits for capacity", w.service("big").Service.Blocked != nil, true)
		// What b has would make the zones of app even, too, for which shop could not move.
		metered(w, "zone-b", 20, "b")
		w.advance(5 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks on each instance", fmt.Sprint(on["a"], on["b"], on["c"]), "1 2 4")
		moved := slices.ContainsFunc(w.events("app"), func(e string) bool { return strings.Contains(e, "to AZ Rebalance") })
		want(t, "app has moved", moved, false)
	})
	t.Run("OnceTheConfigurationHasNoDomainPolicy", func(t *testing.T) {
		w := newWorld(t)
		config := func(p cluster.DomainPolicy) {
			want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}, DomainPolicy: p}), nil)
		}
		config(cluster.PolicyDifference)
		for _, id := range []string{"a", "b", "c", "d"} {
			i := zoned(id, "zone-a")
			i.Attributes[cluster.AttributeFaultDomain] = "fd:/all"
			w.ecs.register(i)
		}
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4)})
		w.advance(2 * time.Minute)
		wantCount(t, "running tasks at first", w.with(cluster.TaskRunning), 4)
		i := zoned("e", "zone-b")
		i.Attributes[cluster.AttributeFaultDomain] = "fd:/all"
		w.ecs.register(i)
		w.advance(5 * time.Minute)
		want(t, "tasks in the new zone under the policy", placed(w.with(cluster.TaskRunning))["e"] < 2, true)
		config(cluster.PolicyNone)
		w.advance(5 * time.Minute)
		want(t, "tasks in the new zone", placed(w.with(cluster.TaskRunning))["e"], 2)
	})
	for name, capacity := range map[string]cluster.Priority{
		"NotIntoTheBuffer": 0, "NotIntoTheBufferOfASoftCapacity": 2,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{
				Head: cluster.Head{Cluster: prod}, Buffer: map[string]float64{"connections": 0.5},
				Priorities: cluster.Priorities{Capacity: capacity},
			}), nil)
			metered := func(id, zone string, n int64) {
				i := zoned(id, zone)
				i.Registered.Metrics, i.Registered.CPU = map[string]int64{"connections": n}, 4*256*cluster.CPUUnit
				w.ecs.register(i)
			}
			metered("a", "zone-a", 480)
			w.pump()
			w.createAs(operation.CreateService{
				Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4), Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 60}}},
			})
			w.advance(2 * time.Minute)
			metered("b", "zone-b", 120)
			w.advance(5 * time.Minute)
			on := placed(w.with(cluster.TaskRunning))
			want(t, "tasks in each zone", fmt.Sprint(on["a"], on["b"]), "3 1")
			wantCount(t, "tasks that there ever were", w.tasks(), 5)
			wantEvent(t, w.events("web"), "(service web) is unable to place a task in zone-b")
		})
	}
	t.Run("NotWhileAllAreProtected", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.register(zoned("a", "zone-a"))
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4)})
		w.advance(2 * time.Minute)
		w.protect(w.clock.now.Add(10 * time.Minute))
		w.ecs.register(zoned("b", "zone-b"))
		w.advance(8 * time.Minute)
		want(t, "tasks in the old zone", placed(w.with(cluster.TaskRunning))["a"], 4)
		want(t, "rebalancing", w.service("web").Service.Rebalancing, false)
		w.advance(5 * time.Minute)
		want(t, "tasks in the old zone once they are not", placed(w.with(cluster.TaskRunning))["a"], 2)
	})
	t.Run("AgainAndAgain", func(t *testing.T) {
		w, _ := begin(t, nil)
		w.drain("b")
		w.advance(5 * time.Minute)
		want(t, "tasks in the old zone", placed(w.with(cluster.TaskRunning))["a"], 4)
		w.ecs.register(zoned("c", "zone-b"))
		w.advance(5 * time.Minute)
		want(t, "tasks in the zone", placed(w.with(cluster.TaskRunning))["c"], 2)
		w.drain("c")
		w.advance(5 * time.Minute)
		w.ecs.register(zoned("d", "zone-b"))
		w.advance(5 * time.Minute)
		want(t, "tasks in the zone", placed(w.with(cluster.TaskRunning))["d"], 2)
	})
	t.Run("StopsOnANewDeployment", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.define(definition("web", 2, 256, 512))
		w.ecs.register(zoned("a", "zone-a"))
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(4)})
		w.advance(2 * time.Minute)
		w.ecs.register(zoned("b", "zone-b"))
		w.pump()
		want(t, "rebalancing", w.service("web").Service.Rebalancing, true)
		w.deploy("web", "web:2")
		w.pump()
		want(t, "rebalancing", w.service("web").Service.Rebalancing, false)
		w.advance(10 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "tasks in each zone", fmt.Sprint(on["a"], on["b"]), "2 2")
	})
	t.Run("GoesOnOnceTheZoneHasRoom", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.register(zoned("a", "zone-a"))
		w.pump()
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4)})
		w.advance(2 * time.Minute)
		small := zoned("b", "zone-b")
		small.Registered.CPU = 1
		w.ecs.register(small)
		w.advance(2 * time.Minute)
		want(t, "rebalancing", w.service("web").Service.Rebalancing, true)
		wantEvent(t, w.events("web"), "(service web) is unable to place a task in zone-b because no container instance met all of its requirements.")
		w.ecs.register(zoned("c", "zone-b"))
		w.advance(5 * time.Minute)
		want(t, "tasks in the zone", placed(w.with(cluster.TaskRunning))["c"], 2)
	})
}

func zoned(id, zone string) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: prod}, ID: id, EC2InstanceID: "i-" + id,
		Registered: cluster.Capacity{CPU: 4096 * cluster.CPUUnit, Memory: 8192},
		Attributes: map[string]string{cluster.AttributeZone: zone},
	}
}

func TestPlacement_Publishes(t *testing.T) {
	published := func(w *world) (out []state.PublishedEvent) {
		for _, r := range w.changed {
			if o, ok := r.New.(*state.Outbox); ok && r.Op == state.Insert {
				out = append(out, o.Publish...)
			}
		}
		return out
	}
	t.Run("OnlyIfTheInstallationWantsIt", func(t *testing.T) {
		w := rolled(t, 1, operation.CreateService{})
		wantCount(t, "published events", published(w), 0)
	})
	t.Run("InECSsShape", func(t *testing.T) {
		w := rolled(t, 1, operation.CreateService{}, func(s *handler.Settings) { s.PublishEvents = true })
		var names []string
		for _, e := range published(w) {
			detail := map[string]any{}
			if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
				t.Fatal(err)
			}
			names = append(names, fmt.Sprint(e.DetailType, "/", detail["eventType"], "/", detail["eventName"]))
			if e.DetailType == "ECS Deployment State Change" {
				want(t, "deployment", detail["deploymentId"], any(w.service("web").Service.Deployment.ID))
				want(t, "reason", detail["reason"] != nil, true)
			}
		}
		want(t, "events", strings.Join(names, " "), "ECS Deployment State Change/INFO/SERVICE_DEPLOYMENT_IN_PROGRESS "+
			"ECS Deployment State Change/INFO/SERVICE_DEPLOYMENT_COMPLETED ECS Service Action/INFO/SERVICE_STEADY_STATE")
	})
}

// A service's row remembers what was emitted of each unhealthy task. Of many, only some have an
// event.
func TestPlacement_ManyEvents(t *testing.T) {
	w := newWorld(t)
	def := definition("checked", 1, 256, 512)
	def.HealthChecked = true
	w.ecs.define(def)
	w.instances("i", 10, 8192, 16384)
	w.create("web", "checked", 200)
	w.pump()
	w.placementAsleep = true
	for n, id := range w.ecs.live() {
		health := cluster.Healthy
		if n < 60 {
			health = cluster.Unhealthy
		}
		w.ecs.turn(id, health)
	}
	w.pump()
	w.placementAsleep = false
	w.pump()
	events := w.service("web").EventLog
	ill := 0
	for n, e := range events {
		want(t, "number", e.Number, events[0].Number-n)
		if strings.Contains(e.Message, "failed container health checks") {
			ill++
		}
	}
	if ill < 20 || ill > cluster.EventRing {
		t.Errorf("%d unhealthy tasks are told of: %v", ill, w.events("web"))
	}
	want(t, "counted", w.service("web").Service.Events, events[0].Number+1)
}

func TestPlacement_Repeats(t *testing.T) {
	w := newWorld(t)
	w.create("web", "web", 1)
	w.pump()
	said := func() int {
		n := 0
		for _, m := range w.events("web") {
			if strings.Contains(m, "unable to place") {
				n++
			}
		}
		return n
	}
	look := func() {
		w.scale("web", 2)
		w.scale("web", 1)
		w.pump()
	}
	look()
	want(t, "times it was said", said(), 1)
	w.clock.now = w.clock.now.Add(5 * time.Hour)
	look()
	want(t, "times it was said within 6 hours", said(), 1)
	w.clock.now = w.clock.now.Add(2 * time.Hour)
	look()
	want(t, "times it was said after 6 hours", said(), 2)
	w.instances("i", 1, 4096, 8192)
	wantCount(t, "running tasks", w.with(cluster.TaskRunning), 1)
	want(t, "said of what is over", len(w.service("web").Service.EmittedKeys), 0)
}
