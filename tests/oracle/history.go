package oracle

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A History is a cluster whose rows change: the rows, a snapshot that follows them one by one, and
// an engine on it. Its methods are the actions of a state machine test.
type History struct {
	*World
	Snap     *snapshot.Snapshot
	Engine   *placement.Engine
	Requests []placement.Request
	Movers   map[string]*placement.Spec // by owner: all its tasks move, whatever their group
	TasksMet int
}

// NewHistory draws a history's first rows and requests.
func NewHistory(t *rapid.T) *History {
	h := &History{World: GenWorld(t), Movers: map[string]*placement.Spec{}}
	h.Snap = h.World.Snapshot(1)
	h.Engine = placement.New(h.Snap)
	if rapid.IntRange(0, 3).Draw(t, "forgetful") == 0 {
		h.Engine.LimitMemory(0)
	}
	for range rapid.IntRange(1, 3).Draw(t, "requests") {
		r := GenRequest(t, h.World)
		mover := *r.Spec
		mover.Group, mover.Deployment = "", ""
		h.Requests, h.Movers[mover.Owner] = append(h.Requests, r), &mover
	}
	h.drawAffinity(t)
	return h
}

// drawAffinity ties the tasks of one owner that moves to those of another, in some histories.
func (h *History) drawAffinity(t *rapid.T) {
	owners := slices.Sorted(maps.Keys(h.Movers))
	if len(owners) > 1 && rapid.IntRange(0, 2).Draw(t, "affinity") == 0 {
		h.Movers[owners[0]].Affinity = owners[1]
	}
}

// DrawRequest returns one of the history's requests with another count and other settings.
func (h *History) DrawRequest(t *rapid.T) placement.Request {
	r := rapid.SampledFrom(h.Requests).Draw(t, "request")
	r.Count, r.Target = rapid.IntRange(1, 4).Draw(t, "count"), rapid.IntRange(0, 6).Draw(t, "target")
	r.Seed, r.Unbuffered = rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 5).Draw(t, "unbuffered") == 0
	if r.Instances != nil {
		r.Instances = Names(h.Instances)
	}
	return r
}

// PutRow adds or replaces a row.
func (h *History) PutRow(row state.Row) {
	h.Snap.Put(row)
	switch row := row.(type) {
	case *cluster.Task:
		at := slices.IndexFunc(h.Tasks, func(t *cluster.Task) bool { return t.ID == row.ID && t.Owner == row.Owner })
		if at < 0 {
			h.Tasks = append(h.Tasks, row)
		} else {
			h.Tasks[at] = row
		}
	case *cluster.Instance:
		at := slices.IndexFunc(h.Instances, func(i *cluster.Instance) bool { return i.ID == row.ID })
		if at < 0 {
			h.Instances = append(h.Instances, row)
			slices.SortFunc(h.Instances, func(a,
				b *cluster.Instance) int {
				return len(a.ID) - len(b.ID) + CompareText(a.ID, b.ID)
			})
		} else {
			h.Instances[at] = row
		}
	}
}

func CompareText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// ChangeTask adds a task, or changes one.
func (h *History) ChangeTask(t *rapid.T) {
	h.TasksMet++
	next := GenTask(t, h.World, fmt.Sprintf("h-%03d", h.TasksMet))
	if len(h.Tasks) > 0 && rapid.Bool().Draw(t, "known") {
		old := rapid.SampledFrom(h.Tasks).Draw(t, "old")
		next.ID, next.Owner, next.Service, next.Rev = old.ID, old.Owner, old.Service, old.Rev+1
		if old.Desired == cluster.TaskStopped {
			next.Desired = cluster.TaskStopped // a task is never wanted again
		}
	}
	h.PutRow(next)
}

// EndTask deletes the row of a task.
func (h *History) EndTask(t *rapid.T) {
	if len(h.Tasks) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(h.Tasks)-1).Draw(t, "task")
	h.Snap.ApplyRecord(state.Record{Op: state.Remove, Old: h.Tasks[at]})
	h.Tasks = slices.Delete(h.Tasks, at, at+1)
}

// ChangeInstance registers an instance, or changes its row.
func (h *History) ChangeInstance(t *rapid.T) {
	next := GenInstance(t, fmt.Sprintf("i-%02d", rapid.IntRange(0, len(h.Instances)+1).Draw(t, "n")))
	if old := h.FindInstance(next.ID); old != nil {
		next.Rev = old.Rev + 1
		if rapid.Bool().Draw(t, "same machine") {
			next.Registered, next.Attributes = old.Registered, old.Attributes
		}
		for _, task := range h.Tasks { // devices that tasks hold stay
			if task.Instance == next.ID && len(task.GPUs) > 0 {
				next.Registered.GPUs = old.Registered.GPUs
			}
		}
	}
	h.PutRow(next)
}

// RemoveInstance deletes the row of an instance. Its tasks may stay.
func (h *History) RemoveInstance(t *rapid.T) {
	if len(h.Instances) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(h.Instances)-1).Draw(t, "instance")
	i := h.Instances[at]
	for _, task := range slices.Clone(h.Tasks) {
		if task.Instance == i.ID && (len(task.GPUs) > 0 || rapid.Bool().Draw(t, "goes too")) {
			h.Snap.ApplyRecord(state.Record{Op: state.Remove, Old: task})
			h.Tasks = slices.DeleteFunc(h.Tasks, func(x *cluster.Task) bool { return x == task })
		}
	}
	h.Snap.ApplyRecord(state.Record{Op: state.Remove, Old: i})
	h.Instances = slices.Delete(h.Instances, at, at+1)
}

// ChangeConfiguration changes the cluster's configuration.
func (h *History) ChangeConfiguration(t *rapid.T) {
	h.Config = GenConfiguration(t, h.Config.Rev+1)
	h.Snap.Put(h.Config)
}

// ChangeService changes the default loads of a service, and so those of its running tasks. Requests
// keep their loads.
func (h *History) ChangeService(t *rapid.T) {
	at := rapid.IntRange(0, len(h.Services)-1).Draw(t, "service")
	next := *h.Services[at]
	next.Rev++
	next.Rules.Metrics = GenLoads(t)
	h.Services[at] = &next
	h.Snap.Put(&next)
}

// CommitPlacements places a request and makes rows of the placements.
func (h *History) CommitPlacements(t *rapid.T) {
	r := h.DrawRequest(t)
	for _, p := range h.Engine.Place(r).Placed {
		h.TasksMet++
		h.PutRow(NewTask(r.Spec, fmt.Sprintf("h-%03d", h.TasksMet), p))
	}
}
