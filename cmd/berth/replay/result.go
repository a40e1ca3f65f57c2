package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Result is what a replay measured. The first block is stable: programs read it.
type Result struct {
	Tasks    int `json:"tasks"`
	Placed   int `json:"placed"`
	Unplaced int `json:"unplaced"`
	// Reasons counts the tasks that were never placed, by the filter that rejected most instances.
	Reasons              map[string]int `json:"reasons"`
	GPUAllocation        float64        `json:"gpuAllocation"` // mean over time until the last task was started, in %
	WallSeconds          float64        `json:"wallSeconds"`
	TasksPerSecond       float64        `json:"tasksPerSecond"`
	WriteUnitsPerTask    float64        `json:"writeUnitsPerTask"`
	ReadUnitsPerTask     float64        `json:"readUnitsPerTask"`
	QueueRequestsPerTask float64        `json:"queueRequestsPerTask"`
	InvocationsPerTask   float64        `json:"invocationsPerTask"`
	StateHash            string         `json:"stateHash"`

	Nodes   int     `json:"nodes"`
	Waited  int     `json:"waited"` // tasks that had to wait for room
	Days    float64 `json:"days"`   // of virtual time
	CPU     Share   `json:"cpu"`
	Memory  Share   `json:"memory"`
	GPU     Share   `json:"gpu"`
	Latency Latency `json:"latency"`

	held heldResources
}

// heldResources is what tasks held over time, of what the nodes have.
type heldResources struct {
	load loadCurve
	of   resources
}

// Latency is virtual time from a task's arrival to its StartTask, in seconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// longWait is a wait for an instance that only a lack of room explains. Shorter ones may come from
// ECS's limits on starts.
const longWait = time.Minute

// newResult puts the figures together. The hash covers every change of the state, in order, so
// equal hashes mean equal histories.
func (r *nodeReplay) newResult(ctx context.Context) (Result, error) {
	m := r.meter
	share := func(of func(resources) int64) Share { return m.load.shareOf(of, of(m.capacity), m.lastStart) }
	out := Result{
		Tasks: len(r.tasks), Placed: len(m.startWaits), Unplaced: len(r.tasks) - len(m.startWaits),
		Nodes: len(r.options.Nodes), Reasons: map[string]int{}, StateHash: r.installation.Store.HistoryHash(),
		Days:    m.last.Sub(epoch).Hours() / 24,
		CPU:     share(func(r resources) int64 { return r.cpu }),
		Memory:  share(func(r resources) int64 { return r.memory }),
		GPU:     share(func(r resources) int64 { return r.gpu }),
		Latency: latencyOfWaits(m.startWaits), held: heldResources{m.load, m.capacity},
	}
	out.GPUAllocation = out.GPU.Mean
	for _, w := range m.roomWaits {
		if w > longWait {
			out.Waited++
		}
	}
	r.addCosts(&out)
	return out, r.addReasons(ctx, out.Reasons)
}

// addCosts adds what the functions used per task. Schedules, sweeps and the API count apart: their
// cost does not depend on the number of tasks.
func (r *nodeReplay) addCosts(out *Result) {
	tasks := float64(max(1, out.Tasks))
	for _, f := range []string{"placement", "dispatch", "task-state-change"} {
		out.WriteUnitsPerTask += r.meter.usage[f].WriteUnits / tasks
		out.ReadUnitsPerTask += r.meter.usage[f].ReadUnits / tasks
	}
	c := r.installation.Runtime.Counters()
	out.QueueRequestsPerTask = float64(c.QueueRequests) / tasks
	out.InvocationsPerTask = float64(c.Invocations) / tasks
}

// addReasons places the tasks that still wait once more, to learn why they were never placed.
func (r *nodeReplay) addReasons(ctx context.Context, reasons map[string]int) error {
	snap := snapshot.NewSnapshot()
	for _, prefix := range []string{state.PrefixMeta, state.PrefixInstance, state.PrefixDefinition, state.PrefixTask} {
		rows, err := r.installation.Store.List(ctx, state.Prefix(clusterName, prefix))
		if err != nil {
			return err
		}
		for _, row := range rows {
			snap.Put(row)
		}
	}
	// Reasons are those of the end of the replay, when the cluster is as empty as it gets.
	engine := placement.New(snap)
	for _, t := range snap.ProvisioningTasks() {
		rules := cmp.Or(t.Rules, &cluster.Rules{})
		spec, err := placement.NewSpec(snap.Definitions[t.TaskDefinition], t.Owner, t.Group, rules)
		if err != nil {
			return fmt.Errorf("task %s: %w", t.StartedByUser, err)
		}
		result := engine.Place(placement.Request{Spec: spec, Count: 1})
		reasons[mainReason(result.Diagnosis)]++
	}
	return nil
}

// mainReason names the filter that rejected most instances.
func mainReason(d *cluster.Diagnosis) string {
	if d == nil {
		return "would fit"
	}
	best := cluster.Rejection{Filter: "no instances"}
	for _, r := range d.Rejected {
		if r.Count > best.Count || r.Count == best.Count && r.Filter < best.Filter {
			best = r
		}
	}
	return string(best.Filter)
}

// latencyOfWaits returns the median and the 99th percentile of the waits.
func latencyOfWaits(waits []time.Duration) Latency {
	if len(waits) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(waits))
	at := func(p float64) float64 { return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))].Seconds() }
	return Latency{P50: at(0.5), P99: at(0.99)}
}

// Print writes the result for people.
func (r Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%d tasks on %d nodes over %.1f days: %d placed, %d never placed, %d waited for room
allocation until the last start (mean, p95, peak)
                         CPU %.1f%%, %.1f%%, %.1f%%   memory %.1f%%, %.1f%%, %.1f%%   GPU %.1f%%, %.1f%%, %.1f%%
arrival to StartTask     p50 %.3f s, p99 %.3f s
cost per task            %.2f write units, %.2f read units, %.2f queue requests, %.3f invocations (task handling only)
wall time                %.1f s, %.0f tasks/s
state hash               %s
`, r.Tasks, r.Nodes, r.Days, r.Placed, r.Unplaced, r.Waited, r.CPU.Mean, r.CPU.P95, r.CPU.Peak,
		r.Memory.Mean, r.Memory.P95, r.Memory.Peak, r.GPU.Mean, r.GPU.P95, r.GPU.Peak, r.Latency.P50, r.Latency.P99,
		r.WriteUnitsPerTask, r.ReadUnitsPerTask, r.QueueRequestsPerTask,
		r.InvocationsPerTask, r.WallSeconds, r.TasksPerSecond, r.StateHash)
	byCount := func(a, b string) int { return cmp.Or(r.Reasons[b]-r.Reasons[a], cmp.Compare(a, b)) }
	for _, reason := range slices.SortedFunc(maps.Keys(r.Reasons), byCount) {
		if err == nil {
			_, err = fmt.Fprintf(w, "never placed             %d: %s\n", r.Reasons[reason], reason)
		}
	}
	return err
}
