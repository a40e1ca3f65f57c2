package oracle

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/placement/moves"
)

// A MoveOracle tries all ways to move the tasks of a world. It knows the rules by their definitions
// alone. Of the code under test it uses only the domains, which have oracles of their own.
type MoveOracle struct {
	*MoveWorld
	counted []*cluster.Task // that may move or be placed, newcomers last
	movable []bool
	at      []int // instance per counted task, -1 for none
	start   []int
	domains map[string]*domain.Domains
	levels  [5]int            // placement, capacity, fault, upgrade, affinity
	initial map[string]figure // at the start
	best    [4][]int64        // per stage
	forRoom bool              // newcomers are to be placed
}

// NewMoveOracle returns an oracle of the world with its tasks where they are.
func NewMoveOracle(w *MoveWorld) *MoveOracle {
	o := &MoveOracle{MoveWorld: w, domains: map[string]*domain.Domains{}, forRoom: w.Newcomers > 0}
	p := w.Config.Priorities
	o.levels = [5]int{int(p.Placement), int(p.Capacity), int(p.FaultDomain), int(p.UpgradeDomain),
		int(p.Affinity)}
	for _, t := range w.Tasks {
		if !t.IsActive() {
			continue
		}
		i := o.instanceIndex(t.Instance)
		o.counted, o.at = append(o.counted, t), append(o.at, i)
		o.movable = append(o.movable, o.givesTasks(i) && !o.avoids(t, i) && !w.Owners[t.Owner].Fixed)
	}
	for range w.Newcomers {
		spec := w.Owners["o0"].Spec
		t := Task("", "", Owner("o0"), Needs(spec.Needs), Ports(spec.Ports...))
		t.Reported = map[string]int64{"a": spec.Loads[0].Load}
		o.counted, o.at, o.movable = append(o.counted, t), append(o.at, -1), append(o.movable, true)
	}
	o.start = slices.Clone(o.at)
	for name, m := range w.Owners {
		if rule := domain.NewRule(m.Spec.DomainPolicy, m.Target, w.Config); rule.Governs() {
			o.domains[name] = o.domainsOf(m.Spec, rule)
		}
	}
	_, o.initial = o.figures()
	return o
}

func (o *MoveOracle) domainsOf(spec *placement.Spec, rule domain.Rule) *domain.Domains {
	var fault, upgrade []string
	var standing []domain.Standing
	for i, v := range o.Instances {
		fault, upgrade = append(fault, v.FaultDomain()), append(upgrade, v.UpgradeDomain())
		probe := Task("", v.ID, Owner(spec.Owner))
		switch {
		case !o.takesTasks(i):
			standing = append(standing, domain.Unavailable)
		case o.avoids(probe, i) || !o.matches(probe, i):
			standing = append(standing, domain.Ineligible)
		default:
			standing = append(standing, domain.Eligible)
		}
	}
	return domain.NewDomains(fault, upgrade, standing, rule)
}

func (o *MoveOracle) takesTasks(i int) bool {
	_, cordoned := o.Instances[i].Attributes[cluster.AttributeUnschedulable]
	return !cordoned && o.givesTasks(i)
}

func (o *MoveOracle) givesTasks(i int) bool { return o.Instances[i].Status == cluster.InstanceActive }

func (o *MoveOracle) avoids(t *cluster.Task, i int) bool {
	return slices.Contains(o.Owners[t.Owner].Spec.Avoid, o.Instances[i].ID)
}

func (o *MoveOracle) matches(t *cluster.Task, i int) bool {
	return len(o.Owners[t.Owner].Spec.Attributes) == 0 || o.Instances[i].Attributes["disk"] == "ssd"
}

func (o *MoveOracle) maxPerInstance(owner string) int64 {
	spec := o.Owners[owner].Spec
	if (domain.Rule{Policy: spec.DomainPolicy}).Governs() {
		return 1
	}
	return int64(spec.PerInstance)
}

// levelOf returns the priority of the rule that a figure belongs to.
func (o *MoveOracle) levelOf(place string) int {
	switch {
	case strings.HasPrefix(place, "cell") && !strings.HasSuffix(place, "CPU") && !strings.HasSuffix(place, Shop):
		return o.levels[1]
	case strings.HasPrefix(place, "fault"), strings.HasPrefix(place, "unit fault"):
		return o.levels[2]
	case strings.HasPrefix(place, "upgrade"), strings.HasPrefix(place, "unit upgrade"):
		return o.levels[3]
	}
	return 0
}

