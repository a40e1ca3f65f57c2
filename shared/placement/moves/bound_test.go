package moves_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement/moves"
	"berth/tests/oracle"
)

// drawNode draws a node of a search: some tasks have moved, and at most three are undecided.
func drawNode(t *rapid.T) *moves.BoundTrial {
	draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "drawn") }
	x, _ := drawTrial(t)
	if rapid.IntRange(0, 2).Draw(t, "application") == 0 {
		x = trialIn(t, oracle.GenApplicationWorld(t, 4, 6))
	}
	b := moves.NewBoundTrial(x)
	for range rapid.IntRange(0, 2).Draw(t, "moves") {
		if !x.Move(draw) {
			break
		}
	}
	b.Keep(3, draw)
	b.TakeBest(draw)
	return b
}

// A search that tries every way cuts no branch off in which something is better than the best
// solution so far.
func TestBoundsCutNothingBetter(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			cut, missed := drawNode(t).MissedByCut()
			if missed != "" {
				t.Fatal(missed)
			}
			if cut {
				cuts++
			}
		}
	})
	if cuts == 0 {
		t.Error("no branch was cut off")
	}
}

// If one cell is overloaded, and the best solution relieves it as far as possible, a bound has the
// fewest moves that do, and at most the cost of the cheapest ones: less than that by no more than one
// task, the last one, of which a part may be enough.
func TestBoundsHaveTheEffortOfRelief(t *testing.T) {
	applied := 0
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			applies, problem := drawNode(t).CompareRelief()
			if problem != "" {
				t.Fatal(problem)
			}
			if applies {
				applied++
			}
		}
	})
	if applied == 0 {
		t.Error("no search had one overloaded cell")
	}
}
