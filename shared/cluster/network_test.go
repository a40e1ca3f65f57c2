package cluster_test

import (
	"testing"

	"berth/shared/cluster"
)

func TestSetENIs(t *testing.T) {
	for name, c := range map[string]struct {
		attribute  string
		registered *int
		want       int // -1 for unknown
	}{
		"Attribute":  {"3", nil, 3},
		"Registered": {"3", new(2), 2},
		"Neither":    {"", nil, -1},
		"NoNumber":   {"many", nil, -1},
		"Negative":   {"-1", nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			i := &cluster.Instance{Attributes: map[string]string{cluster.AttributeENIs: c.attribute}}
			i.Registered.ENIs = c.registered
			i.SetENIs()
			got := -1
			if i.Registered.ENIs != nil {
				got = *i.Registered.ENIs
			}
			expect(t, "interfaces", got, c.want)
		})
	}
}
