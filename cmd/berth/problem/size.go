package problem

import (
	"fmt"
	"slices"
	"strings"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/scaling"
)

// scalingHelp says what managed scaling does about the capacity providers of a strategy.
func scalingHelp(f *finder, strategy []cluster.ProviderShare) (why string, help []Help) {
	for _, share := range strategy {
		d, ok := f.decision[share.Provider]
		if !ok {
			continue
		}
		p := f.in.Capacity.Providers[share.Provider]
		g := f.in.Capacity.Groups[p.Group]
		if p.Scaling.Enabled {
			why += fmt.Sprintf(" Managed scaling of %s: %s", p.Name, sentence(d.Why))
		} else {
			why += fmt.Sprintf(" Managed scaling of %s is off, so Auto Scaling group %s keeps its desired capacity "+
				"of %d.",
				p.Name, g.Name, g.Desired)
			help = append(help, Help{"Switch managed scaling on", updateCommand(f, p, true)})
		}
		if failing := f.describeLaunches(g); failing != "" {
			why, help = why+" "+failing, append(help, f.launchHelp(g)...)
		}
		if missing, _ := unregisteredOf(&f.in, p, g); len(missing) > 0 { // more of them would not help
			why += fmt.Sprintf(" %d of its %s never registered with cluster %s.", len(missing),
				whatif.CountNoun(len(g.Instances), "instance"), f.in.Cluster)
			help = append(help, unregisteredHelp(f, missing[0])...)
			continue
		}
		switch {
		case d.Needed > g.Max && g.Desired >= g.Max:
			help = append(help, Help{"Let the group grow", f.other(
				"autoscaling update-auto-scaling-group --auto-scaling-group-name %s --max-size %d",
				QuoteArgument(g.Name), d.Needed)})
		case slices.ContainsFunc(d.Demands, func(w scaling.Demand) bool { return w.ExcludedBecause != "" }):
			help = append(help, Help{"See which instances the group launches", f.other(
				"autoscaling describe-auto-scaling-groups --auto-scaling-group-names %s "+
					"--query 'AutoScalingGroups[].[LaunchTemplate,MixedInstancesPolicy]'", QuoteArgument(g.Name))})
		}
	}
	return strings.TrimSpace(why), help
}
