//go:build unix

package main

import (
	"bytes"
	"cmp"
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

// A step is one of the project's checks.
type step struct {
	name string
	run  action
	// usual is how long the step takes on a new machine. It counts until a run has been timed.
	usual time.Duration
	// after names steps of other lanes that must end first.
	after []string
}

// An action runs a step. What it writes to log is printed only if the step fails.
type action func(ctx context.Context, log io.Writer) result

// A result names what passed, failed and was skipped: tests, or the step itself, for which the
// empty name stands.
type result struct {
	passed  []string
	failed  []string
	skipped []skip
	// note is printed behind the line of the step.
	note string
	// logs are the ends of the logs of the steps that failed.
	logs []string
}

type skip struct{ Name, Why string }

func passed() result { return result{passed: []string{""}} }

func failed(log io.Writer, err error) result {
	fmt.Fprintln(log, err)
	return result{failed: []string{""}}
}

func skipped(why string) result { return result{skipped: []skip{{Why: why}}} }

// fillNames replaces the empty name by the step's.
func (res result) fillNames(step string) {
	for i, name := range res.passed {
		res.passed[i] = cmp.Or(name, step)
	}
	for i, name := range res.failed {
		res.failed[i] = cmp.Or(name, step)
	}
	for i, s := range res.skipped {
		res.skipped[i].Name = cmp.Or(s.Name, step)
	}
}

// addPrefix puts a text before each name.
func (res result) addPrefix(prefix string) {
	for i := range res.passed {
		res.passed[i] = prefix + res.passed[i]
	}
	for i := range res.failed {
		res.failed[i] = prefix + res.failed[i]
	}
	for i := range res.skipped {
		res.skipped[i].Name = prefix + res.skipped[i].Name
	}
}

// verdict returns the word that starts the step's line and the note that ends it.
func (res result) verdict() (word, note string) {
	switch {
	case len(res.failed) > 0:
		return "FAIL", res.note
	case len(res.passed) > 0:
		return "ok", res.note
	case len(res.skipped) == 1:
		return "skip", res.skipped[0].Why
	default:
		return "skip", res.note
	}
}

// How many lines of a failed step's log are printed where it ends, and again in the summary, which
// is all that some readers of a long run get. The logs of tests are in .cache/log as a whole.
const (
	maxShownLines   = 200
	maxSummaryLines = 40
)

// indent returns the last lines of a text, each indented.
func indent(s string, maxLines int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if cut := len(lines) - maxLines; cut > 0 {
		lines = append([]string{fmt.Sprintf("… %d lines more", cut)}, lines[cut:]...)
	}
	return "      " + strings.Join(lines, "\n      ")
}

// command returns an action that passes if the program does.
func (r *runner) command(name string, args ...string) action {
	return func(ctx context.Context, log io.Writer) result {
		if err := r.exec(ctx, log, nil, name, args...); err != nil {
			return failed(log, err)
		}
		return passed()
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what ignored SIGTERM
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// output returns what a short program prints.
func (r *runner) output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	err := r.exec(ctx, &out, nil, name, args...)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out.Bytes())
	}
	return strings.TrimSpace(out.String()), err
}

// logFile creates the file that keeps a step's whole log.
func (r *runner) logFile(name string) (*os.File, error) {
	return os.Create(filepath.Join(r.cache, "log", strings.ReplaceAll(name, " ", "-")+".log"))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, os.ErrNotExist)
}
