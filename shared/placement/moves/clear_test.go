package moves_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// bins are instances with the loads of the tasks on each.
type bins struct {
	capacity int64
	loads    [][]int64
}

func (b *bins) rows() []state.Row {
	var rows []state.Row
	for i, loads := range b.loads {
		id := fmt.Sprintf("i-%03d", i)
		rows = append(rows, oracle.Instance(id, oracle.Metric("m", b.capacity)))
		for n, l := range loads {
			rows = append(rows, oracle.Task(fmt.Sprintf("t-%03d-%02d", i, n), id, oracle.Load(l)))
		}
	}
	return rows
}

func (b *bins) planRoom(load int64, most int) *moves.Plan {
	r := placement.Request{Spec: &placement.Spec{Owner: "big", Loads: []cluster.Metric{{Name: "m", Load: load}}},
		Count: 1}
	m := movers(anyTask("web"))
	m.Most = most
	return moves.NewPlanner(placement.New(oracle.SnapshotOf(b.rows()...))).MakeRoom(r, m)
}

// firstFit returns the least number of moves that clear one instance for the load, sending its
// tasks, the largest first, to the first instance with room. It returns 0 if that clears none.
func (b *bins) firstFit(load int64) (least int) {
	for i := range b.loads {
		used := make([]int64, len(b.loads))
		for j, loads := range b.loads {
			for _, l := range loads {
				used[j] += l
			}
		}
		tasks, moves := slices.Clone(b.loads[i]), 0
		slices.SortFunc(tasks, func(a, b int64) int { return int(b - a) })
		for _, l := range tasks {
			if used[i]+load <= b.capacity {
				break
			}
			to := slices.IndexFunc(used, func(u int64) bool { return u+l <= b.capacity })
			if to == i {
				to = -1
			}
			if to >= 0 {
				used[i], used[to] = used[i]-l, used[to]+l
				moves++
			}
		}
		if used[i]+load <= b.capacity && moves > 0 && (least == 0 || moves < least) {
			least = moves
		}
	}
	return least
}

// More small tasks have to leave an instance than a search can try together.
func TestMakeRoomOfManySmallTasks(t *testing.T) {
	for _, instances := range []int{3, 20, 100, 1000} {
		for load, moves := range map[int64]int{60: 2, 70: 3, 80: 4, 90: 5, 100: 6} {
			b := &bins{capacity: 100}
			for range instances {
				b.loads = append(b.loads, []int64{10, 10, 10, 10, 10, 10})
			}
			if p := b.planRoom(load, 20); len(p.Places) != 1 || len(p.Moves) != moves {
				t.Errorf("%d instances, a task of %d: %d moves, wanted %d; %v", instances, load, len(p.Moves), moves,
					p.Unrepaired)
			}
			if p := b.planRoom(load, moves-1); len(p.Moves)+len(p.Places) > 0 {
				t.Errorf("%d instances, a task of %d: %d moves where %d are allowed", instances, load, len(p.Moves),
					moves-1)
			}
		}
	}
}

// If sending tasks away one after the other makes room, there is a plan.
func TestMakeRoomWhereFirstFitDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bins{capacity: 100}
		for range rapid.IntRange(16, 40).Draw(t, "instances") {
			b.loads = append(b.loads, rapid.SliceOfN(rapid.Int64Range(3, 20), 3, 9).Draw(t, "loads"))
		}
		for i, loads := range b.loads { // none over its capacity
			sum := int64(0)
			for n, l := range loads {
				if sum += l; sum > 95 {
					b.loads[i] = loads[:n]
					break
				}
			}
		}
		load := rapid.Int64Range(40, 100).Draw(t, "load")
		least := b.firstFit(load)
		if least == 0 || least > 20 {
			return
		}
		p := b.planRoom(load, 20)
		if len(p.Places) != 1 || len(p.Moves) > 20 {
			t.Fatalf("first fit clears an instance for %d with %d moves, the plan is %+v", load, least, p)
		}
		b.expectCarriedOut(t, p, load)
	})
}

// expectCarriedOut checks that after the moves, with the new task, no instance is above its
// capacity.
func (b *bins) expectCarriedOut(t *rapid.T, p *moves.Plan, load int64) {
	at := map[string]string{}
	sizes := map[string]int64{}
	for i, loads := range b.loads {
		for n, l := range loads {
			id := fmt.Sprintf("t-%03d-%02d", i, n)
			at[id], sizes[id] = fmt.Sprintf("i-%03d", i), l
		}
	}
	for _, m := range p.Moves {
		if at[m.Task] != m.From {
			t.Fatalf("%s is not on %s", m.Task, m.From)
		}
		at[m.Task] = m.To
	}
	used := map[string]int64{p.Places[0]: load}
	for id, i := range at {
		if used[i] += sizes[id]; used[i] > b.capacity {
			t.Fatalf("%s has %d of %d: %+v", i, used[i], b.capacity, p)
		}
	}
}

// A local search makes room by the rules of an exhaustive one, and seldom for fewer tasks.
func TestLocalSearchMakesRoom(t *testing.T) {
	worlds, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenMoveWorld(t, 5, 6)
		w.Newcomers = rapid.IntRange(1, 2).Draw(t, "newcomers")
		s := w.Snapshot(rapid.Uint64().Draw(t, "order of rows"))
		first := w.Owners["o0"]
		r := placement.Request{Spec: first.Spec, Target: first.Target, Count: w.Newcomers}
		planned := moves.Request{Owners: w.Owners}
		best := moves.NewPlanner(placement.New(s)).MakeRoom(r, planned)
		near := moves.MakeRoomLocally(moves.NewPlanner(placement.New(s)), r, planned)
		if len(near.Places) > len(best.Places) {
			t.Fatalf("%d of %d tasks: %+v\n%s", len(near.Places), len(best.Places), near, w.Describe())
		}
		if len(near.Places) > 0 {
			worlds++
			o := oracle.NewMoveOracle(w)
			o.CarryOut(t, near)
			if _, allowed := o.Score(); !allowed[3] {
				t.Fatalf("a rule that binds is broken further: %+v\n%s", near, w.Describe())
			}
		}
		if len(near.Places) < len(best.Places) {
			missed++
		}
	})
	if missed*5 > worlds {
		t.Fatalf("missed in %d of %d worlds", missed, worlds)
	}
	t.Logf("missed in %d of %d worlds", missed, worlds)
}
