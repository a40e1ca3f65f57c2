package moves

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A searchStage says how much a search may give up for repairs of higher priority. The stages are
// tried in order, and a later one must repair more than those before it.
type searchStage int

const (
	stageKeep   searchStage = iota // nothing gets worse
	stageBuffer                    // moves may use the buffer (P14)
	stageSecond                    // and break rules of priority 2
	stageFirst                     // and rules of priority 1
	stages
)

// bindsLevel reports whether rules of the level may not be broken.
func (g searchStage) bindsLevel(level int) bool {
	switch g {
	case stageFirst:
		return level < 1
	case stageSecond:
		return level < 2
	}
	return true
}

// isWorthwhile reports whether b repairs enough to justify, compared with a, what the stage gives
// up.
func (g searchStage) isWorthwhile(a, b *score) bool {
	switch g {
	case stageFirst:
		return b.compareRules(a, 0) < 0
	case stageSecond:
		return b.compareRules(a, 1) < 0
	}
	return b.compareRules(a, lowestLevel) < 0
}

// stageDiffers reports whether the stage allows anything that earlier stages do not.
func stageDiffers(p *problem, g searchStage) bool {
	levels := []int{p.levels.placement, p.levels.capacity, p.levels.fault, p.levels.upgrade}
	if p.hasAffinity {
		levels = append(levels, p.levels.affinity)
	}
	switch g {
	case stageBuffer:
		return !slices.Equal(p.unbuffered, p.total)
	case stageSecond:
		return slices.Contains(levels, 2)
	case stageFirst:
		return slices.Contains(levels, 1)
	}
	return true
}

// loadLimit returns the load up to which a cell may take the task: its limit or, if that was
// exceeded already, the load at the start. A violation that is there anyway must not block repairs
// (Service Fabric's relaxed evaluation): on an instance with 120 of 100, a task of 10 may take the
// place of one of 20. A newcomer may not use that.
func (s *assignment) loadLimit(g searchStage, t int32, c int, dim int32) int64 {
	if !g.bindsLevel(s.capacityLevel(dim)) {
		return unlimited
	}
	limit := s.problem.total[c]
	if g == stageKeep {
		limit = s.problem.unbuffered[c]
	}
	if s.problem.tasks[t].initial < 0 {
		return limit
	}
	return max(limit, s.problem.usedOf(c))
}

// findWorsened returns something that the moves so far have made worse than it was; must says that
// it may not stay so. The latest moves come first: their consequences are repaired before the
// search continues.
func findWorsened(s *assignment, g searchStage) (v openViolation, must, found bool) {
	for at := len(s.movedTasks) - 1; at >= 0; at-- {
		if v, must = worsenedByMove(s, g, s.movedTasks[at]); must || v.kind != unplacedTask {
			return v, must, true
		}
	}
	return v, false, false
}

// worsenedByMove returns what one move has made worse; kind unplacedTask means nothing.
func worsenedByMove(s *assignment, g searchStage, t int32) (v openViolation, must bool) {
	task := &s.problem.tasks[t]
	i := s.at[t]
	for _, a := range task.amounts {
		c := s.problem.cellIndex(i, a.dim)
		v = openViolation{kind: overloadedCell, instance: i, dim: a.dim, owner: -1, task: t}
		if usedOf(s, c) > s.loadLimit(g, t, c, a.dim) && !fillsReservation(s, t, i, a.dim) {
			return v, true
		}
		if _, beyond := s.cellExcessOf(c); beyond > 0 && usedOf(s, c) > s.problem.usedOf(c) &&
			bestTaskToMove(s, v) >= 0 {
			return v, false
		}
	}
	if s.problem.owners[task.owner].maxPerInstance > 0 && s.ownerTasksOn(task.owner, i) > s.taskLimit(t, i) {
		return openViolation{kind: sharedInstance, instance: i, owner: task.owner, task: t}, true
	}
	if isScatteredBy(s, t) {
		return openViolation{kind: scatteredApplication, application: s.problem.applicationOf(t), instance: i,
			owner: -1, task: t}, true
	}
	if task.needs.GPUs > 0 && !s.gpusSuffice(i) {
		return openViolation{kind: missingGPU, instance: i, owner: -1, task: t}, true
	}
	if len(task.ports) > 0 && s.portsClash(i) {
		return openViolation{kind: portConflict, instance: i, owner: -1, task: t}, true
	}
	if v, must = separatedBy(s, g, t); must {
		return v, true
	}
	if w, broken := domainsWorsenedBy(s, g, t); broken || w.kind != unplacedTask {
		return w, broken
	}
	return v, false
}

