//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim"
	"berth/shared/sim/ecs"
	"berth/shared/state"
)

// witness looks at the files that a killed process left, and remembers what it saw before.
type witness struct {
	t       *testing.T
	data    string
	adopted map[state.Key]string // ECS's task of each row that has one
	ecs     map[string]state.Key // the other way round
	caught  int                  // tasks whose start had no recorded answer
}

// left is what the files say: Berth's rows, and what really runs.
type left struct {
	services map[string]*cluster.Service
	tasks    map[state.Key]*cluster.Task
	aliases  map[string]state.Key
	outbox   []*state.Outbox
	truth    []ecs.TaskTruth
}

// look opens copies of the files, so that looking changes nothing.
func (w *witness) look() *left {
	w.t.Helper()
	dir := w.t.TempDir()
	for _, name := range []string{"state.db", "fleet.db"} {
		content, err := os.ReadFile(filepath.Join(w.data, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	store, err := embedded.OpenStore(embedded.StoreOptions{Path: filepath.Join(dir, "state.db"),
		Consumers: []string{"placement", "dispatch"}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	rows, err := store.List(context.Background(), state.Range{Cluster: "default", To: "\xff"})
	if err != nil {
		w.t.Fatal(err)
	}
	clock := stopped{embedded.NewVirtualLoop(time.Now())}
	f, err := sim.Open(sim.Options{Clock: clock, Path: filepath.Join(dir, "fleet.db"),
		Account: cluster.Account{ID: "123456789012", Region: "us-east-1"}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	return sorted(rows, f.Machines.TaskTruths("default"))
}

// stopped is a clock that never calls back.
type stopped struct{ *embedded.Loop }

func (c stopped) After(time.Duration, func()) {}

func sorted(rows []state.Row, truth []ecs.TaskTruth) *left {
	l := &left{services: map[string]*cluster.Service{}, tasks: map[state.Key]*cluster.Task{},
		aliases: map[string]state.Key{}, truth: truth}
	for _, row := range rows {
		switch r := row.(type) {
		case *cluster.Service:
			l.services[r.Name] = r
		case *cluster.Task:
			l.tasks[state.KeyOf(r)] = r
		case *state.Alias:
			l.aliases[r.Derived] = state.TaskKey(r.Cluster, r.Owner, r.ID)
		case *state.Outbox:
			l.outbox = append(l.outbox, r)
		}
	}
	return l
}

// row finds the row for which a task was started.
func (l *left) row(startedBy, instance string) *cluster.Task {
	short, _ := cluster.ParseStartedBy(startedBy)
	id := cluster.TaskID(startedBy, instance)
	key, ok := l.aliases[id]
	if !ok {
		key = state.TaskKey("default", short, id)
	}
	return l.tasks[key]
}

// between reports whether the process died between the StartTask of its last words and the recording of its answer:
// ECS has the tasks, their rows are claimed and know nothing of them.
func (w *witness) between(l *left, words start) bool {
	w.t.Helper()
	hit := len(words.Instances) > 0
	for _, instance := range words.Instances {
		there := 0
		for _, t := range l.truth {
			if t.StartedBy == words.StartedBy && t.Instance == instance {
				there++
			}
		}
		row := l.row(words.StartedBy, instance)
		hit = hit && there == 1 && row != nil && row.Attempt > 0 && row.ECSID == "" && row.Last == ""
		if !hit {
			w.t.Errorf("ECS has %d tasks started by %s on %s, their row is %+v", there, words.StartedBy, instance, row)
		}
		w.caught++
	}
	return hit
}

// adoptions checks that a row that had a task of ECS's has no other one now, and that no two rows have the same.
func (w *witness) adoptions(l *left) {
	w.t.Helper()
	for key, row := range l.tasks {
		if row.ECSID == "" {
			if had := w.adopted[key]; had != "" {
				w.t.Errorf("row %s has lost its task %s", key.Sort, had)
			}
			continue
		}
		if had, ok := w.adopted[key]; ok && had != row.ECSID {
			w.t.Errorf("row %s had task %s and now has %s", key.Sort, had, row.ECSID)
		}
		if other, ok := w.ecs[row.ECSID]; ok && other != key {
			w.t.Errorf("rows %s and %s both have task %s", key.Sort, other.Sort, row.ECSID)
		}
		w.adopted[key], w.ecs[row.ECSID] = row.ECSID, key
	}
}

// truth checks that at rest what runs is what the rows say, no more and no less, and that nothing was started twice.
func (w *witness) truth(l *left) {
	w.t.Helper()
	holding := map[string]*cluster.Task{}
	for _, row := range l.tasks {
		if row.HoldsCapacity() {
			holding[row.ECSID] = row
		}
	}
	type place struct{ startedBy, instance string }
	starts := map[place]int{}
	for _, t := range l.truth {
		starts[place{t.StartedBy, t.Instance}]++
		if !t.Alive {
			continue
		}
		if holding[t.ID] == nil {
			w.t.Errorf("task %s, started by %s on %s, runs and no row wants it", t.ID, t.StartedBy, t.Instance)
		}
		delete(holding, t.ID)
	}
	for _, row := range holding {
		w.t.Errorf("row %s says that task %q runs on %s, and it does not", row.ID, row.ECSID, row.Instance)
	}
	for p, n := range starts {
		if n > 1 {
			w.t.Errorf("%d tasks were started by %s on %s", n, p.startedBy, p.instance)
		}
	}
	if len(l.outbox) > 0 {
		w.t.Errorf("still to do: %+v", l.outbox[0])
	}
}
