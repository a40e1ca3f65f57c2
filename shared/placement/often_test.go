package placement_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/tests/oracle"
)

// often is how many clusters each check draws: most rules and caches matter in few of them.
const often = 40

// Of many clusters, each answer is a full scan's.
func TestPlaceEqualsFullScanOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			w := oracle.GenWorld(t)
			r := oracle.GenRequest(t, w)
			checkPlaced(t, w, r, placement.New(w.Snapshot(1)).Place(r))
		}
	})
}

// Of many clusters, each choice of stops is a full scan's.
func TestChooseStopsEqualsFullScanOften(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			w := oracle.GenWorld(t)
			checkStops(t, w, placement.New(w.Snapshot(rapid.Uint64().Draw(t, "rows"))), oracle.GenRequest(t, w))
		}
	})
}

// An engine with hardly any memory for its caches answers as a full scan does, however often it has
// to forget them.
func TestEngineWithoutMemoryFollowsTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 3 {
			h := asking{oracle.NewHistory(t)}
			h.Engine.LimitMemory(rapid.SampledFrom([]int{1, 4 << 10, 64 << 20}).Draw(t, "memory"))
			t.Repeat(map[string]func(*rapid.T){
				"task":          h.ChangeTask,
				"end":           h.EndTask,
				"instance":      h.ChangeInstance,
				"leave":         h.RemoveInstance,
				"configuration": h.ChangeConfiguration,
				"service":       h.ChangeService,
				"place":         h.place,
				"commit":        h.CommitPlacements,
				"stop":          h.stop,
				"kept":          h.checkKept,
			})
		}
	})
}
