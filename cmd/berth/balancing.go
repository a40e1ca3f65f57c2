package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/wire/berthapi"
)

// How long the moves may show no progress before the command gives up following them: some of the
// intervals at which placement looks, and longer while tasks move, which have to become healthy.
const (
	quietIntervals = 3
	movingTimeout  = 15 * time.Minute
)

// balancing follows the moves that Berth makes on request. Berth plans anew each time that it
// looks, so what is left may differ from the plan that was shown.
type balancing struct {
	command *rebalanceCommand
	client  *client.Client
	streams *streams
	last    balancingState
	at      time.Time // of the last look, by the scheduler's clock
	changed time.Time
	quiet   time.Duration
}

// balancingState is how far the moves are.
type balancingState struct {
	Moving   int     `json:"moving"`        // tasks now
	Left     int     `json:"left"`          // moves that are still worth it
	Unsteady int     `json:"unsteadyCount"` // services
	Distance float64 `json:"distance"`
}

// balanceCluster shows the moves, has Berth make them, and follows them.
func (r *rebalanceCommand) balanceCluster(ctx context.Context, s *streams) error {
	c, err := r.newClient(ctx)
	if err != nil {
		return err
	}
	b := &balancing{command: r, client: c, streams: s, changed: time.Now()}
	plan, err := b.look(ctx)
	if err != nil {
		return err
	}
	if err := printAnswer(s.out, r.JSON, plan); err != nil || len(plan.Moves) == 0 {
		return err
	}
	if err := c.CallBerth(ctx, "RebalanceCluster", berthapi.ClusterInput{Cluster: r.sourceFlags.clusterFlags.Cluster},
		&berthapi.RebalanceOutput{}); err != nil {
		return err
	}
	if r.NoWait {
		if !r.JSON {
			_, err = fmt.Fprintln(s.out, "Berth makes the moves; `berth rebalance --dry-run` shows what is left.")
		}
		return err
	}
	return b.follow(ctx)
}

// look reads the cluster and returns the moves that are worth it now.
func (b *balancing) look(ctx context.Context) (*whatif.BalanceAnswer, error) {
	src, err := readLiveCluster(ctx, b.client, b.command.sourceFlags.clusterFlags.Cluster, b.streams)
	if err != nil {
		return nil, err
	}
	b.at = src.readAt
	p := newProgress(b.streams.err, time.Now)
	defer p.clearReport()
	plan, err := b.command.planMoves(ctx, src, p)
	if err != nil {
		return nil, err
	}
	now := balancingState{Moving: whatif.MovingCount(src.snap), Left: len(plan.Moves), Unsteady: len(plan.Unsteady),
		Distance: plan.Before.Distance}
	if now != b.last {
		b.last, b.changed = now, time.Now()
	}
	b.quiet = quietIntervals * src.snap.Configuration.RebalancingOrDefault().IntervalTime()
	if b.last.Moving > 0 {
		b.quiet = max(b.quiet, movingTimeout)
	}
	return plan, nil
}

// follow looks until no task moves, every service is steady, so that its tasks may move, and no move
// is worth it. It waits some intervals for a service that is not steady, and no longer. Failures to read are
// retried: the moves do not depend on them.
func (b *balancing) follow(ctx context.Context) error {
	for again := (retries{log: b.streams.err, every: b.command.Every, hasLooked: true}); ; {
		if err := again.wait(ctx); err != nil {
			return b.reportInterrupted(err)
		}
		before := b.last
		plan, err := b.look(ctx)
		switch {
		case !again.goesOn(ctx, err):
			return b.reportInterrupted(cmp.Or(ctx.Err(), err))
		case err != nil:
			continue
		}
		if b.last != before {
			if err := b.printState(); err != nil {
				return err
			}
		}
		switch {
		case b.last.Moving+b.last.Left+b.last.Unsteady == 0:
			return nil
		case b.last.Moving+b.last.Left == 0 && time.Since(b.changed) > b.quiet:
			return plan.PrintUnsteady(b.streams.err)
		case time.Since(b.changed) > b.quiet:
			return fmt.Errorf("%d moves are left, and none was begun in %s: Berth makes way for drains and for tasks "+
				"that wait, and drops what gains little; `berth status` shows what waits", b.last.Left, b.quiet)
		}
	}
}

// printState writes how far the moves are.
func (b *balancing) printState() error {
	if b.command.JSON {
		return json.NewEncoder(b.streams.out).Encode(b.last)
	}
	_, err := fmt.Fprintf(b.streams.out, "%s  %s moving, %s left, distance %.4f\n",
		b.at.UTC().Format(time.TimeOnly), whatif.CountNoun(b.last.Moving, "task"),
		whatif.CountNoun(b.last.Left, "move"), b.last.Distance)
	return err
}

// reportInterrupted says that the moves continue without this command.
func (b *balancing) reportInterrupted(err error) error {
	fmt.Fprintln(b.streams.err, "The moves continue; `berth rebalance --apply` follows them again.")
	return err
}
