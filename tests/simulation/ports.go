package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// faultyState is a State whose calls can fail in the ways that a distributed store's can. Each call that takes effect
// does so at one instant; before and after it the caller may be set aside or die.
type faultyState struct {
	world    *World
	function string
	inner    state.Store
}

var _ state.Store = (*faultyState)(nil)

// before is what can go wrong before a call takes effect.
func (s *faultyState) before(ctx context.Context, write bool) error {
	p, c := processOf(ctx), s.world.chaos
	if err := p.pause(); err != nil {
		if write && p.mode == function {
			s.world.mark(MarkCrashBefore)
			if p.writes > 0 {
				s.world.mark(MarkCrashMiddle)
			}
		}
		return err
	}
	var err error
	switch {
	case s.world.refuses(s.function, true):
		err = errors.New("the store cannot be reached")
	case c.hit(Throttle):
		err = errors.New("throttled by the store")
	case write && c.hit(Conflict):
		err = errors.New("another transaction is in the way")
	case write && c.hitPart(Ambiguous, 0.5):
		s.world.mark(MarkNotApplied)
		err = fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	if err != nil && p != nil {
		p.hurt = true
	}
	return err
}

// after is what can go wrong once a call has taken effect.
func (s *faultyState) after(ctx context.Context, err error) error {
	p, w := processOf(ctx), s.world
	w.conflict(err)
	if p != nil && err == nil {
		p.writes++
	}
	if dead := p.pause(); dead != nil {
		if err == nil && p.mode == function {
			w.mark(MarkCrashAfter)
		}
		return dead
	}
	if err == nil && w.chaos.hitPart(Ambiguous, 0.5) {
		w.mark(MarkApplied)
		if p != nil {
			p.hurt = true
		}
		return fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	return err
}

// conflict marks what the store itself refused.
func (w *World) conflict(err error) {
	var c *state.Conflict
	switch {
	case errors.As(err, &c) && c.Version:
		w.mark(MarkLostVersion)
	case errors.As(err, &c):
		w.mark(MarkLostRace)
	case err != nil && strings.Contains(err.Error(), "bytes, at most"):
		w.mark(MarkTooLarge)
	}
}

func (s *faultyState) Get(ctx context.Context, key state.Key) (state.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.Get(processOf(ctx).reach(ctx), key)
}

func (s *faultyState) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	row, err := s.inner.Peek(processOf(ctx).reach(ctx), key)
	if old, ok := s.world.checker.previous(key); ok && s.world.chaos.hit(Stale) {
		return old, err
	}
	return row, err
}

func (s *faultyState) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if err := s.before(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.List(processOf(ctx).reach(ctx), r)
}

func (s *faultyState) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if err := s.before(ctx, true); err != nil {
		return nil, err
	}
	if err := s.leave(ctx, []state.Write{w}, func() { _, _ = s.inner.Write(context.Background(), w) }); err != nil {
		return nil, err
	}
	row, err := s.inner.Write(processOf(ctx).reach(ctx), w)
	var c *state.Conflict
	if w.Observe != nil && errors.As(err, &c) {
		if t, ok := c.Row.(*cluster.Task); ok && t != nil && t.Version > w.Observe.Version {
			s.world.mark(MarkStaleEvent)
		}
	}
	if dead := s.world.upgrades.struck(processOf(ctx), s.function); dead != nil {
		return nil, dead
	}
	return row, s.after(ctx, err)
}

func (s *faultyState) Commit(ctx context.Context, c state.Commit) error {
	if err := s.before(ctx, true); err != nil {
		return err
	}
	if err := s.leave(ctx, c.Writes, func() { _ = s.inner.Commit(context.Background(), c) }); err != nil {
		return err
	}
	err := s.inner.Commit(processOf(ctx).reach(ctx), c)
	if dead := s.world.upgrades.struck(processOf(ctx), s.function); dead != nil {
		return dead
	}
	return s.after(ctx, err)
}

