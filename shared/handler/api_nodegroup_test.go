package handler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// autoGroups are Auto Scaling groups and launch templates that node groups are made of.
type autoGroups struct {
	handler.AutoScaling
	groups    map[string]*cluster.AutoScalingGroup
	templates []cluster.LaunchTemplate // the last of an id is its $Default
	described map[int]string           // the descriptions of some
	calls     []string
	err       error // of the next call
	skip      int   // so many calls go well before
}

func (a *autoGroups) fail() error {
	if a.skip--; a.skip >= 0 {
		return nil
	}
	err := a.err
	a.err = nil
	return err
}

func (a *autoGroups) DescribeGroups(_ context.Context, names []string) (out []*cluster.AutoScalingGroup, err error) {
	for _, name := range names {
		if g := a.groups[name]; g != nil {
			copied := *g
			out = append(out, &copied)
		}
	}
	return out, a.fail()
}

func (a *autoGroups) SetSizes(_ context.Context, group string, s cluster.Sizes) error {
	if err := a.fail(); err != nil {
		return err
	}
	g := a.groups[group]
	g.Min, g.Max, g.Desired = s.Min, s.Max, s.Desired
	a.calls = append(a.calls, fmt.Sprint(group, s))
	return nil
}

func (a *autoGroups) UseTemplate(_ context.Context, group, template string) error {
	a.groups[group].Template = template
	return a.fail()
}

func (a *autoGroups) LaunchTemplate(_ context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	for _, t := range slices.Backward(a.templates) {
		if (t.ID == ref.ID || t.Name == ref.Name) && (ref.Version == "" || ref.Version == fmt.Sprint(t.Version)) {
			return &t, a.fail()
		}
	}
	return nil, cluster.Errorf("InvalidLaunchTemplateId.NotFound", "no %v", ref)
}

func (a *autoGroups) FindVersion(_ context.Context, template, description string) (*cluster.LaunchTemplate, error) {
	for k, d := range a.described {
		if d == description && a.templates[k].ID == template {
			return &a.templates[k], a.fail()
		}
	}
	return nil, a.fail()
}

func (a *autoGroups) CreateVersion(_ context.Context, v cluster.NewTemplateVersion) (*cluster.LaunchTemplate, error) {
	if err := a.fail(); err != nil {
		return nil, err
	}
	last := int64(0)
	for _, t := range a.templates {
		if t.ID == v.Template {
			last = max(last, t.Version)
		}
	}
	a.templates = append(a.templates, cluster.LaunchTemplate{ID: v.Template, Version: last + 1, Image: v.Image})
	a.described[len(a.templates)-1] = v.Description
	a.calls = append(a.calls, fmt.Sprint("version from ", v.From))
	return &a.templates[len(a.templates)-1], nil
}

// groupsOf is the API of node groups on two Auto Scaling groups of three instances, a and b, both of the template lt-1.
func groupsOf(w *world) (*handler.NodeGroups, *autoGroups) {
	a := &autoGroups{groups: map[string]*cluster.AutoScalingGroup{}, described: map[int]string{}}
	for _, name := range []string{"a", "b"} {
		a.groups[name] = &cluster.AutoScalingGroup{Name: name, Min: 1, Max: 5, Desired: 3, Template: "lt-1:4"}
	}
	a.groups["latest"] = &cluster.AutoScalingGroup{Name: "latest", Max: 1, Template: "lt-1:$Latest"}
	a.groups["plain"] = &cluster.AutoScalingGroup{Name: "plain", Max: 1}
	a.templates = []cluster.LaunchTemplate{
		{ID: "lt-1", Name: "nodes", Version: 4, Image: "ami-1"}, {ID: "lt-2", Name: "own", Version: 1, Image: "ami-7"},
		{ID: "lt-2", Name: "own", Version: 2, Image: "ami-8"}, {ID: "lt-3", Name: "bare", Version: 1},
	}
	return &handler.NodeGroups{API: w.api, Auto: a, Updates: sizes{a}, Templates: a}, a
}

// sizes adds what no test here needs.
type sizes struct{ *autoGroups }

func (sizes) FailedLaunches(context.Context, string, time.Time) ([]cluster.FailedLaunch, error) {
	return nil, nil
}

func spec(name, group string, change ...func(*cluster.NodeGroupSpec)) cluster.NodeGroupSpec {
	s := cluster.NodeGroupSpec{Cluster: prod, Name: name, AutoScalingGroup: group, Params: "p"}
	for _, f := range change {
		f(&s)
	}
	return s
}

