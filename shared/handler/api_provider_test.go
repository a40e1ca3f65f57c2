package handler_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

func TestAPI_CapacityProviderHasItsGroupAlone(t *testing.T) {
	t.Run("AtTheSameTime", func(t *testing.T) {
		w := newWorld(t)
		slow := another(w.api)
		slow.State = &afterGet{State: w.state, key: cluster.GroupUseKey("g"), then: func() {
			if _, err := w.api.CreateCapacityProvider(ctx, providerRow("fast", "g")); err != nil {
				t.Fatal(err)
			}
		}}
		_, err := slow.CreateCapacityProvider(ctx, providerRow("slow", "g"))
		wantCode(t, err, cluster.CodeClient, "already in use by the capacity provider fast")
	})
	t.Run("UntilItIsDeleted", func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"p", "q", "p"} {
			if _, err := w.api.CreateCapacityProvider(ctx, providerRow(name, "g")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.api.DeleteCapacityProvider(ctx, name); err != nil {
				t.Fatal(err)
			}
			use, err := w.state.Get(ctx, cluster.GroupUseKey("g"))
			want(t, "who has the group", fmt.Sprint(use, err), "<nil> <nil>")
		}
	})
}
