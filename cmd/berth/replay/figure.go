package replay

import (
	"fmt"
	"html/template"
	"time"

	"berth/cmd/berth/chart"
)

// Figures draws what tasks held over the time of the replay.
func (r Result) Figures() []template.HTML {
	plot := chart.Plot{Title: "Allocated, in % of what the nodes have", Unit: " %", Least: 100, FormatX: formatDay}
	for _, of := range []struct {
		name string
		part func(resources) int64
	}{{"CPU", func(r resources) int64 { return r.cpu }}, {"memory", func(r resources) int64 { return r.memory }},
		{"GPUs", func(r resources) int64 { return r.gpu }}} {
		line := chart.Line{Name: of.name, Steps: true}
		for _, l := range r.held.load.levels {
			line.X = append(line.X, l.at.Sub(epoch).Hours()/24)
			line.Y = append(line.Y, 100*float64(of.part(l.held))/float64(max(1, of.part(r.held.of))))
		}
		if of.part(r.held.of) > 0 {
			plot.Lines = append(plot.Lines, line)
		}
	}
	return []template.HTML{plot.Figure()}
}

// ScaledFigures draws how many instances there were, by the rules that sized their groups, and what
// that comes to. Either of the two may be nil.
func ScaledFigures(original, consolidate *Scaled) []template.HTML {
	plot := chart.Plot{Title: "Instances", FormatX: formatDay}
	bars := chart.Bars{Title: "Instance-hours"}
	for _, mode := range []struct {
		name string
		of   *Scaled
	}{{"ECS's rules", original}, {"with consolidation", consolidate}} {
		if mode.of == nil {
			continue
		}
		line := chart.Line{Name: mode.name, Steps: true}
		for minute, n := range mode.of.instances {
			line.X, line.Y = append(line.X, float64(minute+1)/minutesADay), append(line.Y, float64(n))
		}
		plot.Lines = append(plot.Lines, line)
		bars.Bars = append(bars.Bars, chart.Bar{Name: mode.name, Value: mode.of.InstanceHours,
			Other: mode.of == original && consolidate != nil})
	}
	return []template.HTML{plot.Figure(), bars.Figure()}
}

const minutesADay = 24 * 60

// formatDay writes a time of the replay, given in days.
func formatDay(days float64) string {
	if days < 2 {
		return time.Duration(days * 24 * float64(time.Hour)).Round(time.Minute).String()
	}
	return fmt.Sprintf("day %.1f", days)
}
