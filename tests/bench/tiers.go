package bench

import (
	"fmt"
	"math"
	"strings"
)

// tierFigure is one line of the table of [compareTiers].
type tierFigure struct {
	name              string
	emulated, virtual float64
	budget            float64
}

// measured is what one tier used per task.
type measured struct {
	Cost
	Deliveries float64 // messages and records that functions received, repeated ones included
}

// compareTiers returns a table of what a task costs on the emulator, on the embedded tier, and at
// most. Where the tiers differ by more than a tenth, it adds the reason from why, by the figure's
// name. It also returns the figures that differ without a reason.
func compareTiers(
	emulator, embedded measured, budget Budget, why map[string]string,
) (table string, unexplained []string) {
	var out strings.Builder
	fmt.Fprintf(&out, "%-26s %10s %10s %10s %8s\n", "", "emulator", "embedded", "budget", "differs")
	for _, f := range []tierFigure{
		{"write units", emulator.WriteUnits, embedded.WriteUnits, budget.WriteUnits},
		{"read units", emulator.ReadUnits, embedded.ReadUnits, budget.ReadUnits},
		{"queue requests", emulator.QueueRequests, embedded.QueueRequests, budget.QueueRequests},
		{"messages and records", emulator.Deliveries, embedded.Deliveries, 0},
		{"invocations", emulator.Invocations, embedded.Invocations, budget.Invocations},
		{"dollars per million tasks", emulator.DollarsPerMillion(ListPrices), embedded.DollarsPerMillion(ListPrices),
			budget.Dollars},
	} {
		most := "-"
		if f.budget > 0 {
			most = fmt.Sprint(f.budget)
		}
		fmt.Fprintf(&out, "%-26s %10.3f %10.3f %10s %+7.0f%%\n", f.name, f.emulated, f.virtual, most,
			100*f.relativeDifference())
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

// relativeDifference is how much higher the emulator's figure is, as a part of the embedded tier's.
func (f tierFigure) relativeDifference() float64 {
	if f.emulated == f.virtual {
		return 0
	}
	return (f.emulated - f.virtual) / f.virtual
}

// emulatorDifferences are the reasons why figures on the emulator differ from those of the embedded
// tier. Messages, records and write units have no reason to differ.
var emulatorDifferences = map[string]string{
	"invocations":               "The emulator ignores MaximumBatchingWindowInSeconds, so the same messages and records come in more, smaller batches.",
	"queue requests":            "Smaller batches: fewer messages share a ReceiveMessage and a DeleteMessageBatch.",
	"read units":                "More invocations, each of which reads its cluster's checkpoint or outbox. The emulator also counts half a unit or one for a read of any size.",
	"dollars per million tasks": "More invocations, more queue requests and more reads, as above.",
}
