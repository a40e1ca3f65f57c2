package service

import (
	"time"

	"berth/shared/cluster"
)

// Host is what an instance is to the tasks on it.
type Host uint8

// The kinds of host.
const (
	// HostHere keeps its tasks.
	HostHere Host = iota
	// HostDraining has its tasks replaced elsewhere (S11).
	HostDraining
	// HostLost has been disconnected for so long that its tasks are replaced elsewhere (S11).
	HostLost
	// HostGone has left the cluster, its tasks with it.
	HostGone
)

// Input is all that a decision about one service rests on. Of the functions each may be nil: then the answer is always
// the zero value.
type Input struct {
	Service *cluster.Service
	// Tasks are the service's rows, in any order. Those that ended well long ago may be left out.
	Tasks []*cluster.Task
	// Host says what a task's instance is, Target where a task is registered, Protected until when it may not be stopped.
	Host      func(instance string) Host
	Target    func(task string) *cluster.Target
	Protected func(task string) time.Time
	// HealthChecked reports whether an essential container of a task definition (family:revision) has a health check.
	HealthChecked func(definition string) bool
	// Throttle and Alarms are the rows beside the service's; nil where there are none.
	Throttle *cluster.Throttle
	Alarms   *cluster.AlarmWatch

	// Eligible are the instances that should have a task of a DAEMON service, in order of id.
	Eligible []string
	// Matches reports whether an instance has the attributes and meets the constraints that a running DAEMON task is held
	// to, whatever its status; nil: it does.
	Matches func(instance string) bool
	// Busy reports whether an instance has tasks of REPLICA services or standalone ones: its DAEMON tasks go last.
	Busy func(instance string) bool
	// Fits reports whether some instance, were it empty, would take a task of a task definition; nil: one would.
	Fits func(definition string) bool

	// Unhealthy reports that so many of the cluster's tasks look unhealthy at once that none is replaced for it (S6).
	Unhealthy bool

	Limits Limits
	// Seed decides where the choice is free.
	Seed uint64
	Now  time.Time
}

// Limits are the settings that bound what a decision does.
type Limits struct {
	// Ladder is how long the starts of a revision are held back after the first, second ... attempt in a row that failed;
	// the last for all after it (S7).
	Ladder []time.Duration
	// SettleHealthy is how long a task without any health check has to be RUNNING to count as healthy: 40 s at ECS.
	SettleHealthy time.Duration
	// RestartGap is how long after its predecessor started a task that takes its place may start: 10 s (S6).
	RestartGap time.Duration
	// Wave is how many percent of a service's tasks, at least one, are replaced at once for being unhealthy (S6).
	Wave int
	// Retry is how long an instance on which ECS has refused a task is not tried again; it doubles up to RetryMax (S7).
	Retry, RetryMax time.Duration
}

// Plan is what to do about a service. Everything in it is in the same order for the same input, in whatever order the
// tasks came. The stops come first, then the starts: each part by itself keeps within the percentages.
type Plan struct {
	// Next is the service's row once the plan is carried out; the caller adds what placement finds (Blocked, Moving ...)
	// and counts the events. Its Status is to be written no earlier than the last of the stops.
	Next *cluster.Service
	// Stops are tasks to be stopped, Choices sets of which placement stops some.
	Stops   []Stop
	Choices []Choice
	// Starts are tasks to be started, the more urgent first; those that wait for an instance are not among them.
	Starts []Start
	// Refused are instances that get none of the starts, nor of the tasks that wait, in order of id: ECS refused one there.
	Refused []string
	// Yields tells that tasks may have to make room for those that find no instance, once they have waited for [Patience].
	Yields bool
	// Held are revisions (deployment ids) whose waiting tasks are not to be placed now.
	Held map[string]bool
	// Lost are tasks on instances that are gone and of which ECS has not reported, and may never report, that they STOPPED.
	Lost []*cluster.Task
	// Counted are failures that [cluster.Deployment.Failed] of Next has counted: to be marked in the same commit.
	Counted []*cluster.Task
	// Register are tasks that want a [cluster.Target] row, Ended tasks whose row is to be wound up.
	Register, Ended []*cluster.Task
	// Unthrottled reports that what the throttle row says is over: tasks have come to be RUNNING since. The row is to say so,
	// as theirs will be gone one day.
	Unthrottled bool
	// Told are registrations that the events now tell of.
	Told []*cluster.Target
	// Seen are service events in order, of what led to the plan: before those of the stops and the starts; Events are
	// those after them.
	Seen, Events []Event

	// Moves is how many tasks may be given a replacement on another instance now. Where it is zero as maximumPercent
	// leaves no room, MoveStops is how many may be stopped first. Replacing is how many replacements are under way, Parted
	// are replacements that are tasks like any from now on.
	Moves, MoveStops, Replacing int
	Parted                      []*cluster.Task

	// LookAgain is when something is to be looked at that no event will tell; zero if there is nothing.
	LookAgain time.Time
	// Steady reports that all desired tasks are RUNNING and nothing is left to be done.
	Steady bool
}

// Stop is one task to be stopped.
type Stop struct {
	Task   *cluster.Task
	Reason string
}

// Choice is a number of tasks to be stopped out of a set: placement chooses by the strategy or the zones (S5).
type Choice struct {
	N          int
	Candidates []*cluster.Task
	Reason     string
}

// Start is a number of tasks of one revision to be started; of a DAEMON service at most one on each of the instances, those
// first that come first.
type Start struct {
	Revision *cluster.Revision
	Count    int
	On       []string
	// Replaced is how many of them come for tasks that are unhealthy: the event says so.
	Replaced int
}

// Event is one message of DescribeServices.events, with the EventBridge event that goes with it.
type Event struct {
	// Message is empty for an event that is for the event bus alone.
	Message string
	// Name is the eventName of the EventBridge event, as SERVICE_DEPLOYMENT_FAILED; empty for none. Deployment is its
	// deployment id, where it is about one.
	Name       string
	Deployment string
	// Reason is why, where the EventBridge event says so: the rollout state reason of its deployment, why its last task did not
	// start.
	Reason string
	// Failures and NextAttemptAt are of a throttle (S7): how many tasks did not start, and when the next is tried.
	Failures      int
	NextAttemptAt time.Time
}
