package moves_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// figures are sums over the plans of many clusters that are drawn in the same way each time. Less
// of each is better. The limits below are what was measured: a change that exceeds one makes plans
// worse or searches longer, and a change that improves one lowers the limit.
type figures struct {
	Unrepaired int // violations
	Unplaced   int // newcomers
	Excess     int64
	Cost       int
	Moves      int
	Awkward    int // moves into the buffer, by way of another instance, or after a stop
	Steps      int
}

func (f *figures) add(p *moves.Plan, newcomers int) {
	f.Unrepaired += len(p.Unrepaired)
	f.Unplaced += newcomers - len(p.Places)
	for _, v := range p.Unrepaired {
		f.Excess += v.Have - v.Limit
	}
	f.Cost += p.Cost
	f.Moves += len(p.Moves)
	for _, m := range p.Moves {
		if m.Mode != moves.StartFirst {
			f.Awkward++
		}
	}
	f.Steps += p.Steps
}

// expectAtMost fails for each figure that is above its limit.
func (f *figures) expectAtMost(t *testing.T, limit figures) {
	t.Helper()
	for _, c := range []struct {
		name       string
		got, limit int64
	}{
		{"violations left", int64(f.Unrepaired), int64(limit.Unrepaired)},
		{"newcomers without an instance", int64(f.Unplaced), int64(limit.Unplaced)},
		{"excess left", f.Excess, limit.Excess},
		{"cost", int64(f.Cost), int64(limit.Cost)},
		{"moves", int64(f.Moves), int64(limit.Moves)},
		{"moves that cannot simply start", int64(f.Awkward), int64(limit.Awkward)},
		{"steps", int64(f.Steps), int64(limit.Steps)},
	} {
		if c.got > c.limit {
			t.Errorf("%s: %d, at most %d before", c.name, c.got, c.limit)
		}
	}
	t.Logf("%+v", *f)
}

// drawnWorlds calls f with the same small clusters each time.
func drawnWorlds(n int, newcomers bool, f func(w *oracle.MoveWorld)) {
	worlds := rapid.Custom(func(t *rapid.T) *oracle.MoveWorld {
		w := oracle.GenMoveWorld(t, 6, 9)
		if newcomers {
			w.Newcomers = rapid.IntRange(1, 3).Draw(t, "newcomers")
		}
		return w
	})
	for seed := range n {
		f(worlds.Example(seed))
	}
}

// Searches of small clusters find as good plans with as few steps as before.
func TestPlansOfSmallClustersGetNoWorse(t *testing.T) {
	var exact, local, scoped figures
	drawnWorlds(600, false, func(w *oracle.MoveWorld) {
		m := moves.Request{Owners: w.Owners}
		exact.add(moves.NewPlanner(placement.New(w.Snapshot(1))).PlanMoves(m), 0)
		local.add(moves.PlanMovesLocally(moves.NewPlanner(placement.New(w.Snapshot(1))), m), 0)
		scoped.add(moves.NewPlanner(placement.New(w.Snapshot(1))).Scoped().PlanMoves(m), 0)
	})
	exact.expectAtMost(t, figures{Unrepaired: 818, Excess: 13829066, Cost: 3511, Moves: 235, Awkward: 48, Steps: 98410})
	local.expectAtMost(t, figures{Unrepaired: 837, Excess: 13829231, Cost: 3296, Moves: 217, Awkward: 42, Steps: 25952})
	scoped.expectAtMost(t, figures{Unrepaired: 818, Excess: 13829066, Cost: 3511, Moves: 235, Awkward: 48,
		Steps: 98404})
}

// Searches that make room in small clusters find as much with as few steps as before.
func TestRoomInSmallClustersGetsNoLess(t *testing.T) {
	var exact, local figures
	drawnWorlds(600, true, func(w *oracle.MoveWorld) {
		first, m := w.Owners["o0"], moves.Request{Owners: w.Owners}
		r := placement.Request{Spec: first.Spec, Target: first.Target, Count: w.Newcomers}
		exact.add(moves.NewPlanner(placement.New(w.Snapshot(1))).MakeRoom(r, m), w.Newcomers)
		local.add(moves.MakeRoomLocally(moves.NewPlanner(placement.New(w.Snapshot(1))), r, m), w.Newcomers)
	})
	exact.expectAtMost(t, figures{Unrepaired: 857, Unplaced: 757, Excess: 484, Cost: 226, Moves: 16, Awkward: 1,
		Steps: 198398})
	local.expectAtMost(t, figures{Unrepaired: 860, Unplaced: 757, Excess: 492, Cost: 241, Moves: 17, Steps: 26055})
}

// A crowd is a cluster whose instances are nearly full. Some of them are too full, and some tasks
// are where they should not be.
type crowd struct {
	rows   []state.Row
	owners map[string]moves.Owner
	random *rand.Rand
}

// newCrowd draws a crowd with at least so many tasks on each instance.
func newCrowd(seed uint64, instances, least int) *crowd {
	c := &crowd{owners: map[string]moves.Owner{}, random: rand.New(rand.NewPCG(seed, 0))}
	config := cluster.Configuration{}
	if seed%2 == 1 {
		config.Buffer = map[string]float64{"m": 0.1}
	}
	if seed%5 == 1 {
		config.Priorities = cluster.Priorities{Capacity: 1, FaultDomain: 2}
	}
	c.rows = append(c.rows, oracle.Configuration(config))
	for o := range 6 {
		c.addOwner(fmt.Sprintf("o%d", o), instances)
	}
	c.owners["rest"] = moves.Owner{Spec: &placement.Spec{Owner: "rest"}, Target: 1}
	for i := range instances {
		c.addInstance(i, least)
	}
	return c
}

