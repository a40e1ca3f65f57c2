package moves

import (
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

// problem is what moves are planned on: all that they need to know, by dense numbers. Instances
// are in order of id, so that the order of rows decides nothing.
type problem struct {
	names      []string // of the dimensions
	dimOf      []int32  // per metric of the snapshot
	instances  []problemInstance
	load       []int64 // per cell: instance × dimension
	endingLoad []int64 // per cell, the part that is about to go: it takes up room and is nobody's violation
	unbuffered []int64 // per cell, math.MaxInt64 for no limit
	total      []int64
	tasks      []problemTask
	owners     []problemOwner
	levels     priorityLevels
	budget     int
	// configuration is the Rev of the cluster's.
	configuration int64

	domainsByKey map[string]*domain.Domains // by what they depend on
	matchesByKey map[string][]uint8         // likewise, per instance: 0 unknown, 1 no, 2 yes
}

// The dimensions that are not metrics.
const (
	dimCPU = iota
	dimMemory
	dimENI
	fixedDims
)

// priorityLevels are the priorities of rules that may be given up, 0 to 2; -1 is a rule that does not
// hold.
type priorityLevels struct{ placement, capacity, fault, upgrade int }

// alwaysBinding is the level of rules that always bind.
const alwaysBinding = 0

func levelsOf(p cluster.Priorities) priorityLevels {
	level := func(p cluster.Priority) int { return min(max(int(p), -1), 2) }
	return priorityLevels{level(p.Placement), level(p.Capacity), level(p.FaultDomain), level(p.UpgradeDomain)}
}

type problemInstance struct {
	id           string
	view         *snapshot.InstanceView // nil for none
	row          *cluster.Instance
	takesTasks   bool           // takes tasks
	givesTasks   bool           // tasks may leave it, and what is broken there counts
	gpus         []int          // free thousandths per device
	unpinned     int            // devices held by tasks of which it is not known which
	ports        []cluster.Port // in use, as often as held
	tasks        []int32        // that count and are here at the start
	endingOwners []int32        // owners of those that will soon be gone
}

type problemTask struct {
	id         string
	task       *cluster.Task // nil for a newcomer
	owner      int32
	initial    int32 // -1 for a newcomer
	amounts    []resourceAmount
	needs      cluster.Resources
	gpus       []int
	ports      []cluster.Port
	cost       int
	movable    bool
	mismatched bool // its instance lacks what it must find
	shape      int32
}

// resourceAmount is what a task takes of one dimension.
type resourceAmount struct {
	dim    int32
	amount int64
}

// problemOwner is an owner with what its tasks want of an instance.
type problemOwner struct {
	name           string
	displayName    string
	mover          Owner
	maxPerInstance int // tasks that may share an instance, 0 for any number
	tasks          []int32
	domains        *domain.Domains // nil where no rule concerns its tasks
	// matches reports that the instance has what a task must find, suits that it may have one:
	// constraints may be ignored. avoided reports that it gets none of these all the same.
	matches, suits, isAvoided func(i int) bool
	eligible                  []uint8 // what was asked so far, per instance: 0 unknown, 1 no, 2 yes
}

func (p *problem) dimensionCount() int { return len(p.names) }

func (p *problem) cellIndex(i, dim int32) int { return int(i)*len(p.names) + int(dim) }

// canHost reports whether the instance may have a task of the owner as far as what comes and goes
// with tasks is left out.
func (p *problem) canHost(owner, i int32) bool {
	o := &p.owners[owner]
	if o.eligible == nil {
		o.eligible = make([]uint8, len(p.instances))
	}
	if o.eligible[i] == 0 {
		o.eligible[i] = 1
		if p.instances[i].takesTasks && !o.isAvoided(int(i)) && o.suits(int(i)) {
			o.eligible[i] = 2
		}
	}
	return o.eligible[i] == 2
}

// attachTasks works out what follows from the tasks where they are.
func (p *problem) attachTasks() {
	for t := range p.tasks {
		task := &p.tasks[t]
		o := &p.owners[task.owner]
		o.tasks = append(o.tasks, int32(t))
		if task.initial < 0 {
			continue
		}
		here := &p.instances[task.initial]
		here.tasks = append(here.tasks, int32(t))
		avoided := o.isAvoided(int(task.initial))
		task.mismatched = here.givesTasks && !avoided && p.levels.placement >= 0 && !o.matches(int(task.initial))
		task.movable = task.movable && here.givesTasks && !avoided
		if o.domains != nil {
			o.domains.AddTasks(int(task.initial), 1)
		}
	}
	assignShapes(p)
}

// assignShapes gives tasks of one owner that are alike the same shape: what holds for one holds for
// the other.
func assignShapes(p *problem) {
	var shapes []int32 // one task of each
	byKey := map[shapeKey][]int32{}
	for t := range p.tasks {
		task := &p.tasks[t]
		key := shapeKey{task.owner, len(task.amounts), task.cost, task.needs, 0}
		for _, a := range task.amounts {
			key.amountSum = key.amountSum*31 + a.amount*7 + int64(a.dim)
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

type shapeKey struct {
	owner     int32
	amounts   int
	cost      int
	needs     cluster.Resources
	amountSum int64
}

func areAlike(p *problem, a, b *problemTask) bool {
	return a.owner == b.owner && a.cost == b.cost && a.needs == b.needs && len(a.gpus) == len(b.gpus) &&
		slices.Equal(a.amounts, b.amounts) && slices.Equal(a.ports, b.ports)
}

// movableCount is how many tasks may move.
func (p *problem) movableCount() (n int) {
	for t := range p.tasks {
		if p.tasks[t].movable {
			n++
		}
	}
	return n
}

const unlimited = math.MaxInt64
