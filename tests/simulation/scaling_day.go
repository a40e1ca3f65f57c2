package simulation

import (
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/kernel"
)

// maxSettleTime is how long a group may take to settle without faults: it shrinks by half after 15
// minutes and a cooldown, or by a fifth in 10 minutes of consolidation, which leaves failed drains
// alone for an hour. It must then stay settled for settledTime.
const (
	maxSettleTime = 14 * time.Hour
	settledTime   = 45 * time.Minute
)

// runDayAndSettle runs a day with faults, and then a constant load, no load, and a risen load. At
// the end managed scaling is switched off.
func (s *scalingWorld) runDayAndSettle() {
	s.runUntil(s.Loop.Now().Add(5 * time.Minute))
	if g := s.describeGroup(); g.Desired > s.shape.Min {
		s.checker.Fail("C2: %d instances are launched although no task that fits waits", g.Desired-s.shape.Min)
	}
	s.faults.active = true
	s.runDay()
	s.endTargetTracking()
	s.faults.active = false
	s.AWS.SetCallFaults(kernel.CallFaults{})
	s.logf("faults end")
	s.endScalingFaults()
	last := s.random.IntN(s.shape.maxTasks() + 1)
	s.checkSettles(last, s.shape.Consolidating)
	s.checkSettles(0, true)
	s.checkSettles(1+s.random.IntN(s.shape.maxTasks()), true)
	s.switchOff()
}

// endScalingFaults ends all faults. In a group without protection, unregistered instances that are
// not replaced would make the group terminate others forever (seed 148), so an operator terminates
// them.
func (s *scalingWorld) endScalingFaults() {
	if hosts := s.groupChecker.observeInstances().hosts; !s.shape.Protection && !s.shape.Replacing {
		for _, i := range s.describeGroup().Instances {
			if i.Lifecycle == "InService" && hosts[i.ID] == nil {
				s.logf("an operator terminates instance %s, which has not registered", i.ID)
				if err := s.AWS.Groups.TerminateInstance(context.Background(), i.ID, false); err != nil {
					s.checker.Fail("terminating an instance by hand: %v", err)
				}
			}
		}
	}
	for _, i := range s.instances() {
		if !i.AgentConnected {
			_ = s.AWS.Machines.ReconnectAgent(i.ID) // it may have been deregistered meanwhile
		}
	}
	s.endUnhealthiness()
	s.Loop.After(5*time.Minute, s.endUnhealthiness)
}

// runDay changes the load for a day: constant, rising, falling or oscillating for an hour or more
// at a time. Now and then something else happens to the group.
func (s *scalingWorld) runDay() {
	end := s.Loop.Now().Add(scalingDay)
	for s.Loop.Now().Before(end) && len(s.checker.Broken) == 0 {
		least, most := s.random.IntN(s.shape.maxTasks()+1), s.random.IntN(s.shape.maxTasks()+3)
		shape, every := s.random.IntN(4), time.Duration(3+s.random.IntN(30))*time.Minute
		for step := range 6 {
			switch shape {
			case 0:
				s.setLoad(most)
			case 1:
				s.setLoad(least + (most-least)*step/5)
			case 2:
				s.setLoad([]int{least, most}[step%2])
			default:
				s.setLoad(most * s.random.IntN(101) / 100)
			}
			if s.random.IntN(10) == 0 && s.faults.rates != [faultCount]float64{} {
				s.disturbGroup()
			}
			s.runUntil(s.Loop.Now().Add(every))
		}
	}
}

// disturbGroup does one thing to the group besides its load: an instance dies, an agent disconnects
// for a while, or an operator changes the desired capacity, the bounds, or an instance's
// protection.
func (s *scalingWorld) disturbGroup() {
	all := s.instances()
	if len(all) == 0 {
		return
	}
	i := all[s.random.IntN(len(all))]
	switch s.random.IntN(5) {
	case 0:
		s.logf("instance %s dies", i.ID)
		_ = s.AWS.Machines.KillInstance(i.ID) // it may be terminating
	case 1:
		s.logf("the agent of instance %s disconnects", i.ID)
		_ = s.AWS.Machines.DisconnectAgent(i.ID)
		s.Loop.After(time.Duration(1+s.random.IntN(40))*time.Minute, func() { _ = s.AWS.Machines.ReconnectAgent(i.ID) })
	case 2:
		g := s.describeGroup()
		n := min(max(g.Desired+1+s.random.IntN(3), g.Min), g.Max)
		s.logf("an operator sets the desired capacity to %d", n)
		if err := s.AWS.Groups.SetDesired(context.Background(), scaledGroup, n); err != nil {
			s.checker.Fail("setting the desired capacity by hand: %v", err)
		}
	case 3:
		s.changeBounds()
	case 4:
		s.removeProtection(i)
	}
}

