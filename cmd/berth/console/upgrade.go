package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
)

// shownUpdate is a node group and its last update.
type shownUpdate struct {
	Name, Group, Status, Update, Phase, Waiting string
	Since                                       time.Time // that it waits; zero if it does not
	Errors                                      []string
	// Nodes are those of an update in progress: first the ones that are being replaced, then the
	// other old ones in their order. New is how many have taken over.
	Nodes []shownNode
	More  int // old nodes that are not shown
	New   int
}

// shownNode is one old node of an update.
type shownNode struct {
	EC2, Instance, Zone, Domain, Step string
	Since                             time.Time
}

// maxUpdateNodes is how many old nodes of an update the page shows.
const maxUpdateNodes = 50

// newShownUpdate describes a node group and its last update, with the nodes of one in progress.
func newShownUpdate(v *view, g *cluster.NodeGroup) shownUpdate {
	out := shownUpdate{Name: g.Name, Group: g.AutoScalingGroup, Status: string(g.Status)}
	for _, i := range g.Issues {
		out.Errors = append(out.Errors, fmt.Sprintf("%s: %s", i.Code, i.Message))
	}
	u := cmp.Or(v.Capacity.FailedConfigs[g.Name], v.Capacity.Updates[g.Name])
	if u == nil {
		return out
	}
	out.Update, out.Phase = string(u.Status), string(u.Phase)
	for _, e := range u.Errors {
		out.Errors = append(out.Errors, fmt.Sprintf("%s: %s", e.Code, e.Message))
	}
	if u.HasEnded() {
		return out
	}
	out.Waiting, out.Since = u.WaitingFor, u.WaitingSince
	for _, r := range u.Removals { // as the list of problems has it
		if !r.StepSince.IsZero() && (out.Since.IsZero() || r.StepSince.Before(out.Since)) {
			out.Since = r.StepSince
		}
	}
	out.addNodes(v, u)
	return out
}

// addNodes adds the old nodes of an update in progress, and counts the new ones.
func (s *shownUpdate) addNodes(v *view, u *cluster.Update) {
	progress, err := whatif.MeasureProgress(v.Capacity, u.NodeGroup, u.ID, v.Snapshot, nil)
	if err != nil {
		return // the node group is gone, or could not be read
	}
	members := map[string]cluster.Instance{}
	for _, at := range v.Snapshot.Instances {
		if at.Instance != nil {
			members[at.EC2InstanceID] = *at.Instance
		}
	}
	zones := map[string]string{}
	for _, n := range progress.Nodes {
		zones[n.EC2] = n.Zone
	}
	add := func(id, step string, since time.Time) {
		if len(s.Nodes) == maxUpdateNodes {
			s.More++
			return
		}
		i := members[id]
		s.Nodes = append(s.Nodes, shownNode{EC2: id, Instance: i.ID, Zone: zones[id],
			Domain: i.Attributes[cluster.AttributeUpgrade], Step: step, Since: since})
	}
	removed := []string{}
	for _, r := range u.Removals {
		removed = append(removed, r.Instance)
		add(r.Instance, string(r.Step), r.StepSince)
	}
	for _, id := range progress.Order() {
		if !slices.Contains(removed, id) {
			add(id, cmp.Or(u.Refusals[id], "waits for its turn"), time.Time{})
		}
	}
	s.New = len(progress.Nodes) - len(s.Nodes) - s.More
}
