package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/state"
)

var t0 = time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)

// TestObserveDoesWhatApplySays makes random observations of random task rows, and expects of the
// table what state.Write.Apply computes: whether each holds, the row after it, and the row of the
// conflict. An observation's condition and update have more cases than package porttest can list.
func TestObserveDoesWhatApplySays(t *testing.T) {
	s := open(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		writeAsApplied(t, s, state.TaskKey("c", "0123456789ab", fmt.Sprint("t", n)), drawObserve)
	})
}

func writeAsApplied(t *rapid.T, s *dynamo.State, key state.Key, draw func(*rapid.T, state.Key) state.Write) {
	ctx := context.Background()
	var row state.Row
	if rapid.IntRange(0, 9).Draw(t, "absent") > 0 {
		row = drawTask(t, key)
		if _, err := s.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatalf("putting the row: %v", err)
		}
	}
	for range 8 {
		w := draw(t, key)
		next, holds := w.Apply(row)
		nextJSON := rowJSON(t, next) // before the store can change the row
		got, err := s.Write(ctx, w)
		var conflict *state.Conflict
		switch {
		case holds && err != nil:
			t.Fatalf("Write = %v, want it to hold on %s", err, rowJSON(t, row))
		case holds:
			row = next
			if diff := cmp.Diff(nextJSON, rowJSON(t, got)); diff != "" {
				t.Fatalf("returned row (-want +got):\n%s", diff)
			}
		case !errors.As(err, &conflict):
			t.Fatalf("Write = %v, want a conflict with %s", err, rowJSON(t, row))
		default:
			if diff := cmp.Diff(rowJSON(t, row), rowJSON(t, conflict.Row)); diff != "" || conflict.Key != key ||
				conflict.Version {
				t.Fatalf("conflict %v, its row (-want +got):\n%s", conflict, diff)
			}
		}
	}
	stored, err := s.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rowJSON(t, row), rowJSON(t, stored)); diff != "" {
		t.Fatalf("stored row (-want +got):\n%s", diff)
	}
}

func rowJSON(t *rapid.T, r state.Row) string {
	if r == nil {
		return "none"
	}
	data, err := state.EncodeRow(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func drawTime(t *rapid.T, label string) time.Time {
	if rapid.Bool().Draw(t, label+" zero") {
		return time.Time{}
	}
	return t0.Add(time.Duration(rapid.IntRange(0, 1e9).Draw(t, label)))
}

func drawStatus(t *rapid.T, label string) cluster.TaskStatus {
	return rapid.SampledFrom([]cluster.TaskStatus{"", cluster.TaskPending, cluster.TaskRunning,
		cluster.TaskStopped}).Draw(t, label)
}

func drawExit(t *rapid.T) *int {
	if rapid.Bool().Draw(t, "no exit code") {
		return nil
	}
	code := rapid.IntRange(0, 2).Draw(t, "exit code")
	return &code
}

func drawTask(t *rapid.T, key state.Key) *cluster.Task {
	owner, id, _ := strings.Cut(strings.TrimPrefix(key.Sort, state.PrefixTask), "#")
	words := rapid.SampledFrom([]string{"", "x", "y"})
	return &cluster.Task{
		Head: cluster.Head{Cluster: key.Cluster, Expires: int64(rapid.IntRange(0, 1).Draw(t, "ttl"))},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: owner, TaskDefinition: "web:1", Needs: cluster.Resources{CPU: 256_000, Memory: 512},
			Tags:      map[string]string{"Näme \"q\"\\\n": "<välue>\x7f"},
			Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "a", Command: []string{}}}},
			CreatedAt: cluster.At(t0),
		},
		TaskAssignment: cluster.TaskAssignment{
			Desired: rapid.SampledFrom([]cluster.TaskStatus{cluster.TaskRunning, cluster.TaskStopped}).Draw(t,
				"desired"),
			ClaimedAt: cluster.At(drawTime(t, "claimed")),
		},
		TaskReport: cluster.TaskReport{
			Attempt: rapid.Int32Range(0, 2).Draw(t, "attempt"),
			Last:    drawStatus(t, "last"), Version: int64(rapid.IntRange(0, 2).Draw(t, "version")),
			ECSID: words.Draw(t, "ecs id"), Health: cluster.Health(rapid.IntRange(0, 2).Draw(t, "health")),
			Started: cluster.At(drawTime(t, "started")), Stopped: cluster.At(drawTime(t, "stopped")),
			StopCode: words.Draw(t, "code"), Reason: words.Draw(t, "reason"), ExitCode: drawExit(t),
		},
	}
}

