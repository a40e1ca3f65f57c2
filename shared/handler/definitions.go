package handler

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/state"
)

// CheckedDefinitions remembers which task definitions have a health check. A revision never changes, so each is
// read once. The zero value remembers none.
type CheckedDefinitions struct{ known map[state.Key]bool }

// maxKnownDefinitions is how many task definitions are remembered before all are read anew.
const maxKnownDefinitions = 10_000

// IsChecked reports whether a task definition, family:revision, has an essential container with a health check.
// Of one without a row in the cluster it says that it has none.
func (d *CheckedDefinitions) IsChecked(
	ctx context.Context, store state.Store, clusterName, name string,
) (bool, error) {
	key := state.TaskDefinitionKey(clusterName, name)
	if checked, known := d.known[key]; known {
		return checked, nil
	}
	row, err := state.ReadRow[*cluster.TaskDefinition](ctx, store, key, "task definition "+name)
	if err != nil || row == nil {
		return false, err
	}
	if d.known == nil || len(d.known) >= maxKnownDefinitions {
		d.known = map[state.Key]bool{}
	}
	d.known[key] = row.HealthChecked
	return row.HealthChecked, nil
}
