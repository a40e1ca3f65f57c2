package problem

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/scaling"
)

// checkProviders reports capacity providers that cannot be used, and groups that do not scale in.
func (f *finder) checkProviders() {
	if f.in.Capacity == nil {
		return
	}
	for _, p := range f.in.Capacity.Unattachable {
		f.addProvider(p, "could not be created, and no cluster has it", p.GroupProblem, p.FailedAt,
			Help{"Delete it, then create it again without the cause",
				f.api("ecs delete-capacity-provider --capacity-provider " + QuoteArgument(p.Name))})
	}
	for _, name := range slices.Sorted(maps.Keys(f.in.Capacity.Providers)) {
		p := f.in.Capacity.Providers[name]
		see := Help{"See the provider",
			f.api("ecs describe-capacity-providers --capacity-providers " + QuoteArgument(name))}
		switch {
		case p.HasFailedCreation():
			f.addProvider(p, "cannot scale its group", p.GroupProblem, p.FailedAt, see)
		case p.UpdateStatus == cluster.ProviderUpdateFailed:
			f.addProvider(p, "could not be changed", p.UpdateReason, p.FailedAt, see)
		case p.UpdateStatus == cluster.ProviderDeleteFailed:
			f.addProvider(p, "could not be deleted", p.UpdateReason, p.FailedAt, append(removeHelp(f, p), see)...)
		case f.in.Capacity.Groups[p.Group] == nil:
			f.addProvider(p, "has no group", fmt.Sprintf("Auto Scaling group %s does not exist, or cannot be read",
				p.Group), groupMissingSince(f.in.Capacity, p), append(missingGroupHelp(f, p), see)...)
		default:
			f.checkLaunches(p, f.in.Capacity.Groups[p.Group])
			f.checkScaleIn(p, f.in.Capacity.Groups[p.Group], f.decision[name])
		}
	}
}

func (f *finder) addProvider(p *cluster.CapacityProvider, what, why string, since time.Time, help ...Help) {
	if p.Untagged != "" {
		why = handler.DescribeUntagged(p.Group, p.Untagged)
		mended := []Help{{"Let Berth change the group, if it is yours",
			f.other("%s", handler.TagCommand(p.Group, p.Untagged))}}
		if p.GroupProblem != "" { // an update is checked again, also one that changes nothing
			mended = append(mended, Help{"Then let Berth check the provider again",
				updateCommand(f, p, p.Scaling.Enabled)})
		}
		help = append(mended, help...)
	}
	f.add(Problem{Kind: ProviderFailed, Type: "capacity provider", Name: p.Name, Count: 1,
		What: fmt.Sprintf("Capacity provider %s %s.", p.Name, what), Why: sentence(why)}, since, help...)
}

// updateCommand returns the command that switches a provider's managed scaling on or off.
func updateCommand(f *finder, p *cluster.CapacityProvider, on bool) string {
	status := "DISABLED"
	if on {
		status = "ENABLED"
	}
	return f.api("ecs update-capacity-provider --name " + QuoteArgument(p.Name) +
		" --auto-scaling-group-provider 'managedScaling={status=" + status + "}'")
}

// missingGroupHelp returns what may help a capacity provider whose group no longer exists. The provider works
// again once there is a group of that name; otherwise it can be removed.
func missingGroupHelp(f *finder, p *cluster.CapacityProvider) []Help {
	return append([]Help{{"List the groups that exist: the provider works again once one is named " + p.Group, f.other(
		"autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[].AutoScalingGroupName'")}},
		removeHelp(f, p)...)
}

// removeHelp returns the commands that take a provider out of the cluster and delete it, in their
// order: first the services that use it get another one, and standalone tasks that do are stopped. The
// last commands are missing where a user of the provider has no such command.
func removeHelp(f *finder, p *cluster.CapacityProvider) (help []Help) {
	uses := func(shares []cluster.ProviderShare) bool {
		return slices.ContainsFunc(shares, func(s cluster.ProviderShare) bool { return s.Provider == p.Name })
	}
	what, strategy := replacementOf(f, p)
	isFree := true
	for _, name := range slices.Sorted(maps.Keys(f.in.Snapshot.Services)) {
		s := f.in.Snapshot.Services[name]
		switch {
		case s.Status == cluster.ServiceInactive || !uses(s.UsedProviders()):
		case len(help) == listed, s.Status != cluster.ServiceActive, s.HasTaskSets(): // sets keep their strategy
			isFree = false
		default:
			help = append(help, Help{"Let service " + name + " use " + what, f.aws("update-service --service %s "+
				"--force-new-deployment --capacity-provider-strategy %s", name, strategy)})
		}
	}
	var standalone []string
	for t := range f.in.Snapshot.Tasks() {
		if t.Service == "" && t.Rules != nil && !t.HasEnded() && uses(t.Rules.Providers) {
			standalone = append(standalone, t.ID)
		}
	}
	slices.Sort(standalone)
	for _, id := range standalone[:min(len(standalone), listed)] {
		help = append(help, Help{"Stop standalone task " + id, f.aws("stop-task --task %s", id)})
	}
	isFree = isFree && len(standalone) <= listed
	of := f.in.Capacity.Attached
	if !isFree || of == nil || !slices.Contains(of.Providers, p.Name) {
		return help
	}
	names := slices.DeleteFunc(slices.Clone(of.Providers), func(name string) bool { return name == p.Name })
	shares := slices.DeleteFunc(slices.Clone(of.Default),
		func(s cluster.ProviderShare) bool { return s.Provider == p.Name })
	return append(help, Help{"Take it out of the cluster", f.aws("put-cluster-capacity-providers "+
		"--capacity-providers %s --default-capacity-provider-strategy %s", listArguments(names),
		listArguments(strategyArguments(shares)))},
		Help{"Then delete it", f.api("ecs delete-capacity-provider --capacity-provider " + QuoteArgument(p.Name))})
}

