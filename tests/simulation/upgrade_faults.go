package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
)

// faultyGroups add faults to calls that change Auto Scaling groups and their instances: a call is
// denied, times out with or without effect, or takes effect later; the caller is suspended or dies
// before or after it.
type faultyGroups struct {
	installation.Groups
	world    *World
	function string
}

// upgrader is the function whose calls fail.
const upgrader = "node-group-upgrade"

// call makes one call that changes something.
func (g *faultyGroups) call(ctx context.Context, op, subject string, act func() error) error {
	p, w := processOf(ctx), g.world
	change := func() error {
		err := act()
		if verbose {
			w.logf("  %s: %s %s: %v", g.function, op, subject, err)
		}
		return err
	}
	if err := p.interrupt(); err != nil {
		return err
	}
	if p == nil || w.upgrade == nil {
		return change()
	}
	// A client of AWS sends nothing for an invocation whose time is over.
	if err := p.callContext(ctx).Err(); err != nil {
		return fmt.Errorf("calling %s: %w", op, err)
	}
	if err := g.denialOf(op); err != nil {
		return err
	}
	c := w.faults
	switch {
	case c.strikesAtPart(GroupAmbiguous, 0.5):
		return fmt.Errorf("calling %s: timed out: %w", op, cluster.ErrAmbiguous)
	case c.strikes(GroupLate):
		w.Loop.After(c.drawUpTo(GroupLate, 20), func() { _ = change() })
		return fmt.Errorf("calling %s: timed out: %w", op, cluster.ErrAmbiguous)
	}
	err := change()
	if dead := p.interrupt(); dead != nil {
		return dead
	}
	if dead := w.upgrade.dieIfDue(p, g.function); dead != nil {
		return dead
	}
	if err == nil && c.strikesAtPart(GroupAmbiguous, 0.5) {
		return fmt.Errorf("calling %s: timed out: %w", op, cluster.ErrAmbiguous)
	}
	return err
}

// denialOf returns the error of a call for which node-group-upgrade lacks the permission, or nil.
func (g *faultyGroups) denialOf(op string) error {
	u := g.world.upgrade
	if u == nil || g.function != upgrader || !u.deniedOperations[op] && !u.faults.strikes(GroupDenied) {
		return nil
	}
	u.cover(coverage.Denied)
	u.nodeChecker.callDenied = true
	return cluster.Errorf("AccessDenied", "User is not authorized to perform: %s", op)
}

// dieIfDue counts the calls of node-group-upgrade that have changed something, and lets the
// function die after call dieAfter.
func (u *upgradeWorld) dieIfDue(p *process, function string) error {
	if u == nil || function != upgrader || p == nil {
		return nil
	}
	if u.changeCalls++; u.changeCalls == u.dieAfter {
		return p.die("dies after the given call")
	}
	return nil
}

// callReading makes a call that changes nothing.
func callReading[T any](ctx context.Context, g *faultyGroups, op string, call func() (T, error)) (out T, err error) {
	if err := cmp.Or(processOf(ctx).interrupt(), g.denialOf(op)); err != nil {
		return out, err
	}
	return call()
}

func (g *faultyGroups) checker() *upgradeChecker {
	if g.world.upgrade == nil {
		return nil
	}
	return g.world.upgrade.nodeChecker
}

func (g *faultyGroups) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	return callReading(ctx, g, "DescribeAutoScalingGroups",
		func() ([]*cluster.AutoScalingGroup, error) { return g.Groups.DescribeGroups(ctx, names) })
}

func (g *faultyGroups) FailedLaunches(
	ctx context.Context, group string, since time.Time,
) ([]cluster.FailedLaunch, error) {
	return callReading(ctx, g, "DescribeScalingActivities",
		func() ([]cluster.FailedLaunch, error) { return g.Groups.FailedLaunches(ctx, group, since) })
}

func (g *faultyGroups) FindVersion(ctx context.Context, template, description string) (*cluster.LaunchTemplate, error) {
	return callReading(ctx, g, "DescribeLaunchTemplateVersions",
		func() (*cluster.LaunchTemplate, error) { return g.Groups.FindVersion(ctx, template, description) })
}

