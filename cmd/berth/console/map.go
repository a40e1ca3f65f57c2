package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// Below maxNamed instances each has a named box with a bar per resource and metric, below maxBars a
// box with two bars, and above one that is filled by its fullest resource.
const (
	maxNamed = 200
	maxBars  = 1000
)

// mapCell has the instances of one row and column of the map.
type mapCell struct {
	Row, Column string
	Link        string
	Text        string // totals
	SVG         template.HTML
}

// mapRow is one row of the map: a fault domain, or a zone.
type mapRow struct {
	Name  string
	Cells []mapCell
}

// clusterMap is the map of a cluster's instances.
type clusterMap struct {
	RowKind, ColumnKind string
	Columns             []string
	Rows                []mapRow
	Legend              []legendEntry
	Table               []listing.Instance
	Density             string
	Filled              bool // each box is filled by one resource
	// chosen has the tasks that a question would place, by instance.
	chosen map[string]int
}

// legendEntry says what a kind of box means, and how many there are.
type legendEntry struct {
	Class, Text string
	Count       int
}

// axes say by what instances are sorted into rows and columns.
type axes struct {
	rowKind, columnKind string
	place               func(listing.Instance) (row, column string)
}

// axesOf returns fault and upgrade domains if some instance has one, and else zones and capacity
// providers.
func axesOf(items []listing.Instance) axes {
	if slices.ContainsFunc(items,
		func(i listing.Instance) bool { return i.Attributes[cluster.AttributeFaultDomain] != "" }) {
		return axes{"fault domain", "upgrade domain", func(i listing.Instance) (string, string) {
			return cmp.Or(i.Attributes[cluster.AttributeFaultDomain], "none"),
				cmp.Or(i.Attributes[cluster.AttributeUpgrade], "none")
		}}
	}
	return axes{"zone", "capacity provider", func(i listing.Instance) (string, string) {
		return cmp.Or(i.Zone, "no zone"), cmp.Or(i.Provider, "no provider")
	}}
}

func (c *Console) showMap(_ *http.Request, v *view) error {
	v.Title = "Map"
	all := listing.Instances(v.Snapshot)
	a := axesOf(all)
	row, column := v.Given("row"), v.Given("column")
	items := slices.DeleteFunc(all, func(i listing.Instance) bool {
		r, c := a.place(i)
		return row != "" && r != row || column != "" && c != column ||
			!v.matches(i.ID, i.EC2, i.State(), i.Type, i.Zone, i.Provider)
	})
	m := newClusterMap(v, a, items, nil)
	slices.SortStableFunc(items, func(x, y listing.Instance) int {
		return cmp.Compare(toneRank(y.State()), toneRank(x.State()))
	})
	m.Table = cut(v, "/console/map", items)
	v.Body = m
	return nil
}

// newClusterMap sorts the instances into cells and draws each.
func newClusterMap(v *view, a axes, items []listing.Instance, chosen map[string]int) *clusterMap {
	m := &clusterMap{RowKind: a.rowKind, ColumnKind: a.columnKind, chosen: chosen}
	cells := map[string]map[string][]listing.Instance{}
	columns, states := map[string]bool{}, map[string]int{}
	for _, i := range items {
		r, c := a.place(i)
		if cells[r] == nil {
			cells[r] = map[string][]listing.Instance{}
		}
		cells[r][c] = append(cells[r][c], i)
		columns[c] = true
		states[boxClass(i)]++
	}
	m.Columns = slices.Sorted(maps.Keys(columns))
	m.Density, m.Filled = describeDensity(len(items)), len(items) > maxBars
	width := max(120, mapWidth/max(1, len(m.Columns)))
	for _, r := range slices.Sorted(maps.Keys(cells)) {
		out := mapRow{Name: r}
		for _, c := range m.Columns {
			in := cells[r][c]
			out.Cells = append(out.Cells, mapCell{Row: r, Column: c, Text: describeCell(in),
				Link: v.Here("/console/map", "row", r, "column", c), SVG: m.draw(v, in, width, len(items))})
		}
		m.Rows = append(m.Rows, out)
	}
	for _, e := range []legendEntry{{"ok", "takes tasks", 0}, {"cordoned", "unschedulable", 0},
		{"draining", "draining", 0}, {"lost", "disconnected", 0}, {"other", "another status", 0}} {
		if e.Count = states[e.Class]; e.Count > 0 {
			m.Legend = append(m.Legend, e)
		}
	}
	if len(chosen) > 0 {
		m.Legend = append(m.Legend, legendEntry{"chosen", "would get tasks of the question", len(chosen)})
	}
	return m
}

