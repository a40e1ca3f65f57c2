package bench

import (
	"fmt"
	"math"
	"strings"
)

// figure is one line of the table that [beside] makes.
type figure struct {
	name              string
	emulated, virtual float64
	budget            float64
}

// beside is a table of what a task costs on the emulator, on the embedded tier and at most; where the first two differ
// by more than a tenth, it says why, by the figure's name, or that nobody knows.
func beside(emulator, embedded Cost, budget Budget, why map[string]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-26s %10s %10s %10s %8s\n", "", "emulator", "embedded", "budget", "differs")
	for _, f := range []figure{
		{"write units", emulator.WriteUnits, embedded.WriteUnits, budget.WriteUnits},
		{"read units", emulator.ReadUnits, embedded.ReadUnits, budget.ReadUnits},
		{"queue requests", emulator.QueueRequests, embedded.QueueRequests, budget.QueueRequests},
		{"invocations", emulator.Invocations, embedded.Invocations, budget.Invocations},
		{"dollars per million tasks", emulator.DollarsPerMillion(ListPrices), embedded.DollarsPerMillion(ListPrices), budget.Dollars},
	} {
		fmt.Fprintf(&out, "%-26s %10.3f %10.3f %10g %+7.0f%%\n", f.name, f.emulated, f.virtual, f.budget, 100*f.difference())
		if math.Abs(f.difference()) <= 0.1 {
			continue
		}
		reason := why[f.name]
		if reason == "" {
			reason = "NOT EXPLAINED"
		}
		fmt.Fprintf(&out, "    %s\n", reason)
	}
	return out.String()
}

// difference is by what part of the embedded tier's figure the emulator's is above it.
func (f figure) difference() float64 {
	if f.emulated == f.virtual {
		return 0
	}
	return (f.emulated - f.virtual) / f.virtual
}
