package model

import "time"

// A Service is what was requested.
type Service struct {
	Name                   string
	Daemon                 bool
	Deleted                bool
	Desired                int // of a REPLICA service
	MinHealthy, MaxPercent int
	Breaker                Breaker
	Grace                  time.Duration
	// EarlySuccess means that a deployment may complete before all its tasks run, and with tasks of
	// others left.
	EarlySuccess bool
}

// Floor returns how many tasks must be healthy: minimumHealthyPercent of the desired count, rounded
// up (S8).
func (s Service) Floor(desired int) int { return (desired*s.MinHealthy + 99) / 100 }

// Ceiling returns how many tasks may be PENDING or RUNNING: maximumPercent of the desired count,
// rounded down (S8). Of 3 tasks at 125 % that is 3.
func (s Service) Ceiling(desired int) int { return desired * s.MaxPercent / 100 }

// IsStuck reports whether the percentages allow a deployment no step: no task may start before one
// stops, and none may stop before one has started.
func (s Service) IsStuck(desired int) bool {
	return desired > 0 && s.Ceiling(desired) <= desired && s.Floor(desired) >= desired
}

// A Breaker is a deployment circuit breaker (S8).
type Breaker struct {
	Enable, Rollback bool
	// Cumulative is resetOnHealthyTask false: a healthy task does not reset the count of failures.
	Cumulative bool
	Type       string // COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT; empty is BOUNDED_PERCENT of 50
	Value      int
}

// Threshold returns how many failures fail a deployment.
func (b Breaker) Threshold(desired int) int {
	percent := func(p int) int { return (desired*p + 99) / 100 }
	switch b.Type {
	case "COUNT":
		return b.Value
	case "UNBOUNDED_PERCENT":
		return max(1, percent(b.Value))
	case "BOUNDED_PERCENT":
		return min(200, max(3, percent(b.Value)))
	}
	return min(200, max(3, percent(50)))
}

// A Task is a task of a service that has not ended, as far as the rules concern it.
type Task struct {
	Revision     string
	Running      bool
	RunningSince time.Time
	// Checked means that an essential container has a health check, Balanced that the task belongs
	// in a target group.
	Checked, Balanced bool
	Container, Target Health
	// MustLeave means that its instance is DRAINING or lost (S11).
	MustLeave bool
	Protected bool
	// MustMove means that the task violates a rule of its service where it is (P8, P10).
	MustMove bool
}

// Health is the result of a health check.
type Health int

// The results of health checks.
const (
	Unknown Health = iota
	Healthy
	Unhealthy
)

// stabilizingTime is how long a task without a health check must run to count as healthy.
const stabilizingTime = 40 * time.Second

// IsHealthy reports whether the task counts toward the floor.
func (t Task) IsHealthy(now time.Time) bool {
	switch {
	case !t.Running, t.Checked && t.Container != Healthy, t.Balanced && t.Target != Healthy:
		return false
	}
	return t.Checked || t.Balanced || now.Sub(t.RunningSince) >= stabilizingTime
}

// IsUnhealthy reports whether a check has failed and the grace period is over (S6).
func (t Task) IsUnhealthy(s Service, now time.Time) bool {
	failing := t.Checked && t.Container == Unhealthy || t.Balanced && t.Target == Unhealthy
	return failing && now.Sub(t.RunningSince) >= s.Grace
}

// CountReplaced returns how many of the tasks are to be replaced. primary is the PRIMARY revision.
// believed means that unhealthy tasks are replaced, because no more than half of the cluster's tasks
// look unhealthy (S6).
func (s Service) CountReplaced(tasks []Task, primary string, believed bool, now time.Time) (n int) {
	for _, t := range tasks {
		if t.Revision != primary || t.MustLeave || t.MustMove || believed && t.IsUnhealthy(s, now) {
			n++
		}
	}
	return n
}

// AllowedSurplus returns how many tasks a service may have above its desired count: one for each
// task to be replaced, within the ceiling. Its parameters are those of [Service.CountReplaced].
func (s Service) AllowedSurplus(tasks []Task, primary string, believed bool, now time.Time) int {
	return min(s.CountReplaced(tasks, primary, believed, now), max(0, s.Ceiling(s.Desired)-s.Desired))
}

// ZonesAreEven reports whether no zone has two tasks more than one that has room (S13).
func ZonesAreEven(tasks map[string]int, room map[string]bool) bool {
	for _, most := range tasks {
		for zone, ok := range room {
			if ok && most-tasks[zone] > 1 {
				return false
			}
		}
	}
	return true
}
