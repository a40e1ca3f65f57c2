package handler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// deregister deregisters a revision as the API does, and reports whether that is deferred.
func (w *world) deregister(name string) (deferred bool) {
	w.t.Helper()
	d, err := w.api.Clusters.DeferDeregistration(ctx, name)
	if err != nil {
		w.t.Fatal(err)
	}
	if d == nil {
		if err := w.ecs.DeregisterTaskDefinition(ctx, name); err != nil {
			w.t.Fatal(err)
		}
		if err := w.api.Clusters.TaskDefinitionChanged(ctx, name); err != nil {
			w.t.Fatal(err)
		}
	}
	return d != nil
}

func (w *world) deregistrations() (out []string) {
	w.t.Helper()
	all, err := w.api.Clusters.DeferredDeregistrations(ctx, "")
	want(w.t, "error", err, nil)
	for _, d := range all {
		out = append(out, d.Name())
	}
	return out
}

// laterSweep sweeps when calls of before have ended.
func (w *world) laterSweep() {
	w.t.Helper()
	w.advance(10 * time.Minute)
	w.sweepTwice()
	w.pump()
}

// sweepTwice finds what is no longer used, and deregisters it.
func (w *world) sweepTwice() {
	w.t.Helper()
	w.sweep()
	w.sweep()
}

// inUse returns a cluster with a steady service of web:1, which is then deregistered.
func inUse(t *testing.T) *world {
	w := newWorld(t)
	w.ecs.define(definition("web", 2, 256, 512))
	w.instances("i", 3, 4096, 8192)
	w.create("web", "web:1", 2)
	w.advance(5 * time.Minute)
	want(t, "running", w.service("web").Service.Running, 2)
	want(t, "deferred", w.deregister("web:1"), true)
	return w
}

// As with ECS, a service keeps using a revision that was deregistered: it replaces tasks, scales,
// and returns to the revision.
func TestDeregistered_RevisionsGoOnInServices(t *testing.T) {
	t.Run("TasksAreReplaced", func(t *testing.T) {
		w := inUse(t)
		w.laterSweep()
		w.ecs.exit(w.ecs.live()[0], 1)
		w.advance(5 * time.Minute)
		want(t, "running", w.service("web").Service.Running, 2)
		w.scale("web", 3)
		w.advance(5 * time.Minute)
		want(t, "running", w.service("web").Service.Running, 3)
		wantCount(t, "deregistered at ECS", w.ecs.deregistered, 0)
	})
	t.Run("ADeploymentRollsBackToIt", func(t *testing.T) {
		w := inUse(t)
		w.ecs.define(definition("huge", 1, 100_000, 512)) // never finds room
		w.deploy("web", "huge:1")
		w.advance(2 * time.Minute)
		w.laterSweep()
		want(t, "error", w.api.Deployments.StopServiceDeployment(ctx, operation.RecordRef{
			Cluster: prod, Service: "web", ID: w.service("web").Service.Release.ID,
		}, cluster.StopRollback), nil)
		w.advance(5 * time.Minute)
		w.ecs.exit(w.ecs.live()[0], 1)
		w.advance(5 * time.Minute)
		s := w.service("web").Service
		want(t, "task definition", s.Deployment.TaskDefinition, "web:1")
		want(t, "running", s.Running, 2)
	})
	t.Run("TheServiceCanBeChanged", func(t *testing.T) {
		w := inUse(t)
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Force: true})
		want(t, "error", err, nil)
		w.laterSweep()
		want(t, "running", w.service("web").Service.Running, 2)
		wantCount(t, "deregistered at ECS", w.ecs.deregistered, 0)
	})
}

