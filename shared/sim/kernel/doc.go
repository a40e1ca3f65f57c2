// Package kernel is what the simulated services share: one lock, one clock, one event queue, one
// file and the faults of calls.
//
// A service keeps its tables in plain maps and touches them only in a step: a function that
// [Kernel.View], [Kernel.Change], [Kernel.Advance] or one of their variants runs with the lock
// held. One lock for all services makes a change that concerns several of them atomic, and gives
// events one order. A step changes the tables, names the rows to store ([Kernel.SaveRow],
// [Kernel.DeleteRow]) and queues events ([Kernel.EmitEvent]). Events go out after the step, outside
// of the lock.
//
// What a caller asked for ([Kernel.Change]) is on disk before the call returns and before its events
// go out; the lock is free while it is written, so that views do not wait for the disk. What a timer
// triggered ([Kernel.Advance]) is written within a second, because it can be worked out again after
// a crash. Faults make calls fail as AWS calls do ([CallFaults]): throttled, or with a lost answer.
//
// Invariants: a step that fails has changed nothing; steps and events have one order; a removed
// resource that stays visible for a while is gone in the first step after that time
// ([Kernel.ScheduleRemoval]). The kernel knows none of the services. Start at [Kernel.Change].
package kernel
