package service

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
)

func TestRefusals(t *testing.T) {
	limits := Limits{RetryRefused: time.Minute, RetryRefusedMax: 10 * time.Minute}
	at := func(d time.Duration) cluster.Instant { return cluster.At(noon.Add(d)) }
	n := 0
	refused := func(instance string, began, ended time.Duration) *cluster.Task {
		n++
		return &cluster.Task{
			TaskSpec: cluster.TaskSpec{ID: fmt.Sprint(n)},
			TaskAssignment: cluster.TaskAssignment{
				Instance: instance, Desired: cluster.TaskRunning, ClaimedAt: at(began),
			},
			TaskReport: cluster.TaskReport{
				Last: cluster.TaskStopped, Stopped: at(ended), StopCode: cluster.StopRefused,
			},
		}
	}
	ran := func(instance string, started time.Duration) *cluster.Task {
		n++
		return &cluster.Task{
			TaskSpec:       cluster.TaskSpec{ID: fmt.Sprint(n)},
			TaskAssignment: cluster.TaskAssignment{Instance: instance, Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, Started: at(started)},
		}
	}
	for _, c := range []struct {
		name  string
		tasks []*cluster.Task
		now   time.Duration
		on    []string
		next  time.Duration
	}{
		{"None", []*cluster.Task{ran("a", 0)}, 0, nil, 0},
		{"OneIsHeldForAMinute", []*cluster.Task{refused("a", 0, 0)}, 59 * time.Second, []string{"a"}, time.Minute},
		{"ThenItIsTriedAgain", []*cluster.Task{refused("a", 0, 0)}, time.Minute, nil, 0},
		{"SeveralAtOnceAreOneAttempt", []*cluster.Task{refused("a", 0, 0), refused("a", 0, time.Second)}, 0,
			[]string{"a"}, time.Minute},
		{"TheNextTakesTwice", []*cluster.Task{refused("a", 0, 0), refused("a", time.Minute, time.Minute)}, time.Minute,
			[]string{"a"}, 3 * time.Minute},
		{"TasksThatRanThereEndIt", []*cluster.Task{refused("a", 0, 0), ran("a", time.Second)}, 2 * time.Second, nil, 0},
		{"EachInstanceForItself", []*cluster.Task{refused("b", 0, 0), refused("a", 0, 30*time.Second), ran("c", 0)},
			30 * time.Second, []string{"a", "b"}, time.Minute},
		{"UntilTheFirstIsTriedAgain", []*cluster.Task{refused("a", 0, 0), refused("b", 0, 30*time.Second)},
			30 * time.Second, []string{"a", "b"}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, next := refusedInstances(c.tasks, limits, noon.Add(c.now))
			if !slices.Equal(on, c.on) {
				t.Errorf("held are %v, want %v", on, c.on)
			}
			if want := noon.Add(c.next); len(c.on) > 0 && !next.Equal(want) {
				t.Errorf("until %v, want %v", next, want)
			}
			slices.Reverse(c.tasks)
			if again, _ := refusedInstances(c.tasks, limits, noon.Add(c.now)); !slices.Equal(again, on) {
				t.Errorf("in another order %v", again)
			}
		})
	}
	t.Run("DelayIsCapped", func(t *testing.T) {
		var tasks []*cluster.Task
		for k := range 20 {
			tasks = append(tasks, refused("a", time.Duration(k)*time.Hour, time.Duration(k)*time.Hour))
		}
		if _, next := refusedInstances(tasks, limits,
			noon.Add(19*time.Hour)); next.Sub(noon) != 19*time.Hour+10*time.Minute {
			t.Errorf("until %v", next.Sub(noon))
		}
	})
	t.Run("NothingMovesMeanwhile", func(t *testing.T) {
		w := newWorld(t, 2)
		w.rest(20)
		expect(t, "moves", w.step().Moves.StartFirst > 0, true)
		w.tasks["x"] = refused("a", time.Hour, w.now.Sub(noon))
		w.tasks["x"].Revision = w.service.Deployment.ID
		p := w.step()
		expect(t, "moves", p.Moves.StartFirst, 0)
		expect(t, "looks again", p.ReconsiderAt, w.now.Add(testLimits.RetryRefused))
	})
}
