package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/observe"
)

// Loads takes in what tasks report of their load.
type Loads struct{ *Dependencies }

// ReportLoads takes in what tasks say of their load (P10): it counts when the window ends. A metric
// that the task's service does not name gives InvalidParameterException, a task that is not there a
// failure.
func (a *Loads) ReportLoads(
	ctx context.Context, clusterName string, reports []cluster.LoadReport,
) (missing []cluster.Failure, err error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	var known []cluster.LoadReport
	for _, r := range reports {
		t, err := a.findTask(ctx, clusterName, r.Task)
		if err != nil {
			return nil, err
		}
		if t == nil || t.HasEnded() {
			missing = append(missing, missingFailure(r.Task))
			continue
		}
		if err := a.checkLoads(ctx, t, r.Loads); err != nil {
			return nil, err
		}
		known = append(known, cluster.LoadReport{Task: t.ID, Loads: r.Loads})
	}
	return missing, observe.GatherLoads(ctx, a.State, a.Clock.Now(), clusterName, known)
}

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
