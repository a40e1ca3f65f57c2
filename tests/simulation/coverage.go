package simulation

import (
	"berth/tests/simulation/coverage"
)

// Coverage counts what happened over any number of runs.
type Coverage struct {
	Points map[coverage.Point]int
	Hits   [faultCount]int
}

// Add takes in one run's.
func (c *Coverage) Add(o Coverage) {
	if c.Points == nil {
		c.Points = map[coverage.Point]int{}
	}
	for m, n := range o.Points {
		c.Points[m] += n
	}
	for f, n := range o.Hits {
		c.Hits[f] += n
	}
}

// Missing is what never happened of these.
func (c *Coverage) Missing(faults []Fault, marks []coverage.Point) []string {
	var out []string
	for _, f := range faults {
		if c.Hits[f] == 0 {
			out = append(out, f.String())
		}
	}
	for _, m := range marks {
		if c.Points[m] == 0 {
			out = append(out, string(m))
		}
	}
	return out
}
