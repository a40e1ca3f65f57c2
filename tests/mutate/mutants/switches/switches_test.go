package switches

import (
	"os"
	"path/filepath"
	"testing"
)

// Each change that is reached is written once. Doing so again allocates nothing, so that tests that
// count allocations pass while changes are recorded.
func TestRecorderWritesEachChangeOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "reached")
	t.Setenv("MUTANT_RECORD", name)
	record := mutantRecorder()
	for _, id := range []int{7, 3000, 7, 3000, 8} {
		record(id)
	}
	if n := testing.AllocsPerRun(100, func() { record(3000) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "7\n3000\n8\n" {
		t.Errorf("%q is written, %v", got, err)
	}
	if t.Setenv("MUTANT_RECORD", ""); mutantRecorder() != nil {
		t.Error("changes are recorded although no file is named")
	}
}

// Each switch does what the code did, unless its own number is on.
func TestSwitches(t *testing.T) {
	is := func(v bool) func() bool { return func() bool { return v } }
	number := func(n int) bool { return n == 3 }
	for name, on := range map[string]func(id int) bool{ // true as the code is, false changed
		"keep":          mutantKeep,
		"negate":        func(id int) bool { return mutantNegate(id, true) },
		"true":          func(id int) bool { return !mutantTrue(id, false) },
		"false":         func(id int) bool { return mutantFalse(id, true) },
		"and":           func(id int) bool { return !mutantAnd(id, true, is(false)) },
		"or":            func(id int) bool { return mutantOr(id, true, is(false)) },
		"less":          func(id int) bool { return !mutantLess(id, 1, 1) },
		"less equal":    func(id int) bool { return mutantLessEqual(id, "a", "a") },
		"greater":       func(id int) bool { return !mutantGreater(id, 1.5, 1.5) },
		"greater equal": func(id int) bool { return mutantGreaterEqual(id, 1, 1) },
		"add":           func(id int) bool { return number(mutantAdd(id, 2, 1)) },
		"subtract":      func(id int) bool { return number(mutantSubtract(id, 5, 2)) },
		"multiply":      func(id int) bool { return number(mutantMultiply(id, 1, 3)) },
		"divide":        func(id int) bool { return number(mutantDivide(id, 6, 2)) },
		"remainder":     func(id int) bool { return number(mutantRemainder(id, 7, 4)) },
		"min":           func(id int) bool { return number(mutantMin(id, 4, 3, 5)) },
		"max":           func(id int) bool { return number(mutantMax(id, 2, 3, 1)) },
	} {
		mutantOn = 0
		if !on(7) {
			t.Errorf("%s: the code does something else while no change is made", name)
		}
		mutantOn = 8
		if !on(7) {
			t.Errorf("%s: another change is made", name)
		}
		mutantOn = 7
		if on(7) {
			t.Errorf("%s: the change has no effect", name)
		}
	}
	mutantOn = 0
}
