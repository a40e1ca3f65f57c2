package placement

import (
	"cmp"
	"slices"
)

// detour makes room for the next task by moving others of the same call, and reports whether it
// found a way.
func (p *pass) detour() bool {
	c := p.class
	if c.domains == nil {
		return false
	}
	var own, free []int32
	for _, t := range p.placed[p.before:] {
		own = append(own, int32(p.engine.snap.Instances[t.Instance].Index))
	}
	for i := range c.engine.views {
		if c.allows(p.fitness(i)) {
			free = append(free, int32(i))
		}
	}
	slices.SortFunc(free, func(i, j int32) int { return cmp.Compare(c.engine.label[i], c.engine.label[j]) })
	at, way := c.domains.Detours(free, own)
	if at < 0 {
		return false
	}
	for _, w := range way {
		t := &p.placed[p.before+slices.Index(own, w.From)]
		c.lift(int(w.From), t.GPUs)
		t.Instance, t.GPUs = c.engine.views[w.To].ID, assignDevices(p.engine, int(w.To), c.spec.Needs)
		c.put(int(w.To), t.GPUs)
	}
	p.take(int(at))
	return true
}

// lift takes back a task that this call placed.
func (c *class) lift(i int, gpus []int) {
	v := overlayView(c.shape.engine, i)
	for _, d := range gpus {
		v.GPUs[d] += c.spec.Needs.PerGPU()
	}
	for _, d := range c.demands {
		if d.metric < len(v.Loads) {
			v.Loads[d.metric] -= d.load
		}
	}
	c.move(v, i, c.spec.Needs, -1)
}
