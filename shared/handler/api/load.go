package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/observe"
)

// Loads takes the loads that tasks report.
type Loads struct{ *Dependencies }

// ReportLoads stores loads that tasks report (P10). They count when their window of 10 seconds
// ends, so that many reports cost one commit. A task that does not exist or has ended is a MISSING
// failure. A metric that the task's service does not name is an InvalidParameterException, which
// discards the whole call.
func (a *Loads) ReportLoads(
	ctx context.Context, clusterName string, reports []cluster.LoadReport,
) (missing []cluster.Failure, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range reports {
		ids = append(ids, r.Task)
	}
	found, err := a.findTasks(ctx, clusterName, ids...)
	if err != nil {
		return nil, err
	}
	var known []cluster.LoadReport
	for _, r := range reports {
		t := found[r.Task]
		if t == nil || t.HasEnded() {
			missing = append(missing, missingFailure(r.Task))
			continue
		}
		if err := a.checkLoads(ctx, t, r.Loads); err != nil {
			return nil, err
		}
		known = append(known, cluster.LoadReport{Task: t.ID, Loads: r.Loads})
	}
	return missing, observe.GatherLoads(ctx, a.State, a.Clock, clusterName, known)
}

// checkLoads refuses metrics that the task does not have and loads that no metric can have. It goes
// through the names in order, so that the same input always gives the same error.
func (a *Loads) checkLoads(ctx context.Context, t *cluster.Task, loads map[string]int64) error {
	metrics, err := observe.TaskMetrics(ctx, a.State, t)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		if !slices.Contains(names, name) {
			return cluster.Errorf(cluster.CodeInvalidParameter, "Task %s has no metric %.128q, only: %s.", t.ID, name,
				strings.Join(names, ", "))
		}
		if err := cluster.CheckMetrics([]cluster.Metric{{Name: name, Load: loads[name]}}); err != nil {
			return err
		}
	}
	return nil
}
