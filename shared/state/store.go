package state

import (
	"context"
)

// Store keeps the rows of all clusters. An adapter passes the suite of package porttest.
type Store interface {
	// Get reads one row as last written; nil where there is none.
	Get(ctx context.Context, key Key) (Row, error)
	// Peek is Get at half the price: it may miss the last second's writes.
	Peek(ctx context.Context, key Key) (Row, error)
	// List reads a range as last written, in order of sort key.
	List(ctx context.Context, r Range) ([]Row, error)
	// Write makes one change and returns the row after it (nil after a deletion). A condition that
	// does not hold gives *Conflict with the row that is there.
	Write(ctx context.Context, w Write) (Row, error)
	// Commit makes all changes or none. A condition or a version that does not hold gives
	// *Conflict, more than MaxWrites writes or a row named twice an error.
	Commit(ctx context.Context, c Commit) error
}
