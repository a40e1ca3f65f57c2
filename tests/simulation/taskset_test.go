package simulation

import (
	"context"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// taskSet creates a task set of the service web and returns what names it.
func (s *scenario) taskSet(definition string, scale float64) operation.TaskSetRef {
	s.t.Helper()
	d, err := s.API.TaskSets.CreateTaskSet(context.Background(), operation.CreateTaskSet{
		Cluster: clusterName, Service: "web", TaskDefinition: definition, Scale: scale,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return operation.TaskSetRef{Cluster: clusterName, Service: "web", ID: d.Deployment.ID}
}

// awaitTaskSet lets time pass until a task set is steady, and checks that it has n tasks.
func (s *scenario) awaitTaskSet(ref operation.TaskSetRef, n int) {
	s.t.Helper()
	s.await("the task set is steady", 10*time.Minute, func() bool {
		found, _, err := s.API.TaskSets.DescribeTaskSets(context.Background(), clusterName, "web", []string{ref.ID})
		return err == nil && len(found) == 1 && found[0].Deployment.Set.Steady
	})
	if got := len(s.tasksOfSet(ref)); got != n {
		s.t.Fatalf("task set %s is steady with %d tasks, want %d", ref.ID, got, n)
	}
}

func (s *scenario) tasksOfSet(ref operation.TaskSetRef) (tasks []*cluster.Task) {
	for _, t := range s.activeTasks("web") {
		if t.Revision == ref.ID {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// TestTaskSets deploys by hand on a whole installation, through losses of tasks and instances: each
// task set stays at its own count, and no step of one takes a task of the other.
func TestTaskSets(t *testing.T) {
	s := newScenario(t, 6, machine)
	s.createService("web", "", 4, func(spec *operation.CreateService) {
		spec.Controller, spec.Network = cluster.ExternalController, nil
	})
	blue := s.taskSet("small:1", 100)
	s.awaitTaskSet(blue, 4)
	must := func(_ *operation.TaskSetDetail, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	must(s.API.TaskSets.MakePrimary(ctx, blue))
	s.passTime(time.Minute)
	if err := s.AWS.Machines.CrashTask(s.tasksOfSet(blue)[0].ECSID, 1); err != nil {
		t.Fatal(err)
	}
	s.passTime(10 * time.Second)
	s.awaitTaskSet(blue, 4)
	green := s.taskSet("checked:1", 0)
	s.awaitTaskSet(green, 0)
	kept := s.tasksOfSet(blue)
	must(s.API.TaskSets.UpdateTaskSet(ctx, green, 30))
	s.awaitTaskSet(green, 2)
	must(s.API.TaskSets.UpdateTaskSet(ctx, green, 100))
	s.awaitTaskSet(green, 4)
	for i, task := range s.tasksOfSet(blue) {
		if task.ID != kept[i].ID {
			t.Errorf("task %s of blue is another one now: %s", kept[i].ID, task.ID)
		}
	}
	must(s.API.TaskSets.MakePrimary(ctx, green))
	if err := s.AWS.Machines.SetHealth(s.tasksOfSet(green)[0].ECSID, false); err != nil {
		t.Fatal(err)
	}
	s.passTime(10 * time.Second)
	s.awaitTaskSet(green, 4)
	s.drainInstance(s.tasksOfSet(green)[0].Instance)
	s.passTime(10 * time.Second)
	s.awaitTaskSet(green, 4)
	s.awaitTaskSet(blue, 4)
	if err := s.AWS.Machines.KillInstance(s.tasksOfSet(blue)[0].Instance); err != nil {
		t.Fatal(err)
	}
	s.passTime(time.Minute)
	s.awaitTaskSet(green, 4)
	s.awaitTaskSet(blue, 4)
	must(s.API.TaskSets.DeleteTaskSet(ctx, blue, true))
	s.await("blue is gone", 10*time.Minute, func() bool {
		_, missing, err := s.API.TaskSets.DescribeTaskSets(ctx, clusterName, "web", []string{blue.ID})
		return err == nil && len(missing) == 1
	})
	s.awaitTaskSet(green, 4)
	if got := len(s.activeTasks("web")); got != 4 {
		t.Errorf("%d tasks are left, want 4", got)
	}
}
