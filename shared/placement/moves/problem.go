package moves

import (
	"encoding/binary"
	"math"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
)

// A problem is everything that planning needs to know of the snapshot, by small numbers. Instances
// are in the order of ids: the order of rows must not decide anything.
//
// A cell is one dimension of one instance: with the dimensions CPU, MEMORY, ENI and one metric,
// cell 4·2+3 is the metric on instance 2. Searches try thousands of moves, so everything they count
// is in flat slices by such numbers.
type problem struct {
	names     []string // of the dimensions
	dimOf     []int32  // per metric of the snapshot
	instances []problemInstance
	load      []int64 // per cell
	// endingLoad is the part of load that is about to end. It takes up room, but is never a task's
	// violation.
	endingLoad    []int64
	unbuffered    []int64 // per cell, unlimited if there is none
	total         []int64
	reserved      []int64 // per cell, for applications that do not use it; nil without applications
	tasks         []problemTask
	owners        []problemOwner
	levels        priorityLevels
	budget        int   // moves of one plan
	configuration int64 // revision of the cluster's
	hasAffinity   bool  // of some owner
	applications  []problemApplication
	// firstApplicationDim is the first dimension of an application's load.
	firstApplicationDim int32

	domainsByKey map[string]*domain.Domains // see [ownerDomains]
	matchesByKey map[string][]uint8         // per instance: 0 unknown, 1 no, 2 yes; see [staticMatcher]
}

// The dimensions that are not metrics.
const (
	dimCPU = iota
	dimMemory
	dimENI
	fixedDims
)

// priorityLevels are the priorities of soft rules, 0 to 2. -1 switches a rule off.
type priorityLevels struct{ placement, capacity, fault, upgrade, affinity int }

// alwaysBinding is the level of rules that are never given up.
const alwaysBinding = 0

// priorityLevelsOf limits the priorities to the levels that rules can have.
func priorityLevelsOf(p cluster.Priorities) priorityLevels {
	level := func(p cluster.Priority) int { return min(max(int(p), -1), 2) }
	return priorityLevels{level(p.Placement), level(p.Capacity), level(p.FaultDomain), level(p.UpgradeDomain),
		level(p.Affinity)}
}

// A problemInstance is an instance with what the searches ask of it.
type problemInstance struct {
	id           string
	view         *snapshot.InstanceView
	row          *cluster.Instance
	takesTasks   bool           // tasks may move to it
	givesTasks   bool           // tasks may leave it, and violations on it count
	gpus         []int          // free thousandths per device
	unpinned     int            // devices held by tasks at unknown positions
	ports        []cluster.Port // in use, once per task
	tasks        []int32        // that count and are here at the start
	endingOwners []int32        // owners of tasks that are about to end
}

// A problemTask is a task that may move, whose owner's tasks may move, or that looks for an
// instance.
type problemTask struct {
	id         string
	task       *cluster.Task // nil for a newcomer
	owner      int32
	initial    int32 // instance at the start, -1 for a newcomer
	amounts    []resourceAmount
	needs      cluster.Resources
	gpus       []int
	ports      []cluster.Port
	cost       int
	movable    bool
	mismatched bool  // its instance lacks what it requires
	apart      bool  // its instance has no task of its owner's parent
	shape      int32 // equal tasks of one owner have the same
}

// A resourceAmount is what a task uses of one dimension.
type resourceAmount struct {
	dim    int32
	amount int64
}

// A problemOwner is an owner with what its tasks ask of an instance.
type problemOwner struct {
	name           string
	displayName    string // for texts
	mover          Owner
	maxPerInstance int // tasks that may share an instance, 0 for any number
	tasks          []int32
	parent         int32           // that its tasks have to be beside; -1 for none
	children       []int32         // owners that it is the parent of
	domains        *domain.Domains // nil if no domain rule applies
	application    int32           // that limits its tasks; noApplication for none
	// matches reports that the instance satisfies the tasks' requirements. suits reports that it
	// may have one more: requirements may be off, and taints count. isAvoided reports that it gets
	// none all the same.
	matches, suits, isAvoided func(i int) bool
	// isClosed reports that tasks of others close the instance; nil without dynamic constraints.
	isClosed func(i int) bool
	eligible []uint8 // results of canHost, per instance: 0 unknown, 1 no, 2 yes
}

func (p *problem) dimensionCount() int { return len(p.names) }

func (p *problem) cellIndex(i, dim int32) int { return int(i)*len(p.names) + int(dim) }

// canHostTaskOf reports whether the instance may have a task of the owner, leaving aside what
// changes as tasks come and go.
func (p *problem) canHostTaskOf(owner, i int32) bool {
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

// attachTasks connects the tasks with their instances and owners, and notes which of them are
// mismatched or may not leave.
func (p *problem) attachTasks() {
	for t := range p.tasks {
		task := &p.tasks[t]
		o := &p.owners[task.owner]
		o.tasks = append(o.tasks, int32(t))
		if task.initial < 0 {
			p.attachToApplication(int32(t))
			continue
		}
		here := &p.instances[task.initial]
		here.tasks = append(here.tasks, int32(t))
		avoided := o.isAvoided(int(task.initial))
		task.mismatched = here.givesTasks && !avoided && p.levels.placement >= 0 && !o.matches(int(task.initial))
		task.movable = task.movable && here.givesTasks && !avoided
		p.attachToApplication(int32(t))
		if o.domains != nil {
			o.domains.AddTasks(int(task.initial), 1)
		}
	}
	assignShapes(p)
	if p.hasAffinity {
		unlinkParentless(p)
		findApart(p)
	}
}

// findApart notes the tasks that are apart from their parent at the start.
func findApart(p *problem) {
	has := map[[2]int32]bool{}
	for t := range p.tasks {
		has[[2]int32{p.tasks[t].owner, p.tasks[t].initial}] = true
	}
	for t := range p.tasks {
		task := &p.tasks[t]
		if parent := p.owners[task.owner].parent; parent != noParent && task.initial >= 0 {
			task.apart = p.instances[task.initial].givesTasks && !has[[2]int32{parent, task.initial}]
		}
	}
}

// assignShapes gives equal tasks of one owner the same shape. A search need not try both of two
// equal tasks.
func assignShapes(p *problem) {
	type shapeKey struct {
		owner      int32
		cost, gpus int
		needs      cluster.Resources
		rest       string // amounts and ports
	}
	shapes := map[shapeKey]int32{}
	var rest []byte
	for t := range p.tasks {
		task := &p.tasks[t]
		rest = binary.AppendVarint(rest[:0], int64(len(task.amounts)))
		for _, a := range task.amounts {
			rest = binary.AppendVarint(binary.AppendVarint(rest, int64(a.dim)), a.amount)
		}
		for _, port := range task.ports {
			rest = append(binary.AppendVarint(rest, int64(port.Number)), port.Protocol...)
		}
		key := shapeKey{task.owner, task.cost, len(task.gpus), task.needs, string(rest)}
		shape, known := shapes[key]
		if !known {
			shape = int32(len(shapes))
			shapes[key] = shape
		}
		task.shape = shape
	}
}

// movableCount returns how many tasks may move.
func (p *problem) movableCount() (n int) {
	for t := range p.tasks {
		if p.tasks[t].movable {
			n++
		}
	}
	return n
}

const unlimited = math.MaxInt64
