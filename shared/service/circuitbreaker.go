package service

import "berth/shared/cluster"

// Threshold returns how many failures the circuit breaker of a service with a desired count
// tolerates (S8): a COUNT, or a percentage of the desired count, rounded up. A bounded percentage
// is at least 3 and at most 200; the default is a bounded 50 %.
func Threshold(b cluster.CircuitBreaker, desired int) int {
	value := b.Value
	if value == 0 {
		value = 50
	}
	n := (desired*value + 99) / 100
	switch b.Type {
	case cluster.ThresholdCount:
		return max(1, b.Value)
	case cluster.ThresholdUnboundedPercent:
		return max(1, n)
	}
	return min(max(n, 3), 200)
}

// desiredCount returns how many tasks the service should have: none once it is being deleted.
func desiredCount(s *cluster.Service) int {
	if s.Status != cluster.ServiceActive {
		return 0
	}
	return s.Desired
}

// reachedThreshold reports whether the circuit breaker has counted enough failures to end the
// PRIMARY deployment.
func reachedThreshold(in *Input, next *cluster.Service) bool {
	d := &next.Deployment
	return d.State == cluster.RolloutInProgress && in.Service.Breaker.Enable &&
		d.Failed >= Threshold(in.Service.Breaker, desiredCount(next))
}

// countFailures returns how many failures of the PRIMARY deployment its circuit breaker has
// counted, new ones included. A task that became healthy since starts the count again, unless the
// breaker is cumulative.
func countFailures(in *Input, sorted sortedTasks) int {
	s := in.Service
	up := 0
	for _, t := range sorted.revisions[0].all {
		if t.isUp() {
			up++
		}
	}
	failed := s.Deployment.Failed
	if up > s.Deployment.Healthy && !s.Breaker.Cumulative {
		failed = 0
	}
	for _, row := range sorted.failures {
		if sorted.revisionOf(row) == 0 {
			failed++
		}
	}
	return failed
}
