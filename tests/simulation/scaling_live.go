package simulation

import (
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/kernel"
)

// How long a group may take to come to rest when nothing goes wrong any more: half of it a minute after 15 minutes and a
// cool-down, or a fifth in 10 minutes by consolidation, the drains that failed meanwhile being left alone for an hour; and for
// how long it then has to stay there.
const (
	scaledRest  = 14 * time.Hour
	scaledQuiet = 45 * time.Minute
)

// live is the whole life: a day with its faults, then a load that stays, none, one that rises, and managed scaling is
// switched off.
func (s *scaled) live() {
	s.until(s.Loop.Now().Add(5 * time.Minute))
	s.chaos.active = true
	s.day()
	s.untrack()
	s.chaos.active = false
	s.AWS.SetCallFaults(kernel.CallFaults{})
	s.note("faults end")
	s.heal()
	last := s.draw.IntN(s.shape.most() + 1)
	s.rest(last, s.shape.Consolidating)
	s.rest(0, true)
	s.rest(1+s.draw.IntN(s.shape.most()), true)
	s.off()
}

// heal has services that were throttled for failing tasks try again by the time that a rest begins. What never registered, and nobody
// replaces, is taken away by hand where a group without protection would take others in its place, for ever (seed 148).
func (s *scaled) heal() {
	if hosts := s.judge.now().hosts; !s.shape.Protection && !s.shape.Replacing {
		for _, i := range s.group().Instances {
			if i.Lifecycle == "InService" && hosts[i.ID] == nil {
				s.note("somebody terminates instance %s, which has not registered", i.ID)
				if err := s.AWS.Groups.TerminateInstance(context.Background(), i.ID, false); err != nil {
					s.checker.fail("terminating an instance by hand: %v", err)
				}
			}
		}
	}
	for _, i := range s.instances() {
		if !i.AgentConnected {
			_ = s.AWS.Machines.ReconnectAgent(i.ID) // one that has gone meanwhile needs no reconnection
		}
	}
	s.calmHealth()
	s.Loop.After(5*time.Minute, s.calmHealth)
}

// day is the load of a day: flat, rising, falling or oscillating for an hour or more at a time, with what else may happen to
// a group.
func (s *scaled) day() {
	end := s.Loop.Now().Add(scaledDay)
	for s.Loop.Now().Before(end) && len(s.checker.broken) == 0 {
		least, most := s.draw.IntN(s.shape.most()+1), s.draw.IntN(s.shape.most()+3)
		shape, every := s.draw.IntN(4), time.Duration(3+s.draw.IntN(30))*time.Minute
		for step := range 6 {
			switch shape {
			case 0:
				s.wants(most)
			case 1:
				s.wants(least + (most-least)*step/5)
			case 2:
				s.wants([]int{least, most}[step%2])
			default:
				s.wants(most * s.draw.IntN(101) / 100)
			}
			if s.draw.IntN(10) == 0 && s.chaos.rates != [faultCount]float64{} {
				s.happens()
			}
			s.until(s.Loop.Now().Add(every))
		}
	}
}

// happens is what befalls a group beside its load: a machine dies, an agent leaves for a while, or somebody changes the
// desired capacity, the bounds, or an instance's protection by hand.
func (s *scaled) happens() {
	all := s.instances()
	if len(all) == 0 {
		return
	}
	i := all[s.draw.IntN(len(all))]
	switch s.draw.IntN(5) {
	case 0:
		s.note("instance %s dies", i.ID)
		_ = s.AWS.Machines.KillInstance(i.ID) // it may be on its way out
	case 1:
		s.note("the agent of instance %s leaves", i.ID)
		_ = s.AWS.Machines.DisconnectAgent(i.ID)
		s.Loop.After(time.Duration(1+s.draw.IntN(40))*time.Minute, func() { _ = s.AWS.Machines.ReconnectAgent(i.ID) })
	case 2:
		g := s.group()
		n := min(max(g.Desired+1+s.draw.IntN(3), g.Min), g.Max)
		s.note("somebody sets the desired capacity to %d", n)
		if err := s.AWS.Groups.SetDesired(context.Background(), scaledGroup, n); err != nil {
			s.checker.fail("setting the desired capacity by hand: %v", err)
		}
	case 3:
		s.bound()
	case 4:
		s.bare(i)
	}
}

