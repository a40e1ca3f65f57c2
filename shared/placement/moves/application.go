package moves

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"berth/shared/snapshot"
)

// The limits of an application are about tasks of several owners (P20). What it may use of a metric
// on an instance is a dimension of its own, so that searches treat it as they treat CPU. What it has
// reserved there comes on top of the load of the metric. On how many instances it may have tasks is a
// rule of the whole application.

// noApplication is the application of owners that no limits bind.
const noApplication = -1

// A problemApplication is an application with limits.
type problemApplication struct {
	name         string
	maximumNodes int // 0 for any number
	// nodeDims has, per limit of the application, the dimension of its load on an instance; -1 for
	// none.
	nodeDims     []int32
	reservations []reservation
	tasks        []int32 // of the problem
	initial      applicationUse
	// unmovable counts, per instance, the tasks that count and cannot move.
	unmovable []int32
}

// A reservation is how much of a dimension is the application's alone on an instance with its tasks.
type reservation struct {
	dim    int32
	amount int64
	// onInstance is the amount per instance: less where the application has tasks at the start and the
	// instance does not have as much.
	onInstance []int64
}

// An applicationUse counts an application's tasks per instance.
type applicationUse struct {
	holding []int32 // tasks that hold capacity
	counted []int32 // those of them that count for the number of instances
	nodes   int     // instances with tasks that count
	loads   [][]int64
}

func (u *applicationUse) clone() applicationUse {
	out := applicationUse{slices.Clone(u.holding), slices.Clone(u.counted), u.nodes, make([][]int64, len(u.loads))}
	for n := range u.loads {
		out.loads[n] = slices.Clone(u.loads[n])
	}
	return out
}

// nameApplications makes each application's limit per instance a dimension, after those of metrics.
func (p *problem) nameApplications(all []*snapshot.Application) {
	p.firstApplicationDim = int32(len(p.names))
	for _, a := range all {
		x := problemApplication{name: a.Name, maximumNodes: a.MaximumNodes}
		for n := range a.Limits {
			limit, dim := &a.Limits[n], int32(-1)
			if limit.NodeCapacity > 0 {
				dim = int32(len(p.names))
				p.names = append(p.names, limit.Name+" of application "+a.Name)
			}
			x.nodeDims = append(x.nodeDims, dim)
			x.reservations = append(x.reservations, reservation{dim: p.dimOf[limit.Metric], amount: limit.Reservation})
		}
		p.applications = append(p.applications, x)
	}
}

// countApplications fills in what the applications use on the instances, with the loads and limits of
// their dimensions.
func (p *problem) countApplications(all []*snapshot.Application) {
	if len(all) == 0 {
		return
	}
	p.reserved = make([]int64, len(p.load))
	for n, a := range all {
		x := &p.applications[n]
		x.initial = applicationUse{holding: make([]int32, len(p.instances)), counted: make([]int32, len(p.instances)),
			loads: make([][]int64, len(a.Limits))}
		x.unmovable = make([]int32, len(p.instances))
		for l := range a.Limits {
			x.initial.loads[l] = make([]int64, len(p.instances))
			x.reservations[l].onInstance = make([]int64, len(p.instances))
		}
		for i := range p.instances {
			use := p.instances[i].view.UseOf(a)
			x.initial.holding[i], x.initial.counted[i] = int32(use.Tasks), int32(use.Counted)
			x.unmovable[i] = int32(use.Counted)
			if use.Counted > 0 {
				x.initial.nodes++
			}
			for l, dim := range x.nodeDims {
				r, load := &x.reservations[l], int64(0)
				r.onInstance[i] = r.amount
				if use.Tasks > 0 {
					load, r.onInstance[i] = use.Loads[l], use.Reservations[l]
				}
				x.initial.loads[l][i] = load
				if dim >= 0 {
					c := p.cellIndex(int32(i), dim)
					p.load[c], p.unbuffered[c], p.total[c] = load, a.Limits[l].NodeCapacity, a.Limits[l].NodeCapacity
				}
				if p.levels.capacity >= 0 {
					p.reserved[p.cellIndex(int32(i), r.dim)] += use.UnusedReservation(l)
				}
			}
		}
	}
}

// applicationNamed returns the number of the application, or noApplication if no limits bind it.
func (p *problem) applicationNamed(name string) int32 {
	if at := slices.IndexFunc(p.applications, func(a problemApplication) bool { return a.name == name }); at >= 0 {
		return int32(at)
	}
	return noApplication
}