// leave may have the process die with its write under way, to take effect later. A vandal must not come here, but to
// cache a task definition.
func (s *faultyState) leave(ctx context.Context, writes []state.Write, apply func()) error {
	p := processOf(ctx)
	if p == nil {
		return nil
	}
	if p.mode == vandal {
		for _, w := range writes {
			if _, ok := w.Put.(*cluster.TaskDefinition); !ok {
				s.world.checker.fail("a malformed request (%s) wrote row %s", p.name, w.Key().Sort)
			}
		}
	}
	if p.mode == function && s.world.chaos.hit(Linger) {
		s.world.Loop.After(s.world.chaos.upTo(Linger, 3), apply)
		return p.die("dies, its write under way")
	}
	return nil
}

// faultyECS adds to the fleet's own call faults what befalls the caller: denied, set aside, or dead, before or after.
type faultyECS struct {
	world    *World
	function string
	handler.ECS
}

func (e *faultyECS) before(ctx context.Context) error {
	p := processOf(ctx)
	if err := p.pause(); err != nil {
		return err
	}
	part := 1.0
	if e.function == upgrader { // which gives up at once
		part = 0.05
	}
	if p != nil && p.mode == function && e.world.chaos.hitPart(ECSDenied, part) {
		e.world.mark(MarkDenied)
		return cluster.Errorf(cluster.CodeAccessDenied, "The role may not do that.")
	}
	return nil
}

func (e *faultyECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	p := processOf(ctx)
	if p != nil && p.mode == vandal {
		e.world.checker.fail("a malformed request (%s) started tasks", p.name)
	}
	if err := e.before(ctx); err != nil {
		return cluster.StartAnswer{}, err
	}
	e.world.checker.startCalled(call)
	answer, err := e.ECS.StartTask(ctx, call)
	if dead := p.pause(); dead != nil {
		return cluster.StartAnswer{}, dead
	}
	return answer, err
}

func (e *faultyECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) error {
	if err := e.before(ctx); err != nil {
		return err
	}
	e.world.stopCalled(ecsID)
	err := e.ECS.StopTask(ctx, clusterName, ecsID, reason)
	if dead := processOf(ctx).pause(); dead != nil {
		return dead
	}
	return err
}

func (e *faultyECS) ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error) {
	if err := e.before(ctx); err != nil {
		return nil, err
	}
	ids, err := e.ECS.ListTasks(ctx, f)
	if e.world.chaos.on(ListLate) && err == nil && f.StartedBy != "" {
		for _, t := range e.world.AWS.Machines.TaskTruths(clusterName) {
			if t.StartedBy == f.StartedBy && t.Desired == cluster.TaskRunning && !slices.Contains(ids, t.ID) {
				e.world.chaos.hits[ListLate]++
				e.world.mark(MarkListLate)
			}
		}
	}
	return ids, err
}

func (e *faultyECS) DescribeInstances(ctx context.Context, clusterName string, ids []string) ([]*cluster.Instance, error) {
	if err := e.before(ctx); err != nil {
		return nil, err
	}
	return e.ECS.DescribeInstances(ctx, clusterName, ids)
}

func (e *faultyECS) DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error) {
	if err := e.before(ctx); err != nil {
		return nil, err
	}
	return e.ECS.DescribeTasks(ctx, clusterName, ids)
}

// DescribeTaskDefinition has one family need an attribute of the installation's own. ECS derives what a task
// definition requires; of its capabilities all agents of the fleet have all.
func (e *faultyECS) DescribeTaskDefinition(ctx context.Context, name string) (*cluster.TaskDefinition, error) {
	def, err := e.ECS.DescribeTaskDefinition(ctx, name)
	if err == nil && def.Family == "disk" {
		def.Attributes = append(def.Attributes, diskAttribute+"="+diskValue)
	}
	return def, err
}
