package handler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// Groups and attachments after changes that nobody planned for.
func TestManagedScaling_Edges(t *testing.T) {
	started := func(t *testing.T, instances, tasks int) *scaled {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = instances, instances
		s.minute(2)
		if tasks > 0 {
			s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &tasks})
			s.pump()
		}
		return s
	}
	replacing := func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagReplaceUnregistered: "true"} }
	t.Run("ReplacesWhatNeverRegisters", func(t *testing.T) {
		s := newScaled(t, replacing)
		s.silent = map[string]bool{"i-001": true, "i-002": true, "i-003": true}
		n := 4
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(20)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), n)
		replaced := slices.DeleteFunc(slices.Clone(s.calls),
			func(c string) bool { return !strings.HasPrefix(c, "terminate ") })
		want(t, "replaced", strings.Join(replaced, ", "), "terminate i-001, terminate i-002")
		told := 0
		for _, m := range s.events("web") {
			if strings.Contains(m, "did not register with the cluster within 5m0s, and is replaced: i-001") {
				told++
			}
		}
		want(t, "events", told, 1)
	})
	t.Run("EmitsOnlyWhatItHasDone", func(t *testing.T) {
		s := newScaled(t, replacing)
		s.silent = map[string]bool{"i-001": true, "i-002": true, "i-003": true}
		n := 4
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(5)
		inner, attempts := s.function.State, 0
		s.function.State = deciding{inner, func() { attempts++; s.groups["g"].Max-- }} // the group is another each time
		s.minute(2)
		told := func() (out int) {
			for _, m := range s.events("web") {
				out += strings.Count(m, "did not register with the cluster")
			}
			return out
		}
		want(t, "attempts", attempts > 0, true)
		want(t, "events of what was not done", told(), 0)
		s.function.State = inner
		s.minute(20)
		want(t, "events of what was", told(), 2)
		want(t, "replaced", strings.Count(strings.Join(s.calls, ", "), "terminate "), 2)
	})
	t.Run("ReplacesNothingUnlessEnabled", func(t *testing.T) {
		s := newScaled(t, nil)
		s.silent = map[string]bool{"i-001": true, "i-002": true}
		n := 4
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(60)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), n)
		for _, c := range s.calls {
			if strings.HasPrefix(c, "terminate ") {
				t.Error(c)
			}
		}
	})
	t.Run("DoesNotReplaceWhatECSKnows", func(t *testing.T) {
		s := started(t, 1, 0)
		if err := s.api.CapacityProviders.TagCapacityProvider(ctx, "p",
			map[string]string{cluster.TagReplaceUnregistered: "true"}, nil); err != nil {
			t.Fatal(err)
		}
		s.groups["g"].Min, s.groups["g"].Desired = 2, 2
		s.deaf = true // no event of the second's registration
		s.minute(12)
		want(t, "instances that ECS knows", len(s.ecs.instances), 2)
		want(t, "instances of the group", len(s.groups["g"].Instances), 2)
		for _, c := range s.calls {
			if strings.HasPrefix(c, "terminate") {
				t.Error(c)
			}
		}
	})
	t.Run("LeavesInstancesOfAnotherClusterAlone", func(t *testing.T) {
		for _, heard := range []bool{true, false} {
			s := newScaled(t, replacing)
			s.minute(1)
			s.ecs.clusters["dev"] = true
			if err := s.api.Clusters.ClusterCreated(ctx, "dev"); err != nil {
				t.Fatal(err)
			}
			s.silent = map[string]bool{"i-001": true, "i-002": true}
			n := 2
			s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
			s.pump()
			s.minute(1)
			s.step()
			for id := range s.silent {
				c := zoned("h-"+id, "zone-a")
				c.Cluster, c.EC2InstanceID = "dev", id
				if s.ecs.register(c); !heard {
					s.ecs.events = nil
				}
			}
			s.pump()
			s.minute(40)
			wantCount(t, "running tasks", s.with(cluster.TaskRunning), n)
			for _, i := range s.groups["g"].Instances[:2] {
				want(t, i.ID, fmt.Sprint(i.Lifecycle, i.Protected), "InServicetrue")
			}
		}
	})
	t.Run("AnInstanceLaunchedWithoutProtectionKeepsItsTask", func(t *testing.T) {
		s := newScaled(t, nil)
		g := s.groups["g"]
		g.Protects, g.Desired = false, 2 // from before protection was switched on
		s.step()
		g.Protects = true
		s.minute(1)
		s.race(func(call string) bool {
			if call != "desired" {
				return false
			}
			n := 2
			s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
			s.pump()
			return true
		})
		s.minute(40)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), 2)
		on := placed(s.with(cluster.TaskRunning))
		for _, i := range g.Instances {
			want(t, "protection of "+i.ID, i.Protected, on["h-"+i.ID] > 0)
		}
		for _, c := range s.calls {
			if strings.HasPrefix(c, "complete") {
				t.Errorf("an instance with tasks was taken: %s", c)
			}
		}
	})
	t.Run("TrafficDoesNotKeepEmptyInstances", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Desired = 4
		s.function.State = moving{s.function.State, s.bump}
		s.minute(30)
		want(t, "desired capacity", s.groups["g"].Desired, 0)
	})
	t.Run("NotesManyInOneCommit", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Max, s.groups["g"].Min, s.groups["g"].Desired = 60, 60, 60
		s.minute(4)
		version := s.version(t)
		s.minute(3)
		want(t, "released", s.instance("h-i-060").ReleasedIn, "g")
		want(t, "versions", s.version(t)-version, 1)
	})
	t.Run("OnlyTheFirstStartProtects", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(10)
		want(t, "released", s.instance("h-i-001").ReleasedIn, "g")
		s.run(t, operation.SubmitTasks{Count: 1})
		want(t, "protected", s.groups["g"].Instances[0].Protected, true)
		s.calls = nil
		s.refuse = cluster.Errorf(cluster.CodeThrottling, "later")
		s.run(t, operation.SubmitTasks{Count: 1})
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), 2)
		s.minute(2)
		want(t, "calls", strings.Join(s.calls, ", "), "")
	})
	t.Run("AnAgentThatRegisteredAnewKeepsItsTask", func(t *testing.T) {
		for range 20 { // the order of a map decides
			s := started(t, 1, 0)
			s.connect("h-i-001", false)
			s.pump()
			again := zoned("z-i-001", "zone-a")
			again.EC2InstanceID, again.Registered.CPU = "i-001", 4*256*cluster.CPUUnit
			s.ecs.register(again)
			s.pump()
			s.minute(12)
			want(t, "released", s.instance("z-i-001").ReleasedIn, "g")
			s.run(t, operation.SubmitTasks{Count: 1})
			want(t, "tasks on the new one", placed(s.with(cluster.TaskRunning))["z-i-001"], 1)
			want(t, "protected", s.groups["g"].Instances[0].Protected, true)
			if err := s.TerminateInstance(ctx, "i-001", false); err != nil {
				t.Fatal(err)
			}
			s.look(t)
			if slices.Contains(s.calls, "complete i-001") {
				t.Fatal("the instance was let go with its task")
			}
		}
	})
	t.Run("SwitchingProtectionOffEndsIt", func(t *testing.T) {
		s := started(t, 3, 2)
		s.minute(10)
		off := operation.UpdateCapacityProvider{Name: "p", Protection: new(false)}
		if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, off); err != nil {
			t.Fatal(err)
		}
		s.minute(3)
		for _, i := range s.groups["g"].Instances {
			want(t, "protection of "+i.ID, i.Protected, false)
			want(t, "released", s.instance("h-"+i.ID).ReleasedIn, "")
		}
		if err := s.SetInstanceProtection(ctx, "g", []string{"i-001"}, true); err != nil {
			t.Fatal(err)
		}
		s.minute(2)
		want(t, "protection by its owner", s.groups["g"].Instances[0].Protected, true)
	})
	t.Run("ProtectionEndsWithTheAttachment", func(t *testing.T) {
		s := started(t, 3, 0) // new instances are protected
		s.attach(t)
		s.minute(1)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		for _, i := range s.groups["g"].Instances {
			want(t, "protection of "+i.ID, i.Protected, false)
			want(t, "released", s.instance("h-"+i.ID).ReleasedIn, "")
		}
	})
	for name, change := range map[string]func(*scaled){
		"AnUpdatesSurgeIsNotTakenBack": func(s *scaled) { s.groups["g"].Max, s.groups["g"].Desired = 20, 12 },
		"NothingIsSetOnceInstancesHaveCome": func(s *scaled) {
			g := s.groups["g"]
			g.Instances = append(g.Instances, cluster.GroupInstance{ID: "i-new", Lifecycle: "Pending"})
		},
		"NothingIsSetOnceAnUpdateHasBegun": func(s *scaled) {
			row := &cluster.NodeGroup{Head: cluster.Head{Cluster: prod, Rev: 1}, Name: "web", AutoScalingGroup: "g",
				Status: cluster.NodeGroupUpdating}
			if _, err := s.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, func(p *cluster.CapacityProvider) { p.Protection = false })
			s.groups["g"].Min, s.groups["g"].Desired = 1, 2
			s.minute(8)
			n := 12 // three instances
			s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
			s.pump()
			s.function.State = deciding{s.function.State, func() { change(s) }}
			s.calls = nil
			var log bytes.Buffer
			s.function.Log = slog.New(slog.NewTextHandler(&log, nil))
			s.look(t)
			for _, c := range s.calls {
				if strings.HasPrefix(c, "desired") {
					t.Errorf("%s, on a group that has changed", c)
				}
			}
			if strings.Contains(log.String(), "desired capacity from") ||
				!strings.Contains(log.String(), "the group has changed meanwhile") {
				t.Errorf("it is told as done: %s", &log)
			}
		})
	}
	for name, c := range map[string]struct {
		status  cluster.UpdateStatus
		config  string // id of the update of the sizes
		desired int
	}{
		"AnUpdateHidesItsSurge":               {cluster.UpdateInProgress, "", 6},
		"AnUpdateOfTheSizesIsNone":            {cluster.UpdateSuccessful, "u2", 15},
		"AnUpdateThatHasEndedKeepsNothingLow": {cluster.UpdateFailed, "", 15},
	} {
		t.Run(name, func(t *testing.T) {
			s := started(t, 1, 0)
			s.groups["g"].Max = 20
			s.minute(8)
			for _, row := range []state.Row{
				&cluster.Update{Head: cluster.Head{Cluster: prod}, NodeGroup: "n", ID: "u1",
					Type: cluster.UpdateVersion, Status: c.status,
					UpdateBaseline: cluster.UpdateBaseline{OriginalSizes: &cluster.Sizes{Max: 6}}},
				&cluster.NodeGroup{Head: cluster.Head{Cluster: prod, Rev: 1}, Name: "n", AutoScalingGroup: "g",
					Status: cluster.NodeGroupUpdating, Update: "u1", ConfigUpdate: c.config},
			} {
				if _, err := s.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
					t.Fatal(err)
				}
			}
			n := 60
			s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
			s.pump()
			s.minute(1)
			want(t, "desired capacity", s.groups["g"].Desired, c.desired)
		})
	}
	t.Run("ARaceLostForOneProviderHidesNothingOfAnother", func(t *testing.T) {
		s := started(t, 1, 0)
		s.groups["h"] = &cluster.AutoScalingGroup{Name: "h", Max: 10, Protects: true}
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "h")); err != nil {
			t.Fatal(err)
		}
		s.look(t)
		s.attach(t, "p", "q")
		delete(s.groups, "h")
		s.advance(time.Minute)
		s.function.State = losing{s.function.State, "p"}
		if err := s.function.RunSchedule(ctx, "scaling"); err == nil ||
			!strings.Contains(err.Error(), "there is no Auto Scaling group h") {
			t.Errorf("what failed is %v", err)
		}
		want(t, "status while the other environment attaches p", s.status(t), cluster.AttachmentsInProgress)
	})
	t.Run("AHookOfSomebodyElsesIsWaitedFor", func(t *testing.T) {
		s := started(t, 1, 0)
		s.overdue = map[string]bool{"i-001": true}
		if err := s.TerminateInstance(ctx, "i-001", false); err != nil {
			t.Fatal(err)
		}
		s.minute(3) // fails where the function does
		want(t, "lifecycle", s.groups["g"].Instances[0].Lifecycle, "Terminating:Wait")
	})
	t.Run("AlarmsOfARoundThatWasCutOffAreTakenBack", func(t *testing.T) {
		s := newScaled(t, nil)
		low, _ := cluster.ScalingAlarms(prod, "p")
		s.failing = unanswered("PutMetricAlarm " + low)
		if err := s.function.RunSchedule(ctx, "scaling"); err == nil {
			t.Fatal("the round did not fail")
		}
		want(t, "status", s.status(t), cluster.AttachmentsFailed)
		want(t, "alarms of the round that was cut off", len(s.alarms), 1)
		s.failing = nil
		off := operation.UpdateCapacityProvider{Name: "p", Protection: new(false),
			Scaling: operation.ScalingChange{Enabled: new(false)}}
		if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, off); err != nil {
			t.Fatal(err)
		}
		s.minute(1)
		want(t, "alarms once it is off", len(s.alarms), 0)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("AGroupThatIsGoneLetsGoOfItsProvider", func(t *testing.T) {
		s := started(t, 1, 0)
		delete(s.groups, "g")
		if err := s.function.RunSchedule(ctx, "scaling"); err == nil {
			t.Fatal("nothing is said of a group that is gone")
		}
		want(t, "status", s.status(t), cluster.AttachmentsFailed)
		s.attach(t)
		if err := s.function.RunSchedule(ctx, "scaling"); err != nil {
			t.Fatal(err)
		}
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		want(t, "alarms", len(s.alarms), 0)
		if _, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("AScalingThatFailsIsNoFailedAttachment", func(t *testing.T) {
		s := started(t, 1, 0)
		s.failing = unanswered("PutScalingMetrics")
		if err := s.function.RunSchedule(ctx, "scaling"); err == nil {
			t.Fatal("the round did not fail")
		}
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
	})
	for name, ended := range map[string]bool{"ADrainOfWhichNobodyHeardIsNotForgotten": false,
		"NorThatItIsToEnd": true} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t,
				func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagConsolidation: "true"} })
			s.groups["g"].Min, s.groups["g"].Desired = 2, 2
			s.minute(2)
			row, err := s.store.Get(ctx, state.ScalingHistoryKey(prod, "p"))
			if err != nil {
				t.Fatal(err)
			}
			next := *row.(*cluster.ScalingHistory)
			next.Rev++
			next.Drains = []cluster.Drain{{Instance: "h-i-001", At: s.clock.Now().Add(-3 * time.Minute),
				Cancelled: ended}}
			if _, err := s.store.Write(ctx, state.Write{Put: &next}); err != nil {
				t.Fatal(err)
			}
			s.ecs.mute = true
			if err := s.ecs.DrainInstance(ctx, prod, "h-i-001"); err != nil {
				t.Fatal(err)
			}
			want(t, "status as Berth has it", s.instance("h-i-001").Status, cluster.InstanceActive)
			s.minute(3)
			want(t, "status: the group is at its minimum", s.ecs.instances["h-i-001"].Status, cluster.InstanceActive)
			want(t, "status as Berth has it in the end", s.instance("h-i-001").Status, cluster.InstanceActive)
		})
	}
	t.Run("DrainsAreUndoneWhenDetached", func(t *testing.T) {
		s := started(t, 2, 0)
		key := state.ScalingHistoryKey(prod, "p")
		row, err := s.store.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		next := *row.(*cluster.ScalingHistory)
		next.Rev++
		next.Drains = []cluster.Drain{{Instance: "h-i-001", At: s.clock.Now()}, {Instance: "h-gone", At: s.clock.Now()},
			{Instance: "h-i-002", At: s.clock.Now().Add(-time.Hour), Finished: true}}
		if _, err := s.store.Write(ctx, state.Write{Put: &next}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"h-i-001", "h-i-002"} {
			if err := s.ecs.DrainInstance(ctx, prod, id); err != nil {
				t.Fatal(err)
			}
		}
		s.attach(t)
		s.minute(1)
		want(t, "the one that was being emptied", s.ecs.instances["h-i-001"].Status, cluster.InstanceActive)
		want(t, "the one that somebody else drains", s.ecs.instances["h-i-002"].Status, cluster.InstanceDraining)
	})
}

