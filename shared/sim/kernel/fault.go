package kernel

import (
	"fmt"
	"time"

	"berth/shared/cluster"
)

// CallFault is what goes wrong with one call. The zero value is nothing.
type CallFault struct {
	Throttled bool // refused, without effect
	// Ambiguous loses the answer: the caller gets cluster.ErrAmbiguous, as after a time-out. The
	// call has no effect unless Applied is true; then it has it at once, or Late after the answer,
	// as a request that was held up on the way.
	Ambiguous, Applied bool
	Late               time.Duration
}

// CallFaults make calls of the ports fail, for tests.
type CallFaults struct {
	// Call decides about one call: the operation, and the task, the startedBy, the cluster or the
	// group that it concerns. It must not call a service.
	Call func(operation, subject string) CallFault
	// ListLate bounds how long a new task is missing from ListTasks.
	ListLate time.Duration
}

// SetCallFaults replaces the faults in force. The zero value ends them.
func (k *Kernel) SetCallFaults(f CallFaults) { k.WithLock(func() { k.faults = f }) }

// ListingDelay is the [CallFaults.ListLate] in force. It belongs in a step.
func (k *Kernel) ListingDelay() time.Duration { return k.faults.ListLate }

// Call makes a change that a caller asked for, unless a fault prevents it.
func (k *Kernel) Call(operation, subject string, step func(now time.Time) error) error {
	apply := func() error { return k.Change(step) }
	if err := k.applyFault(operation, subject, apply); err != nil {
		return err
	}
	return apply()
}

// CallView answers a question that a caller asked, unless a fault prevents it.
func (k *Kernel) CallView(operation, subject string, step func(now time.Time) error) error {
	if err := k.FaultOfCall(operation, subject); err != nil {
		return err
	}
	return k.View(step)
}

// FaultOfCall returns the error that a fault gives to a call without effect, or nil.
func (k *Kernel) FaultOfCall(operation, subject string) error {
	return k.applyFault(operation, subject, func() error { return nil })
}

// applyFault returns the error that a fault gives to a call, or nil where the call is to take
// place. It applies the effect of a call that succeeds although its caller gets no answer.
func (k *Kernel) applyFault(operation, subject string, apply func() error) error {
	var decide func(operation, subject string) CallFault
	k.WithLock(func() { decide = k.faults.Call })
	if decide == nil {
		return nil
	}
	switch fault := decide(operation, subject); {
	case fault.Throttled:
		return cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	case !fault.Ambiguous:
		return nil
	case fault.Applied && fault.Late > 0:
		k.After(fault.Late, func() { _ = apply() })
	case fault.Applied:
		_ = apply() // the caller never learns the outcome
	}
	return fmt.Errorf("calling %s: timed out: %w", operation, cluster.ErrAmbiguous)
}
