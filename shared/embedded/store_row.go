package embedded

import (
	"cmp"
	"fmt"

	"berth/shared/state"
)

// storedRow is one row as stored. Nothing in it ever changes: a change stores another one. That
// lets readers copy rows without a lock.
type storedRow struct {
	key  state.Key
	row  state.Row
	size int    // bytes, see itemSize
	data []byte // the row encoded
}

func lessByKey(a, b *storedRow) bool {
	return cmp.Or(cmp.Compare(a.key.Cluster, b.key.Cluster), cmp.Compare(a.key.Sort, b.key.Sort)) < 0
}

// lessByExpiry orders by time and then by key: a tree needs all rows to differ.
func lessByExpiry(a, b *storedRow) bool {
	x, y := a.row.Header().Expires, b.row.Header().Expires
	if x != y {
		return x < y
	}
	return lessByKey(a, b)
}

func (s *Store) findStoredRow(key state.Key) *storedRow {
	e, _ := s.rows.Get(&storedRow{key: key})
	return e
}

// newStoredRow takes over the row: the caller must not change it afterwards. It is an error if the
// row is larger than an item of DynamoDB may be.
func newStoredRow(row state.Row) (*storedRow, error) {
	data, err := state.EncodeRow(row)
	if err != nil {
		return nil, fmt.Errorf("encoding row %s: %w", state.KeyOf(row).Sort, err)
	}
	key := state.KeyOf(row)
	e := &storedRow{key: key, row: row, data: data, size: estimateItemSize(key, data)}
	if e.size > maxItem {
		return nil, fmt.Errorf("row %s has %d bytes, at most %d are allowed", key.Sort, e.size, maxItem)
	}
	return e, nil
}

// rowOrNil returns nil, and not an interface that holds nil, for no row.
func (e *storedRow) rowOrNil() state.Row {
	if e == nil {
		return nil
	}
	return e.row
}

func (e *storedRow) copyOrNil() state.Row {
	if e == nil {
		return nil
	}
	return copyStoredRow(e.row)
}

// rowChange is one row before and after a change, nil if there is none.
type rowChange struct{ old, new *storedRow }

// changedKey returns the key of the row, which both sides have.
func (c rowChange) changedKey() state.Key {
	if c.new != nil {
		return c.new.key
	}
	return c.old.key
}
