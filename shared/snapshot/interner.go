package snapshot

import (
	"maps"
	"slices"

	"berth/shared/cluster"
)

// internerSize is how many texts an interner keeps. Then it starts again with none, as most texts
// are of batches and revisions that come and go. Rows that share a text keep sharing it.
const internerSize = 1 << 12

// fewInstances is how many instances come before the first that shares anything: a small cluster is
// often loaded for one decision, and comparing took longer than the rest of loading it.
const fewInstances = 64

// An interner lets rows share strings, slices and maps that decoding allocated for each of them. It
// must never change what a row says.
type interner struct {
	texts      map[string]string
	attributes map[uint64]map[string]string
	last       cluster.Instance // the previous instance
	instances  int              // how many there have been
}

// internText returns s, if possible with the memory of an equal text from before.
func (p *interner) internText(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := p.texts[s]; ok {
		return known
	}
	if len(p.texts) >= internerSize || p.texts == nil {
		p.texts = map[string]string{}
	}
	p.texts[s] = s
	return s
}

// shareText returns s with the memory of o if they are equal, or else that of an equal text from
// before.
func shareText[S ~string](p *interner, s, o S) S {
	if s == o {
		return o
	}
	return S(p.internText(string(s)))
}

// internTask makes t share memory with o, another task of its owner.
func (p *interner) internTask(t, o *cluster.Task) {
	t.Cluster, t.Owner = shareText(p, t.Cluster, o.Cluster), shareText(p, t.Owner, o.Owner)
	t.Service, t.Group, t.Revision = shareText(p, t.Service, o.Service), shareText(p, t.Group, o.Group),
		shareText(p, t.Revision, o.Revision)
	t.TaskDefinition, t.Batch = shareText(p, t.TaskDefinition, o.TaskDefinition), shareText(p, t.Batch, o.Batch)
	t.Request, t.StartedByUser = shareText(p, t.Request, o.Request), shareText(p, t.StartedByUser, o.StartedByUser)
	t.Desired, t.Last, t.StopCode = shareText(p, t.Desired, o.Desired), shareText(p, t.Last, o.Last),
		shareText(p, t.StopCode, o.StopCode)
	if slices.Equal(t.Ports, o.Ports) {
		t.Ports = o.Ports
	}
	if maps.Equal(t.Tags, o.Tags) {
		t.Tags = o.Tags
	}
}

// internInstance makes an instance share memory with those before it.
func (p *interner) internInstance(i *cluster.Instance) {
	if p.instances++; p.instances <= fewInstances {
		return
	}
	o := &p.last
	i.Cluster, i.Status, i.AgentVersion = shareText(p, i.Cluster, o.Cluster), shareText(p, i.Status, o.Status),
		shareText(p, i.AgentVersion, o.AgentVersion)
	if slices.Equal(i.Registered.Ports, o.Registered.Ports) {
		i.Registered.Ports = o.Registered.Ports
	}
	if maps.Equal(i.Registered.Metrics, o.Registered.Metrics) {
		i.Registered.Metrics = o.Registered.Metrics
	}
	i.Attributes = p.internMap(i.Attributes)
	p.last = *i
}

// internMap returns an equal map from before, or a copy of m with interned texts.
func (p *interner) internMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var sum uint64 // the sum does not depend on the map's order
	for k, v := range m {
		sum += mixBits(hashText(hashText(offset, k), v))
	}
	known, ok := p.attributes[sum]
	if ok && maps.Equal(known, m) {
		return known
	}
	if len(p.attributes) >= internerSize || p.attributes == nil {
		p.attributes = map[uint64]map[string]string{}
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[p.internText(k)] = p.internText(v)
	}
	p.attributes[sum] = out
	return out
}

// offset is the initial value of FNV-1a.
const offset uint64 = 14695981039346656037

// mixBits spreads differences over all bits (the end of MurmurHash3). Without it, sums of hashes of
// similar texts collide.
func mixBits(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hashText continues FNV-1a with a text and a terminator.
func hashText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}
