package simulation

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// parallelRuns run seeds beside each other: each run is single-threaded.
const parallelRuns = 2

// Result is what became of many runs.
type Result struct {
	Failed   bool
	Run      Run     // the one of the lowest seed that failed
	Outcome  Outcome // its outcome
	Coverage Coverage
}

// RunSeeds runs the seeds from first to last, the last not included, and says on progress every few seconds how far it
// is. It ends when a seed has failed and those below it have passed.
func RunSeeds(first, last uint64, run func(seed uint64) Run, progress io.Writer) Result {
	s := &seedRunner{run: run, first: first, last: last, began: time.Now(), next: first, failed: last}
	done := make(chan struct{})
	var working, reporting sync.WaitGroup
	reporting.Go(func() { s.reportProgress(progress, done) })
	for range parallelRuns {
		working.Go(s.runSeeds)
	}
	working.Wait()
	close(done)
	reporting.Wait()
	return Result{Failed: s.failed < last, Run: run(s.failed), Outcome: s.outcome, Coverage: s.coverage}
}

type seedRunner struct {
	run         func(seed uint64) Run
	first, last uint64
	began       time.Time

	mu       sync.Mutex
	next     uint64
	ran      uint64
	failed   uint64 // the lowest that failed; last where none did
	outcome  Outcome
	coverage Coverage
}

// runSeeds runs one seed after the other until there are none left below one that has failed.
func (s *seedRunner) runSeeds() {
	for {
		s.mu.Lock()
		seed := s.next
		s.next++
		stop := seed >= s.failed
		s.mu.Unlock()
		if stop {
			return
		}
		out := Simulate(s.run(seed))
		s.mu.Lock()
		s.ran++
		s.coverage.Add(out.Coverage)
		if len(out.Broken) > 0 && seed < s.failed {
			s.failed, s.outcome = seed, out
		}
		s.mu.Unlock()
	}
}

func (s *seedRunner) reportProgress(to io.Writer, done <-chan struct{}) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		all, rate := s.last-s.first, float64(s.ran)/time.Since(s.began).Seconds()
		left := time.Duration(float64(all-s.ran) / max(rate, 0.01) * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(to, "%d of %d seeds, %.1f a second, %s left\n", s.ran, all, rate, left)
		s.mu.Unlock()
	}
}
