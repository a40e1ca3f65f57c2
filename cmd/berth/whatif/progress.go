package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/snapshot"
)

// UpgradeProgress is how far an update of a node group is. Two of them, taken one after the other,
// give a report of what has happened between: see [UpgradeProgress.ChangesSince].
type UpgradeProgress struct {
	ID        string `json:"id"`
	NodeGroup string `json:"nodegroup"`
	Status    string `json:"status"`
	Phase     string `json:"phase"`
	Waiting   string `json:"waiting,omitempty"`
	Desired   int    `json:"desiredCapacity"`
	// Old counts the nodes that were outdated at the first report, Replaced those of them that have been
	// terminated since. An update that was in progress before may have replaced others.
	Old      int            `json:"old"`
	Replaced int            `json:"replaced"`
	Nodes    []ProgressNode `json:"nodes"`
	Errors   []UpgradeError `json:"errors"`
	// Stopped is why the group does not have its former sizes, although nothing failed.
	Stopped string `json:"stopped,omitempty"`

	target string
	old    []string // EC2 instance ids, as at the first report
}

// ProgressNode is one member of the group, old or new. New nodes appear when Auto Scaling launches
// them.
type ProgressNode struct {
	EC2       string     `json:"instanceId"`
	Zone      string     `json:"availabilityZone"`
	Lifecycle string     `json:"lifecycleState"`
	Old       bool       `json:"old"`
	Step      string     `json:"step,omitempty"` // what is being done with it
	Since     *time.Time `json:"since,omitempty"`
}

// UpgradeError is one reason why an update failed.
type UpgradeError struct {
	Code      string   `json:"errorCode"`
	Message   string   `json:"errorMessage"`
	Resources []string `json:"resourceIds"`
}

// MeasureProgress returns how far an update is. Which nodes are old comes from the previous report,
// or for the first one from the snapshot. An update that is no longer its node group's last one is
// a [*NotFound].
func MeasureProgress(
	k *Capacity, group, id string, snap *snapshot.Snapshot, before *UpgradeProgress,
) (*UpgradeProgress, error) {
	g, auto, err := k.FindNodeGroup(group)
	if err != nil {
		return nil, err
	}
	if auto == nil {
		auto = &cluster.AutoScalingGroup{} // the update is about to fail
	}
	u := k.Updates[g.Name]
	if u == nil || u.ID != id {
		return nil, &NotFound{"update", id, []string{g.Update}}
	}
	out := &UpgradeProgress{
		ID: u.ID, NodeGroup: g.Name, Status: string(u.Status), Phase: string(u.Phase), Waiting: u.WaitingFor,
		Desired: auto.Desired,
		Nodes:   []ProgressNode{}, Errors: []UpgradeError{}, Stopped: u.SizesReason, target: DescribeTarget(u),
	}
	if before != nil {
		out.old = before.old
	} else {
		out.old = nodegroup.ReplacementOrder(u, nodegroup.NodesOf(auto, rowsOf(snap), u.ReconciledAt))
	}
	// Every old node that is still in the group is not replaced yet.
	out.Old, out.Replaced = len(out.old), len(out.old)
	for _, i := range auto.Instances {
		n := ProgressNode{EC2: i.ID, Zone: i.Zone, Lifecycle: i.Lifecycle, Old: slices.Contains(out.old, i.ID)}
		if n.Old {
			out.Replaced--
		}
		if w := u.RemovalOf(i.ID); w != nil {
			n.Step = string(w.Step)
			if !w.StepSince.IsZero() {
				n.Since = &w.StepSince
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, e := range u.Errors {
		out.Errors = append(out.Errors, UpgradeError{string(e.Code), e.Message, append([]string{}, e.Resources...)})
	}
	return out, nil
}

// Order returns the old nodes in the order in which they are replaced, by EC2 instance id.
func (a *UpgradeProgress) Order() []string { return a.old }

// DescribeTarget returns what an update changes, to follow the node group's name: " to
// ReleaseVersion ami-2". It is empty for an update to the node group's present launch template.
func DescribeTarget(u *cluster.Update) string {
	var out []string
	for _, p := range u.Params {
		out = append(out, p.Type+" "+p.Value)
	}
	if len(out) == 0 {
		return ""
	}
	return " to " + strings.Join(out, ", ")
}

// ChangesSince describes what has changed since the previous report, in lines. before is nil for
// the first report, which describes the whole update.
func (a *UpgradeProgress) ChangesSince(before *UpgradeProgress) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if before == nil {
		say("update %s of node group %s%s: %s, %d of %d nodes are old", a.ID, a.NodeGroup, a.target, a.Status,
			a.Old-a.Replaced, len(a.Nodes))
		before = &UpgradeProgress{Nodes: slices.Clone(a.Nodes), Desired: a.Desired}
		for i := range before.Nodes {
			before.Nodes[i].Step = "" // so that steps in progress are reported
		}
	}
	if a.Phase != before.Phase && a.Status == string(cluster.UpdateInProgress) {
		say("phase: %s", a.Phase)
	}
	if a.Desired != before.Desired {
		say("desired capacity %d, was %d", a.Desired, before.Desired)
	}
	out = append(out, a.nodeChanges(before)...)
	for _, e := range a.Errors[min(len(before.Errors), len(a.Errors)):] {
		say("%s: %s (%s)", e.Code, e.Message, strings.Join(e.Resources, ", "))
	}
	if a.Waiting != "" && a.Waiting != before.Waiting {
		say("waiting for %s", a.Waiting)
	}
	if a.Status != string(cluster.UpdateInProgress) {
		say("%s: %d of %d old nodes replaced since the first report, desired capacity %d", a.Status, a.Replaced, a.Old,
			a.Desired)
		if a.Stopped != "" {
			say("%s", a.Stopped)
		}
	}
	return out
}

// nodeChanges describes what has changed about each node: its lifecycle, the step that is done with
// it, or that it has left the group. New nodes appear with their lifecycle.
func (a *UpgradeProgress) nodeChanges(before *UpgradeProgress) (out []string) {
	say := func(n *ProgressNode, format string, args ...any) {
		kind := "new"
		if n.Old {
			kind = "old"
		}
		out = append(out, fmt.Sprintf("%s node %s in %s: ", kind, n.EC2, n.Zone)+fmt.Sprintf(format, args...))
	}
	was := map[string]*ProgressNode{}
	for i := range before.Nodes {
		was[before.Nodes[i].EC2] = &before.Nodes[i]
	}
	for i := range a.Nodes {
		n := &a.Nodes[i]
		old := was[n.EC2]
		delete(was, n.EC2)
		switch {
		case old == nil || n.Lifecycle != old.Lifecycle:
			say(n, "%s", n.Lifecycle)
		case n.Step != old.Step && n.Step != "":
			say(n, "%s", describeStep(n.Step))
		case n.Step != old.Step:
			say(n, "stays in service")
		}
	}
	// Nodes left in was have left the group. Each old one that does counts.
	replaced := before.Replaced
	for i := range before.Nodes {
		switch n := &before.Nodes[i]; {
		case was[n.EC2] == nil:
		case n.Old:
			replaced++
			say(n, "terminated, %d of %d replaced", replaced, a.Old)
		default:
			say(n, "terminated")
		}
	}
	return out
}

// describeStep returns the step of a removal in a word for users, who know no cordons.
func describeStep(step string) string {
	if step == string(cluster.StepCordon) {
		return "empty"
	}
	return step
}
