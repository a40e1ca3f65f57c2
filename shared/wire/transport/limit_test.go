package transport_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/wire/transport"
)

// No more reads than the limit run at once. Those beyond the queue are throttled, those in the
// queue run when one ends, and one whose caller leaves runs never.
func TestReadsAreLimited(t *testing.T) {
	g := transport.Guard{Reads: transport.NewLimit(2, 2, time.Minute)}
	release, started := make(chan struct{}), make(chan struct{}, 10)
	hold := func() error {
		started <- struct{}{}
		<-release
		return nil
	}
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { _ = g.Run(context.Background(), "ListTasks", hold) })
		<-started
	}
	// A read that finds the queue full because the loop below looks at it comes again.
	await := func(ctx context.Context, do func() error) error {
		for {
			if err := g.Run(ctx, "ListTasks", do); cluster.ErrorCode(err) != cluster.CodeThrottling {
				return err
			}
			runtime.Gosched()
		}
	}
	var ran atomic.Int64
	leaving, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		left <- await(leaving, func() error { ran.Add(100); return nil })
	}()
	done.Go(func() {
		if err := await(context.Background(), func() error { ran.Add(1); return nil }); err != nil {
			t.Errorf("the read in the queue: %v", err)
		}
	})
	// Two wait once a third one is refused, which does not wait itself.
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		err := g.Run(gone, "ListTasks", func() error { return nil })
		if cluster.ErrorCode(err) == cluster.CodeThrottling {
			if got := err.Error(); got != "ThrottlingException: Rate exceeded" {
				t.Errorf("refused with %q", got)
			}
			break
		}
	}
	if err := g.Run(context.Background(), "CreateService", func() error { return nil }); err != nil {
		t.Errorf("a change: %v", err)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the read whose caller left: %v", err)
	}
	if ran.Load() != 0 {
		t.Errorf("%d ran beside the limit", ran.Load())
	}
	close(release)
	done.Wait()
	if ran.Load() != 1 {
		t.Errorf("%d, want the one read that waited", ran.Load())
	}
}

// A read that waits too long is throttled.
func TestReadsWaitForAWhile(t *testing.T) {
	g := transport.Guard{Reads: transport.NewLimit(1, 5, time.Millisecond)}
	err := g.Run(context.Background(), "ListTasks", func() error {
		return g.Run(context.Background(), "DescribeTasks", func() error { return nil })
	})
	if cluster.ErrorCode(err) != cluster.CodeThrottling {
		t.Errorf("got %v", err)
	}
}
