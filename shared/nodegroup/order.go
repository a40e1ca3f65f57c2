package nodegroup

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// ReplacementOrder returns the old nodes that are still in service, in the order in which the
// update will replace them: random, one upgrade domain after the other. Before the update has
// begun, the order holds as long as no node comes or goes.
func ReplacementOrder(u *cluster.Update, instances []Instance) []string {
	v := newView(u, Group{}, instances, time.Time{})
	byDomain := u.ByDomain
	for _, n := range v.nodes {
		byDomain = byDomain || u.OriginalSizes == nil && n.hasUpgradeDomain()
	}
	old := inRandomOrder(v.old, u.Seed)
	if byDomain {
		slices.SortStableFunc(old,
			func(a, b *node) int { return compareNumbered(a.UpgradeDomain(), b.UpgradeDomain()) })
	}
	return nodeIDs(old)
}

// inRandomOrder returns the nodes in an order that only the seed and their ids decide.
func inRandomOrder(nodes []*node, seed uint64) []*node {
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b *node) int {
		return cmp.Or(cmp.Compare(randomRank(seed, a.ID), randomRank(seed, b.ID)), cmp.Compare(a.ID, b.ID))
	})
}

// randomRank hashes the seed and the id of a node to a number (the finalizer of SplitMix64).
func randomRank(seed uint64, id string) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(id))
	h := seed + 0x9e3779b97f4a7c15 ^ sum.Sum64()
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// compareNumbered compares names that contain numbers as people do: ud2 comes before ud10.
func compareNumbered(a, b string) int {
	const digits = "0123456789"
	for { // ends where one has no further number
		i, j := strings.IndexAny(a, digits), strings.IndexAny(b, digits)
		if i < 0 || j < 0 || a[:i] != b[:j] {
			break
		}
		a, b = a[i:], b[j:]
		m, n := len(a)-len(strings.TrimLeft(a, digits)), len(b)-len(strings.TrimLeft(b, digits))
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if x != y {
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(a, b)
}
