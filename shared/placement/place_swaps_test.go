package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/tests/oracle"
)

// cells returns a cluster with an instance for each pair of fault and upgrade domain.
func cells(at ...[2]int) *oracle.World {
	w := &oracle.World{}
	for i, c := range at {
		w.Instances = append(w.Instances, oracle.Instance(fmt.Sprintf("i%02d", i),
			oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/f%d", c[0])),
			oracle.Attribute(cluster.AttributeUpgrade, fmt.Sprintf("u%d", c[1]))))
	}
	return w
}

func groupCounts(w *oracle.World, policy cluster.DomainPolicy, n int) placement.Result {
	return placement.New(w.Snapshot(1)).Place(spreadOf(policy, n))
}

func spreadOf(policy cluster.DomainPolicy, n int) placement.Request {
	return placement.Request{Spec: &placement.Spec{Needs: oracle.Small, Owner: "web", DomainPolicy: policy}, Count: n,
		Target: n}
}

func TestPlaceSwapsEarlierTasks(t *testing.T) {
	// By id the first three go to (0,0), (1,1) and, as the only one left for fault domain 2,
	// nowhere.
	w := cells([2]int{0, 0}, [2]int{1, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{0, 1}, [2]int{2, 1})
	r := groupCounts(w, cluster.PolicyDifference, 3)
	oracle.Expect(t, "placed", len(r.Placed), 3)
	oracle.Expect(t, "diagnosis", r.Diagnosis, nil)
	columns := map[string]bool{}
	for _, p := range r.Placed {
		i := w.FindInstance(p.Instance)
		columns[i.FaultDomain()], columns[i.UpgradeDomain()] = true, true
	}
	oracle.Expect(t, "domains used", len(columns), 6)
}

// Under maximum difference, as many tasks as domains find a place, one in each, if there is such a
// matching. Further tasks continue from there.
func TestPlaceFindsTheLargestMatching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.IntRange(2, 4).Draw(t, "side")
		var at [][2]int
		for f := range side {
			for u := range side {
				for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "instances") {
					at = append(at, [2]int{f, u})
				}
			}
		}
		if len(at) < side {
			return
		}
		at = rapid.Permutation(at).Draw(t, "order")
		faults, upgrades := map[int]bool{}, map[int]bool{}
		for _, c := range at {
			faults[c[0]], upgrades[c[1]] = true, true
		}
		if len(faults) != side || len(upgrades) != side || len(at) == side {
			return
		}
		r := groupCounts(cells(at...), cluster.PolicyDifference, side)
		if best := matching(at, side); len(r.Placed) != best {
			t.Fatalf("placed %d on %v, %d are possible", len(r.Placed), at, best)
		}
		other := placement.New(cells(at...).Snapshot(2)).Place(spreadOf(cluster.PolicyDifference, side))
		if oracle.Where(other.Placed) != oracle.Where(r.Placed) {
			t.Fatalf("placed on %q, on %q with the rows in another order", oracle.Where(r.Placed),
				oracle.Where(other.Placed))
		}
		seen := map[string]bool{}
		for _, p := range r.Placed {
			if seen[p.Instance] {
				t.Fatalf("two on %s", p.Instance)
			}
			seen[p.Instance] = true
		}
	})
}

// matching returns the largest number of cells that share no row and no column, trying one row
// after the other.
func matching(at [][2]int, side int) int {
	var best func(row int, used string) int
	best = func(row int, used string) int {
		if row == side {
			return 0
		}
		most := best(row+1, used)
		for _, c := range at {
			if column := fmt.Sprint(c[1]); c[0] == row && !strings.Contains(used, column) {
				most = max(most, 1+best(row+1, used+column))
			}
		}
		return most
	}
	return best(0, "")
}
