package reassign

import (
	"bufio"
	"fmt"
	"io"

	"berth/shared/placement/rebalance"
)

// A Result is what a search found.
type Result struct {
	Processes  int     `json:"processes"`
	Machines   int     `json:"machines"`
	Before     int64   `json:"costBefore"`
	After      int64   `json:"costAfter"`
	Moved      int     `json:"moved"`
	Steps      int64   `json:"steps"` // moves that the search tried
	Seconds    float64 `json:"seconds"`
	Plan       Plan    `json:"plan"`
	Assignment []int32 `json:"-"` // machine per process
}

// A Plan is the same as moves that are made one after the other.
type Plan struct {
	Moves     []Move `json:"moves"`
	Staged    int    `json:"staged"`
	Unplanned int    `json:"unplanned"`
	After     int64  `json:"costAfter"`
}

// A Move takes one process to another machine.
type Move struct {
	Process int32 `json:"process"`
	From    int32 `json:"from"`
	To      int32 `json:"to"`
	Gain    int64 `json:"gain"`
}

// Search looks for a good assignment within the budget, and for an order of the moves to it.
func Search(p *rebalance.Problem, b rebalance.Budget, seed uint64) (*Result, error) {
	found, err := rebalance.Search(p, b, seed)
	if err != nil {
		return nil, err
	}
	plan, err := rebalance.PlanMoves(p, found.Instances)
	if err != nil {
		return nil, err
	}
	out := &Result{
		Processes: len(p.Tasks), Machines: len(p.Instances), Before: found.Before, After: found.After,
		Moved: found.Moved,
		Steps: found.Steps, Assignment: found.Instances,
		Plan: Plan{Moves: make([]Move, len(plan.Moves)), Staged: plan.Staged, Unplanned: plan.Unplanned,
			After: plan.After},
	}
	for n, m := range plan.Moves {
		out.Plan.Moves[n] = Move{Process: m.Task, From: m.From, To: m.To, Gain: m.Gain}
	}
	return out, nil
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%d processes on %d machines, %d of them moved after %.1f s and %d steps
cost          %d, before %d
one by one    %d moves, %d of them to wait on another machine, lead to %d; no order was found for %d processes
`, r.Processes, r.Machines, r.Moved, r.Seconds, r.Steps, r.After, r.Before, len(r.Plan.Moves), r.Plan.Staged,
		r.Plan.After, r.Plan.Unplanned)
	return err
}

// WriteAssignment writes the machines of all processes in the challenge's format.
func (r *Result) WriteAssignment(w io.Writer) error {
	out := bufio.NewWriter(w)
	for t, i := range r.Assignment {
		if t > 0 {
			fmt.Fprint(out, " ")
		}
		fmt.Fprint(out, i)
	}
	fmt.Fprintln(out)
	return out.Flush()
}