// Score returns the score of the tasks where they are: unplaced tasks; per level the violations and
// how far they are beyond; the same for the buffer; cost; moves; and per level what was not broken
// before. stages says in which stages of a search this way is allowed.
func (o *MoveOracle) Score() (out []int64, stages [4]bool) {
	possible, figures := o.figures()
	if !possible {
		return nil, stages
	}
	out = make([]int64, 17)
	for g := range stages {
		stages[g] = o.newcomersHaveRoom(figures, g)
	}
	forbid := func(level int) {
		for g := range stages {
			if level == 0 || level <= 3-g {
				stages[g] = false
			}
		}
	}
	for place, f := range figures {
		was := o.initial[place]
		level := o.levelOf(place)
		switch {
		case strings.HasPrefix(place, "cell"):
			if f.value > f.limitFor(f.limit, was) {
				stages[0] = false
			}
			if f.value > f.limitFor(f.total, was) {
				forbid(level)
			}
			if o.givesTasks(o.instanceOf(place)) {
				addExcess(out[1+2*level:], f.value-f.total)
				addExcess(out[11+2*level:], f.value-max(f.total, was.value))
				addExcess(out[7:], f.value-f.limit)
			}
		case strings.HasPrefix(place, "shared"):
			if f.value > f.limitFor(f.limit, was) {
				forbid(0)
			}
			if o.givesTasks(o.instanceOf(place)) {
				out[1] += max(0, f.value-f.limit)
			}
		case strings.HasPrefix(place, "nodes"):
			if f.value > f.limitFor(f.limit, was) {
				forbid(0)
			}
			out[1] += max(0, f.value-f.limit)
			out[11] += max(0, f.value-f.limitFor(f.limit, was))
		case strings.HasPrefix(place, "unit"):
			if f.value > f.limitFor(f.limit, was) {
				forbid(level)
			}
		default:
			if f.value > was.value {
				forbid(level)
			}
			out[1+2*level] += f.value
			out[11+2*level] += max(0, f.value-was.value)
		}
	}
	o.scoreTasks(out, forbid)
	return out, stages
}

// newcomersHaveRoom reports whether newcomers are only where they have room, as far as the stage
// binds.
func (o *MoveOracle) newcomersHaveRoom(figures map[string]figure, stage int) bool {
	for n, t := range o.counted {
		if o.start[n] >= 0 || o.at[n] < 0 {
			continue
		}
		id := o.Instances[o.at[n]].ID
		if f, ok := figures["shared "+id+" "+t.Owner]; ok && f.value+f.ending > f.limit {
			return false
		}
		if f, ok := figures["nodes "+Shop]; ok && f.value > f.limit && o.isMember(t) && !o.hasMemberOn(o.at[n]) {
			return false
		}
		for _, m := range []string{"CPU", "a", "a of " + Shop} {
			f, ok := figures["cell "+id+" "+m]
			limit := f.total
			if stage == 0 {
				limit = f.limit
			}
			given := m == "a" && (o.levels[1] > 0 && o.levels[1] > 3-stage || o.addsNothing(n)) ||
				m == "a of "+Shop && (!o.isMember(t) || t.Reported["a"] == 0)
			if ok && !given && f.value+f.ending > limit {
				return false
			}
		}
	}
	return true
}

func (o *MoveOracle) instanceOf(place string) int {
	return o.instanceIndex(strings.Fields(place)[1])
}

func addExcess(out []int64, beyond int64) {
	if beyond > 0 {
		out[0]++
		out[1] += beyond
	}
}

func (o *MoveOracle) scoreTasks(out []int64, forbid func(int)) {
	for n, t := range o.counted {
		if o.at[n] < 0 {
			out[0]++
			continue
		}
		if o.givesTasks(o.at[n]) && !o.avoids(t, o.at[n]) && !o.matches(t, o.at[n]) {
			out[1+2*o.levels[0]]++
			if o.at[n] != o.start[n] {
				forbid(o.levels[0])
				out[11+2*o.levels[0]]++
			}
		}
		if o.isApart(n, o.at) {
			out[1+2*o.levels[4]]++
			was := o.start[n] >= 0 && o.isApart(n, o.start)
			if !was {
				forbid(o.levels[4])
				out[11+2*o.levels[4]]++
			}
		}
		if o.start[n] >= 0 && o.at[n] != o.start[n] {
			out[9] += map[cluster.MoveCost]int64{"": 1, "Zero": 0, "Low": 1, "Medium": 15,
				"High": 40}[o.Owners[t.Owner].Spec.MoveCost]
			out[10]++
		}
	}
}