// addApplicationAmounts adds what a task of the application uses of the application's dimensions. Of
// a metric that is reserved it uses 0 if it has no load: it may bring the reservation with it.
func (p *problem) addApplicationAmounts(a int32, amounts []resourceAmount) []resourceAmount {
	if a == noApplication {
		return amounts
	}
	of := func(dim int32) int64 {
		if at := slices.IndexFunc(amounts, func(x resourceAmount) bool { return x.dim == dim }); at >= 0 {
			return amounts[at].amount
		}
		return 0
	}
	x := &p.applications[a]
	for l, r := range x.reservations {
		load := of(r.dim)
		if load == 0 && r.amount > 0 {
			amounts = append(amounts, resourceAmount{r.dim, 0})
		}
		if load > 0 && x.nodeDims[l] >= 0 {
			amounts = append(amounts, resourceAmount{x.nodeDims[l], load})
		}
	}
	slices.SortFunc(amounts, func(a, b resourceAmount) int { return cmp.Compare(a.dim, b.dim) })
	return amounts
}

// applicationOf returns the number of the task's application, or noApplication.
func (p *problem) applicationOf(t int32) int32 { return p.owners[p.tasks[t].owner].application }

// attachToApplication makes the task one of its application's.
func (p *problem) attachToApplication(t int32) {
	if a := p.applicationOf(t); a != noApplication {
		x, task := &p.applications[a], &p.tasks[t]
		x.tasks = append(x.tasks, t)
		if task.movable && task.initial >= 0 {
			x.unmovable[task.initial]--
		}
	}
}

// lacksReservation reports that the instance takes less of a metric than the owner's application
// reserves on each of its instances. No task moves there.
func (p *problem) lacksReservation(owner, i int32) bool {
	a := p.owners[owner].application
	return a != noApplication && p.levels.capacity >= 0 &&
		slices.ContainsFunc(p.applications[a].reservations, func(r reservation) bool {
			return r.amount > p.unbuffered[p.cellIndex(i, r.dim)]
		})
}

// usedOf returns the load of a cell at the start, with what is reserved there and not used.
func (p *problem) usedOf(c int) int64 {
	if p.reserved == nil {
		return p.load[c]
	}
	return p.load[c] + p.reserved[c]
}

// usedOf returns the load of a cell with what is reserved there and not used.
func usedOf(s *assignment, c int) int64 {
	if s.reserved == nil {
		return s.load[c]
	}
	return s.load[c] + s.reserved[c]
}

// unusedReservation returns how much of its l-th reservation the application does not use on the
// instance.
func unusedReservation(s *assignment, a, i int32, l int) int64 {
	use := &s.uses[a]
	if use.holding[i] == 0 {
		return 0
	}
	return max(0, s.problem.applications[a].reservations[l].onInstance[i]-use.loads[l][i])
}

// usedWith returns what [assignment.usedOf] would be with the task on the instance as well. The first
// task of an application brings its reservation along; later ones fit into what is left of it.
func usedWith(s *assignment, t, i int32, amount resourceAmount) int64 {
	used := usedOf(s, s.problem.cellIndex(i, amount.dim)) + amount.amount
	a := s.problem.applicationOf(t)
	if a == noApplication || s.problem.levels.capacity < 0 {
		return used
	}
	for l, r := range s.problem.applications[a].reservations {
		if r.dim == amount.dim {
			return used - unusedReservation(s, a, i, l) + max(0, r.onInstance[i]-s.uses[a].loads[l][i]-amount.amount)
		}
	}
	return used
}

// fillsReservation reports whether newcomers of the task's application on the instance, and it is one,
// take nothing of the dimension but what their application has reserved there for tasks that stay.
func fillsReservation(s *assignment, t, i, dim int32) bool {
	a := s.problem.applicationOf(t)
	if a == noApplication || s.problem.tasks[t].initial >= 0 {
		return false
	}
	load, arrived := int64(0), int32(0)
	for _, u := range s.arrived[i] {
		if s.problem.applicationOf(u) == a {
			if arrived++; s.problem.tasks[u].initial < 0 {
				load += s.problem.tasks[u].amountOf(dim)
			}
		}
	}
	for l, r := range s.problem.applications[a].reservations {
		if r.dim == dim && s.uses[a].holding[i] > arrived {
			return load+unusedReservation(s, a, i, l) == max(0, r.onInstance[i]-s.uses[a].loads[l][i]+load)
		}
	}
	return false
}

