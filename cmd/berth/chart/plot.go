package chart

import (
	_ "embed" // of the style
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// CSS is the style of all figures.
//
//go:embed chart.css
var CSS string

// Line is a quantity over X, which ascends. With Steps, each value holds until the next one.
type Line struct {
	Name  string
	X, Y  []float64
	Steps bool
}

// Level is a value to compare with.
type Level struct {
	Name string
	Y    float64
}

// Plot is a figure of lines over one axis.
type Plot struct {
	Title  string
	Lines  []Line
	Levels []Level
	// FormatX puts a position on the axis into words; nil writes the number.
	FormatX func(x float64) string
	// Unit is behind each number of the vertical axis.
	Unit string
	// Whole says that the values are whole numbers, so that the vertical axis has no others.
	Whole bool
	// Least is the highest value that the vertical axis has at least.
	Least float64
}

// The size of a figure, and of the margins around what is plotted, in pixels.
const (
	plotWidth, plotHeight       = 900, 260
	marginLeft, marginRight     = 64, 16
	marginTop, marginBottom     = 12, 28
	plotInnerWidth              = plotWidth - marginLeft - marginRight
	plotInnerHeight             = plotHeight - marginTop - marginBottom
	ticksWanted                 = 5
	maxClasses                  = 6
	barHeight, barGap, barsLeft = 18, 8, 260
)

// bounds are what the axes of a plot reach over.
type bounds struct{ fromX, toX, toY, stepY float64 }

func (p Plot) bounds() bounds {
	out := bounds{fromX: math.Inf(1), toX: math.Inf(-1), toY: p.Least}
	for _, l := range p.Lines {
		for k := range l.X {
			out.fromX, out.toX, out.toY = min(out.fromX, l.X[k]), max(out.toX, l.X[k]), max(out.toY, l.Y[k])
		}
	}
	for _, l := range p.Levels {
		out.toY = max(out.toY, l.Y)
	}
	if math.IsInf(out.fromX, 0) {
		out.fromX, out.toX = 0, 1
	}
	if out.toX <= out.fromX {
		out.toX = out.fromX + 1
	}
	if out.toY <= 0 {
		out.toY = 1
	}
	out.stepY = tickStep(out.toY)
	if p.Whole {
		out.stepY = max(1, out.stepY)
	}
	out.toY = math.Ceil(out.toY/out.stepY) * out.stepY
	return out
}

func (b bounds) x(x float64) float64 {
	return marginLeft + (x-b.fromX)/(b.toX-b.fromX)*plotInnerWidth
}

func (b bounds) y(y float64) float64 { return marginTop + (1-y/b.toY)*plotInnerHeight }

// tickStep is the distance of ticks from 0 to a number: 1, 2 or 5 times a power of ten.
func tickStep(to float64) float64 {
	rough := to / ticksWanted
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, n := range []float64{1, 2, 5} {
		if rough <= n*power {
			return n * power
		}
	}
	return 10 * power
}

// Figure draws the plot with its title and a legend.
func (p Plot) Figure() template.HTML {
	b := p.bounds()
	var out strings.Builder
	fmt.Fprintf(&out,
		`<figure class="chart"><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		escape(p.Title), plotWidth, plotHeight, escape(p.describe()))
	p.drawAxes(&out, b)
	for _, l := range p.Levels {
		fmt.Fprintf(&out, `<path class="level" d="M%d %.1fH%d"/>`, marginLeft, b.y(l.Y), plotWidth-marginRight)
	}
	for n, l := range p.Lines {
		fmt.Fprintf(&out, `<path class="line %s" d="%s"/>`, classOf(n), l.path(b))
	}
	out.WriteString(`</svg><ul>`)
	for n, l := range p.Lines {
		writeKey(&out, "line "+classOf(n), l.Name)
	}
	for _, l := range p.Levels {
		writeKey(&out, "level", l.Name+": "+formatNumber(l.Y)+p.Unit)
	}
	out.WriteString(`</ul></figure>`)
	return template.HTML(out.String()) //nolint:gosec // numbers, constants and escaped text
}

func writeKey(out *strings.Builder, class, name string) {
	fmt.Fprintf(out, `<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="%s" d="M1 6H33"/></svg>%s</li>`,
		class,
		escape(name))
}

func classOf(n int) string { return "c" + strconv.Itoa(n%maxClasses+1) }

// describe says in words what the figure shows, for those who do not see it: where each line ends.
func (p Plot) describe() string {
	out := p.Title
	for _, l := range p.Lines {
		if n := len(l.Y); n > 0 {
			out += fmt.Sprintf("; %s: %s%s at the end", l.Name, formatNumber(l.Y[n-1]), p.Unit)
		}
	}
	return out
}

// drawAxes draws the grid and its numbers.
func (p Plot) drawAxes(out *strings.Builder, b bounds) {
	grid := ""
	for y := 0.0; y <= b.toY+b.stepY/2; y += b.stepY {
		grid += fmt.Sprintf("M%d %.1fH%d", marginLeft, b.y(y), plotWidth-marginRight)
		fmt.Fprintf(out, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, marginLeft-6, b.y(y)+4,
			escape(formatNumber(y)+p.Unit))
	}
	for n := range ticksWanted + 1 {
		x := b.fromX + (b.toX-b.fromX)*float64(n)/ticksWanted
		text, anchor := formatNumber(x), "middle"
		if p.FormatX != nil {
			text = p.FormatX(x)
		}
		if n == ticksWanted {
			anchor = "end"
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, b.x(x), plotHeight-8, anchor, escape(text))
	}
	fmt.Fprintf(out, `<path class="grid" d="%s"/>`, grid)
}

// path draws the line. Of the points within one pixel it keeps the lowest and the highest, so that
// a line of any length has a bounded path.
func (l Line) path(b bounds) string {
	var out strings.Builder
	move := "M"
	point := func(x, y float64) {
		fmt.Fprintf(&out, "%s%.1f %.1f", move, b.x(x), b.y(y))
		move = "L"
	}
	last := 0.0
	for k := 0; k < len(l.X); {
		end, low, high := k, l.Y[k], l.Y[k]
		for pixel := math.Floor(b.x(l.X[k])); end < len(l.X) && math.Floor(b.x(l.X[end])) == pixel; end++ {
			low, high = min(low, l.Y[end]), max(high, l.Y[end])
		}
		if l.Steps && k > 0 {
			point(l.X[k], last)
		}
		if high > low {
			point(l.X[k], low)
			point(l.X[k], high)
		}
		last = l.Y[end-1]
		point(l.X[k], last)
		k = end
	}
	return out.String()
}

// Bar is one quantity of several.
type Bar struct {
	Name  string
	Value float64
	// Other draws the bar in another colour: what it is compared with.
	Other bool
}

// Bars is a figure of quantities of one kind.
type Bars struct {
	Title  string
	Bars   []Bar
	Levels []Level
	Unit   string
	// From is where the axis begins; bars of similar length differ more if it is above 0.
	From float64
}

// Figure draws the bars, each with its number, below the title.
func (c Bars) Figure() template.HTML {
	most := c.From
	for _, bar := range c.Bars {
		most = max(most, bar.Value)
	}
	for _, l := range c.Levels {
		most = max(most, l.Y)
	}
	if most <= c.From {
		most = c.From + 1
	}
	const right = 110
	at := func(value float64) float64 {
		return barsLeft + max(0, value-c.From)/(most-c.From)*(plotWidth-barsLeft-right)
	}
	height := len(c.Bars)*(barHeight+barGap) + barGap
	var out strings.Builder
	label := c.Title
	for _, bar := range c.Bars {
		label += fmt.Sprintf("; %s: %s%s", bar.Name, formatNumber(bar.Value), c.Unit)
	}
	fmt.Fprintf(&out,
		`<figure class="chart"><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		escape(c.Title), plotWidth, height, escape(label))
	for n, bar := range c.Bars {
		y, class := barGap+n*(barHeight+barGap), "bar"
		if bar.Other {
			class = "bar other"
		}
		fmt.Fprintf(&out,
			`<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+
				`<text x="%.1f" y="%d">%s</text>`, barsLeft-8, y+13, escape(bar.Name), class, barsLeft, y,
			at(bar.Value)-barsLeft, barHeight, at(bar.Value)+6, y+13, escape(formatNumber(bar.Value)+c.Unit))
	}
	for _, l := range c.Levels {
		fmt.Fprintf(&out, `<path class="level" d="M%.1f 0V%d"/>`, at(l.Y), height)
	}
	out.WriteString(`</svg>`)
	if len(c.Levels) > 0 {
		out.WriteString(`<ul>`)
		for _, l := range c.Levels {
			writeKey(&out, "level", l.Name+": "+formatNumber(l.Y)+c.Unit)
		}
		out.WriteString(`</ul>`)
	}
	out.WriteString(`</figure>`)
	return template.HTML(out.String()) //nolint:gosec // numbers, constants and escaped text
}

// formatNumber writes a number with at most four significant digits, and thousands in full.
func formatNumber(x float64) string {
	if math.Abs(x) >= 1000 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func escape(text string) string { return template.HTMLEscapeString(text) }
