package dispatch

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/quota"
	"berth/shared/state"
)

// leaseTokens takes up to want tokens for calls of one class from the bucket that StartTask and
// StopTask share in this account and Region, and returns how many it got.
//
// The bucket is one row: StartRate tokens a second flow in, and StartBurst is the most that it
// holds. With 40 a second and 100 at most, an idle account may start 1,000 tasks at once (100 calls
// of 10 tasks), and 400 a second after that. All clusters share it, because ECS's quota is per
// account. [quota.Lease] says what starts and stops get of it while both wait.
func (h *Handler) leaseTokens(ctx context.Context, class quota.Class, want int) (int, error) {
	const name = "start"
	key := state.Key{Cluster: state.Directory, Sort: state.PrefixBucket + name}
	limits := quota.Limits{Rate: h.Settings.StartRate, Burst: h.Settings.StartBurst}
	got := 0
	err := state.RetryRaces(ctx, h.Clock, "leasing tokens", func() error {
		row, err := h.State.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("reading the token bucket: %w", err)
		}
		now := h.Clock.Now()
		bucket := quota.NewBucket(name, now, limits)
		if old, ok := row.(*state.Bucket); ok && old != nil {
			bucket = *old
		}
		next, leased, changed := quota.Lease(bucket, class, want, now, limits)
		got = leased
		if !changed {
			return nil
		}
		next.Cluster = state.Directory
		next.Rev++
		_, err = h.State.Write(ctx, state.Write{Put: &next})
		return err
	})
	return got, cluster.Wrap(err, "leasing tokens")
}
