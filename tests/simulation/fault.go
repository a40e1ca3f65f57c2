package simulation

import (
	"berth/tests/simulation/coverage"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Fault is one kind of thing that can go wrong.
type Fault int

// The faults. Their order is part of every seed: each draws from a source with its number.
const (
	// Queues: at-least-once, late, unordered, in partial batches.
	DuplicateMessage Fault = iota
	ReorderMessages
	DelayMessage
	DropMessage
	LoseAcknowledgement
	SplitBatch
	// The table's stream, the event bus and schedules.
	StallStream
	DuplicateStreamBatch
	DropEvent
	SkipSchedule
	// The store. An ambiguous call fails and may have taken effect.
	StoreConflict
	StoreThrottle
	StoreAmbiguous
	LateWrite
	StaleRead
	LongRun
	// Processes and their environments.
	Crash
	Hang
	AbandonInvocation
	Suspend
	OtherEnvironment
	ClockSkew
	Outage
	// Calls of ECS.
	ECSAmbiguous
	ECSLate
	ECSThrottle
	ECSDenied
	ListLate
	// The life of a task.
	SlowStart
	FailStart
	CrashLoop
	FlappingHealth
	IgnoreStop
	// Auto Scaling: launches, and calls that change a group or an instance.
	LaunchFails
	LaunchSilent
	LaunchSlow
	LaunchElsewhere
	LaunchDisconnected
	GroupAmbiguous
	GroupLate
	GroupDenied
	// Processes and their environments again.
	ClockJump
	faultCount
)

// faultTable names the faults, and gives the highest rate per occasion. A rate of 1 means that the
// fault is on or off for the whole run.
var faultTable = [faultCount]struct {
	name string
	most float64
}{
	DuplicateMessage:     {"a message sent once arrives twice or three times", 0.2},
	ReorderMessages:      {"messages arrive in another order", 0.5},
	DelayMessage:         {"a message is late by up to 150 s", 0.3},
	DropMessage:          {"a message is lost", 0.05},
	LoseAcknowledgement:  {"the acknowledgement of a message is lost", 0.2},
	SplitBatch:           {"a batch is cut in two", 0.5},
	StallStream:          {"the stream stalls", 0.1},
	DuplicateStreamBatch: {"a batch of the stream is delivered twice", 0.2},
	DropEvent:            {"an event is never sent", 0.1},
	SkipSchedule:         {"a schedule does not tick", 0.2},
	StoreConflict:        {"a write meets another transaction", 0.1},
	StoreThrottle:        {"the store throttles a call", 0.1},
	StoreAmbiguous:       {"a call of the store fails, applied or not", 0.05},
	LateWrite:            {"the write of a dead process takes effect later", 0.01},
	StaleRead:            {"a cheap read misses the newest write", 0.5},
	LongRun:              {"the history lasts so long that rows expire", 1},
	Crash:                {"a process dies at a call", 0.02},
	Hang:                 {"a function runs into its time-out", 0.004},
	AbandonInvocation:    {"a function is abandoned and continues beside its successor", 0.01},
	Suspend:              {"a process is suspended while others run", 0.3},
	OtherEnvironment:     {"an invocation gets a new or an older environment", 0.5},
	ClockSkew:            {"a clock is off by up to a minute", 0.2},
	Outage:               {"a function cannot run, or not reach the store, for minutes", 1},
	ECSAmbiguous:         {"StartTask and StopTask time out, applied or not", 0.2},
	ECSLate:              {"StartTask and StopTask time out and are applied later", 0.1},
	ECSThrottle:          {"ECS throttles a call", 0.2},
	ECSDenied:            {"ECS denies a call", 0.05},
	ListLate:             {"ListTasks does not show the newest tasks", 1},
	SlowStart:            {"a task starts slowly", 0.15},
	FailStart:            {"a task fails before RUNNING", 0.15},
	CrashLoop:            {"a task ends soon after RUNNING", 0.15},
	FlappingHealth:       {"the health of a task flaps", 0.15},
	IgnoreStop:           {"a task ignores that it should stop", 0.15},
	LaunchFails:          {"an instance cannot be launched", 0.5},
	LaunchSilent:         {"an instance is launched and never registers", 0.1},
	LaunchSlow:           {"a launch is late by up to 10 minutes", 0.3},
	LaunchElsewhere:      {"an instance is launched in another zone", 0.2},
	LaunchDisconnected:   {"an instance's agent disconnects as soon as it has registered", 0.1},
	GroupAmbiguous:       {"a change of a group or an instance times out, applied or not", 0.1},
	GroupLate:            {"a change of a group or an instance times out and is applied later", 0.05},
	GroupDenied:          {"a change of a group or an instance is denied", 0.003},
	ClockJump:            {"a clock jumps by up to an hour, ahead or back", 0.02},
}

// AllFaults lists all faults. Every eighth seed has none of them, so that what a decision knew is
// known to the second.
var AllFaults = func() (all []Fault) {
	for f := range faultCount {
		all = append(all, f)
	}
	return all
}()

// groupFaults strike only calls of Auto Scaling, and the instances that it launches.
var groupFaults = AllFaults[LaunchFails : GroupDenied+1]

// String says what the fault does.
func (f Fault) String() string { return faultTable[f].name }

// A FaultInjector strikes with each fault at a rate that is drawn once per seed, so that seeds
// differ in kind and not only in detail. Each fault draws from its own source: without one fault
// the others stay as they were.
type FaultInjector struct {
	active bool
	rates  [faultCount]float64
	random [faultCount]*rand.Rand
	hits   [faultCount]int
}

// jumpShare is the part of the seeds in which clocks jump. Whatever is checked to the second allows
// for an hour in them, so they are fewer than those of other faults.
const jumpShare = 0.125

// newFaultInjector draws the faults of one seed, without the disabled ones. Most kinds strike in
// only half of the seeds, so that each is also seen without the others.
func newFaultInjector(seed uint64, off []Fault) *FaultInjector {
	c := &FaultInjector{active: true}
	for f := range faultCount {
		random := rand.New(rand.NewPCG(seed, uint64(f)+1))
		c.random[f] = random
		share := 0.5
		if f == ClockJump {
			share = jumpShare
		}
		on, rate := random.Float64() < share, faultTable[f].most*random.Float64()
		if on && !slices.Contains(off, f) {
			c.rates[f] = rate
		}
	}
	return c
}

// isEnabled reports whether the fault is one of this seed's and may strike now. Lambda may choose
// any environment at any time.
func (c *FaultInjector) isEnabled(f Fault) bool {
	return (c.active || f == OtherEnvironment) && c.rates[f] > 0
}

// strikes draws whether the fault strikes now.
func (c *FaultInjector) strikes(f Fault) bool { return c.strikesAtPart(f, 1) }

// strikesAtPart is strikes at a part of the rate.
func (c *FaultInjector) strikesAtPart(f Fault, part float64) bool {
	if !c.isEnabled(f) || c.random[f].Float64() >= c.rates[f]*part {
		return false
	}
	c.hits[f]++
	return true
}

// drawBelow draws a number below n for a fault that has struck.
func (c *FaultInjector) drawBelow(f Fault, n int) int { return c.random[f].IntN(n) }

// drawUpTo draws a duration of less than that many seconds for a fault that has struck.
func (c *FaultInjector) drawUpTo(f Fault, seconds int) time.Duration {
	return time.Duration(c.random[f].IntN(seconds*1000)) * time.Millisecond
}

// describeStrikes returns the faults that have struck, as a failure prints them.
func (c *FaultInjector) describeStrikes() []string {
	var out []string
	for f, n := range c.hits {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: %d times, by a rate of %.2g", Fault(f), n, c.rates[f]))
		}
	}
	return out
}

