package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	"berth/cmd/berth/replay"
	"berth/cmd/berth/trace"
)

// replayCommand replays a trace. Without --scale it uses the trace's own nodes, and its result has
// a hash that is the same for the same flags. With --scale the nodes are launched by managed
// scaling. docs/replay.md explains the figures.
type replayCommand struct {
	Nodes    string  `help:"CSV file of nodes. The shipped trace if empty." type:"existingfile"`
	Tasks    string  `help:"CSV file of tasks. The shipped trace if empty." type:"existingfile"`
	Compress float64 `default:"1" help:"How many times faster tasks arrive. They run as long as in the trace."`
	EveryNth int     `default:"1" name:"every-nth-node" help:"Use only every n-th node."`
	Seed     uint64  `default:"1" help:"Seed of everything that the simulated AWS does by chance."`
	Strategy string  `help:"Scoring that decides where a task goes: ${scorings}. ECS's spread if empty."`
	Scale    string  `help:"On groups: original, consolidate or both." enum:",original,consolidate,both" default:""`
	Days     float64 `help:"With --scale: end after so many days of virtual time; 0 ends when all tasks have ended."`
	JSON     bool    `help:"Print JSON."`
	reportFlag
}

// Validate refuses what cannot work, naming the flag.
func (r *replayCommand) Validate() error {
	if !(r.Compress > 0 && r.Compress <= 1e9) {
		return fmt.Errorf("--compress is %g, expected a number above 0 and at most 1e9", r.Compress)
	}
	if r.EveryNth < 1 {
		return fmt.Errorf("--every-nth-node is %d, expected at least 1", r.EveryNth)
	}
	if r.Strategy != "" {
		if err := checkScoring("--strategy", r.Strategy); err != nil {
			return err
		}
	}
	if r.Days < 0 || r.Days > 0 && r.Scale == "" {
		return fmt.Errorf("--days is %g, expected at least 0, and --scale beside it", r.Days)
	}
	return nil
}

// Run replays the trace and prints what was measured.
func (r *replayCommand) Run(ctx context.Context, s *streams) error {
	if err := r.createReport(); err != nil {
		return err
	}
	defer r.discardReport()
	nodes, err := readList(r.Nodes, trace.DefaultNodes, trace.ReadNodes)
	if err != nil {
		return err
	}
	tasks, err := readList(r.Tasks, trace.DefaultTasks, trace.ReadTasks)
	if err != nil {
		return err
	}
	// Every n-th node keeps about the mix of kinds.
	var used []trace.Node
	for i := 0; i < len(nodes); i += r.EveryNth {
		used = append(used, nodes[i])
	}
	// A replay makes many short-lived rows. Memory is cheaper here than garbage collection.
	debug.SetGCPercent(400)
	options := replay.Options{Nodes: used, Tasks: tasks, Compress: r.Compress, Seed: r.Seed, Strategy: r.Strategy,
		Days: r.Days}
	if r.Scale != "" {
		return r.runScaled(ctx, s, options)
	}
	var finish func()
	options.Progress, finish = replayProgress(s.err, len(tasks))
	result, err := replay.Run(ctx, options)
	finish()
	if err != nil {
		return err
	}
	if err := printAnswer(s.out, r.JSON, result); err != nil {
		return err
	}
	return r.writeReport(s, "A replay", result, result.Figures())
}

// scaledResult is what `berth replay --scale` prints as JSON.
type scaledResult struct {
	Original    *replay.Scaled `json:"original,omitempty"`
	Consolidate *replay.Scaled `json:"consolidate,omitempty"`
	// Ratio is the instance-hours with consolidation divided by those without, if both were run.
	Ratio float64 `json:"ratio,omitempty"`
}

// runScaled replays on groups, by one set of rules or by both.
func (r *replayCommand) runScaled(ctx context.Context, s *streams, o replay.Options) error {
	var out scaledResult
	for _, mode := range []struct {
		name        string
		consolidate bool
		to          **replay.Scaled
	}{{"original", false, &out.Original}, {"consolidate", true, &out.Consolidate}} {
		if r.Scale != mode.name && r.Scale != "both" {
			continue
		}
		var finish func()
		o.Progress, finish = replayProgress(s.err, len(o.Tasks))
		got, err := replay.RunScaled(ctx, o, mode.consolidate)
		finish()
		if err != nil {
			return fmt.Errorf("replaying with %s: %w", mode.name, err)
		}
		*mode.to = &got
		if r.JSON {
			continue
		}
		if err := printScaled(s.out, mode.name, &got); err != nil {
			return err
		}
	}
	if out.Original != nil && out.Consolidate != nil && out.Original.InstanceHours > 0 {
		out.Ratio = out.Consolidate.InstanceHours / out.Original.InstanceHours
	}
	if err := r.printRatio(s.out, &out); err != nil {
		return err
	}
	return r.writeReport(s, "A replay on Auto Scaling groups", &out,
		replay.ScaledFigures(out.Original, out.Consolidate))
}

// printScaled writes what one replay on groups measured.
func printScaled(w io.Writer, name string, got *replay.Scaled) error {
	_, err := fmt.Fprintf(w, "%-12s %.0f instance-hours, %d instances at most, in %d groups over %.1f days; "+
		"%d of %d tasks ran, %d moves, %d services outside their percentages (%.0f s)\n", name,
		got.InstanceHours, got.PeakInstances, got.Groups, got.Days, got.Ran, got.Tasks, got.Moved,
		got.Violated, got.WallSeconds)
	return err
}

// printRatio writes what is printed after the last replay.
func (r *replayCommand) printRatio(w io.Writer, out *scaledResult) error {
	if r.JSON {
		return json.NewEncoder(w).Encode(out)
	}
	if out.Ratio > 0 {
		_, err := fmt.Fprintf(w, "ratio        %.3f (%.1f %% fewer with consolidation)\n", out.Ratio, 100*(1-out.Ratio))
		return err
	}
	return nil
}

// Print writes the result for people.
func (r *scaledResult) Print(w io.Writer) error {
	for _, mode := range []struct {
		name string
		got  *replay.Scaled
	}{{"original", r.Original}, {"consolidate", r.Consolidate}} {
		if mode.got == nil {
			continue
		}
		if err := printScaled(w, mode.name, mode.got); err != nil {
			return err
		}
	}
	return (&replayCommand{}).printRatio(w, r)
}
