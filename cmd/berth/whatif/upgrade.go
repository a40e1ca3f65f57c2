package whatif

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/nodegroup"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// UpgradeAnswer is what an update of a node group would do. It is a forecast: services, tasks and
// instances may change before the update comes to a node.
type UpgradeAnswer struct {
	NodeGroup      string        `json:"nodegroup"`
	Group          string        `json:"autoScalingGroup"`
	Params         []Param       `json:"params"`
	Strategy       string        `json:"strategy"`
	MaxUnavailable int           `json:"maxUnavailable"`
	Surge          int           `json:"surge"`
	Sizes          Sizes         `json:"sizes"`
	Nodes          []UpgradeNode `json:"nodes"`    // in the order in which they are replaced
	UpToDate       int           `json:"upToDate"` // nodes that need no replacement
	// NoRoom has an entry for each turn whose load the rest of the cluster cannot hold.
	NoRoom []NoRoom `json:"noRoom"`
	// Refused is why the update would fail before it replaces a node, if it would.
	Refused string `json:"refused,omitempty"`

	target string
}

// Param is one thing that the update changes, in EKS's terms.
type Param struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Sizes are the sizes of an Auto Scaling group.
type Sizes struct {
	Min     int `json:"minSize"`
	Max     int `json:"maxSize"`
	Desired int `json:"desiredSize"`
}

// UpgradeNode is an outdated node.
type UpgradeNode struct {
	EC2      string `json:"instanceId"`
	Instance string `json:"instance,omitempty"`
	Zone     string `json:"availabilityZone"`
	Domain   string `json:"upgradeDomain,omitempty"`
	Turn     int    `json:"turn"` // from 1; nodes with the same turn are out of service together
	Tasks    int    `json:"tasks"`
	// Stays lists the tasks that would not leave the node, each with the reason.
	Stays []string `json:"stays"`
}

// NoRoom is why tasks of a turn's nodes would find no other instance.
type NoRoom struct {
	Turn int    `json:"turn"`
	Why  string `json:"why"`
}

// WouldSucceed reports that the plan shows nothing that makes the update fail.
func (a *UpgradeAnswer) WouldSucceed() bool {
	return a.Refused == "" && len(a.NoRoom) == 0 && !slices.ContainsFunc(a.Nodes,
		func(n UpgradeNode) bool { return len(n.Stays) > 0 })
}

// RefusedUpgrade is the answer for an update that would fail at once because its launch template
// cannot be used.
func RefusedUpgrade(k *Capacity, u *cluster.Update, why *cluster.Error) *UpgradeAnswer {
	out := newUpgradeAnswer(u, k.NodeGroups[u.NodeGroup].AutoScalingGroup)
	out.Refused = fmt.Sprintf("%s: %s", why.Code, why.Message)
	if g := k.Groups[out.Group]; g != nil {
		out.Sizes = Sizes{g.Min, g.Max, g.Desired}
	}
	return out
}

func newUpgradeAnswer(u *cluster.Update, group string) *UpgradeAnswer {
	out := &UpgradeAnswer{
		NodeGroup: u.NodeGroup, Group: group, Params: []Param{}, Strategy: string(strategyOf(u)),
		Nodes: []UpgradeNode{}, NoRoom: []NoRoom{}, target: DescribeTarget(u),
	}
	for _, p := range u.Params {
		out.Params = append(out.Params, Param(p))
	}
	return out
}

// PlanUpgrade rehearses an update that has not started, and whose launch template has been read, on
// the snapshot. It changes the snapshot. It assumes that new nodes are like the old ones of their
// zone, and ready as soon as they are launched.
func PlanUpgrade(snap *snapshot.Snapshot, k *Capacity, u *cluster.Update, now time.Time) (*UpgradeAnswer, error) {
	g, auto, err := k.FindNodeGroup(u.NodeGroup)
	if err != nil {
		return nil, err
	}
	if auto == nil {
		return nil, fmt.Errorf("node group %s: Auto Scaling group %s no longer exists", g.Name, g.AutoScalingGroup)
	}
	nodes := nodegroup.NodesOf(auto, rowsOf(snap), now)
	sizes := cluster.Sizes{Min: auto.Min, Max: auto.Max, Desired: auto.Desired}
	// The first step of an update computes its surge, zones and limits, as it will when it starts.
	u, _ = nodegroup.Next(u, nodegroup.Group{Name: auto.Name, Sizes: sizes, Zones: auto.Zones, Template: auto.Template},
		nodes, now)
	order := nodegroup.ReplacementOrder(u, nodes)
	out := newUpgradeAnswer(u, auto.Name)
	out.MaxUnavailable, out.Surge, out.Sizes = u.MaxUnavailable, u.Surge, Sizes(sizes)
	out.UpToDate = len(nodes) - len(order)
	r := &rehearsal{model: newModel(snap), update: u, group: auto, nodes: map[string]nodegroup.Instance{}}
	for _, n := range nodes {
		r.nodes[n.ID] = n
	}
	// From here on the snapshot is as the update leaves the cluster before it drains the first
	// node.
	r.cordonNodes(order)
	if len(order) > 0 {
		err = r.launchSurge(u.Surge)
	}
	// Services may move tasks to make room during the update, so the check of room allows for that.
	movers := specs.Movers(snap)
	for k, turn := range r.groupIntoTurns(order) {
		for _, id := range turn {
			out.Nodes = append(out.Nodes, r.upgradeNode(id, k+1))
		}
		if why := r.whyNoRoom(movers, turn, order); why != "" {
			out.NoRoom = append(out.NoRoom, NoRoom{k + 1, why})
		}
	}
	return out, err
}

