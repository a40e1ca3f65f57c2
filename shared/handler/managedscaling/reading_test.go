package managedscaling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

// readingWorld is a table in which placement is at a batch, and a function that reads it.
type readingWorld struct {
	*pass
	t     *testing.T
	now   time.Time
	meta  state.Meta
	lists []string // where each list began
}

func newReadingWorld(t *testing.T) *readingWorld {
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &readingWorld{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	w.meta = state.Meta{Head: cluster.Head{Cluster: "prod"}, Version: 5, CreatedAt: w.now.Add(-time.Hour)}
	w.pass = &pass{Handler: &Handler{State: &notedState{store, w}, Clock: w}}
	w.instance("x", "")
	w.claim(5)
	w.read()
	return w
}

func (w *readingWorld) Now() time.Time { return w.now }

func (w *readingWorld) Sleep(_ context.Context, d time.Duration) error {
	w.now = w.now.Add(d)
	return nil
}

type notedState struct {
	state.Store
	w *readingWorld
}

func (s *notedState) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	s.w.lists = append(s.w.lists, r.From)
	return s.Store.List(ctx, r)
}

func (w *readingWorld) put(row state.Row) {
	w.t.Helper()
	row.Header().Cluster = "prod"
	if _, err := w.State.Write(w.t.Context(), state.Write{Put: row, Any: true}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *readingWorld) claim(batch int64) { w.put(&state.Checkpoint{Batch: batch}) }

func (w *readingWorld) instance(id, releasedIn string) {
	w.put(&cluster.Instance{ID: id, Status: cluster.InstanceActive, ReleasedIn: releasedIn})
}

func taskOn(id, instance string) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: "prod"}, TaskSpec: cluster.TaskSpec{Owner: "o", ID: id},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: instance},
	}
}

// end writes the set of a batch.
func (w *readingWorld) end(batch int64, change func(*state.ChangeSet), tasks ...*cluster.Task) {
	w.t.Helper()
	set := state.NewChangeSet(w.meta, batch, w.now)
	var changes []state.Change
	for _, t := range tasks {
		changes = append(changes, state.Change{Key: state.KeyOf(t), Row: t})
	}
	if err := set.Pack(changes); err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(set)
	}
	w.put(set)
}

// read reads the cluster. It returns the tasks that it sees and the group that each marked instance is
// released in, by id, and whether all tasks were read.
func (w *readingWorld) read() (tasks map[string]bool, marks map[string]string, whole bool) {
	w.t.Helper()
	w.lists = nil
	rows, err := w.readPlacement(w.t.Context(), &w.meta)
	if err != nil {
		w.t.Fatal(err)
	}
	tasks, marks = map[string]bool{}, map[string]string{}
	for _, row := range rows {
		switch r := row.(type) {
		case *cluster.Instance:
			if r.ReleasedIn != "" {
				marks[r.ID] = r.ReleasedIn
			}
		case *cluster.Task:
			tasks[r.ID] = true
		}
	}
	for _, from := range w.lists {
		whole = whole || from == state.PrefixTask
	}
	return tasks, marks, whole
}

func TestReadingAppliesChangeSets(t *testing.T) {
	w := newReadingWorld(t)
	one, two := taskOn("1", "x"), taskOn("2", "x")
	w.put(one)
	w.end(5, nil, one)
	w.claim(6)
	w.put(two)
	w.meta.Version++
	w.end(6, nil, two)
	if tasks, _, whole := w.read(); !tasks["1"] || !tasks["2"] || whole {
		t.Errorf("it sees %v, everything was read: %v", tasks, whole)
	}
}

// What makes a set unusable makes it read everything, once.
func TestReadingReadsEverything(t *testing.T) {
	for name, change := range map[string]func(*state.ChangeSet){
		"Omitted":           func(s *state.ChangeSet) { s.Packed, s.Omitted = "", true },
		"Unreadable":        func(s *state.ChangeSet) { s.Packed = "no base64" },
		"OfAnEarlierBatch":  func(s *state.ChangeSet) { s.Batch = 4 },
		"OfALaterBatch":     func(s *state.ChangeSet) { s.Batch = 7 },
		"OfAnotherCluster":  func(s *state.ChangeSet) { s.ClusterCreatedAt = s.ClusterCreatedAt.Add(-time.Second) },
		"OfAnOlderVersion":  func(s *state.ChangeSet) { s.Version--; s.At = s.At.Add(-maxLag - time.Second) },
		"AfterMoreThanMost": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newReadingWorld(t)
			task := taskOn("1", "x")
			w.put(task)
			w.meta.Version++
			if change != nil {
				w.end(5, change)
				w.claim(6)
			} else {
				w.claim(5 + maxSets)
			}
			if tasks, _, whole := w.read(); !tasks["1"] || !whole {
				t.Errorf("it sees %v, everything was read: %v", tasks, whole)
			}
			if _, _, whole := w.read(); whole {
				t.Error("everything was read again although nothing has changed")
			}
		})
	}
}

