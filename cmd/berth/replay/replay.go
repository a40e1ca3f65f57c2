// Package replay drives a trace of nodes and tasks through an embedded installation in virtual time
// and measures what became of the tasks, what the cluster's resources were used for, and what it
// cost.
package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// clusterName is the cluster that a replay makes.
const clusterName = "replay"

// epoch is when a replay begins; only differences of time show.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Options say what to replay.
type Options struct {
	Nodes    []trace.Node
	Tasks    []trace.Task
	Compress float64 // arrivals come this many times faster; 1 where 0
	Seed     uint64
	Strategy string // a scoring, see [placement.Scorings]; ECS's spread where empty
	// Days, of virtual time, are when a replay on groups ends at the latest; 0 is once all tasks
	// have ended.
	Days float64
	// Progress, where set, is called now and then with the tasks that have arrived and those that
	// have ended.
	Progress func(arrived, ended int)
	// Check, where set, is called whenever nothing is pending: no message, no record, no outbox
	// row.
	Check func(i *installation.Installation) error
}

// run is one replay under way.
type run struct {
	arrivals
	meter *meter
}

// Run replays the trace to its end: until every task has run and ended, or can never be placed.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Compress <= 0 {
		o.Compress = 1
	}
	if err := timed(o.Tasks); err != nil {
		return Result{}, err
	}
	began := time.Now()
	r, err := open(o)
	if err != nil {
		return Result{}, err
	}
	defer r.Close()
	if err := r.prepare(ctx); err != nil {
		return Result{}, err
	}
	if err := r.drive(ctx); err != nil {
		return Result{}, err
	}
	result, err := r.result(ctx)
	result.WallSeconds = time.Since(began).Seconds()
	result.TasksPerSecond = float64(result.Placed) / result.WallSeconds
	return result, err
}

func open(o Options) (*run, error) {
	settings := handler.DefaultSettings()
	settings.ProvisioningLimit = len(o.Tasks)
	r := &run{arrivals: newArrivals(o), meter: newMeter(o)}
	ids := 0
	var err error
	r.Installation, err = installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(epoch), Seed: o.Seed, Settings: &settings,
		NewID:     func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: r.meter.state, WrapECS: r.meter.ecs,
	})
	if err != nil {
		return nil, err
	}
	r.meter.now = r.Loop.Now
	return r, nil
}

// prepare makes the cluster, an instance per node and a task definition per shape of task, and
// starts the functions.
func (r *run) prepare(ctx context.Context) error {
	if _, err := r.EnsureCluster(ctx, clusterName, 0, ec2.Machine{}); err != nil {
		return err
	}
	for n, node := range r.Nodes {
		if _, err := r.AWS.Machines.AddInstances(clusterName, 1, machine(node, n)); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	for _, s := range shapesOf(r.Tasks) {
		if err := register(ctx, r.Installation, s); err != nil {
			return err
		}
	}
	if err := r.Start(ctx); err != nil {
		return err
	}
	r.meter.begin(r.Installation)
	r.next(r.submit)
	return nil
}

// machine is a node as a container instance.
func machine(n trace.Node, number int) ec2.Machine {
	m := ec2.Machine{
		Type: "trace.node", CPU: n.CPUMilli, Memory: n.MemoryMiB, GPUs: n.GPUs,
		Zones: []string{"us-east-1" + string(rune('a'+number%3))},
	}
	if n.Model != "" {
		m.Attributes = map[string]string{trace.ModelAttribute: n.Model}
	}
	return m
}

// submit is a RunTask of one task that waits for as long as it takes.
func (r *run) submit(p trace.Task) error {
	s := shapeOf(p)
	life := max(time.Second, *p.Deleted-*p.Created)
	rules := cluster.Rules{Scoring: r.Strategy}
	where, err := p.ModelConstraint()
	if err != nil {
		return err
	}
	if where != "" {
		rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: where}}
	}
	r.meter.arrived(p)
	_, err = r.API.Tasks.SubmitRequest(context.Background(), operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: s.family() + ":1", Count: 1, StartedBy: p.Name,
		Wait: api.WaitForever, Rules: rules,
		Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{
			Name: "main", Environment: []cluster.Variable{{
				Name: "BERTH_FLEET_RUN_SECONDS", Value: strconv.FormatFloat(life.Seconds(), 'f', -1, 64),
			}},
		}}},
	})
	return err
}

// timed refuses tasks that say not when they came or went.
func timed(tasks []trace.Task) error {
	for _, t := range tasks {
		if t.Created == nil || t.Deleted == nil {
			return fmt.Errorf("task %s has no creation_time or no deletion_time, and both are needed for a replay",
				t.Name)
		}
	}
	return nil
}

// settled is how long after the last arrival and the last end of a task nothing more is expected:
// longer than any retry, and the sweep has passed twice.
const settled = 3 * time.Hour

// drive runs the loop until every task has arrived and ended, or only tasks are left that fit
// nowhere.
func (r *run) drive(ctx context.Context) error {
	for steps := 0; ; steps++ {
		if steps%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.Progress != nil {
				r.Progress(r.arrived, r.meter.ended)
			}
		}
		if r.failed != nil {
			return r.failed
		}
		if r.arrived == len(r.coming) && r.meter.idle(r.Loop.Now()) {
			return nil
		}
		if !r.Loop.Step() {
			return errors.New("the loop has nothing left to do")
		}
		if r.Check != nil && r.Runtime.IsIdle() && r.meter.changed() {
			if err := r.Check(r.Installation); err != nil {
				return err
			}
		}
	}
}
