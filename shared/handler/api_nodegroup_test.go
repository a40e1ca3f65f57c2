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
	"berth/shared/handler/api"
	"berth/shared/handler/nodegroupupgrade"
	"berth/shared/operation"
	"berth/shared/state"
)

// autoGroups has the Auto Scaling groups and launch templates that node groups are made of.
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

// SetSizes moves a desired capacity that is not given between minimum and maximum, as Auto Scaling
// does.
func (a *autoGroups) SetSizes(_ context.Context, group string, c cluster.SizesChange) error {
	if err := a.fail(); err != nil {
		return err
	}
	g := a.groups[group]
	present := cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired}
	if c.Min != nil {
		present.Desired = max(present.Desired, *c.Min)
	}
	if c.Max != nil {
		present.Desired = min(present.Desired, *c.Max)
	}
	s, err := c.ApplyTo(present)
	if err != nil {
		return err
	}
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

// groupsOf returns the node group API over three Auto Scaling groups a, b and c of three instances
// each, all with the template lt-1, and the function that carries out what it writes.
func groupsOf(w *world) (*nodeAPI, *autoGroups) {
	a := &autoGroups{groups: map[string]*cluster.AutoScalingGroup{}, described: map[int]string{}}
	for _, name := range []string{"a", "b", "c"} {
		a.groups[name] = &cluster.AutoScalingGroup{Name: name, Min: 1, Max: 5, Desired: 3, Template: "lt-1:4"}
	}
	a.groups["latest"] = &cluster.AutoScalingGroup{Name: "latest", Max: 1, Template: "lt-1:$Latest"}
	a.groups["plain"] = &cluster.AutoScalingGroup{Name: "plain", Max: 1}
	a.templates = []cluster.LaunchTemplate{
		{ID: "lt-1", Name: "nodes", Version: 4, Image: "ami-1"}, {ID: "lt-2", Name: "own", Version: 1, Image: "ami-7"},
		{ID: "lt-2", Name: "own", Version: 2, Image: "ami-8"}, {ID: "lt-3", Name: "bare", Version: 1},
	}
	n := &nodeAPI{NodeGroups: w.api.NodeGroups, t: w.t}
	n.function = &nodegroupupgrade.Handler{
		State: w.state, ECS: w.ecs, Auto: a, Updates: sizes{a}, Templates: a, Clock: w.clock, Settings: handler.DefaultSettings(),
	}
	return n, a
}

// nodeAPI is the API with the function behind it.
type nodeAPI struct {
	*api.NodeGroups
	function *nodegroupupgrade.Handler
	t        testing.TB
}

// look runs the function once.
func (n *nodeAPI) look() {
	n.t.Helper()
	if err := n.function.RunSchedule(ctx, "node-groups"); err != nil {
		n.t.Fatal(err)
	}
}

// made creates a node group and runs the function once.
func (n *nodeAPI) made(s operation.CreateNodeGroup) *cluster.NodeGroup {
	n.t.Helper()
	if _, err := n.CreateNodeGroup(ctx, s); err != nil {
		n.t.Fatal(err)
	}
	n.look()
	return n.described(s.Name)
}

func (n *nodeAPI) described(name string) *cluster.NodeGroup {
	n.t.Helper()
	g, err := n.DescribeNodeGroup(ctx, prod, name)
	if err != nil {
		n.t.Fatal(err)
	}
	return g
}

// sizes adds the methods that no test here needs.
type sizes struct{ *autoGroups }

func (sizes) FailedLaunches(context.Context, string, time.Time) ([]cluster.FailedLaunch, error) {
	return nil, nil
}

func spec(name, group string, change ...func(*operation.CreateNodeGroup)) operation.CreateNodeGroup {
	s := operation.CreateNodeGroup{Cluster: prod, Name: name, AutoScalingGroup: group, Params: "p"}
	for _, f := range change {
		f(&s)
	}
	return s
}

func version(name, release, token string) operation.UpdateNodeGroupVersion {
	return operation.UpdateNodeGroupVersion{Cluster: prod, NodeGroup: name, ReleaseVersion: release, Token: token, Params: release}
}

