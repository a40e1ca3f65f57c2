//go:build unix

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readLog(t *testing.T, lines string) (result, string) {
	t.Helper()
	l := newTestLog()
	var log bytes.Buffer
	l.read(strings.NewReader(lines), io.Discard, &log, func() {})
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
		if len(res.passed) != 2 || len(res.failed) != 0 || len(res.skipped) != 0 || log != "" {
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
		if diff := cmp.Diff([]string{"p TestA/One"}, res.failed); diff != "" {
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
		if diff := cmp.Diff([]string{"p TestA"}, res.failed); diff != "" || len(res.passed) != 1 {
			t.Errorf("%d passed, failures %s", len(res.passed), diff)
		}
	})
	t.Run("PackageThatDoesNotCompile", func(t *testing.T) {
		res, log := readLog(t, `{"ImportPath":"p [p.test]","Action":"build-output","Output":"./a.go:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`)
		if diff := cmp.Diff([]string{"p"}, res.failed); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(log, "undefined: x") {
			t.Errorf("log %q does not say why", log)
		}
	})
	t.Run("PanicIsShown", func(t *testing.T) {
		res, log := readLog(t, `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"goroutine 7 [running]:\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"goroutine 8 [select]:\n"}
{"Action":"fail","Package":"p"}
`)
		if len(res.failed) != 1 || !strings.Contains(log, "boom\ngoroutine 7 ") ||
			strings.Contains(log, "goroutine 8") {
			t.Errorf("got %+v, log %q", res, log)
		}
	})
	t.Run("SkipsCarryTheirReason", func(t *testing.T) {
		res, _ := readLog(t, `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    smoke_test.go:20: no aws CLI\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
`)
		if len(res.skipped) != 1 || res.skipped[0] != (skip{"p TestA", "no aws CLI"}) {
			t.Errorf("got %+v", res.skipped)
		}
	})
	t.Run("CountsThePackagesFromTheCache", func(t *testing.T) {
		res, _ := readLog(t, `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}
{"Action":"pass","Package":"p"}
`)
		if want := "1 tests in 1 packages, 1 of them unchanged"; res.note != want {
			t.Errorf("note %q, want %q", res.note, want)
		}
	})
	t.Run("KeepsLinesOfTheGoCommand", func(t *testing.T) {
		if _, log := readLog(t, "go: downloading\n"); log != "go: downloading\n" {
			t.Errorf("log %q", log)
		}
	})
}

func TestLogDetail(t *testing.T) {
	l := newTestLog()
	for _, e := range []event{
		{Action: "start", Package: "m/a"}, {Action: "start", Package: "m/b/c"}, {Action: "start", Package: "m/d"},
		{Action: "pass", Package: "m/a", Test: "TestA"}, {Action: "pass", Package: "m/a"},
	} {
		l.add(e)
	}
	if got, want := l.detail(7), "1 of 7 packages, b/c, d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
