//go:build unix

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "times.json")
	var out bytes.Buffer
	p := newProgress(&out, false, file)
	p.now = func() time.Time { return now }
	stop := p.show(plan{lanes: [][]step{
		{{name: "vet", usual: 2 * time.Minute}, {name: "test", usual: 3 * time.Minute, after: []string{"fetch"}}},
		{{name: "fetch", usual: time.Minute}, {name: "staticcheck", usual: 4 * time.Minute, after: []string{"vet"}}},
	}})
	defer stop()
	want := func(status string) {
		t.Helper()
		if got := p.status(); got != status {
			t.Errorf("got %q, want %q", got, status)
		}
	}
	want("")
	p.start("vet")
	p.start("fetch")
	want("0:00, about 6 min left: vet, fetch") // staticcheck ends two and four minutes from now
	now = now.Add(90 * time.Second)
	p.end("fetch", passed(), "")
	want("1:30, about 5 min left: vet")
	now = now.Add(10 * time.Minute)
	want("11:30, about 4 min left: vet") // it takes longer than usual
	p.end("vet", passed(), "")
	p.start("test")
	p.detail("test", "1 of 2 packages")
	p.start("staticcheck")
	now = now.Add(time.Minute)
	want("12:30, about 3 min left: test (1 of 2 packages), staticcheck")
	p.end("staticcheck", result{failed: []string{""}}, "bad.go:1")
	now = now.Add(100 * time.Second)
	want("14:10, less than a minute left: test (1 of 2 packages)")
	p.end("test", passed(), "")
	want("")
	if got := out.String(); !strings.Contains(got, "ok    vet                              690.0 s") || !strings.Contains(got, "      bad.go:1\n") {
		t.Errorf("printed %q", got)
	}

	again := newProgress(&out, false, file)
	if again.times["vet"] != 690*time.Second || again.times["test"] != 160*time.Second {
		t.Errorf("the next run knows the times %v", again.times)
	}
	if _, kept := again.times["staticcheck"]; kept {
		t.Error("the time of a step that failed is kept")
	}
}

func TestStatusOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, true, filepath.Join(t.TempDir(), "times.json"))
	stop := p.show(onePlan(step{name: "a"}, step{name: "b"}))
	p.start("a")
	p.detail("a", strings.Repeat("x", 200))
	p.end("a", passed(), "")
	p.start("b")
	p.detail("b", strings.Repeat("x", 200))
	p.printStatus()
	stop()
	lines := strings.Split(out.String(), "\r\x1b[K")
	for _, line := range lines {
		if n := len([]rune(strings.TrimLeft(line, " "))); n > maxStatus {
			t.Errorf("a status of %d characters: %q", n, line)
		}
	}
	if lines[len(lines)-1] != "" {
		t.Errorf("the last status is left: %q", lines)
	}
}