func TestNodeGroups_Create(t *testing.T) {
	w := newWorld(t)
	n, auto := groupsOf(w)
	token := func(s *operation.CreateNodeGroup) { s.Token = "t" }
	made, err := n.CreateNodeGroup(ctx, spec("web", "a", token))
	want(t, "error", err, nil)
	want(t, "status", made.Status, cluster.NodeGroupCreating)
	n.look()
	got := n.described("web")
	want(t, "status", got.Status, cluster.NodeGroupActive)
	want(t, "sizes", got.Sizes, cluster.Sizes{Min: 1, Max: 5, Desired: 3})
	want(t, "image", got.Target.Image, "ami-1")
	wantCount(t, "calls without sizes", auto.calls, 0)
	t.Run("GivesTheSameAgainForItsToken", func(t *testing.T) {
		got, err := n.CreateNodeGroup(ctx, spec("web", "a", token))
		want(t, "error", err, nil)
		want(t, "id", got.ID, made.ID)
		_, err = n.CreateNodeGroup(ctx, spec("web", "a", token, func(s *operation.CreateNodeGroup) { s.Params = "q" }))
		wantCode(t, err, cluster.CodeResourceInUse, "NodeGroup already exists with name web and cluster name prod")
		_, err = n.CreateNodeGroup(ctx, spec("web", "a"))
		wantCode(t, err, cluster.CodeResourceInUse, "already exists")
	})
	t.Run("RefusesWhatNeedsNoCallOfAWS", func(t *testing.T) {
		_, err := n.CreateNodeGroup(ctx, spec("two", "a"))
		wantCode(t, err, cluster.CodeResourceInUse, "is node group web of cluster prod already")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *operation.CreateNodeGroup) { s.Config.MaxUnavailable = 101 }))
		wantCode(t, err, cluster.CodeInvalidParameter, "from 1 to 100")
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *operation.CreateNodeGroup) { s.Sizes = &cluster.Sizes{Min: 3, Max: 5, Desired: 2} }))
		wantCode(t, err, cluster.CodeInvalidParameter, "Minimum capacity 3 can't be greater than desired size 2")
		labels := map[string]string{"a": "1", "b": "1", "c": "1"}
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *operation.CreateNodeGroup) {
			s.Labels, s.Template = labels, &cluster.TemplateRef{ID: "lt-2"}
		}))
		wantCode(t, err, cluster.CodeInvalidParameter, "There are 3 labels, but at most 2 are possible")
		labels["d"], labels["e"] = "1", "1"
		_, err = n.CreateNodeGroup(ctx, spec("two", "b", func(s *operation.CreateNodeGroup) { s.Labels = labels }))
		wantCode(t, err, cluster.CodeInvalidParameter, "There are 5 labels, but at most 4 are possible")
		_, err = n.CreateNodeGroup(ctx, operation.CreateNodeGroup{Cluster: "nowhere", Name: "x", AutoScalingGroup: "b"})
		wantCode(t, err, cluster.CodeClusterNotFound, "")
		names, _, err := n.ListNodeGroups(ctx, operation.ListNodeGroups{Cluster: prod, Limit: 10})
		want(t, "left", fmt.Sprint(names, err), "[web] <nil>")
	})
	t.Run("TakesAnImageAndSizes", func(t *testing.T) {
		got := n.made(spec("own", "b", func(s *operation.CreateNodeGroup) {
			s.Template, s.Sizes = &cluster.TemplateRef{Name: "own"}, &cluster.Sizes{Min: 0, Max: 9, Desired: 4}
		}))
		want(t, "status", got.Status, cluster.NodeGroupActive)
		want(t, "target", got.Target, cluster.UpdateTarget{Image: "ami-8", SourceTemplate: "lt-2", SourceName: "own", SourceVersion: "2"})
		want(t, "calls", fmt.Sprint(auto.calls), "[b{0 9 4}]")
	})
	t.Run("WithTheReleaseVersionThatItsMachinesHave", func(t *testing.T) {
		for _, release := range []string{"ami-1", "the-name-of-an-image"} {
			n, _ := groupsOf(newWorld(t))
			got := n.made(spec("web", "a", func(s *operation.CreateNodeGroup) { s.ReleaseVersion = release }))
			want(t, "status", got.Status, cluster.NodeGroupActive)
			want(t, "target", got.Target, cluster.UpdateTarget{Image: "ami-1", ReleaseVersion: release})
		}
	})
	t.Run("ListsInPages", func(t *testing.T) {
		names, more, err := n.ListNodeGroups(ctx, operation.ListNodeGroups{Cluster: prod, Limit: 1})
		want(t, "first page", fmt.Sprint(names, more, err), "[own] true <nil>")
		names, more, err = n.ListNodeGroups(ctx, operation.ListNodeGroups{Cluster: prod, After: "own", Limit: 1})
		want(t, "second page", fmt.Sprint(names, more, err), "[web] false <nil>")
	})
}