func version(name, release, token string) cluster.VersionChange {
	return cluster.VersionChange{Cluster: prod, NodeGroup: name, ReleaseVersion: release, Token: token, Params: release}
}

func TestNodeGroups_Create(t *testing.T) {
	w := newWorld(t)
	n, auto := groupsOf(w)
	token := func(s *cluster.NodeGroupSpec) { s.Token = "t" }
	made, err := n.CreateNodeGroup(ctx, spec("web", "a", token))
	want(t, "error", err, nil)
	want(t, "status", made.Status, cluster.NodeGroupActive)
	want(t, "sizes", made.Sizes, cluster.Sizes{Min: 1, Max: 5, Desired: 3})
	want(t, "image", made.Target.Image, "ami-1")
	wantCount(t, "calls without sizes", auto.calls, 0)
	t.Run("GivesTheSameAgainForItsToken", func(t *testing.T) {
		got, err := n.CreateNodeGroup(ctx, spec("web", "a", token))
		want(t, "error", err, nil)
		want(t, "id", got.ID, made.ID)
		_, err = n.CreateNodeGroup(ctx, spec("web", "a", token, func(s *cluster.NodeGroupSpec) { s.Params = "q" }))
		wantCode(t, err, cluster.CodeResourceInUse, "NodeGroup already exists with name web and cluster name prod")
		_, err = n.CreateNodeGroup(ctx, spec("web", "a"))
		wantCode(t, err, cluster.CodeResourceInUse, "already exists")
	})
	t.Run("Refuses", func(t *testing.T) {
		_, err := n.CreateNodeGroup(ctx, spec("two", "a"))
		wantCode(t, err, cluster.CodeResourceInUse, "is node group web already")
		_, err = n.CreateNodeGroup(ctx, spec("two", "none"))
		wantCode(t, err, cluster.CodeInvalidParameter, "There is no Auto Scaling group none")
		_, err = n.CreateNodeGroup(ctx, spec("two", "plain"))
		wantCode(t, err, cluster.CodeInvalidParameter, "has no launch template")
		_, err = n.CreateNodeGroup(ctx, spec("two", "latest"))
		wantCode(t, err, cluster.CodeInvalidParameter, "must name a version")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *cluster.NodeGroupSpec) { s.Template = &cluster.TemplateRef{ID: "lt-9"} }))
		wantCode(t, err, cluster.CodeInvalidRequest, "InvalidLaunchTemplateId.NotFound")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *cluster.NodeGroupSpec) { s.Template = &cluster.TemplateRef{ID: "lt-3"} }))
		wantCode(t, err, cluster.CodeInvalidParameter, "names no image")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *cluster.NodeGroupSpec) { s.Config.MaxUnavailable = 101 }))
		wantCode(t, err, cluster.CodeInvalidParameter, "from 1 to 100")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *cluster.NodeGroupSpec) { s.Sizes = &cluster.Sizes{Min: 3, Max: 5, Desired: 2} }))
		wantCode(t, err, cluster.CodeInvalidParameter, "Minimum capacity 3 can't be greater than desired size 2")
		auto.err = nil
		_, err = n.CreateNodeGroup(ctx, cluster.NodeGroupSpec{Cluster: "nowhere", Name: "x", AutoScalingGroup: "b"})
		wantCode(t, err, cluster.CodeClusterNotFound, "")
		names, _, err := n.ListNodeGroups(ctx, cluster.NodeGroupQuery{Cluster: prod, Limit: 10})
		want(t, "left", fmt.Sprint(names, err), "[web] <nil>")
	})
	t.Run("TakesAnImageAndSizes", func(t *testing.T) {
		got, err := n.CreateNodeGroup(ctx, spec("own", "b", func(s *cluster.NodeGroupSpec) {
			s.Template, s.Sizes = &cluster.TemplateRef{Name: "own"}, &cluster.Sizes{Min: 0, Max: 9, Desired: 4}
		}))
		want(t, "error", err, nil)
		want(t, "target", got.Target, cluster.UpdateTarget{Image: "ami-8", SourceTemplate: "lt-2", SourceName: "own", SourceVersion: "2"})
		want(t, "calls", fmt.Sprint(auto.calls), "[b{0 9 4}]")
	})
	t.Run("ListsInPages", func(t *testing.T) {
		names, more, err := n.ListNodeGroups(ctx, cluster.NodeGroupQuery{Cluster: prod, Limit: 1})
		want(t, "first page", fmt.Sprint(names, more, err), "[own] true <nil>")
		names, more, err = n.ListNodeGroups(ctx, cluster.NodeGroupQuery{Cluster: prod, After: "own", Limit: 1})
		want(t, "second page", fmt.Sprint(names, more, err), "[web] false <nil>")
	})
}

