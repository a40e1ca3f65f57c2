package service

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"berth/shared/cluster"
)

// Backoffs says how far up the ladder of delays each revision of a service is (S7), by deployment id: what the row says,
// nil for no row, and what has happened since to the tasks. An attempt that failed is a task that stopped without ever
// RUNNING and was begun when the last delay was over: all that were begun before it count as the same attempt. A task that
// came to be RUNNING since ends the throttle. Delays differ by up to a tenth either way, always the same for the same revision and
// step, and are never longer than the ladder's last. The same tasks again, or in another order, change nothing; one of whose end was heard
// late counts among the failures all the same.
func Backoffs(row *cluster.Throttle, tasks []*cluster.Task, l Limits) map[string]cluster.Backoff {
	out := map[string]cluster.Backoff{}
	if row != nil {
		for id, b := range row.Revisions {
			out[id] = b
		}
	}
	for _, t := range tasks {
		if _, known := out[t.Revision]; !known && t.NeverRan() {
			out[t.Revision] = cluster.Backoff{}
		}
	}
	for _, h := range histories(tasks, out) {
		b := h.follow(out[h.revision], l)
		if b.Step == 0 {
			delete(out, h.revision)
			continue
		}
		out[h.revision] = b
	}
	return out
}

// settles is how late a report may come and be counted: less than the rows of stopped tasks are kept.
const settles = 30 * time.Minute

// follow goes on from what the row says.
func (h history) follow(b cluster.Backoff, l Limits) cluster.Backoff {
	if b.Settled.IsZero() {
		b.Earlier, b.Settled = b.Failures, b.Since
	}
	var failed []time.Time
	for _, e := range h.ends {
		switch b = climb(b, e, l); {
		case b.Step == 0: // what was before is over
			failed, b.Settled = nil, e.at
		case !e.ran && e.at.After(b.Settled):
			failed = append(failed, e.at)
		}
	}
	b.Failures = max(b.Failures, b.Earlier+len(failed))
	if len(failed) == 0 {
		return b
	}
	if until := failed[len(failed)-1].Add(-settles); until.After(b.Settled) {
		for _, at := range failed {
			if !at.After(until) {
				b.Earlier++
			}
		}
		b.Settled = until
	}
	return b
}

// end is what became of one task: it came to be RUNNING, or it stopped without.
type end struct {
	at    time.Time
	began time.Time
	ran   bool
	task  *cluster.Task
}

type history struct {
	revision string
	ends     []end
}

// histories are what became of the tasks of each of the revisions, in order of time.
func histories(tasks []*cluster.Task, of map[string]cluster.Backoff) []history {
	if len(of) == 0 {
		return nil
	}
	by := map[string][]end{}
	for _, t := range tasks {
		if _, ok := of[t.Revision]; !ok {
			continue
		}
		switch {
		case !t.Started.IsZero():
			by[t.Revision] = append(by[t.Revision], end{at: t.Started.Time(), ran: true, task: t})
		case t.NeverRan():
			began := cmp.Or(t.ClaimedAt, t.CreatedAt)
			by[t.Revision] = append(by[t.Revision], end{at: t.Stopped.Time(), began: began.Time(), task: t})
		}
	}
	out := make([]history, 0, len(by))
	for revision, ends := range by {
		slices.SortFunc(ends, func(a, b end) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.task.ID, b.task.ID))
		})
		out = append(out, history{revision, ends})
	}
	return out
}

func climb(b cluster.Backoff, e end, l Limits) cluster.Backoff {
	switch {
	case e.ran && e.at.After(b.Since):
		return cluster.Backoff{}
	case e.ran || !b.Since.IsZero() && !e.at.After(b.Since):
		return b
	case b.Step > 0 && e.began.Before(b.NextAttemptAt):
		b.Since = e.at
		return b
	}
	b.Step++
	b.Since, b.Reason = e.at, e.task.Reason
	wait := jitter(delay(l.BackoffLadder, b.Step), uint64(b.Step), e.task.Revision)
	b.NextAttemptAt = e.at.Add(min(wait, delay(l.BackoffLadder, len(l.BackoffLadder))))
	return b
}

// delay is that after the n-th attempt in a row that failed.
func delay(ladder []time.Duration, n int) time.Duration {
	if len(ladder) == 0 {
		return 0
	}
	return ladder[min(n, len(ladder))-1]
}

// jitter is d, up to a tenth more or less.
func jitter(d time.Duration, seed uint64, of string) time.Duration {
	return d - d/10 + time.Duration(float64(d)/5*unit(seed, of))
}

// unit is a number from 0 to 1 that the seed and the name decide.
func unit(seed uint64, of string) float64 { return float64(draw(seed, of)>>11) / (1 << 53) }

// draw is a number that the seed and the name decide.
func draw(seed uint64, of string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for i := range b {
		b[i] = byte(seed >> (8 * i))
	}
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(of))
	x := h.Sum64()
	x ^= x >> 33 // FNV mixes its last bytes little
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
