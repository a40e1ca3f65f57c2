package scaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// maxSamples limits what is remembered of a group with very many instance types.
const maxSamples = 60

// How long the last instances of a group that has none say what a new one will be like. What it
// launches may have changed since, and a group that remembers instances on which no waiting task
// fits would never launch one again.
//
// If its launch template version is a number and still that of the instances, only the types of a
// mixed instances policy can have changed, so they are remembered longer.
const (
	sampleLifetime       = time.Hour
	pinnedSampleLifetime = 24 * time.Hour
)

// sampleSet is what new instances of the group will be like, and since when the group has had none.
type sampleSet struct {
	Samples   []cluster.InstanceSample
	NoneSince time.Time
}

// refreshSamples finds out what a new instance will be like: like those that the group has, one of
// each type and zone, or for a while like the last ones that it had (C2: "the sampled instances").
func refreshSamples(v *view) sampleSet {
	type kind struct{ name, zone string }
	seen := map[kind]bool{}
	var samples []cluster.InstanceSample
	hasAny := false
	for _, m := range v.instances {
		if m.node == nil || !m.counts {
			continue
		}
		hasAny = true
		k := kind{cmp.Or(m.node.Attributes[cluster.AttributeInstanceType], m.Type), cmp.Or(m.node.Zone(), m.Zone)}
		if m.node.Status == cluster.InstanceActive && len(samples) < maxSamples && !seen[k] {
			seen[k] = true
			samples = append(samples, sampleOf(m, v.Provider.Name))
		}
	}
	s := sampleSet{Samples: v.History.Samples}
	if len(samples) > 0 {
		s.Samples = samples
	}
	if hasAny || len(s.Samples) == 0 {
		return s
	}
	if s.NoneSince = v.History.EmptySince; s.NoneSince.IsZero() {
		s.NoneSince = v.Now
	}
	s.Samples = slices.DeleteFunc(slices.Clone(s.Samples), func(sample cluster.InstanceSample) bool {
		return isOutdated(sample, v.Group.Template, v.Now.Sub(s.NoneSince))
	})
	return s
}

// sampleOf describes a new instance like this one. It is the provider's, and is not yet
// unschedulable.
func sampleOf(m *instance, provider string) cluster.InstanceSample {
	attributes := maps.Clone(m.node.Attributes)
	delete(attributes, cluster.AttributeUnschedulable)
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes[cluster.AttributeProvider] = provider
	return cluster.InstanceSample{
		AgentVersion: m.node.AgentVersion, Registered: m.node.Registered, Attributes: attributes, Template: m.Template,
	}
}

// isOutdated reports whether the group may launch something else by now. Age is how long it has had
// no instance.
func isOutdated(s cluster.InstanceSample, template string, age time.Duration) bool {
	if s.Template == "" || !isPinned(template) {
		return age >= sampleLifetime
	}
	return s.Template != template || age >= pinnedSampleLifetime
}

// sampleCluster is a cluster of new instances only: one like each sample, with the daemons that
// start there first.
type sampleCluster struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine
	ids    []string
}

// newSampleCluster makes a cluster in which every instance has the size.
func newSampleCluster(v *view, model launchModel, size cluster.Capacity) *sampleCluster {
	c := &sampleCluster{snap: snapshot.NewSnapshot()}
	if conf := v.Snapshot.Configuration; conf.Rev > 0 {
		c.snap.Put(&conf)
	}
	for n, s := range model.samples {
		id := fmt.Sprintf("sample-%d", n)
		c.ids = append(c.ids, id)
		c.snap.Put(&cluster.Instance{
			Head: cluster.Head{
				Rev: 1,
			}, ID: id, Status: cluster.InstanceActive, AgentConnected: true, AgentVersion: s.AgentVersion,
			RegisteredAt: cluster.At(v.Now), Registered: size, Attributes: s.Attributes, Provider: v.Provider.Name,
		})
	}
	c.engine = placement.New(c.snap)
	try := &simulation{snap: c.snap, engine: c.engine}
	for _, spec := range v.Daemons {
		if model.sizesOnly && len(spec.Constraints) > 0 { // it may not be eligible
			continue
		}
		spec = model.knownNeeds(spec)
		for _, id := range c.engine.EligibleInstances(spec) {
			if gpus, refused := c.engine.CheckInstance(c.snap.Instances[id],
				placement.Request{Spec: spec, Count: 1}); refused == nil {
				try.addTask(spec, placement.Placement{Instance: id, GPUs: gpus}, nil)
			}
		}
	}
	return c
}

