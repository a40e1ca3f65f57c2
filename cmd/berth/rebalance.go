package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"berth/cmd/berth/reassign"
	"berth/cmd/berth/whatif"
	"berth/shared/placement/rebalance"
)

// rebalanceCommand plans moves that balance a cluster. With --instance, it runs the same search on
// files of the machine reassignment challenge, whose best solutions are known.
type rebalanceCommand struct {
	sourceFlags
	DryRun     bool    `help:"Show the moves, and make none."`
	Most       int     `help:"Show at most so many moves; 0 is no limit."`
	Instance   string  `help:"Model file of the challenge." type:"existingfile" placeholder:"MODEL"`
	Assignment string  `help:"Machines that the processes start on." type:"existingfile" placeholder:"FILE"`
	Seconds    float64 `default:"60" help:"How long to search; the steps for a cluster are limited too."`
	Steps      int64   `help:"Search for so many steps instead, which always gives the same result."`
	Out        string  `help:"File to write the new assignment to." type:"path" placeholder:"FILE"`
	Seed       uint64  `default:"1" help:"Everything that the search does by chance follows from this number."`
	JSON       bool    `help:"Print JSON."`
}

// maxSearchSeconds is a day.
const maxSearchSeconds = 24 * 60 * 60

// Validate refuses what cannot work, naming the flag.
func (r *rebalanceCommand) Validate() error {
	switch {
	case math.IsNaN(r.Seconds) || r.Seconds <= 0 || r.Seconds > maxSearchSeconds:
		return fmt.Errorf("--seconds is %v, expected more than 0 and at most %d", r.Seconds, maxSearchSeconds)
	case r.Steps < 0:
		return fmt.Errorf("--steps is %d, expected 0 or more", r.Steps)
	case r.Most < 0:
		return fmt.Errorf("--most is %d, expected 0 or more", r.Most)
	}
	if r.Instance+r.Assignment+r.Out == "" {
		if !r.DryRun {
			return errors.New("--dry-run is not given, expected it, or --instance, --assignment and --out")
		}
		return r.sourceFlags.Validate()
	}
	for _, f := range []struct{ name, value string }{
		{"--instance", r.Instance}, {"--assignment", r.Assignment}, {"--out", r.Out},
	} {
		if f.value == "" {
			return fmt.Errorf("%s is missing, expected --instance, --assignment and --out together", f.name)
		}
	}
	if r.DryRun || r.Snapshot+r.Nodes+r.Save != "" || r.Trace {
		return errors.New("--instance is given, expected none beside --dry-run, --snapshot, --nodes, --trace, --save")
	}
	return nil
}

// Run plans for a cluster, or for files of the challenge.
func (r *rebalanceCommand) Run(ctx context.Context, s *streams) error {
	if r.Instance == "" {
		return r.planForCluster(ctx, s)
	}
	return r.reassign(ctx, s)
}

// How many steps to search a cluster, which finds little more after that.
const (
	clusterStepsPerTask = 10_000
	mostClusterSteps    = 1_000_000
)

// planForCluster prints the moves that would balance the cluster.
func (r *rebalanceCommand) planForCluster(ctx context.Context, s *streams) error {
	progress := newProgress(s.err, time.Now)
	defer progress.clearReport()
	src, err := r.openClusterSource(ctx, progress)
	if err != nil {
		return err
	}
	budget := r.newBudget(ctx, time.Now(), progress)
	if budget.Steps == 0 {
		budget.Steps = int64(min(mostClusterSteps, clusterStepsPerTask*src.snap.TaskCount()))
	}
	answer, err := whatif.PlanBalance(src.snap, budget, r.Seed, r.Most)
	progress.clearReport()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	return printAnswer(s.out, r.JSON, answer)
}

// reassign searches, writes the assignment, and prints what it costs.
func (r *rebalanceCommand) reassign(ctx context.Context, s *streams) error {
	problem, err := r.readProblem()
	if err != nil {
		return err
	}
	progress := newProgress(s.err, time.Now)
	began := time.Now()
	result, err := reassign.Search(problem, r.newBudget(ctx, began, progress), r.Seed)
	progress.clearReport()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	result.Seconds = time.Since(began).Seconds()
	if err := writeWholeFile(r.Out, result.WriteAssignment); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return printAnswer(s.out, r.JSON, result)
}

// readProblem reads the model and where its processes start. Errors name the file.
func (r *rebalanceCommand) readProblem() (*rebalance.Problem, error) {
	model, err := os.Open(r.Instance)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	problem, err := reassign.ReadModel(model)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Instance, err)
	}
	assignment, err := os.Open(r.Assignment)
	if err != nil {
		return nil, err
	}
	defer assignment.Close()
	if err := reassign.ReadAssignment(assignment, problem); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Assignment, err)
	}
	return problem, nil
}

// newBudget returns the budget that the flags name. The search has no clock, so its time is
// measured here.
func (r *rebalanceCommand) newBudget(ctx context.Context, began time.Time, p *progress) rebalance.Budget {
	return rebalance.Budget{Steps: r.Steps, Used: func() float64 {
		if ctx.Err() != nil {
			return 1
		}
		if r.Steps > 0 {
			return 0
		}
		seconds := time.Since(began).Seconds()
		p.reportProgress("searching: %.0f of %v s", seconds, r.Seconds)
		return seconds / r.Seconds
	}}
}