func unanswered(call string) func(string) error {
	return func(c string) error {
		if c == call {
			return errors.New("no answer")
		}
		return nil
	}
}

// racingGroups run something just before a call.
type racingGroups struct {
	*fakeGroups
	before func(call string)
}

func (r racingGroups) SetDesired(c context.Context, name string, n int) error {
	r.before("desired")
	return r.fakeGroups.SetDesired(c, name, n)
}

func (r racingGroups) SetInstanceProtection(c context.Context, name string, ids []string, protected bool) error {
	r.before("protect")
	return r.fakeGroups.SetInstanceProtection(c, name, ids, protected)
}

// race runs something just before managed scaling's first call for which it returns true.
func (s *scaled) race(happens func(call string) bool) {
	done := false
	s.function.Groups = racingGroups{s.fakeGroups, func(call string) { done = done || happens(call) }}
}

// moving is a state in which placement commits something whenever tasks are listed: a cluster with
// traffic.
type moving struct {
	state.Store
	bump func()
}

func (m moving) List(c context.Context, r state.Range) ([]state.Row, error) {
	rows, err := m.Store.List(c, r)
	if strings.HasPrefix(r.From, state.PrefixTask) {
		m.bump()
	}
	return rows, err
}

// deciding is a state in which something happens once managed scaling has written its decision.
type deciding struct {
	state.Store
	then func()
}

