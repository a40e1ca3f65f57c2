package handler_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/operation"
	"berth/shared/state"
)

// governed creates a service of n RUNNING tasks under the rules.
func (w *world) governed(n int, rules cluster.Rules) {
	w.t.Helper()
	if _, err := w.ruled(n, rules); err != nil {
		w.t.Fatal(err)
	}
	w.advance(2 * time.Minute)
	wantCount(w.t, "tasks running at first", w.with(cluster.TaskRunning), n)
}

// watch counts, after every commit, how many tasks are RUNNING and wanted; least is the lowest
// count.
func (w *world) watch() (least func() int) {
	fewest := len(w.wanted())
	w.state.beforeCommit = func(state.Commit) error {
		fewest = min(fewest, len(w.wanted()))
		return nil
	}
	return func() int { return min(fewest, len(w.wanted())) }
}

func (w *world) wanted() []*cluster.Task {
	return slices.DeleteFunc(w.with(cluster.TaskRunning), func(t *cluster.Task) bool { return t.Desired != cluster.TaskRunning })
}

// rest runs everything until nothing changes, and checks that it stays so.
func (w *world) rest(n int) map[string]int {
	w.t.Helper()
	w.advance(5 * time.Minute)
	wantCount(w.t, "tasks running at rest", w.with(cluster.TaskRunning), n)
	starts, version := len(w.ecs.starts), w.version()
	for _, i := range w.ecs.instances { // events that say nothing new must move nothing
		w.ecs.change(i.ID, func(*cluster.Instance) {})
	}
	w.advance(5 * time.Minute)
	w.sweep()
	w.advance(time.Minute)
	want(w.t, "StartTask calls at rest", len(w.ecs.starts), starts)
	want(w.t, "placement versions at rest", w.version(), version)
	want(w.t, "moving at rest", w.service("web").Service.Moving, false)
	return placed(w.with(cluster.TaskRunning))
}