// What is wrong with a group at AWS becomes an issue of the node group, in EKS's codes. The node
// group can then be deleted and created anew.
func TestNodeGroups_CreateFails(t *testing.T) {
	template := func(ref cluster.TemplateRef) func(*operation.CreateNodeGroup) {
		return func(s *operation.CreateNodeGroup) { s.Template = &ref }
	}
	sizes := func(s *operation.CreateNodeGroup) { s.Sizes = &cluster.Sizes{Max: 2} }
	for name, c := range map[string]struct {
		group  string
		change func(*operation.CreateNodeGroup)
		err    error // of a call
		skip   int   // calls before it
		want   string
	}{
		"NoGroup":      {group: "none", want: "AutoScalingGroupNotFound [none] There is no Auto Scaling group none"},
		"NoTemplate":   {group: "plain", want: "AutoScalingGroupInvalidConfiguration [plain] The Auto Scaling group plain has no launch template"},
		"Latest":       {group: "latest", want: "AutoScalingGroupInvalidConfiguration [latest] The Auto Scaling group latest launches $Latest of its launch template; it must name a version"},
		"OwnNotFound":  {group: "a", change: template(cluster.TemplateRef{ID: "lt-9"}), want: "Ec2LaunchTemplateNotFound [lt-9] InvalidLaunchTemplateId.NotFound: no {lt-9  }"},
		"OwnByName":    {group: "a", change: template(cluster.TemplateRef{Name: "nil"}), want: "Ec2LaunchTemplateNotFound [nil] InvalidLaunchTemplateId.NotFound: no { nil }"},
		"NoImage":      {group: "a", change: template(cluster.TemplateRef{ID: "lt-3"}), want: "Ec2LaunchTemplateInvalidConfiguration [lt-3] InvalidParameterException: Version 1 of launch template lt-3 names no image, and the request no releaseVersion"},
		"AnotherImage": {group: "a", change: func(s *operation.CreateNodeGroup) { s.ReleaseVersion = "ami-99" }, want: "Ec2LaunchTemplateInvalidConfiguration [lt-1] InvalidParameterException: releaseVersion is ami-99, but version 4 of launch template lt-1, from which the Auto Scaling group launches, has ami-1. Leave it out, and update the node group to it once it is ACTIVE."},
		"NoVersion":    {group: "a", err: cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "none"), skip: 1, want: "Ec2LaunchTemplateVersionMismatch [lt-1] InvalidLaunchTemplateId.VersionNotFound: none"},
		"MayNotLook":   {group: "a", err: cluster.Errorf("AccessDenied", "no"), want: "AccessDenied [a] AccessDenied: no"},
		"MayNotRead":   {group: "a", err: cluster.Errorf("UnauthorizedOperation", "no"), skip: 1, want: "AccessDenied [lt-1] UnauthorizedOperation: no"},
		"MayNotResize": {group: "a", change: sizes, err: cluster.Errorf("ValidationError", "no"), skip: 2, want: "AutoScalingGroupInvalidConfiguration [a] ValidationError: no"},
	} {
		t.Run(name, func(t *testing.T) {
			n, auto := groupsOf(newWorld(t))
			change := c.change
			if change == nil {
				change = func(*operation.CreateNodeGroup) {}
			}
			auto.err, auto.skip = c.err, c.skip
			g := n.made(spec("web", c.group, change))
			want(t, "status", g.Status, cluster.NodeGroupCreateFailed)
			want(t, "issue", fmt.Sprint(g.Issues[0].Code, " ", g.Issues[0].Resources, " ", g.Issues[0].Message), c.want)
			_, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", ""))
			wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
			if _, err := n.DeleteNodeGroup(ctx, prod, "web"); err != nil {
				t.Fatal(err)
			}
			n.look()
			want(t, "status of the next", n.made(spec("web", "b")).Status, cluster.NodeGroupActive)
		})
	}
	t.Run("WaitsWhileAWSIsBusy", func(t *testing.T) {
		for _, err := range []error{cluster.Errorf("Throttling", "later"), fmt.Errorf("no answer: %w", cluster.ErrAmbiguous)} {
			for skip := range 3 {
				n, auto := groupsOf(newWorld(t))
				if _, err := n.CreateNodeGroup(ctx, spec("web", "a", sizes)); err != nil {
					t.Fatal(err)
				}
				auto.err, auto.skip = err, skip
				if n.function.RunSchedule(ctx, "node-groups") == nil {
					t.Errorf("nothing is said of %v", err)
				}
				want(t, "status", n.described("web").Status, cluster.NodeGroupCreating)
				n.look()
				want(t, "status after it", n.described("web").Status, cluster.NodeGroupActive)
			}
		}
	})
	t.Run("AFailedOneHoldsNoGroup", func(t *testing.T) {
		n, auto := groupsOf(newWorld(t))
		auto.err = cluster.Errorf("AccessDenied", "no")
		n.made(spec("web", "a"))
		want(t, "status of another", n.made(spec("two", "a")).Status, cluster.NodeGroupActive)
	})
}

