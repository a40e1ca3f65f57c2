package listing_test

import (
	"testing"

	"berth/cmd/berth/listing"
)

// The state of an instance is what limits its use most. An upgrade makes nodes unschedulable, and
// drains them one after the other.
func TestInstanceState(t *testing.T) {
	for _, c := range []struct {
		instance listing.Instance
		want     string
	}{
		{listing.Instance{Status: "ACTIVE", Connected: true}, "ACTIVE"},
		{listing.Instance{Status: "ACTIVE", Connected: true, Unschedulable: true}, "unschedulable"},
		{listing.Instance{Status: "DRAINING", Connected: true, Unschedulable: true}, "DRAINING"},
		{listing.Instance{Status: "DRAINING"}, "disconnected"},
	} {
		if got := c.instance.State(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.instance, got, c.want)
		}
	}
}
