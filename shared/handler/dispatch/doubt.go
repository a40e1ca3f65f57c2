package dispatch

import (
	"errors"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// notFound reports whether ECS says that it has no such task.
func notFound(err error) bool {
	var e *cluster.Error
	return errors.As(err, &e) && (e.Code == cluster.CodeInvalidParameter || e.Code == cluster.CodeClusterNotFound)
}

// doubt settles a task whose last start has an unknown outcome: ECS's lists are asked once they can be believed. True
// means that ECS has no such task, so it may be started again; where ECS has one it is adopted, and any other stopped.
func (d *drainer) doubt(t *cluster.Task) (nothing bool, err error) {
	if wait := t.ClaimedAt.Time().Add(d.Settings.Settle).Sub(d.Clock.Now()); wait > 0 {
		d.again(wait)
		return false, nil
	}
	found, err := d.find(t)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if err := d.adopt(t, f); err != nil {
			return false, err
		}
	}
	if len(found) > 0 {
		d.again(time.Second)
	}
	return len(found) == 0, nil
}

// find asks ECS for the tasks that were started for t: by startedBy, which must be the only filter, and among those
// stopped on the instance.
func (d *drainer) find(t *cluster.Task) ([]cluster.ECSTask, error) {
	var out []cluster.ECSTask
	for _, f := range []cluster.TaskFilter{
		{Cluster: d.cluster, StartedBy: t.Batch},
		{Cluster: d.cluster, Instance: t.Instance, Desired: cluster.TaskStopped},
	} {
		err := observe.EachTask(d.ctx, d.ECS, f, func(e cluster.ECSTask) error {
			if e.StartedBy == t.Batch && e.Instance == t.Instance {
				out = append(out, e)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for what was started by %s: %w", t.Batch, err)
		}
	}
	return out, nil
}

// adopt records an ECS task as this one's, or has it stopped if another was adopted before.
func (d *drainer) adopt(t *cluster.Task, e cluster.ECSTask) error {
	_, err := d.observer().Report(d.ctx, state.KeyOf(t), e)
	return err
}

// stop carries out one stop; done false leaves it for later.
func (d *drainer) stop(s state.StopItem) (done bool, err error) {
	if s.ECSID != "" {
		done, known, err := d.stopAtECS(s.ECSID, s.Reason)
		if !done || known || s.ID == "" {
			return done, err
		}
	}
	row, err := d.State.Get(d.ctx, state.TaskKey(d.cluster, s.Owner, s.ID))
	if err != nil {
		return false, fmt.Errorf("reading task %s: %w", s.ID, err)
	}
	t, ok := row.(*cluster.Task)
	switch {
	case !ok || t == nil || t.Last == cluster.TaskStopped:
		return true, nil
	case t.ECSID != "":
		done, known, err := d.stopAtECS(t.ECSID, s.Reason)
		if !done || known {
			return done, err
		}
		return d.giveUp(t, s.Reason)
	case t.Attempt == 0:
		// Nobody started it, and nobody can claim it any more.
		return d.giveUp(t, s.Reason)
	}
	return d.stopUnknown(t, s.Reason)
}

// stopUnknown stops a task that was started and has not reported itself yet.
func (d *drainer) stopUnknown(t *cluster.Task, reason string) (bool, error) {
	found, err := d.find(t)
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if err := d.adopt(t, f); err != nil {
			return false, err
		}
		if done, _, err := d.stopAtECS(f.ID, reason); !done {
			return false, err
		}
	}
	if len(found) > 0 {
		return true, nil
	}
	if wait := t.ClaimedAt.Time().Add(d.Settings.Settle).Sub(d.Clock.Now()); wait > 0 {
		d.again(wait)
		return false, nil
	}
	return d.giveUp(t, reason)
}

// giveUp records a task as STOPPED that is to be stopped and that ECS does not have. One that has reported itself
// meanwhile is left for the next round.
func (d *drainer) giveUp(t *cluster.Task, reason string) (done bool, err error) {
	_, err = d.State.Write(d.ctx, state.Write{Observe: d.ended(t, cluster.StopByScheduler, reason)})
	if err != nil && state.IgnoreConflict(err) == nil {
		d.again(time.Second)
		return false, nil
	}
	return err == nil, cluster.Wrap(err, "writing off task %s", t.ID)
}

// stopAtECS is one StopTask; known false with done says that ECS has no such task.
func (d *drainer) stopAtECS(ecsID, reason string) (done, known bool, err error) {
	if !d.token() {
		return false, true, nil
	}
	err = d.ECS.StopTask(d.ctx, d.cluster, ecsID, reason)
	if err == nil {
		d.Figures.Add(handler.TasksStopped, 1)
	}
	if err == nil || notFound(err) {
		return true, err == nil, nil
	}
	if cluster.ErrorCode(err) == cluster.CodeAccessDenied {
		d.again(denied)
	} else {
		d.again(time.Second)
	}
	return false, true, fmt.Errorf("stopping task %s: %w", ecsID, err)
}
