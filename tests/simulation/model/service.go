// Package model says what a service of ECS has to look like, as plainly as its documentation does: an executable form of
// rules S1 to S11 of docs/behaviour.md. It knows nothing of how Berth comes to it.
package model

import "time"

// Service is what was asked for.
type Service struct {
	Name                   string
	Daemon                 bool
	Deleted                bool
	Desired                int // of a REPLICA service
	MinHealthy, MaxPercent int
	Breaker                Breaker
	Grace                  time.Duration
	// EarlySuccess tells that a deployment may be completed before it has all tasks, and before none is left of others.
	EarlySuccess bool
}

// Floor is how many tasks have to be healthy: minimumHealthyPercent of the desired count, rounded up (S8).
func (s Service) Floor(desired int) int { return (desired*s.MinHealthy + 99) / 100 }

// Ceiling is how many tasks may be PENDING or RUNNING: maximumPercent of the desired count, rounded down (S8).
func (s Service) Ceiling(desired int) int { return desired * s.MaxPercent / 100 }

// IsStuck reports that the percentages leave a deployment no step: nothing may start before something stops, and nothing may
// stop before something has started.
func (s Service) IsStuck(desired int) bool {
	return desired > 0 && s.Ceiling(desired) <= desired && s.Floor(desired) >= desired
}

// Breaker is a deployment circuit breaker (S8).
type Breaker struct {
	Enable, Rollback bool
	// Cumulative is resetOnHealthyTask false: a healthy task does not begin the count anew.
	Cumulative bool
	Type       string // COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT; empty is BOUNDED_PERCENT of 50
	Value      int
}

// Threshold is how many failures fail a deployment.
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

// Task is a task of a service that has not ended, as far as the rules look at it.
type Task struct {
	Revision     string
	Running      bool
	RunningSince time.Time // when it was RUNNING
	// Checked tells that an essential container has a health check, Balanced that the task belongs into a target group.
	Checked, Balanced bool
	Container, Target Health
	// MustLeave tells that its instance is DRAINING or lost (S11).
	MustLeave bool
	Protected bool
	// MustMove tells that it has to go for a reason of placement: it breaks a rule of its service where it is (P8, P10).
	MustMove bool
}

// Health is what a check says.
type Health int

// What a check may say.
const (
	Unknown Health = iota
	Healthy
	Unhealthy
)

// stabilizingTime is how long a task without any check has to run to count as healthy.
const stabilizingTime = 40 * time.Second

// IsHealthy reports whether the task counts towards the floor.
func (t Task) IsHealthy(now time.Time) bool {
	switch {
	case !t.Running, t.Checked && t.Container != Healthy, t.Balanced && t.Target != Healthy:
		return false
	}
	return t.Checked || t.Balanced || now.Sub(t.RunningSince) >= stabilizingTime
}

// IsUnhealthy reports whether a check has found the task bad, and the grace period is over (S6).
func (t Task) IsUnhealthy(s Service, now time.Time) bool {
	bad := t.Checked && t.Container == Unhealthy || t.Balanced && t.Target == Unhealthy
	return bad && now.Sub(t.RunningSince) >= s.Grace
}

// AllowedSurplus is how many tasks a service may have beyond its desired count at the moment: one for each that has to be
// replaced, and no more than the ceiling allows. primary is the revision asked for; believed tells that unhealthy tasks are
// to be replaced at all: not while more than half of the cluster's look unhealthy (S6).
func (s Service) AllowedSurplus(tasks []Task, primary string, believed bool, now time.Time) int {
	n := 0
	for _, t := range tasks {
		if t.Revision != primary || t.MustLeave || t.MustMove || believed && t.IsUnhealthy(s, now) {
			n++
		}
	}
	return min(n, max(0, s.Ceiling(s.Desired)-s.Desired))
}

// ZonesAreEven reports whether tasks are as even over the zones as they can be: no zone has two more than one that has room (S13).
func ZonesAreEven(tasks map[string]int, room map[string]bool) bool {
	for _, most := range tasks {
		for poor, ok := range room {
			if ok && most-tasks[poor] > 1 {
				return false
			}
		}
	}
	return true
}
