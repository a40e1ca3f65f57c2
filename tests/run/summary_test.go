//go:build unix

package main

import (
	"os"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	t.Run("SaysWhatWasSkippedAndFailedAndEndsWithTheCounts", func(t *testing.T) {
		res := result{
			passed: []string{"p TestA", "gofmt"}, failed: []string{"p TestB"},
			logs:    []string{"go test\n      got 1, want 2"},
			skipped: []skip{{"sam local invoke", "no Docker engine"}, {"p TestC", leftToCheck + "it kills a process"}},
		}
		want := "skipped: sam local invoke: no Docker engine\nFAIL  go test\n      got 1, want 2\nfailed: p TestB\n\n" +
			"2 passed, 1 failed, 1 skipped; make check also runs 1 long tests\n"
		if got := res.summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if res.exitCode() != 1 || (result{passed: []string{"gofmt"}}).exitCode() != 0 {
			t.Error("only a failure has exit code 1")
		}
	})
	t.Run("CountsATestOnceThatSeveralCommandsRan", func(t *testing.T) {
		r, out := testRunner(t)
		if err := os.Mkdir(r.cache+"/results", 0o755); err != nil {
			t.Fatal(err)
		}
		save := func(command string, res result) {
			t.Helper()
			if err := r.saveResults(command, res); err != nil {
				t.Fatal(err)
			}
		}
		save("test", result{
			passed:  []string{"p TestA", "p TestB", "gofmt"},
			skipped: []skip{{"p TestLong", leftToCheck + "it waits"}, {"p TestCloud", leftToCheck + "it waits"}, {"p TestMac", "on macOS only"}},
		})
		save("check", result{
			passed: []string{"p TestA", "p TestLong", "race: p TestA"}, failed: []string{"p TestB"},
			logs:    []string{"go test\n      got 1"},
			skipped: []skip{{"p TestCloud", "no Python"}, {"p TestMac", "on macOS only"}},
		})
		if code := r.summarize("test", "check"); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		want := "\nskipped: p TestMac: on macOS only\nskipped: p TestCloud: no Python\n" +
			"FAIL  go test\n      got 1\nfailed: p TestB\n\n4 passed, 1 failed, 2 skipped\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
	t.Run("FailsWhereACommandDidNotEnd", func(t *testing.T) {
		r, out := testRunner(t)
		if code := r.summarize("test"); code != 1 || !strings.Contains(out.String(), "failed: make test did not end") {
			t.Errorf("exit code %d: %q", code, out)
		}
	})
}
