package snapshot

import (
	"maps"
	"slices"

	"berth/shared/cluster"
)

// internerSize is how many texts a snapshot keeps to have later rows share them. When there are
// more it begins anew: batches and revisions come and go, and what rows share they go on sharing.
const internerSize = 1 << 12

// An interner lets rows share memory that decoding allocated for each of them: names, and the
// attributes of like instances.
type interner struct {
	texts      map[string]string
	attributes map[uint64]map[string]string
	last       cluster.Instance // the last instance
}

// internText is s, sharing its bytes with a text of before.
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

// shareText is s, sharing its bytes with o where it is the same, else with a text of before.
func shareText[S ~string](p *interner, s, o S) S {
	if s == o {
		return o
	}
	return S(p.internText(string(s)))
}

// internTask has t share with o, another task of its owner, what they have in common. It stays the same
// to everyone.
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

// internInstance lets an instance share with those before it what they have in common.
func (p *interner) internInstance(i *cluster.Instance) {
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

// internMap is a map of before that says the same as m, or a new one that shares the texts.
func (p *interner) internMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var sum uint64 // in any order
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

// offset is where FNV-1a begins.
const offset uint64 = 14695981039346656037

// mixBits spreads what differs over all bits (the end of MurmurHash3): sums of plain hashes of like
// texts collide.
func mixBits(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hashText goes on with FNV-1a over a text and its end.
func hashText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ 0xff) * 1099511628211
}
