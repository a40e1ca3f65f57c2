package moves

import (
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// Planner plans moves on the snapshot of an engine. It remembers what it found broken, and brings
// that up to date from what the engine reports. It is for one goroutine, as the engine is.
type Planner struct {
	engine *placement.Engine
	snap   *snapshot.Snapshot
	watch  violationWatch
	solved []solvedProblem // the last ones
	// wholeTasks is the constant of that name; tests make it small.
	wholeTasks int
}

// NewPlanner returns a planner on the engine's snapshot, and has it observe the engine.
func NewPlanner(e *placement.Engine) *Planner {
	p := &Planner{engine: e, snap: e.Snapshot(), wholeTasks: wholeTasks}
	p.watch.snap = p.snap
	e.SetObserver(&p.watch)
	return p
}

// PlanMoves finds what is broken among the tasks where they are, and the moves that repair as much
// of it as possible, at the least cost and with the fewest moves (P8, P10).
//
//   - Rules that bind count before those that may be given up.
//   - Nothing gets worse than it is, except that a rule may be broken to repair one of a higher
//     priority, and that the buffer may be used where repair takes it.
//   - Draining and disconnected instances neither take nor give tasks, and nothing counts as broken
//     there. Cordoned ones only give. An instance that an owner avoids neither takes nor gives
//     tasks of that owner.
//
// The same snapshot always gives the same plan. Where nothing is broken, or nothing could be done
// the last time and nothing has happened that could help, the call costs what has changed since. A
// plan may be the same one as before: the caller changes nothing of it.
func (p *Planner) PlanMoves(m Request) *Plan {
	p.engine.Sync()
	if p.findsNothing(&m) {
		return &Plan{Exact: true}
	}
	if same := p.watch.repeatedPlan(&m); same != nil {
		return same
	}
	plan := p.planFor(p.newProblem(m, nil))
	p.watch.rememberPlan(&m, plan)
	return plan
}

// MakeRoom finds the moves that let tasks run which fit nowhere as things stand (P11): the most
// tasks, then the least cost, then the fewest moves. Its Places include those for tasks that need
// no move. It finds none where the configuration keeps tasks in place.
func (p *Planner) MakeRoom(r placement.Request, m Request) *Plan {
	if p.snap.Configuration.KeepInPlace {
		m.Keep = func(*cluster.Task) bool { return true }
	}
	p.engine.Sync()
	p.findsNothing(&m) // who has what is broken
	return p.planFor(p.newProblem(m, &r))
}
