package replay

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// nodeReplay replays a trace on the nodes of the trace. Each task is a standalone task that waits
// for room as long as it takes.
type nodeReplay struct {
	*replay
	meter *meter
}

// Run replays the trace on its nodes until every task has run and ended, or can never be placed.
// It fails for a task without times, when ctx ends, and when [Options.Check] does.
func Run(ctx context.Context, o Options) (Result, error) {
	began := time.Now()
	m := newMeter(o)
	base, err := openReplay(o, installation.Options{WrapState: m.wrapState, WrapECS: m.wrapECS})
	if err != nil {
		return Result{}, err
	}
	defer base.installation.Close()
	m.now = base.installation.Loop.Now
	r := &nodeReplay{base, m}
	if err := r.playTrace(ctx, r); err != nil {
		return Result{}, err
	}
	result, err := r.newResult(ctx)
	result.WallSeconds = time.Since(began).Seconds()
	result.TasksPerSecond = float64(result.Placed) / result.WallSeconds
	return result, err
}

func (r *nodeReplay) addCapacity(context.Context) error {
	for n, node := range r.options.Nodes {
		if _, err := r.installation.AWS.Machines.AddInstances(clusterName, 1, machineOfNode(node, n)); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return nil
}

// machineOfNode is the machine of a node. The trace has no zones: nodes take three in turn.
func machineOfNode(n trace.Node, number int) ec2.Machine {
	m := ec2.Machine{
		Type: "trace.node", CPU: n.CPUMilli, Memory: n.MemoryMiB, GPUs: n.GPUs,
		Zones: []string{"us-east-1" + string(rune('a'+number%3))},
	}
	if n.Model != "" {
		m.Attributes = map[string]string{trace.ModelAttribute: n.Model}
	}
	return m
}

// submitTask calls RunTask. The simulated AWS ends the task after the seconds in its environment.
func (r *nodeReplay) submitTask(t trace.Task) error {
	rules := cluster.Rules{Scoring: r.options.Strategy}
	models, err := t.ModelConstraint()
	if err != nil {
		return err
	}
	if models != "" {
		rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: models}}
	}
	// The arrival must be known before placement can commit the task.
	r.meter.recordArrival(t)
	_, err = r.installation.API.Tasks.SubmitRequest(context.Background(), operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: shapeOfTask(t).definitionFamily() + ":1", Count: 1,
		StartedBy: t.Name, Wait: api.WaitForever, Rules: rules,
		Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{
			Name: "main", Environment: []cluster.Variable{{
				Name:  "BERTH_FLEET_RUN_SECONDS",
				Value: strconv.FormatFloat(runTime(t).Seconds(), 'f', -1, 64),
			}},
		}}},
	})
	return err
}

func (r *nodeReplay) startMeasuring() { r.meter.startMeasuring(r.installation.Store) }

func (r *nodeReplay) countEndedTasks() int { return r.meter.ended }

// isReplayOver reports whether every task has ended, or nothing more can happen to those that have
// not.
func (r *nodeReplay) isReplayOver(int) bool {
	return r.arrived == len(r.tasks) && r.meter.isQuiet(r.installation.Loop.Now())
}

// checkAfterStep calls the check, but only between bursts of work, when nothing is on its way any
// more.
func (r *nodeReplay) checkAfterStep() error {
	if r.options.Check == nil || !r.installation.Runtime.IsIdle() || !r.meter.hasNewWrites() {
		return nil
	}
	return r.options.Check(r.installation)
}
