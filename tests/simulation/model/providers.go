package model

// A Share is one capacity provider of a strategy.
type Share struct {
	Provider     string
	Base, Weight int
}

// AssignProviders returns how many of n more tasks each capacity provider gets (S14). Providers
// with a base come first, in order, until each has as many tasks. Then each task goes to the
// provider that is furthest below its weight's share of the tasks beyond the bases; the first in
// order if there are several.
func AssignProviders(shares []Share, have map[string]int, n int) map[string]int {
	count := map[string]int{}
	for name, k := range have {
		count[name] = k
	}
	for range n {
		best := ""
		for _, s := range shares {
			if count[s.Provider] < s.Base {
				best = s.Provider
				break
			}
		}
		if least := 0.0; best == "" {
			for _, s := range shares {
				if s.Weight == 0 {
					continue
				}
				part := float64(max(0, count[s.Provider]-s.Base)+1) / float64(s.Weight)
				if best == "" || part < least {
					best, least = s.Provider, part
				}
			}
		}
		count[best]++
	}
	for name, k := range have {
		count[name] -= k
	}
	return count
}
