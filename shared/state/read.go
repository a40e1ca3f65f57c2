package state

import (
	"context"
	"fmt"
)

// ReadRow reads a row consistently. It returns the zero T, nil, if the row does not exist or is of
// another kind. what names the row in errors: "service web".
func ReadRow[T Row](ctx context.Context, store Store, key Key, what string) (row T, err error) {
	got, err := store.Get(ctx, key)
	if err != nil {
		return row, fmt.Errorf("reading %s: %w", what, err)
	}
	row, _ = got.(T)
	return row, nil
}

// ListRows reads the rows of a range, sorted by key, and leaves out rows of other kinds. what
// names them in errors: "the tasks of service web".
func ListRows[T Row](ctx context.Context, store Store, r Range, what string) (out []T, err error) {
	rows, err := store.List(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	for _, row := range rows {
		if t, ok := row.(T); ok {
			out = append(out, t)
		}
	}
	return out, nil
}

// VisitRows calls visit with each row of a range that is a T, see [Store.Visit]. An error of visit
// is returned as it is; what names the rows in others.
func VisitRows[T Row](ctx context.Context, store Store, r Range, what string, visit func(T) error) error {
	var ended error
	err := store.Visit(ctx, r, func(row Row) error {
		if t, ok := row.(T); ok {
			ended = visit(t)
		}
		return ended
	})
	if err != nil && ended == nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return ended
}
