package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// How long calls of AWS take in this model. DynamoDB answers within single-digit milliseconds; ECS's
// StartTask takes longer.
const (
	readLatency   = 4 * time.Millisecond
	writeLatency  = 6 * time.Millisecond
	commitLatency = 30 * time.Millisecond
	ecsLatency    = 120 * time.Millisecond
)

// A timedCall is the coroutine of one invocation: it waits in virtual time while others run.
type timedCall struct {
	yield func(time.Duration) bool
}

type timedCallKey struct{}

// waitFor lets virtual time pass in a function's call. Callers outside of functions do not wait.
func waitFor(ctx context.Context, d time.Duration) {
	if c, ok := ctx.Value(timedCallKey{}).(*timedCall); ok {
		c.yield(d)
	}
}

// executeTimed runs invocations as coroutines.
func executeTimed(loop *embedded.Loop) func(string, func(context.Context), func(bool)) {
	return func(_ string, run func(context.Context), done func(bool)) {
		next, stop := iter.Pull(func(yield func(time.Duration) bool) {
			run(context.WithValue(context.Background(), timedCallKey{}, &timedCall{yield}))
		})
		var resume func()
		resume = func() {
			wait, more := next()
			if more {
				loop.After(wait, resume)
				return
			}
			stop()
			done(false)
		}
		resume()
	}
}

// inParallelTimed makes calls at the same virtual time: each is a coroutine of its own, and the caller
// goes on when the last has ended.
func inParallelTimed(ctx context.Context, n int, do func(ctx context.Context, i int)) {
	caller, ok := ctx.Value(timedCallKey{}).(*timedCall)
	if !ok {
		handler.Parallel(nil).Run(ctx, n, do)
		return
	}
	type call struct {
		next func() (time.Duration, bool)
		at   time.Duration // when it goes on, since the calls began
	}
	var calls []*call
	for i := range n {
		next, _ := iter.Pull(func(yield func(time.Duration) bool) {
			do(context.WithValue(ctx, timedCallKey{}, &timedCall{yield}), i)
		})
		calls = append(calls, &call{next: next})
	}
	for now := time.Duration(0); len(calls) > 0; {
		first := slices.MinFunc(calls, func(a, b *call) int { return cmp.Compare(a.at, b.at) })
		if first.at > now {
			caller.yield(first.at - now)
			now = first.at
		}
		wait, more := first.next()
		if first.at += wait; !more {
			calls = slices.DeleteFunc(calls, func(c *call) bool { return c == first })
		}
	}
}

// timedState is a store whose calls take time, and that retries throttled calls as the adapter of
// DynamoDB does.
type timedState struct {
	state.Store
	throttled *int
}

func (s timedState) call(ctx context.Context, latency time.Duration, f func() error) error {
	waitFor(ctx, latency)
	for attempt := range 8 {
		err := f()
		if !errors.Is(err, embedded.ErrThroughput) || attempt == 7 {
			return err
		}
		*s.throttled++
		waitFor(ctx, min(25*time.Millisecond<<attempt, time.Second)/2) // the mean of the adapter's pauses
	}
	return nil
}

func (s timedState) Get(ctx context.Context, k state.Key) (row state.Row, err error) {
	err = s.call(ctx, readLatency, func() error { row, err = s.Store.Get(ctx, k); return err })
	return row, err
}

func (s timedState) Peek(ctx context.Context, k state.Key) (row state.Row, err error) {
	err = s.call(ctx, readLatency, func() error { row, err = s.Store.Peek(ctx, k); return err })
	return row, err
}

func (s timedState) List(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	err = s.call(ctx, readLatency, func() error { rows, err = s.Store.List(ctx, r); return err })
	return rows, err
}

func (s timedState) Write(ctx context.Context, w state.Write) (row state.Row, err error) {
	err = s.call(ctx, writeLatency, func() error { row, err = s.Store.Write(ctx, w); return err })
	return row, err
}

func (s timedState) Commit(ctx context.Context, c state.Commit) error {
	return s.call(ctx, commitLatency, func() error { return s.Store.Commit(ctx, c) })
}

// timedECS is an ECS whose changes take time.
type timedECS struct{ handler.ECS }

func (e timedECS) StartTask(ctx context.Context, c cluster.StartCall) (cluster.StartAnswer, error) {
	waitFor(ctx, ecsLatency)
	return e.ECS.StartTask(ctx, c)
}

// TestTasksASecond runs 10,000 tasks on 5,000 instances, each for five minutes, on a table with
// DynamoDB's throughput, and prints how many start a second.
func TestTasksASecond(t *testing.T) {
	skipIfShort(t)
	for _, partitions := range []int{1, embedded.NewTablePartitions} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) { runTasksASecond(t, partitions) })
	}
}

func runTasksASecond(t *testing.T, partitions int) {
	loop := embedded.NewVirtualLoop(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	throttled, ids := 0, 0
	settings := handler.DefaultSettings()
	b := &burst{t: t, spent: map[string]embedded.Usage{}}
	var err error
	b.Installation, err = installation.Open(installation.Options{
		Loop: loop, Seed: 1, Settings: &settings,
		NewID:     func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: func(_ string, s state.Store) state.Store { return timedState{s, &throttled} },
		WrapECS:   func(_ string, e handler.ECS) handler.ECS { return timedECS{e} },
		Runtime:   embedded.RuntimeOptions{Execute: executeTimed(loop), Parallel: inParallelTimed},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	if _, err := b.EnsureCluster(ctx, clusterName, burstInstances, ec2.Machine{Type: "m5.large"}); err != nil {
		t.Fatal(err)
	}
	b.registerJob("300")
	b.Runtime.Start()
	b.runFor(10 * time.Minute)
	begin := b.Loop.Now()
	b.Store.LimitThroughput(&embedded.Throughput{Now: loop.Now, Partitions: partitions})
	for range burstTasks / 10 {
		for {
			_, err := b.API.Tasks.SubmitRequest(ctx, operation.SubmitTasks{
				Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "job", Count: 10,
			})
			if err == nil {
				break
			}
			if !errors.Is(err, embedded.ErrThroughput) {
				t.Fatal(err)
			}
			b.runFor(100 * time.Millisecond)
		}
		b.runFor(25 * time.Millisecond) // 400 tasks a second
	}
	submitted := b.Loop.Now().Sub(begin)
	b.runFor(50 * time.Minute)
	var started []time.Duration
	for _, task := range b.AWS.Machines.TaskTruths(clusterName) {
		if task.Last == cluster.TaskStopped && !task.Started.IsZero() {
			started = append(started, task.Created.Sub(begin))
		}
	}
	slices.Sort(started)
	if len(started) != burstTasks {
		t.Fatalf("%d of %d tasks have run and ended", len(started), burstTasks)
	}
	took := started[len(started)-1] - started[0]
	fmt.Printf("%d partitions, 10,000 tasks on 5,000 instances, asked for within %s: started within %s, %.0f a second; the table throttled %d calls\n",
		partitions, submitted.Round(time.Second), took.Round(time.Second), burstTasks/took.Seconds(), throttled)
	switch rate := burstTasks / took.Seconds(); {
	case partitions == 1 && throttled == 0:
		t.Error("one partition throttles nothing: the test does not test its limits")
	case partitions == embedded.NewTablePartitions && (rate < 390 || throttled > 0):
		t.Errorf("%.0f tasks a second, %d calls throttled; want ECS's 400 without any", rate, throttled)
	}
}