// countInApplication adds (sign 1) or removes (-1) the task on the instance, and what that changes in
// the score.
func countInApplication(s *assignment, t, i int32, sign int32) {
	a := s.problem.applicationOf(t)
	if a == noApplication {
		return
	}
	countScattered(s, a, -1)
	for _, r := range s.problem.applications[a].reservations {
		s.countCell(s.problem.cellIndex(i, r.dim), r.dim, -1)
	}
	shiftInApplication(s, t, i, sign)
	for _, r := range s.problem.applications[a].reservations {
		s.countCell(s.problem.cellIndex(i, r.dim), r.dim, 1)
	}
	countScattered(s, a, 1)
}

// shiftInApplication is countInApplication without the score.
func shiftInApplication(s *assignment, t, i int32, sign int32) {
	a := s.problem.applicationOf(t)
	if a == noApplication {
		return
	}
	use, task := &s.uses[a], &s.problem.tasks[t]
	reserve := func(sign int64) {
		for l, r := range s.problem.applications[a].reservations {
			if s.problem.levels.capacity >= 0 {
				s.reserved[s.problem.cellIndex(i, r.dim)] += sign * unusedReservation(s, a, i, l)
			}
		}
	}
	reserve(-1)
	use.holding[i] += sign
	if use.counted[i] += sign; use.counted[i] == 0 {
		use.nodes--
	} else if use.counted[i] == sign {
		use.nodes++
	}
	for l, r := range s.problem.applications[a].reservations {
		use.loads[l][i] += int64(sign) * task.amountOf(r.dim)
	}
	reserve(1)
}

// surplusNodes returns on how many instances too many the application has tasks.
func surplusNodes(s *assignment, a int32) int {
	most := s.problem.applications[a].maximumNodes
	if most == 0 {
		return 0
	}
	return max(0, s.uses[a].nodes-most)
}

// countScattered adds (sign 1) or removes (-1) the violations of an application's number of instances.
// One that is on too many of them, with more tasks on the emptiest than a plan may move, is the better
// the fewer those are.
func countScattered(s *assignment, a int32, sign int) {
	surplus := surplusNodes(s, a)
	if surplus == 0 {
		return
	}
	s.score.rules[alwaysBinding].addViolations(sign*surplus, int64(sign)*tasksBeyondPlan(s, a, surplus))
	x := &s.problem.applications[a]
	if more := surplus - max(0, x.initial.nodes-x.maximumNodes); more > 0 {
		s.score.worsened[alwaysBinding].addViolations(sign*more, 0)
	}
}

