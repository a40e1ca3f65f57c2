package embedded

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidwall/btree"

	"berth/shared/cluster"
	"berth/shared/state"
)

// storedRow is one row as stored. Nothing that readers see of it ever changes: a change stores
// another one. That lets readers copy rows without a lock.
type storedRow struct {
	key  state.Key
	row  state.Row
	size int    // bytes, see itemSize
	data []byte // the row encoded; nil once it is in the file, because it is as large as the row
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
	e, _ := s.rows.byKey.Get(&storedRow{key: key})
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

// rowIndex keeps rows in the orders in which they are listed.
type rowIndex struct {
	byKey      *btree.BTreeG[*storedRow]
	byInstance *btree.BTreeG[*storedRow] // the tasks that have an instance
}

func newRowIndex() rowIndex {
	unlocked := btree.Options{NoLocks: true}
	return rowIndex{
		byKey:      btree.NewBTreeGOptions(lessByKey, unlocked),
		byInstance: btree.NewBTreeGOptions(lessByInstance, unlocked),
	}
}

// instanceOf returns the instance of a task, and nothing for other rows.
func instanceOf(e *storedRow) string {
	if t, ok := e.row.(*cluster.Task); ok {
		return t.Instance
	}
	return ""
}

// lessByInstance keeps the tasks of an instance together, in the order of their keys.
func lessByInstance(a, b *storedRow) bool {
	return cmp.Or(cmp.Compare(a.key.Cluster, b.key.Cluster), cmp.Compare(instanceOf(a), instanceOf(b)),
		cmp.Compare(a.key.Sort, b.key.Sort)) < 0
}

// replace stores a row in the place of the one before, which is nil for a new row. The new row is
// nil if the one before is deleted.
func (x *rowIndex) replace(before, after *storedRow) {
	if before != nil && instanceOf(before) != "" {
		x.byInstance.Delete(before)
	}
	if after == nil {
		x.byKey.Delete(before)
		return
	}
	x.byKey.Set(after)
	if instanceOf(after) != "" {
		x.byInstance.Set(after)
	}
}

// ascend calls visit with the rows of a range, in order, until it returns false. Of a range of an
// instance's tasks it reads no other row.
func (x *rowIndex) ascend(r state.Range, visit func(*storedRow) bool) {
	from := &storedRow{key: state.Key{Cluster: r.Cluster, Sort: r.From}}
	rows, instance := x.byKey, ""
	if r.Tasks != nil && r.Tasks.Instance != "" {
		rows, instance = x.byInstance, r.Tasks.Instance
		from.row = &cluster.Task{TaskAssignment: cluster.TaskAssignment{Instance: instance}}
	}
	rows.Ascend(from, func(e *storedRow) bool {
		return e.key.Cluster == r.Cluster && e.key.Sort < r.To && (instance == "" || instanceOf(e) == instance) &&
			visit(e)
	})
}

// readAtOnce is how many rows are read under the lock, or copied, before the next look at whether
// the caller has left.
const readAtOnce = 256

// List returns a range as last written, ordered by sort key. The rows are copied outside of the
// lock: stored rows never change.
func (s *Store) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if err := listingError(ctx, r); err != nil {
		return nil, err
	}
	var found []*storedRow
	sizes, err := newReadSizes(r), error(nil)
	if r.Tasks == nil { // all of one moment, which a snapshot needs
		found, err = s.findStoredRows(r)
	} else {
		err = s.visitStoredRows(ctx, r, sizes, func(e *storedRow) error {
			found = append(found, e)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	rows := make([]state.Row, len(found))
	for i, e := range found {
		if i%readAtOnce == 0 {
			if err := listingError(ctx, r); err != nil {
				return nil, err
			}
		}
		if r.Tasks == nil {
			sizes.add(e)
		}
		rows[i] = copyStoredRow(e.row)
	}
	if err := countList(s, sizes); err != nil {
		return nil, fmt.Errorf("listing rows %s of cluster %s: %w", r.From, r.Cluster, err)
	}
	return rows, nil
}

// listingError says that the caller has left.
func listingError(ctx context.Context, r state.Range) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("listing rows %s of cluster %s: %w", r.From, r.Cluster, err)
	}
	return nil
}

// Visit calls visit with each row of a range, outside of the lock and without a copy.
func (s *Store) Visit(ctx context.Context, r state.Range, visit func(state.Row) error) error {
	sizes := newReadSizes(r)
	err := s.visitStoredRows(ctx, r, sizes, func(e *storedRow) error { return visit(e.row) })
	return cmp.Or(err, countList(s, sizes))
}

// visitStoredRows calls visit with the rows of a range, and adds the bytes that were read. It
// holds the lock for some rows at a time, so that no writer waits for a long list.
func (s *Store) visitStoredRows(
	ctx context.Context, r state.Range, sizes readSizes, visit func(*storedRow) error,
) error {
	part, visited := r, 0
	for part.Limit = readAtOnce; ; {
		if err := listingError(ctx, r); err != nil {
			return err
		}
		rows, err := s.findStoredRows(part)
		if err != nil {
			return err
		}
		for _, e := range rows {
			sizes.add(e)
			if r.Tasks != nil && !r.Tasks.Matches(e.row) {
				continue
			}
			if err := visit(e); err != nil {
				return err
			}
			if visited++; visited == r.Limit {
				return nil
			}
		}
		if len(rows) < part.Limit {
			return nil
		}
		part.From = rows[len(rows)-1].key.Sort + "\x00"
	}
}

// findStoredRows returns the rows from r.From on and before r.To, at most r.Limit unless that is 0.
// It heeds of r.Tasks only the instance.
func (s *Store) findStoredRows(r state.Range) ([]*storedRow, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.failed != nil || r.From >= r.To {
		return nil, s.failed
	}
	var found []*storedRow
	s.rows.ascend(r, func(e *storedRow) bool {
		found = append(found, e)
		return len(found) != r.Limit
	})
	return found, nil
}
