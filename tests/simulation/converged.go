package simulation

import (
	"context"
	"strings"
	"time"

	"berth/shared/cluster"
)

// converged checks what has to hold once faults have stopped and time has passed (invariants 8 and 9).
func (w *World) converged() {
	w.atRest()
	w.truth()
	for _, s := range w.client.services {
		w.acknowledged(s)
	}
	for _, row := range w.checker.rows {
		if t, ok := row.(*cluster.Task); ok && t.Waiting() && w.room(t.TaskDefinition, t.Needs, "") {
			w.checker.fail("invariant 8: task %s of %q waits for an instance, and there is room for it", t.ID, t.Service)
		}
	}
}

// atRest checks that nothing is left to be done.
func (w *World) atRest() {
	if !w.Runtime.Idle() {
		w.checker.fail("invariant 8: messages or records are still under way: %+v", w.Runtime.Counters())
	}
	for key, row := range w.checker.rows {
		switch r := row.(type) {
		case *cluster.Outbox:
			w.checker.fail("invariant 8: outbox row %s is still there: %+v", key.Sort, r)
		case *cluster.Request:
			if !r.Answered {
				w.checker.fail("invariant 8: request %s was never answered", r.ID)
			}
		case *cluster.Due:
			if w.Loop.Now().Sub(r.At) > 15*time.Minute {
				w.checker.fail("invariant 8: due row %s is long past", key.Sort)
			}
		}
	}
}

// truth compares rows with what really runs.
func (w *World) truth() {
	rows := map[string]*cluster.Task{}
	for _, row := range w.checker.rows {
		if t, ok := row.(*cluster.Task); ok && t.Holds() {
			rows[t.ECSID] = t
		}
	}
	for _, t := range w.Fleet.Truth(clusterName) {
		row := rows[t.ID]
		delete(rows, t.ID)
		switch {
		case t.Last == cluster.TaskStopped && row != nil:
			w.checker.fail("invariant 8: ECS says task %s is STOPPED, its row %s says %s", t.ID, row.ID, row.Status())
		case t.Last != cluster.TaskStopped && row == nil:
			w.checker.fail("invariant 2: ECS runs task %s (started by %s on %s), and no row wants it", t.ID, t.StartedBy, t.Instance)
		}
	}
	for _, t := range rows {
		w.checker.fail("invariant 8: row %s (%s, ECS task %q) holds capacity on %s, and ECS has no such task: %+v", t.ID, t.Status(), t.ECSID, t.Instance, t)
	}
}

// acknowledged checks that a service is as the API last said, and runs what it should or says why not.
func (w *World) acknowledged(s *wanted) {
	row, ok := w.checker.rows[cluster.ServiceKey(clusterName, s.name)].(*cluster.Service)
	if !s.exists {
		if ok && row.Status != cluster.ServiceInactive {
			w.checker.fail("invariant 8: service %s was deleted and is %s", s.name, row.Status)
		}
		return
	}
	if !ok || row.Status != cluster.ServiceActive {
		w.checker.fail("invariant 9: service %s was acknowledged and is gone", s.name)
		return
	}
	running := w.runningOf(row)
	if s.daemon {
		w.daemons(row, running)
		return
	}
	if row.Desired != s.desired {
		w.checker.fail("invariant 9: service %s was scaled to %d and wants %d", s.name, s.desired, row.Desired)
	}
	w.enough(row, running, row.Desired)
}

func (w *World) runningOf(s *cluster.Service) map[string]int {
	on := map[string]int{}
	for _, row := range w.checker.rows {
		if t, ok := row.(*cluster.Task); ok && t.Owner == s.Short && t.Active() && t.Last == cluster.TaskRunning {
			on[t.Instance]++
		}
	}
	return on
}

func (w *World) enough(s *cluster.Service, running map[string]int, desired int) {
	n := 0
	for _, k := range running {
		n += k
	}
	switch {
	case n > desired:
		w.checker.fail("invariant 8: service %s runs %d tasks and wants %d", s.Name, n, desired)
	case n == desired && s.Running != n:
		w.checker.fail("invariant 8: service %s says it runs %d tasks and runs %d", s.Name, s.Running, n)
	case n < desired && s.Blocked == nil:
		w.checker.fail("invariant 8: service %s runs %d of %d tasks and does not say why", s.Name, n, desired)
	case n < desired:
		def := w.definition(s.TaskDefinition)
		if def != nil && w.room(s.TaskDefinition, def.Needs, "") {
			w.checker.fail("invariant 8: service %s runs %d of %d tasks, says %s, and there is room", s.Name, n, desired, s.Blocked)
		}
		w.said(s)
	}
}

// said checks that the user was told why tasks are missing.
func (w *World) said(s *cluster.Service) {
	if s.Events > cluster.EventRing {
		return // it may have been said and pushed out since
	}
	var said []string
	for _, row := range w.checker.rows {
		e, ok := row.(*cluster.ServiceEvent)
		if ok && e.Service == s.Short && strings.Contains(e.Message, "unable to place a task") {
			return
		}
		if ok && e.Service == s.Short {
			said = append(said, e.Message)
		}
	}
	w.checker.fail("invariant 8: service %s is short of tasks (%s) and no event says why, only %q", s.Name, s.Blocked, said)
}

func (w *World) daemons(s *cluster.Service, running map[string]int) {
	for _, i := range w.instances() {
		def := w.definition(s.TaskDefinition)
		if i.Available() && running[i.ID] != 1 && def != nil && w.room(s.TaskDefinition, def.Needs, i.ID) {
			w.checker.fail("invariant 8: daemon %s runs %d tasks on instance %s", s.Name, running[i.ID], i.ID)
		}
	}
}

func (w *World) definition(name string) *cluster.TaskDefinition {
	def, _ := w.checker.rows[cluster.TaskDefinitionKey(clusterName, name)].(*cluster.TaskDefinition)
	return def
}

// room reports whether some instance (or the one named) could take a task: a full scan with rules of its own.
func (w *World) room(definition string, needs cluster.Resources, instance string) bool {
	def := w.definition(definition)
	got, err := w.Store.List(context.Background(), cluster.Prefix(clusterName, cluster.PrefixInstance))
	if err != nil || def == nil {
		w.checker.fail("looking for room: %v", err)
		return false
	}
	for _, row := range got {
		i, ok := row.(*cluster.Instance)
		if ok && i.Available() && (instance == "" || i.ID == instance) && w.checker.fits(i, def, needs) {
			return true
		}
	}
	return false
}
