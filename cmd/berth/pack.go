package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/chaos"
	"berth/cmd/berth/client"
	"berth/cmd/berth/pack"
	"berth/cmd/berth/trace"
	"berth/shared/choice"
	"berth/shared/placement"
)

// packCommand measures how full a scoring gets the GPUs of a cluster. docs/packing.md compares its
// figures with published ones.
type packCommand struct {
	Nodes    string `help:"CSV file of nodes. The shipped trace if empty." type:"existingfile"`
	Tasks    string `default:"default" help:"CSV file of tasks, or a shipped list: ${lists}."`
	Strategy string `default:"least-fragmentation" help:"Scoring that decides where a task goes: ${scorings}."`
	Seeds    int    `default:"10" help:"How often to fill the cluster, with the tasks in another order each time."`
	JSON     bool   `help:"Print the result as JSON."`
	reportFlag
}

// helpVariables are the names that help texts list.
func helpVariables() map[string]string {
	return map[string]string{"endpoint": client.DefaultEndpoint, "chaos_kinds": chaos.KindNames(),
		"lists":    strings.Join(trace.TaskLists(), ", "),
		"scorings": strings.Join(placement.ScoringNames(), ", "),
		"output":   "How to print the list: table (the default), wide, json, yaml or name."}
}

// maxSeeds is more than any mean needs.
const maxSeeds = 10_000

// Validate refuses what cannot work, naming the flag.
func (p *packCommand) Validate() error {
	if p.Seeds < 1 || p.Seeds > maxSeeds {
		return fmt.Errorf("--seeds is %d, expected 1 to %d", p.Seeds, maxSeeds)
	}
	return checkScoring("--strategy", p.Strategy)
}

// Run fills the cluster and prints how full it got.
func (p *packCommand) Run(ctx context.Context, s *streams) error {
	if err := p.createReport(); err != nil {
		return err
	}
	defer p.discardReport()
	// Lists are read before the cluster is filled, so that a mistake in one shows at once.
	nodes, err := readList(p.Nodes, trace.DefaultNodes, trace.ReadNodes)
	if err != nil {
		return err
	}
	tasks, err := p.readTasks()
	if err != nil {
		return err
	}
	// Every seed builds a cluster of its own. Memory is cheaper here than garbage collection.
	debug.SetGCPercent(400)
	progress := newProgress(s.err, time.Now)
	result, err := pack.FillCluster(ctx, pack.Options{Nodes: nodes, Tasks: tasks, Strategy: p.Strategy, Seeds: p.Seeds,
		Progress: progress.reportSeeds(p.Seeds)})
	progress.clearReport()
	if err != nil {
		return err
	}
	if err := printAnswer(s.out, p.JSON, result); err != nil {
		return err
	}
	var published []pack.Published
	if known, ok := pack.PublishedFor(p.Tasks); ok && p.Nodes == "" {
		published = append(published, known)
	}
	return p.writeReport(s, "GPUs packed by "+p.Strategy, result, result.Figures(published...))
}

// readTasks reads a shipped list, by its name, or a file.
func (p *packCommand) readTasks() ([]trace.Task, error) {
	if slices.Contains(trace.TaskLists(), p.Tasks) {
		return trace.ReadTaskList(p.Tasks)
	}
	// A name that is neither may be a misspelled list or a missing file, so the error says both.
	if _, err := os.Stat(p.Tasks); err != nil {
		return nil, fmt.Errorf("--tasks is %q, expected a file or one of %s: %w%s", p.Tasks,
			strings.Join(trace.TaskLists(), ", "), err, choice.DidYouMean(p.Tasks, trace.TaskLists()))
	}
	return readList(p.Tasks, nil, trace.ReadTasks)
}
