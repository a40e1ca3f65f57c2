package rebalance

import "math"

// A cell is one resource of one instance.
type cell struct {
	used     int64 // by the tasks that are there
	held     int64 // with what tasks in transit still take up
	capacity int64
	safety   int64
}

// An assignment says where the tasks are during a search, with everything that is counted from
// that. What it counts is in flat slices, so that trying a move reads a few cache lines.
type assignment struct {
	problem    *Problem
	width      int // resources
	at         []int32
	on         [][]int32 // tasks per instance
	position   []int32   // per task, in that list
	start      []int32
	serviceOf  []int32
	needs      []int64 // per task and resource
	cells      []cell  // per instance and resource
	loadCosts  []int64 // per instance: overload and imbalance
	taskCosts  []int64 // per task, weighted
	startNeeds []int64 // needs, 0 where the task takes them up on its first instance in any case
	cost       int64
	rules      serviceRules
	moved      movedTasks
	spreads    spreadCounts
	fixed      []bool  // tasks that stay; nil for none
	nothing    []int64 // the needs of no task
}

// newAssignment returns the assignment with every task where it starts.
func newAssignment(p *Problem) *assignment {
	width := len(p.Resources)
	a := &assignment{
		problem: p, width: width, at: make([]int32, len(p.Tasks)), start: make([]int32, len(p.Tasks)),
		serviceOf: make([]int32, len(p.Tasks)), needs: make([]int64, 0, len(p.Tasks)*width),
		cells: make([]cell, len(p.Instances)*width), loadCosts: make([]int64, len(p.Instances)),
		taskCosts: make([]int64, len(p.Tasks)), nothing: make([]int64, width),
		rules: newServiceRules(p), on: make([][]int32, len(p.Instances)), position: make([]int32, len(p.Tasks)),
		moved: newMovedTasks(p), spreads: newSpreadCounts(p),
		startNeeds: make([]int64, 0, len(p.Tasks)*width),
	}
	a.reserveLists()
	for i := range p.Instances {
		for r := range width {
			c := &a.cells[i*width+r]
			c.capacity, c.safety = p.Instances[i].Capacity[r], p.Instances[i].Safety[r]
			if base := p.Instances[i].Base; base != nil {
				c.used, c.held = base[r], base[r]
			}
		}
	}
	for t := range p.Tasks {
		task := &p.Tasks[t]
		a.at[t], a.start[t], a.serviceOf[t] = task.Start, task.Start, task.Service
		if task.Fixed && a.fixed == nil {
			a.fixed = make([]bool, len(p.Tasks))
		}
		if task.Fixed {
			a.fixed[t] = true
		}
		a.taskCosts[t] = task.Cost * p.Weights.Task
		a.needs = append(a.needs, task.Needs...)
		for r, n := range task.Needs {
			a.startNeeds = append(a.startNeeds, n)
			if p.Resources[r].Transit {
				a.startNeeds[len(a.startNeeds)-1] = 0
			}
			c := &a.cells[int(task.Start)*width+r]
			c.used += n
			c.held += n
		}
		a.rules.addTask(task.Service, task.Start, 1)
		a.cost += a.addToSpreads(task.Service, task.Start)
		a.position[t] = int32(len(a.on[task.Start]))
		a.on[task.Start] = append(a.on[task.Start], int32(t))
	}
	for i := range p.Instances {
		a.loadCosts[i] = a.loadCost(int32(i), a.nothing, a.nothing)
		a.cost += a.loadCosts[i]
	}
	return a
}

// reserveLists makes the empty lists of the tasks on each instance, with room for those that start there.
// One allocation for all of them is cheaper than thousands that grow.
func (a *assignment) reserveLists() {
	counts := make([]int32, len(a.on))
	for t := range a.problem.Tasks {
		counts[a.problem.Tasks[t].Start]++
	}
	all, from := make([]int32, len(a.problem.Tasks)), int32(0)
	for i, n := range counts {
		a.on[i] = all[from : from : from+n]
		from += n
	}
}

// needsOf returns what the task needs of each resource.
func (a *assignment) needsOf(t int32) []int64 { return a.needs[int(t)*a.width : (int(t)+1)*a.width] }

// cellsOf returns the cells of an instance.
func (a *assignment) cellsOf(i int32) []cell { return a.cells[int(i)*a.width : (int(i)+1)*a.width] }

// heldNeedsOf returns what the task takes up on the instance beyond what it holds there in any
// case.
func (a *assignment) heldNeedsOf(t, i int32) []int64 {
	if a.start[t] == i {
		return a.startNeeds[int(t)*a.width : (int(t)+1)*a.width]
	}
	return a.needsOf(t)
}

