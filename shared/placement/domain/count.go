package domain

// setDimensionRule changes the rule and measures the tasks by it.
func (t *domainTree) setDimensionRule(rule domainRule, target int) {
	t.rule, t.excess, t.unitOf = rule, 0, nil
	switch rule {
	case ruleDifference:
		t.countDifferences()
	case ruleQuorum:
		t.limit = quorumLimit(target, t.firstBranchCount())
		t.setLimitUnits(t.firstBranchNode(), true)
	case ruleNonpacking:
		t.limit = 1
		t.setLimitUnits(0, false)
	}
}

// quorumLimit returns how many of target tasks a domain may have so that the others are a majority
// (P4), at least 1. For 5 tasks it is 2, for 7 it is 3. If so few domains could not hold all tasks
// it is one more: 2 domains hold 5 tasks as 3 and 2.
func quorumLimit(target, domains int) int32 {
	limit := max(target-(target/2+1), 1)
	if domains*limit < target {
		limit++
	}
	return int32(limit)
}

// countDifferences counts the tasks of all domains for maximum difference.
func (t *domainTree) countDifferences() {
	for v := range t.nodes {
		n := &t.nodes[v]
		n.childTasks, n.base, n.below, n.under, n.above, n.over = 0, 0, 0, 0, 0, 0
		clear(n.childrenWith)
	}
	for v := 1; v < len(t.nodes); v++ {
		if n := &t.nodes[v]; n.eligible > 0 {
			p := &t.nodes[n.parent]
			p.childTasks += n.tasks
			p.addLiveChild(n.tasks)
		}
	}
	for v := range t.nodes {
		n := &t.nodes[v]
		n.moveBaseToFloor()
		t.excess += n.childExcess()
	}
}

// setLimitUnits makes the children of v the units of the limit: all of them, or the live ones.
func (t *domainTree) setLimitUnits(v int32, all bool) {
	t.unitOf = make([]int32, len(t.nodeOf))
	for leaf, node := range t.nodeOf {
		for u := node; u != 0; u = t.nodes[u].parent {
			if n := &t.nodes[u]; n.parent == v && (all || n.eligible > 0) {
				t.unitOf[leaf] = u
			}
		}
	}
	for u := 1; u < len(t.nodes); u++ {
		if n := &t.nodes[u]; n.parent == v && (all || n.eligible > 0) {
			t.excess += max(0, n.tasks-t.limit)
		}
	}
}

// addTasksOn counts n more tasks on an instance, in its domain on every level.
func (t *domainTree) addTasksOn(i, n int) {
	if len(t.leafOf) == 0 || t.leafOf[i] < 0 {
		return
	}
	leaf, more := t.leafOf[i], int32(n)
	if t.unitOf != nil && t.unitOf[leaf] != 0 {
		tasks := t.nodes[t.unitOf[leaf]].tasks
		t.excess += max(0, tasks+more-t.limit) - max(0, tasks-t.limit)
	}
	for v := t.nodeOf[leaf]; v > 0; v = t.nodes[v].parent { // no rule is about the root's tasks
		d := &t.nodes[v]
		if t.rule == ruleDifference && d.eligible > 0 {
			p := &t.nodes[d.parent]
			t.excess -= p.childExcess()
			p.changeLiveChild(d.tasks, d.tasks+more)
			t.excess += p.childExcess()
		}
		d.tasks += more
	}
}

// admitsOneMore reports whether a domain may have one more task. dead also admits domains without
// an eligible instance.
func (t *domainTree) admitsOneMore(leaf int, dead bool) bool {
	if leaf < 0 || t.rule == ruleNone {
		return true
	}
	v := t.nodeOf[leaf]
	if t.nodes[v].eligible == 0 && !dead {
		return false
	}
	if u := t.unitOf; u != nil && u[leaf] != 0 {
		return t.nodes[u[leaf]].tasks < t.limit
	}
	for ; v > 0; v = t.nodes[v].parent {
		if !t.admitsAmongSiblings(v) {
			return false
		}
	}
	return true
}

