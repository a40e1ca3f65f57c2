//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// step is one check. What it writes to log is shown when it fails.
type step struct {
	name string
	run  check
}

type check func(ctx context.Context, log io.Writer) result

// result is the outcome of one check, or of several.
type result struct {
	passed   int
	failures []string // what failed
	skips    []skip
	note     string // stands behind the line of a check that passed
}

type skip struct{ what, why string }

var passed = result{passed: 1}

func failed(log io.Writer, err error) result {
	fmt.Fprintln(log, err)
	return result{failures: []string{""}}
}

func skipped(why string) result { return result{skips: []skip{{why: why}}} }

type runner struct {
	root, cache string
	out         io.Writer
	terminal    bool
	total       result
}

// run makes one check, prints its line and adds it to the total. The names in a result are the step's unless it says
// otherwise.
func (r *runner) run(ctx context.Context, s step) {
	if r.terminal {
		fmt.Fprintf(r.out, "      %s …\r", s.name)
	}
	var shown bytes.Buffer
	started := time.Now()
	res := s.run(ctx, &shown)
	if ctx.Err() != nil {
		return
	}
	for i, f := range res.failures {
		res.failures[i] = named(s.name, f)
	}
	for i, k := range res.skips {
		res.skips[i].what = named(s.name, k.what)
	}
	word, note := "ok", res.note
	switch {
	case len(res.failures) > 0:
		word = "FAIL"
	case res.passed == 0 && len(res.skips) == 1:
		word, note = "skip", res.skips[0].why
	case res.passed == 0:
		word = "skip"
	}
	fmt.Fprintf(r.out, "%-5s %-30s %7.1f s  %s\n", word, s.name, time.Since(started).Seconds(), note)
	if word == "FAIL" {
		fmt.Fprintln(r.out, indent(shown.String()))
	}
	r.total.passed += res.passed
	r.total.failures = append(r.total.failures, res.failures...)
	r.total.skips = append(r.total.skips, res.skips...)
}

func named(step, what string) string {
	if what == "" {
		return step
	}
	return what
}

// shownLines is how much of a failed check's log is printed; the rest stands in .cache/log.
const shownLines = 200

func indent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if cut := len(lines) - shownLines; cut > 0 {
		lines = append([]string{fmt.Sprintf("… %d lines more", cut)}, lines[cut:]...)
	}
	return "      " + strings.Join(lines, "\n      ")
}

// command is a check that passes when the program does.
func (r *runner) command(name string, args ...string) check {
	return func(ctx context.Context, log io.Writer) result {
		if err := r.exec(ctx, log, nil, name, args...); err != nil {
			return failed(log, err)
		}
		return passed
	}
}

// exec runs a program in the project's root, in a process group of its own that ends with ctx.
func (r *runner) exec(ctx context.Context, out io.Writer, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.root, append(r.environment(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if cmd.Process != nil && ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what did not end when asked
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// output is what a short program prints.
func (r *runner) output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	err := r.exec(ctx, &out, nil, name, args...)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out.Bytes())
	}
	return strings.TrimSpace(out.String()), err
}

// logFile is where a check keeps its whole log.
func (r *runner) logFile(name string) (*os.File, error) {
	return os.Create(filepath.Join(r.cache, "log", name+".log"))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, os.ErrNotExist)
}
