package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// A world is a case as rows, with a snapshot of them and an engine.
type world struct {
	c          *Case
	snap       *snapshot.Snapshot
	engine     *placement.Engine
	mover      *moves.Planner
	partitions []*partition // in order of their first mention
	tasks      int
	costs      map[string]cluster.MoveCost // by task, of those that have their own
}

// A partition is a service: each replica set is one of its own.
type partition struct {
	name  string
	asked Service
	// constrained and blocked: a replica has set its constraint, its blocked nodes.
	constrained, blocked bool
	want                 []newcomers
	row                  *cluster.Service
	constraint           *constraint.Expression
	spec                 *placement.Spec
}

// newcomers are equal new tasks.
type newcomers struct {
	count int
	loads map[string]int64 // nil: the service's
	spec  *placement.Spec
	// instances are where tasks of a service on every node go; nil for others.
	instances []string
}

// newTaskCount returns how many new tasks there are.
func (p *partition) newTaskCount() (n int) {
	for _, g := range p.want {
		n += g.count
	}
	return n
}

// addNewTasks adds n new tasks with the loads.
func (p *partition) addNewTasks(n int, loads map[string]int64) {
	if at := slices.IndexFunc(p.want, func(g newcomers) bool {
		return maps.Equal(g.loads, loads) &&
			(g.loads == nil) == (loads == nil)
	}); at >= 0 {
		p.want[at].count += n
	} else if n > 0 {
		p.want = append(p.want, newcomers{count: n, loads: loads})
	}
}

const clusterName = "case"

func newWorld(c *Case) (*world, error) {
	w := &world{c: c, snap: snapshot.NewSnapshot(), costs: map[string]cluster.MoveCost{}}
	if err := c.checkCosts(); err != nil {
		return nil, err
	}
	configuration := c.configuration()
	if err := cluster.CheckConfiguration(configuration); err != nil {
		return nil, err
	}
	w.snap.Put(configuration)
	for _, n := range c.Nodes {
		row, err := n.instanceRow()
		if err != nil {
			return nil, err
		}
		w.snap.Put(row)
		if len(n.Load) > 0 {
			w.snap.Put(&cluster.Task{
				Head:           cluster.Head{Cluster: clusterName, Rev: 1},
				TaskSpec:       cluster.TaskSpec{ID: "load-" + n.Name, Owner: "foreign"},
				TaskAssignment: cluster.TaskAssignment{Instance: n.Name, Desired: cluster.TaskRunning},
				TaskReport: cluster.TaskReport{Foreign: true, Last: cluster.TaskRunning,
					Reported: plainAmounts(n.Load)},
			})
		}
	}
	if err := w.addServices(); err != nil {
		return nil, err
	}
	w.engine = placement.New(w.snap)
	w.mover = moves.NewPlanner(w.engine)
	return w, nil
}

// configuration returns the case's settings and its domain logic as a row.
func (c *Case) configuration() *cluster.Configuration {
	metrics := c.metricNames()
	out := &cluster.Configuration{
		Head:   cluster.Head{Cluster: clusterName, Rev: 1},
		Buffer: c.Config.Buffer, Overbooking: c.Config.Overbooking,
		Balancing: c.Config.Balancing.of(metrics), Activity: plainAmounts(c.Config.Activity.of(metrics)),
		Priorities: cluster.Priorities{
			Placement: cluster.Priority(c.Config.Placement), Capacity: cluster.Priority(c.Config.Capacity),
			FaultDomain: cluster.Priority(c.Config.Fault), UpgradeDomain: cluster.Priority(c.Config.Upgrade),
			Affinity: cluster.Priority(c.Config.Affinity),
		},
		QuorumFault:   c.Logic == "quorum-fd" || c.Logic == "quorum-both",
		QuorumUpgrade: c.Logic == "quorum-ud" || c.Logic == "quorum-both",
		NoSwitch:      c.Logic != "auto" && c.Logic != "",
		KeepInPlace:   c.Config.MakeRoom != nil && !*c.Config.MakeRoom,
		Rebalancing:   c.Config.rebalancing(),
	}
	for name, a := range c.Applications {
		row := cluster.Application{MinimumNodes: a.MinimumNodes, MaximumNodes: a.MaximumNodes,
			Metrics: map[string]cluster.ApplicationMetric{}}
		for metric, m := range a.Metrics {
			row.Metrics[metric] = cluster.ApplicationMetric{NodeCapacity: m.Node, TotalCapacity: m.Total,
				Reservation: m.Reservation}
		}
		if out.Applications == nil {
			out.Applications = map[string]cluster.Application{}
		}
		out.Applications[name] = row
	}
	return out
}

// checkCosts refuses move costs that do not exist.
func (c *Case) checkCosts() error {
	known := map[string]int64{"Zero": 0, "Low": 1, "Medium": 15, "High": 40}
	for name, cost := range c.Config.Costs {
		if n, ok := known[name]; !ok || n != cost {
			return fmt.Errorf("move cost %s is %d, which cannot be set", name, cost)
		}
	}
	return nil
}

