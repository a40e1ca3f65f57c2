package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A diagnosis from the blocks of the index is that from a report on all instances, after any changes.
func TestQuickDiagnosisEqualsTheReport(t *testing.T) {
	quick := 0
	rapid.Check(t, func(t *rapid.T) {
		h := oracle.NewHistory(t)
		for range 4 {
			r := oracle.GenRequest(t, h.World)
			if rapid.IntRange(0, 2).Draw(t, "bounded") > 0 { // these need the report
				spec := *r.Spec
				spec.PerInstance, spec.DomainPolicy, spec.Affinity, spec.Application = 0, "", "", ""
				r.Spec, r.Instances, r.Refused = &spec, nil, nil
			}
			h.Requests = append(h.Requests, r)
		}
		for range 6 {
			if len(h.Tasks) > 0 && len(h.Instances) > 0 {
				rapid.SampledFrom([]func(*rapid.T){h.ChangeTask, h.EndTask, h.ChangeInstance, h.CommitPlacements,
					h.RemoveInstance}).Draw(t, "change")(t)
			}
			for n, r := range h.Requests {
				got, want := h.Engine.DiagnoseBothWays(r)
				if got == nil {
					continue
				}
				quick++
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("request %d is explained in another way than by the report:\n%s", n, diff)
				}
			}
		}
	})
	if quick == 0 {
		t.Error("no diagnosis was made without a report")
	}
}

// Instances that do not meet a task's constraint are not in the way of those that do, although they
// have the room that the task likes best.
func TestSearchPassesOverUnmatchedInstances(t *testing.T) {
	var rows []state.Row
	for n := range 600 {
		i := oracle.Instance(fmt.Sprintf("i-%03d", n))
		i.Attributes = map[string]string{"disk": "hdd"}
		i.Registered.CPU, i.Registered.Memory = 2*oracle.Small.CPU, 2*oracle.Small.Memory
		if n%2 > 0 {
			i.Attributes["disk"] = "ssd"
			i.Registered.CPU, i.Registered.Memory = 9*oracle.Small.CPU, 9*oracle.Small.Memory
		}
		rows = append(rows, i)
	}
	e := placement.New(oracle.SnapshotOf(rows...))
	spec := &placement.Spec{Owner: "web", Needs: oracle.Small, Constraints: parsed(t, "attribute:disk == ssd"),
		Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}}
	got := e.Place(placement.Request{Spec: spec, Count: 1})
	if len(got.Placed) != 1 || got.Placed[0].Instance != "i-001" || e.InstanceVisits() > 40 {
		t.Errorf("placed %v after looking at %d instances", got.Placed, e.InstanceVisits())
	}
}
