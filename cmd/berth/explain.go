package main

import (
	"context"
	"fmt"

	"berth/cmd/berth/whatif"
)

// explainCommand explains the state of one thing. The answers are computed here from the cluster's
// rows, by the code that decides about them; Berth itself is only asked for the rows and for its
// capacity.
type explainCommand struct {
	Task     explainTask     `cmd:"" help:"Explain why a task is where it is, or why it has no instance."`
	Service  explainService  `cmd:"" help:"Explain why tasks of a service have no instance, and which moves wait."`
	Cluster  explainCluster  `cmd:"" help:"Show the cluster's metrics, and instances that no service can use."`
	Instance explainInstance `cmd:"" help:"Show what is on an instance, and why it is not terminated."`
}

type explainTask struct {
	clusterSourceFlags
	ID   string `arg:"" help:"Id or ARN of the task."`
	JSON bool   `help:"Print JSON."`
}

// Run explains the task.
func (e *explainTask) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.clusterSourceFlags, e.JSON, func(src *source) (printable, error) {
		id, err := src.nameOf(e.ID)
		if err != nil {
			return nil, err
		}
		return whatif.ExplainTask(src.snap, id)
	})
}

type explainService struct {
	clusterSourceFlags
	Name string `arg:"" help:"Name or ARN of the service."`
	JSON bool   `help:"Print JSON."`
}

// Run explains the service. A user who may not read Auto Scaling groups gets the rest, with a
// warning.
func (e *explainService) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.clusterSourceFlags, e.JSON, func(src *source) (printable, error) {
		name, err := src.nameOf(e.Name)
		if err != nil {
			return nil, err
		}
		var capacity *whatif.Capacity
		if service := src.snap.Services[name]; service != nil && len(service.UsedProviders()) > 0 {
			if capacity, err = src.readCapacity(ctx); err != nil {
				fmt.Fprintf(s.err, "berth: the decisions of managed scaling are missing: %v\n", err)
				capacity = nil
			}
		}
		return whatif.ExplainService(src.snap, capacity, name, capacity.Now(src.readAt))
	})
}

type explainCluster struct {
	sourceFlags
	JSON bool `help:"Print JSON."`
}

// Run explains the cluster.
func (e *explainCluster) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable, error) {
		return whatif.ExplainCluster(src.snap)
	})
}

type explainInstance struct {
	sourceFlags
	ID   string `arg:"" help:"Id or ARN of the container instance, or its EC2 instance id."`
	JSON bool   `help:"Print JSON."`
}

// Run explains the instance.
func (e *explainInstance) Run(ctx context.Context, s *streams) error {
	return printExplanation(ctx, s, &e.sourceFlags, e.JSON, func(src *source) (printable, error) {
		id, err := src.nameOf(e.ID)
		if err != nil {
			return nil, err
		}
		capacity, err := src.readCapacity(ctx)
		if err != nil {
			return nil, err
		}
		return whatif.ExplainInstance(src.snap, capacity, id, capacity.Now(src.readAt))
	})
}

// printExplanation opens the cluster and prints what explain says about it.
func printExplanation(
	ctx context.Context, s *streams, from sourceOpener, asJSON bool, explain func(*source) (printable, error),
) error {
	src, err := openSource(ctx, s, from)
	if err != nil {
		return err
	}
	answer, err := explain(src)
	if err != nil {
		return err
	}
	return printAnswer(s.out, asJSON, answer)
}
