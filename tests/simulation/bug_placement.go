package simulation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/invariant"
)

// Bugs in the rules of placement. Each shows placement rows in which the bug would be right, so
// that placement decides as the bug would.
const (
	// FloorBase allows a domain only the floor of the average, where maximum difference allows one
	// more.
	FloorBase Bug = "floor for base under maximum difference"
	// QuorumOffByOne allows a domain one task more than quorum safety does.
	QuorumOffByOne Bug = "quorum off by one"
	// UndefinedTrue lets a comparison with an undefined property hold.
	UndefinedTrue Bug = "an undefined property makes a comparison true"
	// UseBuffer lets every task use the buffer.
	UseBuffer Bug = "the buffer is used by what may not"
	// PhantomDomain counts a domain in which no instance can run a task.
	PhantomDomain Bug = "a domain without an eligible instance is counted"
	// FreePortTwice frees a host port again while the next task uses it.
	FreePortTwice Bug = "a port is freed twice"
	// CountPairTwice counts a task and its replacement as two tasks.
	CountPairTwice Bug = "a task and its replacement count twice"
	// IgnoreLoads uses the initial loads of tasks instead of reported ones.
	IgnoreLoads Bug = "a load report is ignored"
	// LimitEachPlan leaves out the balancing moves that have begun in the window. BalanceUnasked
	// balances clusters that have not asked for it.
	LimitEachPlan  Bug = "balancing: the limit of the window applies to each plan"
	BalanceUnasked Bug = "balancing: it is not off by default"
	// IgnoreCordon starts tasks on unschedulable instances.
	IgnoreCordon Bug = "unschedulable is ignored"
	// IgnoreTaint starts tasks in spite of a taint NO_SCHEDULE.
	IgnoreTaint Bug = "a taint NO_SCHEDULE is ignored"
	// TolerateOtherKey lets a toleration match taints of other keys.
	TolerateOtherKey Bug = "a toleration of another key is accepted"
	// KeepEvicted leaves tasks where a taint NO_EXECUTE appears.
	KeepEvicted Bug = "a taint NO_EXECUTE leaves tasks where they run"
	// These ignore one limit of applications each.
	IgnoreMaximumNodes  Bug = "applications: the maximum number of nodes is ignored"
	IgnoreNodeCapacity  Bug = "applications: the capacity on a node is ignored"
	IgnoreTotalCapacity Bug = "applications: the capacity in all is ignored"
	IgnoreReservation   Bug = "applications: reservations are ignored"
)

// placementDistortions is how each of these bugs shows rows to placement.
var placementDistortions = map[Bug]func(*World, []state.Row) []state.Row{
	FloorBase: eachRow(func(_ *World, s *cluster.Service) {
		if s.Rules.DomainPolicy == cluster.PolicyDifference {
			s.Rules.DomainPolicy = cluster.PolicyNonpacking
		}
	}),
	QuorumOffByOne: splitDomains,
	UndefinedTrue: eachRow(func(_ *World, i *cluster.Instance) {
		i.Attributes = maps.Clone(i.Attributes)
		for name, value := range map[string]string{"berth.property.Tier": "2", "berth.property.HasSSD": "true",
			"berth.node-type": "Blue"} {
			if _, has := i.Attributes[name]; !has {
				i.Attributes[name] = value
			}
		}
	}),
	LimitEachPlan: eachRow(func(_ *World, t *cluster.Task) { t.Balances = false }),
	BalanceUnasked: eachRow(func(_ *World, c *cluster.Configuration) {
		c.Rebalancing = &cluster.Rebalancing{Enabled: true, SettleSeconds: 5, IntervalSeconds: 20}
	}),
	UseBuffer:      eachRow(func(_ *World, c *cluster.Configuration) { c.Buffer = nil }),
	PhantomDomain:  addPhantomDomain,
	FreePortTwice:  freePorts,
	CountPairTwice: eachRow(func(_ *World, t *cluster.Task) { t.Replaces = "" }),
	IgnoreLoads:    eachRow(func(_ *World, t *cluster.Task) { t.Reported = nil }),
	IgnoreCordon: eachRow(func(_ *World, i *cluster.Instance) {
		i.Attributes = maps.Clone(i.Attributes)
		delete(i.Attributes, "berth.unschedulable")
	}),
	IgnoreTaint: showTaints(func(taint string) bool { return strings.HasSuffix(taint, ":NO_SCHEDULE") }, ""),
	TolerateOtherKey: eachRow(func(_ *World, s *cluster.Service) {
		s.Rules.Tolerations = slices.Clone(s.Rules.Tolerations)
		for n := range s.Rules.Tolerations {
			s.Rules.Tolerations[n].Key = ""
		}
	}),
	KeepEvicted: showTaints(func(taint string) bool { return strings.HasSuffix(taint, ":NO_EXECUTE") }, "NO_SCHEDULE"),
	IgnoreMaximumNodes: eachRow(func(_ *World, c *cluster.Configuration) {
		c.Applications = maps.Clone(c.Applications)
		for name, a := range c.Applications {
			a.MinimumNodes, a.MaximumNodes = 0, 0
			c.Applications[name] = a
		}
	}),
	IgnoreNodeCapacity:  showLimits(func(m *cluster.ApplicationMetric) { m.NodeCapacity = 0 }),
	IgnoreTotalCapacity: showLimits(func(m *cluster.ApplicationMetric) { m.TotalCapacity = 0 }),
	IgnoreReservation:   showLimits(func(m *cluster.ApplicationMetric) { m.Reservation = 0 }),
}

