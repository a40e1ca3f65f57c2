package service

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// Backoffs returns how far up the backoff ladder each revision of a service is (S7), by deployment
// id: what the throttle row says, if there is one, and what has happened to the tasks since.
//
// An attempt that failed is a task that stopped without ever having been RUNNING, started when the
// last delay was over. All tasks started before that count as one attempt. A task that has been
// RUNNING since ends the throttle. Delays vary by up to a tenth either way, always the same for the
// same revision and step, and never exceed the ladder's last.
//
// The same tasks again, in any order, change nothing. A failure that is reported late still
// counts. What lies ahead of now has been written by a clock that had jumped, and does not count.
func Backoffs(
	row *cluster.Throttle, tasks []*cluster.Task, l Limits, now time.Time,
) map[string]cluster.Backoff {
	backoffs := map[string]cluster.Backoff{}
	if row != nil {
		maps.Copy(backoffs, row.Revisions)
	}
	maps.DeleteFunc(backoffs, func(_ string, b cluster.Backoff) bool { return cluster.IsAhead(b.Since, now) })
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t *cluster.Task) bool {
		return t.NeverRan() && cluster.IsAhead(t.Stopped.Time(), now)
	})
	for _, t := range tasks {
		if _, known := backoffs[t.Revision]; !known && t.NeverRan() {
			backoffs[t.Revision] = cluster.Backoff{}
		}
	}
	for revision, outcomes := range outcomesOf(tasks, backoffs) {
		b := continueBackoff(backoffs[revision], outcomes, l)
		if b.Step == 0 {
			delete(backoffs, revision)
			continue
		}
		backoffs[revision] = b
	}
	return backoffs
}

// reportDelay is how late the report of a failed start may come and still be counted. The rows of
// stopped tasks are kept for longer than that.
const reportDelay = 30 * time.Minute

// continueBackoff applies outcomes to what the throttle row says.
func continueBackoff(b cluster.Backoff, outcomes []*outcome, l Limits) cluster.Backoff {
	if b.Settled.IsZero() {
		b.Earlier, b.Settled = b.Failures, b.Since
	}
	var failed []time.Time
	for _, o := range outcomes {
		switch b = applyOutcome(b, o, l); {
		case b.Step == 0: // what was before is over
			failed, b.Settled = nil, o.at
		case !o.ran && o.at.After(b.Settled):
			failed = append(failed, o.at)
		}
	}
	b.Failures = max(b.Failures, b.Earlier+len(failed))
	if len(failed) == 0 {
		return b
	}
	if until := failed[len(failed)-1].Add(-reportDelay); until.After(b.Settled) {
		for _, at := range failed {
			if !at.After(until) {
				b.Earlier++
			}
		}
		b.Settled = until
	}
	return b
}

// outcome is what became of one start: the task was RUNNING, or stopped without.
type outcome struct {
	at      time.Time
	started time.Time // when the start was claimed
	ran     bool
	task    *cluster.Task
}

// outcomesOf returns the outcomes of each revision that has a backoff, in order of time.
func outcomesOf(tasks []*cluster.Task, backoffs map[string]cluster.Backoff) map[string][]*outcome {
	if len(backoffs) == 0 {
		return nil
	}
	outcomes := map[string][]*outcome{}
	for _, t := range tasks {
		if _, ok := backoffs[t.Revision]; !ok {
			continue
		}
		switch {
		case !t.Started.IsZero():
			outcomes[t.Revision] = append(outcomes[t.Revision], &outcome{at: t.Started.Time(), ran: true, task: t})
		case t.NeverRan():
			started := cmp.Or(t.ClaimedAt, t.CreatedAt)
			outcomes[t.Revision] = append(outcomes[t.Revision],
				&outcome{at: t.Stopped.Time(), started: started.Time(), task: t})
		}
	}
	for _, of := range outcomes {
		slices.SortFunc(of, func(a, b *outcome) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.task.ID, b.task.ID))
		})
	}
	return outcomes
}

// applyOutcome returns the backoff after one more outcome.
func applyOutcome(b cluster.Backoff, o *outcome, l Limits) cluster.Backoff {
	switch {
	case o.ran && o.at.After(b.Since):
		return cluster.Backoff{}
	case o.ran || !b.Since.IsZero() && !o.at.After(b.Since):
		return b
	case b.Step > 0 && o.started.Before(b.NextAttemptAt):
		b.Since = o.at
		return b
	}
	b.Step++
	b.Since, b.Reason = o.at, o.task.Reason
	wait := withJitter(ladderDelay(l.BackoffLadder, b.Step), uint64(b.Step), o.task.Revision)
	b.NextAttemptAt = o.at.Add(min(wait, ladderDelay(l.BackoffLadder, len(l.BackoffLadder))))
	return b
}

// ladderDelay returns the delay after the n-th failed attempt in a row.
func ladderDelay(ladder []time.Duration, n int) time.Duration {
	if len(ladder) == 0 {
		return 0
	}
	return ladder[min(n, len(ladder))-1]
}

// withJitter returns d, up to a tenth longer or shorter. Seed and name decide how much.
func withJitter(d time.Duration, seed uint64, name string) time.Duration {
	fraction := float64(drawNumber(seed, name)>>11) / (1 << 53) // from 0 to 1
	return d - d/10 + time.Duration(float64(d)/5*fraction)
}

// drawNumber returns a number that seed and name decide.
func drawNumber(seed uint64, name string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for i := range b {
		b[i] = byte(seed >> (8 * i))
	}
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 33 // FNV mixes its last bytes poorly
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
