package scaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A simulation is a series of changes tried on a snapshot and undone afterwards: tasks that do not
// exist, instances that do not drain.
type simulation struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine
	steps  []simulationStep
}

// simulationStep is one row that was put into the snapshot, with the instance's row before.
type simulationStep struct {
	row state.Row
	was *cluster.Instance
}

// addTask puts one more task of the spec on an instance. It will replace the task old, which stays
// where it is until then; nil for none.
func (t *simulation) addTask(spec *placement.Spec, at placement.Placement, old *cluster.Task) {
	next := &cluster.Task{
		Head: cluster.Head{Rev: 1},
		TaskSpec: cluster.TaskSpec{
			ID: fmt.Sprintf("trial-%d", len(t.steps)), Owner: spec.Owner, Group: spec.Group, Needs: spec.Needs,
			Ports: spec.Ports,
		},
		TaskAssignment: cluster.TaskAssignment{
			Instance: at.Instance, GPUs: at.GPUs, Desired: cluster.TaskRunning,
		},
		TaskReport: cluster.TaskReport{Last: cluster.TaskRunning},
	}
	if old != nil {
		next.Cluster, next.Service, next.Group, next.Replaces = old.Cluster, old.Service, old.Group, old.ID
		next.TaskDefinition, next.Reported = old.TaskDefinition, old.Reported
	} else if len(spec.Loads) > 0 {
		next.Reported = map[string]int64{}
		for _, m := range spec.Loads {
			next.Reported[m.Name] = m.Load
		}
	}
	t.snap.Put(next)
	t.steps = append(t.steps, simulationStep{row: next})
}

// findPlacement returns where placement would put a replacement of the task old, or why it has no room
// for it. The replacement has the loads that the old task has reported: it will report the like, and with
// its defaults alone it would move again.
func (t *simulation) findPlacement(of moves.Owner, old *cluster.Task) (at placement.Placement,
	why *cluster.Diagnosis) {
	found := t.engine.Place(placement.Request{Spec: withReportedLoads(of.Spec, old), Count: 1, Target: of.Target})
	if len(found.Placed) == 0 {
		return at, found.Diagnosis
	}
	return found.Placed[0], nil
}

// withReportedLoads returns the spec with the loads that the task has reported in place of the defaults.
func withReportedLoads(spec *placement.Spec, t *cluster.Task) *placement.Spec {
	if len(t.Reported) == 0 {
		return spec
	}
	next := *spec
	next.Loads = slices.Clone(spec.Loads)
	for _, name := range slices.Sorted(maps.Keys(t.Reported)) {
		at := slices.IndexFunc(next.Loads, func(m cluster.Metric) bool { return m.Name == name })
		if at < 0 {
			at, next.Loads = len(next.Loads), append(next.Loads, cluster.Metric{Name: name})
		}
		next.Loads[at].Load = t.Reported[name]
	}
	return &next
}

// drainInstance makes an instance DRAINING.
func (t *simulation) drainInstance(v *snapshot.InstanceView) {
	if v.Status == cluster.InstanceDraining {
		return
	}
	was := v.Instance
	next := *was
	next.Status, next.Stamp = cluster.InstanceDraining, 0
	next.Rev++
	t.snap.Put(&next)
	t.steps = append(t.steps, simulationStep{&next, was})
}

// undoSteps undoes all but the first n steps.
func (t *simulation) undoSteps(n int) {
	for len(t.steps) > n {
		last := t.steps[len(t.steps)-1]
		t.steps = t.steps[:len(t.steps)-1]
		t.snap.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(last.row), Old: last.row})
		if last.was != nil {
			t.snap.Put(last.was)
		}
	}
}

// placeWaiting places as many waiting tasks as have room on the instances, and returns how many.
func (t *simulation) placeWaiting(w WaitingTasks, instances []string) int {
	placed := t.engine.Place(placement.Request{
		Spec: w.Spec, Count: w.Count, Target: w.Target, Instances: instances, Unexplained: true,
	}).Placed
	for _, p := range placed {
		t.addTask(w.Spec, p, nil)
	}
	return len(placed)
}

// compareNeeds orders what needs more first, because it finds room less easily.
func compareNeeds(a, b cluster.Resources) int {
	return cmp.Or(cmp.Compare(b.GPUs*b.PerGPU(), a.GPUs*a.PerGPU()), cmp.Compare(b.CPU, a.CPU),
		cmp.Compare(b.Memory, a.Memory))
}

// compareHardToPlace orders tasks that need more first, and then by id.
func compareHardToPlace(a, b *cluster.Task) int {
	return cmp.Or(compareNeeds(a.Needs, b.Needs), cmp.Compare(a.ID, b.ID))
}
