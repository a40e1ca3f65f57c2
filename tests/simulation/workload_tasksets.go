package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
	"berth/tests/simulation/model"
)

// Actions on services with the deployment controller EXTERNAL and their task sets (S15).

// An expectedTaskSet is a task set as the API last acknowledged it.
type expectedTaskSet struct {
	id         string
	definition string
	first      float64 // the scale that it was created with
	scale      float64 // unknownScale after a refused change that an earlier attempt may have made
	deleted    bool
}

const unknownScale = -1

// taskSetKinds are actions of a third of the runs. Like [extraKinds] they have a source of their
// own.
var taskSetKinds = []string{
	"add-task-set", "add-task-set", "add-task-set", "scale-task-set", "scale-task-set", "scale-task-set",
	"primary-task-set", "primary-task-set", "delete-task-set", "create-external",
}

// drawTaskSets draws the actions on task sets that a seed has in addition to its history. Early on
// there is a service with a task set.
func drawTaskSets(seed uint64, span time.Duration) []Action {
	rng := rand.New(rand.NewPCG(seed, 0x7461736b73657473))
	if rng.IntN(3) > 0 {
		return nil
	}
	out := []Action{
		{time.Second, "create-external", rng.Uint64(), rng.IntN(8)},
		{time.Minute, "add-task-set", rng.Uint64(), rng.IntN(8)},
	}
	for range 4 + rng.IntN(9) {
		at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
		out = append(out, Action{at, taskSetKinds[rng.IntN(len(taskSetKinds))], rng.Uint64(), rng.IntN(8)})
	}
	return out
}

// createExternal creates a service of task sets.
func (c *apiClient) createExternal(a Action) {
	s := &expectedService{name: fmt.Sprint("x", a.Pick%2), external: true, desired: 1 + a.N, exists: true, busy: true}
	i := slices.IndexFunc(c.services, func(o *expectedService) bool { return o.name == s.name })
	if i >= 0 && (c.services[i].exists || c.services[i].busy) {
		return
	}
	spec := operation.CreateService{
		Cluster: clusterName, Name: s.name, Desired: &s.desired, Controller: cluster.ExternalController,
		Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick), Rules: drawRules(a.Pick, false),
	}
	s.rules = &spec.Rules
	if p := percentagePairs[a.Pick%uint64(len(percentagePairs))]; p[1] != 200 {
		spec.MinHealthy, spec.MaxPercent = &p[0], &p[1]
	}
	c.world.logf("create %s: %d by task sets, rules %s", s.name, s.desired, rulesText(spec.Rules))
	c.addService(s, spec)
}

// pickExternal picks a service of task sets that exists and is not being changed. It returns nil if
// there is none.
func (c *apiClient) pickExternal(a Action) *expectedService {
	return c.pickServiceIf(a, func(s *expectedService) bool { return s.external })
}

// pickTaskSet picks a task set that has not been deleted, with its service. It returns nil if there
// is none.
func (c *apiClient) pickTaskSet(a Action) (*expectedService, *expectedTaskSet) {
	s := c.pickExternal(a)
	if s == nil {
		return nil, nil
	}
	live := s.liveTaskSets()
	if len(live) == 0 {
		return nil, nil
	}
	return s, live[a.Pick/3%uint64(len(live))]
}

func (s *expectedService) liveTaskSets() (live []*expectedTaskSet) {
	for _, set := range s.taskSets {
		if !set.deleted {
			live = append(live, set)
		}
	}
	return live
}

var (
	taskSetDefinitions = []string{
		"small:1", "small:2", "checked:1", "checked:2", "big:1", "small:1", "checked:1", invariant.BrokenFamily + ":1",
		"small:2", invariant.UnhealthyFamily + ":1",
	}
	taskSetScales = []float64{100, 50, 25, 0, 100, 33, 10, 75}
)

