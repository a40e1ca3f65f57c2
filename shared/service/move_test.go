package service_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/service"
)

func TestReplacementOnAnotherInstance(t *testing.T) {
	checked := func(in service.Input) service.Input {
		in.HealthChecked = true
		return in
	}
	for _, c := range []struct {
		name string
		in   service.Input
		want string
	}{
		{"CountsAsOneWhileItStarts", input(replica(2), task("t1"), task("t2"), task("t3", pending, replacing("t1"))), ""},
		{"TakesOverOnceRunning", input(replica(2), task("t1"), task("t2"), task("t3", replacing("t1"))), "stop t1"},
		{"WaitsForItsHealth", checked(input(replica(1), task("t1", sound), task("t2", replacing("t1")))), ""},
		{"TakesOverOnceHealthy", checked(input(replica(1), task("t1", sound), task("t2", sound, replacing("t1")))), "stop t1"},
		{"NotWhileItIsUnhealthy", input(replica(1), task("t1"), task("t2", sick, replacing("t1"))), ""},
		{"LeavesTheTaskAloneWhenItFails", input(replica(1), task("t1"), task("t2", stopped, replacing("t1"))), ""},
		{"StandsInWhenTheTaskStopsFirst", input(replica(1), task("t1", stopped), task("t2", pending, replacing("t1"))), ""},
		{"GivesWayWhenScaledIn", input(replica(1), task("t1"), task("t2"), task("t3", pending, replacing("t1"))), "stop t3; 1 of t1 t2"},
		{"StaysWhenScaledInAndReady", input(replica(1), task("t1"), task("t2"), task("t3", replacing("t1"))), "stop t1; 1 of t2 t3"},
		{"KeepsEnoughHealthyOnes", input(replica(3), task("t1"), task("t2", sick), task("t3", sick), task("t4", replacing("t1"))), ""},
		{"MayStopTheUnhealthyOne", input(replica(2), task("t1"), task("t2", sick), task("t3", replacing("t2"))), "stop t2"},
		{"IsATaskLikeAnyWhenMoreAreWanted", input(replica(2, percent(0, 150)), task("t1"), task("t2", pending, replacing("t1"))), ""},
		{"SecondReplacementIsATaskLikeAny", input(replica(1), task("t1"), task("t2", pending, replacing("t1")), task("t3", pending, replacing("t1"))), "stop t2 t3"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "plan", says(service.Reconcile(c.in)), c.want) })
	}
}

func TestHowManyMayMove(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    service.Input
		moves int
		stops int
	}{
		{"WithinMaximumPercent", input(replica(2, percent(100, 150)), task("t1"), task("t2")), 1, 0},
		{"LessThoseUnderWay", input(replica(2), task("t1"), task("t2"), task("t3", pending, replacing("t1"))), 1, 0},
		{"StopFirstWhereMaximumPercentLeavesNoRoom", input(replica(2, percent(50, 100)), task("t1"), task("t2")), 0, 1},
		{"NoneWhileTasksAreMissing", input(replica(3), task("t1"), task("t2")), 0, 0},
		{"NoneWhileTasksAreTooMany", input(replica(1), task("t1"), task("t2")), 0, 0},
		{"NoneWhenDeleted", input(replica(1, deleted), task("t1")), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := service.Reconcile(c.in)
			expect(t, "moves", fmt.Sprint(p.Moves, p.MoveStops), fmt.Sprint(c.moves, c.stops))
		})
	}
	t.Run("SteadyMeanwhile", func(t *testing.T) {
		for _, next := range []*cluster.Task{task("t2", pending, replacing("t1")), task("t2", sick, replacing("t1"))} {
			expect(t, "steady", service.Reconcile(input(replica(1), task("t1"), next)).Steady, true)
		}
	})
}
