package handler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/nodegroupupgrade"
	"berth/shared/operation"
	"berth/shared/state"
)

// nodePool is the Auto Scaling group a with instances that register, and the calls of ECS that an
// update needs besides.
type nodePool struct {
	*autoGroups
	w        *world
	launched int
	broken   string // the code that launches fail with
	failed   []cluster.FailedLaunch
	errs     []error // of each look
	deny     error   // of CreateVersion
	drains   int     // the most instances that were DRAINING at once
	labels   int     // calls of PutAttribute
	// unlabelled is the container instance whose attributes cannot be set.
	unlabelled string
	// terminated, if it is set, gets each container instance that is terminated.
	terminated func(id string)
}

func (p *nodePool) FailedLaunches(_ context.Context, _ string, since time.Time) (out []cluster.FailedLaunch, err error) {
	for _, f := range p.failed {
		if !f.At.Before(since) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (p *nodePool) CreateVersion(c context.Context, v cluster.NewTemplateVersion) (*cluster.LaunchTemplate, error) {
	if p.deny != nil {
		return nil, p.deny
	}
	return p.autoGroups.CreateVersion(c, v)
}

func (p *nodePool) TerminateInstance(_ context.Context, id string, lower bool) error {
	g := p.groups["a"]
	k := slices.IndexFunc(g.Instances, func(i cluster.GroupInstance) bool { return i.ID == id })
	if k < 0 {
		return cluster.Errorf("ValidationError", "no instance %s", id)
	}
	g.Instances = slices.Delete(slices.Clone(g.Instances), k, k+1)
	if lower {
		g.Desired--
	}
	for _, i := range p.w.ecs.instances {
		if i.EC2InstanceID != id {
			continue
		}
		if p.terminated != nil {
			p.terminated(i.ID)
		}
		for _, task := range p.w.ecs.tasks {
			if task.Instance == i.ID && task.Last != cluster.TaskStopped {
				p.w.t.Errorf("instance %s is terminated with task %s", id, task.ID)
			}
		}
		p.w.ecs.change(i.ID, func(i *cluster.Instance) { i.Status, i.AgentConnected = cluster.InstanceInactive, false })
		break
	}
	return nil
}

func (p *nodePool) PutAttribute(_ context.Context, _, id, name, value string) error {
	if p.labels++; id == p.unlabelled {
		return cluster.Errorf("AttributeLimitExceededException", "there are ten")
	}
	return p.edit(id, func(a map[string]string) { a[name] = value })
}

func (p *nodePool) RemoveAttribute(_ context.Context, _, id, name string) error {
	return p.edit(id, func(a map[string]string) { delete(a, name) })
}

func (p *nodePool) edit(id string, f func(map[string]string)) error {
	if p.w.ecs.instances[id] == nil {
		return nil
	}
	p.w.ecs.change(id, func(i *cluster.Instance) {
		i.Attributes = maps.Clone(i.Attributes)
		f(i.Attributes)
	})
	return p.fail()
}

func (p *nodePool) ActivateInstance(_ context.Context, _, id string) error {
	p.w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceActive })
	return nil
}

// scale launches what is missing, over both zones.
func (p *nodePool) scale() {
	g := p.groups["a"]
	for len(g.Instances) < g.Desired {
		if p.broken != "" && g.Template != "lt-1:4" {
			p.failed = append(p.failed, cluster.FailedLaunch{At: p.w.clock.now, Zone: "zone-97", Code: p.broken, Message: "none left"})
			return
		}
		p.launched++
		zone := fmt.Sprint("zone-", 'a'+rune(p.launched%2))
		id := fmt.Sprintf("n%03d", p.launched)
		g.Instances = append(slices.Clone(g.Instances), cluster.GroupInstance{ID: "i-" + id, Zone: zone, Lifecycle: "InService", Template: g.Template})
		p.w.ecs.register(&cluster.Instance{
			Head: cluster.Head{Cluster: prod}, ID: id, EC2InstanceID: "i-" + id, Registered: cluster.Capacity{CPU: 1024 * cluster.CPUUnit, Memory: 2048},
			Attributes: map[string]string{cluster.AttributeZone: zone},
		})
	}
	p.w.pump()
}

