// Package replay plays a trace of nodes and tasks through an embedded installation in virtual time.
//
// [Run] gives each node of the trace a container instance and each task a RunTask call. It measures
// how long tasks wait, how much of the cluster they use, and what the functions cost per task.
// [RunScaled] starts with empty Auto Scaling groups instead and runs each task as a service, which
// shows what managed scaling and consolidation do to instance-hours.
//
// In come the lists of package trace and [Options]; out come a [Result] or a [Scaled]. `berth
// replay` is the only caller.
//
// A replay is deterministic: the same options give the same [Result.StateHash]. Nothing in this
// package reads the wall clock, except to report how long the replay took.
//
// Start reading at replay.playTrace, which both kinds of replay go through: nodes.go and groups.go
// have what differs between them, meter.go what is measured.
package replay