// showLimits shows the applications with other limits of their metrics.
func showLimits(change func(*cluster.ApplicationMetric)) func(*World, []state.Row) []state.Row {
	return eachRow(func(_ *World, c *cluster.Configuration) {
		c.Applications = maps.Clone(c.Applications)
		for name, a := range c.Applications {
			a.Metrics = maps.Clone(a.Metrics)
			for metric, m := range a.Metrics {
				change(&m)
				a.Metrics[metric] = m
			}
			c.Applications[name] = a
		}
	})
}

// showTaints shows the taints that match without their effect's consequences: with another effect, or
// not at all if that is empty.
func showTaints(matches func(taint string) bool, effect string) func(*World, []state.Row) []state.Row {
	return eachRow(func(_ *World, i *cluster.Instance) {
		var shown []string
		for taint := range strings.FieldsSeq(i.Attributes["berth.taints"]) {
			switch {
			case !matches(taint):
				shown = append(shown, taint)
			case effect != "":
				shown = append(shown, taint[:strings.LastIndex(taint, ":")+1]+effect)
			}
		}
		i.Attributes = maps.Clone(i.Attributes)
		if i.Attributes["berth.taints"] = strings.Join(shown, " "); len(shown) == 0 {
			delete(i.Attributes, "berth.taints")
		}
	})
}

// eachRow changes a copy of every row of one kind.
func eachRow[R any, P interface {
	*R
	state.Row
}](change func(*World, P)) func(*World, []state.Row) []state.Row {
	return func(w *World, rows []state.Row) []state.Row {
		for n, row := range rows {
			if r, ok := row.(P); ok && r != nil {
				next := P(new(*r))
				change(w, next)
				rows[n] = next
			}
		}
		return rows
	}
}

// splitDomains shows one instance of each fault domain in a domain of its own, unless a service
// with another domain policy than quorum safety waits for tasks.
func splitDomains(w *World, rows []state.Row) []state.Row {
	for _, s := range w.checker.ActiveReplicaServices() {
		spec := w.checker.SpecOfService(s)
		if spec != nil && spec.Policy != "" && spec.Policy != cluster.PolicyQuorum && s.Running < s.Desired {
			return rows
		}
	}
	seen := map[string]bool{}
	return eachRow(func(_ *World, i *cluster.Instance) {
		if top := invariant.FaultPath(invariant.FaultDomain(i))[0]; !seen[top] {
			seen[top] = true
			i.Attributes = maps.Clone(i.Attributes)
			i.Attributes["berth.fault-domain"] = "fd:/" + top + "-other"
		}
	})(w, rows)
}

// addPhantomDomain adds an instance without capacity in a domain of its own.
func addPhantomDomain(_ *World, rows []state.Row) []state.Row {
	if i := slices.IndexFunc(rows, func(r state.Row) bool { _, ok := r.(*cluster.Instance); return ok }); i >= 0 {
		next := *rows[i].(*cluster.Instance)
		next.ID, next.Registered, next.Status, next.AgentConnected = "phantom", cluster.Capacity{},
			cluster.InstanceActive, true
		next.Attributes = maps.Clone(next.Attributes)
		next.Attributes["berth.fault-domain"], next.Attributes["berth.upgrade-domain"] = "fd:/phantom", "phantom"
		return append(rows, &next)
	}
	return rows
}

// freePorts shows running tasks without ports on instances where an earlier task has freed some.
func freePorts(w *World, rows []state.Row) []state.Row {
	freed := map[string]bool{}
	for _, owned := range w.checker.ByOwner {
		for _, t := range owned {
			if t.Last == cluster.TaskStopped && len(t.Ports) > 0 {
				freed[t.Instance] = true
			}
		}
	}
	return eachRow(func(_ *World, t *cluster.Task) {
		if freed[t.Instance] && t.Last == cluster.TaskRunning {
			t.Ports = nil
		}
	})(w, rows)
}

// A distortedStore is placement's store with rows as a bug makes them look. Its checkpoints are
// never trusted, so placement reads all rows again each time.
type distortedStore struct {
	state.Store
	world   *World
	distort func(*World, []state.Row) []state.Row
}

func (s *distortedStore) Get(ctx context.Context, key state.Key) (state.Row, error) {
	row, err := s.Store.Get(ctx, key)
	if c, ok := row.(*state.Checkpoint); ok && c != nil {
		next := *c
		next.Environment = "another"
		return &next, err
	}
	return row, err
}

func (s *distortedStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	return s.distort(s.world, slices.Clone(rows)), err
}

func (s *distortedStore) Write(ctx context.Context, w state.Write) (state.Row, error) {
	return s.Store.Write(ctx, s.withoutDistortion(w))
}

func (s *distortedStore) Commit(ctx context.Context, c state.Commit) error {
	c.Writes = slices.Clone(c.Writes)
	for n, w := range c.Writes {
		c.Writes[n] = s.withoutDistortion(w)
	}
	return s.Store.Commit(ctx, c)
}

// withoutDistortion returns the write with the true values of what was distorted.
func (s *distortedStore) withoutDistortion(w state.Write) state.Write {
	if w.Put == nil {
		return w
	}
	switch was := s.world.checker.Rows[state.KeyOf(w.Put)].(type) {
	case *cluster.Service:
		next := *w.Put.(*cluster.Service)
		next.Rules = was.Rules
		restoreService(was, &next, s.world)
		w.Put = &next
	case *cluster.Task:
		next := *w.Put.(*cluster.Task)
		next.Ports, next.Reported, next.Replaces, next.Health, next.Started = was.Ports, was.Reported, was.Replaces,
			was.Health, was.Started
		w.Put = &next
	}
	return w
}
