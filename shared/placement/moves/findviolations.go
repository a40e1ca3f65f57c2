package moves

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// An openViolation is a violation by the numbers of the problem, which moving a task may repair.
type openViolation struct {
	kind        violationKind
	instance    int32
	dim         int32 // of an overloaded cell
	owner       int32
	application int32 // that is scattered
	// task is the mismatched or unplaced one. If a move caused the violation, it is the task that
	// moved.
	task int32
}

// A violationKind is what is broken. Its order decides between violations of one priority.
type violationKind uint8

const (
	unplacedTask         violationKind = iota // a newcomer without an instance
	mismatchedTask                            // on an instance that lacks what the task requires
	separatedTask                             // on an instance without a task of its parent
	sharedInstance                            // more tasks of an owner on an instance than may share it
	overloadedCell                            // more load on an instance than the limit of a dimension
	scatteredApplication                      // tasks on more instances than the application may be on
	faultDomains
	upgradeDomains
	missingGPU // only moves cause this one and the next
	portConflict
)

// findViolations returns the violations at the start, the weightiest first.
func findViolations(s *assignment) []openViolation {
	var out []openViolation
	for t := range s.problem.tasks {
		switch task := &s.problem.tasks[t]; {
		case task.initial < 0:
			out = append(out, openViolation{kind: unplacedTask, task: int32(t), owner: task.owner, instance: -1})
		case task.mismatched:
			out = append(out, openViolation{kind: mismatchedTask, task: int32(t), owner: task.owner,
				instance: task.initial})
		}
		if s.problem.tasks[t].apart {
			out = append(out, openViolation{kind: separatedTask, task: int32(t), owner: s.problem.tasks[t].owner,
				instance: s.problem.tasks[t].initial})
		}
	}
	for i := range s.problem.instances {
		out = findViolationsOn(s, int32(i), out)
	}
	for a := range s.problem.applications {
		if surplusNodes(s, int32(a)) > 0 {
			out = append(out, openViolation{kind: scatteredApplication, application: int32(a), instance: -1, owner: -1,
				task: -1})
		}
	}
	for o := range s.problem.owners {
		v := openViolation{kind: faultDomains, owner: int32(o), instance: -1, task: -1}
		if s.initialFaults[o] > 0 {
			out = append(out, v)
		}
		if v.kind = upgradeDomains; s.initialUpgrades[o] > 0 {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b openViolation) int {
		return cmp.Or(cmp.Compare(violationPriority(s, a), violationPriority(s, b)), cmp.Compare(a.kind, b.kind))
	})
	return out
}

// findViolationsOn appends the violations on one instance. Draining and disconnected instances have
// none.
func findViolationsOn(s *assignment, i int32, out []openViolation) []openViolation {
	if !s.problem.instances[i].givesTasks {
		return out
	}
	for _, o := range overcrowdedOwners(s, i) {
		out = append(out, openViolation{kind: sharedInstance, instance: i, owner: o, task: -1})
	}
	for dim := range int32(s.problem.dimensionCount()) {
		if _, unbuffered := s.cellExcessOf(s.problem.cellIndex(i, dim)); unbuffered > 0 {
			out = append(out, openViolation{kind: overloadedCell, instance: i, dim: dim, owner: -1, task: -1})
		}
	}
	return out
}

// violationPriority returns the priority of the violation's rule. Use of the buffer alone comes
// last.
func violationPriority(s *assignment, v openViolation) int {
	switch v.kind {
	case mismatchedTask:
		return s.problem.levels.placement
	case separatedTask:
		return s.problem.levels.affinity
	case overloadedCell:
		if total, _ := s.cellExcessOf(s.problem.cellIndex(v.instance, v.dim)); total == 0 {
			return lowestLevel + 1
		}
		return s.capacityLevel(v.dim)
	case faultDomains:
		return max(0, s.problem.levels.fault)
	case upgradeDomains:
		return max(0, s.problem.levels.upgrade)
	}
	return alwaysBinding
}

// isStillBroken reports whether a violation that was there at the start, or that a move can leave,
// is still there: no move leaves too few devices, or a port twice.
func isStillBroken(s *assignment, v openViolation) bool {
	switch v.kind {
	case unplacedTask:
		return s.at[v.task] < 0
	case mismatchedTask:
		return s.at[v.task] == v.instance
	case separatedTask:
		return isApart(s, v.task)
	case sharedInstance:
		return s.surplusOn(v.owner, v.instance) > 0
	case overloadedCell:
		_, unbuffered := s.cellExcessOf(s.problem.cellIndex(v.instance, v.dim))
		return unbuffered > 0
	case scatteredApplication:
		return surplusNodes(s, v.application) > 0
	}
	return s.domainExcess(v) > 0
}

