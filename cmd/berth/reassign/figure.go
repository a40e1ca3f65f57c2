package reassign

import (
	"html/template"

	"berth/cmd/berth/chart"
)

// Figures draws what the assignment costs, and how the cost falls with the moves of the plan.
func (r *Result) Figures() []template.HTML {
	bars := chart.Bars{Title: "Cost of the assignment", Bars: []chart.Bar{
		{Name: "before", Value: float64(r.Before), Other: true}, {Name: "after", Value: float64(r.After)}}}
	line := chart.Line{Name: "cost", X: []float64{0}, Y: []float64{float64(r.Before)}}
	cost := r.Before
	for n, m := range r.Plan.Moves {
		cost -= m.Gain
		line.X, line.Y = append(line.X, float64(n+1)), append(line.Y, float64(cost))
	}
	return []template.HTML{bars.Figure(),
		chart.Plot{Title: "Cost after each move of the plan", Lines: []chart.Line{line}}.Figure()}
}
