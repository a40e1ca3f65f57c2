package simulation

import (
	"berth/tests/simulation/coverage"
)

// Coverage counts what happened in any number of runs.
type Coverage struct {
	Points map[coverage.Point]int
	Hits   [faultCount]int
}

// Add adds the counts of one run.
func (c *Coverage) Add(o Coverage) {
	if c.Points == nil {
		c.Points = map[coverage.Point]int{}
	}
	for p, n := range o.Points {
		c.Points[p] += n
	}
	for f, n := range o.Hits {
		c.Hits[f] += n
	}
}

// Missing returns those of the faults and points that never happened.
func (c *Coverage) Missing(faults []Fault, points []coverage.Point) []string {
	var out []string
	for _, f := range faults {
		if c.Hits[f] == 0 {
			out = append(out, f.String())
		}
	}
	for _, p := range points {
		if c.Points[p] == 0 {
			out = append(out, string(p))
		}
	}
	return out
}
