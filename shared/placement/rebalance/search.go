package rebalance

import (
	"cmp"
	"math"
	"slices"
)

// A Budget bounds a search.
type Budget struct {
	Steps int64 // 0 for no limit
	// Used returns the fraction of the time that is used up, from 0 to 1. It may be nil. With a
	// limit of steps alone, the same seed always gives the same result.
	Used func() float64
	// Descend accepts only what lowers the cost, or keeps it. Few steps then lead far, with few
	// moves. Without it, the search also leaves what small changes cannot improve.
	Descend bool
}

// A Result is where the tasks should be.
type Result struct {
	Instances     []int32 // per task
	Before, After int64   // the cost
	Moved         int     // tasks
	Steps         int64
}

// Search looks for an assignment of low cost, starting from the present one. It returns the best
// one that it saw, which is the present one if nothing is better. Without a budget it returns that.
func Search(p *Problem, b Budget, seed uint64) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := newAnnealing(p, seed)
	before, steps := s.cost, int64(0)
	if len(p.Tasks) > 0 && len(p.Instances) > 1 {
		steps = s.anneal(b)
	}
	s.journal.copyBest(s.at)
	for t, to := range s.journal.copied {
		if to != s.at[t] {
			s.moveTask(int32(t), to)
		}
	}
	return &Result{Instances: s.at, Before: before, After: s.cost, Moved: s.moved.all, Steps: steps}, nil
}

// An annealing is a search that accepts what is worse with a probability that falls over time.
type annealing struct {
	*assignment
	random      generator
	pairing     generator // draws for [annealing.moveOneForTwo] alone
	temperature float64
	journal     journal
	tasks       taskOrder
	lifted      []undoneMove    // by the present rearrangement
	following   map[int32]int32 // of these, the tasks that are nowhere, per service
}

func newAnnealing(p *Problem, seed uint64) *annealing {
	a := newAssignment(p)
	return &annealing{
		assignment: a, random: generator{seed}, pairing: generator{seed},
		journal: journal{best: a.cost}, tasks: newTaskOrder(p),
		following: map[int32]int32{},
	}
}

// How the temperature falls: from a multiple of what it costs on average to move one task to a
// worse instance, slowly at first, and at the end fast.
const (
	hottest       = 3.0
	slowCooling   = 1e-3 // to this fraction of the hottest
	slowPart      = 0.9  // in this part of the budget
	fastCooling   = 1e-3 // and from there to this fraction
	sampledMoves  = 4096
	checkInterval = 512 // steps between two looks at the budget
)

// coolingAfter returns the temperature after a part of the budget, as a fraction of the hottest.
func coolingAfter(used float64) float64 {
	return math.Pow(slowCooling, min(1, used/slowPart)) * math.Pow(fastCooling, max(0, used-slowPart)/(1-slowPart))
}

// anneal searches until the budget is used up, and returns the number of steps.
func (s *annealing) anneal(b Budget) (steps int64) {
	start := 0.0
	if !b.Descend {
		start = hottest * s.averageLoss()
	}
	for {
		used := b.usedAfter(steps)
		if used >= 1 {
			return steps
		}
		s.temperature = start * coolingAfter(used)
		for range checkInterval {
			s.tryStep(b.Descend)
			s.journal.observe(s.cost, s.at)
		}
		steps += checkInterval
	}
}

// usedAfter returns the used fraction of the budget.
func (b *Budget) usedAfter(steps int64) (used float64) {
	if b.Steps == 0 && b.Used == nil {
		return 1
	}
	if b.Steps > 0 {
		used = float64(steps) / float64(b.Steps)
	}
	if b.Used != nil {
		used = max(used, b.Used())
	}
	return used
}

// averageLoss returns what moves that make things worse cost on average.
func (s *annealing) averageLoss() float64 {
	sum, count := 0.0, 0
	for range sampledMoves {
		t, to := s.drawTask(), s.drawInstance()
		if to == s.at[t] {
			continue
		}
		if change, ok := s.tryShift(t, to); ok && change > 0 {
			sum += float64(change)
			count++
		}
	}
	return sum / float64(max(count, 1))
}

// accepts reports whether a change of the cost is accepted.
func (s *annealing) accepts(change int64) bool {
	return change <= 0 || float64(change) <= s.temperature*s.random.exponential()
}

func (s *annealing) drawTask() int32     { return int32(s.random.below(len(s.at))) }
func (s *annealing) drawInstance() int32 { return int32(s.random.below(len(s.on))) }

// drawLargeTask returns a task. The larger one is, the more often it is drawn.
func (s *annealing) drawLargeTask() int32 {
	rank := int32(len(s.at))
	for range 4 {
		rank = min(rank, int32(s.random.below(len(s.at))))
	}
	return s.tasks.bySize[rank]
}

// A taskOrder has the tasks by service and by size.
type taskOrder struct {
	ofService [][]int32
	bySize    []int32 // the largest one first
	rank      []int32 // per task, its position in bySize
}

// newTaskOrder orders the tasks. The size of a task is the sum of the shares that it needs of what
// the cluster has.
func newTaskOrder(p *Problem) taskOrder {
	o := taskOrder{ofService: make([][]int32, len(p.Services)), bySize: make([]int32, len(p.Tasks)),
		rank: make([]int32, len(p.Tasks))}
	size := make([]float64, len(p.Tasks))
	for r := range p.Resources {
		all := 0.0
		for i := range p.Instances {
			all += float64(p.Instances[i].Capacity[r])
		}
		for t := range p.Tasks {
			size[t] += float64(p.Tasks[t].Needs[r]) / max(all, 1)
		}
	}
	for t := range p.Tasks {
		o.bySize[t] = int32(t)
		s := p.Tasks[t].Service
		o.ofService[s] = append(o.ofService[s], int32(t))
	}
	slices.SortFunc(o.bySize, func(t, u int32) int { return cmp.Or(cmp.Compare(size[u], size[t]), cmp.Compare(t, u)) })
	for n, t := range o.bySize {
		o.rank[t] = int32(n)
	}
	return o
}
