package nodegroup

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

const (
	// reconcileInterval is how often Next is called at least: by the schedule. Messages call it
	// sooner.
	reconcileInterval = time.Minute
	// pauseAfter is the time without a call after which all waits are extended by the gap.
	// Nothing could be replaced in it, so it must not make anything fail (static stability).
	pauseAfter = 5 * time.Minute
)

// cloneUpdate copies an update deeply enough that changing the copy does not change the original.
func cloneUpdate(u *cluster.Update) *cluster.Update {
	c := *u
	c.Errors, c.Removals = slices.Clone(u.Errors), slices.Clone(u.Removals)
	c.InitiallyUnready, c.UnhealthyBefore = slices.Clone(u.InitiallyUnready), slices.Clone(u.UnhealthyBefore)
	c.KnownMaxima, c.Refusals = slices.Clone(u.KnownMaxima), maps.Clone(u.Refusals)
	c.RetainedNodes, c.RetainedReasons = slices.Clone(u.RetainedNodes), slices.Clone(u.RetainedReasons)
	c.AbandonedNodes, c.Asked = slices.Clone(u.AbandonedNodes), slices.Clone(u.Asked)
	c.Denied, c.DrainedNodes = slices.Clone(u.Denied), slices.Clone(u.DrainedNodes)
	return &c
}

// enterPhase starts a phase, with its waiting still to begin.
func enterPhase(u *cluster.Update, p cluster.UpdatePhase) {
	if u.Phase != cluster.PhaseScaleDown {
		u.ObservedDesired = 0
	}
	u.Phase, u.WaitingSince = p, time.Time{}
}

// endUpdate ends the update, with the sizes that the group keeps and how often managed scaling has
// enlarged it. The sizes are nil if there is no group any more, the number if it is unknown.
func endUpdate(u *cluster.Update, final *cluster.Sizes, scaleOuts *int, s cluster.UpdateStatus, now time.Time) {
	u.Status, u.EndedAt, u.Removals, u.WaitingSince = s, now, nil, time.Time{}
	u.FinalSizes, u.FinalScaleOuts = final, scaleOuts
	u.Asked, u.Denied = nil, nil
}

// beginAgain lets the waits begin now that a clock which had jumped ahead has begun. They would
// otherwise last until the present clock gets there.
func beginAgain(u *cluster.Update, now time.Time) {
	starts := append(waitStarts(&u.UpdateProgress, &u.NodeReplacement), &u.ReconciledAt, &u.ScaleDownSince,
		&u.ReleasingSince)
	for _, start := range starts {
		if cluster.IsAhead(*start, now) {
			*start = now
		}
	}
}

// waitStarts returns when each wait of the update has begun.
func waitStarts(p *cluster.UpdateProgress, r *cluster.NodeReplacement) []*time.Time {
	starts := []*time.Time{&p.WaitingSince, &r.Shortage.Since, &r.StalledSince, &r.DomainReplacedAt}
	for i := range r.Removals {
		starts = append(starts, &r.Removals[i].StepSince, &r.Removals[i].DrainingAt)
	}
	return starts
}

// pauseWaits records that the update is being reconciled. A gap since the last time moves the start
// of every wait.
func pauseWaits(p *cluster.UpdateProgress, r *cluster.NodeReplacement, now time.Time) {
	gap := now.Sub(p.ReconciledAt)
	switch {
	case p.ReconciledAt.IsZero() || gap < 0:
		p.ReconciledAt = now
	case gap >= pauseAfter:
		p.ReconciledAt = now
		for _, start := range waitStarts(p, r) {
			if !start.IsZero() {
				*start = start.Add(gap)
			}
		}
	case gap >= reconcileInterval:
		p.ReconciledAt = now
	}
}
