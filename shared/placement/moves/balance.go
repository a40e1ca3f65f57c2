package moves

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/rebalance"
	"berth/shared/snapshot"
)

// A BalanceRequest asks for moves that balance the cluster (P15).
type BalanceRequest struct {
	Request
	// Goals is what to improve; nil for the goals of the cluster's configuration.
	Goals *Goals
	// Budget bounds the search. With a limit of steps alone, the same snapshot and seed always give
	// the same plan.
	Budget rebalance.Budget
	Seed   uint64
	// Continues says that balancing has begun moves of late ([BalancingContinues]). Its next plan may
	// gain less than a first one.
	Continues bool
}

// BalancingContinues reports whether balancing has begun a move within the window of its limits.
func BalancingContinues(snap *snapshot.Snapshot, now time.Time) bool {
	window := snap.Configuration.RebalancingOrDefault().WindowTime()
	for t := range snap.Tasks() {
		if t.Balances && cluster.RemainingWait(t.CreatedAt.Time().Add(window), now, window) > 0 {
			return true
		}
	}
	return false
}

// Goals say what makes one assignment of tasks better than another. Each weight multiplies a number
// between 0, for as good as can be, and about 1.
type Goals struct {
	// Metrics are to be even over the instances that can use them, or gathered on few of them.
	Metrics []MetricGoal
	// Zones, Domains and Instances weigh how a service's tasks are spread over these, if the
	// service wants that.
	Zones, Domains, Instances float64
	// EmptyCount is how many instances should have no load of the gathered metrics, or EmptyShare which
	// share of those that can use them, over many fault and upgrade domains if EmptyOverDomains is set. If
	// both are 0, load is gathered while the loads of a domain are within the metric's threshold.
	EmptyCount       int
	EmptyShare       float64
	EmptyOverDomains bool
	Empty            float64 // the weight of empty instances
}

// A MetricGoal is what is wanted of a metric, or of CPU or MEMORY.
type MetricGoal struct {
	Name   string
	Weight float64
	Safety float64 // share of the capacity above which load is to move away; 0 for none
	Gather bool    // its load is gathered, not evened out
}

// The weights of goals beside metrics.
const (
	zonesWeight     = 4
	domainsWeight   = 2
	instancesWeight = 1
	emptyWeight     = 2
	safetyWeight    = 4
)

// GoalsOf returns the goals that the configuration and the services of the planner's snapshot have.
func (p *Planner) GoalsOf() *Goals {
	out := &Goals{Zones: zonesWeight, Domains: domainsWeight, Instances: instancesWeight, Empty: emptyWeight}
	r := p.snap.Configuration.RebalancingOrDefault()
	gathered := map[string]bool{}
	for _, name := range r.EmptyMetrics {
		gathered[name] = true
	}
	for name, weight := range placement.MetricWeights(p.snap) {
		goal := MetricGoal{Name: name, Weight: weight, Safety: r.SafetyLevels[name], Gather: gathered[name]}
		if t, set := p.snap.Configuration.Balancing[name]; set && t <= 0 && !goal.Gather {
			goal.Weight = 0 // switched off
		}
		out.Metrics = append(out.Metrics, goal)
	}
	for _, name := range []string{"CPU", "MEMORY"} { // without a weight they are no metrics
		safety, limited := r.SafetyLevels[name]
		if _, weighted := r.Weights[name]; !weighted && (limited || gathered[name]) {
			out.Metrics = append(out.Metrics, MetricGoal{Name: name, Safety: safety, Gather: gathered[name]})
		}
	}
	out.EmptyCount, out.EmptyShare, out.EmptyOverDomains = r.EmptyInstances, r.EmptyShare, r.EmptyOverDomains
	return out
}

// A BalancePlan is a list of moves, each of which begins when those before it are over. All rules
// hold after each of them, and there is room for each beside everything that is there: the
// replacement runs before the task stops.
type BalancePlan struct {
	Moves         []BalanceMove
	Before, After Balance
	Cost          int // of all moves
	Steps         int64
}

// A BalanceMove is one move with what all moves up to it gain.
type BalanceMove struct {
	Move
	Gain float64 // by how much the distance falls
}

// A Balance says how far a cluster is from its goals.
type Balance struct {
	Distance float64 // the weighted sum of everything below
	Metrics  []MetricBalance
	// Of the tasks of all services, these shares are too many in their zone, fault domain or
	// instance.
	Zones, Domains, Instances float64
	Empty, EmptyWanted        int // instances without load of the gathered metrics
}

