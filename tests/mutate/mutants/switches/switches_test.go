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
