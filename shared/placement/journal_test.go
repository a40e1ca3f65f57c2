package placement_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/tests/oracle"
)

// An engine that follows one snapshot, whatever rows change, answers as a full scan of the rows
// does, and gives the same answer again. This is where a cache that is not updated would show.
func TestEngineFollowsTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := asking{oracle.NewHistory(t)}
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
			"check":         h.check,
			"kept":          h.checkKept,
		})
	})
}

// asking compares the engine's answers with a full scan of the history's rows.
type asking struct{ *oracle.History }

func (h asking) place(t *rapid.T) {
	r := h.DrawRequest(t)
	first := h.Engine.Place(r)
	checkPlaced(t, h.World, r, first)
	if second := h.Engine.Place(r); oracle.Where(second.Placed) != oracle.Where(first.Placed) {
		t.Fatalf("placed %q, then %q", oracle.Where(first.Placed), oracle.Where(second.Placed))
	}
}

// checkKept fails if anything that the engine keeps differs from what it would compute anew.
func (h asking) checkKept(t *rapid.T) {
	if err := h.Engine.CheckKept(); err != nil {
		t.Fatal(err)
	}
}

func (h asking) stop(t *rapid.T) {
	r := h.DrawRequest(t)
	checkStops(t, h.World, h.Engine, r)
}

func (h asking) check(t *rapid.T) {
	r := h.DrawRequest(t)
	for _, i := range h.Instances {
		_, got := h.Engine.CheckInstance(h.Snap.Instances[i.ID], r)
		_, want := placement.New(h.World.Snapshot(1)).CheckInstance(h.World.Snapshot(1).Instances[i.ID], r)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("Check(%s) is %v, of a new engine %v", i.ID, got, want)
		}
	}
}
