package scaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// maxSamples bounds what is remembered of a group with very many instance types.
const maxSamples = 60

// How long the last instances that a group had say what a new one will be like, while it has none: what it launches may have
// changed, and tasks that do not fit what it was would never have it launch one. Where its launch template version is a number, and
// still that of the instances, only the types of a mixed instances policy can have; else the version may be another each time.
const (
	sampleLife      = time.Hour
	sampleLifeKnown = 24 * time.Hour
)

// sample finds out what a new instance will be like: as those that the group has, one of each type and zone, or for a while as
// the last ones that it had (C2: "the sampled instances").
func (c *census) sample() {
	type kind struct{ name, zone string }
	seen := map[kind]bool{}
	var out []cluster.InstanceSample
	for _, m := range c.members {
		if m.view == nil || !m.counts || m.view.Status != cluster.InstanceActive || len(out) == maxSamples {
			continue
		}
		k := kind{cmp.Or(m.view.Attributes[cluster.AttributeInstanceType], m.Type), cmp.Or(m.view.Zone(), m.Zone)}
		if seen[k] {
			continue
		}
		seen[k] = true
		attributes := maps.Clone(m.view.Attributes)
		delete(attributes, cluster.AttributeUnschedulable) // a new instance has no such mark
		if attributes == nil {
			attributes = map[string]string{}
		}
		attributes[cluster.AttributeProvider] = c.Provider.Name // and is the provider's, as this one is once it has been claimed
		out = append(out, cluster.InstanceSample{
			AgentVersion: m.view.AgentVersion, Registered: m.view.Registered, Attributes: attributes, Template: m.Template,
		})
	}
	if len(out) > 0 {
		c.next.Samples = out
	}
	c.forget()
}

// forget drops what is remembered of instances that may no longer be what the group launches.
func (c *census) forget() {
	none := !slices.ContainsFunc(c.members, func(m *member) bool { return m.counts && m.view != nil })
	if !none || len(c.next.Samples) == 0 {
		c.next.NoneSince = time.Time{}
		return
	}
	if c.next.NoneSince.IsZero() {
		c.next.NoneSince = c.Now
	}
	age := c.Now.Sub(c.next.NoneSince)
	c.next.Samples = slices.DeleteFunc(slices.Clone(c.next.Samples), func(s cluster.InstanceSample) bool {
		switch group, numbered := c.Group.Template, !strings.Contains(c.Group.Template, ":$"); {
		case group == "" || s.Template == "" || !numbered:
			return age >= sampleLife
		default:
			return s.Template != group || age >= sampleLifeKnown
		}
	})
}

// blank is a cluster of nothing but new instances, one like each sample, with the daemons that start there first.
type blank struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine
	ids    []string
}

// blankOf makes every instance of one size.
func (c *census) blankOf(size cluster.Capacity) *blank {
	b := &blank{snap: snapshot.NewSnapshot()}
	if conf := c.Snapshot.Configuration; conf.Rev > 0 {
		b.snap.Put(&conf)
	}
	for n, s := range c.next.Samples {
		id := fmt.Sprintf("sample-%d", n)
		b.ids = append(b.ids, id)
		b.snap.Put(&cluster.Instance{
			Head: cluster.Head{Rev: 1}, ID: id, Status: cluster.InstanceActive, AgentConnected: true, AgentVersion: s.AgentVersion,
			RegisteredAt: cluster.At(c.Now), Registered: size, Attributes: s.Attributes, Provider: c.Provider.Name,
		})
	}
	b.engine = placement.New(b.snap)
	try := &trial{snap: b.snap, engine: b.engine}
	for _, spec := range c.Daemons {
		for _, id := range b.engine.Eligible(spec) {
			if gpus, refused := b.engine.Check(b.snap.Instances[id], placement.Request{Spec: spec, Count: 1}); refused == nil {
				try.task(spec, placement.Placement{Instance: id, GPUs: gpus}, nil)
			}
		}
	}
	return b
}

// holds is how many of the tasks one instance takes: the one that takes most. Where that is not all of them, it says what
// keeps out the next.
func (b *blank) holds(r placement.Request) (most int, why *cluster.Diagnosis) {
	for _, id := range b.ids {
		r.Instances = []string{id}
		placed := len(b.engine.Place(r).Placed)
		if most = max(most, placed); most == r.Count {
			return most, nil
		}
	}
	return most, b.refusal(r, most)
}

// refusal is what keeps the next task off the instances that take n: of all that do, the first filter.
func (b *blank) refusal(r placement.Request, n int) *cluster.Diagnosis {
	for _, id := range b.ids {
		try := &trial{snap: b.snap, engine: b.engine}
		if n > 0 {
			r.Instances, r.Count = []string{id}, n
			placed := b.engine.Place(r).Placed
			if len(placed) < n {
				continue
			}
			for _, p := range placed {
				try.task(r.Spec, p, nil)
			}
		}
		_, refused := b.engine.Check(b.snap.Instances[id], placement.Request{Spec: r.Spec, Count: 1, Target: r.Target})
		try.undo(0)
		if refused != nil {
			return &cluster.Diagnosis{Evaluated: 1, Rejected: []cluster.Rejection{*refused}}
		}
	}
	return nil
}

// largest and smallest are the sizes made of the most and of the least of each parameter that any sample has (C2).
func largest(samples []cluster.InstanceSample) cluster.Capacity {
	out := clone(samples[0].Registered)
	out.Ports = nil // tasks that need one which any type reserves are left out by the smallest size
	for _, s := range samples[1:] {
		r := s.Registered
		out.CPU, out.Memory = max(out.CPU, r.CPU), max(out.Memory, r.Memory)
		if len(r.GPUs) > len(out.GPUs) {
			out.GPUs = r.GPUs
		}
		if out.ENIs != nil && (r.ENIs == nil || *r.ENIs > *out.ENIs) {
			out.ENIs = r.ENIs
		}
		for name, most := range out.Metrics {
			if n, limited := r.Metrics[name]; limited {
				out.Metrics[name] = max(n, most)
			} else {
				delete(out.Metrics, name) // an instance without a capacity has no limit (P9)
			}
		}
	}
	return out
}

func smallest(samples []cluster.InstanceSample) cluster.Capacity {
	out := clone(samples[0].Registered)
	for _, s := range samples[1:] {
		r := s.Registered
		out.CPU, out.Memory = min(out.CPU, r.CPU), min(out.Memory, r.Memory)
		if len(r.GPUs) < len(out.GPUs) {
			out.GPUs = r.GPUs
		}
		for _, p := range r.Ports {
			if !slices.Contains(out.Ports, p) {
				out.Ports = append(out.Ports, p)
			}
		}
		if r.ENIs != nil && (out.ENIs == nil || *r.ENIs < *out.ENIs) {
			out.ENIs = r.ENIs
		}
		for name, n := range r.Metrics {
			if least, limited := out.Metrics[name]; !limited || n < least {
				if out.Metrics == nil {
					out.Metrics = map[string]int64{}
				}
				out.Metrics[name] = n
			}
		}
	}
	return out
}

func clone(c cluster.Capacity) cluster.Capacity {
	c.Ports, c.Metrics = slices.Clone(c.Ports), maps.Clone(c.Metrics)
	return c
}
