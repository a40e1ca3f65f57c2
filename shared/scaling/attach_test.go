package scaling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

func scaledProvider(change func(*cluster.CapacityProvider)) *cluster.CapacityProvider {
	p := &cluster.CapacityProvider{Name: "spot", Group: "g", Scaling: cluster.DefaultScaling}
	p.Scaling.Enabled, p.Scaling.Target, p.Scaling.LowDatapoints = true, 80, 12
	change(p)
	return p
}

// A provider needs two alarms or a target tracking policy, never both, neither without managed
// scaling; what it needs changes with its settings (C1). It needs the hook for managed draining
// (C6).
func TestWantedAttachments(t *testing.T) {
	for _, c := range []struct {
		name           string
		change         func(*cluster.CapacityProvider)
		alarms, policy bool
	}{
		{"Alarms", func(*cluster.CapacityProvider) {}, true, false},
		{"Policy", func(p *cluster.CapacityProvider) { p.Scaling.TargetTracking = true }, false, true},
		{"Neither", func(p *cluster.CapacityProvider) { p.Scaling.Enabled = false }, false, false},
		{"NeitherThoughAPolicyIsSet", func(p *cluster.CapacityProvider) {
			p.Scaling.Enabled, p.Scaling.TargetTracking = false, true
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := scaledProvider(c.change)
			a := scaling.WantedAttachments("prod", "ns", p, &cluster.AutoScalingGroup{ARN: "arn:g"})
			expect(t, "alarms", a.Alarms != "", c.alarms)
			expect(t, "policy", a.Policy != "", c.policy)
			expect(t, "group", a.Group+" "+a.ARN, "g arn:g")
			expect(t, "hook", a.Hook, false)
			p.Draining = true
			expect(t, "hook of managed draining", scaling.WantedAttachments("prod", "ns", p, nil).Hook, true)
			p.Scaling.Target = 70
			b := scaling.WantedAttachments("prod", "ns", p, nil)
			expect(t, "alarms change with the target", a.Alarms != b.Alarms, c.alarms)
			expect(t, "the policy changes with the target", a.Policy != b.Policy, c.policy)
			expect(t, "without the group", b.ARN, "")
		})
	}
}

// One alarm is above the target for a datapoint, the other one below it for as many as a scale-in
// needs (C1, C5).
func TestMetricAlarms(t *testing.T) {
	alarms := scaling.MetricAlarms("prod", "ns", scaledProvider(func(*cluster.CapacityProvider) {}))
	low, high := cluster.ScalingAlarms("prod", "spot")
	if len(alarms) != 2 {
		t.Fatalf("%d alarms", len(alarms))
	}
	above, below := alarms[0], alarms[1]
	expect(t, "names", above.Name+" "+below.Name, high+" "+low)
	expect(t, "sides", [2]bool{above.Below, below.Below}, [2]bool{false, true})
	expect(t, "datapoints", [2]int{above.Times, below.Times}, [2]int{1, 12})
	expect(t, "thresholds", [2]float64{above.Threshold, below.Threshold}, [2]float64{80, 80})
}

// Each provider is renewed once in each hour, at a time of its own.
func TestRenewals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := rapid.StringMatching("[a-z]{1,8}").Draw(t, "provider")
		last := noon.Add(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "last")))
		if scaling.IsRenewalDue("prod", provider, last, last) ||
			!scaling.IsRenewalDue("prod", provider, last, last.Add(time.Hour)) {
			t.Fatal("it is due at once, or not after an hour")
		}
	})
	minutes := map[int]bool{}
	for n := range 40 {
		renewals, last := 0, noon
		for now := noon; !now.After(noon.Add(6 * time.Hour)); now = now.Add(time.Minute) {
			if scaling.IsRenewalDue("prod", fmt.Sprint("p", n), last, now) {
				renewals++
				minutes[now.Minute()] = true
				last = now
			}
		}
		expect(t, "renewals in six hours", renewals, 6)
	}
	if len(minutes) < 15 {
		t.Errorf("40 providers are renewed in %d minutes of the hour", len(minutes))
	}
}

// A provider that a cluster drops keeps the hook of its group while another cluster has it.
func TestUnneededProvider(t *testing.T) {
	p := &cluster.CapacityProvider{Name: "spot", Group: "g", Draining: true, Clusters: []string{"prod"}}
	hook := func(clusterName string, p *cluster.CapacityProvider, group string) bool {
		unneeded := scaling.UnneededProvider(clusterName, p, "spot", group)
		expect(t, "name", unneeded.Name+" "+unneeded.Group, "spot "+group)
		expect(t, "scaling", unneeded.Scaling.Enabled, false)
		return unneeded.Draining
	}
	expect(t, "of the only cluster", hook("prod", p, "g"), false)
	expect(t, "of another one", hook("test", p, "g"), true)
	expect(t, "of another group", hook("test", p, "h"), false)
	expect(t, "without a row", hook("test", nil, "g"), false)
	p.Draining = false
	expect(t, "without managed draining", hook("test", p, "g"), false)
}