func TestMoves(t *testing.T) {
	t.Run("OffAnInstanceThatNoLongerMatches", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		for _, id := range ids {
			w.attribute(id, "berth.property.Disk", "ssd")
		}
		w.governed(3, cluster.Rules{NodeConstraint: "Disk == ssd"})
		least := w.watch()
		for _, id := range ids[:2] {
			w.attribute(id, "berth.property.Disk", "hdd")
		}
		on := w.rest(3)
		want(t, "tasks on what no longer matches", on[ids[0]]+on[ids[1]], 0)
		want(t, "fewest running", least(), 3)
		wantEvent(t, w.events("web"), "is moving")
	})
	t.Run("WhenTheConstraintChanges", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		w.governed(2, cluster.Rules{NodeConstraint: "NodeName == i000 || NodeName == i001"})
		least := w.watch()
		_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i002 || NodeName == i003"})
		want(t, "error", err, nil)
		on := w.rest(2)
		want(t, "tasks where they may be", on[ids[2]]+on[ids[3]], 2)
		want(t, "fewest running", least(), 2)
	})
	t.Run("EmitsOnceThatNoMovesFixIt", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.governed(2, cluster.Rules{NodeConstraint: "NodeName != nobody"})
		_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == nobody"})
		want(t, "error", err, nil)
		w.rest(2)
		told := 0
		for _, e := range w.events("web") {
			if strings.Contains(e, "no set of moves fixes it") {
				told++
			}
		}
		want(t, "events that say so", told, 1)
	})
	t.Run("OnceRoomComesFree", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 4096, 8192)
		w.attribute(ids[0], "berth.property.Disk", "ssd")
		w.attribute(ids[1], "berth.property.Disk", "hdd")
		w.ecs.define(definition("large", 1, 4096, 8000))
		r := w.run(t, operation.SubmitTasks{TaskDefinition: "large", Rules: cluster.Rules{NodeConstraint: "Disk == ssd"}})
		_, err := w.ruled(1, cluster.Rules{NodeConstraint: "Disk == hdd"})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "Disk == ssd"})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		wantEvent(t, w.events("web"), "no set of moves fixes it")
		_, err = w.api.Tasks.StopTask(ctx, prod, r.Tasks[0], "")
		want(t, "error", err, nil)
		want(t, "tasks where they may be", w.rest(1)[ids[0]], 1)
		want(t, "unrepaired", w.service("web").Service.Unrepaired, "")
	})
	t.Run("WhileAReplacementOfAnotherServiceIsStuck", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		w.governed(1, cluster.Rules{NodeConstraint: "NodeName == i000"})
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "other", TaskDefinition: "web", Desired: new(1), Rules: cluster.Rules{NodeConstraint: "NodeName == i002"},
		})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if slices.Contains(c.Instances, ids[1]) {
				return fault{err: throttled}
			}
			return fault{}
		}
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i001"})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		want(t, "moving", w.service("web").Service.Moving, true)
		_, err = w.api.Services.UpdateRules(ctx, prod, "other", map[string]string{"berth:constraint": "NodeName == i003"})
		want(t, "error", err, nil)
		w.advance(5 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "where the other service runs", fmt.Sprint(on[ids[2]], on[ids[3]]), "0 1")
		want(t, "what is stuck stays", fmt.Sprint(on[ids[0]], w.service("web").Service.Moving), "1 true")
		wantCount(t, "replacements of it", w.with(cluster.TaskPending), 1)
		// What no set of moves fixes is reported in the end.
		_, err = w.api.Services.UpdateRules(ctx, prod, "other", map[string]string{"berth:constraint": "NodeName == i00"})
		want(t, "error", err, nil)
		w.advance(20 * time.Minute)
		w.sweep()
		w.advance(time.Minute)
		wantEvent(t, w.events("other"), "no set of moves fixes it")
		w.ecs.onStart = nil
		on = w.rest(2)
		want(t, "where web runs", on[ids[1]], 1)
	})
	t.Run("ForgottenWithTheRules", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.governed(1, cluster.Rules{NodeConstraint: "NodeName == i000"})
		_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i001 || NodeName == i00"})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		want(t, "unrepaired", w.service("web").Service.Unrepaired != "", true)
		since := w.service("web").Service.EmittedKeys[decide.UnrepairedKey]
		w.advance(8 * time.Hour)
		w.sweep()
		want(t, "since when", w.service("web").Service.EmittedKeys[decide.UnrepairedKey], since)
		want(t, "since when is known", since.IsZero(), false)
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": ""})
		want(t, "error", err, nil)
		w.rest(1)
		want(t, "unrepaired", w.service("web").Service.Unrepaired, "")
		want(t, "since when", w.service("web").Service.EmittedKeys[decide.UnrepairedKey].IsZero(), true)
	})
	t.Run("StopFirstWhereMaximumPercentLeavesNoRoom", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		least, most := 50, 100
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2), MinHealthy: &least, MaxPercent: &most,
			Rules: cluster.Rules{NodeConstraint: "NodeName == i000 || NodeName == i001"},
		})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		fewest := w.watch()
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i002 || NodeName == i003"})
		want(t, "error", err, nil)
		on := w.rest(2)
		want(t, "tasks where they may be", on[ids[2]]+on[ids[3]], 2)
		want(t, "fewest running", fewest(), 1)
	})
	t.Run("OffAnInstanceAboveItsCapacityTheCheapest", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 3, 40960, 81920)
		for _, id := range ids {
			w.ecs.change(id, func(i *cluster.Instance) { i.Registered.Metrics = map[string]int64{"connections": 100} })
		}
		w.pump()
		w.governed(6, cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 40}}})
		tasks := w.with(cluster.TaskRunning)
		want(t, "error", w.report(tasks[0].ID, 61), nil)
		w.advance(time.Minute)
		// Two tasks of 40 are on each instance: none has room for 40 or 61 more.
		wantEvent(t, w.events("web"), "no set of moves fixes it")
		want(t, "error", w.report(tasks[1].ID, 0), nil)
		for _, other := range tasks[2:] {
			want(t, "error", w.report(other.ID, 10), nil)
		}
		w.rest(6)
		load := map[string]int64{}
		for _, task := range w.with(cluster.TaskRunning) {
			n, ok := task.Reported["connections"]
			if !ok {
				n = 40
			}
			load[task.Instance] += n
		}
		for id, n := range load {
			if n > 100 {
				t.Errorf("instance %s has %d connections, at most 100 fit", id, n)
			}
		}
	})
	t.Run("DomainsAreChosenAnew", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 6, 4096, 8192)
		for n, id := range ids {
			w.attribute(id, "berth.fault-domain", fmt.Sprintf("fd:/dc%d", n%3))
		}
		w.governed(3, cluster.Rules{DomainPolicy: cluster.PolicyDifference})
		least := w.watch()
		for _, n := range []int{0, 3} { // dc0 is emptied of instances: dc1 and dc2 are left
			w.attribute(ids[n], "berth.fault-domain", "fd:/dc1")
		}
		on := w.rest(3)
		one, two := on[ids[0]]+on[ids[3]]+on[ids[1]]+on[ids[4]], on[ids[2]]+on[ids[5]]
		if one-two > 1 || two-one > 1 {
			t.Errorf("%d and %d tasks in the two domains", one, two)
		}
		want(t, "fewest running", least(), 3)
	})
	t.Run("MakesRoom", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 40960, 81920)
		for _, id := range ids {
			w.ecs.change(id, func(i *cluster.Instance) { i.Registered.Metrics = map[string]int64{"connections": 100} })
		}
		w.pump()
		w.governed(2, cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 30}}})
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "large", TaskDefinition: "web", Desired: new(1),
			Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 90}}},
		})
		want(t, "error", err, nil)
		w.rest(3)
		wantEvent(t, w.events("web"), "is moving")
	})
	t.Run("KeptInPlace", func(t *testing.T) {
		w := newWorld(t)
		ids := w.instances("i", 2, 40960, 81920)
		for _, id := range ids {
			w.ecs.change(id, func(i *cluster.Instance) { i.Registered.Metrics = map[string]int64{"connections": 100} })
		}
		want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}, KeepInPlace: true}), nil)
		w.pump()
		w.governed(2, cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 30}}})
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "large", TaskDefinition: "web", Desired: new(1),
			Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 90}}},
		})
		want(t, "error", err, nil)
		w.rest(2)
	})
}

