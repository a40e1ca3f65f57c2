package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/observe"
	"berth/shared/operation"
	"berth/shared/state"
)

// Configuration is the cluster's configuration for placement, the zero one where nobody set any.
func (a *Handler) Configuration(ctx context.Context, clusterName string) (*cluster.Configuration, error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, err
	}
	row, err := a.State.Get(ctx, state.KeyOf((&cluster.Configuration{Head: cluster.Head{Cluster: clusterName}})))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of cluster %s: %w", clusterName, err)
	}
	if c, ok := row.(*cluster.Configuration); ok && c != nil {
		return c, nil
	}
	return &cluster.Configuration{Head: cluster.Head{Cluster: clusterName}}, nil
}

// PutConfiguration replaces the cluster's configuration whole. It narrows: a node may have less to give than before.
func (a *Handler) PutConfiguration(ctx context.Context, c *cluster.Configuration) error {
	return state.RetryRaces("configuring cluster "+c.Cluster, func() error {
		old, err := a.Configuration(ctx, c.Cluster)
		if err != nil {
			return err
		}
		return state.Narrow(ctx, a.State, c.Cluster, func(stamp int64) (state.Row, error) {
			next := *c
			next.Head = cluster.Head{Cluster: c.Cluster, Rev: old.Rev + 1, Stamp: stamp}
			return &next, nil
		})
	})
}

// UpdateRules sets the parts of a service's rules that the tags stand for (P8). Tags of the service that said otherwise
// go: they would no longer tell the truth.
func (a *Handler) UpdateRules(ctx context.Context, clusterName, name string, tags map[string]string) (*operation.ServiceDetail, error) {
	return a.reshape(ctx, clusterName, name, func(s *cluster.Service) error {
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			if err := cluster.ApplyRuleTag(&s.Rules, key, tags[key]); err != nil {
				return err
			}
			if said, ok := s.Tags[key]; ok && said != tags[key] {
				s.Tags = maps.Clone(s.Tags)
				delete(s.Tags, key)
			}
		}
		return nil
	})
}

// reshape changes a service that is not INACTIVE, its rules too, and holds the result to what is possible.
func (a *Handler) reshape(ctx context.Context, clusterName, name string, f func(*cluster.Service) error) (*operation.ServiceDetail, error) {
	return a.edit(ctx, clusterName, name, func(s *cluster.Service) error {
		if s.Status == cluster.ServiceInactive {
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		}
		before := *s
		if err := f(s); err != nil {
			return err
		}
		def, err := a.cached(ctx, clusterName, s.Deployment.TaskDefinition)
		if err != nil {
			return err
		}
		if err := errors.Join(checkRules(&s.Rules, def, s.Strategy), networked(def, s.Deployment.Network)); err != nil {
			return err
		}
		if err := stayRebalanceable(s, &before, def); err != nil {
			return err
		}
		return a.usable(ctx, s, &before)
	})
}

// cached is a task definition that some service of the cluster has.
func (a *Handler) cached(ctx context.Context, clusterName, name string) (*cluster.TaskDefinition, error) {
	row, err := a.State.Get(ctx, state.TaskDefinitionKey(clusterName, name))
	if err != nil {
		return nil, fmt.Errorf("reading task definition %s: %w", name, err)
	}
	if def, ok := row.(*cluster.TaskDefinition); ok && def != nil {
		return def, nil
	}
	return a.definition(ctx, clusterName, name)
}

// tagService sets and removes tags of a service. Those of Berth's own change its rules; one that is removed takes its
// part of the rules back to the default.
func (a *Handler) tagService(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error {
	_, err := a.reshape(ctx, of.Cluster, of.Name, func(s *cluster.Service) error {
		next, err := retagged(of.Name, s.Tags, set, remove)
		if err != nil {
			return err
		}
		for _, key := range cluster.RuleTags {
			now, is := next[key]
			was, had := s.Tags[key]
			if is == had && now == was {
				continue
			}
			if err := cluster.ApplyRuleTag(&s.Rules, key, now); err != nil {
				return err
			}
		}
		s.Tags = next
		return nil
	})
	return err
}

// ReportLoads takes in what tasks say of their load (P10): it counts when the window ends. A metric that the task's
// service does not name gives InvalidParameterException, a task that is not there a failure.
func (a *Handler) ReportLoads(ctx context.Context, clusterName string, reports []cluster.LoadReport) (missing []cluster.Failure, err error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, err
	}
	var known []cluster.LoadReport
	for _, r := range reports {
		t, err := a.task(ctx, clusterName, r.Task)
		if err != nil {
			return nil, err
		}
		if t == nil || t.Ended() {
			missing = append(missing, cluster.Failure{ARN: r.Task, Reason: "MISSING"})
			continue
		}
		if err := a.checkLoads(ctx, t, r.Loads); err != nil {
			return nil, err
		}
		known = append(known, cluster.LoadReport{Task: t.ID, Loads: r.Loads})
	}
	return missing, observe.GatherLoads(ctx, a.State, a.Clock, clusterName, known)
}

func (a *Handler) checkLoads(ctx context.Context, t *cluster.Task, loads map[string]int64) error {
	metrics, err := observe.MetricsOf(ctx, a.State, t)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		if !slices.Contains(names, name) {
			return cluster.Errorf(cluster.CodeInvalidParameter, "Task %s has no metric %.128q, only: %s.", t.ID, name, strings.Join(names, ", "))
		}
		if err := cluster.CheckMetrics([]cluster.Metric{{Name: name, Load: loads[name]}}); err != nil {
			return err
		}
	}
	return nil
}

// maxRows is how many rows one page has.
const maxRows = 1000

// Rows are the rows that placement decides on, in order of sort key, without what containers were given: commands and
// environments may hold secrets. more reports whether there are others after them.
func (a *Handler) Rows(ctx context.Context, clusterName, after string) (out []state.Row, more bool, err error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, false, err
	}
	for _, prefix := range slices.Sorted(slices.Values(decidedOn)) {
		r := state.Prefix(clusterName, prefix)
		if after >= r.To {
			continue
		}
		if after >= r.From {
			r.From = after + "\x00"
		}
		r.Limit = maxRows + 1 - len(out)
		rows, err := a.State.List(ctx, r)
		if err != nil {
			return nil, false, fmt.Errorf("listing the rows of cluster %s: %w", clusterName, err)
		}
		for _, row := range rows {
			if len(out) == maxRows {
				return out, true, nil
			}
			out = append(out, discreet(row))
		}
	}
	return out, false, nil
}

func discreet(row state.Row) state.Row {
	t, ok := row.(*cluster.Task)
	if !ok || t.Overrides == nil {
		return row
	}
	next := *t
	next.Overrides = nil
	return &next
}
