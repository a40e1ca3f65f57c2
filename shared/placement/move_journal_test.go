package placement_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
)

// One planner goes along with one snapshot: whatever rows come in between, its plans are those of a new planner.
func TestPlannerKeepsUpWithTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := planning{history: newHistory(t)}
		h.planner = placement.NewPlanner(h.engine)
		t.Repeat(map[string]func(*rapid.T){
			"task":          h.task,
			"end":           h.end,
			"instance":      h.instance,
			"leave":         h.leave,
			"configuration": h.configuration,
			"service":       h.service,
			"commit":        h.commit,
			"moves":         h.moves,
		})
	})
}

// planning asks the history's planner.
type planning struct {
	*history
	planner *placement.Planner
}

// moves checks that what is sound at a glance is so for a look at every task, and that no plan is kept longer than it holds.
func (h planning) moves(t *rapid.T) {
	m := placement.Moves{Owners: map[string]placement.Mover{}}
	for _, owner := range slices.Sorted(maps.Keys(h.movers)) {
		m.Owners[owner] = placement.Mover{Spec: h.movers[owner], Target: rapid.IntRange(0, 6).Draw(t, "moving to")}
	}
	kept, fresh := h.planner.PlanMoves(m), placement.NewPlanner(placement.New(h.snap)).PlanMoves(m)
	if summary(kept) != summary(fresh) || !slices.Equal(kept.Unrepaired, fresh.Unrepaired) {
		t.Fatalf("the plan is %q, %v, and anew %q, %v", summary(kept), kept.Unrepaired, summary(fresh), fresh.Unrepaired)
	}
	if !h.planner.Sound(m) {
		return
	}
	if broken := placement.NewPlanner(placement.New(h.snap)).Violations(m); len(broken) > 0 {
		t.Fatalf("nothing is broken at a glance, but %+v", broken)
	}
}