func TestNodeGroups_UpdateVersion(t *testing.T) {
	w := newWorld(t)
	n, _ := groupsOf(w)
	n.made(spec("web", "a"))
	_, err := n.CreateNodeGroup(ctx, spec("own", "b", func(s *operation.CreateNodeGroup) { s.Template = &cluster.TemplateRef{ID: "lt-2", Version: "1"} }))
	want(t, "error", err, nil)
	_, err = n.UpdateNodeGroupVersion(ctx, version("own", "", ""))
	wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
	n.look()
	_, err = n.UpdateNodeGroupVersion(ctx, version("web", "", ""))
	wantCode(t, err, cluster.CodeInvalidParameter, "must name a releaseVersion")
	_, err = n.UpdateNodeGroupVersion(ctx, version("none", "ami-2", ""))
	wantCode(t, err, cluster.CodeResourceNotFound, "No node group found for name: none.")
	u, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "t"))
	want(t, "error", err, nil)
	want(t, "update", fmt.Sprint(u.Status, " ", u.Type, " ", u.Target.Image, " ", u.Phase, " ", u.Params), "InProgress VersionUpdate ami-2 setup [{ReleaseVersion ami-2}]")
	g := n.described("web")
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Update == u.ID, " ", g.Target.Image), "UPDATING true ami-1")
	t.Run("IsOneAtATime", func(t *testing.T) {
		again, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "t"))
		want(t, "error", err, nil)
		want(t, "id for the same token", again.ID, u.ID)
		_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-3", "t"))
		wantCode(t, err, cluster.CodeInvalidParameter, "other parameters")
		_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-3", ""))
		wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
		_, err = n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 2}})
		wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
		_, err = n.DeleteNodeGroup(ctx, prod, "web")
		wantCode(t, err, cluster.CodeResourceInUse, "in progress")
	})
	t.Run("LosesARaceForTheNodeGroup", func(t *testing.T) {
		var beaten bool
		raced := another(n.Dependencies)
		raced.State = &racedState{Store: w.state, before: func(c state.Commit) {
			if !beaten {
				beaten = true
				if _, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "own", Config: &cluster.UpdateConfig{MaxUnavailable: 3}}); err != nil {
					t.Error(err)
				}
			}
		}}
		second := raced.NodeGroups
		_, err := second.UpdateNodeGroupVersion(ctx, operation.UpdateNodeGroupVersion{Cluster: prod, NodeGroup: "own", Template: &cluster.TemplateRef{ID: "lt-2", Version: "2"}})
		wantCode(t, err, cluster.CodeResourceInUse, "changed by another request")
		g := n.described("own")
		want(t, "node group", fmt.Sprint(g.Status, " ", g.Config.MaxUnavailable, " ", g.Update), "ACTIVE 3 ")
	})
	t.Run("KeepsItsLaunchTemplate", func(t *testing.T) {
		change := version("web", "", "")
		change.Template = &cluster.TemplateRef{ID: "lt-2"}
		n.made(spec("plain", "c"))
		change.NodeGroup = "plain"
		_, err := n.UpdateNodeGroupVersion(ctx, change)
		wantCode(t, err, cluster.CodeInvalidRequest, "was created without one")
		change = operation.UpdateNodeGroupVersion{Cluster: prod, NodeGroup: "own", Template: &cluster.TemplateRef{ID: "lt-1"}}
		_, err = n.UpdateNodeGroupVersion(ctx, change)
		wantCode(t, err, cluster.CodeInvalidRequest, "only its version")
		change.Template = &cluster.TemplateRef{Name: "own", Version: "2"}
		got, err := n.UpdateNodeGroupVersion(ctx, change)
		want(t, "error", err, nil)
		want(t, "target before it was looked at", got.Target, cluster.UpdateTarget{SourceTemplate: "lt-2", SourceName: "own", SourceVersion: "2"})
	})
}

