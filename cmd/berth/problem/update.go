package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// slowUpgrade is how long an update may wait before that is a problem: Auto Scaling needs a minute
// or two to launch an instance.
const slowUpgrade = 3 * time.Minute

// checkUpdates reports node groups that cannot be created, and updates that wait or failed.
func (f *finder) checkUpdates() {
	if f.in.Capacity == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.in.Capacity.NodeGroups)) {
		g, u := f.in.Capacity.NodeGroups[name], f.in.Capacity.Updates[name]
		if failed := f.in.Capacity.FailedConfigs[name]; failed != nil {
			f.addFailedUpdate(name, failed)
		}
		see := Help{"See the update's steps", f.berth("upgrade %s", name)}
		if len(g.Issues) > 0 {
			f.add(Problem{Kind: UpgradeFailed, Type: "node group", Name: name, Count: 1,
				What: fmt.Sprintf("Node group %s is %s.", name, g.Status),
				Why:  sentence(string(g.Issues[0].Code) + ": " + g.Issues[0].Message)}, g.ModifiedAt,
				f.nodeGroupHelp(g)...)
		}
		switch {
		case u == nil:
		case u.Status == cluster.UpdateFailed:
			f.addFailedUpdate(name, u)
		case !u.HasEnded():
			f.checkWaiting(u, see)
		}
	}
}

// nodeGroupHelp returns what shows a node group with issues. One that could not be created has no
// other use than to be deleted and created again.
func (f *finder) nodeGroupHelp(g *cluster.NodeGroup) []Help {
	of := " --cluster-name " + f.in.Cluster + " --nodegroup-name " + g.Name
	help := []Help{{"See the node group", f.api("eks describe-nodegroup" + of)}}
	if g.Status == cluster.NodeGroupCreateFailed {
		help = append(help, Help{"Delete it, then create it again without the cause",
			f.api("eks delete-nodegroup" + of)})
	}
	return help
}

func (f *finder) addFailedUpdate(name string, u *cluster.Update) {
	var why []string
	for _, e := range u.Errors {
		why = append(why, fmt.Sprintf("%s: %s", e.Code, e.Message))
	}
	if u.SizesReason != "" {
		why = append(why, u.SizesReason)
	}
	f.add(Problem{Kind: UpgradeFailed, Type: "node group", Name: name, Count: max(1, len(u.Errors)),
		What: fmt.Sprintf("Update %s of node group %s failed.", u.ID, name), Why: sentence(listReasons(why))},
		u.EndedAt, failedUpdateHelp(f, name, u)...)
}

// failedUpdateHelp returns what shows an update that failed, and what it would do now. Of one that
// changed sizes or labels, or whose release was never read, there is no dry run.
func failedUpdateHelp(f *finder, name string, u *cluster.Update) []Help {
	help := []Help{{"See what it asked for", f.api(fmt.Sprintf(
		"eks describe-update --name %s --nodegroup-name %s --update-id %s", f.in.Cluster, name, u.ID))}}
	flags := ""
	switch release := cmp.Or(u.Target.ReleaseVersion, u.Target.Image); {
	case u.Type == cluster.UpdateConfiguration:
		return help
	case u.Target.SourceVersion != "" && u.Target.ReleaseVersion == "":
		flags = "--launch-template-version " + QuoteArgument(u.Target.SourceVersion)
	case release != "":
		flags = "--release-version " + QuoteArgument(release)
	default:
		return help
	}
	if u.Force {
		flags += " --force"
	}
	if u.ForceProtected {
		flags += " --force-protected"
	}
	return append([]Help{{"See what the same update would do now", f.berth("upgrade %s %s --dry-run", name, flags)}},
		help...)
}

// checkWaiting reports an update that has waited for a while, with the tasks that keep its nodes
// from getting empty.
func (f *finder) checkWaiting(u *cluster.Update, see Help) {
	since := u.WaitingSince
	var reasons []string
	var remedies []remedy
	for _, r := range u.Removals {
		if since.IsZero() || !r.StepSince.IsZero() && r.StepSince.Before(since) {
			since = r.StepSince
		}
		v := f.in.Snapshot.Instances[r.Node]
		if v == nil || r.Step != cluster.StepDrain {
			continue
		}
		for _, t := range v.Tasks {
			if why, r := f.whyStays(t); why != "" {
				reasons, remedies = append(reasons, why), append(remedies, r)
			}
		}
	}
	if since.IsZero() || f.in.Now.Sub(since) < slowUpgrade || u.WaitingFor == "" && len(reasons) == 0 {
		return
	}
	slices.Sort(reasons)
	waitsFor := u.WaitingFor
	if leaving, _, ok := strings.Cut(waitsFor, ": "); ok && len(reasons) > 0 {
		waitsFor = leaving // the reasons say the same of each task, and until when
	}
	why := sentence(strings.TrimSuffix("It waits for "+waitsFor, "It waits for "))
	if len(reasons) > 0 {
		why = strings.TrimSpace(why + " " + sentence(listReasons(reasons)))
	}
	f.add(Problem{Kind: UpgradeWaits, Type: "node group", Name: u.NodeGroup, Count: max(1, len(reasons)),
		What: fmt.Sprintf("The upgrade of node group %s waits in its phase %q.", u.NodeGroup, u.Phase), Why: why},
		since, append([]Help{see}, listRemedies(f, remedies, 3)...)...)
}
