package choice_test

import (
	"testing"

	"berth/shared/choice"
)

func TestNearest(t *testing.T) {
	known := []string{"rack", "ecs.instance-type", "ecs.availability-zone", "disk"}
	for name, want := range map[string]string{
		"rak": "rack", "Rack": "rack", "arck": "rack", "ecs.instance-typ": "ecs.instance-type",
		"ecs.avaliability-zone": "ecs.availability-zone", "zone": "", "quite-different": "", "": "",
	} {
		if got := choice.Nearest(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// How many edits are a slip depends on the length: more of them make another word.
func TestNearestByLength(t *testing.T) {
	for _, c := range []struct {
		name, known string
		near        bool
	}{
		{"b", "a", false}, {"b2", "b1", true}, {"b2", "a1", false}, {"GB", "gb", true},
		{"wbe", "web", true}, {"wb", "web", true}, {"i-7", "i-1", true}, {"api", "web", false},
		{"node", "name", false}, {"disk", "rack", false}, {"blue", "green", false}, {"josn", "json", true},
		{"adaptve", "adaptive", true}, {"enabeld", "enabled", true}, {"enabled", "disabled", false},
		{"trails", "orders", false}, {"payment", "shipment", false},
		{"RebalanceClustr", "RebalanceCluster", true}, {"service-payments", "service-accounts", false},
		{"UpdateService", "DeleteService", false}, {"berth:domain-polcy", "berth:domain-policy", true},
		{"0123456789abcdef0123456789abcdzz", "0123456789abcdef0123456789abcdef", true},
		{"0123456789abcdef0123456789abcdef", "0123456789abcdef76543210fedcba98", false},
	} {
		want := ""
		if c.near {
			want = c.known
		}
		if got := choice.Nearest(c.name, []string{c.known}); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

func TestExpected(t *testing.T) {
	type color string
	for _, c := range []struct {
		text   string
		values []color
		want   string
	}{
		{"gren", []color{"red", "green", "blue"}, `expected red, green or blue; did you mean "green"?`},
		{"heavy", []color{"red", "green"}, "expected red or green."},
		{"heavy", []color{"red"}, "expected red."},
	} {
		if got := choice.Expected(c.text, c.values); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
