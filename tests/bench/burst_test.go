package bench

import (
	"context"
	"fmt"
	"net/http"
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

const (
	burstInstances = 5000
	burstTasks     = 10000
	clusterName    = "burst"
)

func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skipf("make check runs it: it places %d tasks", burstTasks)
	}
}

// burst is an installation with the burst's instances and a task definition.
type burst struct {
	*installation.Installation
	spent map[string]embedded.Usage
	t     testing.TB
}

func newBurst(t testing.TB, instances int) *burst {
	b := &burst{t: t, spent: map[string]embedded.Usage{}}
	settings := handler.DefaultSettings()
	ids := 0
	var err error
	b.Installation, err = installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Seed: 1, Settings: &settings,
		NewID:     func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: func(f string, s state.Store) state.Store { return &countedState{Store: s, burst: b, function: f} },
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
	if _, err := b.EnsureCluster(ctx, clusterName, instances, ec2.Machine{Type: "m5.large"}); err != nil {
		t.Fatal(err)
	}
	definition := `{"family":"web","containerDefinitions":[{"name":"main","image":"i","cpu":256,"memory":256}]}`
	if status, answer := b.AWS.ECS.Endpoint().ServeOperation(ctx, "RegisterTaskDefinition",
		[]byte(definition)); status != http.StatusOK {
		t.Fatal(string(answer))
	}
	b.Runtime.Start()
	b.runFor(10 * time.Minute)
	return b
}

func (b *burst) runFor(d time.Duration) { b.Loop.RunUntil(b.Loop.Now().Add(d)) }

// countedState is a store that sums what each function uses.
type countedState struct {
	state.Store
	burst    *burst
	function string
}

func (c *countedState) countUsage(f func()) {
	before := c.burst.Store.Usage()
	f()
	after, sum := c.burst.Store.Usage(), c.burst.spent[c.function]
	sum.ReadUnits += after.ReadUnits - before.ReadUnits
	sum.WriteUnits += after.WriteUnits - before.WriteUnits
	c.burst.spent[c.function] = sum
}

func (c *countedState) Get(ctx context.Context, k state.Key) (row state.Row, err error) {
	c.countUsage(func() { row, err = c.Store.Get(ctx, k) })
	return row, err
}

func (c *countedState) Peek(ctx context.Context, k state.Key) (row state.Row, err error) {
	c.countUsage(func() { row, err = c.Store.Peek(ctx, k) })
	return row, err
}

func (c *countedState) List(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	c.countUsage(func() { rows, err = c.Store.List(ctx, r) })
	return rows, err
}

func (c *countedState) Visit(ctx context.Context, r state.Range, visit func(state.Row) error) (err error) {
	c.countUsage(func() { err = c.Store.Visit(ctx, r, visit) })
	return err
}

func (c *countedState) Write(ctx context.Context, w state.Write) (row state.Row, err error) {
	c.countUsage(func() { row, err = c.Store.Write(ctx, w) })
	return row, err
}

func (c *countedState) Commit(ctx context.Context, w state.Commit) (err error) {
	c.countUsage(func() { err = c.Store.Commit(ctx, w) })
	return err
}

// functionCosts returns what the functions have used so far. Schedules, sweeps and the API count
// apart.
func (b *burst) functionCosts() Cost {
	var c Cost
	for _, f := range []string{"placement", "dispatch", "task-state-change"} {
		c.WriteUnits += b.spent[f].WriteUnits
		c.ReadUnits += b.spent[f].ReadUnits
	}
	counters := b.Runtime.Counters()
	c.QueueRequests, c.Invocations = float64(counters.QueueRequests), float64(counters.Invocations)
	return c
}

func perTask(from, to Cost, tasks int) Cost {
	n := float64(tasks)
	return Cost{
		(to.WriteUnits - from.WriteUnits) / n, (to.ReadUnits - from.ReadUnits) / n,
		(to.QueueRequests - from.QueueRequests) / n, (to.Invocations - from.Invocations) / n,
	}
}

func (b *burst) reportCost(what string, c Cost, budget Budget) {
	fmt.Println(ListPrices)
	fmt.Printf("%-28s %s\n%-28s %s\n", what, c, "  budget", fmt.Sprintf("%g, %g, %g, %g, $%g",
		budget.WriteUnits, budget.ReadUnits, budget.QueueRequests, budget.Invocations, budget.Dollars))
	if over := budget.Exceeded(c); over != "" {
		b.t.Errorf("%s: %s", what, over)
	}
}

// TestBurstOfTasksThatEnd runs 10,000 tasks that end by themselves on 5,000 instances.
func TestBurstOfTasksThatEnd(t *testing.T) {
	skipIfShort(t)
	b := newBurst(t, burstInstances)
	from := b.functionCosts()
	b.registerJob("300")
	for range burstTasks / 10 {
		if _, err := b.API.Tasks.SubmitRequest(context.Background(), operation.SubmitTasks{
			Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "job", Count: 10,
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.runFor(50 * time.Minute)
	if got := b.countEnded(); got != burstTasks {
		t.Fatalf("%d of %d tasks have run and ended", got, burstTasks)
	}
	b.reportCost("10,000 tasks that end", perTask(from, b.functionCosts(), burstTasks), EndsByItself)
}

// registerJob registers the task definition of tasks that end by themselves after so many seconds.
func (b *burst) registerJob(seconds string) {
	run := "BERTH_FLEET_RUN_SECONDS"
	definition := fmt.Sprintf(`{"family":"job","containerDefinitions":[{"name":"main","image":"i","cpu":256,"memory":256,
		"environment":[{"name":%q,"value":%q}]}]}`, run, seconds)
	if status, answer := b.AWS.ECS.Endpoint().ServeOperation(context.Background(), "RegisterTaskDefinition",
		[]byte(definition)); status != http.StatusOK {
		b.t.Fatal(string(answer))
	}
}

func (b *burst) countEnded() (n int) {
	for _, task := range b.AWS.Machines.TaskTruths(clusterName) {
		if task.Last == cluster.TaskStopped && !task.Started.IsZero() {
			n++
		}
	}
	return n
}

// TestBurstOfServices scales two services to 5,000 tasks each on 5,000 instances, and to zero
// again.
func TestBurstOfServices(t *testing.T) {
	skipIfShort(t)
	b := newBurst(t, burstInstances)
	ctx := context.Background()
	from := b.functionCosts()
	most, none := burstTasks/2, 0
	for _, name := range []string{"a", "b"} {
		if _, err := b.API.Services.CreateService(ctx, operation.CreateService{
			Cluster: clusterName, Name: name, TaskDefinition: "web", Desired: &most,
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.runFor(20 * time.Minute)
	if got := b.countRunning(); got != burstTasks {
		t.Fatalf("%d of %d tasks run", got, burstTasks)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := b.API.Services.UpdateService(ctx,
			operation.UpdateService{Cluster: clusterName, Name: name, Desired: &none}); err != nil {
			t.Fatal(err)
		}
	}
	b.runFor(30 * time.Minute)
	if got := b.countEnded(); got != burstTasks {
		t.Fatalf("%d of %d tasks have been stopped", got, burstTasks)
	}
	b.reportCost("10,000 tasks that are stopped", perTask(from, b.functionCosts(), burstTasks), Stopped)
}

func (b *burst) countRunning() (n int) {
	for _, task := range b.AWS.Machines.TaskTruths(clusterName) {
		if task.Last == cluster.TaskRunning {
			n++
		}
	}
	return n
}