// Whichever single write is lost on the way, the tasks end where they may be, and none too many
// remain.
func TestMovesSurviveACrashAtAnyWrite(t *testing.T) {
	for crash := 0; ; crash++ {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		w.governed(3, cluster.Rules{NodeConstraint: "NodeName != i003"})
		w.redelivers = true
		n, crashed := 0, false
		fail := func() error {
			if n++; n == crash+1 {
				crashed = true
				w.placement = w.newPlacement("env-2", w.placement.Settings)
				return errTimedOut
			}
			return nil
		}
		w.state.beforeCommit = func(state.Commit) error { return fail() }
		w.state.beforeWrite = func(state.Write) error { return fail() }
		if _, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i003 || NodeName == i002"}); err != nil {
			continue
		}
		w.advance(10 * time.Minute)
		w.sweep()
		w.advance(10 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		if on[ids[2]]+on[ids[3]] != 3 || len(w.with(cluster.TaskRunning)) != 3 {
			t.Fatalf("after a crash at write %d: %v", crash+1, on)
		}
		if !crashed {
			if crash < 5 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
	}
}

// The network of a service or a request reaches ECS with its starts, and never with another's.
func TestNetworkReachesECS(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	own := definition("own", 1, 256, 512)
	own.Needs.ENIs = 1
	w.ecs.define(own)
	one, two := &cluster.Network{Subnets: []string{"subnet-1"}}, &cluster.Network{Subnets: []string{"subnet-2"}, SecurityGroups: []string{"sg"}}
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "own", Desired: new(2), Network: one})
	want(t, "error", err, nil)
	_, err = w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "other", TaskDefinition: "web", Desired: new(2), Network: one})
	wantCode(t, err, cluster.CodeInvalidParameter, "not valid for the given networkMode")
	_, err = w.api.Tasks.SubmitRequest(ctx, operation.SubmitTasks{Kind: cluster.RunTask, Cluster: prod, TaskDefinition: "own", Count: 1})
	wantCode(t, err, cluster.CodeInvalidParameter, "must be provided")
	w.placementAsleep = true
	for _, n := range []*cluster.Network{nil, two} {
		name := "own"
		if n == nil {
			name = "web"
		}
		_, err := w.api.Tasks.SubmitRequest(ctx, operation.SubmitTasks{Kind: cluster.RunTask, Cluster: prod, TaskDefinition: name, Count: 1, Network: n})
		want(t, "error", err, nil)
	}
	w.placementAsleep = false
	w.pump()
	got := map[string]int{}
	for _, call := range w.ecs.starts {
		if call.Network == nil {
			got["none"] += len(call.Instances)
		} else {
			got[call.Network.Subnets[0]] += len(call.Instances)
		}
	}
	want(t, "tasks per network", fmt.Sprint(got), "map[none:1 subnet-1:2 subnet-2:1]")
}