func (d deciding) Write(c context.Context, w state.Write) (state.Row, error) {
	row, err := d.Store.Write(c, w)
	if _, ok := w.Put.(*cluster.ScalingHistory); ok {
		d.then()
	}
	return row, err
}

func (s *scaled) version(t *testing.T) int64 {
	t.Helper()
	row, err := s.store.Get(ctx, state.Key{Cluster: prod, Sort: state.PrefixMeta})
	if err != nil {
		t.Fatal(err)
	}
	return row.(*state.Meta).Version
}

// losing is a state in which another environment writes a provider's history first.
type losing struct {
	state.Store
	provider string
}

func (l losing) Write(c context.Context, w state.Write) (state.Row, error) {
	if h, ok := w.Put.(*cluster.ScalingHistory); ok && h.Provider == l.provider {
		return nil, &state.Conflict{}
	}
	return l.Store.Write(c, w)
}

// Tasks start on two released instances in one call. The group refuses to protect both, because one is
// terminating; the other is protected all the same (C6).
func TestManagedScaling_ProtectsBesideATerminatingInstance(t *testing.T) {
	s := newScaled(t, nil)
	for _, id := range []string{"x", "y"} {
		i := zoned(id, "zone-a")
		i.Provider, i.Registered.CPU = "p", 256*cluster.CPUUnit
		s.ecs.register(i)
		s.groups["g"].Instances = append(s.groups["g"].Instances,
			cluster.GroupInstance{ID: "i-" + id, Lifecycle: "InService", LaunchedAt: s.clock.now})
	}
	s.groups["g"].Desired = 2
	s.pump()
	for _, id := range []string{"x", "y"} {
		next := *s.instance(id)
		next.Rev++
		next.ReleasedIn = "g"
		_, err := s.store.Write(ctx, state.Write{Put: &next})
		want(t, "error", err, nil)
	}
	s.pump()
	s.groups["g"].Instances[1].Lifecycle = "Terminating:Wait" // its event is on the way
	s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2)})
	s.advance(10 * time.Second)
	want(t, "tasks on x", placed(s.with(cluster.TaskRunning))["x"], 1)
	want(t, "x is protected", s.groups["g"].Instances[0].Protected, true)
}

