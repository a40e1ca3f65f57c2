package simulation

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// faultyState is a State whose calls can fail in the ways that a distributed store's can. Each call that takes effect
// does so at one instant; before and after it the caller may be set aside or die.
type faultyState struct {
	world *World
	inner handler.State
}

var _ handler.State = (*faultyState)(nil)

// before is what can go wrong before a call takes effect.
func (s *faultyState) before(ctx context.Context, conflict bool) error {
	if err := processOf(ctx).pause(); err != nil {
		return err
	}
	c := s.world.chaos
	switch {
	case c.hit(c.Throttle):
		return fmt.Errorf("throttled by the store")
	case conflict && c.hit(c.Conflict):
		return fmt.Errorf("another transaction is in the way")
	case conflict && c.hit(c.Ambiguous/2):
		return fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	return nil
}

// after is what can go wrong once a call has taken effect.
func (s *faultyState) after(ctx context.Context, err error) error {
	if dead := processOf(ctx).pause(); dead != nil {
		return dead
	}
	if err == nil && s.world.chaos.hit(s.world.chaos.Ambiguous/2) {
		return fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	return err
}

func (s *faultyState) Get(ctx context.Context, key cluster.Key) (cluster.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.Get(ctx, key)
}

func (s *faultyState) Peek(ctx context.Context, key cluster.Key) (cluster.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	row, err := s.inner.Peek(ctx, key)
	if old, ok := s.world.checker.previous(key); ok && s.world.chaos.hit(s.world.chaos.Stale) {
		return old, err
	}
	return row, err
}

func (s *faultyState) List(ctx context.Context, r cluster.Range) ([]cluster.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.List(ctx, r)
}

func (s *faultyState) Write(ctx context.Context, w cluster.Write) (cluster.Row, error) {
	if err := s.before(ctx, true); err != nil {
		return nil, err
	}
	row, err := s.inner.Write(ctx, w)
	return row, s.after(ctx, err)
}

func (s *faultyState) Commit(ctx context.Context, c cluster.Commit) error {
	if err := s.before(ctx, true); err != nil {
		return err
	}
	return s.after(ctx, s.inner.Commit(ctx, c))
}

// faultyECS adds to the fleet's own call faults what befalls the caller: set aside, or dead, before or after.
type faultyECS struct {
	world *World
	handler.ECS
}

func (e *faultyECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	if err := processOf(ctx).pause(); err != nil {
		return cluster.StartAnswer{}, err
	}
	e.world.checker.startCalled(call)
	answer, err := e.ECS.StartTask(ctx, call)
	if dead := processOf(ctx).pause(); dead != nil {
		return cluster.StartAnswer{}, dead
	}
	return answer, err
}

func (e *faultyECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) error {
	if err := processOf(ctx).pause(); err != nil {
		return err
	}
	e.world.checker.calls++
	err := e.ECS.StopTask(ctx, clusterName, ecsID, reason)
	if dead := processOf(ctx).pause(); dead != nil {
		return dead
	}
	return err
}
