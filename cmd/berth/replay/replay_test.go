package replay

import (
	"context"
	"os"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
)

func shippedTrace(t *testing.T) ([]trace.Node, []trace.Task) {
	t.Helper()
	nodes, err := trace.DefaultNodes()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := trace.DefaultTasks()
	if err != nil {
		t.Fatal(err)
	}
	return nodes, tasks
}

// everyNth returns every n-th node.
func everyNth(nodes []trace.Node, n int) (out []trace.Node) {
	for i := 0; i < len(nodes); i += n {
		out = append(out, nodes[i])
	}
	return out
}

func runReplay(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed+r.Unplaced != r.Tasks {
		t.Errorf("%d tasks placed and %d not, of %d", r.Placed, r.Unplaced, r.Tasks)
	}
	return r
}

// TestReplayIsRepeatable replays a compressed trace twice: equal seeds give equal histories, other
// seeds others.
func TestReplayIsRepeatable(t *testing.T) {
	nodes, tasks := shippedTrace(t)
	o := Options{Nodes: everyNth(nodes, 10), Tasks: tasks[:800], Compress: 20000, Seed: 7}
	if testing.Short() {
		o.Nodes, o.Tasks = everyNth(nodes, 40), tasks[:250]
	}
	a, b := runReplay(t, o), runReplay(t, o)
	if a.StateHash != b.StateHash || a.StateHash == "" {
		t.Errorf("state hash %s, then %s", a.StateHash, b.StateHash)
	}
	o.Seed = 8
	if c := runReplay(t, o); c.StateHash == a.StateHash {
		t.Error("another seed gives the same history: the seed is not used")
	}
}

// TestNoTaskWaitsWhereItWouldFit fills the cluster until tasks wait. Whenever nothing is pending,
// an independent full scan finds no instance that could hold a task that waits. REPLAY=full takes
// the whole trace on every second node.
func TestNoTaskWaitsWhereItWouldFit(t *testing.T) {
	nodes, tasks := shippedTrace(t)
	o := Options{Nodes: everyNth(nodes, 2), Tasks: tasks, Compress: 100000, Seed: 1}
	switch {
	case testing.Short():
		o.Nodes, o.Tasks = everyNth(nodes, 120), tasks[:400]
	case os.Getenv("REPLAY") != "full":
		o.Nodes, o.Tasks = everyNth(nodes, 40), tasks[:1200]
	}
	checks := 0
	o.Check = func(i *installation.Installation) error {
		checks++
		return CheckWaitingTasks(i)
	}
	r := runReplay(t, o)
	if checks < 100 || r.Waited == 0 {
		t.Errorf("%d checks and %d tasks that waited: the test shows nothing", checks, r.Waited)
	}
	t.Logf("%d checks; %d tasks, %d waited, %d never placed", checks, r.Tasks, r.Waited, r.Unplaced)
}

// TestReasonOfATaskThatNeverFits replays a task that no node can hold.
func TestReasonOfATaskThatNeverFits(t *testing.T) {
	second := time.Second
	zero := time.Duration(0)
	r := runReplay(t, Options{
		Nodes: []trace.Node{{Name: "n", CPUMilli: 4000, MemoryMiB: 4096}},
		Tasks: []trace.Task{
			{Name: "fits", CPUMilli: 1000, MemoryMiB: 100, Created: &zero, Deleted: &second},
			{Name: "never", CPUMilli: 1000, MemoryMiB: 8192, Created: &zero, Deleted: &second},
		},
	})
	if r.Placed != 1 || r.Unplaced != 1 || r.Reasons["insufficient memory"] != 1 {
		t.Errorf("placed %d, unplaced %d, reasons %v", r.Placed, r.Unplaced, r.Reasons)
	}
}

func TestTasksWithoutTimesAreRefused(t *testing.T) {
	_, err := Run(context.Background(), Options{Tasks: []trace.Task{{Name: "x"}}})
	if err == nil {
		t.Error("no error")
	}
}

func TestReplayWithoutTasksIsRefused(t *testing.T) {
	if _, err := Run(t.Context(), Options{Nodes: []trace.Node{{Name: "a", CPUMilli: 1000}}}); err == nil ||
		err.Error() != "there is no task, expected at least one to replay" {
		t.Errorf("of a trace without tasks: %v", err)
	}
}

func TestShare(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	c := loadCurve{levels: []level{{at(0), resources{gpu: 0}}, {at(10), resources{gpu: 500}},
		{at(90), resources{gpu: 1000}}}}
	got := c.shareOf(func(r resources) int64 { return r.gpu }, 1000, at(100))
	if want := (Share{Mean: 50, P95: 100, Peak: 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
