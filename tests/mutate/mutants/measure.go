package mutants

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test is one test function, with what it did when nothing was changed.
type test struct {
	in      *program
	name    string
	took    time.Duration
	reached map[int]bool // changes, by number
}

// maxUnchanged bounds how long one test may take while nothing is changed.
const maxUnchanged = 5 * time.Minute

// Measure runs each test once without a change. A test that fails now could notice nothing, so it
// is an error.
func (s *Suite) Measure(ctx context.Context, progress func(done, of int)) error {
	var all []*test
	for _, p := range s.programs {
		list, err := p.run(ctx, maxUnchanged, nil, "-test.list=^(Test|Fuzz|Example)")
		if err != nil {
			return fmt.Errorf("listing the tests in %s: %w\n%s", p.folder, err, list)
		}
		for name := range strings.Lines(list) {
			if name = strings.TrimSpace(name); name != "" {
				all = append(all, &test{in: p, name: name, reached: map[int]bool{}})
			}
		}
	}
	for n, t := range all {
		progress(n, len(all))
		if err := t.measure(ctx, filepath.Join(s.dir, "reached")); err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	s.tests = all
	return nil
}

func (t *test) measure(ctx context.Context, record string) error {
	if err := os.RemoveAll(record); err != nil {
		return err
	}
	begin := time.Now()
	out, err := t.in.run(ctx, maxUnchanged, []string{"MUTANT_RECORD=" + record}, "-test.run="+pattern([]*test{t}))
	t.took = time.Since(begin)
	if err != nil {
		return fmt.Errorf("%s in %s fails while nothing is changed: %w\n%s", t.name, t.in.folder, err, out)
	}
	reached, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(reached)) {
		id, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("reading what %s reaches: %w", t.name, err)
		}
		t.reached[id] = true
	}
	return nil
}

// pattern matches just these tests.
func pattern(tests []*test) string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// run runs compiled tests and returns what they print. They leave no file in the tree: rapid would
// keep its failures there. Rapid draws the same values in each run, so that the answer is the same.
func (p *program) run(ctx context.Context, limit time.Duration, env []string, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTimedOut)
	defer stop()
	args = append(args, "-test.short", "-test.failfast", "-test.timeout=0")
	if p.hasRapid {
		args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	cmd := exec.CommandContext(ctx, p.file, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, &out, &out
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}

var errTimedOut = errors.New("timed out")
