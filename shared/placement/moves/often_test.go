package moves_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement/moves"
	"berth/tests/oracle"
)

// often is how many clusters each check draws: most of them have no violation of a rare kind.
const often = 15

// Of many clusters, no set of moves is better than the plan.
func TestPlanMovesEqualsTryingEverythingOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			expectBestPlan(t, oracle.GenMoveWorld(t, 4, 5))
		}
	})
}

// Of many clusters, no set of moves places more tasks, or as many at a lower cost.
func TestMakeRoomEqualsTryingEverythingOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			w := oracle.GenMoveWorld(t, 4, 4)
			w.Newcomers = rapid.IntRange(1, 2).Draw(t, "newcomers")
			expectBestPlan(t, w)
		}
	})
}

// In many histories, a planner that follows the snapshot plans as a new one does.
func TestPlannerFollowsTheSnapshotOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 2 {
			h := planning{History: oracle.NewHistory(t)}
			h.planner = moves.NewPlanner(h.Engine)
			t.Repeat(map[string]func(*rapid.T){
				"task":          h.ChangeTask,
				"end":           h.EndTask,
				"instance":      h.ChangeInstance,
				"leave":         h.RemoveInstance,
				"configuration": h.ChangeConfiguration,
				"service":       h.ChangeService,
				"commit":        h.CommitPlacements,
				"moves":         h.moves,
				"moves again":   h.moves,
			})
		}
	})
}
