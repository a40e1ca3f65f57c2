package moves

import (
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

// moveProblem is what moves are planned on: all that they need to know, by dense numbers. Instances
// are in order of id, so that the order of rows decides nothing.
type moveProblem struct {
	names      []string // of the dimensions
	dimOf      []int32  // per metric of the snapshot
	instances  []moveInstance
	load       []int64 // per cell: instance × dimension
	leaving    []int64 // per cell, the part that is about to go: it takes up room and is nobody's violation
	unbuffered []int64 // per cell, math.MaxInt64 for no limit
	total      []int64
	tasks      []moveTask
	owners     []moveOwner
	levels     moveLevels
	budget     int
	// configuration is the Rev of the cluster's.
	configuration int64

	alikeDomains map[string]*domain.Domains // by what they depend on
	matching     map[string][]uint8         // likewise, per instance: 0 unknown, 1 no, 2 yes
}

// The dimensions that are not metrics.
const (
	dimCPU = iota
	dimMemory
	dimENI
	fixedDims
)

// moveLevels are the priorities of rules that may be given up, 0 to 2; -1 is a rule that does not
// hold.
type moveLevels struct{ placement, capacity, fault, upgrade int }

// hardest is the level of rules that always bind.
const hardest = 0

func levelsOf(p cluster.Priorities) moveLevels {
	level := func(p cluster.Priority) int { return min(max(int(p), -1), 2) }
	return moveLevels{level(p.Placement), level(p.Capacity), level(p.FaultDomain), level(p.UpgradeDomain)}
}

type moveInstance struct {
	id       string
	view     *snapshot.InstanceView // nil for none
	row      *cluster.Instance
	takes    bool           // takes tasks
	gives    bool           // tasks may leave it, and what is broken there counts
	gpus     []int          // free thousandths per device
	unpinned int            // devices held by tasks of which it is not known which
	ports    []cluster.Port // in use, as often as held
	tasks    []int32        // that count and are here at the start
	ending   []int32        // owners of those that will soon be gone
}

type moveTask struct {
	id      string
	task    *cluster.Task // nil for a newcomer
	owner   int32
	at      int32 // -1 for a newcomer
	amounts []moveAmount
	needs   cluster.Resources
	gpus    []int
	ports   []cluster.Port
	cost    int
	movable bool
	misfit  bool // its instance lacks what it must find
	shape   int32
}

// moveAmount is what a task takes of one dimension.
type moveAmount struct {
	dim int32
	n   int64
}

// moveOwner is an owner with what its tasks want of an instance.
type moveOwner struct {
	name    string
	called  string
	mover   Owner
	most    int // tasks that may share an instance, 0 for any number
	tasks   []int32
	domains *domain.Domains // nil where no rule concerns its tasks
	// matches reports that the instance has what a task must find, suits that it may have one:
	// constraints may be ignored. avoided reports that it gets none of these all the same.
	matches, suits, avoided func(i int) bool
	eligible                []uint8 // what was asked so far, per instance: 0 unknown, 1 no, 2 yes
}

func (p *moveProblem) dims() int { return len(p.names) }

func (p *moveProblem) cell(i, dim int32) int { return int(i)*len(p.names) + int(dim) }

// takes reports whether the instance may have a task of the owner as far as what comes and goes
// with tasks is left out.
func (p *moveProblem) takes(owner, i int32) bool {
	o := &p.owners[owner]
	if o.eligible == nil {
		o.eligible = make([]uint8, len(p.instances))
	}
	if o.eligible[i] == 0 {
		o.eligible[i] = 1
		if p.instances[i].takes && !o.avoided(int(i)) && o.suits(int(i)) {
			o.eligible[i] = 2
		}
	}
	return o.eligible[i] == 2
}

// settle works out what follows from the tasks where they are.
func (p *moveProblem) settle() {
	for t := range p.tasks {
		task := &p.tasks[t]
		o := &p.owners[task.owner]
		o.tasks = append(o.tasks, int32(t))
		if task.at < 0 {
			continue
		}
		here := &p.instances[task.at]
		here.tasks = append(here.tasks, int32(t))
		avoided := o.avoided(int(task.at))
		task.misfit = here.gives && !avoided && p.levels.placement >= 0 && !o.matches(int(task.at))
		task.movable = task.movable && here.gives && !avoided
		if o.domains != nil {
			o.domains.Add(int(task.at), 1)
		}
	}
	assignShapes(p)
}

// assignShapes gives tasks of one owner that are alike the same shape: what holds for one holds for
// the other.
func assignShapes(p *moveProblem) {
	var shapes []int32 // one task of each
	byKey := map[moveShapeKey][]int32{}
	for t := range p.tasks {
		task := &p.tasks[t]
		key := moveShapeKey{task.owner, len(task.amounts), task.cost, task.needs, 0}
		for _, a := range task.amounts {
			key.sum = key.sum*31 + a.n*7 + int64(a.dim)
		}
		task.shape = -1
		for _, s := range byKey[key] {
			if areAlike(p, task, &p.tasks[shapes[s]]) {
				task.shape = s
			}
		}
		if task.shape < 0 {
			task.shape = int32(len(shapes))
			shapes = append(shapes, int32(t))
			byKey[key] = append(byKey[key], task.shape)
		}
	}
}

type moveShapeKey struct {
	owner   int32
	amounts int
	cost    int
	needs   cluster.Resources
	sum     int64
}

func areAlike(p *moveProblem, a, b *moveTask) bool {
	return a.owner == b.owner && a.cost == b.cost && a.needs == b.needs && len(a.gpus) == len(b.gpus) &&
		slices.Equal(a.amounts, b.amounts) && slices.Equal(a.ports, b.ports)
}

// movable is how many tasks may move.
func (p *moveProblem) movable() (n int) {
	for t := range p.tasks {
		if p.tasks[t].movable {
			n++
		}
	}
	return n
}

const unlimited = math.MaxInt64
