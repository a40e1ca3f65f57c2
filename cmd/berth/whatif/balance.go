package whatif

import (
	"io"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
	"berth/shared/snapshot"
)

// BalanceAnswer is how far a cluster is from being balanced, and the moves that bring it nearer,
// one after the other.
type BalanceAnswer struct {
	Before BalanceState  `json:"before"`
	After  BalanceState  `json:"after"`
	Moves  []BalanceMove `json:"moves"`
	// Unsteady are the services whose tasks stay until the service is steady.
	Unsteady []string `json:"unsteadyServices,omitempty"`
	Cost     int      `json:"cost"`  // of all moves
	Steps    int64    `json:"steps"` // of the search
}

// BalanceState says how far a cluster is from being balanced. Distance is the weighted sum of the
// metrics' deviations and of the shares of tasks that are too many in a zone, a fault domain or an
// instance.
type BalanceState struct {
	Distance        float64       `json:"distance"`
	Metrics         []MetricState `json:"metrics"`
	ZoneSurplus     float64       `json:"zoneSurplus"`
	DomainSurplus   float64       `json:"faultDomainSurplus"`
	InstanceSurplus float64       `json:"instanceSurplus"`
	Empty           int           `json:"emptyInstances"`
	EmptyWanted     int           `json:"emptyInstancesWanted"`
}

// MetricState is the load of a metric on the instances that can use it. Deviation is in multiples
// of the mean.
type MetricState struct {
	Name      string  `json:"name"`
	Min       int64   `json:"emptiest"`
	Max       int64   `json:"fullest"`
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Balanced  bool    `json:"balanced"`
	Unsafe    float64 `json:"aboveSafetyLevel"`
}

// BalanceMove is one task that would move. Gain is by how much all moves up to it bring the cluster
// nearer.
type BalanceMove struct {
	Task    string  `json:"task"`
	Service string  `json:"service"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Cost    int     `json:"cost"`
	Gain    float64 `json:"gain"`
	Why     string  `json:"why"`
}

// A BalanceSearch says how to search for moves.
type BalanceSearch struct {
	Budget rebalance.Budget
	Seed   uint64
	Most   int       // moves; 0 is no limit
	Now    time.Time // for scale-in protection, and what balancing has begun of late
}

// PlanBalance returns the moves that would balance the cluster. Tasks of all services may move,
// except of those for which balancing is switched off, and protected ones.
func PlanBalance(snap *snapshot.Snapshot, b BalanceSearch) (*BalanceAnswer, error) {
	m := newModel(snap)
	request := b.request(snap)
	plan, err := m.planner.Balance(request)
	if err != nil {
		return nil, err
	}
	out := &BalanceAnswer{Before: stateOf(&plan.Before), After: stateOf(&plan.After), Moves: []BalanceMove{},
		Cost: plan.Cost, Steps: plan.Steps, Unsteady: specs.UnsteadyServices(snap, request.Owners)}
	names := m.serviceNames()
	for _, x := range plan.Moves {
		out.Moves = append(out.Moves, BalanceMove{x.Task, names[x.Owner], x.From, x.To, x.Cost, x.Gain, x.Why})
	}
	return out, nil
}

// MeasureBalance returns how far the cluster is from being balanced: what PlanBalance says of it
// before the moves, without the time that their search takes.
func MeasureBalance(snap *snapshot.Snapshot, now time.Time) BalanceState {
	measured := newModel(snap).planner.MeasureBalance(BalanceSearch{Now: now}.request(snap))
	return stateOf(&measured)
}

// request returns what the search asks the planner for.
func (b BalanceSearch) request(snap *snapshot.Snapshot) moves.BalanceRequest {
	return moves.BalanceRequest{
		Request: moves.Request{
			Owners: specs.Balancers(snap, specs.NewCache(snap), true), Most: b.Most,
			Keep: func(t *cluster.Task) bool {
				return snap.Protection(t.Owner, t.ID).IsActive(b.Now)
			},
		},
		Budget: b.Budget, Seed: b.Seed, Continues: moves.BalancingContinues(snap, b.Now),
	}
}

// stateOf converts a balance.
func stateOf(b *moves.Balance) BalanceState {
	out := BalanceState{Distance: b.Distance, ZoneSurplus: b.Zones, DomainSurplus: b.Domains,
		InstanceSurplus: b.Instances, Empty: b.Empty, EmptyWanted: b.EmptyWanted, Metrics: []MetricState{}}
	for _, m := range b.Metrics {
		out.Metrics = append(out.Metrics, MetricState(m))
	}
	return out
}

// Print writes the answer for people: before, the moves, after.
func (a *BalanceAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	p.printBalance("Before", &a.Before)
	for n, m := range a.Moves {
		p.printLine("%4d. %s: task %s from %s to %s (%s); gain so far %.4f", n+1, m.Service, m.Task, m.From, m.To,
			m.Why,
			m.Gain)
	}
	p.printUnsteady(a.Unsteady)
	if len(a.Moves) == 0 {
		p.printLine("No moves are worth it.")
		return p.err
	}
	p.printBalance("After", &a.After)
	byService := map[string]int{}
	for _, m := range a.Moves {
		byService[m.Service]++
	}
	for _, name := range slices.Sorted(maps.Keys(byService)) {
		p.printLine("Service %s: %s.", name, CountNoun(byService[name], "move"))
	}
	p.printLine("%s, cost %d.", CountNoun(len(a.Moves), "move"), a.Cost)
	return p.err
}

// PrintUnsteady writes for people which services' tasks stay, and why.
func (a *BalanceAnswer) PrintUnsteady(w io.Writer) error {
	p := &printer{w: w}
	p.printUnsteady(a.Unsteady)
	return p.err
}

// printUnsteady writes that the tasks of these services stay.
func (p *printer) printUnsteady(services []string) {
	for _, name := range services {
		p.printLine("Service %s is not steady: until it is, its tasks stay where they are.", name)
	}
}

// printBalance writes how far the cluster is from being balanced.
func (p *printer) printBalance(when string, s *BalanceState) {
	p.printLine("%s: distance %.4f; of all tasks, %.1f %% are too many in their zone, %.1f %% in their fault domain, "+
		"%.1f %% on their instance.", when, s.Distance, 100*s.ZoneSurplus, 100*s.DomainSurplus, 100*s.InstanceSurplus)
	for _, m := range s.Metrics {
		verdict := "not in balance"
		if m.Balanced {
			verdict = "in balance"
		}
		p.printLine("  %s: %d to %d per instance, mean %.1f, standard deviation %.1f %% of that; %s.", m.Name, m.Min,
			m.Max, m.Mean, 100*m.Deviation, verdict)
	}
	if s.EmptyWanted > 0 {
		p.printLine("  %d of %d instances to empty are empty.", s.Empty, s.EmptyWanted)
	}
}

// MovingCount returns how many tasks have been started in place of others that have not ended yet.
func MovingCount(snap *snapshot.Snapshot) (n int) {
	for t := range snap.Tasks() {
		if t.Replaces == "" || !t.IsActive() {
			continue
		}
		if old := snap.Task(t.Owner, t.Replaces); old != nil && !old.HasEnded() {
			n++
		}
	}
	return n
}
