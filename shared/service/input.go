package service

import (
	"time"

	"berth/shared/cluster"
)

// InstanceState is what the state of a task's instance means for the task.
type InstanceState uint8

// The states of an instance that matter to its tasks.
const (
	// InstanceUsable keeps its tasks. An instance whose agent disconnected a short while ago is
	// usable, too.
	InstanceUsable InstanceState = iota
	// InstanceDraining has its tasks replaced elsewhere (S11).
	InstanceDraining
	// InstanceTimedOut has been disconnected for longer than the disconnect timeout: its tasks are
	// replaced elsewhere (S11).
	InstanceTimedOut
	// InstanceDeregistered has left the cluster, and its tasks with it.
	InstanceDeregistered
)

// Input is everything that a plan for one service depends on. Any function in it may be nil, which
// stands for one that returns the zero value, unless its comment says otherwise.
type Input struct {
	Service *cluster.Service
	// Tasks are the service's rows, in any order. Tasks that ran and ended long ago may be left
	// out.
	Tasks []*cluster.Task
	// InstanceState returns the state of a registered or former instance.
	InstanceState func(instance string) InstanceState
	// Target returns a task's registrations with target groups and Cloud Map, or nil.
	Target func(task string) *cluster.Target
	// ProtectedUntil returns when a task's scale-in protection expires.
	ProtectedUntil func(task string) time.Time
	// HealthChecked reports whether an essential container of a task definition (family:revision)
	// has a health check.
	HealthChecked func(definition string) bool
	// Throttle and Alarms are the rows that throttling and health-check keep for the service;
	// either may be nil.
	Throttle *cluster.Throttle
	Alarms   *cluster.AlarmWatch

	// Eligible are the instances that should have a task of a DAEMON service, sorted by id.
	Eligible []string
	// MeetsConstraints reports whether an instance meets what a running DAEMON task is held to,
	// regardless of the instance's status. If it is nil, every instance does.
	MeetsConstraints func(instance string) bool
	// HasOtherTasks reports whether an instance runs tasks that are no daemons. On a draining
	// instance, its DAEMON tasks stay until the others have left.
	HasOtherTasks func(instance string) bool
	// FitsEmptyInstance reports whether some instance would have room for a task of a definition if
	// it were empty. If it is nil, one would.
	FitsEmptyInstance func(definition string) bool

	// DistrustChecks is set while so many tasks of the cluster look unhealthy at once that the
	// checks themselves are the likelier cause. No task is replaced for being unhealthy meanwhile
	// (S6).
	DistrustChecks bool

	Limits Limits
	// Seed decides where the choice is free.
	Seed uint64
	Now  time.Time
}

// Limits are the settings that bound what a plan does.
type Limits struct {
	// BackoffLadder is how long starts of a revision wait after the first, second, ... failed
	// attempt in a row. Its last entry holds for all later ones (S7).
	BackoffLadder []time.Duration
	// StabilizeFor is how long a task without any health check has to be RUNNING to count as
	// healthy: 40 s at ECS.
	StabilizeFor time.Duration
	// RestartGap is how long after a task started the task that replaces it may start: 10 s (S6).
	RestartGap time.Duration
	// ReplacePercent is how many percent of a service's tasks, but at least one, are replaced at
	// once for being unhealthy (S6).
	ReplacePercent int
	// RetryRefused is how long an instance on which ECS refused a task is not tried again. It
	// doubles with each refusal, up to RetryRefusedMax (S7).
	RetryRefused, RetryRefusedMax time.Duration
}