// racedState lets somebody else write first.
type racedState struct {
	state.Store
	before func(c state.Commit)
}

func (s *racedState) Commit(ctx context.Context, c state.Commit) error {
	s.before(c)
	return s.Store.Commit(ctx, c)
}

func TestNodeGroups_UpdateConfig(t *testing.T) {
	w := newWorld(t)
	n, auto := groupsOf(w)
	n.made(spec("web", "a"))
	auto.groups["a"].Desired = 4 // by managed scaling
	most := 8
	change := operation.UpdateNodeGroupConfig{
		Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Max: &most},
		Config: &cluster.UpdateConfig{MaxUnavailablePercentage: 50, Strategy: cluster.UpdateMinimal}, Token: "t", Params: "p",
	}
	u, err := n.UpdateNodeGroupConfig(ctx, change)
	want(t, "error", err, nil)
	want(t, "update", fmt.Sprint(u.Status, u.Type, u.Params), "InProgressConfigUpdate[{MaxSize 8} {MaxUnavailablePercentage 50} {UpdateStrategy MINIMAL}]")
	g := n.described("web")
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Sizes, g.Config), "UPDATING {1 5 3} {0 0 }")
	_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", ""))
	wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
	_, err = n.DeleteNodeGroup(ctx, prod, "web")
	wantCode(t, err, cluster.CodeResourceInUse, "update "+u.ID+" is in progress")
	n.look()
	want(t, "group", fmt.Sprint(auto.calls), "[a{1 8 4}]")
	g = n.described("web")
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Sizes, g.Config, g.Update, g.ConfigUpdate), "ACTIVE {1 8 4} {0 50 MINIMAL}")
	again, err := n.UpdateNodeGroupConfig(ctx, change)
	want(t, "again", fmt.Sprint(again.ID == u.ID, again.Status, len(auto.calls), err), "trueSuccessful1 <nil>")
	t.Run("IsDoneAtOnceWhereTheSizesStay", func(t *testing.T) {
		u, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 2}})
		want(t, "error", err, nil)
		want(t, "update", u.Status, cluster.UpdateSuccessful)
		want(t, "config", n.described("web").Config, cluster.UpdateConfig{MaxUnavailable: 2, Strategy: cluster.UpdateMinimal})
		_, err = n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{Strategy: cluster.UpdateDefault}})
		want(t, "error", err, nil)
		want(t, "config", n.described("web").Config, cluster.UpdateConfig{MaxUnavailable: 2, Strategy: cluster.UpdateDefault})
	})
	resize := func(desired int) (*cluster.Update, error) {
		return n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{
			Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Desired: &desired}, Config: &cluster.UpdateConfig{MaxUnavailable: 7},
		})
	}
	ended := func(id string) *cluster.Update {
		got, err := n.DescribeUpdate(ctx, prod, "web", id)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Run("WaitsWhileTheGroupIsBusy", func(t *testing.T) {
		u, err := resize(5)
		want(t, "error", err, nil)
		auto.err = cluster.Errorf("ScalingActivityInProgress", "not now")
		if n.function.RunSchedule(ctx, "node-groups") == nil {
			t.Error("nothing is said of it")
		}
		want(t, "status", ended(u.ID).Status, cluster.UpdateInProgress)
		n.look()
		want(t, "status after it", ended(u.ID).Status, cluster.UpdateSuccessful)
		want(t, "desired", auto.groups["a"].Desired, 5)
	})
	t.Run("FailsWhereTheGroupRefuses", func(t *testing.T) {
		_, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{
			Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Max: new(8), Desired: new(9)},
		})
		wantCode(t, err, cluster.CodeInvalidParameter, "desired capacity 9 can't be greater than max size 8")
		_, err = n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{
			Cluster: prod, NodeGroup: "web", Sizes: &cluster.SizesChange{Max: new(1<<32 + 1)},
		})
		wantCode(t, err, cluster.CodeInvalidParameter, "must be at most 2147483647")
		for _, c := range []struct {
			text, sizes string
			before      func()
		}{
			{"OperationNotPermitted [a] ValidationError: no", "{1 8 5}", func() { auto.err, auto.skip = cluster.Errorf("ValidationError", "no"), 1 }},
			{"AccessDenied [a] AccessDenied: no", "{1 8 5}", func() { auto.err = cluster.Errorf("AccessDenied", "no") }},
			{"OperationNotPermitted [a] ResourceNotFoundException: The Auto Scaling group no longer exists", "{1 8 5}", func() { auto.groups["kept"] = auto.groups["a"]; delete(auto.groups, "a") }},
			{"OperationNotPermitted [a] InvalidParameterException: desired capacity 6 can't be greater than max size 4", "{1 4 5}", func() { auto.groups["a"].Max = 4 }},
		} {
			u, err := resize(6)
			want(t, "error", err, nil)
			c.before()
			n.look()
			got, g := ended(u.ID), n.described("web")
			want(t, "update", fmt.Sprint(got.Status, " ", got.Errors[0].Code, " ", got.Errors[0].Resources, " ", got.Errors[0].Message), "Failed "+c.text)
			want(t, "node group", fmt.Sprint(g.Status, g.Sizes, g.Config.MaxUnavailable), "ACTIVE"+c.sizes+" 7")
			found, err := w.api.Rows.CapacityRows(ctx, prod)
			want(t, "error", err, nil)
			if shown, ok := found[len(found)-1].(*cluster.Update); !ok || shown.ID != u.ID {
				t.Errorf("what a cluster's instances come from lacks the failed update %s: %v", u.ID, found)
			}
			if auto.groups["kept"] != nil {
				auto.groups["a"] = auto.groups["kept"]
				delete(auto.groups, "kept")
			}
			auto.groups["a"].Max = 8
		}
	})
	// EKS refuses it at once; Auto Scaling would terminate nodes, or launch some.
	t.Run("NeverMovesTheDesiredSize", func(t *testing.T) {
		calls := len(auto.calls)
		for text, sizes := range map[string]cluster.SizesChange{
			"desired capacity 5 can't be greater than max size 4":   {Max: new(4)},
			"Minimum capacity 6 can't be greater than desired size": {Min: new(6)},
		} {
			u, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Sizes: &sizes})
			want(t, "error", err, nil)
			n.look()
			got := ended(u.ID)
			want(t, "status", got.Status, cluster.UpdateFailed)
			if !strings.Contains(got.Errors[0].Message, text) {
				t.Errorf("%s, want %s", got.Errors[0].Message, text)
			}
		}
		want(t, "calls", len(auto.calls), calls)
		want(t, "group", fmt.Sprint(n.described("web").Sizes), "{1 8 5}")
	})
	t.Run("IsHeldToTheSizesThatTheGroupHas", func(t *testing.T) {
		auto.groups["a"].Max = 20 // by its owner
		u, err := resize(9)
		want(t, "error", err, nil)
		n.look()
		want(t, "status", ended(u.ID).Status, cluster.UpdateSuccessful)
		want(t, "group", fmt.Sprint(n.described("web").Sizes), "{1 20 9}")
		found, err := w.api.Rows.CapacityRows(ctx, prod)
		want(t, "error", err, nil)
		wantCount(t, "rows after an update that succeeded", found, 1)
		auto.groups["a"].Max = 8
	})
	t.Run("ComesAgainAfterACrashBeforeItsEnd", func(t *testing.T) {
		u, err := resize(7)
		want(t, "error", err, nil)
		state := &racedState{Store: w.state, before: func(state.Commit) { panic("crash") }}
		n.function.State = state
		func() {
			defer func() { _ = recover() }()
			n.look()
		}()
		want(t, "desired", auto.groups["a"].Desired, 7)
		n.function.State = w.state
		n.look()
		want(t, "status", ended(u.ID).Status, cluster.UpdateSuccessful)
	})
}