func TestNodeGroups_UpdateVersion(t *testing.T) {
	w := newWorld(t)
	n, _ := groupsOf(w)
	for name, group := range map[string]string{"web": "a", "own": "b"} {
		if _, err := n.CreateNodeGroup(ctx, spec(name, group, func(s *cluster.NodeGroupSpec) {
			if name == "own" {
				s.Template = &cluster.TemplateRef{ID: "lt-2", Version: "1"}
			}
		})); err != nil {
			t.Fatal(err)
		}
	}
	_, err := n.UpdateNodeGroupVersion(ctx, version("web", "", ""))
	wantCode(t, err, cluster.CodeInvalidParameter, "must name a releaseVersion")
	_, err = n.UpdateNodeGroupVersion(ctx, version("none", "ami-2", ""))
	wantCode(t, err, cluster.CodeResourceNotFound, "No node group found for name: none.")
	u, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "t"))
	want(t, "error", err, nil)
	want(t, "update", fmt.Sprint(u.Status, " ", u.Type, " ", u.Target.Image, " ", u.Phase, " ", u.Params), "InProgress VersionUpdate ami-2 setup [{ReleaseVersion ami-2}]")
	g, err := n.NodeGroup(ctx, prod, "web")
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Update == u.ID, " ", g.Target.Image, " ", err), "UPDATING true ami-1 <nil>")
	t.Run("IsOneAtATime", func(t *testing.T) {
		again, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "t"))
		want(t, "error", err, nil)
		want(t, "id for the same token", again.ID, u.ID)
		_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-3", "t"))
		wantCode(t, err, cluster.CodeInvalidParameter, "other parameters")
		_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-3", ""))
		wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
		_, err = n.UpdateNodeGroupConfig(ctx, cluster.NodeGroupChange{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 2}})
		wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
		_, err = n.DeleteNodeGroup(ctx, prod, "web")
		wantCode(t, err, cluster.CodeResourceInUse, "in progress")
	})
	t.Run("LosesARaceForTheNodeGroup", func(t *testing.T) {
		var beaten bool
		raced := another(n.API)
		raced.State = &racedState{State: w.state, before: func(c cluster.Commit) {
			if !beaten {
				beaten = true
				if _, err := n.UpdateNodeGroupConfig(ctx, cluster.NodeGroupChange{Cluster: prod, NodeGroup: "own", Config: &cluster.UpdateConfig{MaxUnavailable: 3}}); err != nil {
					t.Error(err)
				}
			}
		}}
		second := *n
		second.API = raced
		_, err := second.UpdateNodeGroupVersion(ctx, cluster.VersionChange{Cluster: prod, NodeGroup: "own", Template: &cluster.TemplateRef{ID: "lt-2", Version: "2"}})
		wantCode(t, err, cluster.CodeResourceInUse, "changed by somebody else")
		g, _ := n.NodeGroup(ctx, prod, "own")
		want(t, "node group", fmt.Sprint(g.Status, " ", g.Config.MaxUnavailable, " ", g.Update), "ACTIVE 3 ")
	})
	t.Run("KeepsItsLaunchTemplate", func(t *testing.T) {
		change := version("web", "", "")
		change.Template = &cluster.TemplateRef{ID: "lt-2"}
		_, err := n.UpdateNodeGroupVersion(ctx, change)
		wantCode(t, err, cluster.CodeInvalidRequest, "was created without one")
		change = cluster.VersionChange{Cluster: prod, NodeGroup: "own", Template: &cluster.TemplateRef{ID: "lt-1"}}
		_, err = n.UpdateNodeGroupVersion(ctx, change)
		wantCode(t, err, cluster.CodeInvalidRequest, "only its version")
		_, err = n.UpdateNodeGroupVersion(ctx, version("own", "ami-9", ""))
		wantCode(t, err, cluster.CodeInvalidRequest, "the launch template names an image")
		change.Template = &cluster.TemplateRef{Name: "own", Version: "2"}
		got, err := n.UpdateNodeGroupVersion(ctx, change)
		want(t, "error", err, nil)
		want(t, "image", got.Target.Image, "ami-8")
	})
}

