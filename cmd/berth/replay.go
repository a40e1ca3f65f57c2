package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"berth/cmd/berth/replay"
	"berth/cmd/berth/trace"
	"berth/shared/placement"
)

// replayCommand plays a trace.
type replayCommand struct {
	Nodes    string  `help:"CSV file of nodes: sn,cpu_milli,memory_mib,gpu,model. The shipped trace where empty." type:"existingfile"`
	Tasks    string  `help:"CSV file of tasks: name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time …. The shipped trace where empty." type:"existingfile"`
	Compress float64 `default:"1" help:"Tasks arrive this many times faster, and run as long as ever, so that the cluster fills."`
	EveryNth int     `default:"1" name:"every-nth-node" help:"Use only every n-th node."`
	Seed     uint64  `default:"1" help:"What the simulated fleet does by chance follows from this."`
	Strategy string  `help:"What decides where a task goes: ${scorings}, the values of the tag berth:strategy; where empty ECS's spread."`
	Scale    string  `help:"Run on Auto Scaling groups that managed scaling sizes, one for each kind of node, and measure instance-hours: by ECS's rules (original), with consolidation (consolidate), or first the one and then the other (both)." enum:",original,consolidate,both" default:""`
	Days     float64 `help:"With --scale: end after so many days of virtual time; 0 is once all tasks have ended."`
	JSON     bool    `help:"Print the result as JSON."`
}

// Help is the end of `berth replay --help`.
func (r *replayCommand) Help() string {
	return `Examples:
  berth replay                                              149 days of a production cluster
  berth replay --compress 100000 --every-nth-node 2         more tasks than half of its nodes hold
  berth replay --nodes nodes.csv --tasks tasks.csv --json   traces of your own
  berth replay --compress 20000 --scale both                what consolidation saves`
}

// Validate refuses what cannot work, naming the flag.
func (r *replayCommand) Validate() error {
	if !(r.Compress > 0 && r.Compress <= 1e9) {
		return fmt.Errorf("--compress is %g, expected a number above 0 and at most 1e9", r.Compress)
	}
	if r.EveryNth < 1 {
		return fmt.Errorf("--every-nth-node is %d, expected at least 1", r.EveryNth)
	}
	if r.Strategy != "" && !slices.Contains(placement.Scorings(), r.Strategy) {
		return fmt.Errorf("--strategy is %q, expected one of %s", r.Strategy, strings.Join(placement.Scorings(), ", "))
	}
	if r.Days < 0 || r.Days > 0 && r.Scale == "" {
		return fmt.Errorf("--days is %g, expected at least 0, and --scale beside it", r.Days)
	}
	return nil
}

// Run replays and prints what was measured.
func (r *replayCommand) Run(ctx context.Context, s *streams) error {
	nodes, err := readList(r.Nodes, trace.DefaultNodes, trace.ReadNodes)
	if err != nil {
		return err
	}
	tasks, err := readList(r.Tasks, trace.DefaultTasks, trace.ReadTasks)
	if err != nil {
		return err
	}
	var used []trace.Node
	for i := 0; i < len(nodes); i += r.EveryNth {
		used = append(used, nodes[i])
	}
	// A replay makes a lot of short-lived rows and has memory to spare.
	debug.SetGCPercent(400)
	options := replay.Options{Nodes: used, Tasks: tasks, Compress: r.Compress, Seed: r.Seed, Strategy: r.Strategy,
		Days: r.Days}
	if r.Scale != "" {
		return r.runScaled(ctx, s, options)
	}
	progress, done := progressBar(s.err, len(tasks))
	options.Progress = progress
	result, err := replay.Run(ctx, options)
	done(err == nil)
	if err != nil {
		return err
	}
	if r.JSON {
		return json.NewEncoder(s.out).Encode(result)
	}
	return result.Print(s.out)
}

// readList takes a list from a file, or the shipped one.
func readList[T any](path string, shipped func() ([]T, error), parse func(io.Reader) ([]T, error)) ([]T, error) {
	if path == "" {
		return shipped()
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// progressBar shows how many tasks have ended, how fast, and how long the rest will take; plain
// lines every few seconds where w is no terminal.
func progressBar(w io.Writer, tasks int) (progress func(arrived, ended int), done func(complete bool)) {
	f, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		began, last := time.Now(), time.Now()
		return func(arrived, ended int) {
			if time.Since(last) > 5*time.Second {
				last = time.Now()
				fmt.Fprintf(w, "%d of %d tasks arrived, %d ended, %.0f/s\n", arrived, tasks, ended,
					float64(ended)/time.Since(began).Seconds())
			}
		}, func(bool) {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	bar := p.AddBar(int64(tasks), mpb.PrependDecorators(decor.Name("tasks "), decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(decor.AverageSpeed(0, "%.0f/s "), decor.AverageETA(decor.ET_STYLE_GO)))
	return func(_, ended int) { bar.SetCurrent(int64(ended)) }, func(bool) {
		bar.Abort(false)
		p.Wait()
	}
}
