package replay

import (
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strings"
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
	return []template.HTML{cutTail(plot).Figure()}
}

// cutTail ends a plot where every line has fallen below a twentieth of its highest value and stays
// there: in a recording whose arrivals are sped up, the last long tasks would take nearly all of the
// width.
func cutTail(p chart.Plot) chart.Plot {
	end := 0.0
	for _, l := range p.Lines {
		least := 0.0
		if len(l.Y) > 0 {
			least = slices.Max(l.Y) / 20
		}
		for n := len(l.Y) - 1; n >= 0; n-- {
			if least > 0 && l.Y[n] >= least {
				end = max(end, l.X[min(n+1, len(l.X)-1)])
				break
			}
		}
	}
	for n := range p.Lines {
		if l := &p.Lines[n]; end > 0 {
			kept := sort.Search(len(l.X), func(at int) bool { return l.X[at] > end })
			l.X, l.Y = l.X[:kept], l.Y[:kept]
		}
	}
	return p
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
		text := time.Duration(days * 24 * float64(time.Hour)).Round(time.Minute).String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		return text
	}
	return "day " + strings.TrimSuffix(fmt.Sprintf("%.1f", days), ".0")
}