func TestDeregistered_RevisionsAreRefused(t *testing.T) {
	w := inUse(t)
	desired := 1
	w.createAs(operation.CreateService{Cluster: prod, Name: "sets", Desired: &desired,
		Controller: cluster.ExternalController})
	for name, use := range map[string]func() error{
		"CreateService": func() error {
			_, err := w.api.Services.CreateService(ctx,
				operation.CreateService{Cluster: prod, Name: "new", TaskDefinition: "web:1", Desired: &desired})
			return err
		},
		"UpdateService": func() error {
			_, err := w.api.Services.UpdateService(ctx,
				operation.UpdateService{Cluster: prod, Name: "web", TaskDefinition: "web:1"})
			return err
		},
		"RunTask": func() error {
			_, err := w.api.Tasks.SubmitRequest(ctx,
				operation.SubmitTasks{Cluster: prod, Kind: cluster.RunTask, TaskDefinition: "web:1", Count: 1})
			return err
		},
		"StartTask": func() error {
			_, err := w.api.Tasks.SubmitRequest(ctx, operation.SubmitTasks{Cluster: prod, Kind: cluster.StartTask,
				TaskDefinition: "web:1", Instances: []string{"i000"}})
			return err
		},
		"CreateTaskSet": func() error {
			_, err := w.api.TaskSets.CreateTaskSet(ctx,
				operation.CreateTaskSet{Cluster: prod, Service: "sets", TaskDefinition: "web:1", Scale: 100})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, use(), cluster.CodeClient, "TaskDefinition is inactive") })
	}
}

// The sweep deregisters a revision at ECS once nothing can start a task of it any more.
func TestSweep_DeregistersWhatIsNoLongerUsed(t *testing.T) {
	t.Run("AfterTheNextDeploymentIsCompleted", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.sweep() // too early: a call that had begun before could still use it
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
		wantCount(t, "deferred", w.deregistrations(), 0)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
		want(t, "running", w.service("web").Service.Running, 2)
	})
	t.Run("NotWhileADeploymentIsInProgress", func(t *testing.T) {
		w := inUse(t)
		w.ecs.define(definition("huge", 1, 100_000, 512))
		w.deploy("web", "huge:1")
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
	})
	t.Run("AfterTheServiceIsDeleted", func(t *testing.T) {
		w := inUse(t)
		_, err := w.api.Services.DeleteService(ctx, prod, "web", true)
		want(t, "error", err, nil)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
	})
	t.Run("NotBeforeWaitingTasksHaveStarted", func(t *testing.T) {
		w := newWorld(t)
		w.run(t, operation.SubmitTasks{TaskDefinition: "big", Wait: "10h"})
		want(t, "deferred", w.deregister("big:1"), true)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
		w.instances("i", 1, 8192, 16384)
		w.laterSweep()
		wantCount(t, "running", w.ecs.live(), 1)
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[big:1]")
	})
	t.Run("NotBeforeARequestIsAnswered", func(t *testing.T) {
		w := newWorld(t)
		w.placementAsleep = true
		w.submit(t, operation.SubmitTasks{TaskDefinition: "big"})
		want(t, "deferred", w.deregister("big:1"), true)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
	})
	t.Run("NotBeforeATaskSetIsDeleted", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.external(2)
		set := w.taskSet(100)
		want(t, "deferred", w.deregister("web:1"), true)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
		_, err := w.api.TaskSets.DeleteTaskSet(ctx, set, true)
		want(t, "error", err, nil)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
	})
	t.Run("NotBeforeEachClusterHasStoppedUsingIt", func(t *testing.T) {
		w := inUse(t)
		w.ecs.clusters["other"] = true
		want(t, "error", w.api.Clusters.ClusterCreated(ctx, "other"), nil)
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: "other", Name: "web",
			TaskDefinition: "web:2", Desired: new(0)})
		want(t, "error", err, nil)
		want(t, "deferred", w.deregister("web:2"), true)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
		_, err = w.api.Services.DeleteService(ctx, "other", "web", true)
		want(t, "error", err, nil)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:2]")
	})
	t.Run("AlsoIfItsClusterIsDeleted", func(t *testing.T) {
		w := inUse(t)
		want(t, "error", w.api.Clusters.ClusterDeleted(ctx, prod), nil)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
	})
	t.Run("AHundredInOneSweep", func(t *testing.T) {
		w := newWorld(t)
		for n := range 120 {
			family := fmt.Sprintf("old-%03d", n)
			w.ecs.define(definition(family, 1, 256, 512))
			_, err := w.store.Write(ctx, state.Write{Put: &state.Deregistration{Head: cluster.Head{Cluster: state.Directory, Rev: 1},
				Family: family, Revision: 1, At: w.clock.now.Add(-time.Hour)}, Any: true})
			want(t, "error", err, nil)
		}
		w.sweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 100)
		w.sweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 120)
	})
	t.Run("AndDeletesItIfThatWasRequested", func(t *testing.T) {
		w := inUse(t)
		for range 2 {
			deferred, err := w.api.Clusters.DeferDeletion(ctx, []string{"web:1", "web:2"})
			want(t, "error", err, nil)
			want(t, "deferred", len(deferred), 1)
			want(t, "requested", deferred["web:1"].DeleteAt.IsZero(), false)
		}
		want(t, "deferred", w.deregister("web:1"), true)
		w.laterSweep()
		wantCount(t, "deleted", w.ecs.deleted, 0)
		w.deploy("web", "web:2")
		w.laterSweep()
		want(t, "deleted", fmt.Sprint(w.ecs.deregistered, w.ecs.deleted), "[web:1] [web:1]")
		wantCount(t, "deferred", w.deregistrations(), 0)
	})
}

