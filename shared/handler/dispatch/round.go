package dispatch

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// A round is one pass over one cluster's outbox: what it may still use, and what it learned about
// when to come back.
type round struct {
	*Handler
	cluster string
	now     time.Time // when the round began

	tokens        int                      // leased and not yet used
	tokensWanted  int                      // calls that the rest of the round may need
	bucketEmpty   bool                     // the bucket gives no more tokens in this round
	balancerCalls int                      // calls of Elastic Load Balancing and Cloud Map so far
	delays        map[string]time.Duration // deregistration delays, by target group

	progress   bool          // something was done
	nextRound  time.Duration // how long until another round is needed; 0: none is
	rowRetryIn time.Duration // the same for the row at hand
}

// retryIn asks for another round after wait, or sooner if one was asked for sooner.
func (r *round) retryIn(wait time.Duration) {
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

// takeToken takes the token of one StartTask or StopTask. It leases as many tokens as the rest of
// the round may need, in one write. False means that the bucket is empty and the rest has to wait.
func (r *round) takeToken(ctx context.Context) bool {
	if r.isOutOfTime(ctx) {
		r.bucketEmpty, r.tokens = true, 0
	}
	if r.tokens == 0 && !r.bucketEmpty {
		got, err := r.leaseTokens(ctx, max(1, r.tokensWanted))
		if err != nil {
			handler.Logger(r.Log).Error("leasing tokens", "cluster", r.cluster, "error", err)
		}
		r.tokens, r.bucketEmpty = got, got == 0
	}
	if r.tokens == 0 {
		r.retryIn(time.Second)
		return false
	}
	r.tokens--
	r.tokensWanted--
	return true
}

// returnToken gives back a token that was taken and not used.
func (r *round) returnToken() { r.tokens++ }

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

// newObserver returns an observer as of now.
func (h *Handler) newObserver() *observe.Observer {
	return &observe.Observer{State: h.State, Now: h.Clock.Now(), Settings: h.Settings.Settings,
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