// pooled is a cluster whose four nodes run a service of six tasks, and their node group.
func pooled(t *testing.T, more ...func(*operation.CreateNodeGroup)) (*world, *nodePool, *nodeAPI) {
	t.Helper()
	w := newWorld(t)
	n, auto := groupsOf(w)
	pool := &nodePool{autoGroups: auto, w: w}
	g := auto.groups["a"]
	g.Desired, g.Max, g.Zones = 4, 6, []string{"zone-97", "zone-98"}
	pool.scale()
	w.create("web", "web", 6)
	w.advance(time.Minute)
	n.function = &nodegroupupgrade.Handler{
		State: w.state, ECS: w.ecs, Hosts: pool, Auto: pool, Updates: pool, Templates: pool, Clock: w.clock, Settings: handler.DefaultSettings(),
	}
	n.made(spec("web", "a", more...))
	return w, pool, n
}

// upgrading is a pooled cluster with an update of the node group to ami-2.
func upgrading(t *testing.T, change operation.UpdateNodeGroupVersion, more ...func(*operation.CreateNodeGroup)) (*world, *nodePool, *nodeAPI, *nodegroupupgrade.Handler) {
	t.Helper()
	w, pool, n := pooled(t, more...)
	if _, err := n.UpdateNodeGroupVersion(ctx, change); err != nil {
		t.Fatal(err)
	}
	return w, pool, n, n.function
}

// runs runs the function each minute until the update has ended, with hook before each round.
func (p *nodePool) runs(u *nodegroupupgrade.Handler, most int, hook func(minute int)) *cluster.Update {
	p.w.t.Helper()
	for minute := range most {
		hook(minute)
		p.errs = append(p.errs, u.RunSchedule(ctx, "node-groups"))
		p.scale()
		p.w.advance(time.Minute)
		draining := 0
		for _, i := range p.w.ecs.instances {
			if i.Status == cluster.InstanceDraining {
				draining++
			}
		}
		p.drains = max(p.drains, draining)
		if row := rows[*cluster.Update](p.w, state.PrefixUpdate)[0]; row.HasEnded() {
			return row
		}
	}
	row := rows[*cluster.Update](p.w, state.PrefixUpdate)[0]
	p.w.t.Fatalf("after %d minutes the update is in %s and waits for %s", most, row.Phase, row.WaitingFor)
	return nil
}

func nothing(int) {}

// brokenState writes nothing while it is broken.
type brokenState struct {
	state.Store
	broken bool
}

func (s *brokenState) Write(ctx context.Context, w state.Write) (state.Row, error) {
	if s.broken {
		return nil, errStore
	}
	return s.Store.Write(ctx, w)
}