// strategyOf returns the update's strategy, which is DEFAULT unless set, as in EKS.
func strategyOf(u *cluster.Update) cluster.UpdateStrategy {
	return cmp.Or(u.Config.Strategy, cluster.UpdateDefault)
}

// rowsOf yields the rows from which nodes are built.
func rowsOf(snap *snapshot.Snapshot) iter.Seq[state.Row] {
	return func(yield func(state.Row) bool) {
		for _, v := range snap.Instances {
			if v.Instance != nil && !yield(v.Instance) {
				return
			}
		}
		for _, s := range snap.Services {
			if !yield(s) {
				return
			}
		}
		for t := range snap.Tasks() {
			if !yield(t) {
				return
			}
			if p := snap.Protection(t.Owner, t.ID); p != nil && !yield(p) {
				return
			}
		}
	}
}

// rehearsal is an update that is tried on a snapshot: new nodes are added and outdated ones closed,
// and then each turn is checked for room. Nothing is drained, so turns do not influence each other.
type rehearsal struct {
	*model
	update *cluster.Update
	group  *cluster.AutoScalingGroup
	nodes  map[string]nodegroup.Instance // by EC2 instance id
}

// groupIntoTurns splits the order into the nodes that are out of service together: at most as many
// as may be unavailable, and of one upgrade domain.
func (r *rehearsal) groupIntoTurns(order []string) (out [][]string) {
	for _, id := range order {
		last := len(out) - 1
		if last < 0 || len(out[last]) >= r.update.MaxUnavailable ||
			r.upgradeDomain(out[last][0]) != r.upgradeDomain(id) {
			out = append(out, nil)
			last++
		}
		out[last] = append(out[last], id)
	}
	return out
}

// upgradeDomain returns a node's upgrade domain, or nothing if the update does not go by domains.
func (r *rehearsal) upgradeDomain(id string) string {
	if n := r.nodes[id]; r.update.ByDomain {
		return n.UpgradeDomain()
	}
	return ""
}

// upgradeNode describes an outdated node. With --force, fewer tasks block its drain.
func (r *rehearsal) upgradeNode(id string, turn int) UpgradeNode {
	n := r.nodes[id]
	out := UpgradeNode{
		EC2: id, Zone: n.Zone, Domain: r.upgradeDomain(id), Turn: turn, Tasks: len(n.Tasks),
		Stays: append([]string{}, nodegroup.BlockingTasks(n, r.update.Force, r.update.ForceProtected)...),
	}
	if n.Row != nil {
		out.Instance = n.Row.ID
	}
	return out
}

// cordonNodes keeps new tasks off outdated nodes, as an update does that launches new nodes first.
// An update by upgrade domains does not: the nodes of the other domains take the tasks of one.
func (r *rehearsal) cordonNodes(order []string) {
	if r.update.ByDomain || strategyOf(r.update) == cluster.UpdateMinimal {
		return
	}
	for _, id := range order {
		row := r.nodes[id].Row
		if row == nil || row.IsDeregistered() {
			continue
		}
		next := *row
		next.Rev++
		next.Attributes = maps.Clone(row.Attributes)
		if next.Attributes == nil {
			next.Attributes = map[string]string{}
		}
		next.Attributes[cluster.AttributeUnschedulable] = r.update.ID
		r.snap.Put(&next)
	}
}

// whyNoRoom returns why the rest of the cluster has no room for the load of a turn's nodes, or of
// their whole upgrade domain. It returns nothing if there is room.
func (r *rehearsal) whyNoRoom(movers map[string]moves.Owner, turn, order []string) string {
	var leaving []string
	for _, id := range order {
		// The nodes of one upgrade domain may be drained in several turns. The rest must hold the
		// load of the whole domain, because services treat it as going down together.
		together := slices.Contains(turn, id) || r.update.ByDomain && r.upgradeDomain(id) == r.upgradeDomain(turn[0])
		if row := r.nodes[id].Row; row != nil && together {
			leaving = append(leaving, row.ID)
		}
	}
	return scaling.WhyNoRoom(r.snap, movers, leaving)
}