// bound has somebody change the group's minimum and maximum.
func (s *scaled) bound() {
	g := s.group()
	least, most := []int{0, 1, 3}[s.draw.IntN(3)], max(g.Desired, []int{5, 12, 20}[s.draw.IntN(3)])
	s.note("somebody sets the bounds to %d and %d", least, most)
	if err := s.AWS.Groups.SetSizes(context.Background(), scaledGroup, cluster.SizesChange{Min: &least, Max: &most}); err != nil {
		s.checker.fail("setting the bounds by hand: %v", err)
	}
	s.shape.Min, s.shape.Max, s.judge.bounded = least, most, s.Loop.Now()
}

// bare has an instance without tasks be as if it had been launched before protection was switched on.
func (s *scaled) bare(i *cluster.Instance) {
	g := s.judge.now()
	in := slices.ContainsFunc(g.Instances, func(m cluster.GroupInstance) bool { return m.ID == i.EC2InstanceID && m.Lifecycle == "InService" })
	if !in || len(g.tasks[i.EC2InstanceID]) > 0 {
		return
	}
	s.note("somebody takes the protection of instance %s away", i.ID)
	if err := s.AWS.Groups.SetInstanceProtection(context.Background(), scaledGroup, []string{i.EC2InstanceID}, false); err != nil {
		s.checker.fail("taking protection away by hand: %v", err)
	}
	s.judge.bared[i.EC2InstanceID] = s.Loop.Now()
}

// group is the group as it is.
func (s *scaled) group() *cluster.AutoScalingGroup {
	running := s.running
	s.running = nil // it is the simulator that looks
	defer func() { s.running = running }()
	got, err := s.AWS.Groups.DescribeGroups(context.Background(), []string{scaledGroup})
	if err != nil || len(got) != 1 {
		s.checker.fail("describing the group: %v, %v", got, err)
		return &cluster.AutoScalingGroup{}
	}
	return got[0]
}

// untrack takes the target tracking policy away, so that Berth's own alarms follow.
func (s *scaled) untrack() {
	if !s.shape.Tracked {
		return
	}
	s.client.call("end of the target tracking", func(ctx context.Context) error {
		return s.API.CapacityProviders.TagCapacityProvider(ctx, scaledProvider, nil, []string{cluster.TagTargetTracking})
	}, func(err error) {
		if err != nil {
			s.checker.fail("taking the tag of target tracking away: %v", err)
		}
		s.shape.Tracked = false
	})
	s.until(s.Loop.Now().Add(10 * time.Minute))
}

// rest has the load stay until the group is at rest, and then for as long again as nothing may change. Packed asks that it
// is on no more instances than it has to be, but for one.
func (s *scaled) rest(load int, packed bool) {
	if len(s.checker.broken) > 0 {
		return
	}
	s.wants(load)
	why := ""
	for end := s.Loop.Now().Add(scaledRest); s.Loop.Now().Before(end); {
		if s.until(s.Loop.Now().Add(10 * time.Minute)); len(s.checker.broken) > 0 {
			return
		}
		if why = s.judge.unrest(packed); why != "" {
			continue
		}
		was := s.judge.changes
		s.until(s.Loop.Now().Add(scaledQuiet))
		if why = s.judge.unrest(packed); why == "" && s.judge.changes == was {
			return
		}
		if why == "" {
			why = "it is as it should be, and the desired capacity changes all the same"
		}
	}
	if len(s.checker.broken) == 0 {
		s.checker.fail("invariant 8: with a load of %d nothing goes wrong for %s, and %s", load, scaledRest, why)
	}
}

// off switches managed scaling off: nothing scales any more, and nothing of it is left.
func (s *scaled) off() {
	if len(s.checker.broken) > 0 {
		return
	}
	s.client.call("managed scaling off", func(ctx context.Context) error {
		_, err := s.API.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{
			Name: scaledProvider, Protection: new(false), Scaling: operation.ScalingChange{Enabled: new(false)},
		})
		return err
	}, func(err error) {
		if err != nil {
			s.checker.fail("switching managed scaling off: %v", err)
		}
	})
	s.until(s.Loop.Now().Add(5 * time.Minute))
	was := s.judge.changes
	s.wants(s.shape.most())
	s.until(s.Loop.Now().Add(30 * time.Minute))
	if s.judge.changes != was {
		s.checker.fail("C7: managed scaling is off, and the desired capacity changes")
	}
	low, high := cluster.ScalingAlarms(clusterName, scaledProvider)
	left, err := s.AWS.CloudWatch.DescribeAlarms(context.Background(), []string{low, high})
	if err != nil || len(left) > 0 || s.judge.policy != nil {
		s.checker.fail("C1: managed scaling is off, and there are alarms %v, policy %v, %v", left, s.judge.policy, err)
	}
}