func TestNodeGroupUpgrade(t *testing.T) {
	t.Run("ReplacesEveryNodeOneAtATime", func(t *testing.T) {
		w, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
		g := pool.groups["a"]
		g.Max++ // by its owner, since the node group was created
		u := pool.runs(upgrade, 120, nothing)
		want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
		want(t, "group", fmt.Sprint(g.Min, g.Max, g.Desired, len(g.Instances), g.Template), "1 7 4 4lt-1:5")
		for _, i := range g.Instances {
			row := w.instance(i.ID[2:])
			want(t, "template", i.Template, "lt-1:5")
			want(t, "image", row.Attributes["eks.amazonaws.com/nodegroup-image"], "ami-2")
			want(t, "mark", row.Attributes[cluster.AttributeUnschedulable], "")
		}
		want(t, "DRAINING at once", pool.drains, 1)
		want(t, "errors", errors.Join(pool.errs...), nil)
		want(t, "running", len(w.with(cluster.TaskRunning)), 6)
		group, err := n.DescribeNodeGroup(ctx, prod, "web")
		want(t, "node group", fmt.Sprint(group.Status, " ", group.Target.Image, " ", group.Sizes, err), "ACTIVE ami-2 {1 7 4} <nil>")
	})
	t.Run("GoesOnAfterACrashBeforeOrAfterAnyAction", func(t *testing.T) {
		_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		state := &brokenState{Store: upgrade.State}
		upgrade.State = state
		u := pool.runs(upgrade, 240, func(minute int) {
			pool.err, pool.skip = nil, minute%7
			if minute%3 != 0 {
				pool.err = errors.New("the connection broke")
			}
			state.broken = minute%5 == 0
		})
		if errors.Join(pool.errs...) == nil {
			t.Error("nothing went wrong")
		}
		want(t, "status", u.Status, cluster.UpdateSuccessful)
		want(t, "group", fmt.Sprint(pool.groups["a"].Max, pool.groups["a"].Desired), "6 4")
		made := 0
		for _, call := range pool.calls {
			if call == "version from {lt-1  4}" {
				made++
			}
		}
		want(t, "versions made", made, 1)
	})
	t.Run("FailsWithTheCauseAndRestoresTheGroup", func(t *testing.T) {
		w, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
		pool.broken = "InsufficientInstanceCapacity"
		u := pool.runs(upgrade, 60, nothing)
		want(t, "status", u.Status, cluster.UpdateFailed)
		want(t, "code", u.Errors[0].Code, cluster.NodeCreationFailure)
		want(t, "resources", fmt.Sprint(u.Errors[0].Resources), "[a]")
		g := pool.groups["a"]
		want(t, "group", fmt.Sprint(g.Max, g.Desired, g.Template), "6 4lt-1:4")
		want(t, "running", len(w.with(cluster.TaskRunning)), 6)
		pool.broken = ""
		if _, err := n.UpdateNodeGroupVersion(ctx, version("web", "ami-2", "again")); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("EndsWhereTheGroupIsGone", func(t *testing.T) {
		_, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
		g := pool.groups["a"]
		delete(pool.groups, "a")
		if err := upgrade.RunSchedule(ctx, "node-groups"); err != nil {
			t.Fatal(err)
		}
		pool.groups["a"] = g
		row, err := n.DescribeNodeGroup(ctx, prod, "web")
		want(t, "error", err, nil)
		u, err := n.DescribeUpdate(ctx, prod, "web", row.Update)
		want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Code, " ", row.Status, " ", err), "Failed OperationNotPermitted ACTIVE <nil>")
	})
	t.Run("EndsOnceWhereAGroupIsGoneThatOthersHadChanged", func(t *testing.T) {
		w, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
		for minute := range 6 {
			switch minute {
			case 2: // its owner lowers the maximum during the update
				pool.groups["a"].Max, pool.groups["a"].Desired = 5, 5
			case 3:
				delete(pool.groups, "a")
			}
			if err := upgrade.RunSchedule(ctx, "node-groups"); err != nil {
				t.Fatal(err)
			}
			w.advance(time.Minute)
		}
		row, err := n.DescribeNodeGroup(ctx, prod, "web")
		want(t, "error", err, nil)
		u, err := n.DescribeUpdate(ctx, prod, "web", row.Update)
		want(t, "update", fmt.Sprint(u.Status, " ", row.Status, " ", err), "Failed ACTIVE <nil>")
		want(t, "errors", fmt.Sprint(u.Errors), "[{OperationNotPermitted The Auto Scaling group no longer exists [a]}]")
		want(t, "the owner's maximum", u.UserMax != nil, true)
	})
	own := func(s *operation.CreateNodeGroup) { s.Template = &cluster.TemplateRef{ID: "lt-2", Version: "1"} }
	t.Run("ReadsTheLaunchTemplateOfTheUser", func(t *testing.T) {
		change := version("web", "", "")
		change.Template = &cluster.TemplateRef{ID: "lt-2"}
		_, pool, n, upgrade := upgrading(t, change, own)
		pool.err, pool.skip = cluster.Errorf("RequestLimitExceeded", "later"), 0
		if upgrade.RunSchedule(ctx, "node-groups") == nil {
			t.Error("nothing is said of a template that could not be read")
		}
		u := pool.runs(upgrade, 120, nothing)
		want(t, "update", fmt.Sprint(u.Status, u.Errors, u.Params), "Successful[] [{LaunchTemplateName own} {LaunchTemplateVersion 2}]")
		g, err := n.DescribeNodeGroup(ctx, prod, "web")
		want(t, "error", err, nil)
		want(t, "target", g.Target, cluster.UpdateTarget{Image: "ami-8", SourceTemplate: "lt-2", SourceName: "own", SourceVersion: "2"})
	})
	t.Run("UsesTheUsersVersionOfTheGroupsOwnTemplate", func(t *testing.T) {
		change := version("web", "", "")
		change.Template = &cluster.TemplateRef{ID: "lt-2", Version: "2"}
		_, pool, _, upgrade := upgrading(t, change, own)
		group := pool.groups["a"]
		group.Template = "lt-2:1"
		for i := range group.Instances {
			group.Instances[i].Template = group.Template
		}
		u := pool.runs(upgrade, 120, nothing)
		want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
		want(t, "the group's template", pool.groups["a"].Template, "lt-2:2")
		for _, call := range pool.calls {
			if strings.HasPrefix(call, "version from") {
				t.Errorf("a further version is made: %s", call)
			}
		}
	})
	t.Run("FailsWhereTheLaunchTemplateCannotBeRead", func(t *testing.T) {
		for wanted, err := range map[string]error{
			"OperationNotPermitted [lt-2] InvalidLaunchTemplateId.VersionNotFound: none": cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "none"),
			"AccessDenied [lt-2] UnauthorizedOperation: no":                              cluster.Errorf("UnauthorizedOperation", "no"),
		} {
			change := version("web", "", "")
			change.Template = &cluster.TemplateRef{ID: "lt-2", Version: "2"}
			_, pool, n, upgrade := upgrading(t, change, own)
			pool.err, pool.skip = err, 0
			u := pool.runs(upgrade, 5, nothing)
			want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Code, " ", u.Errors[0].Resources, " ", u.Errors[0].Message), "Failed "+wanted)
			want(t, "group", fmt.Sprint(pool.groups["a"].Desired, pool.groups["a"].Template), "4lt-1:4")
			if _, err := n.UpdateNodeGroupVersion(ctx, version("web", "", "again")); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("FailsWhereItMayNot", func(t *testing.T) {
		_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		u := pool.runs(upgrade, 30, func(minute int) {
			if minute == 0 {
				pool.deny = cluster.Errorf("UnauthorizedOperation", "no")
			}
		})
		want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Code), "Failed AccessDenied")
	})
	t.Run("KnowsItsSchedule", func(t *testing.T) {
		var drop *cluster.Drop
		if err := new(nodegroupupgrade.Handler).RunSchedule(ctx, "health"); !errors.As(err, &drop) {
			t.Errorf("got %v", err)
		}
	})
}