// Consolidation terminates an instance that it has emptied once ECS, too, has no task there (C5).
func TestManagedScaling_AsksECSBeforeItTerminates(t *testing.T) {
	for name, isBusy := range map[string]bool{"Empty": false, "ATaskOfWhichNobodyHeard": true} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, func(p *cluster.CapacityProvider) {
				p.Tags, p.Draining, p.Protection = map[string]string{cluster.TagConsolidation: "true"}, false, false
			})
			s.groups["g"].Min, s.groups["g"].Desired = 2, 2
			s.minute(2)
			row, err := s.store.Get(ctx, state.ScalingHistoryKey(prod, "p"))
			want(t, "error", err, nil)
			next := *row.(*cluster.ScalingHistory)
			next.Rev++
			next.Drains = []cluster.Drain{{Instance: "h-i-001", At: s.clock.Now().Add(-3 * time.Minute)}}
			_, err = s.store.Write(ctx, state.Write{Put: &next})
			want(t, "error", err, nil)
			want(t, "error", s.ecs.DrainInstance(ctx, prod, "h-i-001"), nil)
			s.pump()
			if isBusy {
				s.ecs.mute = true
				task := s.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "h-i-001", TaskDefinition: "web:1"})
				s.ecs.report(task.ID, func(t *cluster.ECSTask) { t.Last = cluster.TaskRunning })
				s.ecs.mute = false
			}
			s.groups["g"].Min, s.groups["g"].Instances[0].Protected = 1, false
			s.minute(1)
			terminated := slices.ContainsFunc(s.calls, func(c string) bool { return strings.HasPrefix(c, "terminate i-001") })
			want(t, "terminated", terminated, !isBusy)
			want(t, "tasks in the state", len(s.tasks()), map[bool]int{true: 1}[isBusy])
		})
	}
}