// isApart reports whether the n-th task has no task of its parent beside it. Where the parent has none at all,
// only a child that looks for an instance is bound.
func (o *MoveOracle) isApart(n int, at []int) bool {
	parent := o.Owners[o.counted[n].Owner].Spec.Affinity
	if parent == "" || !o.givesTasks(at[n]) {
		return false
	}
	nowhere := true
	for m, t := range o.counted {
		if t.Owner == parent && at[m] == at[n] {
			return false
		}
		nowhere = nowhere && t.Owner != parent && (t.Owner != o.counted[n].Owner || o.start[m] >= 0)
	}
	return !nowhere
}

// Order returns the parts of a score in the order of their weight. If newcomers are to be placed,
// as little as possible is given up and nothing repaired.
func (o *MoveOracle) Order(score []int64) []int64 {
	if !o.forRoom {
		return score[:11]
	}
	return slices.Concat(score[:1], score[11:], score[9:11])
}

// tryAll tries all places of the n-th task and those after it.
func (o *MoveOracle) tryAll(n int) {
	if n == len(o.counted) {
		score, allowed := o.Score()
		for g := range allowed {
			if allowed[g] && (o.best[g] == nil || slices.Compare(o.Order(score), o.Order(o.best[g])) < 0) {
				o.best[g] = score
			}
		}
		return
	}
	o.tryAll(n + 1)
	if !o.movable[n] {
		return
	}
	for i := range o.Instances {
		if i != o.start[n] && o.takesTasks(i) && !o.isClosedTo(o.counted[n], i) {
			o.at[n] = i
			o.tryAll(n + 1)
		}
	}
	o.at[n] = o.start[n]
}

// BestScore returns the best score, stage by stage: the buffer is used, and soft rules are broken,
// if that repairs more of what weighs more.
func (o *MoveOracle) BestScore() []int64 {
	o.tryAll(0)
	best := o.best[0]
	for g, rules := range [4]int{0, 7, 5, 3} {
		if g == 0 {
			continue
		}
		gains := slices.Compare(o.best[g][:rules], best[:rules]) < 0
		if o.forRoom {
			gains = o.best[g][0] < best[0]
		}
		if gains {
			best = o.best[g]
		}
	}
	return best
}

// CarryOut moves the tasks as the plan says, and returns the score. It fails the test if a move is
// not allowed.
func (o *MoveOracle) CarryOut(t *rapid.T, p *moves.Plan) []int64 {
	copy(o.at, o.start)
	for _, m := range p.Moves {
		n := o.taskIndex(m.Task)
		if n < 0 || !o.movable[n] || o.Instances[o.at[n]].ID != m.From || !o.takesTasks(o.instanceIndex(m.To)) ||
			o.isClosedTo(o.counted[n], o.instanceIndex(m.To)) {
			t.Fatalf("%s may not be moved like that: %+v", m.Task, m)
		}
		o.at[n] = o.instanceIndex(m.To)
	}
	for n, id := range p.Places {
		o.at[len(o.counted)-o.Newcomers+n] = o.instanceIndex(id)
	}
	score, _ := o.Score()
	return score
}

func (o *MoveOracle) instanceIndex(id string) int {
	return slices.IndexFunc(o.Instances, func(i *cluster.Instance) bool { return i.ID == id })
}

func (o *MoveOracle) taskIndex(id string) int {
	return slices.IndexFunc(o.counted, func(t *cluster.Task) bool { return t.ID == id })
}

// PutTask puts the task on the instance, or on none if that is "".
func (o *MoveOracle) PutTask(task, instance string) {
	o.at[o.taskIndex(task)] = o.instanceIndex(instance)
}

// AddCopy adds a copy of the task on the instance, beside the task itself.
func (o *MoveOracle) AddCopy(task, instance string) {
	c, at := *o.counted[o.taskIndex(task)], o.instanceIndex(instance)
	o.counted, o.at, o.start = append(o.counted, &c), append(o.at, at), append(o.start, at)
}

