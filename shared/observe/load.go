package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// GatherLoads stores the loads that tasks report until their window ends (P10). It skips tasks that
// do not exist or have stopped, and reports that are older than [cluster.MaxReportAge]: they came
// too late. Of each metric it stores only what is newer than the last report, so a report that is
// delivered again, late or out of order changes nothing.
func GatherLoads(
	ctx context.Context, store state.Store, clock state.Clock, clusterName string, reports []cluster.LoadReport,
) error {
	now := clock.Now()
	window := now.Add(loadMargin).Truncate(cluster.LoadWindow).Add(cluster.LoadWindow)
	kept := false
	for _, r := range reports {
		owner := cluster.TaskOwner(r.Task)
		row, err := store.Peek(ctx, state.TaskKey(clusterName, owner, r.Task))
		if err != nil {
			return fmt.Errorf("reading task %s: %w", r.Task, err)
		}
		if t, ok := row.(*cluster.Task); !ok || t == nil || t.HasEnded() {
			continue
		}
		pending := &state.PendingLoad{
			Head: cluster.Head{Cluster: clusterName}, Window: window, Owner: owner, ID: r.Task, Loads: r.Loads,
		}
		if !r.At.IsZero() && now.Sub(r.At) > cluster.MaxReportAge {
			continue
		}
		stored, err := storeReport(ctx, store, clock, pending, r.At)
		if err != nil {
			return fmt.Errorf("storing the load of task %s: %w", r.Task, err)
		}
		kept = kept || stored
	}
	if !kept {
		return nil
	}
	due := state.NewDue(clusterName, state.DueLoads, "", window, now)
	_, err := store.Write(ctx, state.Write{Put: due, Any: true})
	return cluster.Wrap(err, "scheduling the loads of cluster %s to be applied", clusterName)
}

// loadMargin is how long before its end a window stops taking reports. A report written while the
// window ends could be missed.
const loadMargin = 2 * time.Second

// storeReport stores what is new in a report, and reports whether anything is. The report was made
// at that time; zero stands for now, when everything is new. A time in the future counts as now: it
// must not hide later reports. The times are written last: if the function dies before, the report
// that is delivered again is stored again.
func storeReport(
	ctx context.Context, store state.Store, clock state.Clock, report *state.PendingLoad, at time.Time,
) (stored bool, err error) {
	now := clock.Now()
	err = state.RetryRaces(ctx, clock, "storing when a load was reported", func() error {
		times := state.LoadTimes{Head: report.Head, Owner: report.Owner, ID: report.ID}
		row, err := store.Get(ctx, state.KeyOf(&times))
		if err != nil {
			return err
		}
		if old, ok := row.(*state.LoadTimes); ok && old != nil {
			times = *old
		}
		newer, when := *report, cluster.At(now)
		if !at.IsZero() {
			when = min(when, cluster.At(at))
			newer.Loads = newerLoads(report.Loads, times.Times, when)
		}
		if stored = len(newer.Loads) > 0; !stored {
			return nil
		}
		newer.Times = map[string]cluster.Instant{}
		for name := range newer.Loads {
			newer.Times[name] = when
		}
		if err := mergeReport(ctx, store, clock, &newer); err != nil {
			return err
		}
		if times.Times = maps.Clone(times.Times); times.Times == nil {
			times.Times = map[string]cluster.Instant{}
		}
		maps.Copy(times.Times, newer.Times)
		times.Rev++
		times.Expires = now.Add(cluster.MaxReportAge).Unix() + 1
		_, err = store.Write(ctx, state.Write{Put: &times})
		return err
	})
	return stored, err
}

// newerLoads returns the loads whose last report was before that time.
func newerLoads(loads map[string]int64, last map[string]cluster.Instant, at cluster.Instant) map[string]int64 {
	newer := map[string]int64{}
	for name, load := range loads {
		if before, reported := last[name]; !reported || before < at {
			newer[name] = load
		}
	}
	return newer
}

// mergeReport stores a report together with other reports of the same task and window. They may be
// about other metrics. Of the same metric the later report counts, which may have been stored first
// if two functions store them at the same time.
func mergeReport(ctx context.Context, store state.Store, clock state.Clock, report *state.PendingLoad) error {
	return state.RetryRaces(ctx, clock, "storing a load", func() error {
		old, err := state.ReadRow[*state.PendingLoad](ctx, store, state.KeyOf(report), "a load of task "+report.ID)
		if err != nil {
			return err
		}
		next := *report
		next.Rev = 1
		if old != nil {
			next.Rev = old.Rev + 1
			next.Loads, next.Times = maps.Clone(old.Loads), maps.Clone(old.Times)
			if next.Times == nil {
				next.Times = map[string]cluster.Instant{}
			}
			for name, at := range report.Times {
				if at >= next.Times[name] {
					next.Loads[name], next.Times[name] = report.Loads[name], at
				}
			}
		}
		_, err = store.Write(ctx, state.Write{Put: &next})
		return err
	})
}