// racedState lets somebody else be first.
type racedState struct {
	handler.State
	before func(c cluster.Commit)
}

func (s *racedState) Commit(ctx context.Context, c cluster.Commit) error {
	s.before(c)
	return s.State.Commit(ctx, c)
}

func TestNodeGroups_UpdateConfigAndDelete(t *testing.T) {
	w := newWorld(t)
	n, auto := groupsOf(w)
	if _, err := n.CreateNodeGroup(ctx, spec("web", "a")); err != nil {
		t.Fatal(err)
	}
	auto.groups["a"].Desired = 4 // by managed scaling
	most := 8
	change := cluster.NodeGroupChange{
		Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Max: &most},
		Config: &cluster.UpdateConfig{MaxUnavailablePercentage: 50, Strategy: cluster.UpdateMinimal}, Token: "t", Params: "p",
	}
	u, err := n.UpdateNodeGroupConfig(ctx, change)
	want(t, "error", err, nil)
	want(t, "update", fmt.Sprint(u.Status, u.Type, u.Params), "SuccessfulConfigUpdate[{MaxSize 8} {MaxUnavailablePercentage 50} {UpdateStrategy MINIMAL}]")
	want(t, "group", fmt.Sprint(auto.calls), "[a{1 8 4}]")
	g, _ := n.NodeGroup(ctx, prod, "web")
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Sizes, g.Config, g.Update), "ACTIVE {1 8 4} {0 50 MINIMAL}")
	again, err := n.UpdateNodeGroupConfig(ctx, change)
	want(t, "again", fmt.Sprint(again.ID == u.ID, len(auto.calls), err), "true 1 <nil>")
	t.Run("KeepsTheStrategy", func(t *testing.T) {
		_, err := n.UpdateNodeGroupConfig(ctx, cluster.NodeGroupChange{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 2}})
		want(t, "error", err, nil)
		g, _ := n.NodeGroup(ctx, prod, "web")
		want(t, "config", g.Config, cluster.UpdateConfig{MaxUnavailable: 2, Strategy: cluster.UpdateMinimal})
	})
	t.Run("LeavesTheRowsWhereTheGroupIsNotResized", func(t *testing.T) {
		auto.err = cluster.Errorf("ScalingActivityInProgress", "not now")
		_, err := n.UpdateNodeGroupConfig(ctx, cluster.NodeGroupChange{Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Desired: new(5)}})
		wantCode(t, err, cluster.CodeInvalidRequest, "ScalingActivityInProgress: not now")
		_, err = n.UpdateNodeGroupConfig(ctx, cluster.NodeGroupChange{Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Desired: new(9)}})
		wantCode(t, err, cluster.CodeInvalidParameter, "desired capacity 9 can't be greater than max size 8")
		g, _ := n.NodeGroup(ctx, prod, "web")
		want(t, "sizes", g.Sizes, cluster.Sizes{Min: 1, Max: 8, Desired: 4})
	})
	ids, more, err := n.ListNodeGroupUpdates(ctx, cluster.NodeGroupQuery{Cluster: prod, NodeGroup: "web", Limit: 1})
	want(t, "updates", fmt.Sprint(len(ids), more, err), "1 true <nil>")
	got, err := n.NodeGroupUpdate(ctx, prod, "web", u.ID)
	want(t, "error", err, nil)
	want(t, "described", got.Digest, "p")
	_, err = n.NodeGroupUpdate(ctx, prod, "web", strings.Repeat("0", 36))
	wantCode(t, err, cluster.CodeResourceNotFound, "No update found for ID: 0000")

	gone, err := n.DeleteNodeGroup(ctx, prod, "web")
	want(t, "deleting", fmt.Sprint(gone.Status, " ", err), "DELETING <nil>")
	wantCount(t, "rows", append(toRows(rows[*cluster.NodeGroup](w, cluster.PrefixNodeGroup)), toRows(rows[*cluster.Update](w, cluster.PrefixUpdate))...), 0)
	want(t, "group that stays", auto.groups["a"].Desired, 4)
	_, err = n.DeleteNodeGroup(ctx, prod, "web")
	wantCode(t, err, cluster.CodeResourceNotFound, "")
}

func toRows[R cluster.Row](in []R) (out []cluster.Row) {
	for _, r := range in {
		out = append(out, r)
	}
	return out
}