// One instance that leaves the group at this moment keeps no other from being protected (C6).
func TestManagedScaling_ProtectsTheOthers(t *testing.T) {
	s := newScaled(t, nil)
	s.groups["g"].Min, s.groups["g"].Desired = 3, 3
	s.minute(2)
	for n := range s.groups["g"].Instances {
		s.groups["g"].Instances[n].Protected = false
	}
	s.createAs(operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(3),
		Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}},
	})
	s.advance(10 * time.Second)
	for n := range s.groups["g"].Instances {
		s.groups["g"].Instances[n].Protected = false // by somebody else
	}
	s.function.Groups = &leavingGroup{AutoScaling: s.fakeGroups, instance: "i-002"}
	s.minute(1)
	var protected []string
	for _, i := range s.groups["g"].Instances {
		if i.Protected {
			protected = append(protected, i.ID)
		}
	}
	want(t, "protected", fmt.Sprint(protected), "[i-001 i-003]")
}

// A leavingGroup refuses all calls about protection that name an instance.
type leavingGroup struct {
	handler.AutoScaling
	instance string
}

func (g *leavingGroup) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	if slices.Contains(ids, g.instance) {
		return cluster.Errorf("ValidationError", "The instance %s is not in InService or EnteringStandby or Standby.",
			g.instance)
	}
	return g.AutoScaling.SetInstanceProtection(ctx, group, ids, protected)
}

