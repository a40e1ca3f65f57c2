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
			Help{"See its scaling activities", f.other("autoscaling describe-scaling-activities "+
				"--auto-scaling-group-name %s --max-items 5", QuoteArgument(g.Name))})
	}
	h := f.in.Capacity.Histories[p.Name]
	if h == nil {
		return
	}
	var missing []string
	var since time.Time
	for i := range g.Instances {
		at, known := h.UnregisteredSince[g.Instances[i].ID]
		if !known || !g.Instances[i].IsInService() || f.in.Now.Sub(at) < registersWithin {
			continue
		}
		if missing = append(missing, g.Instances[i].ID); since.IsZero() || at.Before(since) {
			since = at
		}
	}
	if len(missing) == 0 {
		return
	}
	first := slices.Min(missing)
	f.add(Problem{Kind: InstanceUnregistered, Type: "capacity provider", Name: p.Name, Count: len(missing),
		What: fmt.Sprintf("%s of Auto Scaling group %s never registered with cluster %s.",
			whatif.CountNoun(len(missing), "instance"), g.Name, f.in.Cluster),
		Why: fmt.Sprintf("%s: an agent registers if it runs, ECS_CLUSTER is %s in its configuration, "+
			"and the instance's role and network let it call ECS.", listNames(missing), f.in.Cluster)}, since,
		Help{"Read what the first printed at its start", f.other("ec2 get-console-output --instance-id %s "+
			"--output text", first)},
		Help{"Let the group launch another one for it", f.other("autoscaling "+
			"terminate-instance-in-auto-scaling-group --no-should-decrement-desired-capacity --instance-id %s",
			first)})
}
