package handler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// gather keeps the loads that tasks report until the window ends (P10). A task that is not there, or has ended, is passed
// over: its report came too late.
func gather(ctx context.Context, state State, clock Clock, clusterName string, reports []cluster.LoadReport) error {
	window := clock.Now().Add(loadMargin).Truncate(cluster.LoadWindow).Add(cluster.LoadWindow)
	kept := false
	for _, r := range reports {
		owner := cluster.TaskOwner(r.Task)
		row, err := state.Peek(ctx, cluster.TaskKey(clusterName, owner, r.Task))
		if err != nil {
			return fmt.Errorf("reading task %s: %w", r.Task, err)
		}
		if t, ok := row.(*cluster.Task); !ok || t == nil || t.Ended() {
			continue
		}
		pending := &cluster.PendingLoad{
			Head: cluster.Head{Cluster: clusterName}, Window: window, Owner: owner, ID: r.Task, Loads: r.Loads,
		}
		if err := keepLoad(ctx, state, pending); err != nil {
			return fmt.Errorf("keeping the load of task %s: %w", r.Task, err)
		}
		kept = true
	}
	if !kept {
		return nil
	}
	due := &cluster.Due{Head: cluster.Head{Cluster: clusterName}, At: window, Kind: cluster.DueLoads}
	_, err := state.Write(ctx, cluster.Write{Put: due, Any: true})
	return wrap(err, "having loads of cluster %s taken in", clusterName)
}

// loadMargin is how long before its end a window takes no more reports: what is written while it ends could be missed.
const loadMargin = 2 * time.Second

// keepLoad writes the report, with what others of the task said in the same window of other metrics.
func keepLoad(ctx context.Context, state State, report *cluster.PendingLoad) error {
	return retry("keeping a load", func() error {
		row, err := state.Get(ctx, cluster.KeyOf(report))
		if err != nil {
			return err
		}
		next := *report
		next.Rev = 1
		if old, ok := row.(*cluster.PendingLoad); ok && old != nil {
			next.Rev = old.Rev + 1
			next.Loads = maps.Clone(old.Loads)
			maps.Copy(next.Loads, report.Loads)
		}
		_, err = state.Write(ctx, cluster.Write{Put: &next})
		return err
	})
}

// loadsPerCommit is how many tasks' loads one commit takes in: each is a task and the report that goes.
const loadsPerCommit = cluster.MaxWrites / 2

// takeInLoads writes the reports whose window has ended into the rows of their tasks. Each commit narrows: an instance
// may have less left than a decision under way takes it to have.
func takeInLoads(ctx context.Context, state State, clock Clock, clusterName string) error {
	rows, err := state.List(ctx, cluster.LoadsBy(clusterName, clock.Now()))
	if err != nil {
		return fmt.Errorf("listing loads: %w", err)
	}
	for len(rows) > 0 {
		n := min(len(rows), loadsPerCommit)
		if err := takeInSome(ctx, state, clusterName, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func takeInSome(ctx context.Context, state State, clusterName string, reports []cluster.Row) error {
	return retry("taking in loads of cluster "+clusterName, func() error {
		return narrowAll(ctx, state, clusterName, func(stamp int64) ([]cluster.Write, error) {
			var writes []cluster.Write
			changed := map[cluster.Key]*cluster.Task{}
			for _, row := range reports {
				key := cluster.KeyOf(row)
				writes = append(writes, cluster.Write{Delete: &key})
				p, ok := row.(*cluster.PendingLoad)
				if !ok {
					continue
				}
				t, err := reported(ctx, state, p, changed)
				if err != nil {
					return nil, err
				}
				if t != nil {
					t.Stamp = stamp
					changed[cluster.KeyOf(t)] = t
				}
			}
			return append(writes, puts(changed)...), nil
		})
	})
}

// puts are the writes of the rows, always in the same order.
func puts(rows map[cluster.Key]*cluster.Task) []cluster.Write {
	var out []cluster.Write
	for _, t := range rows {
		out = append(out, cluster.Write{Put: t})
	}
	slices.SortFunc(out, func(a, b cluster.Write) int { return cmp.Compare(a.Key().Sort, b.Key().Sort) })
	return out
}

// reported is the task's row with the loads of the report; nil where they change nothing. Reports come in order of
// window, so the later has the last word.
func reported(ctx context.Context, state State, p *cluster.PendingLoad, changed map[cluster.Key]*cluster.Task) (*cluster.Task, error) {
	key := cluster.TaskKey(p.Cluster, p.Owner, p.ID)
	old := changed[key]
	rev := int64(0)
	if old == nil {
		row, err := state.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading task %s: %w", p.ID, err)
		}
		if old, _ = row.(*cluster.Task); old == nil || old.Ended() {
			return nil, nil
		}
		rev = 1
	}
	next := *old
	next.Rev += rev
	next.Reported = maps.Clone(old.Reported)
	if next.Reported == nil {
		next.Reported = map[string]int64{}
	}
	metrics, err := metricsOf(ctx, state, old)
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

// metricsOf are the metrics that a task has: others that it reports mean nothing.
func metricsOf(ctx context.Context, state State, t *cluster.Task) ([]cluster.Metric, error) {
	if t.Rules != nil {
		return t.Rules.Metrics, nil
	}
	if t.Service == "" {
		return nil, nil
	}
	row, err := state.Peek(ctx, cluster.ServiceKey(t.Cluster, t.Service))
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", t.Service, err)
	}
	if s, ok := row.(*cluster.Service); ok && s != nil {
		return s.Rules.Metrics, nil
	}
	return nil, nil
}
