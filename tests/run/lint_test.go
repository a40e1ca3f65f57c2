//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGofmt(t *testing.T) {
	write := func(t *testing.T, root, name, content string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("NamesTheFile", func(t *testing.T) {
		r := &runner{root: t.TempDir()}
		write(t, r.root, "a/a.go", "package a\n")
		write(t, r.root, "b/b.go", "package  b\n")
		var log bytes.Buffer
		if res := r.gofmt(t.Context(), &log); len(res.failed) != 1 || !strings.HasPrefix(log.String(), "b/b.go: ") {
			t.Errorf("got %+v, log %q", res, &log)
		}
	})
	t.Run("PassesOverHiddenFolders", func(t *testing.T) {
		r := &runner{root: t.TempDir()}
		write(t, r.root, ".cache/b.go", "package  b\n")
		if res := r.gofmt(t.Context(), &bytes.Buffer{}); len(res.passed) != 1 {
			t.Errorf("got %+v", res)
		}
	})
}

func TestCheckSizes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64) string {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := file.Truncate(size); err != nil {
			t.Fatal(err)
		}
		return name
	}
	binary := func(name string) string { return filepath.Join(dir, name) }
	good := []string{write("api", maxQuickSize), write("throttling", 20<<20)}
	res := checkSizes(&bytes.Buffer{}, good, "arm64", binary)
	if len(res.passed) != 1 || res.note != "api 12.0 MB  throttling 20.0 MB" {
		t.Errorf("got %+v", res)
	}
	var log bytes.Buffer
	larger := append(good, write("dispatch", maxQuickSize+1))
	if res := checkSizes(&log, larger, "amd64", binary); len(res.failed) != 0 {
		t.Errorf("amd64: got %+v", res)
	}
	tooLarge := []string{write("placement", maxQuickSize*109/100)}
	if res := checkSizes(&bytes.Buffer{}, tooLarge, "amd64", binary); len(res.failed) != 1 {
		t.Errorf("amd64, 9 %% above: got %+v", res)
	}
	res = checkSizes(&log, larger, "arm64", binary)
	if len(res.passed) != 0 || len(res.failed) != 1 || !strings.Contains(log.String(), "dispatch has 12582913 bytes") {
		t.Errorf("got %+v, log %q", res, &log)
	}
}

func TestTools(t *testing.T) {
	fetched := func(why string, err error) *tool {
		done := make(chan struct{})
		close(done)
		tl := &tool{done: done, why: why, err: err}
		tl.log.WriteString("pip: no route\n")
		return tl
	}
	t.Run("SkipsWhatNeedsPythonWithoutIt", func(t *testing.T) {
		sam := fetched("no Python", nil)
		if res := sam.step(t.Context(), &bytes.Buffer{}); len(res.skipped) != 1 || res.skipped[0].Why != "no Python" {
			t.Errorf("fetching: %+v", res)
		}
		if res := (&runner{}).samValidate(sam)(t.Context(), &bytes.Buffer{}); len(res.skipped) != 1 {
			t.Errorf("validating: %+v", res)
		}
	})
	t.Run("FailsWhenADownloadFails", func(t *testing.T) {
		var log bytes.Buffer
		res := fetched("", errors.New("exit status 1")).step(t.Context(), &log)
		if len(res.failed) != 1 || !strings.Contains(log.String(), "no route") {
			t.Errorf("got %+v, log %q", res, &log)
		}
	})
}

func TestFunctionID(t *testing.T) {
	template := `Resources:
  Queue:
    Type: AWS::SQS::Queue
  Dispatch: # starts
    Properties:
      CodeUri: ./functions/dispatch/
`
	if id, err := functionID(template, "functions/dispatch"); err != nil || id != "Dispatch" {
		t.Errorf("got %q, %v", id, err)
	}
	if id, err := functionID(template, "functions/placement"); err == nil {
		t.Errorf("found %q", id)
	}
}
