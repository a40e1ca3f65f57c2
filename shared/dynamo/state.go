package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/state"
)

// API is what the state calls of DynamoDB. *dynamodb.Client implements it; tests put faults
// between.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
		error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
		error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// State is the state in one table. It may be used by several goroutines.
type State struct {
	Client API
	Table  string
	// Pause waits between attempts; nil waits in real time.
	Pause func(ctx context.Context, d time.Duration) error
	// Timeout ends one attempt; zero is 5 s. A connection that hangs must not use up the function's
	// time.
	Timeout time.Duration

	usage   counter
	layouts layouts
}

// Get returns one row as last written, nil if there is none.
func (s *State) Get(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readRow(ctx, key, true)
}

// Peek is Get at half the price. It is eventually consistent: it may miss the last second's writes.
func (s *State) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	return s.readRow(ctx, key, false)
}

// readRow looks at the place where an earlier version kept the row before it looks at today's: a row
// that moves meanwhile is then seen at one of them.
func (s *State) readRow(ctx context.Context, key state.Key, consistent bool) (state.Row, error) {
	before, err := earlierLayout{s}.readUnmoved(ctx, key, consistent)
	if err != nil {
		return nil, err
	}
	row, err := s.readItem(ctx, key, keyAttributes(key), consistent)
	if row == nil && err == nil {
		return before, nil
	}
	return row, err
}

// readItem may be repeated at will, because reading changes nothing.
func (s *State) readItem(ctx context.Context, key state.Key, at item, consistent bool) (state.Row, error) {
	in := &dynamodb.GetItemInput{
		TableName: &s.Table, Key: at, ConsistentRead: &consistent,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	var out *dynamodb.GetItemOutput
	err := s.retryRepeatable(ctx, func(ctx context.Context) (err error) {
		out, err = s.Client.GetItem(ctx, in, disableRetries)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading row %s of cluster %s: %w", key.Sort, key.Cluster, err)
	}
	s.usage.countRead(out.ConsumedCapacity)
	if out.Item == nil {
		return nil, nil
	}
	return decodeRow(out.Item)
}

// Write makes one change and returns the row after it, nil after a deletion. The error is a
// *state.Conflict with the row that is there if the condition does not hold, and
// cluster.ErrAmbiguous if the outcome stays unknown.
func (s *State) Write(ctx context.Context, w state.Write) (state.Row, error) {
	st, err := statementFor(w)
	if err != nil {
		return nil, err
	}
	var after item
	err = earlierLayout{s}.withMovedRows(ctx, []statement{st}, func() (err error) {
		after, err = s.executeSingle(ctx, st)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("writing row %s of cluster %s: %w", st.key.Sort, st.key.Cluster, err)
	}
	if w.Delete != nil && w.Delete.Sort == state.PrefixMeta {
		if err := (earlierLayout{s}).removeLayout(ctx, st.key.Cluster); err != nil {
			return nil, err
		}
	}
	if w.Put == nil {
		return decodeOrNil(after)
	}
	if !w.Any {
		return w.Put, nil
	}
	row, err := decodeOrNil(after)
	if err != nil || row == nil {
		return nil, err
	}
	w.Put.Header().Rev = row.Header().Rev
	return w.Put, nil
}

// Commit makes all changes or none. The error is a *state.Conflict if a condition or the version
// does not hold, and another one if there are more than state.MaxWrites writes or a row is named
// twice. A time-out is resolved by sending the same transaction again under its token. If that
// fails, too, the error is cluster.ErrAmbiguous.
func (s *State) Commit(ctx context.Context, c state.Commit) error {
	sts, err := commitStatements(c)
	if err != nil {
		return fmt.Errorf("committing to cluster %s: %w", c.Cluster, err)
	}
	err = earlierLayout{s}.withMovedRows(ctx, sts, func() (err error) {
		switch len(sts) {
		case 0:
		case 1: // a transaction of one would cost twice as much
			_, err = s.executeSingle(ctx, sts[0])
		default:
			err = s.executeTransaction(ctx, sts)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("committing to cluster %s: %w", c.Cluster, err)
	}
	return nil
}

// commitStatements returns the check of the version, if there is one, and the writes. DynamoDB
// would refuse a row named twice with an error that does not say which.
func commitStatements(c state.Commit) ([]statement, error) {
	if len(c.Writes) > state.MaxWrites {
		return nil, fmt.Errorf("%d writes, at most %d are allowed", len(c.Writes), state.MaxWrites)
	}
	sts := make([]statement, 0, len(c.Writes)+1)
	if c.Version >= 0 {
		sts = append(sts, moveVersionStatement(c.Cluster, c.Version))
	}
	for _, w := range c.Writes {
		st, err := statementFor(w)
		if err != nil {
			return nil, err
		}
		sts = append(sts, st)
	}
	seen := map[state.Key]bool{}
	for _, st := range sts {
		if seen[st.key] {
			return nil, fmt.Errorf("row %s is named twice", st.key.Sort)
		}
		seen[st.key] = true
	}
	return sts, nil
}
