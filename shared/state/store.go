package state

import (
	"context"
	"time"
)

// A Store keeps the rows of all clusters. Each adapter passes the tests of package porttest.
type Store interface {
	// Get reads one row as last written. It returns nil if there is none.
	Get(ctx context.Context, key Key) (Row, error)
	// Peek is Get at half the price. It may miss the last second's writes.
	Peek(ctx context.Context, key Key) (Row, error)
	// List reads a range as last written, ordered by sort key.
	List(ctx context.Context, r Range) ([]Row, error)
	// Visit calls visit with each row of a range, in the order of the sort keys, and holds few rows
	// at a time. It ends at the first error of visit, and returns that. The rows belong to the
	// store: visit must neither change nor keep them. Rows that are written meanwhile may be seen
	// or not.
	Visit(ctx context.Context, r Range, visit func(Row) error) error
	// Write makes one change and returns the row after it (nil after a deletion). If its condition
	// does not hold, the error is a *[Conflict] with the stored row.
	Write(ctx context.Context, w Write) (Row, error)
	// Commit makes all changes or none. If a condition or the version does not hold, the error is a
	// *[Conflict]. More than [MaxWrites] writes, or two of one row, are an error, too.
	Commit(ctx context.Context, c Commit) error
}

// A Mover is a [Store] in which rows may still be where an earlier version kept them.
type Mover interface {
	// MoveRows moves the rows of a cluster to their places of today. It may be cut off anywhere, and
	// called again; where there is nothing to move it takes one read.
	MoveRows(ctx context.Context, clusterName string) error
}

// A Range selects rows of one cluster: From ≤ sort key < To, at most Limit of them (0: all).
type Range struct {
	Cluster  string
	From, To string
	Limit    int
	// Tasks leaves out all rows but the tasks that it selects; nil leaves out none. Limit counts
	// what is selected.
	Tasks *TaskFilter
}

// Prefix returns the range of all rows whose sort key starts with prefix.
func Prefix(cluster, prefix string) Range {
	return Range{Cluster: cluster, From: prefix, To: prefix + "\xff"}
}

// DueBy returns the range of rows that are due at t or earlier.
func DueBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixDue, To: DueSort(t) + "\xff"}
}

// LoadsBy returns the range of pending loads whose window ended at t or earlier.
func LoadsBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixLoad, To: loadSort(t) + "\xff"}
}