// A functionOutage is a time in which a function cannot run because its concurrency is zero, or
// cannot reach the store.
type functionOutage struct {
	function string
	store    bool
	from, to time.Duration
}

// drawOutage draws the seed's outage. There is none if the fault is off.
func (c *FaultInjector) drawOutage() functionOutage {
	if !c.isEnabled(Outage) {
		return functionOutage{}
	}
	r := c.random[Outage]
	function := []string{"placement", "dispatch", "task-state-change"}[r.IntN(3)]
	from := time.Duration(r.IntN(600)) * time.Second
	store, length := r.IntN(2) == 0, time.Duration(60+r.IntN(840))*time.Second
	if function == "dispatch" {
		length *= 2 // long enough for its messages to become dead letters
	}
	return functionOutage{function, store, from, from + length}
}

// isInOutage reports whether an invocation of the function, or its call of the store, fails now
// because of the outage.
func (w *World) isInOutage(function string, store bool) bool {
	o, at := w.outage, w.Loop.Now().Sub(epoch)
	if !w.faults.active || function != o.function || store != o.store || at < o.from || at >= o.to {
		return false
	}
	w.faults.hits[Outage]++
	switch {
	case store:
		w.cover(coverage.StoreGone)
	case function == "dispatch":
		w.cover(coverage.OutboxLost)
	default:
		w.cover(coverage.Refused)
	}
	return true
}

// hasStruck reports whether any fault has struck.
func (c *FaultInjector) hasStruck() bool {
	return slices.ContainsFunc(c.hits[:], func(n int) bool { return n > 0 })
}