// Calls that race, are repeated or are cut off leave no service without its revision, and no
// revision ACTIVE for ever.
func TestDeregistered_InAnyOrder(t *testing.T) {
	t.Run("WhatNoClusterHasUsedEndsAtOnce", func(t *testing.T) {
		w := newWorld(t)
		want(t, "deferred", w.deregister("web:1"), false)
		wantCount(t, "deferred", w.deregistrations(), 0)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 1)
	})
	t.Run("CutOffBeforeECSIsCalled", func(t *testing.T) {
		w := newWorld(t)
		d, err := w.api.Clusters.DeferDeregistration(ctx, "web:1")
		want(t, "error", err, nil)
		want(t, "deferred", d != nil, false)
		w.laterSweep()
		want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
	})
	t.Run("Twice", func(t *testing.T) {
		w := inUse(t)
		first, err := w.api.Clusters.DeferDeregistration(ctx, "web:1")
		want(t, "error", err, nil)
		w.advance(time.Hour)
		second, err := w.api.Clusters.DeferDeregistration(ctx, "web:1")
		want(t, "error", err, nil)
		want(t, "time", second.At, first.At)
	})
	t.Run("AServiceIsCreatedBetweenItsLookUpAndItsCommit", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.onDescribe = func(string) {
			w.ecs.onDescribe = nil
			w.deregister("web:1")
		}
		_, err := w.api.Services.CreateService(ctx,
			operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(1)})
		wantCode(t, err, cluster.CodeClient, "TaskDefinition is inactive")
	})
	t.Run("TheSweepDeregistersWhileAServiceIsCreated", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.advance(10 * time.Minute)
		w.ecs.onDescribe = func(string) {
			w.ecs.onDescribe = nil
			w.sweepTwice()
			want(t, "deregistered", fmt.Sprint(w.ecs.deregistered), "[web:1]")
		}
		_, err := w.api.Services.CreateService(ctx,
			operation.CreateService{Cluster: prod, Name: "new", TaskDefinition: "web:1", Desired: new(1)})
		wantCode(t, err, cluster.CodeClient, "TaskDefinition is inactive")
	})
	t.Run("ARequestIsWrittenAfterItsCheck", func(t *testing.T) {
		w := newWorld(t)
		w.placementAsleep = true
		_, err := w.api.Tasks.SubmitRequest(ctx,
			operation.SubmitTasks{Cluster: prod, Kind: cluster.RunTask, TaskDefinition: "web:1", Count: 1})
		want(t, "error", err, nil)
		want(t, "deferred", w.deregister("web:1"), true)
		w.laterSweep()
		wantCount(t, "deregistered", w.ecs.deregistered, 0)
		w.placementAsleep = false
		w.instances("i", 1, 4096, 8192)
		w.laterSweep()
		wantCount(t, "running", w.ecs.live(), 1)
	})
	t.Run("ECSIsThrottledOrCutOff", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.ecs.onDeregister = func(string) error { return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded") }
		w.advance(10 * time.Minute)
		w.sweepTwice() // the error is none of the sweep's, which would begin again
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[web:1]")
		w.ecs.onDeregister = func(name string) error { // the answer is lost
			w.ecs.definitions[name].Inactive = true
			return errors.New("cut off")
		}
		w.sweep()
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[web:1]")
		w.ecs.onDeregister = nil
		w.sweep()
		wantCount(t, "deferred", w.deregistrations(), 0)
	})
	t.Run("OneThatFailsKeepsNoOthersBack", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.create("big", "big", 0)
		want(t, "deferred", w.deregister("big:1"), true)
		_, err := w.api.Services.DeleteService(ctx, prod, "big", true)
		want(t, "error", err, nil)
		w.ecs.onDeregister = func(name string) error {
			if name == "big:1" { // which is called first
				return cluster.Errorf(cluster.CodeServer, "Service Unavailable")
			}
			return nil
		}
		w.laterSweep()
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[big:1]")
	})
	t.Run("AThrottledSweepLeavesTheRestToTheNext", func(t *testing.T) {
		w := inUse(t)
		for n := range 5 {
			name := fmt.Sprint("big-", n)
			w.ecs.define(definition(name, 1, 256, 512))
			w.create(name, name, 0)
			want(t, "deferred", w.deregister(name+":1"), true)
			_, err := w.api.Services.DeleteService(ctx, prod, name, true)
			want(t, "error", err, nil)
		}
		w.advance(10 * time.Minute)
		w.sweep()
		w.ecs.onDeregister = func(string) error { return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded") }
		w.sweep()
		wantCount(t, "calls", w.ecs.deregistered, 3)
		w.ecs.onDeregister = nil
		w.sweep()
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[web:1]")
	})
	t.Run("ECSDoesNotDeleteItYet", func(t *testing.T) {
		w := inUse(t)
		_, err := w.api.Clusters.DeferDeletion(ctx, []string{"web:1"})
		want(t, "error", err, nil)
		w.deploy("web", "web:2")
		w.ecs.onDelete = func(string) error {
			return cluster.Errorf(cluster.CodeClient, "The specified task definition is still in ACTIVE status.")
		}
		w.laterSweep()
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[web:1]")
		w.ecs.onDelete = nil
		w.sweep()
		wantCount(t, "deferred", w.deregistrations(), 0)
		want(t, "deleted", w.ecs.deleted[len(w.ecs.deleted)-1], "web:1")
	})
	t.Run("AClusterThatECSLostUsesOthers", func(t *testing.T) {
		w := inUse(t)
		w.create("big", "big", 0)
		want(t, "deferred", w.deregister("big:1"), true)
		_, err := w.api.Services.DeleteService(ctx, prod, "big", true)
		want(t, "error", err, nil)
		w.ecs.clusters[prod] = false // deleted past Berth, with a service that is wanted
		w.laterSweep()
		want(t, "deferred", fmt.Sprint(w.deregistrations()), "[web:1]")
	})
	t.Run("ECSNoLongerHasIt", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.advance(10 * time.Minute)
		delete(w.ecs.definitions, "web:1")
		w.sweepTwice()
		wantCount(t, "deferred", w.deregistrations(), 0)
	})
	t.Run("ADeletionIsRequestedWhileTheSweepDeregisters", func(t *testing.T) {
		w := inUse(t)
		w.deploy("web", "web:2")
		w.ecs.onDeregister = func(name string) error {
			w.ecs.onDeregister = nil
			_, err := w.api.Clusters.DeferDeletion(ctx, []string{name})
			return err
		}
		w.laterSweep()
		wantCount(t, "deleted", w.ecs.deleted, 0)
		w.sweep()
		want(t, "deleted", fmt.Sprint(w.ecs.deleted), "[web:1]")
		wantCount(t, "deferred", w.deregistrations(), 0)
	})
	t.Run("RevisionsOfLikeNamesAreApart", func(t *testing.T) {
		w := inUse(t)
		w.ecs.define(definition("web-2", 1, 256, 512))
		w.create("other", "web-2", 0)
		w.deregister("web-2:1")
		of, err := w.api.Clusters.DeferredDeregistrations(ctx, "web")
		want(t, "error", err, nil)
		wantCount(t, "deferred", of, 1)
		want(t, "all", fmt.Sprint(slices.Sorted(slices.Values(w.deregistrations()))), "[web-2:1 web:1]")
	})
}

// A sweep reads nothing more of a cluster than the rows that wait, of which there mostly are none.
func TestSweep_ReadsLittleForDeregistrations(t *testing.T) {
	w := inUse(t)
	w.laterSweep()
	reads := func() float64 {
		before := w.store.Usage().ReadUnits
		w.sweep()
		return w.store.Usage().ReadUnits - before
	}
	deferred := reads()
	w.deploy("web", "web:2")
	w.laterSweep()
	w.clock.now = w.clock.now.Add(2 * state.KeepDeregistration)
	w.store.ExpireRows(w.clock.now)
	if none := reads(); deferred > none+10 {
		t.Errorf("a sweep reads %.1f units with a deferred deregistration and %.1f without", deferred, none)
	}
}