func TestNodeGroups_Delete(t *testing.T) {
	w := newWorld(t)
	n, auto := groupsOf(w)
	n.made(spec("web", "a"))
	u, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 2}, Params: "p"})
	want(t, "error", err, nil)
	if _, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web", Config: &cluster.UpdateConfig{MaxUnavailable: 3}}); err != nil {
		t.Fatal(err)
	}
	ids, more, err := n.ListNodeGroupUpdates(ctx, operation.ListNodeGroups{Cluster: prod, NodeGroup: "web", Limit: 1})
	want(t, "updates", fmt.Sprint(len(ids), more, err), "1 true <nil>")
	got, err := n.DescribeUpdate(ctx, prod, "web", u.ID)
	want(t, "error", err, nil)
	want(t, "described", got.Digest, "p")
	_, err = n.DescribeUpdate(ctx, prod, "web", strings.Repeat("0", 36))
	wantCode(t, err, cluster.CodeResourceNotFound, "No update found for ID: 0000")

	left := func() int {
		return len(rows[*cluster.NodeGroup](w, state.PrefixNodeGroup)) + len(rows[*cluster.Update](w, state.PrefixUpdate))
	}
	gone, err := n.DeleteNodeGroup(ctx, prod, "web")
	want(t, "deleting", fmt.Sprint(gone.Status, " ", err), "DELETING <nil>")
	again, err := n.DeleteNodeGroup(ctx, prod, "web")
	want(t, "again", fmt.Sprint(again.Rev == gone.Rev, " ", err), "true <nil>")
	_, err = n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", ""))
	wantCode(t, err, cluster.CodeResourceInUse, "not in Active State")
	for range 2 { // it breaks off after each row
		n.function.State = &dyingState{Store: w.state, writes: 1}
		_ = n.function.RunSchedule(ctx, "node-groups")
		want(t, "status while rows are left", n.described("web").Status, cluster.NodeGroupDeleting)
	}
	n.function.State = w.state
	n.look()
	want(t, "rows", left(), 0)
	use, err := w.state.Get(ctx, state.GroupUseKey("a"))
	want(t, "who has the group", fmt.Sprint(use, err), "<nil> <nil>")
	want(t, "group that stays", auto.groups["a"].Desired, 3)
	_, err = n.DeleteNodeGroup(ctx, prod, "web")
	wantCode(t, err, cluster.CodeResourceNotFound, "")
}