func (c *crowd) addOwner(name string, instances int) {
	s := &placement.Spec{Owner: name, MoveCost: oracle.MoveCosts[c.random.IntN(len(oracle.MoveCosts))]}
	switch c.random.IntN(6) {
	case 0:
		s.DomainPolicy = cluster.PolicyDifference
	case 1:
		s.DomainPolicy = cluster.DomainPolicies[c.random.IntN(len(cluster.DomainPolicies))]
	case 2:
		s.PerInstance = 2
	case 3:
		s.Ports = []cluster.Port{oracle.HTTP}
	case 4:
		s.Needs = cluster.Resources{GPUs: 1, GPUMilli: int32(250 + 250*c.random.IntN(4))}
	}
	if c.random.IntN(3) == 0 {
		s.Attributes = []string{"disk=ssd"}
	}
	c.owners[name] = moves.Owner{Spec: s, Target: instances / 2, StartFirst: c.random.IntN(5) == 0}
}

// addInstance adds an instance with a few tasks. Each has its port and its share of a device
// for itself.
func (c *crowd) addInstance(i, least int) {
	below := c.random.IntN
	options := []oracle.Option{oracle.CPU(4096), oracle.GPUs(1), oracle.Metric("m", int64(15*least+15+below(60))),
		oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/%d/%d", i%3, i%5)),
		oracle.Attribute(cluster.AttributeUpgrade, fmt.Sprint(i%4))}
	if below(3) > 0 {
		options = append(options, oracle.Attribute("disk", "ssd"))
	}
	if below(12) == 0 {
		options = append(options, oracle.Attribute(cluster.AttributeUnschedulable, "true"))
	}
	id, free, governed, port := fmt.Sprintf("i%03d", i), cluster.WholeGPU, false, false
	c.rows = append(c.rows, oracle.Instance(id, options...))
	for n := range least + below(4) {
		s := c.owners[fmt.Sprintf("o%d", below(6))].Spec
		per := s.Needs.GPUs * s.Needs.PerGPU()
		if governed && s.IsGoverned() || port && len(s.Ports) > 0 || per > free {
			s = c.owners["rest"].Spec
			per = 0
		}
		governed, port, free = governed || s.IsGoverned(), port || len(s.Ports) > 0, free-per
		t := oracle.Task(fmt.Sprintf("%s-%d", id, n), id, oracle.Owner(s.Owner), oracle.Load(int64(1+below(28))),
			oracle.Needs(s.Needs), oracle.Ports(s.Ports...))
		if per > 0 {
			t.GPUs = []int{0}
		}
		c.rows = append(c.rows, t)
	}
}

// newcomers returns a request for tasks like those of an owner, with a load that few instances have
// room for.
func (c *crowd) newcomers(n int) placement.Request {
	names := slices.Sorted(maps.Keys(c.owners))
	spec := *c.owners[names[c.random.IntN(len(names))]].Spec
	spec.Loads = []cluster.Metric{{Name: "m", Load: int64(15 + c.random.IntN(50))}}
	if c.random.IntN(2) == 0 {
		spec.Owner += "-new"
	}
	return placement.Request{Spec: &spec, Target: n + c.random.IntN(4), Count: n}
}

func (c *crowd) planner() *moves.Planner {
	return moves.NewPlanner(placement.New(oracle.SnapshotOf(c.rows...)))
}

// Searches of small crowds find as good plans with as few steps as before.
func TestPlansOfSmallCrowdsGetNoWorse(t *testing.T) {
	var exact, local, room, near figures
	for seed := range uint64(90) {
		c := newCrowd(seed, 3+int(seed)%3, 1)
		m, r := moves.Request{Owners: c.owners}, c.newcomers(1+int(seed)%2)
		exact.add(c.planner().PlanMoves(m), 0)
		local.add(moves.PlanMovesLocally(c.planner(), m), 0)
		room.add(c.planner().MakeRoom(r, m), r.Count)
		near.add(moves.MakeRoomLocally(c.planner(), r, m), r.Count)
	}
	exact.expectAtMost(t, figures{Unrepaired: 32, Excess: 75, Cost: 2199, Moves: 221, Awkward: 19, Steps: 441282})
	local.expectAtMost(t, figures{Unrepaired: 43, Excess: 154, Cost: 2427, Moves: 236, Awkward: 22, Steps: 3730})
	room.expectAtMost(t, figures{Unrepaired: 64, Unplaced: 34, Excess: 376, Cost: 692, Moves: 80, Awkward: 14,
		Steps: 1753893})
	near.expectAtMost(t, figures{Unrepaired: 65, Unplaced: 35, Excess: 361, Cost: 532, Moves: 71, Awkward: 12,
		Steps: 16777})
}

// Searches near single violations of larger crowds find as good plans with as few steps as before.
func TestPlansOfLargeCrowdsGetNoWorse(t *testing.T) {
	var local, scoped, room figures
	for seed := range uint64(24) {
		c := newCrowd(seed, 16+int(seed)*2, 3)
		m, r := moves.Request{Owners: c.owners}, c.newcomers(4)
		local.add(c.planner().PlanMoves(m), 0)
		if seed%8 == 0 {
			large := newCrowd(seed, 150, 1)
			scoped.add(large.planner().Scoped().PlanMoves(moves.Request{Owners: large.owners}), 0)
		}
		room.add(c.planner().MakeRoom(r, m), r.Count)
	}
	local.expectAtMost(t, figures{Unrepaired: 36, Excess: 108, Cost: 10728, Moves: 950, Awkward: 9, Steps: 145301})
	scoped.expectAtMost(t, figures{Cost: 3579, Moves: 258, Steps: 4327})
	room.expectAtMost(t, figures{Unrepaired: 15, Unplaced: 8, Excess: 15, Cost: 204, Moves: 38, Steps: 2411})
}