// addTaskSet creates a task set.
func (c *apiClient) addTaskSet(a Action) {
	s := c.pickExternal(a)
	if s == nil {
		return
	}
	set := &expectedTaskSet{definition: taskSetDefinitions[a.Pick/3%uint64(len(taskSetDefinitions))],
		scale: taskSetScales[a.N]}
	set.first = set.scale
	spec := operation.CreateTaskSet{Cluster: clusterName, Service: s.name, TaskDefinition: set.definition,
		Scale: set.scale, Launched: true, Token: fmt.Sprint("set", a.Pick), Params: fmt.Sprint(a.Pick)}
	c.world.logf("add a task set to %s: %g %% of %s", s.name, set.scale, set.definition)
	c.changeTaskSets(s, "add a task set to "+s.name, func(ctx context.Context) error {
		d, err := c.world.API.TaskSets.CreateTaskSet(ctx, spec)
		if err == nil {
			set.id = d.Deployment.ID
		}
		return err
	}, func(err error) {
		if err == nil {
			s.taskSets = append(s.taskSets, set)
		}
	})
}

// changeTaskSets changes task sets of a service. A refusal is allowed only because of the service's
// rules, or because it has as many task sets as it may.
func (c *apiClient) changeTaskSets(
	s *expectedService, what string, f func(ctx context.Context) error, answered func(err error),
) {
	s.busy = true
	c.callUntilAnswered(what, f, func(err error) {
		s.busy = false
		row, ok := c.world.serviceRow(s.name)
		isFull := ok && len(row.Older) >= cluster.MaxTaskSets-1
		if err != nil && !(cluster.ErrorCode(err) == cluster.CodeInvalidParameter && (s.hasRules() || isFull)) {
			c.world.checker.Fail("invariant 9: service %s was acknowledged, and %s fails: %v", s.name, what, err)
		}
		answered(err)
	})
}

// hasRules reports whether the service may have placement rules.
func (s *expectedService) hasRules() bool { return s.rules == nil || !s.rules.IsEmpty() }

func (s *expectedService) refTo(set *expectedTaskSet) operation.TaskSetRef {
	return operation.TaskSetRef{Cluster: clusterName, Service: s.name, ID: set.id}
}

// scaleTaskSet changes the scale of a task set.
func (c *apiClient) scaleTaskSet(a Action) {
	s, set := c.pickTaskSet(a)
	if set == nil {
		return
	}
	scale := taskSetScales[a.N]
	c.world.logf("scale task set %s of %s from %g %% to %g %%", set.id, s.name, set.scale, scale)
	c.changeTaskSets(s, "scale "+set.id, func(ctx context.Context) error {
		_, err := c.world.API.TaskSets.UpdateTaskSet(ctx, s.refTo(set), scale)
		return err
	}, func(err error) {
		if set.scale = scale; err != nil {
			set.scale = unknownScale
		}
		c.world.cover(coverage.TaskSetScaled)
	})
}

// makePrimary makes a task set the primary one.
func (c *apiClient) makePrimary(a Action) {
	s, set := c.pickTaskSet(a)
	if set == nil {
		return
	}
	c.world.logf("make task set %s of %s primary", set.id, s.name)
	c.changeTaskSets(s, "make primary "+set.id, func(ctx context.Context) error {
		_, err := c.world.API.TaskSets.MakePrimary(ctx, s.refTo(set))
		return err
	}, func(err error) {
		if err == nil {
			s.primary = set.id
			c.world.cover(coverage.TaskSetPrimary)
		}
	})
}

// deleteTaskSet deletes a task set. An earlier attempt may have deleted it, and its tasks may have
// ended since.
func (c *apiClient) deleteTaskSet(s *expectedService, set *expectedTaskSet) {
	c.world.logf("delete task set %s of %s", set.id, s.name)
	c.changeTaskSets(s, "delete "+set.id, func(ctx context.Context) error {
		_, err := c.world.API.TaskSets.DeleteTaskSet(ctx, s.refTo(set), true)
		if cluster.ErrorCode(err) == cluster.CodeTaskSetNotFound {
			return nil
		}
		return err
	}, func(error) {
		set.deleted = true
		if s.primary == set.id {
			s.primary = ""
		}
		if len(s.liveTaskSets()) > 0 {
			c.world.cover(coverage.TaskSetDeleted)
		}
	})
}

