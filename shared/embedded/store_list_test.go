package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

// storeOfTasks has 2,000 tasks of some 600 bytes, on a hundred instances in turn.
func storeOfTasks(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for n := range 2000 {
		task := &cluster.Task{Head: cluster.Head{Cluster: "c", Rev: 1},
			TaskSpec: cluster.TaskSpec{ID: fmt.Sprintf("%032x", n), Owner: "o",
				TaskDefinition: strings.Repeat("d", 500)},
			TaskAssignment: cluster.TaskAssignment{Instance: fmt.Sprint("i-", n%100)}}
		if _, err := s.Write(t.Context(), state.Write{Put: task}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A list of an instance's tasks reads these alone: 20 tasks are 20 units at most, and all are 300.
func TestTasksOfAnInstanceAreARange(t *testing.T) {
	s := storeOfTasks(t)
	r := state.Prefix("c", state.PrefixTask)
	r.Tasks = &state.TaskFilter{Instance: "i-7"}
	before := s.Usage().ReadUnits
	rows, err := s.List(t.Context(), r)
	if err != nil || len(rows) != 20 {
		t.Fatalf("%d tasks, %v", len(rows), err)
	}
	if read := s.Usage().ReadUnits - before; read > 20 {
		t.Errorf("it read %g units", read)
	}
}

// A caller who leaves in the middle of a list ends it, within some hundred rows.
func TestListsEndWithTheirCaller(t *testing.T) {
	s := storeOfTasks(t)
	r := state.Prefix("c", state.PrefixTask)
	ctx, leave := context.WithCancel(t.Context())
	visited := 0
	err := s.Visit(ctx, r, func(state.Row) error { visited++; leave(); return nil })
	if !errors.Is(err, context.Canceled) || visited > 500 {
		t.Errorf("Visit: %d of 2000 rows, %v", visited, err)
	}
	leaving := &leavingContext{Context: t.Context(), looks: 3}
	if rows, err := s.List(leaving, r); !errors.Is(err, context.Canceled) {
		t.Errorf("List: %d rows, %v", len(rows), err)
	}
}

// leavingContext ends after it was asked for its error a number of times.
type leavingContext struct {
	context.Context
	looks int
}

func (c *leavingContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}