// replacementOf returns what services may use instead of a provider, in words and as the argument of a
// strategy: another provider whose group exists, or if there is none, any instance.
func replacementOf(f *finder, p *cluster.CapacityProvider) (what, strategy string) {
	for _, name := range slices.Sorted(maps.Keys(f.in.Capacity.Providers)) {
		other := f.in.Capacity.Providers[name]
		if name != p.Name && f.in.Capacity.Groups[other.Group] != nil && !other.HasFailedCreation() {
			return "capacity provider " + name, QuoteArgument(fields("capacityProvider", name, "weight", "1"))
		}
	}
	return "any instance of the cluster", "'[]'"
}

// strategyArguments returns the shares of a strategy in the short syntax of the AWS CLI.
func strategyArguments(shares []cluster.ProviderShare) (arguments []string) {
	for _, s := range shares {
		arguments = append(arguments, QuoteArgument(fields("capacityProvider", s.Provider,
			"weight", strconv.Itoa(s.Weight), "base", strconv.Itoa(s.Base))))
	}
	return arguments
}

// listArguments returns arguments of the AWS CLI for a list; an empty list needs its own syntax.
func listArguments(arguments []string) string {
	if len(arguments) == 0 {
		return "'[]'"
	}
	return strings.Join(arguments, " ")
}

// groupMissingSince returns when managed scaling first missed the provider's group; zero if it has not
// looked yet.
func groupMissingSince(k *whatif.Capacity, p *cluster.CapacityProvider) time.Time {
	if h := k.Histories[p.Name]; h != nil {
		return h.Attachment.MissingSince
	}
	return time.Time{}
}

// checkScaleIn reports a group that has had more instances than it needs for as long as managed
// scaling waits, and keeps them.
func (f *finder) checkScaleIn(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, d scaling.Decision) {
	low := d.History.LowMinutes >= p.Scaling.LowDatapoints
	// A group that one instance less would overload has the right size.
	enough := d.Running > 1 && d.Needed*100 <= p.Scaling.Target*(d.Running-1)
	if !p.Scaling.Enabled || p.Scaling.TargetTracking || !low || !enough || d.Desired < g.Desired ||
		g.Desired <= g.Min || len(d.Drain)+len(d.Terminate) > 0 || f.isUpgrading(g.Name) {
		return
	}
	var stay []string
	var help []Help
	for _, v := range d.Verdicts {
		if !strings.Contains(v.Why, "protected") {
			continue
		}
		if stay = append(stay, v.EC2InstanceID+": "+v.Why); len(stay) == 1 {
			help = append(help, Help{"End the protection of the first", f.other(
				"autoscaling set-instance-protection --no-protected-from-scale-in --auto-scaling-group-name %s "+
					"--instance-ids %s", QuoteArgument(g.Name), v.EC2InstanceID)})
		}
	}
	why := fmt.Sprintf("%d of its %d instances are needed for a target of %d %%. %s", d.Needed, d.Running,
		p.Scaling.Target, sentence(d.Why))
	if len(stay) > 0 {
		why += " " + sentence(listReasons(stay))
	}
	help = append(help, Help{"See which instances could be emptied", f.berth("consolidate %s --dry-run", p.Name)})
	since := d.History.LastLowMinute.Add(-time.Duration(max(0, d.History.LowMinutes-1)) * time.Minute)
	f.add(Problem{Kind: NoScaleIn, Type: "capacity provider", Name: p.Name, Count: d.Running - d.Needed,
		What: fmt.Sprintf("Auto Scaling group %s does not scale in.", g.Name), Why: why}, since, help...)
}

func (f *finder) isUpgrading(group string) bool {
	for _, g := range f.in.Capacity.NodeGroups {
		if g.AutoScalingGroup == group && g.IsUpgrading() {
			return true
		}
	}
	return false
}

// checkDeadLetters reports messages that no function could handle.
func (f *finder) checkDeadLetters(q *operation.DeadLetters) {
	if q.Messages == 0 {
		return
	}
	p := Problem{Kind: DeadLetters, Type: "queue", Name: q.Queue, Count: q.Messages,
		What: fmt.Sprintf("Dead-letter queue %s has %s.", q.Queue, whatif.CountNoun(q.Messages, "message"))}
	if q.URL == "" {
		p.Why = "A function failed on each as often as its queue allows. The output of berth up has the error."
		f.add(p, q.Since,
			Help{"Stop berth up and start it again: it drops them, and looks at everything anew", "berth up"})
		return
	}
	p.Why = "A function failed on each as often as its queue allows, or it could not be delivered. " +
		"The function's log has the error."
	f.add(p, q.Since,
		Help{"Read one of them", f.other("sqs receive-message --queue-url %s", QuoteArgument(q.URL))},
		Help{"See which function they are of, and how to put them back",
			joinWords("berth doctor", f.in.Callers.Berth)})
}