// More rows than one look should apply are read as a whole.
func TestReadingBoundsWhatItApplies(t *testing.T) {
	rng, tasks := rand.New(rand.NewPCG(1, 1)), []*cluster.Task{}
	for range 6000 { // random ids, of which little can be compressed
		id := fmt.Sprintf("%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64())
		tasks = append(tasks, taskOn(id, "x"))
	}
	for _, c := range []struct {
		sets  int
		whole bool
	}{{3, false}, {16, true}} {
		w := newReadingWorld(t)
		var packed string
		w.end(5, func(s *state.ChangeSet) { packed = s.Packed }, tasks...)
		for n := range c.sets - 1 {
			w.end(int64(6+n), func(s *state.ChangeSet) { s.Packed = packed })
		}
		w.claim(int64(4 + c.sets))
		if _, _, whole := w.read(); whole != c.whole {
			t.Errorf("%d sets of %d bytes: everything was read: %v", c.sets, len(packed), whole)
		}
	}
}

// While placement is at a batch, the schedule's look does with the last one's changes for some seconds.
// A look that a wake-up asks for does not.
func TestReadingLags(t *testing.T) {
	w := newReadingWorld(t)
	w.end(5, nil)
	w.claim(6) // it has not ended
	w.put(taskOn("1", "x"))
	w.meta.Version++
	for _, step := range []struct {
		name  string
		after time.Duration
		woken bool
		whole bool
	}{{"AtOnce", 0, false, false}, {"InTime", maxLag, false, false}, {"Late", time.Second, false, true}} {
		w.now = w.now.Add(step.after)
		if tasks, _, whole := w.read(); whole != step.whole || tasks["1"] != step.whole {
			t.Errorf("%s it sees %v, everything was read: %v", step.name, tasks, whole)
		}
	}
	w = newReadingWorld(t)
	w.end(5, nil)
	w.claim(6)
	w.visited = map[string]bool{"prod": true}
	if _, _, whole := w.read(); !whole {
		t.Error("a wake-up had it read the changes of the batch before")
	}
}

// Who sees that an instance is marked as released sees the tasks that were placed there before: package
// scaling releases the instance otherwise ("A release takes two decisions").
func TestReadingShowsNoMarkWithoutEarlierTasks(t *testing.T) {
	w := newReadingWorld(t)
	w.end(5, nil)
	w.claim(6) // it places a task, and is cut off
	w.put(taskOn("1", "x"))
	w.meta.Version++
	if tasks, _, _ := w.read(); tasks["1"] {
		t.Fatal("the look does not lag")
	}
	w.instance("x", "g") // which that look marks, and it drains another instance
	w.meta.Version++
	w.readings["prod"].hasStaleInstances = true
	w.now = w.now.Add(3 * time.Second)
	if tasks, marks, _ := w.read(); marks["x"] == "g" && !tasks["1"] {
		t.Error("x is marked, and the task that was placed there before is missing")
	}
}

// Rows that are gone leave the reading, expired ones too, and older versions do not replace newer ones.
func TestReadingKeepsRowsAsTheyAre(t *testing.T) {
	w := newReadingWorld(t)
	r := w.readings["prod"]
	for _, id := range []string{"1", "2", "3"} {
		task := taskOn(id, "x")
		task.Rev = 2
		r.put(task)
	}
	old := taskOn("1", "y")
	old.Rev = 1
	r.put(old)
	r.remove(state.KeyOf(taskOn("2", "")))
	r.remove(state.KeyOf(taskOn("2", "")))
	expired := taskOn("3", "x")
	expired.Rev, expired.Expires = 3, w.now.Unix()
	r.put(expired)
	for _, row := range r.copyRows(w.now) {
		if task, ok := row.(*cluster.Task); ok && (task.ID != "1" || task.Instance != "x") {
			t.Errorf("it has task %s on %s", task.ID, task.Instance)
		}
	}
	if len(r.rows) != 3 || len(r.index) != 3 { // with the instance
		t.Errorf("%d rows, %d in the index", len(r.rows), len(r.index))
	}
	for key, at := range r.index {
		if state.KeyOf(r.rows[at]) != key {
			t.Errorf("the index has %v where %v is", key, state.KeyOf(r.rows[at]))
		}
	}
	r.replaceInstances([]state.Row{&cluster.Instance{Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: "y"}})
	for _, row := range r.rows {
		if i, ok := row.(*cluster.Instance); ok && i.ID != "y" {
			t.Errorf("instance %s is still there", i.ID)
		}
	}
}
