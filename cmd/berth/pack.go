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

	"berth/cmd/berth/pack"
	"berth/cmd/berth/trace"
	"berth/shared/placement"
)

// packCommand fills a cluster.
type packCommand struct {
	Nodes    string `help:"CSV file of nodes: sn,cpu_milli,memory_mib,gpu,model. The shipped trace where empty. Only those with GPUs count." type:"existingfile"`
	Tasks    string `default:"default" help:"CSV file of tasks: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec …; or a shipped list: ${lists}."`
	Strategy string `default:"least-fragmentation" help:"What decides where a task goes: ${scorings}; the values of the tag berth:strategy."`
	Seeds    int    `default:"10" help:"How often to fill it, with the tasks in another order each time."`
	JSON     bool   `help:"Print the result as JSON."`
}

// helpVariables are what the help of `berth pack` lists.
func helpVariables() map[string]string {
	return map[string]string{"lists": strings.Join(trace.TaskLists(), ", "),
		"scorings": strings.Join(placement.Scorings(), ", ")}
}

// Help is the end of `berth pack --help`.
func (p *packCommand) Help() string {
	return `Tasks come in random order, each once, then at random, until they ask for 130 % of the GPUs; nobody leaves.
Printed is how many of the GPUs were allocated when they asked for 100 %, and at the end.

Examples:
  berth pack                                            the shipped trace, 10 seeds
  berth pack --tasks gpuspec33 --strategy best-fit      for comparison
  berth pack --nodes nodes.csv --tasks tasks.csv --json traces of your own`
}

// maxSeeds is more than any mean needs.
const maxSeeds = 10_000

// Validate refuses what cannot work, naming the flag.
func (p *packCommand) Validate() error {
	if p.Seeds < 1 || p.Seeds > maxSeeds {
		return fmt.Errorf("--seeds is %d, expected 1 to %d", p.Seeds, maxSeeds)
	}
	if !slices.Contains(placement.Scorings(), p.Strategy) {
		return fmt.Errorf("--strategy is %q, expected one of %s", p.Strategy, strings.Join(placement.Scorings(), ", "))
	}
	return nil
}

// Run fills the cluster and prints how full it got.
func (p *packCommand) Run(ctx context.Context, s *streams) error {
	nodes, err := readList(p.Nodes, trace.DefaultNodes, trace.ReadNodes)
	if err != nil {
		return err
	}
	tasks, err := p.readTasks()
	if err != nil {
		return err
	}
	// Every seed makes a cluster of its own and has memory to spare.
	debug.SetGCPercent(400)
	progress, done := packProgress(s.err, p.Seeds, time.Now)
	result, err := pack.Run(ctx, pack.Options{Nodes: nodes, Tasks: tasks, Strategy: p.Strategy, Seeds: p.Seeds,
		Progress: progress})
	done()
	if err != nil {
		return err
	}
	if p.JSON {
		return json.NewEncoder(s.out).Encode(result)
	}
	return result.Print(s.out)
}

func (p *packCommand) readTasks() ([]trace.Task, error) {
	if slices.Contains(trace.TaskLists(), p.Tasks) {
		return trace.ReadTaskList(p.Tasks)
	}
	if _, err := os.Stat(p.Tasks); err != nil {
		return nil, fmt.Errorf("--tasks is %q, expected a file or one of %s: %w", p.Tasks,
			strings.Join(trace.TaskLists(), ", "), err)
	}
	return readList(p.Tasks, nil, trace.ReadTasks)
}

// silence is how long a command may say nothing.
const silence = 2 * time.Second

// packProgress says now and then how far it is, once that takes longer than one likes to wait: in
// one line on a terminal, in several elsewhere.
func packProgress(w io.Writer, seeds int, now func() time.Time) (progress func(seed, offered int), done func()) {
	began := now()
	last := began
	begin, end := "", "\n"
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		begin, end = "\r\x1b[K", ""
	}
	said := false
	progress = func(seed, offered int) {
		if t := now(); t.Sub(last) >= silence {
			last, said = t, true
			fmt.Fprintf(w, "%sseed %d of %d, %d tasks so far, %.0f/s%s", begin, seed, seeds, offered,
				float64(offered)/t.Sub(began).Seconds(), end)
		}
	}
	return progress, func() {
		if said {
			fmt.Fprint(w, begin)
		}
	}
}
