package placement_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// One engine goes along with one snapshot: whatever rows come in between, it answers as a full scan of the rows does, and
// having answered it answers the same again. This is where what it keeps from one request to the next could go wrong.
func TestEngineKeepsUpWithTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		t.Repeat(map[string]func(*rapid.T){
			"task":          h.task,
			"end":           h.end,
			"instance":      h.instance,
			"leave":         h.leave,
			"configuration": h.configuration,
			"service":       h.service,
			"place":         h.place,
			"commit":        h.commit,
			"stop":          h.stop,
			"check":         h.check,
			"moves":         h.moves,
		})
	})
}

// moves checks that what is sound at a glance is so for a look at every task, and that no plan is kept longer than it holds.
func (h *history) moves(t *rapid.T) {
	m := placement.Moves{Owners: map[string]placement.Mover{}}
	for _, owner := range slices.Sorted(maps.Keys(h.movers)) {
		m.Owners[owner] = placement.Mover{Spec: h.movers[owner], Target: rapid.IntRange(0, 6).Draw(t, "moving to")}
	}
	kept, fresh := h.planner.PlanMoves(m), placement.NewPlanner(placement.New(h.snap)).PlanMoves(m)
	if summary(kept) != summary(fresh) || !slices.Equal(kept.Unrepaired, fresh.Unrepaired) {
		t.Fatalf("the plan is %q, %v, and anew %q, %v", summary(kept), kept.Unrepaired, summary(fresh), fresh.Unrepaired)
	}
	if !h.planner.Sound(m) {
		return
	}
	if broken := placement.NewPlanner(placement.New(h.snap)).Violations(m); len(broken) > 0 {
		t.Fatalf("nothing is broken at a glance, but %+v", broken)
	}
}

// history is a cluster on its way: the rows, the snapshot that was told of them one by one, and the engine on it.
type history struct {
	*world
	snap     *snapshot.Snapshot
	engine   *placement.Engine
	planner  *placement.Planner
	requests []placement.Request
	movers   map[string]*placement.Spec // by owner: all its tasks move, whatever their group
	tasksMet int
}

func newHistory(t *rapid.T) *history {
	h := &history{world: genWorld(t), movers: map[string]*placement.Spec{}}
	h.snap = h.world.snapshot(1)
	h.engine = placement.New(h.snap)
	h.planner = placement.NewPlanner(h.engine)
	if rapid.IntRange(0, 3).Draw(t, "forgetful") == 0 {
		h.engine.Forgetful()
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

func (h *history) place(t *rapid.T) {
	r := h.request(t)
	first := h.engine.Place(r)
	checkPlaced(t, h.world, r, first)
	if second := h.engine.Place(r); where(second.Placed) != where(first.Placed) {
		t.Fatalf("placed %q, then %q", where(first.Placed), where(second.Placed))
	}
}

// commit makes rows of what is placed.
func (h *history) commit(t *rapid.T) {
	r := h.request(t)
	for _, p := range h.engine.Place(r).Placed {
		h.tasksMet++
		h.put(newTask(r.Spec, fmt.Sprintf("h-%03d", h.tasksMet), p))
	}
}

func (h *history) stop(t *rapid.T) {
	r := h.request(t)
	checkStops(t, h.world, h.engine, r)
}

func (h *history) check(t *rapid.T) {
	r := h.request(t)
	for _, i := range h.instances {
		_, got := h.engine.Check(h.snap.Instances[i.ID], r)
		_, want := placement.New(h.world.snapshot(1)).Check(h.world.snapshot(1).Instances[i.ID], r)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("Check(%s) is %v, of a new engine %v", i.ID, got, want)
		}
	}
}
