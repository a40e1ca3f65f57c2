package chart_test

import (
	"encoding/xml"
	"html/template"
	"io"
	"strings"
	"testing"

	"berth/cmd/berth/chart"
)

// wellFormed checks that every element of a figure is closed.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

// A line goes from the corner below the first value to the one above the highest, and a step stays
// at a value until the next.
func TestPlot(t *testing.T) {
	p := chart.Plot{Title: "a <b>", Unit: " %", Levels: []chart.Level{{Name: "most", Y: 100}}, Lines: []chart.Line{
		{Name: "x & y", X: []float64{0, 10}, Y: []float64{0, 100}},
		{Name: "steps", X: []float64{0, 5, 10}, Y: []float64{50, 100, 0}, Steps: true}}}
	out := string(p.Figure())
	wellFormed(t, out)
	for _, want := range []string{`d="M64.0 232.0L884.0 12.0"`,
		`d="M64.0 122.0L474.0 122.0L474.0 12.0L884.0 12.0L884.0 232.0"`,
		"a &lt;b&gt;", "x &amp; y: 100 % at the end", `class="line c1"`, `class="line c2"`,
		`<path class="level" d="M64 12.0H884"/>`,
		"most: 100 %", ">80 %</text>"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// A line of any length is drawn by at most a few points per pixel, and keeps its extremes.
func TestLongLines(t *testing.T) {
	l := chart.Line{Name: "long", Steps: true}
	for k := range 200_000 {
		y := 1.0
		if k == 123_456 {
			y = 50
		}
		l.X, l.Y = append(l.X, float64(k)), append(l.Y, y)
	}
	out := string(chart.Plot{Title: "t", Lines: []chart.Line{l}}.Figure())
	if len(out) > 60_000 || !strings.Contains(out, " 12.0L") {
		t.Errorf("%d bytes; the peak is there: %v", len(out), strings.Contains(out, " 12.0L"))
	}
}

// A plot of nothing, or of one point, is still a picture.
// The axis of whole numbers has no others.
func TestWholeNumbers(t *testing.T) {
	plot := chart.Plot{Lines: []chart.Line{{Name: "one", X: []float64{0, 10}, Y: []float64{1, 1}}}}
	if got := string(plot.Figure()); !strings.Contains(got, ">0.2<") {
		t.Errorf("no part of one in\n%s", got)
	}
	plot.Whole = true
	if got := string(plot.Figure()); strings.Contains(got, ">0.") || !strings.Contains(got, ">1<") {
		t.Errorf("parts of one in\n%s", got)
	}
}

func TestLittleToPlot(t *testing.T) {
	for _, p := range []chart.Plot{{}, {Lines: []chart.Line{{X: []float64{3}, Y: []float64{0}}}}} {
		out := string(p.Figure())
		if wellFormed(t, out); strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
			t.Errorf("%s", out)
		}
	}
	if out := string(chart.Bars{Bars: []chart.Bar{{Name: "none"}}}.Figure()); strings.Contains(out, "NaN") {
		t.Error(out)
	}
}

// Bars begin where the axis does, each with its number.
func TestBars(t *testing.T) {
	out := string(chart.Bars{Title: "t", Unit: " h", From: 50, Levels: []chart.Level{{Name: "best", Y: 150}},
		Bars: []chart.Bar{{Name: "<a>", Value: 100}, {Name: "b", Value: 12345, Other: true},
			{Name: "less", Value: 10}}}.Figure())
	wellFormed(t, out)
	for _, want := range []string{"&lt;a&gt;", ">100 h</text>", ">12345 h</text>", `class="bar other"`, `width="530.0"`,
		`width="0.0"`, "best: 150 h"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// A report is one file that asks for no other, and escapes what it shows.
func TestReport(t *testing.T) {
	var out strings.Builder
	err := chart.Report{Title: "<t>", Command: "berth replay --report 'x<y'", Text: "1 < 2",
		Figures: []template.HTML{chart.Plot{Title: "figure"}.Figure()}}.Write(&out)
	if err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"<h1>&lt;t&gt;</h1>", "x&lt;y", "1 &lt; 2",
		`<figure class="chart"><figcaption>figure`, ".chart .c1"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	for _, foreign := range []string{"http:", "https:", "<script", "<link", "<img", "url("} {
		if strings.Contains(page, foreign) {
			t.Errorf("the report has %q", foreign)
		}
	}
}
