package simulation

import (
	"context"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
)

// trackedGroups tell the judge of target tracking policies and of the metric that is published.
type trackedGroups struct {
	installation.Groups
	judge *scalingJudge
}

func (g *trackedGroups) PutTrackingPolicy(ctx context.Context, p cluster.TrackingPolicy) error {
	low, high := cluster.ScalingAlarms(clusterName, scaledProvider)
	running := g.judge.running
	g.judge.running = nil
	defer func() { g.judge.running = running }()
	alarms, err := g.judge.AWS.CloudWatch.DescribeAlarms(context.Background(), []string{low, high})
	if err != nil || len(alarms) > 0 {
		g.judge.checker.fail("C1: two scalers are in charge: a target tracking policy is made beside the alarms %v, %v", alarms, err)
	}
	g.judge.policy = &p
	return g.Groups.PutTrackingPolicy(ctx, p)
}

func (g *trackedGroups) DeletePolicy(ctx context.Context, group, name string) error {
	g.judge.policy = nil
	return g.Groups.DeletePolicy(ctx, group, name)
}

func (g *trackedGroups) PutReservation(ctx context.Context, points []cluster.Datapoint) error {
	for _, p := range points {
		g.judge.metric = p.Percent
	}
	return g.Groups.PutReservation(ctx, points)
}

func (g *trackedGroups) PutMetricAlarm(ctx context.Context, a cluster.MetricAlarm) error {
	if g.judge.policy != nil {
		g.judge.checker.fail("C1: two scalers are in charge: alarm %s is made beside a target tracking policy", a.Name)
	}
	return g.Groups.PutMetricAlarm(ctx, a)
}

// judgedGroups show the judge what functions do to the group, and have their processes set aside, or die, before and after.
type judgedGroups struct {
	installation.Groups
	judge    *scalingJudge
	function string
	saw      *cluster.AutoScalingGroup
}

func (g *judgedGroups) call(ctx context.Context, op string, change func() error) error {
	p := processOf(ctx)
	if err := p.pause(); err != nil {
		return err
	}
	g.judge.changing()
	err := change()
	g.judge.changed(g.function, op)
	if dead := p.pause(); dead != nil {
		return dead
	}
	return err
}

func (g *judgedGroups) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	if err := processOf(ctx).pause(); err != nil {
		return nil, err
	}
	got, err := g.Groups.DescribeGroups(ctx, names)
	if len(got) == 1 {
		g.judge.now()
		g.saw = got[0]
	}
	return got, err
}

func (g *judgedGroups) SetDesired(ctx context.Context, group string, n int) error {
	return g.call(ctx, "SetDesiredCapacity", func() error {
		g.judge.note("%s sets the desired capacity to %d", g.function, n)
		g.judge.sets(g.saw, n)
		return g.Groups.SetDesired(ctx, group, n)
	})
}

func (g *judgedGroups) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	return g.call(ctx, "SetInstanceProtection", func() error { return g.Groups.SetInstanceProtection(ctx, group, ids, protected) })
}

func (g *judgedGroups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	return g.call(ctx, "TerminateInstanceInAutoScalingGroup", func() error {
		g.judge.note("%s terminates %s, lower %t", g.function, id, lower)
		g.judge.terminates(id, lower)
		return g.Groups.TerminateInstance(ctx, id, lower)
	})
}

func (g *judgedGroups) CompleteLifecycleAction(ctx context.Context, group, hook, id string) error {
	return g.call(ctx, "CompleteLifecycleAction", func() error { return g.Groups.CompleteLifecycleAction(ctx, group, hook, id) })
}

// judgedECS shows the judge which instances are drained.
type judgedECS struct {
	handler.ECS
	judge    *scalingJudge
	function string
}

func (e *judgedECS) DrainInstance(ctx context.Context, clusterName, id string) error {
	e.judge.drains(e.function, id)
	return e.ECS.DrainInstance(ctx, clusterName, id)
}