func drawObserve(t *rapid.T, key state.Key) state.Write {
	words := rapid.SampledFrom([]string{"", "x", "z"})
	return state.Write{Observe: &state.Observation{
		Task: key, Version: int64(rapid.IntRange(0, 4).Draw(t, "event")), ECSID: words.Draw(t, "event's id"),
		Last: drawStatus(t, "event's last"), Health: cluster.Health(rapid.IntRange(0, 2).Draw(t, "event's health")),
		Started: drawTime(t, "event's start"),
		Stopped: drawTime(t, "event's stop"), StopCode: words.Draw(t, "event's code"),
		Reason:   words.Draw(t, "event's reason"),
		ExitCode: drawExit(t), Expires: int64(rapid.IntRange(0, 2).Draw(t, "expires")),
	}}
}

func TestListReadsAllPages(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	big := strings.Repeat("x", 100_000)
	for i := range 25 { // 2.5 MB: three pages
		row := &cluster.ServiceEvent{Head: cluster.Head{Cluster: "c", Rev: 1}, Service: "s", Slot: i, Message: big}
		if _, err := s.Write(ctx, state.Write{Put: row}); err != nil {
			t.Fatal(err)
		}
	}
	calls := s.Usage().Calls
	rows, err := s.List(ctx, state.Prefix("c", state.PrefixEvent))
	if err != nil || len(rows) != 25 {
		t.Fatalf("List = %d rows, %v; want 25", len(rows), err)
	}
	if pages := s.Usage().Calls - calls; pages < 3 {
		t.Errorf("read in %d pages, want at least 3: the test does not test pages", pages)
	}
	for i, row := range rows {
		if e := row.(*cluster.ServiceEvent); e.Slot != i {
			t.Fatalf("row %d is slot %d", i, e.Slot)
		}
	}
	if rows, err = s.List(ctx, state.Range{Cluster: "c", From: "event#", To: "event$", Limit: 20}); err != nil ||
		len(rows) != 20 {
		t.Fatalf("List with a limit = %d rows, %v; want 20", len(rows), err)
	}
	if rows, err = s.List(ctx, state.Range{Cluster: "c", From: "event#s#03", To: "event#s#05"}); err != nil ||
		len(rows) != 2 {
		t.Fatalf("List from slot 3 to 5 = %d rows, %v; want 2, as its end is not in it", len(rows), err)
	}
}

func TestUsageCountsUnits(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	meta := &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}}
	steps := []struct {
		name        string
		do          func() error
		read, write float64
	}{
		// One unit each for the row and the layout item, which is read before.
		{"PutOfCluster", func() error { _, err := s.Write(ctx, state.Write{Put: meta}); return err }, 1, 2},
		{"Get", func() error { _, err := s.Get(ctx, state.KeyOf(meta)); return err }, 1, 0},
		{"Peek", func() error { _, err := s.Peek(ctx, state.KeyOf(meta)); return err }, 0.5, 0},
		{"CommitOfOne", func() error { return s.Commit(ctx, state.Commit{Cluster: "c", Version: 0}) }, 0, 1},
		{"Commit", func() error {
			w := state.Write{Put: &cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: "i"}}
			return s.Commit(ctx, state.Commit{Cluster: "c", Version: 1, Writes: []state.Write{w}})
		}, 0, 4},
		{"List", func() error { _, err := s.List(ctx, state.Prefix("c", state.PrefixInstance)); return err }, 1, 0},
	}
	for _, step := range steps {
		before := s.Usage()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		after := s.Usage()
		if r, w := after.ReadUnits-before.ReadUnits, after.WriteUnits-before.WriteUnits; r != step.read ||
			w != step.write {
			t.Errorf("%s cost %g read and %g write units, want %g and %g", step.name, r, w, step.read, step.write)
		}
	}
}
