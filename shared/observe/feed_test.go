package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

type stillClock struct{}

func (stillClock) Now() time.Time                             { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }
func (stillClock) Sleep(context.Context, time.Duration) error { return nil }

func fedTask(n int) *cluster.Task {
	return &cluster.Task{Head: cluster.Head{Cluster: "prod", Rev: 1},
		TaskSpec:       cluster.TaskSpec{ID: fmt.Sprintf("%032x", n), Owner: "0123456789ab", Service: "web"},
		TaskAssignment: cluster.TaskAssignment{Instance: fmt.Sprint("i-", n%7), Desired: cluster.TaskRunning}}
}

// newFeed returns a feed over a store with n tasks.
func newFeed(t *testing.T, n int) (*state.Feed, *embedded.Store) {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for i := range n {
		if _, err := store.Write(t.Context(), state.Write{Put: fedTask(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return state.NewFeed(store, stillClock{}), store
}

func observation(n int, version int64, last cluster.TaskStatus) state.Write {
	return state.Write{Observe: &state.Observation{Task: state.KeyOf(fedTask(n)), Version: version, Last: last}}
}

// announced returns the tasks of all inbox rows, by id, and how many rows there are.
func announced(t *testing.T, store state.Store) (tasks map[string]*cluster.Task, rows int) {
	t.Helper()
	inbox, err := state.ListRows[*state.Inbox](t.Context(), store, state.Prefix("prod", state.PrefixInbox), "the inbox")
	if err != nil {
		t.Fatal(err)
	}
	tasks = map[string]*cluster.Task{}
	for _, row := range inbox {
		some, err := row.Tasks()
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range some {
			tasks[task.ID] = task
		}
	}
	return tasks, len(inbox)
}

// One row has a hundred tasks as the store has them.
func TestAFeedAnnouncesManyTasksAtOnce(t *testing.T) {
	feed, store := newFeed(t, 100)
	for i := range 100 {
		if _, err := feed.Write(t.Context(), observation(i, 1, cluster.TaskRunning)); err != nil {
			t.Fatal(err)
		}
	}
	if tasks, _ := announced(t, store); len(tasks) > 0 {
		t.Errorf("the inbox has %d tasks before the flush", len(tasks))
	}
	if err := feed.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	tasks, rows := announced(t, store)
	if len(tasks) != 100 || rows != 1 {
		t.Fatalf("%d rows have %d tasks", rows, len(tasks))
	}
	for id, task := range tasks {
		if task.Rev != 2 || task.Last != cluster.TaskRunning || task.Cluster != "prod" {
			t.Errorf("task %s is %+v", id, task)
		}
	}
	if err := feed.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, again := announced(t, store); again != 1 {
		t.Errorf("a second flush writes again: %d rows", again)
	}
}

// A function that was cut off before it wrote the inbox row finds the change made, and announces it.
func TestAFeedAnnouncesWhatItFindsDone(t *testing.T) {
	feed, store := newFeed(t, 3)
	for n, w := range []state.Write{observation(0, 1, cluster.TaskStopped), observation(1, 1, cluster.TaskStopped)} {
		if _, err := store.Write(t.Context(), w); err != nil { // by the function that was cut off
			t.Fatal(n, err)
		}
	}
	var c *state.Conflict
	if _, err := feed.Write(t.Context(), observation(0, 1, cluster.TaskStopped)); !errors.As(err, &c) {
		t.Fatalf("the repeated observation: %v", err)
	}
	claim := state.Write{Claim: &state.Claim{Task: state.KeyOf(fedTask(1)), Attempt: 1}}
	if _, err := feed.Write(t.Context(), claim); !errors.As(err, &c) {
		t.Fatalf("the claim of a stopped task: %v", err)
	}
	claim.Claim.Task = state.KeyOf(fedTask(2))
	if _, err := feed.Write(t.Context(), claim); err != nil { // which placement need not know
		t.Fatal(err)
	}
	if err := feed.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tasks, _ := announced(t, store); len(tasks) != 2 {
		t.Errorf("the inbox has %d tasks, want the two that have stopped", len(tasks))
	}
}

// The row that says that work is done is written after the inbox row.
func TestAFeedFlushesBeforeWorkIsDone(t *testing.T) {
	done := state.Key{Cluster: "prod", Sort: state.PrefixOutbox + "o"}
	for name, write := range map[string]func(*state.Feed) error{
		"Deletion": func(f *state.Feed) error {
			_, err := f.Write(t.Context(), state.Write{Delete: &done})
			return err
		},
		"OutboxRow": func(f *state.Feed) error {
			row := &state.Outbox{Head: cluster.Head{Cluster: "prod"}, ID: "o"}
			_, err := f.Write(t.Context(), state.Write{Put: row, Any: true})
			return err
		},
		"Commit": func(f *state.Feed) error {
			row := &cluster.Instance{Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: "i"}
			return f.Commit(t.Context(), state.Commit{Cluster: "prod", Version: state.NoVersion,
				Writes: []state.Write{{Put: row}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			feed, store := newFeed(t, 1)
			if _, err := feed.Write(t.Context(), observation(0, 1, cluster.TaskStopped)); err != nil {
				t.Fatal(err)
			}
			if err := write(feed); err != nil {
				t.Fatal(err)
			}
			if tasks, _ := announced(t, store); len(tasks) != 1 {
				t.Errorf("the inbox has %d tasks", len(tasks))
			}
		})
	}
}

// A commit that puts a task which concerns placement has the inbox row in the same transaction.
func TestACommitAnnouncesItsTasks(t *testing.T) {
	feed, store := newFeed(t, 2)
	ended, waits := *fedTask(0), *fedTask(1)
	ended.Rev, ended.Last = 2, cluster.TaskStopped
	waits.Rev = 2
	if err := feed.Commit(t.Context(), state.Commit{Cluster: "prod", Version: state.NoVersion,
		Writes: []state.Write{{Put: &ended}, {Put: &waits}}}); err != nil {
		t.Fatal(err)
	}
	if tasks, _ := announced(t, store); len(tasks) != 1 || tasks[ended.ID] == nil {
		t.Errorf("the inbox has %v, want the task that has ended", tasks)
	}
}

// Tasks that take too much room are named only, and placement reads them.
func TestALargeInboxNamesItsTasks(t *testing.T) {
	var tasks []*cluster.Task
	seed := uint64(1)
	for i := range 100 {
		task := fedTask(i)
		var text strings.Builder // hard to compress
		for text.Len() < 4<<10 {
			seed = seed*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&text, "%016x", seed)
		}
		task.Reason = text.String()
		tasks = append(tasks, task)
	}
	inbox, err := state.NewInbox("prod", stillClock{}.Now(), tasks)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := inbox.Tasks(); err != nil || len(got) != 0 || len(inbox.Unread) != 100 {
		t.Errorf("%d tasks and %d names, %v; want only names", len(got), len(inbox.Unread), err)
	}
}