// A service all of whose tasks run and have been UNHEALTHY since the first upgrade domain was
// updated holds up the next one. The wait between the two is the installation's.
func TestUpgradeDomainChecksHealth(t *testing.T) {
	sick := func(t *testing.T, after time.Duration) (looks int, u *cluster.Update) {
		w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		g := pool.groups["a"]
		for k := range g.Instances {
			w.ecs.change(g.Instances[k].ID[2:], func(i *cluster.Instance) { i.Attributes[cluster.AttributeUpgrade] = fmt.Sprint("ud", k%2) })
		}
		checked := definition("checked", 1, 128, 256)
		checked.HealthChecked = true
		w.ecs.define(checked)
		w.createAs(operation.CreateService{Cluster: prod, Name: "shop", TaskDefinition: "checked", Desired: new(2)})
		report := func(h cluster.Health) {
			for _, task := range w.with(cluster.TaskRunning) {
				if task.Service == "shop" && task.Health != h {
					w.ecs.turn(task.ECSID, h)
				}
			}
			w.pump()
		}
		w.pump()
		var done time.Time
		u = pool.runs(upgrade, 240, func(int) {
			row := rows[*cluster.Update](w, state.PrefixUpdate)[0]
			if row.CurrentDomain == "ud0" && !row.DomainReplacedAt.IsZero() {
				looks++
				done = row.DomainReplacedAt
			}
			health := cluster.Healthy
			if !done.IsZero() && w.clock.now.Sub(done) < after {
				health = cluster.Unhealthy
			}
			report(health)
		})
		return looks, u
	}
	waited, u := sick(t, 0)
	want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
	want(t, "wait", u.Timeouts.Domain, handler.DefaultSettings().UpgradeDomainWait)
	want(t, "looks between the domains", waited, 2)
	recovers, u := sick(t, 6*time.Minute)
	want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
	want(t, "waits for what is unhealthy", recovers > waited, true)
	_, u = sick(t, time.Hour)
	want(t, "update", fmt.Sprint(u.Status, u.Errors[0].Code), "FailedPodEvictionFailure")
	want(t, "error", u.Errors[0].Message, "Unhealthy after upgrade domain ud0 was updated: service shop has 0 of 2 tasks healthy")
}

