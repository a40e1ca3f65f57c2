package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"berth/tests/bench/workload"
)

// The names of engines that are not peers.
const (
	berth     = "berth"
	plainScan = "plain scan"
	rowScan   = "scan with rows"
)

type key struct {
	workload, start string
	nodes           int
}

func keyOf(r *workload.Result) key { return key{r.Workload, r.Start, r.Nodes} }

// resultOf returns a peer's result for a workload, a number of instances and a start, or nil.
func (b *bench) resultOf(peer string, k key) *workload.Result {
	for i := range b.results {
		if r := &b.results[i]; r.Peer == peer && keyOf(r) == k {
			return r
		}
	}
	return nil
}

// perCPU returns the tasks placed per second of CPU time.
func perCPU(r *workload.Result) float64 {
	if r == nil || r.CPU == 0 {
		return 0
	}
	return float64(r.Placed) / r.CPU
}

// printTables prints all results.
func (b *bench) printTables(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t,
		"\nworkload\tinstances\tfrom\twho\tplaced/s\tper CPU s\tBerth is\tby CPU\tlooks at\tp50 us\tp99 us\tplaced\trefused\t\n")
	for _, peer := range b.sortedResults() {
		fmt.Fprintln(t, strings.Join(b.tableCells(peer), "\t")+"\t")
	}
	if len(b.replicas) > 0 {
		fmt.Fprintf(t, "\n%d replicas at once\tinstances\tp50 ms\tslowest ms\tCPU ms\t\n", replicas)
	}
	for _, r := range b.replicas {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t\n", r.Workload, r.Nodes, r.P50, r.Slowest, r.CPU)
	}
	if len(b.snapshots) > 0 {
		fmt.Fprint(t, "\nsnapshot of instances\ttasks\tMB\tseconds\tCPU s\t\n")
	}
	for _, r := range b.snapshots {
		fmt.Fprintf(t, "%d\t%d\t%.1f\t%.2f\t%.2f\t\n", r.Instances, r.Tasks, r.Bytes/1e6, r.Seconds, r.CPU)
	}
	b.printTargets(t)
	return t.Flush()
}

// sortedResults returns the results by workload, instances and start, Berth's first.
func (b *bench) sortedResults() []*workload.Result {
	var out []*workload.Result
	for i := range b.results {
		out = append(out, &b.results[i])
	}
	place := func(r *workload.Result) int { return (slices.Index(workload.Names, r.Workload) + 99) % 99 }
	slices.SortStableFunc(out, func(x, y *workload.Result) int {
		return cmp.Or(cmp.Compare(place(x), place(y)), cmp.Compare(x.Nodes, y.Nodes), -cmp.Compare(x.Start, y.Start),
			-cmp.Compare(btoi(x.Peer == berth), btoi(y.Peer == berth)))
	})
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tableCells returns the cells of a result's line. Unknown figures are empty.
func (b *bench) tableCells(r *workload.Result) []string {
	number := func(x float64, format string) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf(format, x)
	}
	wall, cpu := 0.0, 0.0
	if ours := b.resultOf(berth, keyOf(r)); ours != nil && r.Peer != berth && r.Placed > 0 {
		wall = ours.PerSecond / r.PerSecond
		if r.CPU > 0 {
			cpu = perCPU(ours) / perCPU(r)
		}
	}
	return []string{
		r.Workload, fmt.Sprint(r.Nodes), r.Start, r.Peer, number(r.PerSecond, "%.0f"), number(perCPU(r), "%.0f"),
		formatRatio(wall), formatRatio(cpu), number(r.Considered, "%.0f"), number(r.P50, "%.1f"), number(r.P99, "%.1f"),
		fmt.Sprint(r.Placed), fmt.Sprint(r.Refused),
	}
}

// formatRatio formats a ratio, or returns nothing if it is unknown.
func formatRatio(x float64) string {
	if x == 0 {
		return ""
	}
	return formatNumber(x) + " x"
}

// formatNumber formats a number with its significant digits.
func formatNumber(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// target is a figure that Berth should reach: at least, or at most if less is better.
type target struct {
	what     string
	want     float64
	wall     float64 // 0 if not measured
	cpu      float64
	unit     string
	lessGood bool
}

// printTargets prints targets and results. On a busy machine, the figure by CPU time is the
// reliable one.
func (b *bench) printTargets(out io.Writer) {
	fmt.Fprint(out, "\ntarget\tat\tmeasured\tby CPU\t\t\n")
	for _, t := range b.listTargets() {
		if t.wall == 0 {
			continue
		}
		verdict, sign := "missed", "≥"
		if t.lessGood {
			sign = "≤"
		}
		switch {
		case t.isMet(t.wall):
			verdict = "met"
		case t.isMet(t.cpu):
			verdict = "met by CPU time"
		}
		fmt.Fprintf(out, "%s\t%s %s %s\t%s\t%s\t%s\t\n", t.what, sign, formatNumber(t.want), t.unit,
			formatNumber(t.wall), formatNumber(t.cpu), verdict)
	}
}

func (t *target) isMet(x float64) bool { return x > 0 && (x >= t.want) != t.lessGood }

func (b *bench) listTargets() []target {
	rate := func(name string, nodes int, want float64) target {
		t := target{what: fmt.Sprintf("%s, %d", name, nodes), want: want, unit: "/s"}
		if r := b.resultOf(berth, key{name, workload.Full, nodes}); r != nil {
			t.wall, t.cpu = r.PerSecond, perCPU(r)
		}
		return t
	}
	mixed := func(nodes int) *workload.Result { return b.resultOf(berth, key{workload.Mixed, workload.Full, nodes}) }
	out := []target{
		rate(workload.Mixed, 5000, 100_000), rate(workload.ZoneSpread, 5000, 80_000),
		rate(workload.AntiAffinity, 5000, 80_000),
		rate(workload.Domains, 5000, 80_000), rate(workload.Everything, 5000, 30_000),
	}
	kube := b.resultOf("kube-scheduler", key{workload.Mixed, workload.Full, 5000})
	out = append(out, ratioTarget("mixed, 5000, to kube-scheduler", 100, mixed(5000), kube),
		rate(workload.Mixed, 15000, 100_000))
	for _, name := range workload.Names {
		at := func(nodes int) *workload.Result { return b.resultOf(berth, key{name, workload.Full, nodes}) }
		out = append(out, ratioTarget(name+", 15000 to 1000", 0.6, at(15000), at(1000)))
	}
	for _, nodes := range []int{1000, 5000, 15000} {
		scan := b.resultOf(plainScan, key{workload.Mixed, workload.Full, nodes})
		out = append(out, ratioTarget(fmt.Sprintf("mixed, %d, to the plain scan", nodes), 1, mixed(nodes), scan))
	}
	for _, r := range b.replicas {
		out = append(out, target{fmt.Sprintf("%d replicas, %s, %d", replicas, r.Workload, r.Nodes), 10, r.P50, r.CPU,
			"ms", true})
	}
	for _, r := range b.snapshots {
		out = append(out, target{"snapshot", 200, r.Bytes / 1e6, r.Bytes / 1e6, "MB", true},
			target{"snapshot built", 1, r.Seconds, r.CPU, "s", true})
	}
	return out
}

func ratioTarget(what string, want float64, a, b *workload.Result) target {
	t := target{what: what, want: want, unit: "x"}
	if a != nil && b != nil && b.PerSecond > 0 {
		t.wall = a.PerSecond / b.PerSecond
		if b.CPU > 0 {
			t.cpu = perCPU(a) / perCPU(b)
		}
	}
	return t
}
