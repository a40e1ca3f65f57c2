package replay

import (
	"slices"
	"testing"

	"berth/cmd/berth/chart"
)

// A plot ends one step after the last line has fallen below a twentieth of its peak, and is whole if
// none does.
func TestCutTail(t *testing.T) {
	x := []float64{0, 1, 2, 3, 4, 5}
	for name, c := range map[string]struct {
		lines [][]float64
		want  int // points that are left
	}{
		"Tail":         {[][]float64{{0, 100, 50, 4, 1, 0}}, 4},
		"TheLongest":   {[][]float64{{0, 100, 50, 4, 1, 0}, {0, 10, 0, 1, 0, 0}}, 5},
		"NoTail":       {[][]float64{{0, 100, 50, 40, 20, 10}}, 6},
		"Nothing":      {[][]float64{{0, 0, 0, 0, 0, 0}}, 6},
		"WithoutLines": {},
	} {
		var p chart.Plot
		for _, y := range c.lines {
			p.Lines = append(p.Lines, chart.Line{X: slices.Clone(x), Y: y})
		}
		for _, l := range cutTail(p).Lines {
			if len(l.X) != c.want || len(l.Y) != c.want {
				t.Errorf("%s: %v %v, want %d points", name, l.X, l.Y, c.want)
			}
		}
	}
}

func TestFormatDay(t *testing.T) {
	for days, want := range map[float64]string{0: "0s", 1.0 / 24: "1h0m", 1.0 / 48: "30m", 2: "day 2", 29.04: "day 29",
		87.1: "day 87.1"} {
		if got := formatDay(days); got != want {
			t.Errorf("%v: %s, want %s", days, got, want)
		}
	}
}
