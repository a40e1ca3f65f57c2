// Package handler has one file per function: what came in, decided by the pure core, committed to the state. It
// knows no AWS type and not which tier it runs in; what it needs of the world are the ports below.
package handler

import (
	"context"
	"errors"
	"time"

	"berth/shared/cluster"
)

// State keeps the rows of all clusters. An adapter passes the suite of package porttest.
type State interface {
	// Get reads one row as last written; nil where there is none.
	Get(ctx context.Context, key cluster.Key) (cluster.Row, error)
	// Peek is Get at half the price: it may miss the last second's writes.
	Peek(ctx context.Context, key cluster.Key) (cluster.Row, error)
	// List reads a range as last written, in order of sort key.
	List(ctx context.Context, r cluster.Range) ([]cluster.Row, error)
	// Write makes one change and returns the row after it (nil after a deletion). A condition that does not hold
	// gives *cluster.Conflict with the row that is there.
	Write(ctx context.Context, w cluster.Write) (cluster.Row, error)
	// Commit makes all changes or none. A condition or a version that does not hold gives *cluster.Conflict, more
	// than cluster.MaxWrites writes or a row named twice an error.
	Commit(ctx context.Context, c cluster.Commit) error
}

// ECS is the part of the ECS API that acts on tasks and looks at instances. Errors of the API are *cluster.Error;
// a call that may or may not have taken effect gives an error that is cluster.ErrAmbiguous.
type ECS interface {
	StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error)
	StopTask(ctx context.Context, clusterName, ecsID, reason string) error
	ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error)
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error)
	ListInstances(ctx context.Context, clusterName string) ([]string, error)
	DescribeInstances(ctx context.Context, clusterName string, ids []string) ([]*cluster.Instance, error)
	// DescribeTaskDefinition takes family, family:revision or ARN.
	DescribeTaskDefinition(ctx context.Context, name string) (*cluster.TaskDefinition, error)
	// ClusterActive reports whether ECS has the cluster and it is ACTIVE.
	ClusterActive(ctx context.Context, name string) (bool, error)
}

// Queue sends a message to be delivered after a delay of at most 900 s.
type Queue interface {
	Send(ctx context.Context, body []byte, delay time.Duration) error
}

// Clock tells the time. Sleep is for callers who wait for an answer; no event handler sleeps.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// eachCluster does something for every cluster that Berth keeps; the failure of one does not keep it from the others.
func eachCluster(ctx context.Context, state State, do func(name string) error) error {
	names, err := clusterNames(ctx, state)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		failed = append(failed, wrap(do(name), "cluster %s", name))
	}
	return errors.Join(failed...)
}
