package moves

import (
	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// A Planner plans moves on the snapshot of an engine. It remembers which violations it found, and
// updates that from what the engine reports. Like the engine, it is not safe for concurrent use.
type Planner struct {
	engine *placement.Engine
	snap   *snapshot.Snapshot
	watch  violationWatch
	solved []solvedProblem // the latest ones
	// parents has the specs of parents whose tasks stay, so that equal problems have equal owners.
	parents map[string]*placement.Spec
	// wholeTasks is the constant of that name; tests make it small.
	wholeTasks int
}

// NewPlanner returns a planner on the engine's snapshot and makes it the engine's observer.
func NewPlanner(e *placement.Engine) *Planner {
	p := &Planner{engine: e, snap: e.Snapshot(), wholeTasks: wholeTasks,
		parents: map[string]*placement.Spec{}}
	p.watch.snap = p.snap
	e.SetObserver(&p.watch)
	return p
}

// PlanMoves returns the violations among the owners' tasks, and the moves that repair as much of
// them as possible, at the least cost and with the fewest moves (P8, P10).
//
//   - Rules that always bind count before soft ones.
//   - Nothing gets worse, except that a rule may be broken to repair one of a higher priority, and
//     that repairs may use the buffer.
//   - Draining and disconnected instances neither take nor lose tasks, and nothing counts as broken
//     there. Cordoned ones only lose tasks. An instance that an owner avoids neither takes nor
//     loses tasks of that owner.
//
// The same snapshot always gives the same plan. If nothing is broken, or if the last plan had no
// moves and nothing has happened since that could change it, the call takes time in proportion to
// what changed. The caller must not change the plan, which may be returned again.
func (p *Planner) PlanMoves(m Request) *Plan {
	p.engine.Sync()
	if p.findsNothing(&m) {
		return &Plan{Exact: true}
	}
	if same := p.watch.repeatedPlan(&m); same != nil {
		return same
	}
	plan := p.planForProblem(p.newProblem(m, nil))
	p.watch.rememberPlan(&m, plan)
	return plan
}

// MakeRoom returns the moves that let tasks run which fit nowhere at present (P11): the most tasks,
// then the least cost, then the fewest moves. Places includes instances for tasks that need no
// move. It moves nothing if the configuration keeps tasks in place. Of tasks of an application it places as
// many as there may be in all.
func (p *Planner) MakeRoom(r placement.Request, m Request) *Plan {
	_, more := placement.ApplicationRoom(p.engine, r.Spec)
	r.Count = min(r.Count, more)
	if p.snap.Configuration.KeepInPlace {
		m.Keep = func(*cluster.Task) bool { return true }
	}
	p.engine.Sync()
	p.findsNothing(&m) // updates what is known of the owners
	return p.planForProblem(p.newProblem(m, &r))
}