// describeDensity says what the boxes of a map with n instances show.
func describeDensity(n int) string {
	switch {
	case n <= maxNamed:
		return "One box per instance, with a bar for each resource: allocated CPU, memory, GPUs, and metrics."
	case n <= maxBars:
		return "One box per instance, with allocated CPU above and memory below."
	}
	return "One box per instance, filled by the share of its fullest resource that is allocated."
}

// draw draws the instances of one cell, of a map with count instances.
func (m *clusterMap) draw(v *view, in []listing.Instance, width, count int) template.HTML {
	switch {
	case count <= maxNamed:
		return m.drawNamed(v, in, width)
	case count <= maxBars:
		return m.drawBars(in, width)
	}
	return m.drawFilled(in, width)
}

// addInstance draws the box of an instance, and outlines one that would get tasks of a question.
func (m *clusterMap) addInstance(d *drawing, i *listing.Instance, at box) {
	d.addBox(boxClass(*i), at.x, at.y, at.w, at.h)
	if m.chosen[i.ID] > 0 {
		d.addBox("chosen", at.x-1, at.y-1, at.w+2, at.h+2)
	}
}

// box is a rectangle of a drawing.
type box struct{ x, y, w, h int }

// mapWidth is the width of all columns together, in pixels.
const mapWidth = 940

// boxClass is the class of an instance's box. Each differs by its outline too, not by colour alone.
func boxClass(i listing.Instance) string {
	switch {
	case !i.Connected:
		return "lost"
	case i.Status == string(cluster.InstanceDraining):
		return "draining"
	case i.Unschedulable:
		return "cordoned"
	case i.Status != string(cluster.InstanceActive):
		return "other"
	}
	return "ok"
}

// describeCell returns how many instances a cell has, and how much of them is allocated.
func describeCell(in []listing.Instance) string {
	if len(in) == 0 {
		return "empty"
	}
	var cpu, memory listing.Amount
	tasks := 0
	for _, i := range in {
		cpu.Allocated, cpu.Total = cpu.Allocated+i.CPU.Allocated, cpu.Total+i.CPU.Total
		memory.Allocated, memory.Total = memory.Allocated+i.Memory.Allocated, memory.Total+i.Memory.Total
		tasks += i.Tasks
	}
	return fmt.Sprintf("%s, %s, CPU %.0f %%, memory %.0f %%", whatif.CountNoun(len(in), "instance"),
		whatif.CountNoun(tasks, "task"), cpu.Share()*100, memory.Share()*100)
}

// drawing collects one path for each class, so that a map of thousands of boxes stays small.
type drawing struct {
	paths         map[string]*strings.Builder
	other         strings.Builder // texts and links
	width, height int
}

func newDrawing() *drawing { return &drawing{paths: map[string]*strings.Builder{}} }

// addBox adds a rectangle to the path of its class.
func (d *drawing) addBox(class string, x, y, w, h int) {
	if w <= 0 || h <= 0 {
		return
	}
	p := d.paths[class]
	if p == nil {
		p = &strings.Builder{}
		d.paths[class] = p
	}
	fmt.Fprintf(p, "M%d %dh%dv%dh%dz", x, y, w, h, -w)
	d.width, d.height = max(d.width, x+w+1), max(d.height, y+h+1)
}

// classes are drawn in this order: outlines first.
var classes = []string{"ok", "cordoned", "draining", "lost", "other", "cpu", "memory", "gpu", "metric", "fill", "full",
	"chosen"}

