package pack

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"berth/cmd/berth/chart"
	"berth/cmd/berth/trace"
)

// Options say what to fill and how.
type Options struct {
	Nodes    []trace.Node
	Tasks    []trace.Task
	Strategy string // a scoring of the engine, see [placement.Scorings]
	Seeds    int    // how often the cluster is filled, with the tasks in another order each time
	// Progress is called from time to time with the present seed and the number of tasks offered in
	// all seeds so far. It may be nil.
	Progress func(seed, offered int)
}

// Result is the mean over the seeds.
type Result struct {
	Strategy string `json:"strategy"`
	// AllocAt100 and AllocAt130 are the GPUs allocated, in % of all, when the tasks offered so far
	// have asked for 100 % and 130 % of them.
	AllocAt100     float64 `json:"allocAt100"`
	AllocAt130     float64 `json:"allocAt130"`
	TasksPerSecond float64 `json:"tasksPerSecond"` // offered, in one thread
	Nodes          int     `json:"nodes"`          // with GPUs
	GPUs           int     `json:"gpus"`
	Seeds          []Fill  `json:"seeds"`
	// Curve is how much is allocated when so many % have been asked for, from 0 to 130.
	Curve []float64 `json:"-"`
}

// Fill is the result of one seed.
type Fill struct {
	Seed       int     `json:"seed"`
	AllocAt100 float64 `json:"allocAt100"`
	AllocAt130 float64 `json:"allocAt130"`
	Placed     int     `json:"placed"`
	Refused    int     `json:"refused"`
}

// The demands, in % of the GPUs, at which the allocation is measured. The last ends a seed.
const (
	fullDemand  = 100
	finalDemand = 130
)

// FillCluster fills the cluster once per seed. It fails if no node or no task has GPUs, for a task
// whose GPU models cannot be put into a constraint, and when ctx ends.
func FillCluster(ctx context.Context, o Options) (Result, error) {
	out := Result{Strategy: o.Strategy}
	nodes, capacity := gpuNodes(o.Nodes)
	if len(nodes) == 0 {
		return out, errors.New("no node has GPUs, expected at least one to fill")
	}
	if !slices.ContainsFunc(o.Tasks, func(t trace.Task) bool { return gpuDemand(t) > 0 }) {
		return out, errors.New("no task needs GPUs, expected at least one to fill the nodes with")
	}
	out.Nodes, out.GPUs = len(nodes), int(capacity/1000)
	work, err := newWorkload(o.Tasks, o.Strategy)
	if err != nil {
		return out, err
	}
	offered, took := 0, time.Duration(0)
	for seed := 1; seed <= o.Seeds; seed++ {
		f := newFill(nodes, capacity, work, seed)
		if o.Progress != nil {
			f.progress = func(n int) { o.Progress(seed, offered+n) }
		}
		began := time.Now()
		if err := f.offerTasks(ctx); err != nil {
			return out, err
		}
		took += time.Since(began)
		offered += f.result.Placed + f.result.Refused
		out.AllocAt100 += f.result.AllocAt100 / float64(o.Seeds)
		out.AllocAt130 += f.result.AllocAt130 / float64(o.Seeds)
		out.Curve = append(out.Curve, make([]float64, len(f.curve)-len(out.Curve))...)
		for asked, share := range f.curve {
			out.Curve[asked] += share / float64(o.Seeds)
		}
		out.Seeds = append(out.Seeds, f.result)
	}
	out.TasksPerSecond = float64(offered) / took.Seconds()
	return out, nil
}

// gpuNodes returns the nodes with GPUs, and their GPUs in thousandths.
func gpuNodes(nodes []trace.Node) (out []trace.Node, capacity int64) {
	for _, n := range nodes {
		if n.GPUs > 0 {
			out = append(out, n)
			capacity += int64(n.GPUs) * 1000
		}
	}
	return out, capacity
}

// Print writes the result for people.
func (r Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%s on %d nodes with %d GPUs, mean of %d seeds
GPUs allocated      %.2f%% when tasks ask for %d%% of them, %.2f%% at %d%%
speed               %.0f tasks/s
`, r.Strategy, r.Nodes, r.GPUs, len(r.Seeds), r.AllocAt100, fullDemand, r.AllocAt130, finalDemand, r.TasksPerSecond)
	return err
}

// Published is what a paper reports for a list of tasks, with the same measure.
type Published struct {
	Name                   string
	AllocAt100, AllocAt130 float64
}

// PublishedFor returns the published figures for a shipped list on the shipped nodes.
func PublishedFor(tasks string) (Published, bool) {
	p, known := map[string]Published{
		"default":    {"FGD, published", 95.23, 95.39},
		"gpuspec33":  {"FGD, published", 87.84, 94.55},
		"multigpu50": {"FGD, published", 97.09, 97.18},
	}[tasks]
	return p, known
}

// Figures draws the allocation as demand grows, and how it compares with what was published, if
// there is something.
func (r Result) Figures(published ...Published) []template.HTML {
	line, even := chart.Line{Name: r.Strategy}, chart.Line{Name: "everything placed"}
	for asked, share := range r.Curve {
		line.X, line.Y = append(line.X, float64(asked)), append(line.Y, share)
		if asked <= fullDemand {
			even.X, even.Y = append(even.X, float64(asked)), append(even.Y, float64(asked))
		}
	}
	plot := chart.Plot{Title: "GPUs allocated, by how much of them tasks have asked for", Unit: " %",
		Lines:   []chart.Line{line, even},
		FormatX: func(x float64) string { return fmt.Sprintf("%.0f %%", x) }}
	bars := chart.Bars{Title: fmt.Sprintf("GPUs allocated when tasks ask for %d %% and %d %%", fullDemand, finalDemand),
		Unit: " %", From: 50}
	for _, at := range []struct {
		asked int
		of    func(Published) float64
		own   float64
	}{{fullDemand, func(p Published) float64 { return p.AllocAt100 }, r.AllocAt100},
		{finalDemand, func(p Published) float64 { return p.AllocAt130 }, r.AllocAt130}} {
		bars.Bars = append(bars.Bars, chart.Bar{Name: fmt.Sprintf("%s, %d %%", r.Strategy, at.asked), Value: at.own})
		for _, p := range published {
			bars.Bars = append(bars.Bars, chart.Bar{Name: fmt.Sprintf("%s, %d %%", p.Name, at.asked), Value: at.of(p),
				Other: true})
			plot.Levels = append(plot.Levels, chart.Level{Name: fmt.Sprintf("%s, at %d %%", p.Name, at.asked),
				Y: at.of(p)})
		}
	}
	return []template.HTML{plot.Figure(), bars.Figure()}
}
