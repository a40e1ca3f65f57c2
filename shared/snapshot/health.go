package snapshot

import (
	"berth/shared/cluster"
	"berth/shared/state"
)

// HealthCounts has the number of RUNNING tasks whose health is known, and how many of them are
// UNHEALTHY.
type HealthCounts struct{ Checked, Unhealthy int }

// HealthCounts returns the health counts of the cluster's tasks, without foreign ones.
func (s *Snapshot) HealthCounts() HealthCounts { return s.healthCounts }

// countHealth adds (sign 1) or subtracts (-1) a task's health. A load balancer's verdict counts if
// the task has no health checks, or if it is UNHEALTHY.
func countHealth(s *Snapshot, t *cluster.Task, sign int) {
	if t.Last != cluster.TaskRunning || t.Foreign || !t.IsActive() {
		return
	}
	h := t.Health
	if target := s.Target(t.Owner, t.ID); target != nil &&
		(h == cluster.UnknownHealth || target.WorstHealth() == cluster.Unhealthy) {
		h = target.WorstHealth()
	}
	if h != cluster.UnknownHealth {
		s.healthCounts.Checked += sign
	}
	if h == cluster.Unhealthy {
		s.healthCounts.Unhealthy += sign
	}
}

// changeTarget applies change, which stores or removes a task's registrations, and recounts the
// task's health.
func changeTarget(s *Snapshot, r *cluster.Target, change func(state.Row) bool) bool {
	t := s.Task(r.Owner, r.Task)
	if t != nil {
		countHealth(s, t, -1)
	}
	changed := change(r)
	if t != nil {
		countHealth(s, t, 1)
	}
	return changed
}
