package handler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// What happens to groups and to attachments that nobody planned for.
func TestManagedScaling_Edges(t *testing.T) {
	started := func(t *testing.T, instances, tasks int) *scaled {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = instances, instances
		s.minute(2)
		if tasks > 0 {
			s.createAs(cluster.ServiceSpec{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &tasks})
			s.pump()
		}
		return s
	}
	t.Run("ReplacesWhatNeverRegisters", func(t *testing.T) {
		s := newScaled(t, nil)
		s.silent = map[string]bool{"i-001": true, "i-002": true, "i-003": true}
		n := 4
		s.createAs(cluster.ServiceSpec{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(20)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), n)
		replaced := slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool { return !strings.HasPrefix(c, "terminate ") })
		want(t, "replaced", strings.Join(replaced, ", "), "terminate i-001, terminate i-002")
		told := 0
		for _, m := range s.events("web") {
			if strings.Contains(m, "did not register with the cluster within 5m0s, and is replaced: i-001") {
				told++
			}
		}
		want(t, "events", told, 1)
	})
	t.Run("DoesNotReplaceWhatECSKnows", func(t *testing.T) {
		s := started(t, 1, 0)
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
			s := newScaled(t, nil)
			s.minute(1)
			s.ecs.clusters["dev"] = true
			if err := s.api.ClusterCreated(ctx, "dev"); err != nil {
				t.Fatal(err)
			}
			s.silent = map[string]bool{"i-001": true, "i-002": true}
			n := 2
			s.createAs(cluster.ServiceSpec{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
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
	t.Run("AlarmsOfARoundThatWasCutOffAreTakenBack", func(t *testing.T) {
		s := newScaled(t, nil)
		low, _ := cluster.ScalingAlarms(prod, "p")
		s.failing = unanswered("PutMetricAlarm " + low)
		if err := s.function.Schedule(ctx, "scaling"); err == nil {
			t.Fatal("the round did not fail")
		}
		want(t, "status", s.status(t), cluster.AttachmentsFailed)
		want(t, "alarms of the round that was cut off", len(s.alarms), 1)
		s.failing = nil
		off := cluster.ProviderChange{Name: "p", Protection: new(false), Scaling: cluster.ScalingChange{Enabled: new(false)}}
		if _, err := s.api.UpdateCapacityProvider(ctx, off); err != nil {
			t.Fatal(err)
		}
		s.minute(1)
		want(t, "alarms once it is off", len(s.alarms), 0)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("AGroupThatIsGoneLetsGoOfItsProvider", func(t *testing.T) {
		s := started(t, 1, 0)
		delete(s.groups, "g")
		if err := s.function.Schedule(ctx, "scaling"); err == nil {
			t.Fatal("nothing is said of a group that is gone")
		}
		want(t, "status", s.status(t), cluster.AttachmentsFailed)
		s.attach(t)
		if err := s.function.Schedule(ctx, "scaling"); err != nil {
			t.Fatal(err)
		}
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		want(t, "alarms", len(s.alarms), 0)
		if _, err := s.api.DeleteCapacityProvider(ctx, "p"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("AScalingThatFailsIsNoFailedAttachment", func(t *testing.T) {
		s := started(t, 1, 0)
		s.failing = unanswered("PutReservation")
		if err := s.function.Schedule(ctx, "scaling"); err == nil {
			t.Fatal("the round did not fail")
		}
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("WhatIsBeingEmptiedTakesTasksAgainOnceDetached", func(t *testing.T) {
		s := started(t, 2, 0)
		key := cluster.ScalingHistoryKey(prod, "p")
		row, err := s.store.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		next := *row.(*cluster.ScalingHistory)
		next.Rev++
		next.Drains = []cluster.Drain{{Instance: "h-i-001", At: s.clock.Now()}, {Instance: "h-gone", At: s.clock.Now()}, {Instance: "h-i-002", At: s.clock.Now().Add(-time.Hour), Over: true}}
		if _, err := s.store.Write(ctx, cluster.Write{Put: &next}); err != nil {
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