// A standalone task that waits keeps the rules that it was requested with.
func TestAWaitingTaskKeepsItsRules(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	r := w.run(t, operation.SubmitTasks{Wait: "forever", Rules: cluster.Rules{
		Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk == ssd"}},
	}})
	w.instances("j", 2, 4096, 8192)
	want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskProvisioning)
	w.attribute("j001", "disk", "ssd")
	w.advance(time.Minute)
	want(t, "instance", w.task(r.Tasks[0]).Instance, "j001")
}

func TestMovesAndProtection(t *testing.T) {
	begin := func(t *testing.T, minHealthy, maxPercent int) (*world, []string) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2), MinHealthy: &minHealthy, MaxPercent: &maxPercent,
			Rules: cluster.Rules{NodeConstraint: "NodeName == i000 || NodeName == i001"},
		})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		w.protect(w.clock.now.Add(10 * time.Minute))
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i002 || NodeName == i003"})
		want(t, "error", err, nil)
		w.advance(9 * time.Minute)
		on := placed(w.with(cluster.TaskRunning))
		want(t, "protected tasks that stay", on[ids[0]]+on[ids[1]], 2)
		wantEvent(t, w.events("web"), "no set of moves fixes it")
		return w, ids
	}
	for name, percent := range map[string]struct{ min, max int }{"StartFirst": {100, 200}, "StopFirst": {50, 100}} {
		t.Run(name+"OnceItEnds", func(t *testing.T) {
			w, ids := begin(t, percent.min, percent.max)
			w.advance(5 * time.Minute)
			on := w.rest(2)
			want(t, "tasks where they may be", on[ids[2]]+on[ids[3]], 2)
		})
		t.Run(name+"OnceItIsEnded", func(t *testing.T) {
			w, ids := begin(t, percent.min, percent.max)
			var all []string
			for _, task := range w.with(cluster.TaskRunning) {
				all = append(all, task.ID)
			}
			_, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, all, 0)
			want(t, "error", err, nil)
			want(t, "failures", len(failed), 0)
			w.advance(5 * time.Minute)
			on := placed(w.with(cluster.TaskRunning))
			want(t, "tasks where they may be", on[ids[2]]+on[ids[3]], 2)
		})
	}
}

// A service that opts out of domain policies may have several tasks on an instance, and they may
// move there too.
func TestMovesBesideTasksOfTheSameService(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 3, 4096, 8192)
	w.governed(3, cluster.Rules{NodeConstraint: "NodeName != nobody", DomainPolicy: cluster.PolicyNone})
	_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i000", "berth:domain-policy": "none"})
	want(t, "error", err, nil)
	want(t, "tasks where they may be", w.rest(3)[ids[0]], 3)
}

// What a deployment stops may leave the new tasks unevenly spread over the domains.
func TestMovesOnceADeploymentIsOver(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 5, 4096, 8192)
	for n, id := range ids {
		w.attribute(id, "berth.fault-domain", []string{"fd:/a", "fd:/a", "fd:/b", "fd:/b", "fd:/c"}[n])
		w.attribute(id, "berth.upgrade-domain", "all")
	}
	least, most := 100, 125
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4), MinHealthy: &least, MaxPercent: &most,
		Rules: cluster.Rules{DomainPolicy: cluster.PolicyDifference},
	})
	want(t, "error", err, nil)
	w.advance(2 * time.Minute)
	for range 4 {
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Force: true})
		want(t, "error", err, nil)
		w.advance(20 * time.Minute)
		on := w.rest(4)
		a, b, c := on[ids[0]]+on[ids[1]], on[ids[2]]+on[ids[3]], on[ids[4]]
		if max(a, b, c)-min(a, b, c) > 1 {
			t.Fatalf("%d, %d and %d tasks in the three domains", a, b, c)
		}
	}
}

