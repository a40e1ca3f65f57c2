package problem

import (
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// registersWithin is how long a launched instance may take to register before that is a problem.
const registersWithin = 5 * time.Minute

// describeLaunches says why a group is smaller than it should be; empty if its launches do not fail.
func (f *finder) describeLaunches(g *cluster.AutoScalingGroup) string {
	failed := f.in.Capacity.Failures[g.Name]
	if len(failed) == 0 {
		return ""
	}
	last := failed[0]
	text := "1 launch failed within the last hour"
	if len(failed) > 1 {
		text = fmt.Sprintf("%d launches failed within the last hour", len(failed))
	}
	if last.Zone != "" {
		text += ", the last in " + last.Zone
	}
	if last.Code != "" {
		return sentence(fmt.Sprintf("%s: %s (%s)", text, last.Code, last.Message))
	}
	return sentence(text + ": " + last.Message)
}

// checkLaunches reports a group whose launches fail, and its instances that never registered with
// the cluster.
func (f *finder) checkLaunches(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) {
	if why := f.describeLaunches(g); why != "" {
		failed := f.in.Capacity.Failures[g.Name]
		f.add(Problem{Kind: LaunchesFail, Type: "capacity provider", Name: p.Name, Count: g.Desired - len(g.Instances),
			What: fmt.Sprintf("Auto Scaling group %s has %d of %s: its launches fail.", g.Name, len(g.Instances),
				whatif.CountNoun(g.Desired, "instance")), Why: why}, failed[len(failed)-1].At,
			f.launchHelp(g)...)
	}
	missing, since := unregisteredOf(&f.in, p, g)
	if len(missing) == 0 {
		return
	}
	f.add(Problem{Kind: InstanceUnregistered, Type: "capacity provider", Name: p.Name, Count: len(missing),
		What: fmt.Sprintf("%s of Auto Scaling group %s never registered with cluster %s.",
			whatif.CountNoun(len(missing), "instance"), g.Name, f.in.Cluster),
		Why: fmt.Sprintf("%s: an agent registers if it runs, ECS_CLUSTER is %s in its configuration, "+
			"and the instance's role and network let it call ECS.", listNames(missing), f.in.Cluster)}, since,
		unregisteredHelp(f, missing[0])...)
}

// unregisteredOf returns the instances of a provider's group that never registered with the cluster
// although they had the time, sorted, and when the first of them was missed.
func unregisteredOf(
	in *Input, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup,
) (ids []string, since time.Time) {
	h := in.Capacity.Histories[p.Name]
	if h == nil {
		return nil, since
	}
	for i := range g.Instances {
		at, known := h.UnregisteredSince[g.Instances[i].ID]
		if !known || !g.Instances[i].IsInService() || in.Now.Sub(at) < registersWithin {
			continue
		}
		if ids = append(ids, g.Instances[i].ID); since.IsZero() || at.Before(since) {
			since = at
		}
	}
	slices.Sort(ids)
	return ids, since
}

// unregisteredHelp returns what shows why an instance did not register, and what replaces it.
func unregisteredHelp(f *finder, id string) []Help {
	return []Help{
		{"Read what the first printed at its start", f.other(
			"ec2 get-console-output --instance-id %s --output text", id)},
		{"Let the group launch another one for it", f.other("autoscaling "+
			"terminate-instance-in-auto-scaling-group --no-should-decrement-desired-capacity --instance-id %s", id)}}
}

// launchHelp returns what shows why a group's launches fail and, for what EC2 refuses often, what
// ends that.
func (f *finder) launchHelp(g *cluster.AutoScalingGroup) []Help {
	activities := Help{"See its scaling activities", f.other("autoscaling describe-scaling-activities "+
		"--auto-scaling-group-name %s --max-items 5", QuoteArgument(g.Name))}
	failed := f.in.Capacity.Failures[g.Name]
	if len(failed) == 0 {
		return []Help{activities}
	}
	switch failed[0].Code {
	case "VcpuLimitExceeded":
		return []Help{{"See how many vCPUs of standard On-Demand instances the account may have", f.other(
			"service-quotas get-service-quota --service-code ec2 --quota-code L-1216C47A --query Quota.Value")},
			{"Ask for no more than the quota allows", f.other("autoscaling update-auto-scaling-group "+
				"--auto-scaling-group-name %s --desired-capacity %d", QuoteArgument(g.Name),
				max(g.Min, len(g.Instances)))}, activities}
	case "InsufficientInstanceCapacity":
		activities.What = "See its scaling activities: EC2 may have other instance types, or the type in other zones"
	}
	return []Help{activities}
}
