package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/state"
)

func layoutTask(n int) *cluster.Task {
	id := fmt.Sprintf("%032x", n)
	return &cluster.Task{Head: cluster.Head{Cluster: "prod", Rev: 1},
		TaskSpec:       cluster.TaskSpec{ID: id, Owner: "0123456789ab", Service: "web"},
		TaskAssignment: cluster.TaskAssignment{Instance: fmt.Sprint("i-", n), Desired: cluster.TaskRunning}}
}

// putUnmoved writes tasks as an earlier version did: with the cluster's own partition key.
func putUnmoved(t *testing.T, s *dynamo.State, tasks ...*cluster.Task) {
	t.Helper()
	for _, task := range tasks {
		if _, err := s.Write(t.Context(), state.Write{Put: task}); err != nil {
			t.Fatal(err)
		}
		key := state.KeyOf(task)
		got, err := server.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.Table,
			Key: attributeNames(key.PartitionKey(), key.Sort)})
		if err != nil || got.Item == nil {
			t.Fatal(got, err)
		}
		if _, err := server.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.Table,
			Key: attributeNames(key.PartitionKey(), key.Sort)}); err != nil {
			t.Fatal(err)
		}
		got.Item["pk"] = &types.AttributeValueMemberS{Value: "prod"}
		if _, err := server.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.Table,
			Item: got.Item}); err != nil {
			t.Fatal(err)
		}
	}
}

// partitionKeys returns the partition keys of all items but the layout, with how many items have each.
func partitionKeys(t *testing.T, s *dynamo.State) map[string]int {
	t.Helper()
	out, err := server.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &s.Table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]int{}
	for _, it := range out.Items {
		if it["sk"].(*types.AttributeValueMemberS).Value != "layout" {
			keys[it["pk"].(*types.AttributeValueMemberS).Value]++
		}
	}
	return keys
}

