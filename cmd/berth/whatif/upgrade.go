package whatif

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/placement"
)

// UpgradeAnswer is what an update of a node group would do.
type UpgradeAnswer struct {
	NodeGroup      string        `json:"nodegroup"`
	Group          string        `json:"autoScalingGroup"`
	Params         []Param       `json:"params"`
	Strategy       string        `json:"strategy"`
	MaxUnavailable int           `json:"maxUnavailable"`
	Surge          int           `json:"surge"`
	Sizes          Sizes         `json:"sizes"`
	Nodes          []UpgradeNode `json:"nodes"`    // in the order in which they are replaced
	UpToDate       int           `json:"upToDate"` // nodes that are left alone
	// Holds reports that every task of a service finds an instance when its node is drained.
	Holds bool `json:"holds"`

	target string
}

// Param is what an update was asked to change.
type Param struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Sizes are an Auto Scaling group's.
type Sizes struct {
	Min     int `json:"minSize"`
	Max     int `json:"maxSize"`
	Desired int `json:"desiredSize"`
}

// UpgradeNode is an old node.
type UpgradeNode struct {
	EC2      string `json:"instanceId"`
	Instance string `json:"instance,omitempty"`
	Zone     string `json:"availabilityZone"`
	Domain   string `json:"upgradeDomain,omitempty"`
	Turn     int    `json:"turn"` // nodes with the same turn are out of service together; from 1
	Tasks    int    `json:"tasks"`
	// Stays are the tasks that would not leave the node, Unplaced those that would find no other, each with why.
	Stays    []string   `json:"stays"`
	Unplaced []Homeless `json:"unplaced"`
}

// Homeless is a task that finds no instance.
type Homeless struct {
	Task    string `json:"task"`
	Service string `json:"service"`
	Why     string `json:"why"`
}

// Ready reports that nothing is foreseen that would have the update fail.
func (a *UpgradeAnswer) Ready() bool {
	return a.Holds && !slices.ContainsFunc(a.Nodes, func(n UpgradeNode) bool { return len(n.Stays) > 0 })
}

