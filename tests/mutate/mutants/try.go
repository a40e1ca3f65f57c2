package mutants

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// The outcomes of a change.
const (
	Noticed    = "noticed"     // a test failed
	TimedOut   = "timed out"   // a test did not end: noticed, too
	Survived   = "survived"    // every test that reaches the change passed
	NotReached = "not reached" // no test runs the code: it survived, too
)

// A Result is what the tests said about a change.
type Result struct {
	*Mutant
	Outcome string `json:"outcome"`
	// Test is the one that failed, or one of several.
	Test    string `json:"test,omitempty"`
	Reached int    `json:"reached"` // by how many tests
	// Reason is why a change that survived is kept.
	Reason string `json:"reason,omitempty"`
}

// IsNoticed reports whether a test failed or did not end.
func (r *Result) IsNoticed() bool { return r.Outcome == Noticed || r.Outcome == TimedOut }

// slowdown is how many times as long tests may take with a change.
const slowdown = 10

// firstGroup is how long the first group of tests takes that runs in one process. Each following
// group takes twice as long, because a change that the quick tests do not notice may well survive.
const firstGroup = 200 * time.Millisecond

// Try runs the tests against each change, several changes at a time. It returns the results in the
// order of the changes; after an interruption only those that are known.
func (s *Suite) Try(ctx context.Context, workers int, progress func(done, of int)) ([]*Result, error) {
	results := make([]*Result, len(s.mutants))
	failures := make([]error, len(s.mutants))
	next := make(chan int)
	var done int
	var lock sync.Mutex
	var group sync.WaitGroup
	for range max(1, workers) {
		group.Go(func() {
			for n := range next {
				results[n], failures[n] = s.tryOne(ctx, s.mutants[n])
				lock.Lock()
				done++
				progress(done, len(s.mutants))
				lock.Unlock()
			}
		})
	}
	for n := range s.mutants {
		if ctx.Err() != nil {
			break
		}
		next <- n
	}
	close(next)
	group.Wait()
	var known []*Result
	for _, r := range results {
		if r != nil {
			known = append(known, r)
		}
	}
	return known, errors.Join(append(failures, context.Cause(ctx))...)
}

func (s *Suite) tryOne(ctx context.Context, m *Mutant) (*Result, error) {
	var tests []*test
	for _, t := range s.tests {
		if t.reached[m.id] {
			tests = append(tests, t)
		}
	}
	r := &Result{Mutant: m, Outcome: Survived, Reached: len(tests)}
	if len(tests) == 0 {
		r.Outcome = NotReached
		return r, nil
	}
	env := []string{"MUTANT=" + strconv.Itoa(m.id)}
	for size := firstGroup; len(tests) > 0; size *= 2 {
		group, took := takeGroup(&tests, size)
		_, err := group[0].in.run(ctx, slowdown*took+s.Leeway, env, "-test.run="+pattern(group))
		var exit *exec.ExitError
		switch {
		case err == nil:
			continue
		case errors.Is(err, errTimedOut):
			r.Outcome = TimedOut
		case errors.As(err, &exit):
			r.Outcome = Noticed
		case ctx.Err() != nil:
			return nil, nil // the caller reports the interruption
		default:
			return nil, fmt.Errorf("running the tests with %s: %w", m, err)
		}
		r.Test = group[0].name
		return r, nil
	}
	return r, nil
}

// takeGroup takes the quickest of the tests that are left: as many of one package as run in a time,
// at least one.
func takeGroup(left *[]*test, size time.Duration) (group []*test, took time.Duration) {
	var others []*test
	for _, t := range *left {
		isFirst := len(group) == 0
		if isFirst || t.in == group[0].in && took+t.took <= size {
			group, took = append(group, t), took+t.took
		} else {
			others = append(others, t)
		}
	}
	*left = others
	return group, took
}
