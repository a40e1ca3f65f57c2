package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"

	"berth/shared/cluster"
	"berth/shared/state"
)

// leaseTokens takes up to want tokens from the bucket that StartTask and StopTask share in this
// account and Region, and returns how many it got.
//
// The bucket is one row: StartRate tokens a second flow in, and StartBurst is the most that it
// holds. With 40 a second and 100 at most, an idle account may start 1,000 tasks at once (100 calls
// of 10 tasks), and 400 a second after that. All clusters share it, because ECS's quota is per
// account.
func (h *Handler) leaseTokens(ctx context.Context, want int) (int, error) {
	const name = "start"
	key := state.Key{Cluster: state.Directory, Sort: state.PrefixBucket + name}
	for range state.MaxRaces {
		row, err := h.State.Get(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("reading the token bucket: %w", err)
		}
		now := h.Clock.Now()
		next := state.Bucket{Head: cluster.Head{Cluster: state.Directory}, Name: name, Tokens: h.Settings.StartBurst,
			At: now}
		if old, ok := row.(*state.Bucket); ok && old != nil {
			next = *old
			// Clocks differ between environments. One that lags adds no tokens and removes none.
			if passed := now.Sub(old.At).Seconds(); passed > 0 {
				next.Tokens = math.Min(h.Settings.StartBurst, old.Tokens+passed*h.Settings.StartRate)
				next.At = now
			}
		}
		got := min(want, int(next.Tokens))
		if got <= 0 {
			return 0, nil
		}
		next.Rev++
		next.Tokens -= float64(got)
		_, err = h.State.Write(ctx, state.Write{Put: &next})
		var c *state.Conflict
		if !errors.As(err, &c) {
			return got, cluster.Wrap(err, "leasing tokens")
		}
	}
	return 0, nil
}
