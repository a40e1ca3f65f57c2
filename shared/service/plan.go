package service

import (
	"time"

	"berth/shared/cluster"
)

// Plan says what to do about a service. For the same input everything in it has the same order,
// regardless of the order of the tasks. The stops come first, then the starts; each part alone
// stays within the percentages.
type Plan struct {
	// Next is the service's row once the plan is carried out. The caller adds what placement finds
	// (Blocked, Moving, ...) and counts the events. Its status must not be written before the last
	// of the stops.
	Next *cluster.Service
	// Stops are tasks to stop. Choices are sets of tasks of which placement stops some.
	Stops   []Stop
	Choices []Choice
	// Starts are the tasks to start, the most urgent first. Tasks that wait for an instance are not
	// among them.
	Starts []Start
	// RefusedInstances, sorted by id, get no task of this service now: ECS refused one there a
	// short while ago.
	RefusedInstances []string
	// MakesRoom is set if other tasks may be stopped for those that find no instance, once these
	// have waited for [RoomTimeout].
	MakesRoom bool
	// HeldRevisions are the revisions (deployment ids) whose provisioning tasks must not be placed
	// now.
	HeldRevisions map[string]bool
	// LostTasks are tasks on deregistered instances: ECS may never report that they stopped.
	LostTasks []*cluster.Task
	// CountedFailures are the failed starts that Next's [cluster.Deployment.Failed] now includes.
	// They must be marked as counted in the commit that writes Next.
	CountedFailures []*cluster.Task
	// RegisterTargets are tasks that need a [cluster.Target] row, DeregisterTargets ended tasks
	// that still have one.
	RegisterTargets, DeregisterTargets []*cluster.Task
	// ThrottleCleared is set if a task has been RUNNING since the throttle row was written. The row
	// must say so before the task's own row expires.
	ThrottleCleared bool
	// EmittedTargets are the registrations that the events report.
	EmittedTargets []*cluster.Target
	// EventsBefore say what led to the plan and come before the events of its stops and starts;
	// EventsAfter follow them.
	EventsBefore, EventsAfter []Event

	Moves MoveLimits
	// EndedPairs are replacements that count as ordinary tasks from now on: their Replaces is to be
	// cleared.
	EndedPairs []*cluster.Task

	// ReconsiderAt is when the service has to be reconciled although no event may come; zero if
	// never.
	ReconsiderAt time.Time
	// Steady is set if all desired tasks are RUNNING and nothing is left to do.
	Steady bool
}

// MoveLimits say how many tasks may move to other instances now.
type MoveLimits struct {
	// StartFirst is how many tasks may get a replacement that starts before they stop. If
	// maximumPercent leaves no room for any, StopFirst is how many may stop before their
	// replacement starts.
	StartFirst, StopFirst int
	// InProgress is how many replacements have not taken over yet.
	InProgress int
}

// Stop is one task to stop.
type Stop struct {
	Task   *cluster.Task
	Reason string
}

// Choice asks placement to stop Count of the candidates, by the placement strategy or the zones
// (S5).
type Choice struct {
	Count      int
	Candidates []*cluster.Task
	Reason     string
}

// Start asks for Count new tasks of one revision.
type Start struct {
	Revision *cluster.Revision
	Count    int
	// Instances are where tasks of a DAEMON service go: at most one on each, those that come first
	// preferred.
	Instances []string
	// ReplacesUnhealthy is how many of the tasks replace unhealthy ones; the service event mentions
	// them.
	ReplacesUnhealthy int
}

// Event is one message of DescribeServices.events, with the EventBridge event that goes with it.
type Event struct {
	// Message is empty for an event that only the event bus gets.
	Message string
	// Name is the eventName of the EventBridge event, such as SERVICE_DEPLOYMENT_FAILED, or empty
	// for none. Deployment is the id of the deployment that it is about, if any.
	Name       string
	Deployment string
	// Reason is the EventBridge event's reason: why the deployment is in its rollout state, or why
	// the last task did not start.
	Reason string
	// Failures and NextAttemptAt describe a throttle (S7): how many tasks did not start, and when
	// the next one is tried.
	Failures      int
	NextAttemptAt time.Time
}
