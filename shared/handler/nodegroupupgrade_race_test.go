package handler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// changing lets somebody else change the group once, when a given row of an update is written or
// when sizes are set.
type changing struct {
	state.Store
	handler.GroupUpdates
	when   func(*cluster.Update) bool
	change func()
	done   bool
}

func (c *changing) Write(ctx context.Context, w state.Write) (state.Row, error) {
	row, err := c.Store.Write(ctx, w)
	c.afterWrite(w)
	return row, err
}

func (c *changing) Commit(ctx context.Context, commit state.Commit) error {
	err := c.Store.Commit(ctx, commit)
	for _, w := range commit.Writes {
		c.afterWrite(w)
	}
	return err
}

func (c *changing) afterWrite(w state.Write) {
	if u, ok := w.Put.(*cluster.Update); ok && c.when != nil && !c.done && c.when(u) {
		c.done = true
		c.change()
	}
}

func (c *changing) SetSizes(ctx context.Context, group string, s cluster.SizesChange) error {
	if c.when == nil && !c.done {
		c.done = true
		c.change()
	}
	return c.GroupUpdates.SetSizes(ctx, group, s)
}

// Sizes that others set between an update's decision and its actions stay.
func TestNodeGroupUpgrade_KeepsSizesSetByOthers(t *testing.T) {
	t.Run("AMinimumJustBeforeItResizes", func(t *testing.T) {
		_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		c := &changing{GroupUpdates: pool, change: func() { pool.groups["a"].Min = 3 }}
		upgrade.Updates = c
		u := pool.runs(upgrade, 120, nothing)
		want(t, "changed", c.done, true)
		want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
		want(t, "minimum", pool.groups["a"].Min, 3)
	})
	t.Run("ADesiredCapacityThatWasRaised", func(t *testing.T) {
		_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
		g := pool.groups["a"]
		up := func(u *cluster.Update) bool { return u.Phase == cluster.PhaseScaleUp }
		c := &changing{Store: upgrade.State, when: up, change: func() { g.Desired, g.Max = 20, 30 }}
		upgrade.State = c
		lowest := 20
		for range 10 {
			if err := upgrade.RunSchedule(ctx, "node-groups"); err != nil {
				t.Fatal(err)
			}
			if c.done {
				lowest = min(lowest, g.Desired)
			}
		}
		want(t, "changed", c.done, true)
		want(t, "lowest desired", lowest, 20)
		want(t, "maximum", g.Max, 30)
	})
	t.Run("OfAConfigurationThatOnlyChangesTheMaximum", func(t *testing.T) {
		w := newWorld(t)
		n, auto := groupsOf(w)
		n.made(spec("web", "a"))
		if _, err := n.UpdateNodeGroupConfig(ctx, operation.UpdateNodeGroupConfig{Cluster: prod, NodeGroup: "web",
			Sizes: &cluster.SizesChange{Max: new(9)}}); err != nil {
			t.Fatal(err)
		}
		n.function.Updates = &changing{GroupUpdates: n.function.Updates,
			change: func() { auto.groups["a"].Min, auto.groups["a"].Desired = 2, 5 }}
		n.look()
		g := auto.groups["a"]
		want(t, "group", fmt.Sprint(g.Min, g.Max, g.Desired), "2 9 5")
	})
}

// Two environments with the same row terminate one surplus node once.
func TestNodeGroupUpgrade_TerminatesOnce(t *testing.T) {
	_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	g, twice := pool.groups["a"], 0
	auto := &lingering{pool, &twice}
	upgrade.Auto = auto
	c := &changing{Store: upgrade.State}
	c.when = func(u *cluster.Update) bool {
		if u.Phase != cluster.PhaseScaleDown || len(u.Removals) == 0 || u.Removals[0].Step != cluster.StepTerminate {
			return false
		}
		c.change = func() { _ = auto.TerminateInstance(ctx, u.Removals[0].Instance, true) }
		return true
	}
	upgrade.State = c
	u := pool.runs(upgrade, 240, func(int) {
		for _, i := range g.Instances { // one that is on its way out goes a minute later
			if i.Lifecycle != "InService" {
				_ = pool.TerminateInstance(ctx, i.ID, false)
				break
			}
		}
	})
	want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
	want(t, "another was faster", c.done, true)
	want(t, "terminated twice", twice, 0)
	want(t, "desired", g.Desired, 4)
}

