package whatif

import (
	"cmp"

	"berth/shared/cluster"
)

// RolledBack is a deployment that was rolled back, and why.
type RolledBack struct {
	Deployment string `json:"deploymentId"`
	Status     string `json:"status"`
	Why        string `json:"why"`
	// Task is one of its tasks that never ran, of the definition, with why it stopped. They are
	// empty once ECS has forgotten it.
	Task       string `json:"task,omitempty"`
	Definition string `json:"taskDefinition,omitempty"`
	Reason     string `json:"stoppedReason,omitempty"`
}

// explainRollback returns nil unless the last deployment of the service was rolled back.
func (m *model) explainRollback(s *cluster.Service) *RolledBack {
	r := s.Release
	if r == nil || r.RollbackTo == "" {
		return nil
	}
	out := &RolledBack{Deployment: r.Target, Status: string(r.Status), Why: cmp.Or(r.RollbackReason, r.Reason)}
	for _, t := range m.snap.TasksOf(s.Short) {
		if t.Revision == r.Target && t.Last == cluster.TaskStopped && t.Reason != "" &&
			t.StopCode == cluster.StopFailedToStart {
			out.Task, out.Definition, out.Reason = t.ID, t.TaskDefinition, t.Reason
		}
	}
	return out
}