// ECS's reasons for refusing a group (C6, C7).
func TestGroupProblem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*cluster.CapacityProvider)
		group  *cluster.AutoScalingGroup
		want   string
	}{
		{"Fine", func(*cluster.CapacityProvider) {}, &cluster.AutoScalingGroup{}, ""},
		{"NotThere", func(*cluster.CapacityProvider) {}, nil, "ARN is not valid"},
		{"WithoutProtection", func(p *cluster.CapacityProvider) { p.Protection = true }, &cluster.AutoScalingGroup{},
			"instance protection from scale in"},
		{"WithProtection", func(p *cluster.CapacityProvider) { p.Protection = true },
			&cluster.AutoScalingGroup{Protects: true}, ""},
		{"Weighted", func(*cluster.CapacityProvider) {}, &cluster.AutoScalingGroup{Name: "g", Weighted: true},
			"The Auto Scaling group g has instance weights"},
		{"WeightedWithoutScaling", func(p *cluster.CapacityProvider) { p.Scaling.Enabled = false },
			&cluster.AutoScalingGroup{Weighted: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := scaling.GroupProblem(scaledProvider(c.change), c.group)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An instance that managed draining holds gets a heartbeat half an hour after it was first seen, and then every
// half hour: the hook holds it for an hour (C6).
func TestHeartbeats(t *testing.T) {
	p := &cluster.CapacityProvider{Draining: true}
	g := &cluster.AutoScalingGroup{Instances: []cluster.GroupInstance{
		{ID: "i-new", Lifecycle: "Terminating:Wait"}, {ID: "i-held", Lifecycle: "Terminating:Wait"},
		{ID: "i-due", Lifecycle: "Terminating:Wait"}, {ID: "i-up", Lifecycle: "InService"},
		{ID: "i-ahead", Lifecycle: "Terminating:Wait"},
	}}
	old := map[string]time.Time{
		"i-held": noon.Add(-29 * time.Minute), "i-due": noon.Add(-30 * time.Minute), "i-gone": noon,
		"i-ahead": noon.Add(time.Hour), // by a clock that had jumped
	}
	beats, due := scaling.Heartbeats(p, g, old, noon)
	expect(t, "instances", len(beats), 4)
	expect(t, "new", beats["i-new"], noon)
	expect(t, "held", beats["i-held"], noon.Add(-29*time.Minute))
	expect(t, "due, until it is sent", beats["i-due"], noon.Add(-30*time.Minute))
	expect(t, "due", fmt.Sprint(due), "[i-due i-ahead]")
	beats, due = scaling.Heartbeats(&cluster.CapacityProvider{}, g, old, noon)
	expect(t, "without managed draining", beats == nil && due == nil, true)
}

// Of many instances that are due at once, those that have waited longest come first, and equals by id.
func TestHeartbeatsAreOrdered(t *testing.T) {
	p, g := &cluster.CapacityProvider{Draining: true}, &cluster.AutoScalingGroup{}
	old := map[string]time.Time{}
	for n := range 4 {
		id := fmt.Sprint("i-", n)
		g.Instances = append(g.Instances, cluster.GroupInstance{ID: id, Lifecycle: "Terminating:Wait"})
		old[id] = noon.Add(-30*time.Minute - time.Duration(n/2)*time.Second)
	}
	_, due := scaling.Heartbeats(p, g, old, noon)
	expect(t, "due", fmt.Sprint(due), "[i-2 i-3 i-0 i-1]")
}

// An event with a key is new until it has been emitted, and again after it did not hold for a
// while. One without a key is always new.
func TestNewEvents(t *testing.T) {
	events := func(keys ...string) (out []scaling.Event) {
		for _, k := range keys {
			out = append(out, scaling.Event{Key: k, Message: "m"})
		}
		return out
	}
	keys, unemitted := scaling.NewEvents([]string{"a", "gone"}, events("b", "a", "", "b"))
	expect(t, "keys", strings.Join(keys, " "), "a b")
	var got []string
	for _, e := range unemitted {
		got = append(got, e.Key)
	}
	expect(t, "new ones", slices.Equal(got, []string{"b", "", "b"}), true)
	_, unemitted = scaling.NewEvents(keys, events("gone"))
	expect(t, "that hold again", len(unemitted), 1)
}
