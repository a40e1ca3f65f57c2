package spelling_test

import (
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/spelling"
)

// namesOf has the names of snapOf.
func namesOf() *spelling.Names { return spelling.NewNames(snapOf(), "steady") }

// snapOf has one instance in rack r1 with the property Disk, a taint and a capacity of connections.
func snapOf() *snapshot.Snapshot {
	snap := snapshot.NewSnapshot()
	snap.Put(&cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: "n-1", Status: cluster.InstanceActive, AgentConnected: true,
		Attributes: map[string]string{"rack": "r1", cluster.PropertyPrefix + "Disk": "ssd",
			cluster.AttributeTaints: "dedicated:gpu:NO_SCHEDULE"}, Provider: "spot",
		Registered: cluster.Capacity{Metrics: map[string]int64{"connections": 100}},
	})
	snap.Put(&cluster.TaskDefinition{Head: cluster.Head{Cluster: "c", Rev: 1}, Family: "web", Revision: 1})
	return snap
}

func TestCheckRules(t *testing.T) {
	memberOf := func(text string) cluster.Rules {
		return cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: text}}}
	}
	tolerating := func(key string) cluster.Rules {
		return cluster.Rules{Tolerations: []cluster.Toleration{{Key: key, AnyValue: true}}}
	}
	spread := cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategySpread,
		Field: "attribute:rak"}}}
	for _, c := range []struct {
		name      string
		rules     cluster.Rules
		providers []cluster.ProviderShare
		want      string // empty: nothing is unknown
	}{
		{"Known", memberOf("attribute:rack == r1"), nil, ""},
		{"Attribute", memberOf("attribute:rak == r1"), nil,
			`no instance has the attribute "rak"; the nearest attribute is "rack"`},
		{"Value", memberOf("attribute:rack == r2"), nil,
			`no instance has the value "r2" of the attribute "rack"; the nearest value is "r1"`},
		{"OneOfTheValues", memberOf("attribute:rack in [r1, r2]"), nil, ""},
		{"Negated", memberOf("not (attribute:rak == r1)"), nil, ""},
		{"Spread", spread, nil, `no instance has the attribute "rak"; the nearest attribute is "rack"`},
		{"Property", cluster.Rules{NodeConstraint: "Disc == ssd"}, nil,
			`no instance has the property "Disc"; the nearest property is "Disk"`},
		{"MisspelledBuiltInProperty", cluster.Rules{NodeConstraint: "NodeTyp == Blue"}, nil,
			`no instance has the property "NodeTyp"; the nearest property is "NodeType"`},
		{"ValueOfABuiltInProperty", cluster.Rules{NodeConstraint: "NodeType == Blue"}, nil,
			`no instance has the value "Blue" of the property "NodeType"`},
		{"BuiltInProperty", cluster.Rules{NodeConstraint: "NodeName == n-1"}, nil, ""},
		{"Metric", cluster.Rules{Metrics: []cluster.Metric{{Name: "conections"}}}, nil,
			`no instance has the metric "conections"; the nearest metric is "connections"`},
		{"Taint", tolerating("dedicatd"), nil, `no instance has the taint "dedicatd"; the nearest taint is "dedicated"`},
		{"KnownTaint", tolerating("dedicated"), nil, ""},
		{"TaintOfAnEmptyGroup", tolerating("spot"), nil, ""},
		{"AnyTaint", tolerating(""), nil, ""},
		{"Provider", cluster.Rules{}, []cluster.ProviderShare{{Provider: "sport"}},
			`the cluster has no capacity provider "sport"; the nearest capacity provider is "spot"`},
		{"ProviderWithoutInstances", cluster.Rules{}, []cluster.ProviderShare{{Provider: "steady"}}, ""},
		{"Fargate", cluster.Rules{}, []cluster.ProviderShare{{Provider: "FARGATE"}}, ""},
		{"NothingIsNear", memberOf("attribute:turbo exists"), nil, `no instance has the attribute "turbo"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, u := range namesOf().CheckRules(c.rules, c.providers) {
				got += u.String()
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The unknown name or value is replaced where it stands, and nowhere else.
func TestCorrected(t *testing.T) {
	attribute := func(name, value, nearest, within string) spelling.Unknown {
		return spelling.Unknown{Kind: "attribute", Name: name, Value: value, Nearest: nearest, Within: within}
	}
	for want, u := range map[string]spelling.Unknown{
		"attribute:rack == r1":                            attribute("rak", "", "rack", "attribute:rak == r1"),
		"attribute:rack == a1":                            attribute("rack", "a", "a1", "attribute:rack == a"),
		"attribute:rack=='a1'":                            attribute("rack", "a", "a1", "attribute:rack=='a'"),
		"attribute:rack == rak":                           attribute("rak", "", "rack", "attribute:rak == rak"),
		"attribute:type == m5 and attribute:type == c5":   attribute("typ", "", "type", "attribute:type == m5 and attribute:typ == c5"),
		"attribute:zone == a or attribute:rack in [a1,b]": attribute("rack", "a", "a1", "attribute:zone == a or attribute:rack in [a,b]"),
		"(Attribute:rack exists) and attribute:rack == 1": attribute("rak", "", "rack", "(Attribute:rak exists) and attribute:rak == 1"),
		"Disk == Disc && Tier >= 2":                       {Kind: "property", Name: "Disc", Nearest: "Disk", Within: "Disc == Disc && Tier >= 2"},
		"(Tier == ssd||Disk == ssd)": {Kind: "property", Name: "Disk", Value: "sd", Nearest: "ssd",
			Within: "(Tier == ssd||Disk == sd)"},
		"": attribute("rak", "", "", "attribute:rak == r1"),
	} {
		if got := u.Corrected(); got != want {
			t.Errorf("%s: %q, want %q", u.Within, got, want)
		}
	}
}

func TestCheckFamily(t *testing.T) {
	for definition, want := range map[string][]string{
		"web:3": nil, "wep:1": {`the cluster has no family "wep"; the nearest family is "web"`}, "batch": nil,
	} {
		var got []string
		for _, u := range namesOf().CheckFamily(definition) {
			got = append(got, u.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", definition, got, want)
		}
	}
}

// Constraints are compared with what the instances have.
func TestCheckConstraints(t *testing.T) {
	snap := snapOf()
	rules := func(text string) cluster.Rules {
		return cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: text}}}
	}
	for _, c := range []struct {
		rules cluster.Rules
		want  string
	}{
		{rules("attribute:rack == r1"), ""},
		{rules("not (attribute:rak == r1)"), ""},
		{rules("attribute:rak == r1"), `no instance has the attribute "rak"; the nearest attribute is "rack"`},
		{rules("attribute:rack == r1 and attribute:rack == r9"),
			`no instance has the value "r9" of the attribute "rack"; the nearest value is "r1"`},
		{cluster.Rules{NodeConstraint: "Disc == ssd"},
			`no instance has the property "Disc"; the nearest property is "Disk"`},
		{cluster.Rules{NodeConstraint: "Disk == ssd"}, ""},
	} {
		if got := spelling.List(spelling.CheckConstraints(snap, c.rules)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.rules, got, c.want)
		}
	}
}

// What has no effect is found the same way, with the nearest names and without.
func TestIdleNames(t *testing.T) {
	snap := snapOf()
	for _, c := range []struct {
		rules cluster.Rules
		names []string
		want  string
	}{
		{cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "instanceId"},
			{Type: cluster.StrategySpread, Field: "attribute:rack"}}}, nil, ""},
		{cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "attribute:rak"}}},
			[]string{"attribute:rak"}, `no instance has the attribute "rak"; the nearest attribute is "rack"`},
		{cluster.Rules{Metrics: []cluster.Metric{{Name: "connections"}, {Name: "conections"}}}, []string{"conections"},
			`no instance has the metric "conections"; the nearest metric is "connections"`},
	} {
		if got := spelling.IdleNames(snap, c.rules); !slices.Equal(got, c.names) {
			t.Errorf("%+v: %q, want %q", c.rules, got, c.names)
		}
		if got := spelling.List(spelling.CheckIdle(snap, c.rules)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.rules, got, c.want)
		}
	}
	empty := snapshot.NewSnapshot()
	if got := spelling.IdleNames(empty, cluster.Rules{Metrics: []cluster.Metric{{Name: "m"}},
		Strategies: []cluster.PlacementStrategy{{Field: "attribute:rak"}}}); len(got) > 0 {
		t.Errorf("a cluster without instances: %q", got)
	}
}