func (g *faultyGroups) SetDesired(ctx context.Context, group string, n int) error {
	return g.call(ctx, "SetDesiredCapacity", fmt.Sprint(n), func() error {
		g.checker().checkSetDesired(g.function, n)
		return g.Groups.SetDesired(ctx, group, n)
	})
}

func (g *faultyGroups) SetSizes(ctx context.Context, group string, s cluster.SizesChange) error {
	text, _ := json.Marshal(s) // numbers: it cannot fail
	return g.call(ctx, "UpdateAutoScalingGroup", string(text), func() error {
		err := g.Groups.SetSizes(ctx, group, s)
		g.checker().checkSetSizes(g.function)
		return err
	})
}

func (g *faultyGroups) UseTemplate(ctx context.Context, group, template string) error {
	return g.call(ctx, "UseTemplate", template, func() error { return g.Groups.UseTemplate(ctx, group, template) })
}

func (g *faultyGroups) CreateVersion(
	ctx context.Context, v cluster.NewTemplateVersion,
) (out *cluster.LaunchTemplate, err error) {
	err = g.call(ctx, "CreateLaunchTemplateVersion", v.Description, func() error {
		out, err = g.Groups.CreateVersion(ctx, v)
		return err
	})
	return out, err
}

func (g *faultyGroups) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	return g.call(ctx, "SetInstanceProtection", fmt.Sprint(ids, protected),
		func() error { return g.Groups.SetInstanceProtection(ctx, group, ids, protected) })
}

func (g *faultyGroups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	return g.call(ctx, "TerminateInstanceInAutoScalingGroup", fmt.Sprint(id, lower), func() error {
		g.checker().checkTermination(g.function, id, lower)
		err := g.Groups.TerminateInstance(ctx, id, lower)
		g.checker().afterAction(g.function)
		return err
	})
}

func (g *faultyGroups) PutAttribute(ctx context.Context, clusterName, id, name, value string) error {
	return g.call(ctx, "PutAttributes", fmt.Sprint(id, name, value),
		func() error { return g.Groups.PutAttribute(ctx, clusterName, id, name, value) })
}

func (g *faultyGroups) RemoveAttribute(ctx context.Context, clusterName, id, name string) error {
	return g.call(ctx, "DeleteAttributes", fmt.Sprint(id, name),
		func() error { return g.Groups.RemoveAttribute(ctx, clusterName, id, name) })
}

func (g *faultyGroups) ActivateInstance(ctx context.Context, clusterName, id string) error {
	return g.call(ctx, "UpdateContainerInstancesState", id+" ACTIVE", func() error {
		err := g.Groups.ActivateInstance(ctx, clusterName, id)
		if err == nil && g.function == upgrader {
			g.checker().recordActivation(id)
		}
		return err
	})
}

func (g *faultyGroups) CompleteLifecycleAction(ctx context.Context, group, hook, id string) error {
	return g.call(ctx, "CompleteLifecycleAction", id,
		func() error { return g.Groups.CompleteLifecycleAction(ctx, group, hook, id) })
}

func (g *faultyGroups) RecordHeartbeat(ctx context.Context, group, hook, id string) error {
	return g.call(ctx, "RecordLifecycleActionHeartbeat", id,
		func() error { return g.Groups.RecordHeartbeat(ctx, group, hook, id) })
}

// DrainInstance is a call of ECS with the same faults.
func (e *faultyECS) DrainInstance(ctx context.Context, clusterName, id string) error {
	if e.world.upgrade == nil {
		return e.ECS.DrainInstance(ctx, clusterName, id)
	}
	g := &faultyGroups{world: e.world, function: e.function}
	return g.call(ctx, "UpdateContainerInstancesState", id+" DRAINING", func() error {
		g.checker().checkDrain(e.function, id)
		err := e.ECS.DrainInstance(ctx, clusterName, id)
		g.checker().afterAction(e.function)
		return err
	})
}
