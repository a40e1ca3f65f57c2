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
	"berth/tests/simulation/coverage"
)

// A faultyStore is a store whose calls fail in the ways of a distributed store. A call takes effect
// at one instant; before and after that, the caller may be suspended or die. The inner store is the
// real one, so conditions and conflicts are those of production.
type faultyStore struct {
	world    *World
	function string
	inner    state.Store
}

var _ state.Store = (*faultyStore)(nil)

// beforeCall injects what can go wrong before a call takes effect.
func (s *faultyStore) beforeCall(ctx context.Context, write bool) error {
	p, c := processOf(ctx), s.world.faults
	if err := p.interrupt(); err != nil {
		if write && p.kind == functionProcess {
			s.world.cover(coverage.CrashBefore)
			if p.writes > 0 {
				s.world.cover(coverage.CrashMiddle)
			}
		}
		return err
	}
	var err error
	switch {
	case s.world.isInOutage(s.function, true):
		err = errors.New("the store cannot be reached")
	case c.strikes(StoreThrottle):
		err = errors.New("throttled by the store")
	case write && c.strikes(StoreConflict):
		err = errors.New("another transaction is in the way")
	case write && c.strikesAtPart(StoreAmbiguous, 0.5):
		s.world.cover(coverage.NotApplied)
		err = fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	if err != nil && p != nil {
		p.hadFault = true
	}
	return err
}

// afterCall injects what can go wrong after a call has taken effect.
func (s *faultyStore) afterCall(ctx context.Context, err error) error {
	p, w := processOf(ctx), s.world
	w.coverConflict(err)
	if p != nil && err == nil {
		p.writes++
	}
	if dead := p.interrupt(); dead != nil {
		if err == nil && p.kind == functionProcess {
			w.cover(coverage.CrashAfter)
		}
		return dead
	}
	if err == nil && w.faults.strikesAtPart(StoreAmbiguous, 0.5) {
		w.cover(coverage.Applied)
		if p != nil {
			p.hadFault = true
		}
		return fmt.Errorf("timed out: %w", cluster.ErrAmbiguous)
	}
	return err
}

// coverConflict covers what the store itself refused.
func (w *World) coverConflict(err error) {
	var c *state.Conflict
	switch {
	case errors.As(err, &c) && c.Version:
		w.cover(coverage.LostVersion)
	case errors.As(err, &c):
		w.cover(coverage.LostRace)
	case err != nil && strings.Contains(err.Error(), "bytes, at most"):
		w.cover(coverage.TooLarge)
	}
}

func (s *faultyStore) Get(ctx context.Context, key state.Key) (state.Row, error) {
	if err := s.beforeCall(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.Get(processOf(ctx).callContext(ctx), key)
}

func (s *faultyStore) Peek(ctx context.Context, key state.Key) (state.Row, error) {
	if err := s.beforeCall(ctx, false); err != nil {
		return nil, err
	}
	row, err := s.inner.Peek(processOf(ctx).callContext(ctx), key)
	if old, ok := s.world.checker.StaleRow(key); ok && s.world.faults.strikes(StaleRead) {
		return old, err
	}
	return row, err
}

func (s *faultyStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if err := s.beforeCall(ctx, false); err != nil {
		return nil, err
	}
	return s.inner.List(processOf(ctx).callContext(ctx), r)
}

func (s *faultyStore) Visit(ctx context.Context, r state.Range, visit func(state.Row) error) error {
	if err := s.beforeCall(ctx, false); err != nil {
		return err
	}
	return s.inner.Visit(processOf(ctx).callContext(ctx), r, visit)
}

func (s *faultyStore) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if err := s.beforeCall(ctx, true); err != nil {
		return nil, err
	}
	if err := s.dieWhileWriting(ctx, []state.Write{w},
		func() { _, _ = s.inner.Write(context.Background(), w) }); err != nil {
		return nil, err
	}
	row, err := s.inner.Write(processOf(ctx).callContext(ctx), w)
	var c *state.Conflict
	if w.Observe != nil && errors.As(err, &c) {
		if t, ok := c.Row.(*cluster.Task); ok && t != nil && t.Version > w.Observe.Version {
			s.world.cover(coverage.StaleEvent)
		}
	}
	if dead := s.world.upgrade.dieIfDue(processOf(ctx), s.function); dead != nil {
		return nil, dead
	}
	return row, s.afterCall(ctx, err)
}

func (s *faultyStore) Commit(ctx context.Context, c state.Commit) error {
	if err := s.beforeCall(ctx, true); err != nil {
		return err
	}
	if err := s.dieWhileWriting(ctx, c.Writes, func() { _ = s.inner.Commit(context.Background(), c) }); err != nil {
		return err
	}
	err := s.inner.Commit(processOf(ctx).callContext(ctx), c)
	if dead := s.world.upgrade.dieIfDue(processOf(ctx), s.function); dead != nil {
		return dead
	}
	return s.afterCall(ctx, err)
}

// dieWhileWriting may let the process die while its write is in progress; the write takes effect
// later. It also checks that malformed requests write nothing but cached task definitions.
func (s *faultyStore) dieWhileWriting(ctx context.Context, writes []state.Write, apply func()) error {
	p := processOf(ctx)
	if p == nil {
		return nil
	}
	if p.kind == malformedClient {
		for _, w := range writes {
			if _, ok := w.Put.(*cluster.TaskDefinition); !ok {
				s.world.checker.Fail("a malformed request (%s) wrote row %s", p.name, w.Key().Sort)
			}
		}
	}
	if p.kind == functionProcess && s.world.faults.strikes(LateWrite) {
		s.world.Loop.After(s.world.faults.drawUpTo(LateWrite, 3), apply)
		return p.die("dies, its write under way")
	}
	return nil
}

// faultyECS adds the faults of the caller to those of the simulated ECS: a call is denied, or the
// caller is suspended or dies before or after it.
type faultyECS struct {
	world    *World
	function string
	handler.ECS
}

func (e *faultyECS) beforeCall(ctx context.Context) error {
	p := processOf(ctx)
	if err := p.interrupt(); err != nil {
		return err
	}
	part := 1.0
	if e.function == upgrader { // one denial ends an update
		part = 0.05
	}
	if p != nil && p.kind == functionProcess && e.world.faults.strikesAtPart(ECSDenied, part) {
		e.world.cover(coverage.Denied)
		return cluster.Errorf(cluster.CodeAccessDenied, "The role may not do that.")
	}
	return nil
}

func (e *faultyECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	p := processOf(ctx)
	if p != nil && p.kind == malformedClient {
		e.world.checker.Fail("a malformed request (%s) started tasks", p.name)
	}
	if err := e.beforeCall(ctx); err != nil {
		return cluster.StartAnswer{}, err
	}
	e.world.checker.CheckStartTask(call)
	answer, err := e.ECS.StartTask(ctx, call)
	if dead := p.interrupt(); dead != nil {
		return cluster.StartAnswer{}, dead
	}
	return answer, err
}

func (e *faultyECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) error {
	if err := e.beforeCall(ctx); err != nil {
		return err
	}
	e.world.checkStopTask(ecsID)
	err := e.ECS.StopTask(ctx, clusterName, ecsID, reason)
	if dead := processOf(ctx).interrupt(); dead != nil {
		return dead
	}
	return err
}

func (e *faultyECS) ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error) {
	if err := e.beforeCall(ctx); err != nil {
		return nil, err
	}
	ids, err := e.ECS.ListTasks(ctx, f)
	if e.world.faults.isEnabled(ListLate) && err == nil && f.StartedBy != "" {
		for _, t := range e.world.AWS.Machines.TaskTruths(clusterName) {
			if t.StartedBy == f.StartedBy && t.Desired == cluster.TaskRunning && !slices.Contains(ids, t.ID) {
				e.world.faults.hits[ListLate]++
				e.world.cover(coverage.ListLate)
			}
		}
	}
	return ids, err
}

func (e *faultyECS) DescribeInstances(
	ctx context.Context, clusterName string, ids []string,
) ([]*cluster.Instance, error) {
	if err := e.beforeCall(ctx); err != nil {
		return nil, err
	}
	return e.ECS.DescribeInstances(ctx, clusterName, ids)
}

func (e *faultyECS) DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error) {
	if err := e.beforeCall(ctx); err != nil {
		return nil, err
	}
	return e.ECS.DescribeTasks(ctx, clusterName, ids)
}

// DescribeTaskDefinition lets one family require a custom attribute. In ECS, requirements follow
// from the task definition, and all simulated agents have all of ECS's own capabilities.
func (e *faultyECS) DescribeTaskDefinition(ctx context.Context, name string) (*cluster.TaskDefinition, error) {
	def, err := e.ECS.DescribeTaskDefinition(ctx, name)
	if err == nil && def.Family == "disk" {
		def.Attributes = append(def.Attributes, diskAttribute+"="+diskValue)
	}
	return def, err
}