// A MetricBalance says how even the load of a metric is over the instances that can use it.
type MetricBalance struct {
	Name      string
	Min, Max  int64
	Mean      float64
	Deviation float64 // the standard deviation in multiples of the mean
	Balanced  bool    // within its thresholds
	Unsafe    float64 // the share of the load above the safety level
}

// The least gains that are worth a plan. Without them, moves would follow each fluctuation of loads. What
// begins has to gain more than what continues: a cluster that balancing leaves alone may get a little worse
// before tasks move again, and then they move until nothing more pays.
const (
	startGain      = 0.04 // of the distance
	leastGain      = 0.01 // if balancing continues
	leastGainShare = 0.05 // of what moves can improve
)

// Balance returns moves that bring the cluster nearer to its goals. The plan ends where further
// moves do not pay, and is empty if nothing is out of balance or the gain is small. What PlanMoves
// would repair should be repaired first.
func (p *Planner) Balance(r BalanceRequest) (*BalancePlan, error) {
	b := newBalancing(p, r)
	out := &BalancePlan{Before: b.tally.balance()}
	out.After = out.Before
	if !b.isWanted(&out.Before) {
		return out, nil
	}
	r.Budget.Descend = true
	search := b.newSearchProblem()
	b.guard = newAssignment(b.problem)
	found, err := rebalance.Search(search, r.Budget, r.Seed)
	if err != nil {
		return nil, err
	}
	out.Steps = found.Steps
	ordered, err := rebalance.PlanMovesBy(search, found.Instances, b)
	if err != nil {
		return nil, err
	}
	b.addMoves(out, ordered.Moves, &r)
	return out, nil
}

// MeasureBalance returns how far the cluster is from its goals, without a search for moves. The
// result is that of [Planner.Balance] before its moves.
func (p *Planner) MeasureBalance(r BalanceRequest) Balance {
	return newBalancing(p, r).tally.balance()
}

// unimprovable returns the part of the distance of metrics of which no instance has load of two tasks:
// no moves even them out.
func (b *balancing) unimprovable() (sum float64) {
	type place struct{ metric, instance int32 }
	tasks := map[place]int{}
	crowded := make([]bool, len(b.metrics))
	for t := range b.problem.tasks {
		for _, a := range b.problem.tasks[t].amounts {
			n := slices.IndexFunc(b.metrics, func(g metricGoal) bool { return g.dim == a.dim })
			at := place{int32(n), b.problem.tasks[t].initial}
			if n < 0 || a.amount == 0 || crowded[n] || b.metrics[n].apart[at.instance] {
				continue
			}
			tasks[at]++
			crowded[n] = tasks[at] > 1
		}
	}
	for n := range b.metrics {
		if !crowded[n] && !b.metrics[n].packs {
			sum += b.tally.metricPart(n)
		}
	}
	return sum
}

// addMoves adds the moves up to where the distance is least, if that is worth it.
func (b *balancing) addMoves(out *BalancePlan, ordered []rebalance.Move, r *BalanceRequest) {
	before := out.Before.Distance
	improvable := before - b.unimprovable()
	least, end := before, 0
	var all []BalanceMove
	for n, m := range ordered {
		why := b.tally.explain(m.Task, m.From, m.To)
		if m.Together {
			why = explainReunion(b.guard, m.Task)
		}
		b.tally.move(m.Task, m.From, m.To)
		task := &b.problem.tasks[m.Task]
		distance := b.tally.distance()
		all = append(all, BalanceMove{Gain: before - distance, Move: Move{
			Task: task.id, Owner: b.problem.owners[task.owner].name, From: b.problem.instances[m.From].id,
			To: b.problem.instances[m.To].id, Cost: task.cost, Mode: StartFirst, Why: why,
		}})
		if last := n+1 == len(ordered) || !ordered[n+1].Together; distance < least && last {
			least, end = distance, n+1
		}
	}
	pays := startGain
	if r.Continues {
		pays = leastGain
	}
	if gain := before - least; gain < max(pays, leastGainShare*improvable) {
		end = 0
	}
	if r.Most > 0 {
		end = min(end, r.Most)
	}
	for end > 0 && end < len(ordered) && ordered[end].Together { // neither without the other
		end--
	}
	for n := len(ordered) - 1; n >= end; n-- {
		b.tally.move(ordered[n].Task, ordered[n].To, ordered[n].From)
	}
	out.Moves, out.After = all[:end], b.tally.balance()
	for _, m := range out.Moves {
		out.Cost += m.Cost
	}
}
