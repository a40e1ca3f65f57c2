package simulation

import (
	"context"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/invariant"
)

// Mistakes in the rules of placement. Each shows placement rows in which the world is as if the mistake were right: what
// follows is what the mistake would do.
const (
	// FloorBase lets no domain have more than the floor of what each has, where the base and one more are allowed.
	FloorBase Bug = "floor for base under maximum difference"
	// QuorumOffByOne lets a domain have one task more than quorum safety does.
	QuorumOffByOne Bug = "quorum off by one"
	// UndefinedTrue has a comparison with a property that an instance lacks hold.
	UndefinedTrue Bug = "an undefined property makes a comparison true"
	// UseBuffer has everything that may not use the buffer use it.
	UseBuffer Bug = "the buffer is used by what may not"
	// PhantomDomain counts a domain in which no instance can have a task.
	PhantomDomain Bug = "a domain without an eligible instance is counted"
	// FreePortTwice frees a host port once more with the next task that has it.
	FreePortTwice Bug = "a port is freed twice"
	// CountPairTwice counts a task and its replacement as two.
	CountPairTwice Bug = "a task and its replacement count twice"
	// IgnoreLoads goes by the loads that tasks start out with, whatever they report.
	IgnoreLoads Bug = "a load report is ignored"
	// IgnoreCordon starts tasks on unschedulable instances.
	IgnoreCordon Bug = "unschedulable is ignored"
)

// placementDistortions are the bugs of this page, with how they show rows to placement.
var placementDistortions = map[Bug]func(*World, []state.Row) []state.Row{
	FloorBase: eachRow(func(_ *World, s *cluster.Service) {
		if s.Rules.DomainPolicy == cluster.PolicyDifference {
			s.Rules.DomainPolicy = cluster.PolicyNonpacking
		}
	}),
	QuorumOffByOne: splitDomains,
	UndefinedTrue: eachRow(func(_ *World, i *cluster.Instance) {
		i.Attributes = maps.Clone(i.Attributes)
		for name, value := range map[string]string{"berth.property.Tier": "2", "berth.property.HasSSD": "true", "berth.node-type": "Blue"} {
			if _, has := i.Attributes[name]; !has {
				i.Attributes[name] = value
			}
		}
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

// splitDomains shows one instance of each fault domain as a domain of its own, while no service wants tasks that has
// another domain rule than quorum safety.
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

// addPhantomDomain shows an instance too small for any task, in a domain of its own.
func addPhantomDomain(_ *World, rows []state.Row) []state.Row {
	if i := slices.IndexFunc(rows, func(r state.Row) bool { _, ok := r.(*cluster.Instance); return ok }); i >= 0 {
		next := *rows[i].(*cluster.Instance)
		next.ID, next.Registered, next.Status, next.AgentConnected = "phantom", cluster.Capacity{}, cluster.InstanceActive, true
		next.Attributes = maps.Clone(next.Attributes)
		next.Attributes["berth.fault-domain"], next.Attributes["berth.upgrade-domain"] = "fd:/phantom", "phantom"
		return append(rows, &next)
	}
	return rows
}

// freePorts takes the ports of those tasks for free that an earlier one freed on the same instance.
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

// distortedStore is the State of placement with rows as a bug makes them look. What it remembers it never trusts: it has to read
// all rows again each time.
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

// withoutDistortion is the write without the lies: a row that was shown otherwise is put back with what it says.
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
		next.Ports, next.Reported, next.Replaces, next.Health, next.Started = was.Ports, was.Reported, was.Replaces, was.Health, was.Started
		w.Put = &next
	}
	return w
}