// A task that ECS started late and that no event has reported keeps its node until it has ended.
func TestNodeGroupUpgrade_AsksECSBeforeItTerminates(t *testing.T) {
	w, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	var late cluster.ECSTask
	var node string
	c := &changing{Store: upgrade.State}
	c.when = func(u *cluster.Update) bool {
		if len(u.Removals) == 0 || u.Removals[0].Step != cluster.StepTerminate || u.Removals[0].Node == "" {
			return false
		}
		c.change = func() {
			node = u.Removals[0].Node
			w.ecs.mute = true
			late = w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: node, TaskDefinition: "web:1"})
			w.ecs.mute = false
		}
		return true
	}
	upgrade.State = c
	u := pool.runs(upgrade, 120, func(int) {
		if late.ID != "" && w.clock.now.Sub(w.ecs.tasks[late.ID].Started) > 5*time.Minute &&
			w.ecs.tasks[late.ID].Last == cluster.TaskRunning {
			want(t, "row", w.task(late.ID).Instance, node)
			w.ecs.exit(late.ID, 0)
		}
	})
	want(t, "update", fmt.Sprint(u.Status, u.Errors), "Successful[]")
	want(t, "the late task has ended", late.ID != "" && w.ecs.tasks[late.ID].Last == cluster.TaskStopped, true)
}

// lingering instances take a while to terminate.
type lingering struct {
	*nodePool
	twice *int
}

func (l *lingering) TerminateInstance(_ context.Context, id string, lower bool) error {
	g := l.groups["a"]
	for k := range g.Instances {
		if g.Instances[k].ID != id {
			continue
		}
		if g.Instances[k].Lifecycle != "InService" {
			*l.twice++
		}
		g.Instances[k].Lifecycle = "Terminating"
		if lower {
			g.Desired--
		}
	}
	return nil
}

// byDefault are launch templates whose $Default is version 4.
type byDefault struct{ *nodePool }

func (d byDefault) LaunchTemplate(c context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	if ref.Version == "$Default" {
		ref.Version = "4"
	}
	return d.nodePool.LaunchTemplate(c, ref)
}

// A version is made from the number that $Default stands for, and found again.
func TestNodeGroupUpgrade_OfADefaultVersion(t *testing.T) {
	_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	pool.groups["a"].Template = "lt-1:$Default"
	upgrade.Templates = byDefault{pool}
	u := pool.runs(upgrade, 120, nothing)
	want(t, "update", fmt.Sprint(u.Status, u.Errors, " ", u.OriginalTemplate, " ", u.Template),
		"Successful[] lt-1:$Default lt-1:5")
	want(t, "made", slices.Contains(pool.calls, "version from {lt-1  4}"), true)
}

// Nodes made from launch templates of instance types would be replaced by the same kind without
// end.
func TestNodeGroupUpgrade_RefusesSeveralTemplates(t *testing.T) {
	_, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
	pool.groups["a"].OwnTemplates, pool.groups["b"].OwnTemplates = true, true
	u := pool.runs(upgrade, 5, nothing)
	want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Code, " ", u.Errors[0].Resources),
		"Failed OperationNotPermitted [a]")
	g := n.made(spec("other", "b"))
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Issues[0].Code), "CREATE_FAILED "+string(cluster.IssueGroup))
}

// full refuses another attribute for one node, as ECS does after ten.
type full struct {
	*nodePool
	node string
}

func (f *full) PutAttribute(c context.Context, clusterName, id, name, value string) error {
	if id == f.node {
		return cluster.Errorf("AttributeLimitExceededException", "10 are the most")
	}
	return f.nodePool.PutAttribute(c, clusterName, id, name, value)
}

func TestNodeGroupUpgrade_RecordsRefusals(t *testing.T) {
	_, pool, _, upgrade := upgrading(t, version("web", "ami-2", ""))
	upgrade.Hosts = &full{pool, "n001"}
	u := pool.runs(upgrade, 60, nothing)
	want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Resources, " ", u.Errors[0].Message),
		"Failed [i-n001] Nodes cannot be made unschedulable: i-n001 (AttributeLimitExceededException: 10 are the most)")
	g := pool.groups["a"]
	want(t, "group", fmt.Sprint(g.Max, g.Desired), "6 4")
}
