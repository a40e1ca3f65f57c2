//go:build unix

package main

import (
	"bytes"
	"context"
	"sync"
)

// A plan is what one command runs. Its lanes run side by side; the steps of a lane run one after
// the other.
type plan struct {
	command string // the Makefile's target
	lanes   [][]step
}

func (p plan) steps() (all []step) {
	for _, lane := range p.lanes {
		all = append(all, lane...)
	}
	return all
}

// runPlan runs the steps of a plan and returns their results. When ctx ends, the steps that run are
// ended and no more are started.
func (r *runner) runPlan(ctx context.Context, p plan) result {
	ended := map[string]chan struct{}{}
	for _, s := range p.steps() {
		ended[s.name] = make(chan struct{})
	}
	var mu sync.Mutex
	var total result
	stopShowing := r.progress.show(p)
	defer stopShowing()
	var lanes sync.WaitGroup
	for _, lane := range p.lanes {
		lanes.Go(func() {
			for _, s := range lane {
				waitForAll(ctx, ended, s.after)
				if ctx.Err() == nil {
					res := r.runStep(ctx, s)
					mu.Lock()
					total.add(res)
					mu.Unlock()
				}
				close(ended[s.name])
			}
		})
	}
	lanes.Wait()
	return total
}

func waitForAll(ctx context.Context, ended map[string]chan struct{}, names []string) {
	for _, name := range names {
		select {
		case <-ended[name]:
		case <-ctx.Done():
		}
	}
}

// runStep runs one step and prints its line, and its log if it failed.
func (r *runner) runStep(ctx context.Context, s step) result {
	r.progress.start(s.name)
	var log bytes.Buffer
	res := s.run(ctx, &log)
	if ctx.Err() != nil {
		return result{}
	}
	res.fillNames(s.name)
	if len(res.failed) > 0 && log.Len() > 0 {
		res.logs = []string{s.name + "\n" + indent(log.String(), maxSummaryLines)}
	}
	r.progress.end(s.name, res, log.String())
	return res
}
