package moves

import (
	"fmt"
	"slices"

	"berth/shared/placement"
)

// The tasks of an owner with an affinity are its parent's children: each needs a task of the parent
// on its instance. A child that has none is apart, and moves to where the parent has one. If a move
// takes away the last task of the parent, the children there follow it.

// noParent is the parent of owners without an affinity.
const noParent = -1

// addParents adds the owners that others have an affinity to, if they are not there yet. Their
// tasks stay where they are.
func (e *Planner) addParents(owners map[string]Owner) {
	for _, o := range owners {
		name := o.Spec.Affinity
		if _, known := owners[name]; name == "" || known {
			continue
		}
		if e.parents[name] == nil {
			if len(e.parents) > mostParents {
				clear(e.parents)
			}
			e.parents[name] = &placement.Spec{Owner: name}
		}
		owners[name] = Owner{Name: e.nameOfOwner(name), Spec: e.parents[name], Fixed: true}
	}
}

// nameOfOwner returns what users call the service with the short key; empty if there is none.
func (e *Planner) nameOfOwner(short string) string {
	for name, s := range e.snap.Services {
		if s.Short == short {
			return "service " + name
		}
	}
	return ""
}

// mostParents bounds the specs that are kept for parents whose tasks stay.
const mostParents = 256

// linkOwners connects the owners with their parents, if affinity is not switched off. No owner has
// the empty name.
func (p *problem) linkOwners(numbers map[string]int32) {
	for o := range p.owners {
		owner := &p.owners[o]
		owner.parent = noParent
		if parent, known := numbers[owner.mover.Spec.Affinity]; known && p.levels.affinity >= 0 {
			owner.parent = parent
			p.owners[parent].children = append(p.owners[parent].children, int32(o))
			p.hasAffinity = true
		}
	}
}

// unlinkParentless frees the children of parents without any task: there is nothing that they could be beside, so
// no rule is broken, and they may move. New tasks of such a child still wait for the parent.
func unlinkParentless(p *problem) {
	for o := range p.owners {
		owner := &p.owners[o]
		if owner.parent == noParent || len(p.owners[owner.parent].tasks) > 0 || slices.ContainsFunc(owner.tasks,
			func(t int32) bool { return p.tasks[t].initial < 0 }) {
			continue
		}
		siblings := &p.owners[owner.parent].children
		*siblings = slices.DeleteFunc(*siblings, func(child int32) bool { return child == int32(o) })
		owner.parent = noParent
	}
}

// isApartAt reports whether a task of the owner would be apart on the instance. On a draining or
// disconnected instance nothing counts as broken.
func isApartAt(s *assignment, owner, i int32) bool {
	parent := s.problem.owners[owner].parent
	return parent != noParent && i >= 0 && s.problem.instances[i].givesTasks && s.ownerTasksOn(parent, i) == 0
}

// isApart reports whether the task is apart where it is.
func isApart(s *assignment, t int32) bool { return isApartAt(s, s.problem.tasks[t].owner, s.at[t]) }

// mayJoinParent reports whether the task may go to the instance as far as affinity binds in the
// stage. A task that was apart at the start may go anywhere: that makes nothing worse.
func mayJoinParent(s *assignment, g searchStage, t, i int32) bool {
	task := &s.problem.tasks[t]
	return s.problem.owners[task.owner].parent == noParent || task.apart ||
		!g.bindsLevel(s.problem.levels.affinity) || !isApartAt(s, task.owner, i)
}

// mayBeTaken reports whether the search may move the task to the instance: the parent is there, or
// one of its tasks may still follow.
func (s *branchSearch) mayBeTaken(t, i int32) bool {
	return !s.problem.hasAffinity || mayJoinParent(s.assignment, s.stage, t, i) ||
		s.undecidedCount[s.problem.owners[s.problem.tasks[t].owner].parent] > 0
}

// countApart adds (sign 1) or removes (-1) the task, if it is apart.
func countApart(s *assignment, t int32, sign int) {
	if isApart(s, t) {
		level := s.problem.levels.affinity
		s.score.rules[level].addViolations(sign, 0)
		if !s.problem.tasks[t].apart {
			s.score.worsened[level].addViolations(sign, 0)
		}
	}
}

