package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadKept(t *testing.T) {
	if list, err := ReadKept(filepath.Join(t.TempDir(), "absent.json")); len(list) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", list, err)
	}
	entry := `{"package": "p", "function": "f", "before": "a < b", "after": "a <= b"`
	for content, problem := range map[string]string{
		"[" + entry + `}]`:                                                        "no reason",
		"[" + entry + `, "reason": " "}]`:                                         "no reason",
		"[" + entry + `, "line": 3, "reason": "r"}]`:                              "line",
		"[" + entry + `, "reason": "r"},` + entry + `, "nth": 1, "reason": "s"}]`: "twice",
		"[" + entry + `, "reason": "r"},` + entry + `, "nth": 2, "reason": "s"}]`: "",
	} {
		name := filepath.Join(t.TempDir(), "kept.json")
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKept(name)
		if (err != nil) != (problem != "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", content, err, problem)
		}
	}
}

// An entry is found by the function and the text of its change. It is reported once the code has no
// such place, or a test notices the change.
func TestExplain(t *testing.T) {
	survivor := &Mutant{Package: "p", Function: "f", Before: "a < b", After: "a <= b", Nth: 1, Line: 7}
	alike := &Mutant{Package: "p", Function: "f", Before: "a < b", After: "a <= b", Nth: 2, Line: 9}
	caught := &Mutant{Package: "p", Function: "g", Before: "x()", Nth: 1}
	slow := &Mutant{Package: "p", Function: "g", Before: "z()", Nth: 1}
	untried := &Mutant{Package: "p", Function: "h", Before: "y()", Nth: 1}
	tree := &Tree{Mutants: []*Mutant{survivor, alike, caught, slow, untried}}
	results := []*Result{{Mutant: survivor, Outcome: Survived}, {Mutant: alike, Outcome: Survived},
		{Mutant: caught, Outcome: Noticed}, {Mutant: slow, Outcome: TimedOut}}
	keep := func(m *Mutant) Kept {
		k := m.identity()
		k.Reason = "because"
		return k
	}
	gone, elsewhere := keep(survivor), keep(survivor)
	gone.Before, elsewhere.Package = "a < c", "q"
	vanished, noticed := Explain(tree, []Kept{keep(survivor), keep(caught), keep(slow), keep(untried), gone, elsewhere},
		results)
	if len(vanished) != 1 || vanished[0] != gone {
		t.Errorf("vanished are %v", vanished)
	}
	if len(noticed) != 1 || noticed[0] != keep(caught) {
		t.Errorf("noticed are %v", noticed)
	}
	if results[0].Reason != "because" || results[1].Reason != "" {
		t.Errorf("the reasons are %q and %q", results[0].Reason, results[1].Reason)
	}
}
