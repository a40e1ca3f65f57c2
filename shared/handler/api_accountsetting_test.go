package handler_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// Account settings are those of one installation: they last, and a removed one leaves nothing.
func TestAPI_AccountSettings(t *testing.T) {
	w := newWorld(t)
	s := w.api.AccountSettings
	read := func() string {
		all, err := s.AccountSettings(ctx)
		want(t, "error", err, nil)
		return fmt.Sprint(all)
	}
	want(t, "nothing set", read(), "map[]")
	want(t, "error", s.SetAccountSetting(ctx, "ann", "containerInsights", "enabled"), nil)
	want(t, "error", s.SetAccountSetting(ctx, "root", "containerInsights", "enhanced"), nil)
	want(t, "error", s.SetAccountSetting(ctx, "root", "containerInsights", "enhanced"), nil)
	want(t, "two", read(), "map[ann:map[containerInsights:enabled] root:map[containerInsights:enhanced]]")
	want(t, "error", s.SetAccountSetting(ctx, "ann", "containerInsights", ""), nil)
	want(t, "error", s.SetAccountSetting(ctx, "nobody", "containerInsights", ""), nil)
	want(t, "one", read(), "map[root:map[containerInsights:enhanced]]")
	for i := range 99 {
		want(t, "error", s.SetAccountSetting(ctx, fmt.Sprint(i), "containerInsights", "enabled"), nil)
	}
	wantCode(t, s.SetAccountSetting(ctx, "more", "containerInsights", "enabled"), cluster.CodeLimitExceeded, "100 principals")
}
