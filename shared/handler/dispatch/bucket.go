package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"

	"berth/shared/cluster"
	"berth/shared/state"
)

// lease takes up to want calls from the account's token bucket for StartTask and StopTask and returns how many it got.
func (h *Handler) lease(ctx context.Context, want int) (int, error) {
	const name = "start"
	key := state.Key{Cluster: state.Directory, Sort: state.PrefixBucket + name}
	for range state.MaxRaces {
		row, err := h.State.Get(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("reading the token bucket: %w", err)
		}
		now := h.Clock.Now()
		next := state.Bucket{Head: cluster.Head{Cluster: state.Directory}, Name: name, Tokens: h.Settings.StartBurst, At: now}
		if old, ok := row.(*state.Bucket); ok && old != nil {
			next = *old
			// A clock that lags behind another's gives no tokens and takes none.
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
