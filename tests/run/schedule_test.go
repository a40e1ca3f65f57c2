//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func testRunner(t *testing.T) (*runner, *bytes.Buffer) {
	out := &bytes.Buffer{}
	r := &runner{root: t.TempDir(), cache: t.TempDir(), out: out}
	r.progress = newProgress(out, false, filepath.Join(r.cache, "times.json"))
	return r, out
}

func onePlan(steps ...step) plan { return plan{lanes: [][]step{steps}} }

func TestRunPlan(t *testing.T) {
	t.Run("PrintsALineForEachStepAndTheLogsOfThoseThatFail", func(t *testing.T) {
		r, out := testRunner(t)
		res := r.runPlan(t.Context(), onePlan(step{name: "good", run: r.command("sh", "-c", "echo chatter")},
			step{name: "bad", run: r.command("sh", "-c", "echo why; exit 3")},
			step{name: "absent", run: func(context.Context, io.Writer) result { return skipped("no Docker engine") }}))
		if !slices.Equal(res.passed, []string{"good"}) || !slices.Equal(res.failed, []string{"bad"}) {
			t.Errorf("got %+v", res)
		}
		if !slices.Equal(res.skipped, []skip{{"absent", "no Docker engine"}}) {
			t.Errorf("got %+v", res)
		}
		want := []string{"bad\n      why\n      sh -c echo why; exit 3: exit status 3"}
		if !slices.Equal(res.logs, want) {
			t.Errorf("kept logs %q, want %q", res.logs, want)
		}
		lines := out.String()
		if !strings.Contains(lines, "\n      why\n") || strings.Contains(lines, "chatter") {
			t.Errorf("printed %q", lines)
		}
		for _, want := range []string{"ok    good ", "FAIL  bad ", "skip  absent "} {
			if !strings.Contains(lines, want) {
				t.Errorf("printed %q, want it to contain %q", lines, want)
			}
		}
	})
	t.Run("RunsLanesSideBySideAndWaitsForStepsOfOtherLanes", func(t *testing.T) {
		r, _ := testRunner(t)
		var mu sync.Mutex
		var order []string
		note := func(name string) action {
			return func(context.Context, io.Writer) result {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return passed()
			}
		}
		r.runPlan(t.Context(), plan{lanes: [][]step{
			{{name: "third", run: note("third"), after: []string{"second"}}, {name: "fourth", run: note("fourth")}},
			{{name: "first", run: note("first")}, {name: "second", run: note("second")}},
		}})
		if want := []string{"first", "second", "third", "fourth"}; !slices.Equal(order, want) {
			t.Errorf("ran %v, want %v", order, want)
		}
	})
	t.Run("StartsNothingMoreWhenInterrupted", func(t *testing.T) {
		r, _ := testRunner(t)
		ctx, cancel := context.WithCancel(t.Context())
		res := r.runPlan(ctx, onePlan(
			step{name: "interrupted", run: func(context.Context, io.Writer) result {
				cancel()
				return passed()
			}},
			step{name: "next", run: func(context.Context, io.Writer) result {
				t.Error("it was started")
				return passed()
			}},
		))
		if len(res.passed) > 0 {
			t.Errorf("got %+v", res)
		}
	})
}

// Every step that another waits for is in the same plan, and names are unique.
func TestPlans(t *testing.T) {
	r, _ := testRunner(t)
	python := &pythonTools{}
	for _, p := range []plan{r.testPlan(python), r.checkPlan(python, 300), r.lintPlan(python)} {
		names := map[string]bool{}
		for _, s := range p.steps() {
			if names[s.name] {
				t.Errorf("make %s has two steps %s", p.command, s.name)
			}
			names[s.name] = true
		}
		for _, s := range p.steps() {
			for _, other := range s.after {
				if !names[other] {
					t.Errorf("make %s: %s waits for %s, which is not there", p.command, s.name, other)
				}
			}
		}
	}
}

func TestExec(t *testing.T) {
	t.Run("EndsWhatItStartedWhenInterrupted", func(t *testing.T) {
		r, _ := testRunner(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var log bytes.Buffer
		if err := r.exec(ctx, &log, nil, "sh", "-c", "sleep 1000 & wait"); err == nil {
			t.Error("no error from a program that was ended")
		}
	})
	t.Run("KeepsThisMachinesAccountAway", func(t *testing.T) {
		t.Setenv("AWS_PROFILE", "production")
		t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
		r, _ := testRunner(t)
		env := strings.Join(r.environment(), "\n")
		if strings.Contains(env, "production") || strings.Contains(env, "AKIA") {
			t.Error("the account's settings are passed on")
		}
	})
}
