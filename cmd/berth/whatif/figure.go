package whatif

import (
	"html/template"

	"berth/cmd/berth/chart"
)

// parts are the bars of a state: how uneven the load of each metric is, and how many tasks are too
// many where they are, in %.
func (s *BalanceState) parts() (out []chart.Bar) {
	for _, m := range s.Metrics {
		out = append(out, chart.Bar{Name: m.Name + ", deviation", Value: 100 * m.Deviation})
	}
	return append(out, chart.Bar{Name: "too many in a zone", Value: 100 * s.ZoneSurplus},
		chart.Bar{Name: "too many in a fault domain", Value: 100 * s.DomainSurplus},
		chart.Bar{Name: "too many on an instance", Value: 100 * s.InstanceSurplus})
}

// Figure draws how far the cluster is from being balanced. If moves were searched for, it draws the
// state after them beside the state now.
func (a *BalanceAnswer) Figure(planned bool) template.HTML {
	bars := chart.Bars{Title: "How far from balanced", Unit: " %"}
	after := a.After.parts()
	for n, now := range a.Before.parts() {
		if !planned {
			bars.Bars = append(bars.Bars, now)
			continue
		}
		then := after[n]
		now.Name, now.Other, then.Name = now.Name+", now", true, then.Name+", after"
		bars.Bars = append(bars.Bars, now, then)
	}
	return bars.Figure()
}

// GainFigure draws how far the moves bring the cluster, one after the other.
func (a *BalanceAnswer) GainFigure() template.HTML {
	line := chart.Line{Name: "distance from balanced", X: []float64{0}, Y: []float64{a.Before.Distance}}
	for n, m := range a.Moves {
		line.X, line.Y = append(line.X, float64(n+1)), append(line.Y, a.Before.Distance-m.Gain)
	}
	return chart.Plot{Title: "Distance from balanced after each move", Lines: []chart.Line{line}}.Figure()
}
