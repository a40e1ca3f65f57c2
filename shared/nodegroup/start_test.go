package nodegroup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

func TestStart(t *testing.T) {
	group := &cluster.NodeGroup{Head: cluster.Head{Cluster: "c"}, Name: "g",
		Config: cluster.UpdateConfig{MaxUnavailable: 3}}
	target := cluster.UpdateTarget{Image: newImage, Version: "1.31", SourceTemplate: "lt-1", SourceName: "mine",
		SourceVersion: "4"}
	u, err := nodegroup.StartUpdate(group, nodegroup.Request{ID: "u", Target: target,
		Waits: cluster.UpdateTimeouts{Cordon: time.Second}}, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := []cluster.UpdateParam{{Type: "Version", Value: "1.31"}, {Type: "LaunchTemplateName", Value: "mine"},
		{Type: "LaunchTemplateVersion", Value: "4"}}
	if diff := cmp.Diff(u.Params, want); diff != "" {
		t.Error(diff)
	}
	if w := u.Timeouts; u.Status != cluster.UpdateInProgress || u.Rev != 1 || w.Drain != 15*time.Minute ||
		w.Cordon != time.Second || w.Domain != 0 {
		t.Errorf("%+v", u)
	}
	labels := map[string]string{
		"eks.amazonaws.com/nodegroup-image": newImage, "eks.amazonaws.com/nodegroup": "g",
		"eks.amazonaws.com/sourceLaunchTemplateId": "lt-1", "eks.amazonaws.com/sourceLaunchTemplateVersion": "4",
	}
	if diff := cmp.Diff(nodegroup.TargetLabels(u), labels); diff != "" {
		t.Error(diff)
	}
	for name, c := range map[string]struct {
		config cluster.UpdateConfig
		target cluster.UpdateTarget
		last   *cluster.Update
		want   cluster.Code
	}{
		"InProgress": {target: target, last: u, want: cluster.CodeResourceInUse},
		"NoImage":    {want: cluster.CodeInvalidParameter},
		"Both": {config: cluster.UpdateConfig{MaxUnavailable: 1, MaxUnavailablePercentage: 1},
			target: target, want: cluster.CodeInvalidParameter},
		"TooMany": {config: cluster.UpdateConfig{MaxUnavailable: 101}, target: target,
			want: cluster.CodeInvalidParameter},
		"Negative": {config: cluster.UpdateConfig{MaxUnavailablePercentage: -1}, target: target,
			want: cluster.CodeInvalidParameter},
		"UnknownStrategy": {config: cluster.UpdateConfig{Strategy: "FAST"}, target: target,
			want: cluster.CodeInvalidParameter},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g", Config: c.config},
				nodegroup.Request{Target: c.target}, c.last, noon)
			if err == nil || cluster.ErrorCode(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// An update with the user's own launch template begins without its image, and waits until that is
// read.
func TestResolve(t *testing.T) {
	asked := cluster.UpdateTarget{SourceTemplate: "lt-1", SourceVersion: "$Default"}
	u, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g"}, nodegroup.Request{Target: asked}, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	g := nodegroup.Group{Template: "lt:1", PreparedTemplate: "lt:2", Sizes: cluster.Sizes{Max: 1, Desired: 1}}
	waits, actions := nodegroup.Next(u, g, nil, noon)
	if len(actions) > 0 || waits.Template != "" || waits.Phase != cluster.PhaseSetup {
		t.Errorf("without an image: %v, %+v", actions, waits)
	}
	found := cluster.UpdateTarget{Image: newImage, SourceTemplate: "lt-1", SourceName: "mine", SourceVersion: "4"}
	next := nodegroup.ResolveTarget(waits, found)
	want := []cluster.UpdateParam{{Type: "LaunchTemplateName", Value: "mine"},
		{Type: "LaunchTemplateVersion", Value: "4"}}
	if diff := cmp.Diff(want, next.Params); diff != "" || next.Target != found || waits.Target != asked {
		t.Errorf("target %+v, before %+v, parameters\n%s", next.Target, waits.Target, diff)
	}
	if nodegroup.ResolveTarget(next, asked) != next {
		t.Error("a target is changed twice")
	}
	if u, _ := nodegroup.Next(next, g, nil, noon); u.Template != "lt:2" {
		t.Errorf("template %q after the image was found", u.Template)
	}
}

// The version of a launch template that an update makes is found by its description. It is another
// one for another target, and for a template that the group launched before has been changed since,
// unless the version is made of the user's own template alone, image and all.
func TestTemplateVersionsAreDescribedByWhatTheyAreMadeOf(t *testing.T) {
	published := cluster.UpdateTarget{Image: newImage, AMIType: nodegroup.DefaultAMIType}
	joined := cluster.UpdateTarget{Image: newImage, AMIType: nodegroup.DefaultAMIType, SourceTemplate: "lt-own",
		SourceVersion: "4"}
	own := joined
	own.AMIType = nodegroup.CustomAMIType
	describe := func(target cluster.UpdateTarget, from string) string {
		u := &cluster.Update{NodeGroup: "g"}
		u.Target = target
		return nodegroup.TemplateDescription(u, from)
	}
	for name, c := range map[string]struct {
		target cluster.UpdateTarget
		same   bool
	}{
		"PublishedImage":     {published, false},
		"OwnTemplateJoined":  {joined, false},
		"OwnTemplateOnly":    {own, true},
		"OwnImageNoTemplate": {cluster.UpdateTarget{Image: newImage}, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := describe(c.target, "lt-1:1")
			if one != describe(c.target, "lt-1:1") {
				t.Error("an update that is repeated does not find its version")
			}
			if same := one == describe(c.target, "lt-1:2"); same != c.same {
				t.Errorf("made from another version, it is described alike: %v, want %v", same, c.same)
			}
			other := c.target
			if other.Image = "ami-other"; describe(other, "lt-1:1") == one {
				t.Error("another image is described alike")
			}
			if other = c.target; other.SourceTemplate != "" {
				if other.SourceVersion = "5"; describe(other, "lt-1:1") == one {
					t.Error("another version of the user's template is described alike")
				}
			}
		})
	}
}

// An update after one that did not restore the original sizes restores them, unless somebody has
// changed them since.
func TestSizesToRestore(t *testing.T) {
	for name, c := range map[string]struct {
		now, want cluster.Sizes
		floor     *int
	}{
		"Untouched": {now: cluster.Sizes{Min: 1, Max: 14, Desired: 13},
			want: cluster.Sizes{Min: 1, Max: 11, Desired: 9}},
		"DesiredChanged": {now: cluster.Sizes{Min: 1, Max: 14, Desired: 10},
			want: cluster.Sizes{Min: 1, Max: 11, Desired: 10}},
		"DesiredIsTooMuch": {now: cluster.Sizes{Min: 1, Max: 14, Desired: 14},
			want: cluster.Sizes{Min: 1, Max: 11, Desired: 11}},
		"MaximumChanged": {now: cluster.Sizes{Min: 1, Max: 20, Desired: 13},
			want: cluster.Sizes{Min: 1, Max: 20, Desired: 13}},
		"Yielded": {now: cluster.Sizes{Min: 1, Max: 14, Desired: 13},
			want: cluster.Sizes{Min: 1, Max: 11, Desired: 11}, floor: new(13)},
	} {
		t.Run(name, func(t *testing.T) {
			last := &cluster.Update{
				Status:         cluster.UpdateSuccessful,
				UpdateBaseline: cluster.UpdateBaseline{OriginalSizes: &cluster.Sizes{Min: 1, Max: 11, Desired: 9}},
				SurplusRemoval: cluster.SurplusRemoval{DesiredFloor: c.floor,
					FinalSizes: &cluster.Sizes{Min: 1, Max: 14, Desired: 13}},
			}
			u, err := nodegroup.StartUpdate(&cluster.NodeGroup{Name: "g"},
				nodegroup.Request{Target: cluster.UpdateTarget{Image: newImage}}, last, noon)
			if err != nil {
				t.Fatal(err)
			}
			u, _ = nodegroup.Next(u, nodegroup.Group{Sizes: c.now}, nil, noon)
			if *u.OriginalSizes != c.want {
				t.Errorf("%+v, want %+v", *u.OriginalSizes, c.want)
			}
		})
	}
}

// Parallelism (N1): 1 by default, a percentage rounded down, at least 1, at most 100.
func TestParallelism(t *testing.T) {
	for _, c := range []struct {
		config       cluster.UpdateConfig
		zones, nodes int // per zone
		want, surge  int
	}{
		{cluster.UpdateConfig{}, 2, 5, 1, 4},
		{cluster.UpdateConfig{MaxUnavailable: 7}, 2, 5, 7, 7},
		{cluster.UpdateConfig{MaxUnavailablePercentage: 33}, 2, 5, 3, 4},
		{cluster.UpdateConfig{MaxUnavailablePercentage: 1}, 2, 5, 1, 4},
		{cluster.UpdateConfig{MaxUnavailablePercentage: 100}, 1, 300, 100, 100},
		{cluster.UpdateConfig{MaxUnavailable: 7, Strategy: cluster.UpdateMinimal}, 2, 5, 7, 0},
	} {
		t.Run(fmt.Sprintf("%+v", c.config), func(t *testing.T) {
			w := newWorld(t, c.zones, c.nodes, c.config)
			w.begin()
			if u := w.look(everything); u.MaxUnavailable != c.want || u.Surge != c.surge {
				t.Errorf("%d at once, surge %d, want %d and %d", u.MaxUnavailable, u.Surge, c.want, c.surge)
			}
		})
	}
}
