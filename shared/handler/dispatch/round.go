package dispatch

import (
	"context"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/quota"
	"berth/shared/state"
)

// A round is one pass over one cluster's outbox: what it may still use, and what it learned about
// when to come back.
type round struct {
	*Handler
	State   *state.Feed // on the handler's: it announces to placement what the round records
	cluster string
	now     time.Time // when the round began

	taking        sync.Mutex // guards what is taken of the shares
	shares        [quota.Classes]tokenShare
	row           string                   // id of the row at hand
	balancerCalls int                      // calls of Elastic Load Balancing and Cloud Map so far
	delays        map[string]time.Duration // deregistration delays, by target group

	progress bool // something was done

	// mu guards what else calls that run at the same time change: the fields below, and the handler's
	// memory of refused attempts.
	mu         sync.Mutex
	nextRound  time.Duration // how long until another round is needed; 0: none is
	rowRetryIn time.Duration // the same for the row at hand
}

// retryIn asks for another round after wait, or sooner if one was asked for sooner.
func (r *round) retryIn(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nextRound == 0 || wait < r.nextRound {
		r.nextRound = wait
	}
	if r.rowRetryIn == 0 || wait < r.rowRetryIn {
		r.rowRetryIn = wait
	}
}

// isOutOfTime reports whether the invocation is about to end.
func (r *round) isOutOfTime(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && end.Sub(r.Clock.Now()) < handler.Reserve
}

// A tokenShare is what the rows of a round may use of one class of calls.
type tokenShare struct {
	rows    []string // ids, as demands
	demands []quota.Demand
	leased  bool
	isEmpty bool           // the bucket gives no more tokens in this round
	allowed map[string]int // by row, tokens that are leased and not yet used
	isShort map[string]bool
}

// addDemand notes how many calls of a class a row may need.
func (r *round) addDemand(class quota.Class, row string, d quota.Demand) {
	s := &r.shares[class]
	s.rows, s.demands = append(s.rows, row), append(s.demands, d)
}

// leaseShares leases the tokens that the round may need of a class, in one write, and divides them
// among its rows.
func (r *round) leaseShares(ctx context.Context, class quota.Class) {
	s, want := &r.shares[class], 0
	for _, d := range s.demands {
		want += d.Calls
	}
	got := r.tryLease(ctx, class, want)
	s.leased, s.allowed, s.isShort = true, map[string]int{}, map[string]bool{}
	for i, n := range quota.Divide(s.demands, got, r.now.Unix()) {
		s.allowed[s.rows[i]], s.isShort[s.rows[i]] = n, n < s.demands[i].Calls
	}
}

// tryLease leases tokens. A failure is as good as an empty bucket: the next round tries again.
func (r *round) tryLease(ctx context.Context, class quota.Class, want int) int {
	if want == 0 || r.shares[class].isEmpty {
		return 0
	}
	got, err := r.leaseTokens(ctx, class, want)
	if err != nil {
		handler.Logger(r.Log).Error("leasing tokens", "cluster", r.cluster, "error", err)
	}
	r.shares[class].isEmpty = got < want
	return got
}

// takeToken takes the token of one StartTask or StopTask for the row at hand. False means that the
// row has used up its share, and the rest of it has to wait.
func (r *round) takeToken(ctx context.Context, class quota.Class) bool {
	r.taking.Lock()
	defer r.taking.Unlock()
	s := &r.shares[class]
	if r.isOutOfTime(ctx) {
		s.leased, s.isEmpty, s.allowed = true, true, map[string]int{}
	}
	if !s.leased {
		r.leaseShares(ctx, class)
	}
	if s.allowed[r.row] == 0 && !s.isShort[r.row] { // it needs more calls than it seemed
		s.allowed[r.row] = r.tryLease(ctx, class, 1)
	}
	if s.allowed[r.row] == 0 {
		r.retryIn(time.Second)
		return false
	}
	s.allowed[r.row]--
	return true
}

// returnToken gives back a token that was taken and not used.
func (r *round) returnToken(class quota.Class) {
	r.taking.Lock()
	defer r.taking.Unlock()
	r.shares[class].allowed[r.row]++
}

// refusedAttempt returns the attempt at a start that ECS certainly did not carry out, 0 if there is
// none.
func (r *round) refusedAttempt(task state.Key) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[task]
}

// setRefusedAttempt remembers the attempt of a start that ECS certainly did not carry out; 0 forgets
// it.
func (r *round) setRefusedAttempt(task state.Key, attempt int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if attempt == 0 {
		delete(r.refused, task)
		return
	}
	if r.refused == nil {
		r.refused = map[state.Key]int32{}
	}
	r.refused[task] = attempt
}

// takeBalancerCall counts one call of Elastic Load Balancing or Cloud Map against
// [maxBalancerCalls]. False means that the rest has to wait.
func (r *round) takeBalancerCall(ctx context.Context) bool {
	if r.balancerCalls >= maxBalancerCalls || r.isOutOfTime(ctx) {
		r.retryIn(time.Second)
		return false
	}
	r.balancerCalls++
	return true
}

// newObserver returns an observer as of now that writes to feed.
func (h *Handler) newObserver(feed *state.Feed) *observe.Observer {
	return &observe.Observer{State: feed, Clock: h.Clock, Now: h.Clock.Now(), Settings: h.Settings.Settings,
		Log: handler.Logger(h.Log)}
}

// stoppedObservation returns the write that records a task as STOPPED which ECS does not have. Its
// version is the next one, so that an older report of ECS's about the task still loses.
func stoppedObservation(r *round, t *cluster.Task, code, reason string) *state.Observation {
	return &state.Observation{
		Task: state.KeyOf(t), Version: t.Version + 1, Last: cluster.TaskStopped, Stopped: r.now, StopCode: code,
		Reason: reason, Expires: r.now.Add(r.Settings.KeepStopped).Unix(),
	}
}

// accessDeniedDelay is how long to wait after a call that IAM has denied: a policy may be corrected
// at any time, but hardly within a second.
const accessDeniedDelay = 30 * time.Second