// If the event of a change is lost for good, the sweep finds that tasks have to move.
func TestSweepFindsTasksThatMustMove(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 2, 4096, 8192)
	w.attribute(ids[0], "berth.property.Disk", "ssd")
	w.attribute(ids[1], "berth.property.Disk", "ssd")
	w.governed(1, cluster.Rules{NodeConstraint: "Disk == ssd"})
	on := w.with(cluster.TaskRunning)[0].Instance
	w.placementAsleep = true
	w.attribute(on, "berth.property.Disk", "hdd")
	w.pump()
	w.placementAsleep, w.decide = false, nil
	w.advance(5 * time.Minute)
	want(t, "tasks that stay while nobody knows", placed(w.with(cluster.TaskRunning))[on], 1)
	w.sweep()
	want(t, "tasks that stay once it was found", w.rest(1)[on], 0)
}

// While most of the cluster's tasks look unhealthy and none is replaced for it, tasks that break a
// rule move all the same.
func TestMovesWhileMostLookUnhealthy(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 4, 40960, 81920)
	checked := definition("checked", 1, 256, 512)
	checked.HealthChecked = true
	w.ecs.define(checked)
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "checked", Desired: new(12), Rules: cluster.Rules{NodeConstraint: "NodeName != i003"},
	})
	want(t, "error", err, nil)
	w.advance(time.Minute)
	for _, id := range w.ecs.live() {
		w.ecs.turn(id, cluster.Unhealthy)
	}
	w.advance(time.Minute)
	wantEvent(t, w.events("web"), "too many tasks of the cluster appear unhealthy")
	_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName != i000"})
	want(t, "error", err, nil)
	for range 10 {
		w.advance(time.Minute)
		for _, id := range w.ecs.live() {
			w.ecs.turn(id, cmp.Or(w.ecs.tasks[id].Health, cluster.Healthy))
		}
	}
	want(t, "tasks where none may be", placed(w.with(cluster.TaskRunning))[ids[0]], 0)
}

// The instance for which a task was stopped does not get it in its buffer, nor against a soft rule,
// once the rules have changed and there is room elsewhere.
func TestMovesTakeRoomElsewhereIfTheirsIsGone(t *testing.T) {
	for name, x := range map[string]struct {
		configuration cluster.Configuration
		load          string // of a task, once it has stopped; each target has 8
	}{
		"Buffer":   {cluster.Configuration{Buffer: map[string]float64{"connections": 0.5}}, "connections=6"},
		"SoftRule": {cluster.Configuration{Priorities: cluster.Priorities{Capacity: 2}}, "connections=10"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.instances("i", 3, 4096, 8192)
			for n, id := range ids {
				w.ecs.change(id, func(i *cluster.Instance) {
					i.Registered.Metrics = map[string]int64{"connections": []int64{100, 8, 8}[n]}
				})
			}
			x.configuration.Cluster = prod
			want(t, "error", w.api.Configurations.PutConfiguration(ctx, &x.configuration), nil)
			none, all := 0, 100
			_, err := w.api.Services.CreateService(ctx, operation.CreateService{
				Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1), MinHealthy: &none, MaxPercent: &all,
				Rules: cluster.Rules{NodeConstraint: "NodeName == i000"},
			})
			want(t, "error", err, nil)
			w.advance(time.Minute)
			w.observerAsleep = true
			_, err = w.api.Services.UpdateRules(ctx, prod, "web",
				map[string]string{"berth:constraint": "NodeName == i001 || NodeName == i002"})
			want(t, "error", err, nil)
			w.advance(time.Second)
			to := w.service("web").Service.MoveTargets
			want(t, "instances that a task was stopped for", len(to), 1)
			w.ecs.change("i000", func(i *cluster.Instance) { i.Registered.Metrics = nil })
			_, err = w.api.Services.UpdateRules(ctx, prod, "web",
				map[string]string{"berth:constraint": "", "berth:metrics": x.load})
			want(t, "error", err, nil)
			w.observerAsleep = false
			w.advance(2 * time.Minute)
			on := placed(w.with(cluster.TaskRunning))
			want(t, "tasks where they were to go, and elsewhere", fmt.Sprint(on[to[0]], on[ids[0]]), "0 1")
			wantCount(t, "tasks that there ever were", w.tasks(), 2)
		})
	}
}

