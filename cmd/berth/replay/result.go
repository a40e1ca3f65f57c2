package replay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Result is what a replay measured. The first block is stable; programs read it.
type Result struct {
	Tasks    int `json:"tasks"`
	Placed   int `json:"placed"`
	Unplaced int `json:"unplaced"`
	// Reasons is why tasks were never placed: the filter that removed most instances, and how many
	// tasks.
	Reasons              map[string]int `json:"reasons"`
	GPUAllocation        float64        `json:"gpuAllocation"` // mean over time, until the last task was started, %
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
}

// Latency is virtual time from a task's arrival to its StartTask, in seconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func (r *run) result(ctx context.Context) (Result, error) {
	end := r.meter.last
	m := r.meter
	out := Result{
		Tasks: len(r.Tasks), Placed: len(m.waits), Unplaced: len(r.Tasks) - len(m.waits), Nodes: len(r.Nodes),
		Reasons: map[string]int{}, StateHash: r.Store.HistoryHash(), Days: end.Sub(epoch).Hours() / 24,
		CPU:     m.levels.share(func(u used) int64 { return u.cpu }, m.capacity.cpu, m.filled),
		Memory:  m.levels.share(func(u used) int64 { return u.memory }, m.capacity.memory, m.filled),
		GPU:     m.levels.share(func(u used) int64 { return u.gpu }, m.capacity.gpu, m.filled),
		Latency: latency(m.waits),
	}
	out.GPUAllocation = out.GPU.Mean
	for _, w := range m.rooms {
		if w > waited {
			out.Waited++
		}
	}
	r.cost(&out)
	return out, r.reasons(ctx, out.Reasons)
}

// waited is a wait for an instance that only a lack of room explains; starts may be held up by
// ECS's limits.
const waited = time.Minute

// cost is what the functions used per task, schedules, sweeps and the API apart.
func (r *run) cost(out *Result) {
	tasks := float64(max(1, out.Tasks))
	for _, f := range []string{"placement", "dispatch", "task-state-change"} {
		out.WriteUnitsPerTask += r.meter.apart[f].WriteUnits / tasks
		out.ReadUnitsPerTask += r.meter.apart[f].ReadUnits / tasks
	}
	c := r.Runtime.Counters()
	out.QueueRequestsPerTask = float64(c.QueueRequests) / tasks
	out.InvocationsPerTask = float64(c.Invocations) / tasks
}

// reasons says why the tasks that still wait were never placed.
func (r *run) reasons(ctx context.Context, into map[string]int) error {
	snap := snapshot.NewSnapshot()
	for _, prefix := range []string{state.PrefixMeta, state.PrefixInstance, state.PrefixDefinition, state.PrefixTask} {
		rows, err := r.Store.List(ctx, state.Prefix(clusterName, prefix))
		if err != nil {
			return err
		}
		for _, row := range rows {
			snap.Put(row)
		}
	}
	engine := placement.New(snap)
	for _, t := range snap.ProvisioningTasks() {
		rules := t.Rules
		if rules == nil {
			rules = &cluster.Rules{}
		}
		spec, err := placement.NewSpec(snap.Definitions[t.TaskDefinition], t.Owner, t.Group, rules)
		if err != nil {
			return fmt.Errorf("task %s: %w", t.StartedByUser, err)
		}
		result := engine.Place(placement.Request{Spec: spec, Count: 1})
		into[reason(result.Diagnosis)]++
	}
	return nil
}

// reason is the filter that removed most instances.
func reason(d *cluster.Diagnosis) string {
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

func latency(waits []time.Duration) Latency {
	if len(waits) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(waits))
	at := func(p float64) float64 { return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))].Seconds() }
	return Latency{P50: at(0.5), P99: at(0.99)}
}

// Print writes the result for people.
func (r Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%d tasks on %d nodes over %.1f days: %d placed, %d never placed, %d had to wait for room
allocation until the last start (mean, p95, peak)
                         CPU %.1f%%, %.1f%%, %.1f%%   memory %.1f%%, %.1f%%, %.1f%%   GPU %.1f%%, %.1f%%, %.1f%%
arrival to StartTask     p50 %.3f s, p99 %.3f s
cost per task            %.2f write units, %.2f read units, %.2f queue requests, %.3f invocations (schedules, sweeps and API apart)
wall time                %.1f s, %.0f tasks/s
state hash               %s
`, r.Tasks, r.Nodes, r.Days, r.Placed, r.Unplaced, r.Waited, r.CPU.Mean, r.CPU.P95, r.CPU.Peak,
		r.Memory.Mean, r.Memory.P95, r.Memory.Peak, r.GPU.Mean, r.GPU.P95, r.GPU.Peak, r.Latency.P50, r.Latency.P99,
		r.WriteUnitsPerTask, r.ReadUnitsPerTask, r.QueueRequestsPerTask,
		r.InvocationsPerTask, r.WallSeconds, r.TasksPerSecond, r.StateHash)
	if err != nil {
		return err
	}
	for _, reason := range sortedReasons(r.Reasons) {
		if _, err := fmt.Fprintf(w, "never placed             %d: %s\n", r.Reasons[reason], reason); err != nil {
			return err
		}
	}
	return nil
}

func sortedReasons(reasons map[string]int) []string {
	var out []string
	for r := range reasons {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b string) int { return reasons[b] - reasons[a] })
	return out
}
