package moves_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// Where an application has reserved more than the instance has, nothing is broken as long as there is
// no load of others.
func TestReservationsAboveTheCapacityAreNoLoad(t *testing.T) {
	rows := []state.Row{
		oracle.Configuration(cluster.Configuration{Applications: map[string]cluster.Application{"shop": {
			Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 8}}}}}),
		&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "shop", Short: "shop"},
			ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}},
		oracle.Instance("i-1", oracle.Metric("m", 5)), oracle.Instance("i-2", oracle.Metric("m", 5)),
		oracle.Task("shop-1", "i-1", oracle.Owner("shop"), func(t *cluster.Task) { t.Reported = nil }),
	}
	owners := movers(anyTask("web"), &placement.Spec{Owner: "shop", Application: "shop"})
	p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
	if broken := p.Violations(owners); len(broken) > 0 || !p.FindsNothing(owners) {
		t.Errorf("broken is %+v, and the watch finds nothing: %v", broken, p.FindsNothing(owners))
	}
	expectMoves(t, plan(append(rows, oracle.Task("web-1", "i-1", oracle.Load(1))), owners), "web-1: i-1 > i-2")
}

// Tasks of an application with limits stay, and no other task moves into what it has reserved.
func TestTasksOfApplicationsStay(t *testing.T) {
	rows := func(limited bool) []state.Row {
		limits := map[string]cluster.Application{}
		if limited {
			limits["shop"] = cluster.Application{
				Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 40}}}
		}
		return []state.Row{
			oracle.Configuration(cluster.Configuration{Applications: limits}),
			&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
				ServiceIdentity: cluster.ServiceIdentity{Name: "shop", Short: "shop"},
				ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}},
			oracle.Instance("i-1", oracle.Metric("m", 50)), oracle.Instance("i-2", oracle.Metric("m", 50)),
			oracle.Instance("i-3", oracle.Metric("m", 50)),
			oracle.Task("shop-1", "i-1", oracle.Owner("shop"), oracle.Load(30)),
			oracle.Task("web-1", "i-1", oracle.Load(31)),
			oracle.Task("shop-2", "i-2", oracle.Owner("shop"), oracle.Load(5)),
		}
	}
	owners := movers(&placement.Spec{Owner: "web", MoveCost: cluster.CostHigh},
		&placement.Spec{Owner: "shop", Application: "shop"})
	expectMoves(t, plan(rows(false), owners), "shop-1: i-1 > i-3")
	expectMoves(t, plan(rows(true), owners), "web-1: i-1 > i-3")
	beside := append(rows(true), oracle.Task("other-1", "i-3", oracle.Owner("other"), oracle.Load(30)))
	expectMoves(t, plan(beside, owners), "") // 31 would fit beside the 5 on i-2, where 40 are reserved
	full := placement.Request{Spec: &placement.Spec{Owner: "shop", Application: "shop",
		Loads: []cluster.Metric{{Name: "m", Load: 50}}}, Count: 1}
	crowded := append(rows(true), oracle.Task("web-2", "i-3", oracle.Load(1)))
	s := oracle.SnapshotOf(crowded...)
	if p := moves.NewPlanner(placement.New(s)).MakeRoom(full, owners); len(p.Moves) > 0 {
		t.Fatalf("moves make room for an application: %+v", p.Moves)
	}
}