// domainsWorsenedBy is the part of worsenedByMove about domain rules.
func domainsWorsenedBy(s *assignment, g searchStage, t int32) (openViolation, bool) {
	owner := s.problem.tasks[t].owner
	domains := s.problem.owners[owner].domains
	if domains == nil {
		return openViolation{}, false
	}
	worse, levels := worsenedDomains(s, t), domainPriorities(s)
	for n, kind := range [2]violationKind{faultDomains, upgradeDomains} {
		v := openViolation{kind: kind, instance: s.at[t], owner: owner, task: t}
		if worse[n] && (g.bindsLevel(levels[n]) || bestTaskToMove(s, v) >= 0) {
			return v, g.bindsLevel(levels[n])
		}
	}
	return openViolation{}, false
}

// worsenedDomains reports whether the move of the task has broken the owner's rules of fault and
// upgrade domains further.
func worsenedDomains(s *assignment, t int32) [2]bool {
	owner := s.problem.tasks[t].owner
	domains := s.problem.owners[owner].domains
	fault, upgrade := domains.Excess()
	return [2]bool{
		fault > s.initialFaults[owner] || overfillsDomain(s, domains.FaultUnit, t),
		upgrade > s.initialUpgrades[owner] || overfillsDomain(s, domains.UpgradeUnit, t),
	}
}

// mayStay reports whether no binding rule forbids the task to stay where it moved.
func mayStay(s *assignment, g searchStage, t int32) bool {
	task, i := &s.problem.tasks[t], s.at[t]
	for _, a := range task.amounts {
		if c := s.problem.cellIndex(i, a.dim); usedOf(s, c) > s.loadLimit(g, t, c, a.dim) &&
			!fillsReservation(s, t, i, a.dim) {
			return false
		}
	}
	if s.problem.owners[task.owner].maxPerInstance > 0 && s.ownerTasksOn(task.owner, i) > s.taskLimit(t, i) ||
		isScatteredBy(s, t) || task.needs.GPUs > 0 && !s.gpusSuffice(i) ||
		len(task.ports) > 0 && s.portsClash(i) {
		return false
	}
	if _, must := separatedBy(s, g, t); must {
		return false
	}
	if s.problem.owners[task.owner].domains == nil {
		return true
	}
	worse, levels := worsenedDomains(s, t), domainPriorities(s)
	return !(worse[0] && g.bindsLevel(levels[0]) || worse[1] && g.bindsLevel(levels[1]))
}

// overfillsDomain reports whether the domain that the task moved to has more tasks than its limit,
// and more than it had at the start. The excess of the whole rule cannot tell: one domain may have
// lost a task too many while another gained one. unit is [domain.Domains.FaultUnit] or
// [domain.Domains.UpgradeUnit].
func overfillsDomain(s *assignment, unit func(i int) (int32, bool), task int32) bool {
	full, over := unit(int(s.at[task]))
	if !over {
		return false
	}
	within := func(i int32) bool {
		at, _ := unit(int(i))
		return at == full
	}
	came := 0
	for _, o := range s.movedTasks {
		if s.problem.tasks[o].owner != s.problem.tasks[task].owner {
			continue
		}
		if within(s.at[o]) {
			came++
		}
		if from := s.problem.tasks[o].initial; from >= 0 && within(from) {
			came--
		}
	}
	return came > 0
}