// countChildren adds (sign 1) or removes (-1) the children on the instance that are apart while a task
// of their parent is nowhere: after it has left, or before it comes.
func countChildren(s *assignment, parent, i int32, sign int) {
	eachChildOn(s, parent, i, func(t int32) bool {
		countApart(s, t, sign)
		return true
	})
}

// eachChildOn yields the children of the parent that are on the instance.
func eachChildOn(s *assignment, parent, i int32, yield func(t int32) bool) {
	isChild := func(t int32) bool {
		return s.at[t] == i && s.problem.owners[s.problem.tasks[t].owner].parent == parent
	}
	for _, t := range s.problem.instances[i].tasks {
		if isChild(t) && !yield(t) {
			return
		}
	}
	for _, t := range s.arrived[i] {
		if isChild(t) && s.problem.tasks[t].initial != i && !yield(t) {
			return
		}
	}
}

// separatedBy returns a task that the move has made apart: the moved task itself, or a child that
// it left behind. must says that it may not stay so.
func separatedBy(s *assignment, g searchStage, t int32) (v openViolation, must bool) {
	if !s.problem.hasAffinity {
		return openViolation{}, false
	}
	task := &s.problem.tasks[t]
	binds := g.bindsLevel(s.problem.levels.affinity)
	concerns := func(u int32) bool {
		v = openViolation{kind: separatedTask, instance: s.at[u], owner: s.problem.tasks[u].owner, task: u}
		return isApart(s, u) && !s.problem.tasks[u].apart && (binds || bestTaskToMove(s, v) >= 0)
	}
	if concerns(t) {
		return v, binds
	}
	if task.initial < 0 || len(s.problem.owners[task.owner].children) == 0 {
		return openViolation{}, false
	}
	found := false
	eachChildOn(s, task.owner, task.initial, func(u int32) bool {
		found = concerns(u)
		return !found
	})
	if !found {
		return openViolation{}, false
	}
	return v, binds
}

// reunitingTasks returns the tasks whose move may bring the task and its parent together again: the
// task itself, then those of the parent.
func reunitingTasks(s *assignment, t int32) []int32 {
	parent := s.problem.owners[s.problem.tasks[t].owner].parent
	return slices.Concat(singleTask(s, t), s.problem.owners[parent].tasks)
}

// parentDestinations returns the instances with tasks of the owner's parent that its task may go
// to.
func parentDestinations(s *branchSearch, t int32) (out []destination) {
	owner := s.problem.tasks[t].owner
	seen := map[int32]bool{s.at[t]: true}
	for _, u := range s.problem.owners[s.problem.owners[owner].parent].tasks {
		if i := s.at[u]; i >= 0 && !seen[i] && s.isDestination(owner, i) {
			seen[i] = true
			out = append(out, evaluateDestination(s, t, i))
		}
	}
	weighDomains(s, t, out)
	return out
}

// isBoundToParent reports whether the task best goes to where its parent has tasks, and nowhere
// else unless it was apart and none of those has room.
func (s *branchSearch) isBoundToParent(t int32) bool {
	task := &s.problem.tasks[t]
	if s.problem.owners[task.owner].parent == noParent || !s.stage.bindsLevel(s.problem.levels.affinity) {
		return false
	}
	return !task.apart || anyHasRoom(parentDestinations(s, t))
}

// separableTasks returns the children that the moved task has left behind on its first instance.
func separableTasks(s *assignment, t int32) (out []int32) {
	task := &s.problem.tasks[t]
	if task.initial >= 0 && len(s.problem.owners[task.owner].children) > 0 {
		eachChildOn(s, task.owner, task.initial, func(u int32) bool {
			out = append(out, u)
			return true
		})
	}
	return out
}

// explainReunion says in one line why a task moves to or with its parent.
func explainReunion(s *assignment, child int32) string {
	task := &s.problem.tasks[child]
	parent := &s.problem.owners[s.problem.owners[task.owner].parent]
	to := s.problem.instances[s.at[child]].id
	if task.initial < 0 {
		return fmt.Sprintf("%s is to be beside a task of %s on %s", describeTask(s, child), parent.displayName, to)
	}
	return fmt.Sprintf("%s is to be beside a task of %s: %s has none, %s has one", describeTask(s, child),
		parent.displayName, s.problem.instances[task.initial].id, to)
}