// PlanUpgrade plays an update that has not begun on the snapshot, which is not as before when it returns: new nodes are taken
// to be like the old ones of their zone, and Ready as soon as they are launched.
func PlanUpgrade(snap *cluster.Snapshot, k *Capacity, u *cluster.Update, now time.Time) (*UpgradeAnswer, error) {
	_, auto, err := k.NodeGroup(u.NodeGroup)
	if err != nil {
		return nil, err
	}
	nodes := handler.NodesOf(auto, rowsOf(snap), now)
	sizes := cluster.Sizes{Min: auto.Min, Max: auto.Max, Desired: auto.Desired}
	u, _ = nodegroup.Next(u, nodegroup.Group{Name: auto.Name, Sizes: sizes, Zones: auto.Zones, Template: auto.Template}, nodes, now)
	order := nodegroup.Order(u, nodes)
	out := &UpgradeAnswer{
		NodeGroup: u.NodeGroup, Group: auto.Name, Params: []Param{}, Strategy: string(strategyOf(u)), MaxUnavailable: u.MaxUnavailable,
		Surge: u.Surge, Sizes: Sizes(sizes), Nodes: []UpgradeNode{}, UpToDate: len(nodes) - len(order), target: TargetOf(u),
	}
	for _, p := range u.Params {
		out.Params = append(out.Params, Param(p))
	}
	r := &rehearsal{world: newWorld(snap), update: u, group: auto, nodes: map[string]nodegroup.Instance{}, zones: maps.Clone(u.Zones)}
	for _, n := range nodes {
		r.nodes[n.ID] = n
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if len(order) > 0 {
		r.launch(u.Surge)
	}
	for turn, ids := range r.turns(order) {
		out.Nodes = append(out.Nodes, r.replace(turn+1, ids)...)
	}
	out.Holds = !slices.ContainsFunc(out.Nodes, func(n UpgradeNode) bool { return len(n.Unplaced) > 0 })
	return out, nil
}

func strategyOf(u *cluster.Update) cluster.UpdateStrategy {
	if u.Config.Strategy == "" {
		return cluster.UpdateDefault
	}
	return u.Config.Strategy
}

// rowsOf are the rows that nodes are made of.
func rowsOf(snap *cluster.Snapshot) iter.Seq[cluster.Row] {
	return func(yield func(cluster.Row) bool) {
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

// rehearsal is an update played on a snapshot.
type rehearsal struct {
	*world
	update  *cluster.Update
	group   *cluster.AutoScalingGroup
	nodes   map[string]nodegroup.Instance // by EC2 id
	zones   map[string]int                // nodes by zone
	movers  map[string]placement.Mover    // by short key
	daemons []*placement.Spec
	made    int // nodes and tasks
}

// prepare finds out what services ask for.
func (r *rehearsal) prepare() error {
	r.movers = map[string]placement.Mover{}
	services, err := r.services()
	if err != nil {
		return err
	}
	for _, m := range services {
		s := r.snap.Services[m.Name]
		if s.Strategy == cluster.Daemon {
			r.daemons = append(r.daemons, m.Spec)
		} else {
			r.movers[s.Short] = m
		}
	}
	if r.zones == nil {
		r.zones = map[string]int{}
	}
	return nil
}

// turns are the nodes that are out of service together.
func (r *rehearsal) turns(order []string) (out [][]string) {
	for _, id := range order {
		last := len(out) - 1
		if last < 0 || len(out[last]) >= r.update.MaxUnavailable || r.update.ByDomain && r.domain(out[last][0]) != r.domain(id) {
			out = append(out, nil)
			last++
		}
		out[last] = append(out[last], id)
	}
	return out
}

func (r *rehearsal) domain(id string) string {
	if row := r.nodes[id].Row; row != nil {
		return row.Attributes[cluster.AttributeUpgrade]
	}
	return ""
}

// replace drains nodes, one turn, and launches as many.
func (r *rehearsal) replace(turn int, ids []string) (out []UpgradeNode) {
	r.shut(ids)
	for _, id := range ids {
		n := r.nodes[id]
		a := UpgradeNode{
			EC2: id, Zone: n.Zone, Domain: r.domain(id), Turn: turn, Tasks: len(n.Tasks), Unplaced: []Homeless{},
			Stays: append([]string{}, nodegroup.Stays(n, r.update.Force, r.update.ForceProtected)...),
		}
		if n.Row != nil {
			a.Instance = n.Row.ID
			a.Unplaced = append(a.Unplaced, r.empty(n.Row.ID)...)
			for _, t := range slices.Clone(r.snap.Instances[n.Row.ID].Tasks) {
				r.end(t)
			}
			r.change(n.Row.ID, func(i *cluster.Instance) { i.Status = cluster.InstanceInactive })
		}
		r.zones[n.Zone]--
		out = append(out, a)
	}
	r.launch(len(ids))
	return out
}

// shut keeps new tasks off the nodes of the turn, and off all other old ones where new ones are launched first.
func (r *rehearsal) shut(ids []string) {
	for id, n := range r.nodes {
		if n.Row == nil {
			continue
		}
		switch {
		case slices.Contains(ids, id):
			r.change(n.Row.ID, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		case strategyOf(r.update) == cluster.UpdateMinimal || !slices.Contains(nodegroup.Order(r.update, []nodegroup.Instance{n}), id):
		case r.update.ByDomain && r.domain(id) != r.domain(ids[0]):
		default:
			r.change(n.Row.ID, func(i *cluster.Instance) {
				i.Attributes = maps.Clone(i.Attributes)
				i.Attributes[cluster.AttributeUnschedulable] = r.update.ID
			})
		}
	}
}

// change has an instance of the snapshot be another way.
func (r *rehearsal) change(id string, f func(*cluster.Instance)) {
	v := r.snap.Instances[id]
	if v == nil || v.Instance == nil || v.Gone() {
		return
	}
	next := *v.Instance
	next.Rev++
	next.Stamp = 0
	f(&next)
	r.snap.Put(&next)
}

// empty has the tasks of services elsewhere, as far as there is room.
func (r *rehearsal) empty(instance string) (out []Homeless) {
	tasks := slices.SortedFunc(slices.Values(r.snap.Instances[instance].Tasks), func(a, b *cluster.Task) int {
		return int(b.Needs.CPU - a.Needs.CPU)
	})
	for _, t := range tasks {
		m, ok := r.movers[t.Owner]
		if !ok || t.Foreign || !t.Active() {
			continue
		}
		found := r.engine.Place(placement.Request{Spec: m.Spec, Count: 1, Target: m.Target})
		if len(found.Placed) == 0 {
			out = append(out, Homeless{t.ID, t.Service, found.Diagnosis.String()})
			continue
		}
		r.start(m.Spec, found.Placed[0], t)
		r.end(t)
	}
	return out
}

func (r *rehearsal) end(t *cluster.Task) {
	r.snap.See(cluster.Record{Op: cluster.Remove, Key: t.Key(), Old: t})
}

// start has a task of the spec on an instance, in place of old where that is not nil.
func (r *rehearsal) start(spec *placement.Spec, at placement.Placement, old *cluster.Task) {
	r.made++
	next := &cluster.Task{
		ID: fmt.Sprintf("rehearsal-%d", r.made), Owner: spec.Owner, Group: spec.Group, Needs: spec.Needs, Ports: spec.Ports,
		Desired: cluster.TaskRunning, Last: cluster.TaskRunning,
	}
	if old != nil {
		copied := *old
		next = &copied
		next.ID, next.ECSID, next.Replaces = fmt.Sprintf("rehearsal-%d", r.made), "", old.ID
	}
	next.Rev, next.Instance, next.GPUs = 1, at.Instance, at.GPUs
	r.snap.Put(next)
}

// launch adds new nodes, each to the zone with the fewest, and the daemons that belong there.
func (r *rehearsal) launch(n int) {
	zones := slices.Clone(r.group.Zones)
	slices.Sort(zones)
	for range n {
		if len(zones) == 0 {
			return
		}
		zone := slices.MinFunc(zones, func(a, b string) int { return r.zones[a] - r.zones[b] })
		r.zones[zone]++
		like := r.like(zone)
		if like == nil {
			return
		}
		r.made++
		node := *like
		node.Head = cluster.Head{Cluster: like.Cluster, Rev: 1}
		node.ID, node.EC2InstanceID = fmt.Sprintf("new node %d in %s", r.made, zone), ""
		node.Status, node.AgentConnected, node.DisconnectedAt = cluster.InstanceActive, true, 0
		node.Attributes = maps.Clone(like.Attributes)
		delete(node.Attributes, cluster.AttributeUnschedulable)
		maps.Copy(node.Attributes, nodegroup.Labels(r.update))
		node.Attributes[cluster.AttributeZone] = zone
		r.snap.Put(&node)
		for _, spec := range r.daemons {
			found := r.engine.Place(placement.Request{Spec: spec, Count: 1, Target: 1, Instances: []string{node.ID}, Unexplained: true})
			for _, at := range found.Placed {
				r.start(spec, at, nil)
			}
		}
	}
}

// like is a node that a new one in the zone is like: one of that zone, or any.
func (r *rehearsal) like(zone string) (found *cluster.Instance) {
	for _, id := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[id]; n.Row != nil && (found == nil || found.Zone() != zone && n.Zone == zone) {
			found = n.Row
		}
	}
	return found
}
