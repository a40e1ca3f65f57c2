//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readLog(t *testing.T, lines string) (result, string) {
	t.Helper()
	l := newTestLog()
	var log bytes.Buffer
	l.read(strings.NewReader(lines), io.Discard, &log)
	return l.result(&log), log.String()
}

func TestLog(t *testing.T) {
	t.Run("CountsTestsWithoutSubtests", func(t *testing.T) {
		res, log := readLog(t, `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/One"}
{"Action":"output","Package":"p","Test":"TestA/One","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA/One"}
{"Action":"pass","Package":"p","Test":"TestA/Two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
{"Action":"skip","Package":"empty"}
`)
		if res.passed != 2 || len(res.failures) != 0 || len(res.skips) != 0 || log != "" {
			t.Errorf("got %+v, log %q", res, log)
		}
		if want := "2 tests in 1 packages"; res.note != want {
			t.Errorf("note %q, want %q", res.note, want)
		}
	})
	t.Run("BlamesOnlyTheSubtest", func(t *testing.T) {
		res, log := readLog(t, `{"Action":"output","Package":"p","Test":"TestA/One","Output":"=== RUN TestA/One\n"}
{"Action":"output","Package":"p","Test":"TestA/One","Output":"    a_test.go:3: got 1\n"}
{"Action":"fail","Package":"p","Test":"TestA/One"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`)
		if diff := cmp.Diff([]string{"p TestA/One"}, res.failures); diff != "" {
			t.Error(diff)
		}
		if want := "--- p TestA/One\n    a_test.go:3: got 1\n"; log != want {
			t.Errorf("log %q, want %q", log, want)
		}
	})
	t.Run("ParentThatFailsByItself", func(t *testing.T) {
		res, _ := readLog(t, `{"Action":"pass","Package":"p","Test":"TestA/One"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`)
		if diff := cmp.Diff([]string{"p TestA"}, res.failures); diff != "" || res.passed != 1 {
			t.Errorf("%d passed, failures %s", res.passed, diff)
		}
	})
	t.Run("PackageThatDoesNotCompile", func(t *testing.T) {
		res, log := readLog(t, `{"ImportPath":"p [p.test]","Action":"build-output","Output":"./a.go:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`)
		if diff := cmp.Diff([]string{"p"}, res.failures); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(log, "undefined: x") {
			t.Errorf("log %q does not say why", log)
		}
	})
	t.Run("PanicIsShown", func(t *testing.T) {
		res, log := readLog(t, `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}
`)
		if len(res.failures) != 1 || !strings.Contains(log, "boom") {
			t.Errorf("got %+v, log %q", res, log)
		}
	})
	t.Run("SkipsCarryTheirReason", func(t *testing.T) {
		res, _ := readLog(t, `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    smoke_test.go:20: no aws CLI\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
`)
		if len(res.skips) != 1 || res.skips[0] != (skip{"p TestA", "no aws CLI"}) {
			t.Errorf("got %+v", res.skips)
		}
	})
	t.Run("KeepsLinesOfTheGoCommand", func(t *testing.T) {
		if _, log := readLog(t, "go: downloading\n"); log != "go: downloading\n" {
			t.Errorf("log %q", log)
		}
	})
}

func TestRunner(t *testing.T) {
	runner := func() (*runner, *bytes.Buffer) {
		out := &bytes.Buffer{}
		return &runner{root: t.TempDir(), cache: t.TempDir(), out: out}, out
	}
	t.Run("SummaryEndsWithTheCounts", func(t *testing.T) {
		r, out := runner()
		r.run(t.Context(), step{"good", func(context.Context, io.Writer) result { return passed }})
		r.run(t.Context(), step{"absent", func(context.Context, io.Writer) result { return skipped("no Docker engine") }})
		if code := r.summary(); code != 0 {
			t.Errorf("exit code %d without a failure", code)
		}
		if want := "\nskipped: absent: no Docker engine\n\n1 passed, 0 failed, 1 skipped\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("got %q, want it to end with %q", out, want)
		}
	})
	t.Run("FailureShowsItsLogAndExitsNonZero", func(t *testing.T) {
		r, out := runner()
		r.run(t.Context(), step{"bad", r.command("sh", "-c", "echo why; exit 3")})
		if code := r.summary(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if !strings.Contains(out.String(), "\n      why\n") || !strings.HasSuffix(out.String(), "failed: bad\n\n0 passed, 1 failed, 0 skipped\n") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("EndsWhatItStartedWhenInterrupted", func(t *testing.T) {
		r, _ := runner()
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
		r, _ := runner()
		env := strings.Join(r.environment(), "\n")
		if strings.Contains(env, "production") || strings.Contains(env, "AKIA") {
			t.Error("the account's settings are passed on")
		}
	})
}