// The rows of an earlier version are read, listed and changed as if they were at their places of
// today, and each change moves the row.
func TestRowsOfTheEarlierLayoutAreUsed(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	const n = 40
	old, key := make([]*cluster.Task, n), make([]state.Key, n)
	for i := range old {
		old[i] = layoutTask(2 * i)
		key[i] = state.KeyOf(old[i])
	}
	putUnmoved(t, s, old...)
	for i := range n {
		if _, err := s.Write(ctx, state.Write{Put: layoutTask(2*i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	expectTasks(t, s, 2*n)

	if row, err := s.Get(ctx, key[0]); err != nil || row == nil {
		t.Fatalf("Get = %v, %v", row, err)
	}
	if _, err := s.Write(ctx, state.Write{Claim: &state.Claim{Task: key[0], Attempt: 1, At: t0}}); err != nil {
		t.Errorf("a claim: %v", err)
	}
	changed := *old[1]
	changed.Rev, changed.Replaces = 2, "x"
	if _, err := s.Write(ctx, state.Write{Put: &changed}); err != nil {
		t.Errorf("a put: %v", err)
	}
	if err := s.Commit(ctx, state.Commit{Cluster: "prod", Version: state.NoVersion, Writes: []state.Write{
		{Stop: &state.Stop{Task: key[2], Code: "C"}},
		{Observe: &state.Observation{Task: key[3], Version: 1, Last: cluster.TaskRunning}},
		{Put: layoutTask(1000)},
	}}); err != nil {
		t.Errorf("a commit: %v", err)
	}
	if _, err := s.Write(ctx, state.Write{Delete: &key[4]}); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if row, err := s.Get(ctx, key[4]); err != nil || row != nil {
		t.Errorf("the deleted row is %v, %v", row, err)
	}
	stale := *old[5]
	stale.Rev = 7
	var c *state.Conflict
	if _, err := s.Write(ctx, state.Write{Put: &stale}); !errors.As(err, &c) || c.Row == nil {
		t.Errorf("a put of the wrong revision: %v, want a conflict with the row", err)
	}
	expectTasks(t, s, 2*n)
	if left := partitionKeys(t, s)["prod"]; left != n-6 {
		t.Errorf("%d rows are at their earlier places, want %d: those that were not changed", left, n-6)
	}
}

// expectTasks lists the tasks of the cluster, at once and in pages, and expects each once, in order.
func expectTasks(t *testing.T, s *dynamo.State, want int) {
	t.Helper()
	rows, err := s.List(t.Context(), state.Prefix("prod", state.PrefixTask))
	if err != nil || len(rows) != want {
		t.Errorf("%d tasks, %v, want %d", len(rows), err, want)
	}
	for i := 1; i < len(rows); i++ {
		if state.KeyOf(rows[i-1]).Sort >= state.KeyOf(rows[i]).Sort {
			t.Errorf("row %d is %s, after %s", i, state.KeyOf(rows[i]).Sort, state.KeyOf(rows[i-1]).Sort)
		}
	}
	paged := 0
	for r := (state.Range{Cluster: "prod", From: state.PrefixTask, To: state.PrefixTask + "\xff", Limit: 7}); ; {
		page, err := s.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range page {
			if at := paged + i; at < len(rows) && state.KeyOf(row) != state.KeyOf(rows[at]) {
				t.Errorf("row %d of the pages is %s, want %s", at, state.KeyOf(row).Sort, state.KeyOf(rows[at]).Sort)
			}
		}
		if paged += len(page); len(page) < r.Limit {
			break
		}
		r.From = state.KeyOf(page[len(page)-1]).Sort + "\x00"
	}
	if paged != want {
		t.Errorf("the pages have %d tasks, want %d", paged, want)
	}
}

// MoveRows moves what is left, and says so only when it has found nothing.
func TestMoveRows(t *testing.T) {
	s := open(t)
	const n = 30
	for i := range n {
		putUnmoved(t, s, layoutTask(i))
	}
	for range 2 {
		if err := s.MoveRows(t.Context(), "prod"); err != nil {
			t.Fatal(err)
		}
		expectTasks(t, s, n)
	}
	keys := partitionKeys(t, s)
	total := 0
	for key, rows := range keys {
		if !strings.HasPrefix(key, "prod#") {
			t.Errorf("%d rows have the partition key %s", rows, key)
		}
		total += rows
	}
	if total != n || len(keys) < 8 {
		t.Errorf("%d rows in %d partition keys, want %d in 8 at least", total, len(keys), n)
	}
}

// A new cluster has no earlier layout, so its rows take one read each.
func TestANewClusterHasTodaysLayout(t *testing.T) {
	s := open(t)
	meta := &state.Meta{Head: cluster.Head{Cluster: "prod", Rev: 1}}
	for _, row := range []state.Row{meta, layoutTask(1)} {
		if _, err := s.Write(t.Context(), state.Write{Put: row}); err != nil {
			t.Fatal(err)
		}
	}
	again := &dynamo.State{Client: s.Client, Table: s.Table} // another environment
	if _, err := again.Get(t.Context(), state.KeyOf(layoutTask(1))); err != nil {
		t.Fatal(err)
	}
	before := again.Usage().Calls
	if _, err := again.Get(t.Context(), state.KeyOf(layoutTask(1))); err != nil {
		t.Fatal(err)
	}
	if calls := again.Usage().Calls - before; calls != 1 {
		t.Errorf("a read takes %d calls, want 1", calls)
	}
}

// noDeletion is the table as a role sees it that may not delete items.
type noDeletion struct{ dynamo.API }

func (a noDeletion) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	for _, it := range in.TransactItems {
		if it.Delete != nil {
			return nil, &smithy.GenericAPIError{Code: "AccessDeniedException"}
		}
	}
	return a.API.TransactWriteItems(ctx, in, o...)
}

// A function that may not delete changes rows of the earlier layout, too. The sweep removes what is left.
func TestRowsAreCopiedWithoutLeaveToDelete(t *testing.T) {
	s := open(t)
	putUnmoved(t, s, layoutTask(1), layoutTask(2))
	limited := &dynamo.State{Client: noDeletion{s.Client}, Table: s.Table}
	key := state.KeyOf(layoutTask(1))
	for range 2 {
		_, err := limited.Write(t.Context(), state.Write{Observe: &state.Observation{Task: key, Version: 1,
			Last: cluster.TaskRunning}})
		if state.IgnoreConflict(err) != nil {
			t.Fatal(err)
		}
	}
	expectTasks(t, limited, 2)
	for range 2 {
		if err := s.MoveRows(t.Context(), "prod"); err != nil {
			t.Fatal(err)
		}
	}
	expectTasks(t, s, 2)
	row, err := s.Get(t.Context(), key)
	if task, ok := row.(*cluster.Task); err != nil || !ok || task.Last != cluster.TaskRunning || task.Rev != 2 {
		t.Errorf("the task is %v, %v; want it observed once", row, err)
	}
	if left := partitionKeys(t, s)["prod"]; left != 0 {
		t.Errorf("%d rows are at their earlier places", left)
	}
}

// A deleted cluster leaves no item behind.
func TestADeletedClusterHasNoLayout(t *testing.T) {
	s := open(t)
	meta := &state.Meta{Head: cluster.Head{Cluster: "prod", Rev: 1}}
	key := state.KeyOf(meta)
	for _, w := range []state.Write{{Put: meta}, {Delete: &key}} {
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	out, err := server.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &s.Table})
	if err != nil || len(out.Items) > 0 {
		t.Errorf("%v are left, %v", out.Items, err)
	}
}
