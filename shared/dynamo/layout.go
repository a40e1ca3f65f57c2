package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"berth/shared/state"
)

// Earlier versions kept the tasks and aliases of a cluster under the cluster's own partition key.
// Today's version writes new rows only to their places of today, and looks for others at both. A row
// moves when it is changed, or when [State.MoveRows] comes to it. After that the cluster has a layout
// item, and no read looks at the earlier places any more.

// layoutSort is the sort key of the layout item. It is no kind of row, so lists leave it out.
const layoutSort = "layout"

// layoutAttribute of the layout item is since when no row was found at an earlier place, in Unix
// seconds.
const layoutAttribute = "since"

// layoutAge is how old the layout item must be before it is trusted. A function of the earlier version
// that is still running may write rows to the earlier places, for at most the 15 minutes that Lambda
// gives an invocation.
const layoutAge = 20 * time.Minute

// layouts remembers the clusters whose layout item is trusted. They never go back.
type layouts struct {
	mu    sync.Mutex
	moved map[string]bool
}

func (l *layouts) isMoved(clusterName string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved[clusterName]
}

func (l *layouts) markMoved(clusterName string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved == nil {
		l.moved = map[string]bool{}
	}
	l.moved[clusterName] = true
}

// earlierLayout is the state with what it must do because of rows at their earlier places.
type earlierLayout struct{ *State }

// unmovedKey returns the earlier place of a row.
func unmovedKey(k state.Key) item {
	return item{partitionKey: stringAttribute(k.Cluster), sortKey: stringAttribute(k.Sort)}
}

// hasMoved reports whether all rows of the cluster are at their places of today.
func (s earlierLayout) hasMoved(ctx context.Context, clusterName string) (bool, error) {
	if s.layouts.isMoved(clusterName) {
		return true, nil
	}
	since, err := s.readLayout(ctx, clusterName)
	if err != nil || since == nil || time.Since(*since) < layoutAge {
		return false, err
	}
	s.layouts.markMoved(clusterName)
	return true, nil
}

