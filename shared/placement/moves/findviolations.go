package moves

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// openViolation is something broken in one place, that a move away from there may repair.
type openViolation struct {
	kind     violationKind
	instance int32
	dim      int32 // dutyCell
	owner    int32
	task     int32 // dutyMisfit, dutyUnplaced; of a duty that a move brought about, the task that moved
}

type violationKind uint8

const (
	unplacedTask violationKind = iota // a newcomer looks for an instance
	mismatchedTask
	sharedInstance
	overloadedCell
	faultDomains
	upgradeDomains
	missingGPU // only moves bring these two about
	portConflict
)

// findViolations are what is broken at the start, what weighs most first.
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
	}
	for i := range s.problem.instances {
		out = findViolationsOn(s, int32(i), out)
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

func findViolationsOn(s *assignment, i int32, out []openViolation) []openViolation {
	if !s.problem.instances[i].givesTasks {
		return out
	}
	for _, o := range overcrowdedOwners(s, i) {
		out = append(out, openViolation{kind: sharedInstance, instance: i, owner: o, task: -1})
	}
	for dim := range int32(s.problem.dimensionCount()) {
		if _, unbuffered := s.excessOf(s.problem.cellIndex(i, dim)); unbuffered > 0 {
			out = append(out, openViolation{kind: overloadedCell, instance: i, dim: dim, owner: -1, task: -1})
		}
	}
	return out
}

// violationPriority is the duty's priority, use of the buffer alone the least.
func violationPriority(s *assignment, v openViolation) int {
	switch v.kind {
	case mismatchedTask:
		return s.problem.levels.placement
	case overloadedCell:
		if total, _ := s.excessOf(s.problem.cellIndex(v.instance, v.dim)); total == 0 {
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

// isBroken reports whether what the duty is about is still beyond what is allowed.
func isBroken(s *assignment, v openViolation) bool {
	switch v.kind {
	case unplacedTask:
		return s.at[v.task] < 0
	case mismatchedTask:
		return s.at[v.task] == v.instance
	case sharedInstance:
		return s.surplusOn(v.owner, v.instance) > 0
	case overloadedCell:
		_, unbuffered := s.excessOf(s.problem.cellIndex(v.instance, v.dim))
		return unbuffered > 0
	case faultDomains:
		fault, _ := s.problem.owners[v.owner].domains.Excess()
		return fault > 0
	case upgradeDomains:
		_, upgrade := s.problem.owners[v.owner].domains.Excess()
		return upgrade > 0
	case missingGPU:
		return !s.gpusSuffice(v.instance)
	}
	return s.portsClash(v.instance)
}

// canHelp reports whether the task's leaving would lessen what the duty is about.
func canHelp(s *assignment, v openViolation, t int32) bool {
	task := &s.problem.tasks[t]
	switch v.kind {
	case overloadedCell:
		return task.amountOf(v.dim) > 0
	case sharedInstance:
		return task.owner == v.owner
	case missingGPU:
		return task.needs.GPUs > 0
	case portConflict:
		return len(task.ports) > 0
	}
	return true
}

func (t *problemTask) amountOf(dim int32) int64 {
	for _, a := range t.amounts {
		if a.dim == dim {
			return a.amount
		}
	}
	return 0
}

// repairCandidates are the tasks that may have helped with the duty, decided or not.
func repairCandidates(s *assignment, v openViolation) []int32 {
	switch v.kind {
	case unplacedTask, mismatchedTask:
		return singleTask(s, v.task)
	case faultDomains, upgradeDomains:
		return s.problem.owners[v.owner].tasks
	}
	return s.problem.instances[v.instance].tasks
}

// singleTask is a list of one task, without allocating it.
func singleTask(s *assignment, t int32) []int32 { return s.taskNumbers[t : t+1] }

// isUndecided reports whether the task may still be decided on.
func (s *assignment) isUndecided(t int32) bool {
	return s.decision[t] == undecided && s.problem.tasks[t].movable
}

// gpusSuffice reports whether the devices that the instance has left suffice for those that moved
// here.
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
	var wants []cluster.Resources
	for _, t := range s.arrived[i] {
		if n := s.problem.tasks[t].needs; n.GPUs > 0 {
			wants = append(wants, n)
		}
	}
	slices.SortStableFunc(wants, func(a, b cluster.Resources) int { return b.PerGPU() - a.PerGPU() })
	for _, n := range wants {
		if !assignDevices(free, n) {
			return false
		}
	}
	return len(wants) == 0 || entireDevices(free) >= here.unpinned
}

// assignDevices takes what one task needs, from the devices with the least free that is enough.
func assignDevices(free []int, n cluster.Resources) bool {
	taken := make([]bool, len(free))
	for range n.GPUs {
		best := -1
		for g := range free {
			if !taken[g] && free[g] >= n.PerGPU() && (best < 0 || free[g] < free[best]) {
				best = g
			}
		}
		if best < 0 {
			return false
		}
		taken[best] = true
		free[best] -= n.PerGPU()
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

// portsClash reports whether a task that moved here wants a port that somebody has.
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

// portHolders is how many have the port of the instance.
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