// launchSurge adds new nodes with their daemons, each to the zone with the fewest nodes and like
// the old nodes there.
func (r *rehearsal) launchSurge(n int) error {
	services, err := r.serviceSpecs()
	if err != nil {
		return err
	}
	zones, have := slices.Sorted(slices.Values(r.group.Zones)), maps.Clone(r.update.Zones)
	for k := range n {
		if len(zones) == 0 {
			break
		}
		zone := slices.MinFunc(zones, func(a, b string) int { return have[a] - have[b] })
		// Auto Scaling balances its zones the same way.
		have[zone]++
		like := r.exampleNode(zone)
		if like == nil {
			break
		}
		node := *like
		// The new node is like the old one but for its identity, its labels, and that it is
		// healthy.
		node.Head = cluster.Head{Cluster: like.Cluster, Rev: 1}
		node.ID, node.EC2InstanceID = fmt.Sprintf("new node %d in %s", k+1, zone), ""
		node.Status, node.AgentConnected, node.DisconnectedAt = cluster.InstanceActive, true, 0
		node.Attributes = map[string]string{}
		maps.Copy(node.Attributes, like.Attributes)
		maps.Copy(node.Attributes, nodegroup.TargetLabels(r.update))
		delete(node.Attributes, cluster.AttributeUnschedulable)
		node.Attributes[cluster.AttributeZone] = zone
		r.snap.Put(&node)
		r.startDaemons(services, &node)
	}
	return nil
}

// startDaemons adds a task of each DAEMON service for which the new node is eligible.
func (r *rehearsal) startDaemons(services []placement.ServiceSpec, node *cluster.Instance) {
	for _, m := range services {
		if s := r.snap.Services[m.Name]; s == nil || s.Strategy != cluster.Daemon {
			continue
		}
		// DAEMON tasks take their room on the new node before anything else does.
		found := r.engine.Place(placement.Request{Spec: m.Spec, Count: 1, Target: 1, Instances: []string{node.ID},
			Unexplained: true})
		for _, at := range found.Placed {
			r.snap.Put(&cluster.Task{
				Head: cluster.Head{Cluster: node.Cluster, Rev: 1},
				TaskSpec: cluster.TaskSpec{
					ID: m.Name + " on " + node.ID, Owner: m.Spec.Owner, Service: m.Name, Group: m.Spec.Group,
					Needs: m.Spec.Needs, Ports: m.Spec.Ports,
				},
				TaskAssignment: cluster.TaskAssignment{
					Instance: at.Instance, GPUs: at.GPUs, Desired: cluster.TaskRunning,
				},
				TaskReport: cluster.TaskReport{Last: cluster.TaskRunning},
			})
		}
	}
}

// exampleNode returns an old node that a new one in the zone would be like: one of that zone, or
// else any.
func (r *rehearsal) exampleNode(zone string) (found *cluster.Instance) {
	for _, id := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[id]; n.Row != nil && (found == nil || found.Zone() != zone && n.Zone == zone) {
			found = n.Row
		}
	}
	return found
}

// Print writes the plan for people.
func (a *UpgradeAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	if a.Refused != "" {
		p.printLine("Update of node group %s%s (Auto Scaling group %s) would fail before it replaces a node: %s",
			a.NodeGroup, a.target, a.Group, a.Refused)
		return p.err
	}
	p.printLine("Update of node group %s%s (Auto Scaling group %s): %s would be replaced, at most %d at a time (%s); "+
		"%d up to date.",
		a.NodeGroup, a.target, a.Group, CountNoun(len(a.Nodes), "node"), a.MaxUnavailable, a.Strategy, a.UpToDate)
	if a.Surge > 0 && len(a.Nodes) > 0 {
		p.printLine("The group would grow from %d to %d nodes before the first is removed, "+
			"and shrink again after the last.",
			a.Sizes.Desired, a.Sizes.Desired+a.Surge)
	}
	for _, n := range a.Nodes {
		domain := ""
		if n.Domain != "" {
			domain = ", upgrade domain " + n.Domain
		}
		p.printLine("  %d. %s in %s%s: %s", n.Turn, n.EC2, n.Zone, domain, CountNoun(n.Tasks, "task"))
		for _, text := range n.Stays {
			p.printLine("       would not leave: %s", text)
		}
	}
	for _, n := range a.NoRoom {
		p.printLine("In turn %d the rest of the cluster cannot hold the load: %s.", n.Turn, n.Why)
	}
	if len(a.NoRoom) == 0 && len(a.Nodes) > 0 {
		p.printLine("In each turn the rest of the cluster can hold the load.")
	}
	return p.err
}

// CountFailedAttempts returns "1 attempt failed", "2 attempts failed, one after the other".
func CountFailedAttempts(n int) string {
	if n == 1 {
		return "1 attempt failed"
	}
	return fmt.Sprintf("%d attempts failed, one after the other", n)
}

// CountNoun returns a number with its noun: "1 task", "2 tasks".
func CountNoun(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
