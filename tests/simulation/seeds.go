package simulation

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// parallelRuns is how many seeds run at a time. Each run is single-threaded.
const parallelRuns = 2

// A Result is the outcome of many runs.
type Result struct {
	Failed   bool
	Seed     uint64  // the lowest that failed
	Outcome  Outcome // of that seed; if none failed, of the last one run
	Coverage Coverage
}

// RunSeeds simulates the seeds from first up to, but not including, last, and prints its progress
// every few seconds. It ends when a seed has failed and all lower seeds have passed.
func RunSeeds(first, last uint64, simulate func(seed uint64) Outcome, progress io.Writer) Result {
	s := &seedRunner{simulate: simulate, first: first, last: last, began: time.Now(), next: first, failed: last}
	done := make(chan struct{})
	var working, reporting sync.WaitGroup
	reporting.Go(func() { s.reportProgress(progress, done) })
	for range parallelRuns {
		working.Go(s.runSeeds)
	}
	working.Wait()
	close(done)
	reporting.Wait()
	return Result{Failed: s.failed < last, Seed: s.failed, Outcome: s.outcome, Coverage: s.coverage}
}

type seedRunner struct {
	simulate    func(seed uint64) Outcome
	first, last uint64
	began       time.Time

	mu       sync.Mutex
	next     uint64
	ran      uint64
	failed   uint64 // the lowest seed that failed, or last
	outcome  Outcome
	coverage Coverage
}

// runSeeds runs one seed after the other, as long as no lower seed has failed.
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
		out := s.simulate(seed)
		s.mu.Lock()
		s.ran++
		s.coverage.Add(out.Coverage)
		switch {
		case len(out.Broken) > 0 && seed < s.failed:
			s.failed, s.outcome = seed, out
		case s.failed == s.last:
			s.outcome = out
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
