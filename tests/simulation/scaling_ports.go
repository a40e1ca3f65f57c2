package simulation

import (
	"context"
	"fmt"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
)

// observedGroups report target tracking policies and published metrics to the checker.
type observedGroups struct {
	installation.Groups
	checker *scalingChecker
}

func (g *observedGroups) PutTrackingPolicy(ctx context.Context, p cluster.TrackingPolicy) error {
	low, high := cluster.ScalingAlarms(clusterName, scaledProvider)
	defer g.checker.asSimulation()()
	alarms, err := g.checker.AWS.CloudWatch.DescribeAlarms(context.Background(), []string{low, high})
	if isLate := g.checker.isRecent(g.checker.trackingEnded); err != nil || len(alarms) > 0 && !isLate {
		g.checker.checker.Fail("C1: two scalers are in charge: a target tracking policy is made beside the alarms %v, %v", alarms, err)
	}
	g.checker.policy = &p
	if g.checker.trackingEnded.IsZero() {
		return g.Groups.PutTrackingPolicy(ctx, p)
	}
	// A round that had begun before makes it once more; the next renewal removes it.
	if g.checker.isRecent(g.checker.trackingEnded) {
		g.checker.lateTracking = true
	} else {
		g.checker.checker.Fail("C1: a target tracking policy is made although no tag asks for it any more")
	}
	return g.Groups.PutTrackingPolicy(ctx, p)
}

func (g *observedGroups) DeletePolicy(ctx context.Context, group, name string) error {
	g.checker.policy, g.checker.lateTracking = nil, false
	return g.Groups.DeletePolicy(ctx, group, name)
}

func (g *observedGroups) PutScalingMetrics(ctx context.Context, points []cluster.Datapoint) error {
	for _, p := range points {
		g.checker.publishedMetric = p.Percent
	}
	return g.Groups.PutScalingMetrics(ctx, points)
}

func (g *observedGroups) PutMetricAlarm(ctx context.Context, a cluster.MetricAlarm) error {
	if g.checker.policy != nil && !g.checker.lateTracking {
		g.checker.checker.Fail("C1: two scalers are in charge: alarm %s is made beside a target tracking policy",
			a.Name)
	}
	return g.Groups.PutMetricAlarm(ctx, a)
}

// checkedGroups show the checker what functions do to the group. Their callers may be suspended or
// die before and after each call.
type checkedGroups struct {
	installation.Groups
	checker  *scalingChecker
	function string
	look     groupLook
}

// A groupLook is the group as a function saw it last, and whether its invocation was abandoned by then.
type groupLook struct {
	group     *cluster.AutoScalingGroup
	at        time.Time
	abandoned bool
}

func isAbandoned(ctx context.Context) bool {
	p := processOf(ctx)
	return p != nil && p.abandoned
}

func (g *checkedGroups) checkedCall(ctx context.Context, op string, change func() error) error {
	p := processOf(ctx)
	if err := p.interrupt(); err != nil {
		return err
	}
	// A client of AWS sends nothing for an invocation whose time is over.
	if err := p.callContext(ctx).Err(); err != nil {
		return fmt.Errorf("calling %s: %w", op, err)
	}
	g.checker.beforeChange()
	err := change()
	g.checker.checkChange(g.function, op)
	if dead := p.interrupt(); dead != nil {
		return dead
	}
	return err
}

func (g *checkedGroups) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	if err := processOf(ctx).interrupt(); err != nil {
		return nil, err
	}
	got, err := g.Groups.DescribeGroups(ctx, names)
	if len(got) == 1 {
		g.checker.observeInstances()
		g.look = groupLook{got[0], g.checker.Loop.Now(), isAbandoned(ctx)}
	}
	return got, err
}

func (g *checkedGroups) SetDesired(ctx context.Context, group string, n int) error {
	return g.checkedCall(ctx, "SetDesiredCapacity", func() error {
		g.checker.logf("%s sets the desired capacity to %d", g.function, n)
		g.checker.checkSetDesired(g.look, n, isAbandoned(ctx) && !g.look.abandoned)
		return g.Groups.SetDesired(ctx, group, n)
	})
}

func (g *checkedGroups) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	return g.checkedCall(ctx, "SetInstanceProtection",
		func() error { return g.Groups.SetInstanceProtection(ctx, group, ids, protected) })
}

func (g *checkedGroups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	return g.checkedCall(ctx, "TerminateInstanceInAutoScalingGroup", func() error {
		g.checker.logf("%s terminates %s, lower %t", g.function, id, lower)
		g.checker.checkTermination(id, lower)
		return g.Groups.TerminateInstance(ctx, id, lower)
	})
}

func (g *checkedGroups) CompleteLifecycleAction(ctx context.Context, group, hook, id string) error {
	return g.checkedCall(ctx, "CompleteLifecycleAction",
		func() error { return g.Groups.CompleteLifecycleAction(ctx, group, hook, id) })
}

// checkedECS shows the checker which instances are drained.
type checkedECS struct {
	handler.ECS
	checker  *scalingChecker
	function string
}

func (e *checkedECS) DrainInstance(ctx context.Context, clusterName, id string) error {
	e.checker.checkDrain(e.function, id)
	return e.ECS.DrainInstance(ctx, clusterName, id)
}
