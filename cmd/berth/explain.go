package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// explainCommand says why things are as they are.
type explainCommand struct {
	Task     explainTask     `cmd:"" help:"Why a task is where it is, or why it has no instance."`
	Service  explainService  `cmd:"" help:"Why tasks of a service have no instance, and what moves wait."`
	Cluster  explainCluster  `cmd:"" help:"What the cluster has of each metric, and which instances are of no use."`
	Instance explainInstance `cmd:"" help:"What is on an instance, what it refuses, and why it is not scaled in."`
}

// Help is the end of `berth explain --help`.
func (e *explainCommand) Help() string {
	return `Examples:
  berth explain service web
  berth explain task 0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b
  berth explain instance i-0b9d6f2f5c1e4a7d9
  berth explain service web --snapshot now.jsonl --json   of a cluster that berth whatif --save wrote down`
}

type explainTask struct {
	sourceFlags
	ID   string `arg:"" help:"Id or ARN of the task."`
	JSON bool   `help:"As JSON."`
}

// Help is the end of `berth explain task --help`.
func (e *explainTask) Help() string {
	return `Placement is asked again as if the task were not there: what it answers now, and what speaks for or against the
instance that the task is on. Nothing is changed.

JSON: task, service, taskDefinition, status, reason, instance, gpus, foreign, explanation and here as of berth whatif,
replaces, replacedBy, move.

Examples:
  berth explain task 0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b
  berth explain task arn:aws:ecs:us-east-1:123456789012:task/default/0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b --json`
}

// Run explains the task.
func (e *explainTask) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable, error) {
		return whatif.ExplainTask(src.snap, cluster.LastPart(e.ID))
	})
}

type explainService struct {
	sourceFlags
	Name string `arg:"" help:"Name or ARN of the service."`
	JSON bool   `help:"As JSON."`
}

// Help is the end of `berth explain service --help`.
func (e *explainService) Help() string {
	return `What placement said when it last looked, what it would say now, what managed scaling decides about the capacity providers that
its tasks wait for, which moves are under way or to come, and which violations no set of moves fixes. Nothing is changed.

JSON: service, schedulingStrategy, status, taskDefinition, desiredCount, runningCount, pendingCount, missingCount, instances
[instance, tasks], decided (a diagnosis), now (as of berth whatif), managedScaling [capacityProvider, autoScalingGroup,
currentCapacity, desiredCapacity, why, demands], failed, heldUntil, moving, underWay, planned, unrepaired,
unrepairedNow.

Examples:
  berth explain service web
  berth explain service web --cluster prod --json`
}

// Run explains the service.
func (e *explainService) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable, error) {
		name := cluster.LastPart(e.Name)
		var capacity *whatif.Capacity
		if of := src.snap.Services[name]; src.live != nil && of != nil && len(of.Providers) > 0 {
			var err error
			// who may not read the groups learns the rest
			if capacity, err = whatif.ReadCapacity(ctx, src.live, e.Cluster); err != nil {
				fmt.Fprintf(s.err, "berth: what managed scaling decides is not known: %v\n", err)
				capacity = nil
			}
		}
		return whatif.ExplainService(src.snap, capacity, name, time.Now())
	})
}

type explainCluster struct {
	sourceFlags
	JSON bool `help:"As JSON."`
}

// Help is the end of `berth explain cluster --help`.
func (e *explainCluster) Help() string {
	return `Capacity, load and what is left of each metric, with and without the buffer, whether the metric is in balance by its
thresholds, and the instances that the rules let no service use. Nothing is changed.

JSON: instances, metrics [name, capacity, capacityWithoutBuffer, load, remaining, remainingWithoutBuffer, violated, emptiest,
fullest, balancingThreshold, activityThreshold, balanced], unused [instance, why]; a capacity without limit is left out.

Examples:
  berth explain cluster
  berth explain cluster --cluster prod --json`
}

// Run explains the cluster.
func (e *explainCluster) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable,
		error) {
		return whatif.ExplainCluster(src.snap)
	})
}

type explainInstance struct {
	sourceFlags
	ID   string `arg:"" help:"Id or ARN of the container instance, or EC2's id."`
	JSON bool   `help:"As JSON."`
}

// Help is the end of `berth explain instance --help`.
func (e *explainInstance) Help() string {
	return `What is on the instance and what is free; whether it is draining, protected or being upgraded; why managed scaling does not
take it, and what consolidation would do with it; and for each service what keeps its next task off. Of a cluster in a file
only tasks and services are known. Nothing is changed.

JSON: instance, ec2InstanceId, status, agentConnected, availabilityZone, capacityProvider, unschedulable, resources [name, total,
free], tasks [task, service, status, daemon, foreign, protectedUntil], excluded [service, refused, text], managedScaling
(capacityProvider, autoScalingGroup, lifecycleState, protectedFromScaleIn, why, consolidation), update (nodegroup, id, phase,
step, since, waiting).

Examples:
  berth explain instance 4f6a0b91c2d34e5f8a7b6c5d4e3f2a1b
  berth explain instance i-0b9d6f2f5c1e4a7d9 --cluster prod --json`
}

// Run explains the instance.
func (e *explainInstance) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable, error) {
		var capacity *whatif.Capacity
		if src.live != nil {
			var err error
			if capacity, err = whatif.ReadCapacity(ctx, src.live, e.Cluster); err != nil {
				return nil, err
			}
		}
		return whatif.ExplainInstance(src.snap, capacity, e.ID, time.Now())
	})
}

// printable is an answer that people can read.
type printable interface{ Print(io.Writer) error }

// printExplanation reads the cluster, asks and prints.
func printExplanation(
	ctx context.Context, s *streams, from *sourceFlags, asJSON bool, ask func(*source) (printable, error),
) error {
	say := newProgress(s.err, time.Now)
	defer say.finish()
	src, err := from.openSource(ctx, say)
	if err != nil {
		return err
	}
	answer, err := ask(src)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(s.out).Encode(answer)
	}
	return answer.Print(s.out)
}