// Overfull says which instance has more than it takes in all, unless it had at the start; "" if
// none has.
func (o *MoveOracle) Overfull() string {
	possible, figures := o.figures()
	if !possible {
		return "a port or a device is not free"
	}
	for place, f := range figures {
		if strings.HasPrefix(place, "cell") && f.value > f.limitFor(f.total, o.initial[place]) {
			return fmt.Sprintf("%s is %d of %d", place, f.value, f.total)
		}
	}
	return ""
}

// Scattered says on how many instances the application is, if that is more than it may be on and more
// than at the start; "" otherwise.
func (o *MoveOracle) Scattered() string {
	_, figures := o.figures()
	if f, limited := figures["nodes "+Shop]; limited && f.value > f.limitFor(f.limit, o.initial["nodes "+Shop]) {
		return fmt.Sprintf("the application is on %d instances, at most %d are allowed", f.value, f.limit)
	}
	return ""
}

// BestOfOneMove returns the best score of at most one move, which needs no stop.
func (o *MoveOracle) BestOfOneMove() []int64 {
	copy(o.at, o.start)
	score, _ := o.Score()
	best := o.Order(score)
	for n := range o.counted {
		for i := range o.Instances {
			if !o.movable[n] || !o.takesTasks(i) || i == o.start[n] || o.isClosedTo(o.counted[n], i) {
				continue
			}
			o.at[n] = i
			if score, allowed := o.Score(); allowed[0] && slices.Compare(o.Order(score), best) < 0 {
				best = o.Order(score)
			}
			o.at[n] = o.start[n]
		}
	}
	return best
}

// isMember reports whether the task belongs to the application.
func (o *MoveOracle) isMember(t *cluster.Task) bool { return o.applicationOfOwner(t.Owner) == Shop }

// hasMemberOn reports whether a task of the application that has not moved is on the instance.
func (o *MoveOracle) hasMemberOn(i int) bool {
	for n, t := range o.counted {
		if o.start[n] == i && o.at[n] == i && o.isMember(t) {
			return true
		}
	}
	return false
}

// addsNothing reports whether the n-th task, a newcomer, takes no more of the metric than its
// application has reserved on the instance, together with the other newcomers there.
func (o *MoveOracle) addsNothing(n int) bool {
	t, i := o.counted[n], o.at[n]
	if !o.isMember(t) {
		return t.Reported["a"] == 0
	}
	load, others, tasks := int64(0), int64(0), 0
	for m, u := range o.counted {
		if o.at[m] == i && o.isMember(u) {
			if o.start[m] < 0 {
				load += u.Reported["a"]
			} else {
				others += u.Reported["a"]
			}
			if o.start[m] == i {
				tasks++
			}
		}
	}
	for _, u := range o.Tasks {
		if !u.IsActive() && u.Instance == o.Instances[i].ID && o.isMember(u) {
			others += u.Reported["a"]
			tasks++
		}
	}
	reserved := o.reservedFor(i)
	if tasks == 0 {
		return max(load, reserved) == 0
	}
	return max(load+others, reserved) == max(others, reserved)
}

// reservedFor returns how much of the metric the application has reserved on an instance with its
// tasks: where it has some at the start, no more than the instance takes without the buffer.
func (o *MoveOracle) reservedFor(i int) int64 {
	reservation := o.Config.Applications[Shop].Metrics["a"].Reservation
	limit, limited := o.cellLimits(o.Instances[i])["a"]
	had := slices.ContainsFunc(o.Tasks, func(t *cluster.Task) bool {
		return t.HoldsCapacity() && t.Instance == o.Instances[i].ID && o.isMember(t)
	})
	if limited && had {
		return min(reservation, limit[0])
	}
	return reservation
}

// isClosedTo reports whether the task may not come to the instance, whatever else is there.
func (o *MoveOracle) isClosedTo(t *cluster.Task, i int) bool {
	limit, limited := o.cellLimits(o.Instances[i])["a"]
	return o.avoids(t, i) || limited && o.isMember(t) && o.Config.Priorities.Capacity >= 0 &&
		o.Config.Applications[Shop].Metrics["a"].Reservation > limit[0]
}
