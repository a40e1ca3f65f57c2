package console

import (
	"context"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/snapshot"
)

// World is one cluster as a page shows it.
type World struct {
	Cluster  string
	Snapshot *snapshot.Snapshot
	Capacity *whatif.Capacity // nil if unknown
	Report   *problem.Report
	Now      time.Time
	// Generation changes with the cluster.
	Generation string
}

// Source reads clusters.
type Source interface {
	// ClusterNames returns the names of all clusters, sorted.
	ClusterNames(ctx context.Context) ([]string, error)
	// View calls show with a cluster, which nobody else uses meanwhile. show must not keep it. The
	// error is a *whatif.NotFound for a cluster that does not exist.
	View(ctx context.Context, clusterName string, show func(*World) error) error
	// Generation returns what changes with the cluster. It is cheap, and asked for every second
	// while a page is open.
	Generation(ctx context.Context, clusterName string) (string, error)
	// Events returns the service events of a cluster, the oldest first. show may call it.
	Events(ctx context.Context, clusterName string) ([]listing.Event, error)
}
