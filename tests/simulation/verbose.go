package simulation

import (
	"encoding/json"
	"os"

	"berth/shared/cluster"
	"berth/shared/state"
)

// verbose writes every commit into the log. It is on for a seed that is shown in full.
var verbose = os.Getenv("SEED") != "" || os.Getenv("VERBOSE") != ""

// logRecords logs the new state of services, tasks, instances and targets.
func (w *World) logRecords(records []state.Record) {
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Task:
			w.logf("  task %s of %q (%s, %s) on %s: %s, wanted %s, health %q, replaces %q, %s %s", row.ID, row.Service,
				row.TaskDefinition, row.Revision,
				row.Instance, row.Status(), row.Desired, row.Health, row.Replaces, row.StopCode, row.Reason)
		case *cluster.Service:
			w.logf("  service %s: %s, %d wanted (%d to %d%%), %s of %s %s, older %d, blocked %v, steady %t", row.Name,
				row.Status, row.Desired, row.MinHealthy,
				row.MaxPercent, row.Deployment.ID, row.Deployment.TaskDefinition, row.Deployment.State, len(row.Older),
				row.Blocked, row.Steady)
		case *cluster.ServiceEvent:
			w.logf("  event: %s", row.Message)
		case *cluster.Instance:
			w.logf("  instance %s in %s: %s, connected %t, of provider %q, released in %q, version %d", row.ID,
				row.Zone(), row.Status, row.AgentConnected, row.CapacityProvider(), row.ReleasedIn, row.Version)
		case *cluster.Target:
			w.logf("  target %s: %+v", row.Task, row.Registrations)
		}
	}
}

// jsonText returns a value as the log shows it: without addresses, which differ between two runs of
// a seed.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
