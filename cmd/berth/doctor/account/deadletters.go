package account

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"berth"
	"berth/cmd/berth/doctor"
	"berth/shared/operation"
)

// ReadDeadLetters returns the dead-letter queues of an installation that have messages, with when the
// oldest message of each came there, where CloudWatch says so. It makes a call for each queue, and
// two for the stack.
func ReadDeadLetters(ctx context.Context, o Options) (out []operation.DeadLetters, err error) {
	r := &reader{services: services{o}}
	stack, err := r.readStack(ctx)
	if err != nil {
		return nil, err
	}
	f := &doctor.Facts{Stack: *stack}
	if f.Plan, err = doctor.NewPlan(berth.Template, *stack); err != nil {
		return nil, err
	}
	f.Plan.KeepDeadLetters()
	r.readQueues(ctx, f)
	for _, id := range slices.Sorted(maps.Keys(f.Queues)) {
		q := f.Queues[id]
		if q.Err != nil {
			return out, fmt.Errorf("dead-letter queue %s: %w", id, q.Err)
		}
		if n := q.Got.Visible + q.Got.InFlight; n > 0 {
			letters := operation.DeadLetters{Queue: id, Messages: n, URL: q.Got.URL}
			if q.Got.OldestAge != nil {
				letters.Since = o.AWS.Now().Add(-*q.Got.OldestAge)
			}
			out = append(out, letters)
		}
	}
	return out, nil
}
