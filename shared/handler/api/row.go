package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// Rows answers the operations that show what is stored of a cluster, for `berth whatif` and `berth
// export`.
type Rows struct{ *Dependencies }

// decidedOn are the prefixes of the rows that a snapshot is loaded from. With these rows a reader
// can repeat any decision.
var decidedOn = []string{
	state.PrefixMeta, state.PrefixConfiguration, state.PrefixInstance, state.PrefixService, state.PrefixTask,
	state.PrefixDefinition,
	state.PrefixTarget, state.PrefixProtection, state.PrefixThrottle, state.PrefixAlarms,
}

// A page of ListRows has at most maxRows rows, of maxRowBytes together unless it is a single one. A
// Lambda function answers with at most 6 MB, in which an answer's quotes are escaped, and the 50 tags
// of a task alone may have 19 KB.
const (
	maxRows     = 1000
	maxRowBytes = 2 << 20
)

// ListRows returns a page of the rows that placement decides on, ordered by sort key, beginning
// behind after. more reports whether there is another page. Overrides of containers are left out,
// because commands and environments may hold secrets.
func (a *Rows) ListRows(ctx context.Context, clusterName, after string) (out []state.Row, more bool, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, false, err
	}
	bytes := 0
	for _, prefix := range slices.Sorted(slices.Values(decidedOn)) {
		r := state.Prefix(clusterName, prefix)
		if after >= r.To {
			continue
		}
		if after >= r.From {
			r.From = after + "\x00"
		}
		// One row more than fits tells whether there is another page.
		r.Limit = maxRows + 1 - len(out)
		rows, err := a.State.List(ctx, r)
		if err != nil {
			return nil, false, fmt.Errorf("listing the rows of cluster %s: %w", clusterName, err)
		}
		for _, row := range rows {
			row = withoutOverrides(row)
			data, err := state.EncodeRow(row)
			if err != nil {
				return nil, false, fmt.Errorf("encoding row %s: %w", state.KeyOf(row).Sort, err)
			}
			if bytes += len(data); len(out) == maxRows || len(out) > 0 && bytes > maxRowBytes {
				return out, true, nil
			}
			out = append(out, row)
		}
	}
	return out, false, nil
}

func withoutOverrides(row state.Row) state.Row {
	t, ok := row.(*cluster.Task)
	if !ok || t.Overrides == nil {
		return row
	}
	next := *t
	next.Overrides = nil
	return &next
}

// Now returns the time of the scheduler's clock.
func (a *Rows) Now() time.Time { return a.Clock.Now() }

// DisconnectTimeout returns how long an agent may be disconnected before its tasks are replaced
// elsewhere.
func (a *Rows) DisconnectTimeout() time.Duration { return a.Settings.DisconnectTimeout }

// Generation returns the placement version and placement's last batch. Every change that placement
// decides on reaches it through the stream, and each of its batches has a number.
func (a *Rows) Generation(ctx context.Context, clusterName string) (string, error) {
	meta, err := a.findCluster(ctx, clusterName)
	if err != nil {
		return "", err
	}
	last, err := state.ReadRow[*state.Checkpoint](ctx, a.State,
		state.Key{Cluster: clusterName, Sort: state.PrefixCheckpoint}, "the checkpoint")
	if err != nil || last == nil {
		return "", err
	}
	return fmt.Sprintf("%d-%s-%d", meta.Version, last.Environment, last.Batch), nil
}

// CapacityRows returns the rows that say where a cluster's instances come from: its capacity
// providers and how they are attached, what managed scaling remembers of them, its node groups, and
// the last update of each group's nodes, after one of its sizes or labels that has failed since.
// Providers that could not be created are among them, because no cluster can have them, and whoever
// created one looks for it in the cluster that should.
func (a *Rows) CapacityRows(ctx context.Context, clusterName string) (rows []state.Row, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	of, err := clusterAttachments(ctx, a.State, clusterName)
	if err != nil {
		return nil, err
	}
	for _, p := range of.Rows {
		rows = append(rows, p)
		history, err := state.ReadRow[*cluster.ScalingHistory](
			ctx, a.State, state.ScalingHistoryKey(clusterName, p.Name), "the scaling history of "+p.Name)
		if err != nil {
			return nil, err
		}
		if history != nil {
			rows = append(rows, history)
		}
	}
	if of.Attached.Rev > 0 {
		rows = append(rows, &of.Attached)
	}
	all, err := handler.ListProviders(ctx, a.State)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.IsUnattachable() {
			rows = append(rows, p)
		}
	}
	groups, err := state.ListRows[*cluster.NodeGroup](ctx, a.State, state.Prefix(clusterName, state.PrefixNodeGroup),
		"node groups")
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		rows = append(rows, g)
		for _, id := range []string{g.FailedConfigUpdate, g.Update} {
			if id == "" {
				continue
			}
			last, err := state.ReadRow[*cluster.Update](ctx, a.State, state.UpdateKey(clusterName, g.Name, id),
				"update "+id)
			if err != nil {
				return nil, err
			}
			if last != nil {
				rows = append(rows, last)
			}
		}
	}
	return rows, nil
}
