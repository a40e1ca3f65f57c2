package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// maxBalancerCalls bounds the calls of Elastic Load Balancing and Cloud Map in one round. They take
// no token of the bucket that StartTask and StopTask share.
const maxBalancerCalls = 100

// registrationLease is how long after reading a task's rows it may still be registered. Later its
// stop may have deregistered it already. An outbox row older than this may have been begun by an
// environment that was cut off.
const registrationLease = 30 * time.Second

// A taskRegistration is one task whose registrations are being made or ended in this round.
type taskRegistration struct {
	item   state.TargetItem
	target *cluster.Target
	task   *cluster.Task
	readAt time.Time // when both rows were read
	begun  bool      // another environment may have begun, and may have registered the task after its deregistration
	left   bool      // something is left for a later round
	// made and failed are this round's outcomes by position in target.Registrations; a failure has
	// its reason.
	made   map[int]bool
	failed map[int]string
}

// readRegistration reads the task and its registrations. A target of nil means that there is
// nothing to do.
func readRegistration(ctx context.Context, r *round, item state.TargetItem) (*taskRegistration, error) {
	reg := &taskRegistration{item: item, readAt: r.Clock.Now(), made: map[int]bool{}, failed: map[int]string{}}
	var err error
	reg.target, err = state.ReadRow[*cluster.Target](
		ctx, r.State, state.TargetKey(r.cluster, item.Owner, item.ID), "the registrations of task "+item.ID)
	if err != nil || reg.target == nil {
		return reg, err
	}
	reg.task, err = state.ReadRow[*cluster.Task](
		ctx, r.State, state.TaskKey(r.cluster, item.Owner, item.ID), "task "+item.ID)
	return reg, err
}

// isWanted reports whether a registration has not been made yet, or has failed and should be
// retried.
func (reg *taskRegistration) isWanted(g cluster.Registration) bool {
	return g.State == "" || reg.item.Again && g.State == cluster.RegistrationFailed
}

// TargetAddress returns the registration's address as load balancers take it. A Classic Load
// Balancer takes the instance, without the port.
func TargetAddress(g cluster.Registration) cluster.Address {
	if _, classic := cluster.ClassicName(g.ARN); classic {
		return cluster.Address{Host: g.Address}
	}
	return cluster.Address{Host: g.Address, Port: g.Port, ExternalID: g.ExternalID}
}

// isRefused reports whether the API understood the call and will never carry it out: the target
// group or target does not exist, or is of the wrong type.
func isRefused(err error) bool {
	var e *cluster.Error
	if err == nil || errors.Is(err, cluster.ErrAmbiguous) || !errors.As(err, &e) {
		return false
	}
	return !slices.Contains([]cluster.Code{
		cluster.CodeThrottling, cluster.CodeServer, cluster.CodeAccessDenied, cluster.CodeDuplicateRequest,
		cluster.CodeEntryInUse,
	}, e.Code)
}

// apiMessage returns the error text as the API gave it.
func apiMessage(err error) string {
	var e *cluster.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// retryDelay returns how long to wait after a failed call.
func retryDelay(err error) time.Duration {
	if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
		return accessDeniedDelay
	}
	return time.Second
}

// UpdateTarget applies change to the newest version of a row, retrying when another writer was
// first. It returns the row as it is then, nil if it was deleted. change returns false if nothing
// changes.
func UpdateTarget(
	ctx context.Context, store state.Store, clock state.Clock, row *cluster.Target, change func(*cluster.Target) bool,
) (*cluster.Target, error) {
	key, what, first := state.KeyOf(row), "the registrations of task "+row.Task, true
	err := state.RetryRaces(ctx, clock, "writing "+what, func() (err error) {
		if !first {
			row, err = state.ReadRow[*cluster.Target](ctx, store, key, what)
		}
		if first = false; err != nil || row == nil {
			return err
		}
		next := *row
		next.Registrations = slices.Clone(row.Registrations)
		if !change(&next) {
			return nil
		}
		next.Rev++
		if _, err := store.Write(ctx, state.Write{Put: &next}); err != nil {
			return fmt.Errorf("writing %s: %w", what, err)
		}
		row = &next
		return nil
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

// needsAddress reports whether a registration is wanted and has no address yet.
func (reg *taskRegistration) needsAddress(g cluster.Registration) bool {
	return reg.isWanted(g) && g.Address == ""
}

// isRegistered reports whether the registration is made, or may be about to be.
func isRegistered(g cluster.Registration) bool { return g.State == "" || g.State == cluster.Registered }