// admitsAmongSiblings reports whether a domain may have one more task beside its siblings: it
// is at the base and no sibling is below, or it is below itself.
func (t *domainTree) admitsAmongSiblings(v int32) bool {
	d := &t.nodes[v]
	p := &t.nodes[d.parent]
	switch {
	case t.rule == ruleNonpacking: // a domain without eligible instances has no limit
		return d.tasks < t.limit
	case t.rule != ruleDifference || p.eligible == 0:
		return true
	}
	return d.tasks < p.base || d.tasks == p.base && p.below == 0
}

// mayReceiveTask reports whether the domain of to may take a task from the domain of from. It
// ignores what is left in the domain of from.
func (t *domainTree) mayReceiveTask(from, to int) bool {
	source, target := t.leafUnderRule(from), t.leafUnderRule(to)
	if target < 0 || source == target {
		return true
	}
	if t.nodes[t.nodeOf[target]].eligible == 0 {
		return false
	}
	if t.unitOf == nil {
		return true
	}
	u := t.unitOf[target]
	return u == 0 || source >= 0 && t.unitOf[source] == u || t.nodes[u].tasks < t.limit
}

// worsensNothing reports whether a move breaks the rule of this dimension no further. It tries the
// move and undoes it.
func (t *domainTree) worsensNothing(from, to int) bool {
	if !t.mayReceiveTask(from, to) {
		return false
	}
	before := t.excess
	t.addTasksOn(from, -1)
	t.addTasksOn(to, 1)
	after := t.excess
	t.addTasksOn(to, -1)
	t.addTasksOn(from, 1)
	return after <= before
}

// childExcess returns how many tasks at least have to enter or leave some child for the children to
// differ by one at most.
func (d *domain) childExcess() int32 { return max(d.over, d.under) }

// changeLiveChild is called when a live child has gone from some number of tasks to another.
func (d *domain) changeLiveChild(from, to int32) {
	d.removeLiveChild(from)
	d.addLiveChild(to)
	d.childTasks += to - from
	d.moveBaseToFloor()
}

func (d *domain) addLiveChild(tasks int32) {
	for int(tasks) >= len(d.childrenWith) {
		d.childrenWith = append(d.childrenWith, 0)
	}
	d.childrenWith[tasks]++
	d.countOutsideBase(tasks, 1)
}

func (d *domain) removeLiveChild(tasks int32) {
	d.childrenWith[tasks]--
	d.countOutsideBase(tasks, -1)
}

// countOutsideBase adds (sign 1) or removes (-1) a child to what is counted of children outside
// base and base+1.
func (d *domain) countOutsideBase(tasks, sign int32) {
	switch {
	case tasks < d.base:
		d.below += sign
		d.under += sign * (d.base - tasks)
	case tasks > d.base+1:
		d.above += sign
		d.over += sign * (tasks - d.base - 1)
	}
}

// moveBaseToFloor adjusts the base to the number of tasks. A step costs the same however many
// children there are, and one task causes one step at most.
func (d *domain) moveBaseToFloor() {
	if d.liveChildren == 0 {
		return
	}
	base := d.childTasks / d.liveChildren
	for d.base < base {
		d.below += d.countChildrenWith(d.base)
		d.under += d.below
		d.over -= d.above
		d.above -= d.countChildrenWith(d.base + 2)
		d.base++
	}
	for d.base > base {
		d.base--
		d.under -= d.below
		d.below -= d.countChildrenWith(d.base)
		d.above += d.countChildrenWith(d.base + 2)
		d.over += d.above
	}
}

// countChildrenWith returns how many children have so many tasks.
func (d *domain) countChildrenWith(tasks int32) int32 {
	if int(tasks) >= len(d.childrenWith) {
		return 0
	}
	return d.childrenWith[tasks]
}
