package reassign_test

import (
	"slices"
	"strings"
	"testing"

	"berth/cmd/berth/reassign"
	"berth/shared/placement/rebalance"
)

// check compares a result with the checker: the rules hold, the costs are right, and they hold
// after each move of the plan.
func check(t *testing.T, m *model, start []int32, got *reassign.Result) {
	t.Helper()
	if broken := m.broken(start, start); broken != "" {
		t.Fatalf("the start breaks a rule: %s", broken)
	}
	if broken := m.broken(start, got.Assignment); broken != "" {
		t.Errorf("the result breaks a rule: %s", broken)
	}
	if before, after := m.cost(start, start), m.cost(start, got.Assignment); before != got.Before ||
		after != got.After ||
		after > before {
		t.Errorf("the cost is %d, before %d; the result says %d, before %d", after, before, got.After, got.Before)
	}
	moved := 0
	for p := range start {
		if start[p] != got.Assignment[p] {
			moved++
		}
	}
	if moved != got.Moved {
		t.Errorf("%d processes moved, the result says %d", moved, got.Moved)
	}
	at, cost := slices.Clone(start), got.Before
	for n, move := range got.Plan.Moves {
		if at[move.Process] != move.From {
			t.Fatalf("move %d is from machine %d, the process is on %d", n, move.From, at[move.Process])
		}
		at[move.Process] = move.To
		if broken := m.broken(start, at); broken != "" {
			t.Fatalf("after move %d: %s", n, broken)
		}
		if cost -= move.Gain; cost != m.cost(start, at) {
			t.Fatalf("after move %d the cost is %d, the plan says %d", n, m.cost(start, at), cost)
		}
	}
	if cost != got.Plan.After {
		t.Errorf("the plan ends at %d, it says %d", cost, got.Plan.After)
	}
}

// search runs a search of so many steps.
func search(t *testing.T, x *instance, steps int64, seed uint64) *reassign.Result {
	t.Helper()
	got, err := reassign.Search(x.read(t), rebalance.Budget{Steps: steps}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestResultsKeepTheRules(t *testing.T) {
	gain, moves, staged := int64(0), 0, 0
	for seed := range uint64(60) {
		x := drawInstance(seed, 4+int(seed%9), 20+int(seed)*2)
		got := search(t, x, 30_000, seed)
		check(t, parseModel(x.model), x.start, got)
		gain, moves, staged = gain+got.Before-got.After, moves+len(got.Plan.Moves), staged+got.Plan.Staged
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if gain == 0 || moves == 0 || staged == 0 {
		t.Errorf("gain %d, %d moves, %d of them staged: expected some of each", gain, moves, staged)
	}
}

// In a problem so small that every assignment can be tried, the search finds the best one from one
// of three seeds.
func TestSmallProblemsAreSolved(t *testing.T) {
	for seed := range uint64(40) {
		x := drawInstance(seed, 4, 6)
		m := parseModel(x.model)
		best, at := m.cost(x.start, x.start), slices.Clone(x.start)
		for code := range 1 << 12 {
			for p := range at {
				at[p] = int32(code >> (2 * p) & 3)
			}
			if m.broken(x.start, at) == "" {
				best = min(best, m.cost(x.start, at))
			}
		}
		found := min(search(t, x, 30_000, 1).After, search(t, x, 30_000, 2).After, search(t, x, 30_000, 3).After)
		if found != best {
			t.Errorf("seed %d: cost %d, the best is %d", seed, found, best)
		}
	}
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	x := drawInstance(7, 12, 60)
	first, again, other := search(t, x, 2_000, 5), search(t, x, 2_000, 5), search(t, x, 2_000, 6)
	if !slices.Equal(first.Assignment, again.Assignment) || !slices.Equal(first.Plan.Moves, again.Plan.Moves) {
		t.Error("two searches from one seed differ")
	}
	if slices.Equal(first.Assignment, other.Assignment) {
		t.Error("two seeds give the same assignment")
	}
}

// A process of 6 leaves a machine that has 4 more than its safety level. It costs 3 to move it and
// 2 for the way, and its service is the one with the most moves.
func TestCostsOfOneMove(t *testing.T) {
	x := &instance{model: `1 0 10
2 0 0 20 6 0 2 0 0 20 6 2 0
1 0 0
2 0 6 3 0 4 90
0 1 100 7`, start: []int32{0, 0}}
	// Two processes of one service may not share a machine.
	x.model = strings.Replace(x.model, "1 0 0\n2 0 6 3 0 4 90", "2 0 0 0 0\n2 0 6 3 1 4 90", 1)
	got := search(t, x, 5_000, 1)
	if got.Before != 40 || got.After != 40 {
		t.Errorf("cost %d, before %d; a move costs 3 + 100 + 14 and saves 40", got.After, got.Before)
	}
	x.model = strings.Replace(x.model, "0 1 100 7", "0 1 10 7", 1)
	got = search(t, x, 5_000, 1)
	if want := []reassign.Move{{Process: 0, From: 0, To: 1, Gain: 13}}; got.After != 27 ||
		!slices.Equal(got.Plan.Moves, want) {
		t.Errorf("cost %d, moves %v; a move costs 3 + 10 + 14 and saves 40", got.After, got.Plan.Moves)
	}
}

func TestBadFiles(t *testing.T) {
	good := drawInstance(1, 4, 6).model
	for name, c := range map[string]struct{ text, want string }{
		"Empty":      {"", "the file ends before number 1, expected the number of resources"},
		"Cut":        {good[:len(good)/2], "expected"},
		"Longer":     {good + " 5", "expected the end of the file"},
		"NotANumber": {"x" + good, `number 1 is "x`},
		"Negative": {"-1 " + good,
			`number 1 is "-1", expected the number of resources, a whole number from 0 to 100`},
		"NoMachine": {"0 0 0 0 0 0 0 0", "there are 0 instances"},
		"TooLarge":  {"1 0 99999999999", "expected a load cost"},
		"MoreThanAll": {"1 0 2147483647 1 0 0 2147483647 0 0 1 0 0 3 " + strings.Repeat("0 2147483647 0 ",
			3) + "0 0 0 0", "costs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := reassign.ReadModel(strings.NewReader(c.text)); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
	p := drawInstance(1, 4, 6).read(t)
	for _, text := range []string{"", "0 1 2 3 0", "0 1 2 3 0 4", "0 1 2 3 0 1 1"} {
		if err := reassign.ReadAssignment(strings.NewReader(text), p); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
