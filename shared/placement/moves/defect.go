package moves

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// moveDuty is something broken in one place, that a move away from there may repair.
type moveDuty struct {
	kind     dutyKind
	instance int32
	dim      int32 // dutyCell
	owner    int32
	task     int32 // dutyMisfit, dutyUnplaced; of a duty that a move brought about, the task that moved
}

type dutyKind uint8

const (
	dutyUnplaced dutyKind = iota // a newcomer looks for an instance
	dutyMisfit
	dutyCrowd
	dutyCell
	dutyFault
	dutyUpgrade
	dutyGPU // only moves bring these two about
	dutyPort
)

// findDefects are what is broken at the start, what weighs most first.
func findDefects(s *moveState) []moveDuty {
	var out []moveDuty
	for t := range s.problem.tasks {
		switch task := &s.problem.tasks[t]; {
		case task.at < 0:
			out = append(out, moveDuty{kind: dutyUnplaced, task: int32(t), owner: task.owner, instance: -1})
		case task.misfit:
			out = append(out, moveDuty{kind: dutyMisfit, task: int32(t), owner: task.owner, instance: task.at})
		}
	}
	for i := range s.problem.instances {
		out = findDefectsOn(s, int32(i), out)
	}
	for o := range s.problem.owners {
		d := moveDuty{kind: dutyFault, owner: int32(o), instance: -1, task: -1}
		if s.faults[o] > 0 {
			out = append(out, d)
		}
		if d.kind = dutyUpgrade; s.upgrades[o] > 0 {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b moveDuty) int {
		return cmp.Or(cmp.Compare(defectPriority(s, a), defectPriority(s, b)), cmp.Compare(a.kind, b.kind))
	})
	return out
}

func findDefectsOn(s *moveState, i int32, out []moveDuty) []moveDuty {
	if !s.problem.instances[i].gives {
		return out
	}
	for _, o := range overcrowdedOwners(s, i) {
		out = append(out, moveDuty{kind: dutyCrowd, instance: i, owner: o, task: -1})
	}
	for dim := range int32(s.problem.dims()) {
		if _, unbuffered := s.beyond(s.problem.cell(i, dim)); unbuffered > 0 {
			out = append(out, moveDuty{kind: dutyCell, instance: i, dim: dim, owner: -1, task: -1})
		}
	}
	return out
}

// defectPriority is the duty's priority, use of the buffer alone the least.
func defectPriority(s *moveState, d moveDuty) int {
	switch d.kind {
	case dutyMisfit:
		return s.problem.levels.placement
	case dutyCell:
		if total, _ := s.beyond(s.problem.cell(d.instance, d.dim)); total == 0 {
			return lowest + 1
		}
		return s.level(d.dim)
	case dutyFault:
		return max(0, s.problem.levels.fault)
	case dutyUpgrade:
		return max(0, s.problem.levels.upgrade)
	}
	return hardest
}

// isBroken reports whether what the duty is about is still beyond what is allowed.
func isBroken(s *moveState, d moveDuty) bool {
	switch d.kind {
	case dutyUnplaced:
		return s.at[d.task] < 0
	case dutyMisfit:
		return s.at[d.task] == d.instance
	case dutyCrowd:
		return s.surplus(d.owner, d.instance) > 0
	case dutyCell:
		_, unbuffered := s.beyond(s.problem.cell(d.instance, d.dim))
		return unbuffered > 0
	case dutyFault:
		fault, _ := s.problem.owners[d.owner].domains.Excess()
		return fault > 0
	case dutyUpgrade:
		_, upgrade := s.problem.owners[d.owner].domains.Excess()
		return upgrade > 0
	case dutyGPU:
		return !s.devicesFit(d.instance)
	}
	return s.portsClash(d.instance)
}

// canHelp reports whether the task's leaving would lessen what the duty is about.
func canHelp(s *moveState, d moveDuty, t int32) bool {
	task := &s.problem.tasks[t]
	switch d.kind {
	case dutyCell:
		return task.amount(d.dim) > 0
	case dutyCrowd:
		return task.owner == d.owner
	case dutyGPU:
		return task.needs.GPUs > 0
	case dutyPort:
		return len(task.ports) > 0
	}
	return true
}

func (t *moveTask) amount(dim int32) int64 {
	for _, a := range t.amounts {
		if a.dim == dim {
			return a.n
		}
	}
	return 0
}

// remedyCandidates are the tasks that may have helped with the duty, decided or not.
func remedyCandidates(s *moveState, d moveDuty) []int32 {
	switch d.kind {
	case dutyUnplaced, dutyMisfit:
		return singleTask(s, d.task)
	case dutyFault, dutyUpgrade:
		return s.problem.owners[d.owner].tasks
	}
	return s.problem.instances[d.instance].tasks
}

// singleTask is a list of one task, without allocating it.
func singleTask(s *moveState, t int32) []int32 { return s.numbers[t : t+1] }

// free reports whether the task may still be decided on.
func (s *moveState) free(t int32) bool {
	return s.decision[t] == undecided && s.problem.tasks[t].movable
}

// devicesFit reports whether the devices that the instance has left suffice for those that moved
// here.
func (s *moveState) devicesFit(i int32) bool {
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
func (s *moveState) portsClash(i int32) bool {
	for _, t := range s.arrived[i] {
		for _, p := range s.problem.tasks[t].ports {
			if s.holders(i, p) > 1 {
				return true
			}
		}
	}
	return false
}

// holders is how many have the port of the instance.
func (s *moveState) holders(i int32, p cluster.Port) int {
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