// The four nodes and four new ones are full: there is no room for a domain of two until the service
// is smaller.
func TestUpgradeDomainWaitsForRoom(t *testing.T) {
	w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	g := pool.groups["a"]
	for k := range g.Instances {
		w.ecs.change(g.Instances[k].ID[2:], func(i *cluster.Instance) { i.Attributes[cluster.AttributeUpgrade] = fmt.Sprint("ud", k%2) })
	}
	w.pump()
	w.scale("web", 32)
	waited := 0
	u := pool.runs(upgrade, 120, func(minute int) {
		row := rows[*cluster.Update](w, state.PrefixUpdate)[0]
		if strings.Contains(row.WaitingFor, "room for the load of upgrade domain ud0: task ") {
			waited++
			want(t, "DRAINING", pool.drains, 0)
		}
		if waited == 5 {
			w.scale("web", 6)
		}
	})
	want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
	if waited < 5 {
		t.Errorf("waited for room at %d looks", waited)
	}
}

// racing changes the group just before it is described for the n-th time in a round.
type racing struct {
	*nodePool
	calls, at int
	change    func()
}

func (r *racing) DescribeGroups(c context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	if r.calls++; r.calls == r.at {
		r.change()
	}
	return r.nodePool.DescribeGroups(c, names)
}

// Sizes that its owner or managed scaling have set since the group was read are not undone.
func TestResizeKeepsSizesSetByOthers(t *testing.T) {
	_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	r := &racing{nodePool: pool, at: 2}
	r.change = func() {
		if g := pool.groups["a"]; g.Desired < 20 {
			g.Min, g.Desired, g.Max = 3, 20, 30
		}
	}
	upgrade.Auto = r
	for range 6 {
		r.calls = 0
		if err := upgrade.RunSchedule(ctx, "node-groups"); err != nil {
			t.Fatal(err)
		}
		if g := pool.groups["a"]; g.Desired >= 20 {
			if g.Min != 3 || g.Max < 30 {
				t.Errorf("of 20 from 3 to 30 the update made %d from %d to %d", g.Desired, g.Min, g.Max)
			}
		}
	}
	if g := pool.groups["a"]; g.Desired < 20 || g.Min != 3 {
		t.Errorf("the group has %d from %d to %d", g.Desired, g.Min, g.Max)
	}
}
