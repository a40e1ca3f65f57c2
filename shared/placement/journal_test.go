package placement_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
)

// One engine goes along with one snapshot: whatever rows come in between, it answers as a full scan of the rows does, and
// having answered it answers the same again. This is where what it keeps from one request to the next could go wrong.
func TestEngineKeepsUpWithTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := asking{newHistory(t)}
		t.Repeat(map[string]func(*rapid.T){
			"task":          h.task,
			"end":           h.end,
			"instance":      h.instance,
			"leave":         h.leave,
			"configuration": h.configuration,
			"service":       h.service,
			"place":         h.place,
			"commit":        h.commit,
			"stop":          h.stop,
			"check":         h.check,
		})
	})
}

// asking compares what the engine says with a full scan of the history's rows.
type asking struct{ *history }

func (h asking) place(t *rapid.T) {
	r := h.request(t)
	first := h.engine.Place(r)
	checkPlaced(t, h.world, r, first)
	if second := h.engine.Place(r); where(second.Placed) != where(first.Placed) {
		t.Fatalf("placed %q, then %q", where(first.Placed), where(second.Placed))
	}
}

func (h asking) stop(t *rapid.T) {
	r := h.request(t)
	checkStops(t, h.world, h.engine, r)
}

func (h asking) check(t *rapid.T) {
	r := h.request(t)
	for _, i := range h.instances {
		_, got := h.engine.Check(h.snap.Instances[i.ID], r)
		_, want := placement.New(h.world.snapshot(1)).Check(h.world.snapshot(1).Instances[i.ID], r)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("Check(%s) is %v, of a new engine %v", i.ID, got, want)
		}
	}
}