// changeBounds changes the group's minimum and maximum as an operator.
func (s *scalingWorld) changeBounds() {
	g := s.describeGroup()
	least, most := []int{0, 1, 3}[s.random.IntN(3)], max(g.Desired, []int{5, 12, 20}[s.random.IntN(3)])
	s.logf("an operator sets the bounds to %d and %d", least, most)
	if err := s.AWS.Groups.SetSizes(context.Background(), scaledGroup,
		cluster.SizesChange{Min: &least, Max: &most}); err != nil {
		s.checker.Fail("setting the bounds by hand: %v", err)
	}
	s.shape.Min, s.shape.Max, s.groupChecker.boundsChangedAt = least, most, s.Loop.Now()
}

// removeProtection makes an instance without tasks look as if it had been launched before
// protection was switched on.
func (s *scalingWorld) removeProtection(i *cluster.Instance) {
	g := s.groupChecker.observeGroup()
	in := slices.ContainsFunc(g.Instances, func(m cluster.GroupInstance) bool {
		return m.ID == i.EC2InstanceID &&
			m.Lifecycle == "InService"
	})
	if !in || len(g.tasks[i.EC2InstanceID]) > 0 {
		return
	}
	s.logf("an operator removes the protection of instance %s", i.ID)
	if err := s.AWS.Groups.SetInstanceProtection(context.Background(), scaledGroup, []string{i.EC2InstanceID},
		false); err != nil {
		s.checker.Fail("removing protection by hand: %v", err)
	}
	s.groupChecker.unprotectedAt[i.EC2InstanceID] = s.Loop.Now()
}

// describeGroup returns the group as it is.
func (s *scalingWorld) describeGroup() *cluster.AutoScalingGroup {
	defer s.asSimulation()()
	got, err := s.AWS.Groups.DescribeGroups(context.Background(), []string{scaledGroup})
	if err != nil || len(got) != 1 {
		s.checker.Fail("describing the group: %v, %v", got, err)
		return &cluster.AutoScalingGroup{}
	}
	return got[0]
}

// endTargetTracking removes the tag of target tracking, so that Berth's own alarms take over.
func (s *scalingWorld) endTargetTracking() {
	if !s.shape.Tracked {
		return
	}
	s.client.callUntilAnswered("end of the target tracking", func(ctx context.Context) error {
		return s.API.CapacityProviders.TagCapacityProvider(ctx, scaledProvider, nil,
			[]string{cluster.TagTargetTracking})
	}, func(err error) {
		if err != nil {
			s.checker.Fail("removing the tag of target tracking: %v", err)
		}
		s.shape.Tracked, s.groupChecker.wasTracked, s.groupChecker.trackingEnded = false, true, s.Loop.Now()
	})
	s.runUntil(s.Loop.Now().Add(10 * time.Minute))
}

// checkSettles sets a constant load and checks that the group settles and stays so. packed demands
// that it uses at most one instance more than it needs.
func (s *scalingWorld) checkSettles(load int, packed bool) {
	if len(s.checker.Broken) > 0 {
		return
	}
	s.setLoad(load)
	why := ""
	for end := s.Loop.Now().Add(maxSettleTime); s.Loop.Now().Before(end); {
		if s.runUntil(s.Loop.Now().Add(10 * time.Minute)); len(s.checker.Broken) > 0 {
			return
		}
		if why = s.groupChecker.whyUnsettled(packed); why != "" {
			continue
		}
		was := s.groupChecker.desiredChanges
		s.runUntil(s.Loop.Now().Add(settledTime))
		if why = s.groupChecker.whyUnsettled(packed); why == "" && s.groupChecker.desiredChanges == was {
			return
		}
		if why == "" {
			why = "the group is settled, but the desired capacity still changes"
		}
	}
	if len(s.checker.Broken) == 0 {
		s.checker.Fail("invariant 8: with a load of %d and no faults the group does not settle within %s: %s", load,
			maxSettleTime, why)
	}
}

// switchOff switches managed scaling off and checks that nothing scales any more, and nothing is
// left.
func (s *scalingWorld) switchOff() {
	if len(s.checker.Broken) > 0 {
		return
	}
	s.client.callUntilAnswered("managed scaling off", func(ctx context.Context) error {
		_, err := s.API.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{
			Name: scaledProvider, Protection: new(false), Scaling: operation.ScalingChange{Enabled: new(false)},
		})
		return err
	}, func(err error) {
		if err != nil {
			s.checker.Fail("switching managed scaling off: %v", err)
		}
	})
	s.runUntil(s.Loop.Now().Add(5 * time.Minute))
	was := s.groupChecker.desiredChanges
	s.setLoad(s.shape.maxTasks())
	s.runUntil(s.Loop.Now().Add(30 * time.Minute))
	if s.groupChecker.desiredChanges != was {
		s.checker.Fail("C7: managed scaling is off, and the desired capacity changes")
	}
	low, high := cluster.ScalingAlarms(clusterName, scaledProvider)
	left, err := s.AWS.CloudWatch.DescribeAlarms(context.Background(), []string{low, high})
	if err != nil || len(left) > 0 || s.groupChecker.policy != nil {
		s.checker.Fail("C1: managed scaling is off, and there are alarms %v, policy %v, %v", left,
			s.groupChecker.policy, err)
	}
}
