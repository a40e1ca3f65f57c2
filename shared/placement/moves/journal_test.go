package moves_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/tests/oracle"
)

// A planner that follows one snapshot, whatever rows change, plans as a new planner does.
func TestPlannerFollowsTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := planning{History: oracle.NewHistory(t), targets: map[string]int{}}
		h.planner = moves.NewPlanner(h.Engine)
		t.Repeat(map[string]func(*rapid.T){
			"task":          h.ChangeTask,
			"end":           h.EndTask,
			"instance":      h.ChangeInstance,
			"leave":         h.RemoveInstance,
			"configuration": h.ChangeConfiguration,
			"service":       h.ChangeService,
			"commit":        h.CommitPlacements,
			"target":        h.changeTarget,
			"moves":         h.moves,
		})
	})
}

// planning asks the history's planner.
type planning struct {
	*oracle.History
	planner *moves.Planner
	targets map[string]int // by owner
}

// changeTarget changes how many tasks of an owner there should be.
func (h planning) changeTarget(t *rapid.T) {
	if len(h.Movers) > 0 {
		owner := rapid.SampledFrom(slices.Sorted(maps.Keys(h.Movers))).Draw(t, "owner")
		h.targets[owner] = rapid.IntRange(0, 6).Draw(t, "moving to")
	}
}

// moves checks that a remembered plan is one that a new planner makes, and that the watch overlooks
// no violation.
func (h planning) moves(t *rapid.T) {
	m := moves.Request{Owners: map[string]moves.Owner{}}
	for _, owner := range slices.Sorted(maps.Keys(h.Movers)) {
		m.Owners[owner] = moves.Owner{Spec: h.Movers[owner], Target: h.targets[owner]}
	}
	followed, again := h.planner.PlanMoves(m), moves.NewPlanner(placement.New(h.Snap)).PlanMoves(m)
	if summary(followed) != summary(again) || !slices.Equal(followed.Unrepaired, again.Unrepaired) {
		t.Fatalf("the plan is %q, %v, and a new planner's %q, %v", summary(followed), followed.Unrepaired,
			summary(again),
			again.Unrepaired)
	}
	if !h.planner.FindsNothing(m) {
		return
	}
	if broken := moves.NewPlanner(placement.New(h.Snap)).Violations(m); len(broken) > 0 {
		t.Fatalf("the watch knows of no violation, but there are %+v", broken)
	}
}
