package handler

import (
	"context"
	"sync"
)

// Parallel calls do with 0 to n-1 and returns when all calls have. A function waits for the answers of
// AWS most of its time, so the calls may run at the same time. A nil Parallel makes one after the
// other.
type Parallel func(ctx context.Context, n int, do func(ctx context.Context, i int))

// Run calls do as p says.
func (p Parallel) Run(ctx context.Context, n int, do func(ctx context.Context, i int)) {
	if p != nil && n > 1 {
		p(ctx, n, do)
		return
	}
	for i := range n {
		do(ctx, i)
	}
}

// InParallel returns a Parallel that makes at most width calls at the same time.
func InParallel(width int) Parallel {
	return func(ctx context.Context, n int, do func(ctx context.Context, i int)) {
		var running sync.WaitGroup
		free := make(chan struct{}, width)
		for i := range n {
			free <- struct{}{}
			running.Go(func() {
				defer func() { <-free }()
				do(ctx, i)
			})
		}
		running.Wait()
	}
}
