package house

import (
	"testing"

	"berth/tests/house/metrics"
)

// Ratios that only get better. Names and comments are written for readers; these floors notice when a change drops the habit.
const (
	maxOneWordNames = 0.35
	minNameLetters  = 11
	minCommentShare = 0.14
	maxEventWay     = 1620 // lines; docs/tour.md leads through a third of them
)

// The structure of the code stays within the limits of tests/house/metrics.
// "go run ./tests/house/measure" prints all figures.
func TestStructure(t *testing.T) {
	code, err := metrics.Load(root, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	f, err := code.Measure(metrics.EventWay)
	if err != nil {
		t.Fatal(err)
	}
	none := func(what string, items []metrics.Item) {
		for _, i := range items {
			t.Errorf("%s: %s (%s:%d, %d)", what, i.Name, i.File, i.Line, i.N)
		}
	}
	within := func(what string, m metrics.Measure) {
		for _, i := range m.Over {
			t.Errorf("%s %s:%d has %d %s, at most %d", i.Name, i.File, i.Line, i.N, what, m.Limit)
		}
	}
	within("methods", f.Methods)
	within("fields", f.Fields)
	within("files", f.Folders)
	none("a context is passed, not kept", f.Contexts)
	none("a field is promoted through more than one embedding", f.PromotedTwice)
	none("code over 120 columns", f.WideCode)
	none("comment over 120 columns", f.WideComments)
	for _, p := range f.FolderPairs {
		t.Errorf("%s and %s import each other", p.A, p.B)
	}
	if share := f.Names.OneWordShare(); share > maxOneWordNames {
		t.Errorf("%.1f %% of the function names have one word, at most %.0f %%", 100*share, 100*maxOneWordNames)
	}
	if f.Names.Letters < minNameLetters {
		t.Errorf("a function name has %.1f letters, at least %d", f.Names.Letters, minNameLetters)
	}
	if share := f.Total.CommentShare(); share < minCommentShare {
		t.Errorf("%.1f %% of the lines are comments, at least %.0f %%", 100*share, 100*minCommentShare)
	}
	if f.Way.Lines > maxEventWay {
		t.Errorf("the way of an event is %d lines long, at most %d", f.Way.Lines, maxEventWay)
	}
}