// metricNames returns all metrics that the case names.
func (c *Case) metricNames() []string {
	names := map[string]bool{}
	add := func(loads map[string]Number) {
		for name := range loads {
			names[name] = true
		}
	}
	for _, n := range c.Nodes {
		add(n.Capacities)
		add(n.Load)
	}
	for _, r := range slices.Concat(c.Replicas, c.New) {
		add(r.Load)
	}
	if c.Service != nil {
		for _, m := range c.Service.Metrics {
			names[m.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// instanceRow returns the instance's row. A node that is down has lost its agent. A deactivated one
// is draining, or takes no new tasks during its safety checks.
func (n *Node) instanceRow() (*cluster.Instance, error) {
	out := &cluster.Instance{
		Head: cluster.Head{Cluster: clusterName, Rev: 1}, ID: n.Name, Status: cluster.InstanceActive,
		AgentConnected: n.Up == nil || *n.Up, RegisteredAt: cluster.At(time.Unix(1, 0)),
		Registered: cluster.Capacity{CPU: cluster.VCPU, Memory: 1024, Metrics: plainAmounts(n.Capacities)},
		// An upgrade domain that all instances share has no rule.
		Attributes: map[string]string{cluster.AttributeUpgrade: "all"},
	}
	if n.Fault != nil {
		out.Attributes[cluster.AttributeFaultDomain] = *n.Fault
	}
	if n.Upgrade != nil {
		out.Attributes[cluster.AttributeUpgrade] = *n.Upgrade
	}
	for name, value := range n.Properties {
		out.Attributes[cluster.PropertyPrefix+name] = string(value)
	}
	if n.Deactivated == "" {
		return out, nil
	}
	intent, state, _ := strings.Cut(n.Deactivated, "/")
	switch {
	case intent == "None":
	case intent != "Pause" && strings.Contains(state, "SafetyCheckInProgress"):
		out.Attributes[cluster.AttributeUnschedulable] = "true"
	case slices.Contains([]string{"Pause", "Restart", "RemoveData", "RemoveNode"}, intent):
		out.Status = cluster.InstanceDraining
	default:
		return nil, fmt.Errorf("node %s: unknown deactivation %q", n.Name, n.Deactivated)
	}
	return out, nil
}

// addServices creates the partitions, their tasks, and how many tasks each of them wants.
func (w *world) addServices() error {
	c := w.c
	c.Replicas = expandCopies(c.Replicas)
	replicas := slices.Concat(c.Replicas, c.New)
	if c.Service == nil && len(replicas) == 0 && (len(c.Existing) > 0 || c.Add != nil) {
		c.Service = &Service{}
	}
	if c.Service != nil && len(replicas) == 0 {
		for i := range max(1, c.Service.Partitions) {
			w.addPartition(fmt.Sprintf("partition-%02d", i), *c.Service)
		}
	}
	for _, r := range replicas {
		if err := w.addReplica(r); err != nil {
			return err
		}
	}
	w.setTargets(len(replicas) > 0)
	for _, p := range w.partitions {
		if err := w.compilePartition(p); err != nil {
			return err
		}
	}
	for _, node := range c.Existing {
		w.putTask(w.partitions[0], node, nil)
	}
	for _, r := range replicas {
		if r.Node != "" {
			t := w.putTask(w.partition(r.Partition), r.Node, plainAmounts(r.Load))
			// else what replicas say of their cost does not count
			if on := c.Config.UseReportedCosts; on == nil || *on {
				w.costs[t.ID] = cluster.MoveCost(r.MoveCost)
			}
		}
	}
	for _, p := range w.partitions {
		if p.row.Desired == 0 {
			p.row.Desired = max(0, len(w.snap.TasksOf(p.row.Short))+p.newTaskCount()-c.Drop)
		}
		row := *p.row
		row.Rev++
		w.snap.Put(&row)
		p.row = &row
	}
	return nil
}

// setTargets sets how many new tasks each partition gets besides those listed.
func (w *world) setTargets(listed bool) {
	c := w.c
	for i, p := range w.partitions {
		switch {
		case c.Add != nil && (i == 0 || !listed):
			p.addNewTasks(*c.Add, nil)
		case listed || c.Service.OnEveryNode:
		case i == 0:
			p.addNewTasks(max(0, c.Service.Target-len(c.Existing)), nil)
		default:
			p.addNewTasks(c.Service.Target, nil)
		}
	}
}

func (w *world) partition(name string) *partition {
	at := slices.IndexFunc(w.partitions, func(p *partition) bool { return p.name == name })
	if at < 0 {
		return nil
	}
	return w.partitions[at]
}

// addReplica creates the replica's partition if it is the first one, and applies what it asks for.
func (w *world) addReplica(r Replica) error {
	p := w.partition(r.Partition)
	if p == nil {
		var template Service
		if w.c.Service != nil {
			template = *w.c.Service
		}
		p = w.addPartition(r.Partition, template)
	}
	if r.Constraint != "" && p.constrained && r.Constraint != p.asked.Constraint || len(r.Blocked) > 0 && p.blocked &&
		!slices.Equal(r.Blocked, p.asked.Blocked) {
		return fmt.Errorf("replicas of partition %s differ in what they ask of a node, which is their service's to say",
			r.Partition)
	}
	if r.Constraint != "" {
		p.asked.Constraint, p.constrained = r.Constraint, true
	}
	if len(r.Blocked) > 0 {
		p.asked.Blocked, p.blocked = r.Blocked, true
	}
	if r.Node == "" {
		p.addNewTasks(1, plainAmounts(r.Load))
	}
	return nil
}

func (w *world) addPartition(name string, asked Service) *partition {
	p := &partition{name: name, asked: asked}
	w.partitions = append(w.partitions, p)
	return p
}

// compilePartition creates the row and the spec of a partition.
func (w *world) compilePartition(p *partition) error {
	s := p.asked
	expression, err := constraint.ParseProperties(s.Constraint)
	if err != nil {
		return &constraintError{err}
	}
	directives := expression.Directives()
	policy, err := domainPolicy(w.c.Logic, s.FaultPolicy, directives.DomainPolicy)
	if err != nil {
		return err
	}
	p.row = &cluster.Service{
		Head:            cluster.Head{Cluster: clusterName, Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: p.name, Short: p.name},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, Desired: max(0, s.Target), MinHealthy: 100, MaxPercent: 200,
			Rules: cluster.Rules{NodeConstraint: s.Constraint, MoveCost: cluster.MoveCost(s.MoveCost),
				DomainPolicy: policy, Application: w.c.ApplicationOf[p.name]},
		},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
	}
	if s.OnEveryNode {
		p.row.Strategy, p.row.Rules.DomainPolicy = cluster.Daemon, cluster.PolicyNone
		p.row.MinHealthy, p.row.MaxPercent = 0, 100
	}
	for _, m := range s.Metrics {
		p.row.Rules.Metrics = append(p.row.Rules.Metrics,
			cluster.Metric{Name: m.Name, Load: int64(m.Load), Weight: cluster.Weight(m.Weight)})
	}
	p.constraint = expression
	p.spec = &placement.Spec{
		Loads: p.row.Rules.Metrics, Owner: p.row.Short, PerInstance: 1, DomainPolicy: p.row.Rules.DomainPolicy,
		Constraints: []*constraint.Expression{expression}, Avoid: s.Blocked, MoveCost: p.row.Rules.MoveCost,
		Affinity:     w.c.Affinity[p.name],
		Application:  w.c.ApplicationOf[p.name],
		AllOrNothing: directives.AllOrNothing || s.PlacePolicy == "NonPartially",
	}
	for i := range p.want {
		g := &p.want[i]
		if g.spec = p.spec; g.loads != nil {
			g.spec = new(*p.spec)
			g.spec.Loads = loadsAsMetrics(g.loads)
		}
	}
	w.snap.Put(p.row)
	return nil
}

// loadsAsMetrics returns the loads as a service has them.
func loadsAsMetrics(loads map[string]int64) []cluster.Metric {
	out := []cluster.Metric{}
	for _, name := range slices.Sorted(maps.Keys(loads)) {
		out = append(out, cluster.Metric{Name: name, Load: loads[name]})
	}
	return out
}

// domainPolicy returns the policy that results from the logic and a fault-domain policy, of the
// service or in its constraint. The configuration says which logic adaptive services follow.
func domainPolicy(logic, field, directive string) (cluster.DomainPolicy, error) {
	if field == "" {
		field = directive
	}
	switch policy := cluster.DomainPolicy(strings.ToLower(field)); {
	case policy == cluster.PolicyNonpacking || policy == cluster.PolicyIgnore:
		return policy, nil
	case policy != "" && policy != "packing":
		return "", fmt.Errorf("unknown fault-domain policy %q", field)
	}
	switch logic {
	case "maxdiff":
		return cluster.PolicyDifference, nil
	case "quorum-both":
		return cluster.PolicyQuorum, nil
	case "", "auto", "quorum-fd", "quorum-ud":
		return cluster.PolicyAdaptive, nil
	}
	return "", fmt.Errorf("unknown domain logic %q", logic)
}

// putTask puts a RUNNING task of the partition on a node.
func (w *world) putTask(p *partition, node string, reported map[string]int64) *cluster.Task {
	w.tasks++
	t := &cluster.Task{
		Head: cluster.Head{Cluster: clusterName, Rev: 1},
		TaskSpec: cluster.TaskSpec{
			ID: fmt.Sprintf("%s-%04d", p.name, w.tasks), Owner: p.row.Short, Service: p.name,
			Group: "service:" + p.name, CreatedAt: cluster.At(time.Unix(int64(w.tasks), 0)),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: node, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, Reported: reported},
	}
	w.snap.Put(t)
	return t
}

// A constraintError is a placement constraint that cannot be read.
type constraintError struct{ error }

func (e *constraintError) Unwrap() error { return e.error }

// isConstraintError reports whether the case's services are refused for such a constraint: none of
// their tasks is placed.
func isConstraintError(err error) bool {
	var bad *constraintError
	return errors.As(err, &bad)
}