// afterGet runs something once a row was read.
type afterGet struct {
	state.Store
	key  state.Key
	then func()
}

func (a *afterGet) Get(c context.Context, k state.Key) (state.Row, error) {
	row, err := a.Store.Get(c, k)
	if then := a.then; then != nil && k == a.key {
		a.then = nil
		then()
	}
	return row, err
}

// Two environments delete a node group, and somebody creates another of its name before the second
// one is done.
func TestNodeGroups_DeleteLeavesANewOne(t *testing.T) {
	w := newWorld(t)
	n, _ := groupsOf(w)
	n.made(spec("web", "a"))
	if _, err := n.DeleteNodeGroup(ctx, prod, "web"); err != nil {
		t.Fatal(err)
	}
	slow := *n.function
	slow.State = &afterGet{Store: n.function.State, key: state.NodeGroupKey(prod, "web"), then: func() {
		n.look()
		if _, err := n.CreateNodeGroup(ctx, spec("web", "a")); err != nil {
			t.Fatal(err)
		}
	}}
	if err := slow.RunSchedule(ctx, "node-groups"); err != nil {
		t.Fatal(err)
	}
	want(t, "status", n.described("web").Status, cluster.NodeGroupCreating)
	_, err := n.CreateNodeGroup(ctx, spec("other", "a"))
	wantCode(t, err, cluster.CodeResourceInUse, "is node group web of cluster prod already")
}

