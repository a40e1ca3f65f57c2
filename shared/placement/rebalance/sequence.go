package rebalance

import (
	"cmp"
	"math"
	"slices"
)

// A Move takes one task to another instance.
type Move struct {
	Task, From, To int32
	Gain           int64 // by how much the cost falls; negative if a later move needs this one
	Together       bool  // with the move before it: neither is made without the other
}

// A Plan is a list of moves, one after the other. The rules hold after each of them: at its
// destination a task finds room beside everything that is there.
type Plan struct {
	Moves     []Move
	Staged    int   // moves to an instance where the task only waits
	Unplanned int   // tasks that do not get where they should be, as no order was found
	After     int64 // the cost when all moves are made
}

// mostStaged bounds how often the sequence looks for a task that could wait elsewhere.
const mostStaged = 2000

// PlanMoves orders the moves that lead from the start to the assignment. The most useful moves come
// first. Two tasks that change places on full instances need a third instance, where one of them
// waits. If there is none, the moves are left out. The plan ends where the cost is lowest.
func PlanMoves(p *Problem, instances []int32) (*Plan, error) { return PlanMovesBy(p, instances, nil) }

// A Guard knows rules that the problem does not have. MakeMoves makes the moves of tasks to one
// instance, unless that breaks one. Each task moves at most once.
type Guard interface {
	MakeMoves(tasks []int32, to int32) bool
}

// PlanMovesBy is [PlanMoves] with a guard, which every move has to pass. No task waits on a third
// instance then. The moves that the guard has made may be more than those of the plan.
func PlanMovesBy(p *Problem, instances []int32, g Guard) (*Plan, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &sequence{assignment: newAssignment(p), target: instances, guard: g}
	for t, to := range instances {
		if to != s.at[t] {
			s.remaining = append(s.remaining, int32(t))
		}
	}
	s.plan.After = s.cost
	tries := mostStaged
	if g != nil {
		tries = 0
	}
	for len(s.remaining) > 0 && (s.makeMoves() || s.stageOne(&tries)) {
	}
	s.cutAtBest()
	return &s.plan, nil
}

// A sequence is a plan in the making.
type sequence struct {
	*assignment
	target    []int32
	remaining []int32 // tasks that are not where they should be
	guard     Guard   // may be nil
	plan      Plan
}

// makeMoves makes the remaining moves that are possible, and reports whether there were any.
func (s *sequence) makeMoves() bool {
	gains := make(map[int32]int64, len(s.remaining))
	for _, t := range s.remaining {
		gains[t] = math.MinInt64
		if change, ok := s.tryShift(t, s.target[t]); ok {
			gains[t] = -change
		}
	}
	slices.SortFunc(s.remaining, func(t, u int32) int {
		return cmp.Or(cmp.Compare(gains[u], gains[t]),
			cmp.Compare(t, u))
	})
	before := len(s.remaining)
	s.remaining = slices.DeleteFunc(s.remaining, func(t int32) bool {
		if s.at[t] == s.target[t] || s.makeTogether(t) {
			return true
		}
		change, ok := s.tryShift(t, s.target[t])
		if ok = ok && (s.guard == nil || s.guard.MakeMoves([]int32{t}, s.target[t])); ok {
			s.makeMove(t, s.target[t], -change)
		}
		return ok
	})
	return len(s.remaining) < before
}

// makeMove makes a move and adds it to the plan.
func (s *sequence) makeMove(t, to int32, gain int64) {
	s.plan.Moves = append(s.plan.Moves, Move{Task: t, From: s.at[t], To: to, Gain: gain})
	s.moveTask(t, to)
}

// stageOne moves one of the remaining tasks to an instance where it can wait, so that another one
// can move, and reports whether it found such a task.
func (s *sequence) stageOne(tries *int) bool {
	for _, t := range s.remaining {
		from := s.at[t]
		if *tries--; *tries <= 0 {
			return false
		}
		to, change := s.cheapestStage(t)
		if to < 0 {
			continue
		}
		s.moveTask(t, to)
		frees := slices.ContainsFunc(s.remaining, func(u int32) bool {
			_, ok := s.tryShift(u, s.target[u])
			return ok && s.target[u] == from // t itself should be elsewhere
		})
		s.moveTask(t, from)
		if frees {
			s.makeMove(t, to, -change)
			return true
		}
	}
	return false
}

// cheapestStage returns the instance where it costs least that the task waits; -1 if there is none.
func (s *sequence) cheapestStage(t int32) (to int32, least int64) {
	to, least = -1, math.MaxInt64
	for i := range int32(len(s.problem.Instances)) {
		if i == s.at[t] || i == s.target[t] {
			continue
		}
		if change, ok := s.tryShift(t, i); ok && change < least {
			to, least = i, change
		}
	}
	return to, least
}

// cutAtBest ends the plan where the cost is lowest, and counts what is left undone.
func (s *sequence) cutAtBest() {
	cost, best, end := s.plan.After, s.plan.After, 0
	for n, m := range s.plan.Moves {
		last := n+1 == len(s.plan.Moves) || !s.plan.Moves[n+1].Together
		if cost -= m.Gain; cost < best && last {
			best, end = cost, n+1
		}
	}
	for n := len(s.plan.Moves) - 1; n >= end; n-- {
		s.moveTask(s.plan.Moves[n].Task, s.plan.Moves[n].From)
	}
	s.plan.Moves, s.plan.After = s.plan.Moves[:end], best
	for _, m := range s.plan.Moves {
		if s.target[m.Task] != m.To {
			s.plan.Staged++
		}
	}
	for t, to := range s.target {
		if s.at[t] != to {
			s.plan.Unplanned++
		}
	}
}