// capacityFor returns how many of the tasks fit on one instance: on the one that takes most. If
// that is not all of them, why says what keeps out the next.
func (c *sampleCluster) capacityFor(r placement.Request) (most int, why *cluster.Diagnosis) {
	for _, id := range c.ids {
		r.Instances = []string{id}
		placed := len(c.engine.Place(r).Placed)
		if most = max(most, placed); most == r.Count {
			return most, nil
		}
	}
	return most, c.diagnoseNext(r, most)
}

// diagnoseNext says what keeps the next task off the instances that take n: the first filter of the
// first of them.
func (c *sampleCluster) diagnoseNext(r placement.Request, n int) *cluster.Diagnosis {
	for _, id := range c.ids {
		try := &simulation{snap: c.snap, engine: c.engine}
		r.Instances, r.Count = []string{id}, n
		placed := c.engine.Place(r).Placed
		if len(placed) < n {
			continue
		}
		for _, p := range placed {
			try.addTask(r.Spec, p, nil)
		}
		_, refused := c.engine.CheckInstance(c.snap.Instances[id],
			placement.Request{Spec: r.Spec, Count: 1, Target: r.Target})
		try.undoSteps(0)
		if refused != nil {
			return &cluster.Diagnosis{Evaluated: 1, Rejected: []cluster.Rejection{*refused}}
		}
	}
	return nil
}

// largestSize has the most of each resource that any sample has (C2).
func largestSize(samples []cluster.InstanceSample) cluster.Capacity {
	size := cloneCapacity(samples[0].Registered)
	size.Ports = nil // the smallest size leaves out tasks that need a port which any type reserves
	for _, s := range samples[1:] {
		r := s.Registered
		size.CPU, size.Memory = max(size.CPU, r.CPU), max(size.Memory, r.Memory)
		if len(r.GPUs) > len(size.GPUs) {
			size.GPUs = r.GPUs
		}
		if size.ENIs != nil && (r.ENIs == nil || *r.ENIs > *size.ENIs) {
			size.ENIs = r.ENIs
		}
		for name, most := range size.Metrics {
			if n, limited := r.Metrics[name]; limited {
				size.Metrics[name] = max(n, most)
			} else {
				delete(size.Metrics, name) // an instance without a capacity for it has no limit (P9)
			}
		}
	}
	return size
}

// smallestSize has the least of each resource that any sample has (C2).
func smallestSize(samples []cluster.InstanceSample) cluster.Capacity {
	size := cloneCapacity(samples[0].Registered)
	for _, s := range samples[1:] {
		r := s.Registered
		size.CPU, size.Memory = min(size.CPU, r.CPU), min(size.Memory, r.Memory)
		if len(r.GPUs) < len(size.GPUs) {
			size.GPUs = r.GPUs
		}
		for _, p := range r.Ports {
			if !slices.Contains(size.Ports, p) {
				size.Ports = append(size.Ports, p)
			}
		}
		if r.ENIs != nil && (size.ENIs == nil || *r.ENIs < *size.ENIs) {
			size.ENIs = r.ENIs
		}
		for name, n := range r.Metrics {
			if least, limited := size.Metrics[name]; !limited || n < least {
				if size.Metrics == nil {
					size.Metrics = map[string]int64{}
				}
				size.Metrics[name] = n
			}
		}
	}
	return size
}

func cloneCapacity(c cluster.Capacity) cluster.Capacity {
	c.Ports, c.Metrics = slices.Clone(c.Ports), maps.Clone(c.Metrics)
	return c
}
