package bench

import (
	"fmt"
	"math"
	"strings"
)

// tierFigure is one line of the table that [beside] makes.
type tierFigure struct {
	name              string
	emulated, virtual float64
	budget            float64
}

// measured is what was used per task on one tier.
type measured struct {
	Cost
	Deliveries float64 // messages and records that functions got, repeated ones too
}

// compareTiers is a table of what a task costs on the emulator, on the embedded tier and at most; where the first two differ
// by more than a tenth, it says why, by the figure's name. Figures without a reason are the second result.
func compareTiers(emulator, embedded measured, budget Budget, why map[string]string) (table string, unexplained []string) {
	var out strings.Builder
	fmt.Fprintf(&out, "%-26s %10s %10s %10s %8s\n", "", "emulator", "embedded", "budget", "differs")
	for _, f := range []tierFigure{
		{"write units", emulator.WriteUnits, embedded.WriteUnits, budget.WriteUnits},
		{"read units", emulator.ReadUnits, embedded.ReadUnits, budget.ReadUnits},
		{"queue requests", emulator.QueueRequests, embedded.QueueRequests, budget.QueueRequests},
		{"messages and records", emulator.Deliveries, embedded.Deliveries, 0},
		{"invocations", emulator.Invocations, embedded.Invocations, budget.Invocations},
		{"dollars per million tasks", emulator.DollarsPerMillion(ListPrices), embedded.DollarsPerMillion(ListPrices), budget.Dollars},
	} {
		most := "-"
		if f.budget > 0 {
			most = fmt.Sprint(f.budget)
		}
		fmt.Fprintf(&out, "%-26s %10.3f %10.3f %10s %+7.0f%%\n", f.name, f.emulated, f.virtual, most, 100*f.relativeDifference())
		if math.Abs(f.relativeDifference()) <= 0.1 {
			continue
		}
		if why[f.name] == "" {
			unexplained = append(unexplained, f.name)
			continue
		}
		fmt.Fprintf(&out, "    %s\n", why[f.name])
	}
	return out.String(), unexplained
}

// relativeDifference is by what part of the embedded tier's figure the emulator's is above it.
func (f tierFigure) relativeDifference() float64 {
	if f.emulated == f.virtual {
		return 0
	}
	return (f.emulated - f.virtual) / f.virtual
}

// emulatorDifferences says why figures on the emulator differ from those of the embedded tier. Messages and records have no
// reason to, and so write units have none.
var emulatorDifferences = map[string]string{
	"invocations":               "The emulator gathers no batches (MaximumBatchingWindowInSeconds is ignored): the same messages and records come in more invocations.",
	"queue requests":            "Its batches are smaller, so fewer messages share a ReceiveMessage and a DeleteMessageBatch.",
	"read units":                "Each invocation reads its cluster's checkpoint or outbox, and there are more of them; the emulator also takes half a unit or one for a read, whatever its size.",
	"dollars per million tasks": "More invocations, more queue requests and more reads, as above.",
}
