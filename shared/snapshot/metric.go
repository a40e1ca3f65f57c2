package snapshot

import (
	"maps"
	"reflect"
	"slices"

	"berth/shared/cluster"
)

// A metricSet numbers the metrics of a snapshot, in the order in which they first appear.
type metricSet struct {
	names []string
	index map[string]int
}

// MetricIndex returns the metric's index in loads and limits. A new metric gets the next one.
func (m *metricSet) MetricIndex(name string) int {
	at, ok := m.index[name]
	if !ok {
		if m.index == nil {
			m.index = map[string]int{}
		}
		at = len(m.names)
		m.names = append(m.names, name)
		m.index[name] = at
	}
	return at
}

// MetricNames returns the metrics by index. The caller must not change the slice.
func (m *metricSet) MetricNames() []string { return m.names }

// Load returns the load that the instance's tasks put on a metric.
func (v *InstanceView) Load(metric int) int64 {
	if metric < len(v.Loads) {
		return v.Loads[metric]
	}
	return 0
}

// Limit returns how much load of a metric the instance takes.
func (v *InstanceView) Limit(metric int) cluster.Limit {
	if metric < len(v.Limits) {
		return v.Limits[metric]
	}
	return cluster.Unlimited
}

// LoadsOf calls f for each metric that the task has a load of: the load it reported, or else its
// default. A service's tasks have the defaults of the service, a standalone task has its own (P9,
// P10).
func (s *Snapshot) LoadsOf(t *cluster.Task, f func(metric int, load int64)) {
	s.loadsOf(t, s.owners[t.Owner], f)
}

// loadsOf is [Snapshot.LoadsOf] for callers that know the owner.
func (s *Snapshot) loadsOf(t *cluster.Task, o *Owner, f func(metric int, load int64)) {
	defaults := t.OwnMetrics()
	if o != nil && t.Service != "" {
		defaults = o.metrics
	}
	for _, m := range defaults {
		if _, reported := t.Reported[m.Name]; !reported {
			f(s.MetricIndex(m.Name), m.Load)
		}
	}
	if len(t.Reported) > 0 {
		for _, name := range slices.Sorted(maps.Keys(t.Reported)) {
			f(s.MetricIndex(name), t.Reported[name])
		}
	}
}

// countLoads adds (sign 1) or subtracts (-1) the task's loads on the instance.
func (s *Snapshot) countLoads(v *InstanceView, o *Owner, t *cluster.Task, sign int) {
	s.loadsOf(t, o, func(metric int, load int64) {
		if missing := metric + 1 - len(v.Loads); missing > 0 {
			v.Loads = append(v.Loads, make([]int64, missing)...)
		}
		v.Loads[metric] += int64(sign) * load
	})
}

// setMetrics replaces the default loads of a service's tasks.
func (s *Snapshot) setMetrics(short string, metrics []cluster.Metric) {
	o := s.ownerOf(short)
	if !slices.Equal(o.metrics, metrics) {
		s.recountLoads(o, -1)
		o.metrics = metrics
		s.recountLoads(o, 1)
	}
	s.dropOwner(o)
}

// recountLoads adds (sign 1) or subtracts (-1) the loads of all tasks of an owner.
func (s *Snapshot) recountLoads(o *Owner, sign int) {
	for _, t := range o.tasks {
		if t.HoldsCapacity() {
			v := s.viewOf(s, t.Instance)
			s.countLoads(v, o, t, sign)
			s.journal.addChange(v.Index, nil)
		}
	}
}

// setConfiguration replaces the cluster's configuration, and marks the instances whose limits or
// node properties differ as changed.
func (s *Snapshot) setConfiguration(c cluster.Configuration) {
	was := s.Configuration.NodeTypes
	if !reflect.DeepEqual(s.Configuration.Applications, c.Applications) {
		setApplications(s, c.Applications)
	}
	s.Configuration = c
	for _, v := range s.dense {
		if v == nil || v.Instance == nil {
			continue
		}
		limits, kind := limitsOf(&c, &s.metricSet, v), v.NodeType()
		if was[kind].Equal(c.NodeTypes[kind]) && slices.Equal(limits, v.Limits) {
			continue
		}
		v.Limits = limits
		s.markChanged(v)
	}
}

// MetricCapacities returns the capacities of an instance by metric: those that it registered, and
// its node type's for metrics that it registered none of.
func (v *InstanceView) MetricCapacities(c *cluster.Configuration) map[string]int64 {
	types := c.NodeTypes[v.NodeType()].Capacities
	if len(types)+len(v.Registered.Metrics) == 0 {
		return nil
	}
	out := maps.Clone(types)
	if out == nil {
		out = map[string]int64{}
	}
	maps.Copy(out, v.Registered.Metrics)
	return out
}

// limitsOf returns the limits of an instance by metric index.
func limitsOf(c *cluster.Configuration, m *metricSet, v *InstanceView) []cluster.Limit {
	if v.Instance == nil {
		return nil
	}
	capacities := v.MetricCapacities(c)
	var out []cluster.Limit
	for _, name := range slices.Sorted(maps.Keys(capacities)) {
		at := m.MetricIndex(name)
		for len(out) <= at {
			out = append(out, cluster.Unlimited)
		}
		out[at] = c.MetricLimit(name, capacities[name])
	}
	return out
}
