package handler_test

import (
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/handler/managedscaling"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// What others see of a cluster's capacity is what managed scaling itself decides on.
func TestAPI_Capacity(t *testing.T) {
	s := newScaled(t, nil)
	n := 10
	s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
	s.minute(1)
	rows, err := s.api.Rows.CapacityRows(ctx, prod)
	if err != nil {
		t.Fatal(err)
	}
	wantCount(t, "rows", rows, 3)
	p, history := rows[0].(*cluster.CapacityProvider), rows[1].(*cluster.ScalingHistory)
	want(t, "attached", strings.Join(rows[2].(*cluster.ClusterProviders).Providers, " "), "p")
	want(t, "provider", p.Name, "p")
	snap := snapshot.NewSnapshot()
	for after := ""; ; {
		page, more, err := s.api.Rows.ListRows(ctx, prod, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			snap.Put(r)
			after = state.KeyOf(r).Sort
		}
		if !more {
			break
		}
	}
	d := scaling.Decide(managedscaling.ScalingInput(snap, p, s.groups["g"], history, s.clock.Now()))
	want(t, "reservation", d.Reservation, s.reservation())
	_, err = s.api.Rows.CapacityRows(ctx, "nothing")
	wantCode(t, err, cluster.CodeClusterNotFound, "Cluster not found.")
}

// A dry run returns the update that would begin, and begins none.
func TestNodeGroups_DryRun(t *testing.T) {
	w := newWorld(t)
	n := w.api.NodeGroups
	g := &cluster.NodeGroup{
		Head: cluster.Head{Cluster: prod, Rev: 1}, Name: "web", ID: "id", Status: cluster.NodeGroupActive, AutoScalingGroup: "a",
		Config: cluster.UpdateConfig{MaxUnavailable: 3}, Target: cluster.UpdateTarget{Image: "ami-1"},
	}
	if _, err := w.store.Write(ctx, state.Write{Put: g}); err != nil {
		t.Fatal(err)
	}
	change := version("web", "ami-2", "token")
	change.DryRun = true
	dry, err := n.UpdateNodeGroupVersion(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.api.Rows.CapacityRows(ctx, prod)
	if err != nil {
		t.Fatal(err)
	}
	wantCount(t, "rows after it", rows, 1)
	change.DryRun = false
	began, err := n.UpdateNodeGroupVersion(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "id and seed", [2]any{dry.ID, dry.Seed}, [2]any{began.ID, began.Seed})
	want(t, "most at a time", dry.Config.MaxUnavailable, 3)
	if rows, err = w.api.Rows.CapacityRows(ctx, prod); err != nil {
		t.Fatal(err)
	}
	wantCount(t, "rows after it began", rows, 2)
	want(t, "update", rows[1].(*cluster.Update).ID, began.ID)
}

// A capacity provider that could not be created is in no cluster, and is found from each.
func TestAPI_CapacityOfAProviderThatFailed(t *testing.T) {
	w := newWorld(t)
	for _, p := range []*cluster.CapacityProvider{
		{Name: "gone", GroupProblem: "no such group"}, {Name: "asked", GroupProblem: "no such group", CheckPending: true},
		{Name: "elsewhere", GroupProblem: "no such group", Clusters: []string{"other"}}, {Name: "fine"},
		{Name: "deleted", GroupProblem: "no such group", Inactive: true},
	} {
		p.Head = providerRow(p.Name, "g").Head
		p.Rev = 1
		if _, err := w.store.Write(ctx, state.Write{Put: p, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := w.api.Rows.CapacityRows(ctx, prod)
	if err != nil {
		t.Fatal(err)
	}
	wantCount(t, "rows", rows, 1)
	want(t, "provider", rows[0].(*cluster.CapacityProvider).Name, "gone")
}