func TestNodeGroups_ShareNoAutoScalingGroup(t *testing.T) {
	begin := func(t *testing.T) (*world, *nodeAPI) {
		w := newWorld(t)
		w.ecs.clusters["other"] = true
		if err := w.api.Clusters.ClusterCreated(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		n, _ := groupsOf(w)
		return w, n
	}
	other := spec("web", "a")
	other.Cluster = "other"
	t.Run("OfAllClusters", func(t *testing.T) {
		w, n := begin(t)
		n.made(spec("web", "a"))
		_, err := n.CreateNodeGroup(ctx, other)
		wantCode(t, err, cluster.CodeResourceInUse, "The Auto Scaling group a is node group web of cluster prod already")
		_, err = w.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("p", "a"))
		want(t, "error of a capacity provider", err, nil)
		_, err = w.api.CapacityProviders.DeleteCapacityProvider(ctx, "p")
		want(t, "error of its deletion", err, nil)
		_, err = n.CreateNodeGroup(ctx, other)
		wantCode(t, err, cluster.CodeResourceInUse, "is node group web of cluster prod already")
	})
	t.Run("AtTheSameTime", func(t *testing.T) {
		w, n := begin(t)
		slow := another(w.api.Dependencies)
		slow.State = &afterGet{Store: w.state, key: state.GroupUseKey("a"), then: func() {
			if _, err := n.CreateNodeGroup(ctx, spec("fast", "a")); err != nil {
				t.Fatal(err)
			}
		}}
		_, err := slow.NodeGroups.CreateNodeGroup(ctx, spec("slow", "a"))
		wantCode(t, err, cluster.CodeResourceInUse, "is node group fast of cluster prod already")
	})
	t.Run("UntilTheClusterIsDeleted", func(t *testing.T) {
		w, n := begin(t)
		n.made(spec("web", "a"))
		w.ecs.clusters[prod] = false
		if err := w.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		_, err := n.CreateNodeGroup(ctx, other)
		want(t, "error", err, nil)
	})
}

// dyingState makes a number of writes and then fails.
type dyingState struct {
	state.Store
	writes int
}

func (s *dyingState) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if s.writes--; s.writes < 0 {
		return nil, errStore
	}
	return s.Store.Write(ctx, w)
}

func (s *dyingState) Commit(ctx context.Context, c state.Commit) error {
	if s.writes--; s.writes < 0 {
		return errStore
	}
	return s.Store.Commit(ctx, c)
}