// readLayout returns since when a cluster has no row at an earlier place, nil if that is not known.
func (s earlierLayout) readLayout(ctx context.Context, clusterName string) (*time.Time, error) {
	in := &dynamodb.GetItemInput{
		TableName: &s.Table, ConsistentRead: aws.Bool(true),
		Key:                    unmovedKey(state.Key{Cluster: clusterName, Sort: layoutSort}),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	var out *dynamodb.GetItemOutput
	err := s.retryRepeatable(ctx, func(ctx context.Context) (err error) {
		out, err = s.Client.GetItem(ctx, in, disableRetries)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the layout of cluster %s: %w", clusterName, err)
	}
	s.usage.countRead(out.ConsumedCapacity)
	since, ok := out.Item[layoutAttribute].(*types.AttributeValueMemberN)
	if !ok {
		return nil, nil
	}
	seconds, err := strconv.ParseInt(since.Value, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the layout of cluster %s: %w", clusterName, err)
	}
	at := time.Unix(seconds, 0)
	return &at, nil
}

// writeLayout says that a cluster has no row at an earlier place, unless that is said already.
func (s earlierLayout) writeLayout(ctx context.Context, clusterName string, since time.Time) error {
	it := unmovedKey(state.Key{Cluster: clusterName, Sort: layoutSort})
	it[layoutAttribute] = numberAttribute(since.Unix())
	st := statement{item: it, condition: "attribute_not_exists(#pk)", names: map[string]string{"#pk": partitionKey}}
	err := s.retryRepeatable(ctx, func(ctx context.Context) error { return s.putItem(ctx, st) })
	var known *types.ConditionalCheckFailedException
	if err != nil && !errors.As(err, &known) {
		return fmt.Errorf("writing the layout of cluster %s: %w", clusterName, err)
	}
	return nil
}

// removeLayout removes the layout item of a cluster that is deleted.
func (s earlierLayout) removeLayout(ctx context.Context, clusterName string) error {
	key := state.Key{Cluster: clusterName, Sort: layoutSort}
	err := s.retryRepeatable(ctx, func(ctx context.Context) error {
		return s.deleteItem(ctx, statement{key: key, at: unmovedKey(key)})
	})
	if err != nil {
		return fmt.Errorf("removing the layout of cluster %s: %w", clusterName, err)
	}
	return nil
}

// readUnmoved returns the row at its earlier place, nil if there is none.
func (s earlierLayout) readUnmoved(ctx context.Context, key state.Key, consistent bool) (state.Row, error) {
	if key.PartitionKey() == key.Cluster {
		return nil, nil
	}
	if moved, err := s.hasMoved(ctx, key.Cluster); moved || err != nil {
		return nil, err
	}
	return s.readItem(ctx, key, unmovedKey(key), consistent)
}

// listUnmoved returns the rows of a range that are at their earlier places, in order.
func (s earlierLayout) listUnmoved(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	moved, err := s.hasMoved(ctx, r.Cluster)
	if moved || err != nil {
		return nil, err
	}
	for _, prefix := range []string{state.PrefixAlias, state.PrefixTask} {
		part := r
		part.From, part.To = max(r.From, prefix), min(r.To, prefix+"\xff")
		err := s.visitPartition(ctx, part, s.queryInput(part, r.Cluster), func(row state.Row) error {
			rows = append(rows, row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// withMovedRows executes statements. If one does not find its row, which may still be at its earlier
// place, it moves the rows and executes the statements again.
func (s earlierLayout) withMovedRows(ctx context.Context, sts []statement, execute func() error) error {
	if err := s.prepareLayout(ctx, sts); err != nil {
		return err
	}
	err := execute()
	var c *state.Conflict
	if !errors.As(err, &c) || c.Row != nil || c.Key.PartitionKey() == c.Key.Cluster {
		return err
	}
	found := false
	for _, st := range sts {
		moved, failed := s.moveRow(ctx, st.key)
		if failed != nil {
			return failed
		}
		found = found || moved
	}
	if !found {
		return err
	}
	return execute()
}

// prepareLayout does what statements need that would succeed without having found the row at its
// earlier place: it writes the layout of a cluster that is created, and moves rows that are put or
// deleted unconditionally. A row that is created needs no look: its key has not been in use, because
// it was read before, or because the placement version makes it unique.
func (s earlierLayout) prepareLayout(ctx context.Context, sts []statement) error {
	for _, st := range sts {
		switch {
		case st.key.Sort == state.PrefixMeta && st.item != nil && st.creates:
			if err := s.beginLayout(ctx, st.key.Cluster); err != nil {
				return err
			}
		case st.condition == "" && st.key.PartitionKey() != st.key.Cluster:
			if _, err := s.moveRow(ctx, st.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginLayout writes the layout of a new cluster. One that was deleted and is created again under its
// name may have rows at earlier places.
func (s earlierLayout) beginLayout(ctx context.Context, clusterName string) error {
	rows, err := s.listUnmoved(ctx, state.Range{Cluster: clusterName, To: "\xff", Limit: 1})
	if err != nil || len(rows) > 0 {
		return err
	}
	return s.writeLayout(ctx, clusterName, time.Unix(0, 0))
}

// moveRow moves a row from its earlier place, and reports whether there was one. A row that is at its
// place of today, too, was put there unconditionally, so the earlier one is only deleted.
func (s earlierLayout) moveRow(ctx context.Context, key state.Key) (bool, error) {
	row, err := s.readUnmoved(ctx, key, true)
	if row == nil || err != nil {
		return false, err
	}
	put, err := putStatement(row)
	if err != nil {
		return false, err
	}
	put.condition, put.names, put.values = "attribute_not_exists(#pk)", map[string]string{"#pk": partitionKey}, nil
	remove := deleteStatement(key, row.Header().Rev)
	remove.at = unmovedKey(key)
	err = s.executeTransaction(ctx, []statement{put, remove})
	if isDenied(err) { // placement may not delete: it copies the row, and MoveRows deletes the earlier one
		_, err = s.executeSingle(ctx, put)
	}
	var c *state.Conflict
	if errors.As(err, &c) && c.Row != nil { // it is there already, or has changed here meanwhile
		now, err := s.readItem(ctx, key, keyAttributes(key), true)
		if now == nil || err != nil {
			return now == nil, err // the caller tries again with the changed row
		}
		return true, s.retryRepeatable(ctx, func(ctx context.Context) error {
			return s.deleteItem(ctx, statement{key: key, at: unmovedKey(key)})
		})
	}
	if c != nil {
		return true, nil // somebody else has moved or deleted it
	}
	return err == nil, err
}

// isDenied reports whether the function's role does not allow the call.
func isDenied(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException"
}

// MoveRows moves the rows of a cluster that an earlier version wrote to their places of today. It may
// be cut off anywhere, and called again. It takes one read where there is nothing to move.
func (s *State) MoveRows(ctx context.Context, clusterName string) error {
	return earlierLayout{s}.moveRows(ctx, clusterName)
}

func (s earlierLayout) moveRows(ctx context.Context, clusterName string) error {
	if moved, err := s.hasMoved(ctx, clusterName); moved || err != nil {
		return err
	}
	rows, err := s.listUnmoved(ctx, state.Range{Cluster: clusterName, To: "\xff"})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := s.moveRow(ctx, state.KeyOf(row)); err != nil {
			return fmt.Errorf("moving row %s of cluster %s: %w", state.KeyOf(row).Sort, clusterName, err)
		}
	}
	if len(rows) > 0 {
		return nil // the next call finds out whether any are left
	}
	return s.writeLayout(ctx, clusterName, time.Now())
}