// Moves that wait for a deployment which finds no room are not held to be on their way: zones are
// evened out only while no moves are.
func TestMovesOfAStuckDeployment(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.governed(2, cluster.Rules{NodeConstraint: "NodeName == i000"})
	w.ecs.define(definition("large", 1, 40960, 80000))
	_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
		TaskDefinition: "large"})
	want(t, "error", err, nil)
	w.advance(time.Minute)
	w.wantNoMoves("its deployment comes first")
	_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
		TaskDefinition: "web"})
	want(t, "error", err, nil)
	want(t, "tasks where they may be, after another deployment", w.rest(2)["i001"], 2)
}

// Moves that wait for a deployment which has failed are not held to be on their way, either: it
// starts no tasks.
func TestMovesOfAFailedDeployment(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.governed(2, cluster.Rules{NodeConstraint: "NodeName == i000"})
	w.ecs.define(definition("broken", 1, 256, 512))
	w.ecs.onStart = failing(slices.Repeat([]fault{{err: denied}}, 10)...)
	_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
		TaskDefinition: "broken", ServiceParameters: operation.ServiceParameters{
			Breaker: &cluster.CircuitBreaker{Enable: true, Type: cluster.ThresholdCount, Value: 3}}})
	want(t, "error", err, nil)
	w.advance(30 * time.Minute)
	want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutFailed)
	w.wantNoMoves("its deployment has failed, and starts no tasks")
}

// Where two services overload an instance, and the deployment of one finds no room, a task of the other moves,
// although its moves cost more.
func TestMovesBesideAStuckDeployment(t *testing.T) {
	w := newWorld(t)
	first := w.instances("i", 1, 4096, 8192)[0]
	configure := func(capacity int64) {
		want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{
			Head:      cluster.Head{Cluster: prod},
			NodeTypes: map[string]cluster.NodeType{"": {Capacities: map[string]int64{"connections": capacity}}}}), nil)
	}
	configure(40)
	load := []cluster.Metric{{Name: "connections", Load: 20}}
	w.governed(1, cluster.Rules{Metrics: load, MoveCost: cluster.CostLow})
	w.createAs(operation.CreateService{Cluster: prod, Name: "side", TaskDefinition: "web", Desired: new(1),
		Rules: cluster.Rules{Metrics: load, MoveCost: cluster.CostHigh}})
	w.advance(2 * time.Minute)
	w.ecs.define(definition("large", 1, 40960, 80000))
	_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
		TaskDefinition: "large"})
	want(t, "error", err, nil)
	w.advance(time.Minute)
	configure(30)
	w.advance(time.Minute)
	want(t, "tasks while there is one instance", placed(w.with(cluster.TaskRunning))[first], 2)
	second := w.instances("j", 1, 4096, 8192)[0]
	w.advance(5 * time.Minute)
	on := map[string]string{}
	for _, task := range w.with(cluster.TaskRunning) {
		on[task.Service] = task.Instance
	}
	want(t, "instances of web and side", fmt.Sprint(on["web"], on["side"]), fmt.Sprint(first, second))
}

// A service names three of the rules that stay broken, and how many more there are.
func TestMostUnrepairedRules(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.governed(5, cluster.Rules{NodeConstraint: "NodeName != i999"})
	_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i999"})
	want(t, "error", err, nil)
	w.rest(5)
	why := w.service("web").Service.Unrepaired
	want(t, "rules named", strings.Count(why, "its constraints no longer allow"), 3)
	want(t, "ends in how many more", strings.HasSuffix(why, "; and 2 more violations"), true)
}

// wantNoMoves rules out where the tasks of web are, which then do not move, and why.
func (w *world) wantNoMoves(why string) {
	w.t.Helper()
	_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "NodeName == i001"})
	want(w.t, "error", err, nil)
	w.advance(30 * time.Minute)
	s := w.service("web").Service
	want(w.t, "moving", s.Moving, false)
	var texts []string
	for _, task := range w.with(cluster.TaskRunning) {
		texts = append(texts, fmt.Sprintf("task %s is on instance %s, which its constraints no longer allow", task.ID,
			task.Instance))
	}
	slices.Sort(texts)
	want(w.t, "why not", s.Unrepaired, strings.Join(append(texts, why), "; "))
}