// loadCost returns what the load of an instance costs after some needs come and others go.
func (a *assignment) loadCost(i int32, come, gone []int64) int64 {
	cells, resources := a.cellsOf(i), a.problem.Resources
	come, gone, resources = come[:len(cells)], gone[:len(cells)], resources[:len(cells)]
	cost := int64(0)
	for r := range cells {
		if over := cells[r].used + come[r] - gone[r] - cells[r].safety; over > 0 {
			cost += over * resources[r].Overload
		}
	}
	for n := range a.problem.Balances {
		b := &a.problem.Balances[n]
		first, second := &cells[b.First], &cells[b.Second]
		freeFirst := first.capacity - first.used - come[b.First] + gone[b.First]
		freeSecond := second.capacity - second.used - come[b.Second] + gone[b.Second]
		if missing := b.Ratio*freeFirst - freeSecond; missing > 0 {
			cost += missing * b.Weight
		}
	}
	for n := range a.problem.Evens {
		if e := &a.problem.Evens[n]; e.Apart == nil || !e.Apart[i] {
			r := e.Resource
			use := float64(cells[r].used+come[r]-gone[r]) / e.Mean
			if e.Few {
				cost += int64(e.Weight * math.Sqrt(max(0, use)))
				continue
			}
			cost += int64(e.Weight * (use - 1) * (use - 1))
		}
	}
	return cost
}

// hasRoom reports whether the instance can take the needs after others are gone from it. Where the
// needs are no more than what goes, it can, even if it has too little for what it holds.
func (a *assignment) hasRoom(i int32, come, gone []int64) bool {
	cells := a.cellsOf(i)
	come, gone = come[:len(cells)], gone[:len(cells)]
	for r := range cells {
		if more := come[r] - gone[r]; more > 0 && cells[r].held+more > cells[r].capacity {
			return false
		}
	}
	return true
}

// moveCost returns what it costs that the task is on an instance instead of where it started,
// without its service's part.
func (a *assignment) moveCost(t, i int32) int64 {
	if i == a.start[t] {
		return 0
	}
	cost := a.taskCosts[t]
	if a.problem.Distances != nil {
		cost += a.problem.Weights.Distance * int64(a.problem.Distances[int(a.start[t])*len(a.problem.Instances)+int(i)])
	}
	return cost
}

// changeLoad adds the task's load to the instance (sign 1) or takes it away (-1).
func (a *assignment) changeLoad(t, i int32, sign int64) {
	cells, used, held := a.cellsOf(i), a.needsOf(t), a.heldNeedsOf(t, i)
	for r := range cells {
		cells[r].used += sign * used[r]
		cells[r].held += sign * held[r]
	}
	cost := a.loadCost(i, a.nothing, a.nothing)
	a.cost += cost - a.loadCosts[i]
	a.loadCosts[i] = cost
}

// moveTask puts the task on another instance.
func (a *assignment) moveTask(t, to int32) {
	a.liftTask(t)
	a.putTask(t, to)
}

// liftTask takes the task off its instance. Until putTask it is nowhere.
func (a *assignment) liftTask(t int32) {
	from, s := a.at[t], a.serviceOf[t]
	a.cost -= a.moveCost(t, from)
	a.changeLoad(t, from, -1)
	a.rules.addTask(s, from, -1)
	if from != a.start[t] {
		a.cost += a.moved.change(s, -1)
	}
	list, at := a.on[from], a.position[t]
	last := list[len(list)-1]
	list[at], a.position[last] = last, at
	a.on[from] = list[:len(list)-1]
	a.at[t] = nowhere
	a.cost -= a.removeFromSpreads(s, from)
}

// putTask puts a task that is nowhere on an instance.
func (a *assignment) putTask(t, to int32) {
	s := a.serviceOf[t]
	a.at[t] = to
	a.cost += a.moveCost(t, to)
	a.changeLoad(t, to, 1)
	a.rules.addTask(s, to, 1)
	if to != a.start[t] {
		a.cost += a.moved.change(s, 1)
	}
	a.cost += a.addToSpreads(s, to)
	a.position[t] = int32(len(a.on[to]))
	a.on[to] = append(a.on[to], t)
}

// nowhere is the instance of a lifted task.
const nowhere = -1

// moveSign returns 1 if a move to the instance makes the task a moved one, -1 if it brings it back,
// and 0 otherwise.
func (a *assignment) moveSign(t, to int32) int32 {
	start := a.start[t]
	switch {
	case a.at[t] == start && to != start:
		return 1
	case a.at[t] != start && to == start:
		return -1
	}
	return 0
}

// movedTasks counts moved tasks, and the number of the service with the most of them.
type movedTasks struct {
	weight    int64
	ofService []int32
	services  []int32 // with this many moved tasks; from 1 on
	most      int32
	all       int
}

func newMovedTasks(p *Problem) movedTasks {
	largest := make([]int32, len(p.Services))
	for t := range p.Tasks {
		largest[p.Tasks[t].Service]++
	}
	most := int32(0)
	for _, n := range largest {
		most = max(most, n)
	}
	return movedTasks{weight: p.Weights.Service, ofService: make([]int32, len(p.Services)),
		services: make([]int32, most+1)}
}

// change counts sign more moved tasks of the service, and returns the change of the cost.
func (m *movedTasks) change(s, sign int32) int64 {
	if sign == 0 {
		return 0
	}
	before := m.most
	m.services[m.ofService[s]]--
	m.ofService[s] += sign
	m.services[m.ofService[s]]++
	m.all += int(sign)
	if m.ofService[s] > m.most {
		m.most = m.ofService[s]
	} else if m.services[m.most] == 0 {
		m.most--
	}
	return int64(m.most-before) * m.weight
}
