package placement_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// history is a cluster on its way: the rows, the snapshot that was told of them one by one, and the engine on it.
type history struct {
	*world
	snap     *snapshot.Snapshot
	engine   *placement.Engine
	requests []placement.Request
	movers   map[string]*placement.Spec // by owner: all its tasks move, whatever their group
	tasksMet int
}

func newHistory(t *rapid.T) *history {
	h := &history{world: genWorld(t), movers: map[string]*placement.Spec{}}
	h.snap = h.world.snapshot(1)
	h.engine = placement.New(h.snap)
	if rapid.IntRange(0, 3).Draw(t, "forgetful") == 0 {
		h.engine.LimitMemory(0)
	}
	for range rapid.IntRange(1, 3).Draw(t, "requests") {
		r := genRequest(t, h.world)
		mover := *r.Spec
		mover.Group = ""
		h.requests, h.movers[mover.Owner] = append(h.requests, r), &mover
	}
	return h
}

// request is one of those the history has, in another number.
func (h *history) request(t *rapid.T) placement.Request {
	r := rapid.SampledFrom(h.requests).Draw(t, "request")
	r.Count, r.Target = rapid.IntRange(1, 4).Draw(t, "count"), rapid.IntRange(0, 6).Draw(t, "target")
	r.Seed, r.Unbuffered = rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 5).Draw(t, "unbuffered") == 0
	if r.Instances != nil {
		r.Instances = names(h.instances)
	}
	return r
}

func (h *history) put(row state.Row) {
	h.snap.Put(row)
	switch row := row.(type) {
	case *cluster.Task:
		at := slices.IndexFunc(h.tasks, func(t *cluster.Task) bool { return t.ID == row.ID && t.Owner == row.Owner })
		if at < 0 {
			h.tasks = append(h.tasks, row)
		} else {
			h.tasks[at] = row
		}
	case *cluster.Instance:
		at := slices.IndexFunc(h.instances, func(i *cluster.Instance) bool { return i.ID == row.ID })
		if at < 0 {
			h.instances = append(h.instances, row)
			slices.SortFunc(h.instances, func(a, b *cluster.Instance) int { return len(a.ID) - len(b.ID) + compareText(a.ID, b.ID) })
		} else {
			h.instances[at] = row
		}
	}
}

func compareText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// task brings a new one, or another state of one that there is.
func (h *history) task(t *rapid.T) {
	h.tasksMet++
	next := genTask(t, h.world, fmt.Sprintf("h-%03d", h.tasksMet))
	if len(h.tasks) > 0 && rapid.Bool().Draw(t, "known") {
		old := rapid.SampledFrom(h.tasks).Draw(t, "old")
		next.ID, next.Owner, next.Service, next.Rev = old.ID, old.Owner, old.Service, old.Rev+1
		if old.Desired == cluster.TaskStopped {
			next.Desired = cluster.TaskStopped // a task is never wanted again
		}
	}
	h.put(next)
}

// end has the row of a task go.
func (h *history) end(t *rapid.T) {
	if len(h.tasks) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(h.tasks)-1).Draw(t, "task")
	h.snap.See(state.Record{Op: state.Remove, Old: h.tasks[at]})
	h.tasks = slices.Delete(h.tasks, at, at+1)
}

// instance registers, or has another row.
func (h *history) instance(t *rapid.T) {
	next := genInstance(t, fmt.Sprintf("i-%02d", rapid.IntRange(0, len(h.instances)+1).Draw(t, "n")))
	if old := h.find(next.ID); old != nil {
		next.Rev = old.Rev + 1
		if rapid.Bool().Draw(t, "same machine") {
			next.Registered, next.Attributes = old.Registered, old.Attributes
		}
		for _, task := range h.tasks { // devices that tasks hold stay
			if task.Instance == next.ID && len(task.GPUs) > 0 {
				next.Registered.GPUs = old.Registered.GPUs
			}
		}
	}
	h.put(next)
}

// leave has the row of an instance go; those of its tasks may stay.
func (h *history) leave(t *rapid.T) {
	if len(h.instances) == 0 {
		t.Skip()
	}
	at := rapid.IntRange(0, len(h.instances)-1).Draw(t, "instance")
	i := h.instances[at]
	for _, task := range slices.Clone(h.tasks) {
		if task.Instance == i.ID && (len(task.GPUs) > 0 || rapid.Bool().Draw(t, "goes too")) {
			h.snap.See(state.Record{Op: state.Remove, Old: task})
			h.tasks = slices.DeleteFunc(h.tasks, func(x *cluster.Task) bool { return x == task })
		}
	}
	h.snap.See(state.Record{Op: state.Remove, Old: i})
	h.instances = slices.Delete(h.instances, at, at+1)
}

func (h *history) configuration(t *rapid.T) {
	h.config = genConfiguration(t, h.config.Rev+1)
	h.snap.Put(h.config)
}

// service changes the default loads of its tasks, those that run included; the request keeps what it asked for.
func (h *history) service(t *rapid.T) {
	at := rapid.IntRange(0, len(h.services)-1).Draw(t, "service")
	next := *h.services[at]
	next.Rev++
	next.Rules.Metrics = genLoads(t)
	h.services[at] = &next
	h.snap.Put(&next)
}

// commit makes rows of what is placed.
func (h *history) commit(t *rapid.T) {
	r := h.request(t)
	for _, p := range h.engine.Place(r).Placed {
		h.tasksMet++
		h.put(newTask(r.Spec, fmt.Sprintf("h-%03d", h.tasksMet), p))
	}
}