// tasksBeyondPlan returns how many tasks would have to leave the emptiest of the application's
// instances beyond what one plan may move. Several plans then do it one after the other.
func tasksBeyondPlan(s *assignment, a int32, surplus int) int64 {
	if s.problem.budget >= len(s.problem.applications[a].tasks) {
		return 0
	}
	var counts []int32
	for i, n := range s.uses[a].counted {
		if n > 0 && s.problem.applications[a].unmovable[i] == 0 {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	leaving := 0
	for _, n := range counts[:min(surplus, len(counts))] {
		leaving += int(n)
	}
	return int64(max(0, leaving-s.problem.budget))
}

// isScatteredBy reports whether the application of the task, which has moved, is on more instances
// than it may be on. If there were more at the start, as many may stay; a newcomer may not use that.
func isScatteredBy(s *assignment, t int32) bool {
	a := s.problem.applicationOf(t)
	if a == noApplication || surplusNodes(s, a) == 0 {
		return false
	}
	x, i := &s.problem.applications[a], s.at[t]
	if s.problem.tasks[t].initial < 0 {
		return countStaying(s, a, i) == 0
	}
	return s.uses[a].nodes > max(x.maximumNodes, x.initial.nodes)
}

// countStaying returns how many tasks of the application on the instance count and have not moved
// there.
func countStaying(s *assignment, a, i int32) int32 {
	n := s.uses[a].counted[i]
	for _, t := range s.arrived[i] {
		if s.problem.applicationOf(t) == a {
			n--
		}
	}
	return n
}

// keepsNodes reports whether the task may move to the instance now, as far as its application's number
// of instances is concerned.
func keepsNodes(s *assignment, t, to int32) bool {
	a := s.problem.applicationOf(t)
	if a == noApplication || s.uses[a].counted[to] > 0 {
		return true
	}
	most, nodes := s.problem.applications[a].maximumNodes, s.uses[a].nodes
	after := nodes + 1
	if from := s.at[t]; from >= 0 && s.uses[a].counted[from] == 1 {
		after--
	}
	return most == 0 || after <= max(most, nodes)
}

// gatherCost returns what tasks are compared by as repairs of an application that is on too many
// instances: those on instances with few of its tasks come first, those that cannot empty theirs last.
func gatherCost(s *assignment, a, t int32) [2]float64 {
	i := s.problem.tasks[t].initial
	if i < 0 || s.problem.applications[a].unmovable[i] > 0 {
		return [2]float64{math.Inf(1), 0}
	}
	return [2]float64{float64(s.uses[a].counted[i]), float64(s.problem.tasks[t].cost)}
}

// isBoundToNodes reports whether the task best stays among the instances with tasks of its
// application: with one more, these would be too many.
func isBoundToNodes(s *assignment, t int32) bool {
	a := s.problem.applicationOf(t)
	if a == noApplication || s.problem.applications[a].maximumNodes == 0 {
		return false
	}
	nodes, most := s.uses[a].nodes, s.problem.applications[a].maximumNodes
	isAlone := s.at[t] >= 0 && s.uses[a].counted[s.at[t]] == 1
	return nodes > most || nodes == most && !isAlone
}

// applicationDestinations returns the instances with tasks of the task's application that it may go
// to: those that may keep them if one of these has room, otherwise all.
func applicationDestinations(s *branchSearch, t int32) []destination {
	a := s.problem.applicationOf(t)
	x, use := &s.problem.applications[a], &s.uses[a]
	var on []int32
	for i, n := range use.counted {
		if n > 0 {
			on = append(on, int32(i))
		}
	}
	slices.SortStableFunc(on, func(i, k int32) int {
		return cmp.Or(compareBools(x.unmovable[i] == 0, x.unmovable[k] == 0),
			cmp.Compare(use.counted[k], use.counted[i]))
	})
	var out []destination
	for n, i := range on {
		if n >= x.maximumNodes && anyHasRoom(out) {
			break
		}
		if i != s.at[t] && s.isDestination(s.problem.tasks[t].owner, i) {
			out = append(out, evaluateDestination(s, t, i))
		}
	}
	weighDomains(s, t, out)
	return out
}

// explainGathering says in one line on how many instances an application is, before and after all
// moves.
func explainGathering(s *assignment, a int32) string {
	x := &s.problem.applications[a]
	return fmt.Sprintf("application %s goes from %d to %d instances, at most %d are allowed", x.name, x.initial.nodes,
		s.uses[a].nodes, x.maximumNodes)
}

// isSameApplication reports whether two applications use the same, of the same limits.
func isSameApplication(a, b problemApplication) bool {
	return a.name == b.name && a.maximumNodes == b.maximumNodes &&
		slices.EqualFunc(a.reservations, b.reservations, func(x, y reservation) bool {
			return x.dim == y.dim && slices.Equal(x.onInstance, y.onInstance)
		}) &&
		slices.Equal(a.initial.holding, b.initial.holding) && slices.Equal(a.initial.counted, b.initial.counted) &&
		slices.EqualFunc(a.initial.loads, b.initial.loads, slices.Equal[[]int64])
}

// isScattered reports whether the application is on too many instances at the start.
func (x *problemApplication) isScattered() bool {
	return x.maximumNodes > 0 && x.initial.nodes > x.maximumNodes
}

// hasKeptEnough reports whether a local search has tried enough tasks of the application.
func hasKeptEnough(s *branchSearch, a int32) bool {
	kept := int32(0)
	for o := range s.problem.owners {
		if s.problem.owners[o].application == a {
			kept += s.local.kept[o]
		}
	}
	s.cut = s.cut || kept >= nearTasks
	return kept >= nearTasks
}

// limitOf returns how much load a cell takes without the buffer, beside what is reserved there and not
// used.
func limitOf(s *assignment, c int) int64 {
	if s.reserved == nil || s.problem.unbuffered[c] == unlimited {
		return s.problem.unbuffered[c]
	}
	return s.problem.unbuffered[c] - s.reserved[c]
}

// withoutReserved returns limitOf at the start.
func (p *problem) withoutReserved(c int) int64 {
	if p.reserved == nil || p.unbuffered[c] == unlimited {
		return p.unbuffered[c]
	}
	return p.unbuffered[c] - p.reserved[c]
}
