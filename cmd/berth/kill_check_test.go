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

// fileChecker checks the files that killed processes left, and remembers what it saw before.
type fileChecker struct {
	t       *testing.T
	data    string
	adopted map[state.Key]string // ECS's task of each row that has one
	ecs     map[string]state.Key // the row of each of ECS's tasks
	caught  int                  // tasks whose start had no recorded answer
}

// remains is what the files contain: Berth's rows, and what really runs.
type remains struct {
	services map[string]*cluster.Service
	tasks    map[state.Key]*cluster.Task
	aliases  map[string]state.Key
	outbox   []*state.Outbox
	truth    []ecs.TaskTruth
}

// inspectFiles reads copies of the files, because opening them changes them.
func (w *fileChecker) inspectFiles() *remains {
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
	clock := stoppedClock{embedded.NewVirtualLoop(time.Now())}
	f, err := sim.Open(sim.Options{Clock: clock, Path: filepath.Join(dir, "fleet.db"),
		Account: cluster.Account{ID: "123456789012", Region: "us-east-1"}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	return newRemains(rows, f.Machines.TaskTruths("default"))
}

// stoppedClock is a clock that never calls back.
type stoppedClock struct{ *embedded.Loop }

func (c stoppedClock) After(time.Duration, func()) {}

func newRemains(rows []state.Row, truth []ecs.TaskTruth) *remains {
	l := &remains{services: map[string]*cluster.Service{}, tasks: map[state.Key]*cluster.Task{},
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

// rowStartedBy returns the row for which a task was started.
func (l *remains) rowStartedBy(startedBy, instance string) *cluster.Task {
	short, _ := cluster.ParseStartedBy(startedBy)
	id := cluster.TaskID(startedBy, instance)
	key, ok := l.aliases[id]
	if !ok {
		key = state.TaskKey("default", short, id)
	}
	return l.tasks[key]
}

// diedBeforeRecording reports whether the process was killed between its last StartTask and the
// recording of the answer: ECS has the tasks, and their rows are claimed but do not have ECS's ids.
func (w *fileChecker) diedBeforeRecording(l *remains, last lastStart) bool {
	w.t.Helper()
	hit := len(last.Instances) > 0
	for _, instance := range last.Instances {
		there := 0
		for _, t := range l.truth {
			if t.StartedBy == last.StartedBy && t.Instance == instance {
				there++
			}
		}
		row := l.rowStartedBy(last.StartedBy, instance)
		hit = hit && there == 1 && row != nil && row.Attempt > 0 && row.ECSID == "" && row.Last == ""
		if !hit {
			w.t.Errorf("ECS has %d tasks started by %s on %s, their row is %+v", there, last.StartedBy, instance, row)
		}
		w.caught++
	}
	return hit
}

// checkAdoptions checks that no row has changed its ECS task, and that no two rows have the same
// one.
func (w *fileChecker) checkAdoptions(l *remains) {
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

// checkRunning checks that exactly the tasks of the rows run, and that nothing was started twice.
func (w *fileChecker) checkRunning(l *remains) {
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
			w.t.Errorf("task %s, started by %s on %s, runs without a row", t.ID, t.StartedBy, t.Instance)
		}
		delete(holding, t.ID)
	}
	for _, row := range holding {
		w.t.Errorf("row %s has task %q on %s, which does not run", row.ID, row.ECSID, row.Instance)
	}
	for p, n := range starts {
		if n > 1 {
			w.t.Errorf("%d tasks were started by %s on %s", n, p.startedBy, p.instance)
		}
	}
	if len(l.outbox) > 0 {
		w.t.Errorf("an outbox row is left: %+v", l.outbox[0])
	}
}
