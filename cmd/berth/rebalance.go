package main

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math"
	"os"
	"time"

	"berth/cmd/berth/reassign"
	"berth/cmd/berth/whatif"
	"berth/shared/placement/rebalance"
)

// rebalanceCommand plans moves that balance a cluster, and has Berth make them. With --instance, it
// runs the same search on files of the machine reassignment challenge, whose best solutions are
// known.
type rebalanceCommand struct {
	sourceFlags
	DryRun     bool          `help:"Show the moves, and make none."`
	Apply      bool          `help:"Show the moves, have Berth make them, and follow them."`
	NoWait     bool          `help:"With --apply, return once Berth has begun."`
	Every      time.Duration `default:"5s" help:"Time between two looks at the moves."`
	Most       int           `help:"With --dry-run, show at most so many moves; 0 is no limit."`
	Instance   string        `help:"Model file of the challenge." type:"existingfile" placeholder:"MODEL"`
	Assignment string        `help:"Machines that the processes start on." type:"existingfile" placeholder:"FILE"`
	Seconds    float64       `default:"60" help:"How long to search; the steps for a cluster are limited too."`
	Steps      int64         `help:"Search for so many steps instead, which always gives the same result."`
	Out        string        `help:"File to write the new assignment to." type:"path" placeholder:"FILE"`
	Seed       uint64        `default:"1" help:"Everything that the search does by chance follows from this number."`
	JSON       bool          `help:"Print JSON; with --apply, one object per line."`
	reportFlag
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
		return r.validateCluster()
	}
	for _, f := range []struct{ name, value string }{
		{"--instance", r.Instance}, {"--assignment", r.Assignment}, {"--out", r.Out},
	} {
		if f.value == "" {
			return fmt.Errorf("%s is missing, expected --instance, --assignment and --out together", f.name)
		}
	}
	if r.DryRun || r.Apply || r.sourceFlags.Snapshot+r.Nodes+r.sourceFlags.Save != "" || r.Trace {
		return errors.New("--instance is given, expected none beside --dry-run, --apply, --snapshot, --nodes, " +
			"--trace, --save")
	}
	return nil
}

// validateCluster refuses flags that exclude each other where the moves are of a cluster.
func (r *rebalanceCommand) validateCluster() error {
	switch {
	case !r.DryRun && !r.Apply:
		return errors.New("--dry-run is not given, expected it or --apply, or --instance, --assignment and --out")
	case r.DryRun && r.Apply:
		return errors.New("--apply is given, expected none beside --dry-run")
	case r.NoWait && !r.Apply:
		return errors.New("--no-wait is given, expected only with --apply")
	case r.Apply && (r.sourceFlags.Snapshot+r.Nodes != "" || r.Trace):
		return errors.New("--apply is given, expected only with a running cluster, not with --snapshot, --nodes or " +
			"--trace")
	case r.Apply && r.Report != "":
		return fmt.Errorf("--report is %q, expected only with --dry-run or --instance", r.Report)
	case r.Apply && r.Most > 0:
		return fmt.Errorf("--most is %d, expected only with --dry-run: movesInWindow of the cluster's configuration "+
			"limits its moves", r.Most)
	case r.Every < 10*time.Millisecond:
		return fmt.Errorf("--every is %s, expected a time such as 5s", r.Every)
	}
	return r.sourceFlags.Validate()
}

// Run plans for a cluster, or for files of the challenge.
func (r *rebalanceCommand) Run(ctx context.Context, s *streams) error {
	if err := r.createReport(); err != nil {
		return err
	}
	defer r.discardReport()
	switch {
	case r.Apply:
		return r.balanceCluster(ctx, s)
	case r.Instance == "":
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
	answer, err := r.planMoves(ctx, src, progress)
	progress.clearReport()
	if err != nil {
		return err
	}
	if err := printAnswer(s.out, r.JSON, answer); err != nil {
		return err
	}
	return r.writeReport(s, "Moves that balance cluster "+r.sourceFlags.clusterFlags.Cluster, answer,
		[]template.HTML{answer.Figure(true), answer.GainFigure()})
}

// planMoves returns the moves that would balance the cluster.
func (r *rebalanceCommand) planMoves(
	ctx context.Context, src *source, p *progress,
) (*whatif.BalanceAnswer, error) {
	budget := r.newBudget(ctx, time.Now(), p)
	if budget.Steps == 0 {
		budget.Steps = int64(min(mostClusterSteps, clusterStepsPerTask*src.snap.TaskCount()))
	}
	answer, err := whatif.PlanBalance(src.snap,
		whatif.BalanceSearch{Budget: budget, Seed: r.Seed, Most: r.Most, Now: src.readAt})
	return answer, errors.Join(err, ctx.Err())
}

// reassign searches, prints what the assignment costs, and writes it.
func (r *rebalanceCommand) reassign(ctx context.Context, s *streams) error {
	problem, err := r.readProblem()
	if err != nil {
		return err
	}
	out, err := createWholeFile(r.Out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer out.discard()
	progress := newProgress(s.err, time.Now)
	began := time.Now()
	result, err := reassign.Search(problem, r.newBudget(ctx, began, progress), r.Seed)
	progress.clearReport()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	result.Seconds = time.Since(began).Seconds()
	printed := printAnswer(s.out, r.JSON, result)
	if err := out.write(result.WriteAssignment); err != nil {
		return errors.Join(printed, fmt.Errorf("--out: %w", err))
	}
	if printed != nil {
		return printed
	}
	return r.writeReport(s, "A search for a better assignment", result, result.Figures())
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