// svg returns the drawing. Text in it has been escaped by those who added it; everything else is
// made of numbers.
func (d *drawing) svg(label string) template.HTML {
	if d.width == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width="%d" height="%d" viewBox="-1 -1 %d %d" role="img" aria-label="%s">`, d.width+1,
		d.height+1,
		d.width+1, d.height+1, template.HTMLEscapeString(label))
	for _, class := range classes {
		if p := d.paths[class]; p != nil {
			fmt.Fprintf(&b, `<path class="%s" d="%s"/>`, class, p)
		}
	}
	b.WriteString(d.other.String())
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers, constants and escaped text
}

// drawNamed draws a box for each instance with its name, a bar per resource, and a link.
func (m *clusterMap) drawNamed(v *view, in []listing.Instance, width int) template.HTML {
	const w, gap, bar = 112, 6, 7
	d := newDrawing()
	perRow := max(1, width/(w+gap))
	rowTop, rowHeight := 0, 0
	for n, i := range in {
		if n%perRow == 0 {
			rowTop += rowHeight
			rowHeight = 0
		}
		x, y := n%perRow*(w+gap), rowTop
		bars := barsOf(i)
		h := 20 + len(bars)*(bar+2)
		rowHeight = max(rowHeight, h+gap)
		m.addInstance(d, &i, box{x, y, w, h})
		if n := m.chosen[i.ID]; n > 0 {
			fmt.Fprintf(&d.other, `<text class="plus" x="%d" y="%d" text-anchor="end">+%d</text>`, x+w-5, y+13, n)
		}
		for k, b := range bars {
			at := y + 18 + k*(bar+2)
			d.addBox("other", x+6, at, w-12, bar-1)
			d.addBox(b.class, x+6, at, int(b.share*float64(w-12)+0.5), bar-1)
		}
		fmt.Fprintf(&d.other, `<a href="%s"><rect class="hit" x="%d" y="%d" width="%d" height="%d"/>`+
			`<text x="%d" y="%d">%s</text><title>%s</title></a>`,
			template.HTMLEscapeString(v.Here("/console/instance/"+i.ID)), x, y, w, h, x+6, y+13,
			template.HTMLEscapeString(m.boxName(i)), template.HTMLEscapeString(describeInstance(i)))
	}
	return d.svg(describeCell(in))
}

// boxName is as much of an instance's name as fits into its box, beside the number of tasks that it
// would get.
func (m *clusterMap) boxName(i listing.Instance) string {
	name, most := []rune(cmp.Or(i.EC2, i.ID)), 14
	if m.chosen[i.ID] > 0 {
		most = 9
	}
	if len(name) > most {
		name = append(name[:most-1:most-1], '…')
	}
	return string(name)
}

func describeInstance(i listing.Instance) string {
	out := fmt.Sprintf("%s %s, %s, %s, CPU %s, memory %s MiB", i.EC2, i.ID, i.State(),
		whatif.CountNoun(i.Tasks, "task"), i.CPU, i.Memory)
	for _, name := range slices.Sorted(maps.Keys(i.Metrics)) {
		out += fmt.Sprintf(", %s %s", name, i.Metrics[name])
	}
	return strings.TrimSpace(out)
}

// resourceBar is one bar of a box.
type resourceBar struct {
	class string
	share float64
}

// maxMetrics is how many metrics a box shows.
const maxMetrics = 3

func barsOf(i listing.Instance) []resourceBar {
	out := []resourceBar{{"cpu", i.CPU.Share()}, {"memory", i.Memory.Share()}}
	if i.GPUs.Total > 0 {
		out = append(out, resourceBar{"gpu", i.GPUs.Share()})
	}
	for n, name := range slices.Sorted(maps.Keys(i.Metrics)) {
		if n < maxMetrics {
			out = append(out, resourceBar{"metric", i.Metrics[name].Share()})
		}
	}
	return out
}

// drawBars draws a box for each instance with a bar for CPU and one for memory.
func (m *clusterMap) drawBars(in []listing.Instance, width int) template.HTML {
	const w, h, gap = 26, 16, 3
	d := newDrawing()
	perRow := max(1, width/(w+gap))
	for n, i := range in {
		x, y := n%perRow*(w+gap), n/perRow*(h+gap)
		m.addInstance(d, &i, box{x, y, w, h})
		d.addBox("cpu", x+2, y+3, int(i.CPU.Share()*float64(w-4)+0.5), 4)
		d.addBox("memory", x+2, y+9, int(i.Memory.Share()*float64(w-4)+0.5), 4)
	}
	return d.svg(describeCell(in))
}

// drawFilled draws a small box for each instance, filled from below by its fullest resource.
func (m *clusterMap) drawFilled(in []listing.Instance, width int) template.HTML {
	const size, gap = 10, 2
	d := newDrawing()
	perRow := max(1, width/(size+gap))
	for n, i := range in {
		x, y := n%perRow*(size+gap), n/perRow*(size+gap)
		m.addInstance(d, &i, box{x, y, size, size})
		share := max(i.CPU.Share(), i.Memory.Share(), i.GPUs.Share())
		for _, m := range i.Metrics {
			share = max(share, m.Share())
		}
		fill, class := int(share*size+0.5), "fill"
		if share >= 0.95 {
			class = "full"
		}
		d.addBox(class, x, y+size-fill, size, fill)
	}
	return d.svg(describeCell(in))
}
