//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/tests/mutate/mutants"
)

const fixture = "mutants/testdata/fixture"

// keep writes a list of kept changes and returns the options that name it.
func keep(t *testing.T, content string) options {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kept.json")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return options{seed: 4, count: 5, workers: 2, leeway: time.Second, unexplained: -1, keptName: name}
}

// The exit code says whether the limits hold. The text names each change that survived, with its
// line and reason.
func TestExitCodes(t *testing.T) {
	entry := `"package": "mutants/testdata/fixture", "function": "Unit.Unused", "reason": "An example."`
	reason := `[{` + entry + `, "before": "u.n -= 1"}]`
	for name, c := range map[string]struct {
		kept, want string
		change     func(*options)
		code       int
	}{
		"no limits": {"[]", "changes noticed", func(*options) {}, 0},
		"at least":  {"[]", "fixture.go:", func(o *options) { o.atLeast = 100 }, 1},
		"all":       {reason, "kept: An example.", func(o *options) { o.count, o.atLeast = 0, 55 }, 0},
		"unexplained": {
			reason, "1 of them kept", func(o *options) { o.count, o.unexplained = 0, 1 }, 1,
		},
		"vanished": {`[{` + entry + `, "before": "u.n -= 2"}]`, "remove", func(*options) {}, 1},
		"noticed": {
			`[{"package": "mutants/testdata/fixture/inner", "function": "IsFree", "before": "n >= 100", "after": "n > 100",
			"reason": "Wrong."}]`, "a test notices it", func(o *options) { o.count = 0 }, 1,
		},
		"bad list": {"[{}]", "no reason", func(*options) {}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := keep(t, c.kept)
			c.change(&o)
			var out bytes.Buffer
			if code := run(t.Context(), o, []string{fixture}, &out, &out); code != c.code ||
				!strings.Contains(out.String(), c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, &out)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	o := keep(t, "[]")
	o.asJSON = true
	var out bytes.Buffer
	if code := run(t.Context(), o, []string{fixture}, &out, &out); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, &out)
	}
	var got []report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	if len(got) != 1 || got[0].Tried != 5 || len(got[0].Results) != 5 || got[0].Results[0].Line == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestUnknownFolderAndInterruption(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), keep(t, "[]"), []string{"nowhere"}, &out, &out); code != 2 {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code := run(ctx, keep(t, "[]"), []string{fixture}, &out, &out); code != 130 {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// Each entry of kept.json names a change that the code of today has.
func TestKeptChangesArePossible(t *testing.T) {
	kept, err := mutants.ReadKept("kept.json")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, k := range kept {
		folder := strings.Join(strings.Split(k.Package, "/")[:2], "/")
		if read[folder] {
			continue
		}
		read[folder] = true
		tree, err := mutants.Find("../..", folder)
		if err != nil {
			t.Fatal(err)
		}
		vanished, _ := mutants.Explain(tree, kept, nil)
		for n := range vanished {
			t.Errorf("kept.json: remove %s: the code has no such place any more", &vanished[n])
		}
	}
	if len(read) == 0 {
		t.Error("kept.json names no package")
	}
}