// canHelpRepair reports whether the violation would be less without the task.
func canHelpRepair(s *assignment, v openViolation, t int32) bool {
	task := &s.problem.tasks[t]
	switch v.kind {
	case overloadedCell:
		return task.uses(v.dim)
	case sharedInstance:
		return task.owner == v.owner
	case missingGPU:
		return task.needs.GPUs > 0
	case portConflict:
		return len(task.ports) > 0
	}
	return true
}

// amountOf returns what the task uses of one dimension. Tasks have few amounts: a scan is faster
// than a map.
func (t *problemTask) amountOf(dim int32) int64 {
	for _, a := range t.amounts {
		if a.dim == dim {
			return a.amount
		}
	}
	return 0
}

// uses reports whether the instance may have more left of the dimension without the task: it has an
// amount, which is 0 if its application may have reserved some.
func (t *problemTask) uses(dim int32) bool {
	return slices.ContainsFunc(t.amounts, func(a resourceAmount) bool { return a.dim == dim })
}

// repairCandidates returns the tasks whose move may help with the violation, decided or not.
func repairCandidates(s *assignment, v openViolation) []int32 {
	switch v.kind {
	case unplacedTask, mismatchedTask:
		return singleTask(s, v.task)
	case separatedTask:
		return reunitingTasks(s, v.task)
	case faultDomains, upgradeDomains:
		return s.problem.owners[v.owner].tasks
	case scatteredApplication:
		return s.problem.applications[v.application].tasks
	}
	return s.problem.instances[v.instance].tasks
}

// singleTask returns a list of one task without allocating it.
func singleTask(s *assignment, t int32) []int32 { return s.taskNumbers[t : t+1] }

// isUndecided reports whether the task may still be moved.
func (s *assignment) isUndecided(t int32) bool {
	return s.decision[t] == undecided && s.problem.tasks[t].movable
}

// gpusSuffice reports whether the devices left on the instance suffice for the tasks that moved
// there. The largest shares are assigned first, because smaller ones still fit into what those
// leave. As many devices must stay entirely free as tasks hold at unknown positions.
func (s *assignment) gpusSuffice(i int32) bool {
	here := &s.problem.instances[i]
	free := slices.Clone(here.gpus)
	for _, t := range here.tasks {
		if s.at[t] != i {
			for _, g := range s.problem.tasks[t].gpus {
				if g < len(free) {
					free[g] += s.problem.tasks[t].needs.PerGPU()
				}
			}
		}
	}
	var needs []cluster.Resources
	for _, t := range s.arrived[i] {
		if n := s.problem.tasks[t].needs; n.GPUs > 0 {
			needs = append(needs, n)
		}
	}
	slices.SortStableFunc(needs, func(a, b cluster.Resources) int { return b.PerGPU() - a.PerGPU() })
	for _, n := range needs {
		if !takeDevices(free, n) {
			return false
		}
	}
	return len(needs) == 0 || entireDevices(free) >= here.unpinned
}

// takeDevices takes the devices that one task gets by [placement.ChooseDevices], and reports
// whether they suffice.
func takeDevices(free []int, needs cluster.Resources) bool {
	devices := make([]int, needs.GPUs)
	if !placement.ChooseDevices(devices, free, needs) {
		return false
	}
	for _, d := range devices {
		free[d] -= needs.PerGPU()
	}
	return true
}

func entireDevices(free []int) (n int) {
	for _, f := range free {
		if f >= cluster.WholeGPU {
			n++
		}
	}
	return n
}

// portsClash reports whether a task that moved to the instance needs a port in use.
func (s *assignment) portsClash(i int32) bool {
	for _, t := range s.arrived[i] {
		for _, p := range s.problem.tasks[t].ports {
			if s.portHolders(i, p) > 1 {
				return true
			}
		}
	}
	return false
}

// portHolders returns how many tasks use the port on the instance.
func (s *assignment) portHolders(i int32, p cluster.Port) int {
	n := 0
	for _, q := range s.problem.instances[i].ports {
		if q == p {
			n++
		}
	}
	for _, t := range s.problem.instances[i].tasks {
		if s.at[t] != i && slices.Contains(s.problem.tasks[t].ports, p) {
			n--
		}
	}
	for _, t := range s.arrived[i] {
		if slices.Contains(s.problem.tasks[t].ports, p) {
			n++
		}
	}
	return n
}