// Auto Scaling takes 50 instances a call. If it refuses a later call, tasks may have come to instances
// that an earlier one released: those are protected again at once.
func TestManagedScaling_ProtectsAgainWhereALaterReleaseFails(t *testing.T) {
	s := newScaled(t, nil)
	s.groups["g"].Min, s.groups["g"].Desired = 2, 2
	s.minute(5)
	groups := &halfReleased{AutoScaling: s.fakeGroups, before: func() string { // dispatch protects just before
		s.run(t, operation.SubmitTasks{Count: 1})
		running := s.with(cluster.TaskRunning)
		wantCount(t, "running tasks", running, 1)
		return strings.TrimPrefix(running[0].Instance, "h-")
	}}
	s.function.Groups = groups
	s.advance(time.Minute)
	s.world.minute()
	err := s.function.RunSchedule(ctx, "scaling")
	want(t, "error", cluster.ErrorCode(err), cluster.CodeThrottling)
	for _, i := range s.groups["g"].Instances {
		want(t, "protection of "+i.ID, i.Protected, true)
	}
	want(t, "an instance was released", groups.used != "", true)
}

// A halfReleased group releases the instance that a task has just come to, and then refuses the rest of
// the first release.
type halfReleased struct {
	handler.AutoScaling
	before func() string // returns that instance
	used   string
}

func (g *halfReleased) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	if protected || g.used != "" {
		return g.AutoScaling.SetInstanceProtection(ctx, group, ids, protected)
	}
	g.used = g.before()
	if err := g.AutoScaling.SetInstanceProtection(ctx, group, []string{g.used}, false); err != nil {
		return err
	}
	return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
}