// loadsPerCommit is how many reports one commit applies. Each takes two writes: the task's row, and
// the deletion of the report.
const loadsPerCommit = state.MaxWrites / 2

// ApplyLoads writes the reports whose window has ended by a time into the rows of their tasks. Each commit
// moves the placement version on, because an instance may have less left than a decision in
// progress assumes.
func ApplyLoads(
	ctx context.Context, store state.Store, clock state.Clock, clusterName string, by time.Time,
) error {
	rows, err := store.List(ctx, state.LoadsBy(clusterName, by))
	if err != nil {
		return fmt.Errorf("listing loads: %w", err)
	}
	for len(rows) > 0 {
		n := min(len(rows), loadsPerCommit)
		if err := applyReports(ctx, store, clock, clusterName, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// applyReports applies some reports, and deletes them, in one commit.
func applyReports(
	ctx context.Context, store state.Store, clock state.Clock, clusterName string, reports []state.Row,
) error {
	return state.RetryRaces(ctx, clock, "applying loads of cluster "+clusterName, func() error {
		return state.CommitNarrowingAll(ctx, store, clock, clusterName, func(stamp int64) ([]state.Write, error) {
			var writes []state.Write
			changed := map[state.Key]*cluster.Task{}
			for _, row := range reports {
				key := state.KeyOf(row)
				writes = append(writes, state.Write{Delete: &key})
				p, ok := row.(*state.PendingLoad)
				if !ok {
					continue
				}
				t, err := withReportedLoads(ctx, store, p, changed)
				if err != nil {
					return nil, err
				}
				if t != nil {
					t.Stamp = stamp
					changed[state.KeyOf(t)] = t
				}
			}
			return append(writes, sortedWrites(changed)...), nil
		})
	})
}

// sortedWrites returns one write per row, ordered by key so that runs are deterministic.
func sortedWrites(rows map[state.Key]*cluster.Task) []state.Write {
	var out []state.Write
	for _, t := range rows {
		out = append(out, state.Write{Put: t})
	}
	slices.SortFunc(out, func(a, b state.Write) int { return cmp.Compare(a.Key().Sort, b.Key().Sort) })
	return out
}

// withReportedLoads returns the task's row with the loads of the report, or nil if they change
// nothing. changed has the rows that earlier reports of the same commit have changed; reports come
// in order of window, so the latest wins.
func withReportedLoads(
	ctx context.Context, store state.Store, p *state.PendingLoad, changed map[state.Key]*cluster.Task,
) (*cluster.Task, error) {
	key := state.TaskKey(p.Cluster, p.Owner, p.ID)
	old := changed[key]
	rev := int64(0)
	if old == nil {
		var err error
		old, err = state.ReadRow[*cluster.Task](ctx, store, key, "task "+p.ID)
		if err != nil || old == nil || old.HasEnded() {
			return nil, err
		}
		rev = 1
	}
	next := *old
	next.Rev += rev
	next.Reported = maps.Clone(old.Reported)
	if next.Reported == nil {
		next.Reported = map[string]int64{}
	}
	metrics, err := TaskMetrics(ctx, store, old)
	if err != nil {
		return nil, err
	}
	for _, m := range metrics {
		if load, ok := p.Loads[m.Name]; ok {
			next.Reported[m.Name] = load
		}
	}
	if maps.Equal(next.Reported, old.Reported) {
		return nil, nil
	}
	return &next, nil
}

// TaskMetrics returns the metrics that a task has. Loads reported of other metrics are ignored.
func TaskMetrics(ctx context.Context, store state.Store, t *cluster.Task) ([]cluster.Metric, error) {
	if t.Rules != nil {
		return t.Rules.Metrics, nil
	}
	if t.Service == "" {
		return nil, nil
	}
	row, err := store.Peek(ctx, state.ServiceKey(t.Cluster, t.Service))
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", t.Service, err)
	}
	if s, ok := row.(*cluster.Service); ok && s != nil {
		return s.Rules.Metrics, nil
	}
	return nil, nil
}
