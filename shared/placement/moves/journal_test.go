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

// One planner goes along with one snapshot: whatever rows come in between, its plans are those of a
// new planner.
func TestPlannerKeepsUpWithTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := planning{History: oracle.NewHistory(t)}
		h.planner = moves.NewPlanner(h.Engine)
		t.Repeat(map[string]func(*rapid.T){
			"task":          h.Task,
			"end":           h.End,
			"instance":      h.Instance,
			"leave":         h.Leave,
			"configuration": h.Configuration,
			"service":       h.Service,
			"commit":        h.Commit,
			"moves":         h.moves,
		})
	})
}

// planning asks the history's planner.
type planning struct {
	*oracle.History
	planner *moves.Planner
}

// moves checks that what is sound at a glance is so for a look at every task, and that no plan is
// kept longer than it holds.
func (h planning) moves(t *rapid.T) {
	m := moves.Request{Owners: map[string]moves.Owner{}}
	for _, owner := range slices.Sorted(maps.Keys(h.Movers)) {
		m.Owners[owner] = moves.Owner{Spec: h.Movers[owner], Target: rapid.IntRange(0, 6).Draw(t, "moving to")}
	}
	kept, fresh := h.planner.PlanMoves(m), moves.NewPlanner(placement.New(h.Snap)).PlanMoves(m)
	if summary(kept) != summary(fresh) || !slices.Equal(kept.Unrepaired, fresh.Unrepaired) {
		t.Fatalf("the plan is %q, %v, and anew %q, %v", summary(kept), kept.Unrepaired, summary(fresh),
			fresh.Unrepaired)
	}
	if !h.planner.Sound(m) {
		return
	}
	if broken := moves.NewPlanner(placement.New(h.Snap)).Violations(m); len(broken) > 0 {
		t.Fatalf("nothing is broken at a glance, but %+v", broken)
	}
}
