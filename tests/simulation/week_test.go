package simulation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// A simulatedWeek is a cluster without faults whose services follow the hours of five working days. Managed
// scaling sizes its group, consolidation empties instances, and balancing moves tasks.
type simulatedWeek struct {
	*scalingWorld
	changed        time.Time                         // when the wanted tasks changed last
	balanced       map[string]balancedTask           // by id of the replacement, since then
	statuses       map[string]cluster.InstanceStatus // by instance
	moves, allowed int                               // since then
	balanceMoves   int                               // in all
	drainMoves     int                               // tasks of instances that consolidation has drained
	problems       []string
}

// A balancedTask is a task that balancing has moved: to where, and the instances that it has left.
type balancedTask struct {
	to   string
	left []string
}

// weekServices are the services with the load of their tasks, and how many of these are wanted at night, in
// the morning, at noon and in the evening.
var weekServices = []struct {
	name   string
	load   int64
	wanted [4]int
}{{"web", 10, [4]int{4, 24, 32, 10}}, {"pay", 4, [4]int{3, 12, 12, 6}}, {"mail", 1, [4]int{5, 5, 9, 5}}}

// weekHours are when the numbers of wanted tasks change.
var weekHours = [4]time.Duration{0, 8 * time.Hour, 12 * time.Hour, 18 * time.Hour}

// simulateWeek runs a week and returns it.
func simulateWeek(t *testing.T, plant ScalingBug) *simulatedWeek {
	t.Helper()
	s, err := newScalingWorld(ScalingRun{Seed: 3, Plant: plant}) // every fourth seed has no faults
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &simulatedWeek{scalingWorld: s, statuses: map[string]cluster.InstanceStatus{}}
	s.shape = scalingShape{Max: 20, Target: 100, MinStep: 1, MaxStep: 10000, Protection: true, Draining: true,
		Consolidating: true}
	if err := w.createServices(); err != nil {
		t.Fatal(err)
	}
	w.checker.LogRecords = w.countMoves
	for day := range 5 {
		for part, hour := range weekHours {
			w.runUntil(epoch.Add(time.Duration(day)*24*time.Hour + hour))
			w.changeWanted(t, part)
		}
	}
	w.runUntil(epoch.Add(5 * 24 * time.Hour))
	w.changeWanted(t, 0)
	settled := w.Loop.Now().Add(2 * time.Hour)
	w.runUntil(settled)
	before := w.balanceMoves + w.drainMoves
	w.runUntil(epoch.Add(7 * 24 * time.Hour))
	if n := w.balanceMoves + w.drainMoves - before; n > 0 {
		w.fail("%d tasks moved in two days without a change", n)
	}
	for _, broken := range w.checker.Broken {
		w.fail("%s", broken)
	}
	return w
}

func (w *simulatedWeek) fail(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("%s: ", w.Loop.Now().Sub(epoch))+fmt.Sprintf(format, args...))
}

func (w *simulatedWeek) createServices() error {
	if err := w.createScaledCluster(); err != nil {
		return err
	}
	w.registerDefinition(`{"family":"half","containerDefinitions":[{"name":"main","image":"i","cpu":225,"memory":200}]}`)
	if err := w.API.Configurations.PutConfiguration(context.Background(), &cluster.Configuration{
		Head: cluster.Head{Cluster: clusterName}, Rebalancing: &cluster.Rebalancing{Enabled: true}}); err != nil {
		return err
	}
	for _, x := range weekServices {
		if _, err := w.API.Services.CreateService(context.Background(), operation.CreateService{
			Cluster: clusterName, Name: x.name, TaskDefinition: "half:1", Desired: new(0),
			Rules:             cluster.Rules{Metrics: []cluster.Metric{{Name: "heat", Load: x.load}}},
			ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(false)},
		}); err != nil {
			return err
		}
	}
	return nil
}

// changeWanted changes how many tasks are wanted. Until the next change, at most as many tasks may move as
// this starts and stops.
func (w *simulatedWeek) changeWanted(t *testing.T, part int) {
	t.Helper()
	w.changed, w.balanced, w.moves, w.allowed = w.Loop.Now(), map[string]balancedTask{}, 0, 0
	for _, x := range weekServices {
		row, _ := w.serviceRow(x.name)
		w.allowed += max(row.Desired-x.wanted[part], x.wanted[part]-row.Desired)
		if _, err := w.API.Services.UpdateService(context.Background(), operation.UpdateService{Cluster: clusterName,
			Name: x.name, Desired: &x.wanted[part]}); err != nil {
			t.Fatal(err)
		}
	}
}

// countMoves notes what balancing and consolidation begin.
func (w *simulatedWeek) countMoves(records []state.Record) {
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Task:
			if r.Op == state.Insert && row.Balances {
				w.countBalanceMove(row)
			}
		case *cluster.Instance:
			if w.statuses[row.ID] != cluster.InstanceDraining && row.Status == cluster.InstanceDraining {
				w.countDrain(row.ID)
			}
			w.statuses[row.ID] = row.Status
		}
	}
	if w.moves > w.allowed {
		w.fail("%d tasks have moved, after %d were started and stopped %s ago", w.moves, w.allowed,
			w.Loop.Now().Sub(w.changed))
		w.allowed = w.moves
	}
}

func (w *simulatedWeek) countBalanceMove(t *cluster.Task) {
	w.moves++
	w.balanceMoves++
	moved := balancedTask{to: t.Instance}
	for _, row := range w.checker.Rows {
		if old, ok := row.(*cluster.Task); ok && old.ID == t.Replaces {
			moved.left = append(w.balanced[old.ID].left, old.Instance)
		}
	}
	for _, left := range moved.left {
		if left == t.Instance {
			w.fail("balancing moves a task back to instance %s", left)
		}
	}
	w.balanced[t.ID] = moved
}

// countDrain counts the tasks of the instance. Balancing must not have moved one of them there since the
// last change.
func (w *simulatedWeek) countDrain(instance string) {
	for _, row := range w.checker.Rows {
		t, ok := row.(*cluster.Task)
		if !ok || t.Instance != instance || !t.IsActive() {
			continue
		}
		w.moves++
		w.drainMoves++
		if w.balanced[t.ID].to == instance {
			w.fail("consolidation empties instance %s, to which balancing has moved task %s", instance, t.ID)
		}
	}
}

// In a week in which the load of services rises and falls, balancing and consolidation move no task for
// nothing: what one has moved the other does not move away, no more tasks move than a change has started
// and stopped, and none without a change.
func TestWeekOfConsolidationAndBalancing(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	w := simulateWeek(t, NoScalingBug)
	for _, problem := range w.problems {
		t.Error(problem)
	}
	t.Logf("%d tasks moved to balance the cluster, and %d to empty instances", w.balanceMoves, w.drainMoves)
	if w.balanceMoves < 20 || w.drainMoves < 20 {
		t.Errorf("%d tasks moved to balance the cluster and %d to empty instances, expected at least 20 each",
			w.balanceMoves, w.drainMoves)
	}
	t.Run(string(IgnoreConsolidation), func(t *testing.T) {
		if testing.Short() {
			t.Skip("make check runs it: it takes another simulated week")
		}
		if w := simulateWeek(t, IgnoreConsolidation); len(w.problems) == 0 {
			t.Error("the bug is not found")
		}
	})
}
