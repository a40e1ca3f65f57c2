package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"berth/cmd/berth/reassign"
	"berth/shared/placement/rebalance"
)

// rebalanceCommand runs the search that rebalances clusters on files of the machine reassignment
// challenge, whose best solutions are known.
type rebalanceCommand struct {
	Instance   string  `required:"" help:"Model file of the challenge." type:"existingfile" placeholder:"MODEL"`
	Assignment string  `required:"" help:"Machines that the processes start on." type:"existingfile" placeholder:"FILE"`
	Seconds    float64 `default:"60" help:"How long to search."`
	Steps      int64   `help:"Search for so many steps instead, which always gives the same result."`
	Out        string  `required:"" help:"File to write the new assignment to." type:"path" placeholder:"FILE"`
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
	}
	return nil
}

// Run searches, writes the assignment, and prints what it costs.
func (r *rebalanceCommand) Run(ctx context.Context, s *streams) error {
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