// taskLimit returns how many tasks of the task's owner may be on the instance. Tasks that are about
// to end still count. If there were more at the start, as many may stay, but a newcomer may not use
// that.
func (s *assignment) taskLimit(t, i int32) int {
	owner, ending := s.problem.tasks[t].owner, 0
	for _, o := range s.problem.instances[i].endingOwners {
		if o == owner {
			ending++
		}
	}
	limit := s.problem.owners[owner].maxPerInstance - ending
	if s.problem.tasks[t].initial < 0 {
		return limit
	}
	return max(limit, s.initialTasksOn(owner, i))
}

// initialTasksOn returns how many tasks of the owner were on the instance at the start.
func (s *assignment) initialTasksOn(o, i int32) (n int) {
	for _, t := range s.problem.instances[i].tasks {
		if s.problem.tasks[t].owner == o {
			n++
		}
	}
	return n
}

// missingRoom returns how much more of a dimension the instance would need for the task.
func missingRoom(s *assignment, g searchStage, t, i int32, a resourceAmount) int64 {
	c, used := s.problem.cellIndex(i, a.dim), usedWith(s, t, i, a)
	if used == usedOf(s, c) { // it fits into what its application has reserved
		return 0
	}
	return excessOver(used, s.loadLimit(g, t, c, a.dim))
}

// hasRoomFor reports whether the task may run on the instance beside the tasks there. It compares
// amounts, ports and devices only.
func (s *assignment) hasRoomFor(g searchStage, t, i int32) bool {
	task := &s.problem.tasks[t]
	for _, a := range task.amounts {
		if missingRoom(s, g, t, i, a) > 0 {
			return false
		}
	}
	if s.problem.owners[task.owner].maxPerInstance > 0 && s.ownerTasksOn(task.owner, i) >= s.taskLimit(t, i) {
		return false
	}
	if task.needs.GPUs == 0 && len(task.ports) == 0 {
		return true
	}
	for _, p := range task.ports {
		if s.portHolders(i, p) > 0 {
			return false
		}
	}
	s.arrived[i] = append(s.arrived[i], t) // as if it were there, for the devices
	fit := s.gpusSuffice(i)
	s.arrived[i] = s.arrived[i][:len(s.arrived[i])-1]
	return fit
}

// A subjectAfter is an instance as constraints see it after the moves, without the task that asks.
type subjectAfter struct {
	snapshot.Facts
	state *assignment
	at    int32
	task  int32
}

// RunningTasks returns how many of the tasks that are there after the moves run now.
func (a *subjectAfter) RunningTasks() (n int) {
	eachTaskAfter(a.state, a.at, a.task, func(t *cluster.Task) bool {
		if t.Last == cluster.TaskRunning {
			n++
		}
		return true
	})
	return n
}

// Groups yields the groups of the tasks that are there after the moves.
func (a *subjectAfter) Groups(yield func(string) bool) {
	eachTaskAfter(a.state, a.at, a.task, func(t *cluster.Task) bool {
		return t.Group == "" || !t.IsActive() || yield(t.Group)
	})
}

// eachTaskAfter yields the tasks, of any owner, that hold capacity on the instance after the moves,
// except for one.
func eachTaskAfter(s *assignment, i, but int32, yield func(*cluster.Task) bool) {
	left := map[*cluster.Task]bool{}
	for _, t := range s.problem.instances[i].tasks {
		left[s.problem.tasks[t].task] = s.at[t] != i
	}
	for _, t := range s.problem.instances[i].view.Tasks {
		if !left[t] && !yield(t) {
			return
		}
	}
	for _, t := range s.arrived[i] {
		if task := s.problem.tasks[t].task; t != but && task != nil && !yield(task) {
			return
		}
	}
}

// constraintsAgree reports whether the moved tasks satisfy, where they are, the constraints that
// depend on other tasks.
func constraintsAgree(s *assignment) bool {
	for _, t := range s.movedTasks {
		i := s.at[t]
		for _, x := range s.problem.owners[s.problem.tasks[t].owner].mover.Spec.Constraints {
			if x.Static() {
				continue
			}
			after := &subjectAfter{s.problem.instances[i].view.Facts(), s, i, t}
			if !x.Matches(after) {
				return false
			}
		}
	}
	return true
}
