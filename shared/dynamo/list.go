package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/cluster"
	"berth/shared/state"
)

// List returns a range as last written, ordered by sort key, page by page. It leaves out rows of
// kinds that this version does not know.
func (s *State) List(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	err = s.Visit(ctx, r, func(row state.Row) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Visit calls visit with each row of a range, and holds a page of them at a time; of rows that are
// spread over partition keys, a page of each.
func (s *State) Visit(ctx context.Context, r state.Range, visit func(state.Row) error) error {
	if partitions := r.SpreadPartitions(); partitions != nil {
		return s.visitSpread(ctx, r, partitions, visit)
	}
	return s.visitPartition(ctx, r, s.queryInput(r, r.Cluster), visit)
}

// visitPartition calls visit with each row of a range that has the partition key of the query.
func (s *State) visitPartition(
	ctx context.Context, r state.Range, in *dynamodb.QueryInput, visit func(state.Row) error,
) error {
	visited := 0
	for in != nil {
		var out *dynamodb.QueryOutput
		err := s.retryRepeatable(ctx, func(ctx context.Context) (err error) {
			out, err = s.Client.Query(ctx, in, disableRetries)
			return err
		})
		if err != nil {
			return fmt.Errorf("listing rows %s of cluster %s: %w", r.From, r.Cluster, err)
		}
		s.usage.countRead(out.ConsumedCapacity)
		n, err := visitItems(r, out.Items, r.Limit-visited, visit)
		visited += n
		if err != nil || visited == r.Limit && r.Limit > 0 || len(out.LastEvaluatedKey) == 0 {
			return err
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if in.FilterExpression != nil && in.Limit != nil {
			in.Limit = aws.Int32(min(2**in.Limit, maxPage)) // few rows match
		}
	}
	return nil
}

// visitItems decodes a page, and returns how many rows it has visited, at most limit unless that is
// 0. It leaves out the row at the end of the range, and those that the range does not select.
func visitItems(r state.Range, items []item, limit int, visit func(state.Row) error) (n int, err error) {
	for _, it := range items {
		row, err := decodeRow(it)
		if err != nil {
			return n, err
		}
		if row == nil || state.KeyOf(row).Sort == r.To { // BETWEEN includes its end
			continue
		}
		if r.Tasks != nil && !r.Tasks.Matches(row) {
			continue
		}
		n++
		if err := visit(row); err != nil || n == limit {
			return n, err
		}
	}
	return n, nil
}

// queryInput returns the part of a range with a partition key as a query, nil if the range is empty.
// DynamoDB has no half-open range: visitItems drops the row at the end.
func (s *State) queryInput(r state.Range, partition string) *dynamodb.QueryInput {
	if r.From >= r.To {
		return nil
	}
	e := newExpressions()
	e.addCondition("%s = %s", e.namePlaceholder(partitionKey), e.valuePlaceholder(stringAttribute(partition)))
	// A prefix ends before a byte that no UTF-8 text has, and that DynamoDB would refuse. The last
	// code point sorts after all that sort keys have.
	to := e.valuePlaceholder(stringAttribute(strings.ToValidUTF8(r.To, "\U0010FFFF")))
	if r.From == "" {
		e.addCondition("%s < %s", e.namePlaceholder(sortKey), to)
	} else {
		e.addCondition("%s BETWEEN %s AND %s", e.namePlaceholder(sortKey), e.valuePlaceholder(stringAttribute(r.From)),
			to)
	}
	st := e.buildStatement(state.Key{})
	in := &dynamodb.QueryInput{
		TableName: &s.Table, ConsistentRead: aws.Bool(true), KeyConditionExpression: &st.condition,
		ExpressionAttributeNames: st.names, ExpressionAttributeValues: st.values,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if r.Tasks != nil {
		e.demand = nil
		if filter := e.filterTasks(r.Tasks); filter != "" {
			in.FilterExpression = &filter
		}
	}
	if r.Limit > 0 {
		in.Limit = aws.Int32(int32(min(r.Limit, maxPage))) //nolint:gosec // bounded
	}
	return in
}

// filterTasks returns the filter as an expression, so that DynamoDB sends only what matches. It
// says what [state.TaskFilter.Matches] says, but for the kind of row.
func (e *expressions) filterTasks(f *state.TaskFilter) string {
	equals := func(attr, value string) string {
		return e.namePlaceholder(attr) + " = " + e.valuePlaceholder(stringAttribute(value))
	}
	switch stopped := string(cluster.TaskStopped); f.Desired {
	case "":
	case cluster.TaskStopped:
		e.addCondition("(%s OR %s)", equals("de", stopped), equals("la", stopped))
	default:
		e.addCondition("%s", equals("de", string(f.Desired)))
		e.requireNotStopped()
	}
	if f.Family != "" {
		e.addCondition("begins_with(%s, %s)", e.namePlaceholder("td"), e.valuePlaceholder(stringAttribute(f.Family)))
	}
	if f.Instance != "" {
		e.addCondition("%s", equals("in", f.Instance))
	}
	if f.StartedBy != "" {
		e.addCondition("(%s OR %s)", equals("su", f.StartedBy), equals("re", f.StartedBy))
	}
	return strings.Join(e.demand, " AND ")
}

// maxPage bounds Query's Limit, which has 32 bits. A page ends at 1 MB anyway.
const maxPage = 10000