// deleteBrokenTaskSets deletes the first task set of a service whose tasks cannot run. Otherwise
// they would be retried forever.
func (c *apiClient) deleteBrokenTaskSets(s *expectedService) {
	for _, set := range s.liveTaskSets() {
		if invariant.OutcomeOf(set.definition) != model.RunHealthy && !s.busy {
			c.deleteTaskSet(s, set)
			c.world.Loop.After(time.Minute, func() { c.deleteBrokenTaskSets(s) })
			return
		}
	}
}

// checkTaskSetsAtRest compares the task sets of a service at rest with what was acknowledged, and
// each with the model, as a service of its own.
func (w *World) checkTaskSetsAtRest(s *expectedService, row *cluster.Service) {
	if s.desired != unknownCount && row.Desired != s.desired {
		w.checker.Fail("invariant 9: service %s was scaled to %d and wants %d", s.name, s.desired, row.Desired)
	}
	if row.Deployment.ID != s.primary {
		w.checker.Fail("invariant 9: task set %q of service %s was made primary, and %q is", s.primary, s.name,
			row.Deployment.ID)
	}
	kept := map[string]cluster.Deployment{}
	for _, d := range append([]cluster.Deployment{row.Deployment}, row.Older...) {
		kept[d.ID] = d
	}
	for _, set := range s.taskSets {
		d, ok := kept[set.id]
		switch {
		case set.deleted && ok:
			w.checker.Fail("invariant 8: task set %s of service %s was deleted and is there: %+v", set.id, s.name, *d.Set)
		case set.deleted:
		case !ok || d.Set.Draining:
			w.checker.Fail("invariant 9: task set %s of service %s was acknowledged and is gone", set.id, s.name)
		case set.scale != unknownScale && d.Set.Scale != set.scale:
			w.checker.Fail("invariant 9: task set %s of service %s was scaled to %g %% and has %g %%", set.id, s.name,
				set.scale, d.Set.Scale)
		default:
			w.checkTaskSetAtRest(row, d)
		}
	}
}

// checkTaskSetAtRest compares one task set with the model.
func (w *World) checkTaskSetAtRest(row *cluster.Service, d cluster.Deployment) {
	part := *row
	part.Desired = invariant.TaskSetCount(row, d.ID)
	d.State = cluster.RolloutCompleted
	part.Deployment, part.Older = d, nil
	seen, history := w.observeService(&part), model.StartHistory(d.ID, model.RunHealthy)
	seen.Deployments = []string{d.ID}
	if err := history.Complete(); err != nil {
		w.checker.Fail("task set %s: %v", d.ID, err)
	}
	seen.Release = history.Release
	whole := *row // domain rules count the tasks of all sets
	whole.Deployment, whole.Older = d, slices.DeleteFunc(
		append([]cluster.Deployment{row.Deployment}, row.Older...), func(o cluster.Deployment) bool { return o.ID == d.ID })
	for _, why := range invariant.ModelService(&part).CheckAtRest(history, w.modelSurroundings(&whole), seen) {
		w.checker.Fail("invariant 8: task set %s, %g %% of %d, of service %s: %s", d.ID, d.Set.Scale, row.Desired,
			row.Name, why)
	}
	unfinished := slices.ContainsFunc(seen.Tasks, func(t model.Task) bool {
		return t.MustLeave || !t.IsHealthy(w.Loop.Now())
	})
	if len(seen.Tasks) == part.Desired && !unfinished && !d.Set.Steady {
		w.checker.Fail("invariant 8: task set %s of service %s has its %d healthy tasks and is not steady: %+v", d.ID,
			row.Name, part.Desired, *d.Set)
	}
}
