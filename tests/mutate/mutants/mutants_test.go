package mutants

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const fixture = "testdata/fixture"

func findFixture(t *testing.T) *Tree {
	t.Helper()
	tree, err := Find(".", fixture)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// possible are all changes of the fixture, with what its tests make of them.
var possible = map[string]string{
	"Clamp: n > limit && !inner.IsFree(n) becomes n > limit || !inner.IsFree(n)": Noticed,
	"Clamp: n > limit && !inner.IsFree(n) becomes true":                          Noticed,
	"Clamp: n > limit && !inner.IsFree(n) becomes false":                         Noticed,
	"Clamp: n > limit becomes n >= limit":                                        Survived, // both give the limit
	"Clamp: n > limit becomes n <= limit":                                        Noticed,
	"Clamp: !inner.IsFree(n) becomes inner.IsFree(n)":                            Noticed,
	"Clamp: max(n, 0) becomes min(n, 0)":                                         Noticed,
	"Sum: n < len(list) becomes n <= len(list)":                                  Noticed,
	"Sum: n < len(list) becomes n >= len(list)":                                  Noticed,
	"Sum: n < len(list) becomes false":                                           Noticed,
	"Sum: without total += list[n]":                                              Noticed,
	"Sum: total += list[n] becomes total -= list[n]":                             Noticed,
	"Sum: n++ becomes n--":                                                       Noticed,
	"Sum: without n++":                                                           TimedOut,
	"Log: n == 1 || // a comment between the lines n == 2 becomes n == 1 && // a comment between the lines n == 2": Survived,
	"Log: n == 1 || // a comment between the lines n == 2 becomes true":                                            Survived,
	"Log: n == 1 || // a comment between the lines n == 2 becomes false":                                           Survived,
	"Log: n == 1 becomes n != 1":                             Survived,
	"Log: n == 2 becomes n != 2":                             NotReached,
	"Log: without lines = append(lines, \"few\")":            Survived,
	"Unit.Unused: without u.n -= 1":                          NotReached,
	"Unit.Unused: u.n -= 1 becomes u.n += 1":                 NotReached,
	"isOrdered: a && b && c || !a becomes a && b && c && !a": Noticed, // grouping kept
	"isOrdered: a && b && c becomes a && b || c":             Noticed,
	"isOrdered: a && b becomes (a || b)":                     Noticed,
	"isOrdered: !a becomes a":                                Noticed,
	"IsFree: n >= 100 becomes n > 100":                       Noticed,
	"IsFree: n >= 100 becomes n < 100":                       Noticed,
}

// name is the change without its package.
func name(m *Mutant) string {
	_, rest, _ := strings.Cut(m.String(), " ")
	return rest
}

// Every change is found once, every outcome is the one that the fixture's tests lead to, and the
// tree stays as it was, although a test with rapid failed.
func TestOutcomes(t *testing.T) {
	before := readTree(t)
	tree := findFixture(t)
	suite, err := Build(t.Context(), tree, tree.Mutants, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	suite.Leeway = time.Second
	if err := suite.Measure(t.Context(), func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	results, err := suite.Try(t.Context(), 2, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range results {
		got[name(r.Mutant)] = r.Outcome
		if r.IsNoticed() != (r.Test != "") {
			t.Errorf("%s: %s by test %q", r.Mutant, r.Outcome, r.Test)
		}
	}
	if d := cmp.Diff(possible, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, readTree(t)); d != "" {
		t.Error("the tree has changed: ", d)
	}
}

// readTree returns the files of the fixture.
func readTree(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(fixture, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What is printed of a change is code, and differs from the code that is there.
func TestDiffIsCode(t *testing.T) {
	for _, m := range findFixture(t).Mutants {
		source, err := os.ReadFile(m.path)
		if err != nil {
			t.Fatal(err)
		}
		changed := string(source[:m.start]) + m.text + string(source[m.end:])
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, changed, 0); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		before, after := m.Diff(source)
		if len(before) == 0 || cmp.Equal(before, after) {
			t.Errorf("%s: %q becomes %q", m, before, after)
		}
		if line := 1 + strings.Count(string(source[:m.start]), "\n"); m.Line != line {
			t.Errorf("%s is at line %d, not %d", m, line, m.Line)
		}
	}
}

// An interruption ends the tests. What has been tried until then is returned.
func TestInterruption(t *testing.T) {
	tree := findFixture(t)
	suite, err := Build(t.Context(), tree, tree.Mutants, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Measure(t.Context(), func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	results, err := suite.Try(ctx, 1, func(done, of int) {
		if done == 3 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if len(results) < 3 || len(results) > 4 {
		t.Errorf("%d results after 3 changes", len(results))
	}
}

// A seed always draws the same changes, and more of them include the fewer. A change elsewhere in
// the code does not change which of the others come first.
func TestSample(t *testing.T) {
	all := findFixture(t).Mutants
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Int64().Draw(t, "seed")
		count := rapid.IntRange(0, len(all)+2).Draw(t, "count")
		drawn := Sample(all, seed, count)
		if want := min(count, len(all)); len(drawn) != want {
			t.Fatalf("%d drawn, not %d", len(drawn), want)
		}
		more := map[*Mutant]bool{}
		for _, m := range Sample(all, seed, count+1) {
			more[m] = true
		}
		without := rapid.IntRange(0, len(all)-1).Draw(t, "without")
		var others []*Mutant
		for n, m := range all {
			if n != without {
				others = append(others, m)
			}
		}
		kept := map[*Mutant]bool{}
		for _, m := range Sample(others, seed, count) {
			kept[m] = true
		}
		for _, m := range drawn {
			if !more[m] {
				t.Fatalf("%s is drawn, but not if one more is", m)
			}
			if !kept[m] && m != all[without] {
				t.Fatalf("%s is drawn, but not if the code has no %s", m, all[without])
			}
		}
	})
	if cmp.Equal(names(Sample(all, 1, 5)), names(Sample(all, 2, 5))) {
		t.Error("seeds 1 and 2 draw the same")
	}
}

func names(list []*Mutant) (out []string) {
	for _, m := range list {
		out = append(out, name(m))
	}
	return out
}

// Changes that are alike in one function have numbers.
func TestAlikeChangesAreNumbered(t *testing.T) {
	a, b, c := &Mutant{Function: "F", Before: "x"}, &Mutant{Function: "F", Before: "x"},
		&Mutant{Function: "G", Before: "x"}
	numberAlike([]*Mutant{a, b, c})
	if a.Nth != 1 || b.Nth != 2 || c.Nth != 1 {
		t.Errorf("the numbers are %d, %d, %d", a.Nth, b.Nth, c.Nth)
	}
}

// The parts of a sample are about equally large, and together they are the sample.
func TestPart(t *testing.T) {
	all := make([]*Mutant, 10)
	for n := range all {
		all[n] = &Mutant{Line: n}
	}
	for _, of := range []int{1, 3, 4, 10, 12} {
		var together []*Mutant
		for n := range of {
			part, err := Part(all, fmt.Sprintf("%d/%d", n+1, of))
			if err != nil || len(part) < 10/of || len(part) > 10/of+1 {
				t.Errorf("part %d of %d has %d changes: %v", n+1, of, len(part), err)
			}
			together = append(together, part...)
		}
		if !slices.Equal(together, all) {
			t.Errorf("%d parts have %d changes, expected the same 10", of, len(together))
		}
	}
	for _, name := range []string{"0/4", "5/4", "2", "a/b", "-1/2"} {
		if _, err := Part(all, name); err == nil {
			t.Errorf("%q is taken for a part", name)
		}
	}
	if part, err := Part(all, ""); err != nil || len(part) != 10 {
		t.Errorf("without a name there are %d changes: %v", len(part), err)
	}
}
