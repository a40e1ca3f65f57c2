package placement

import (
	"cmp"
	"slices"
)

// placeBySwaps makes room for the next task by moving others of the same call, and reports whether it
// found a way.
func (p *placer) placeBySwaps() bool {
	c := p.chooser
	if c.domains == nil {
		return false
	}
	var own, free []int32
	for _, t := range p.placed[p.countBefore:] {
		own = append(own, int32(p.engine.snap.Instances[t.Instance].Index))
	}
	for i := range c.engine.views {
		if c.accepts(p.feasibilityOf(i)) {
			free = append(free, int32(i))
		}
	}
	slices.SortFunc(free, func(i, j int32) int { return cmp.Compare(c.engine.idLabel[i], c.engine.idLabel[j]) })
	at, way := c.domains.FindSwaps(free, own)
	if at < 0 {
		return false
	}
	for _, w := range way {
		t := &p.placed[p.countBefore+slices.Index(own, w.From)]
		c.undoPlaced(int(w.From), t.GPUs)
		t.Instance, t.GPUs = c.engine.views[w.To].ID, assignDevices(p.engine, int(w.To), c.spec.Needs)
		c.addToOverlay(int(w.To), t.GPUs)
	}
	p.placeOn(int(at))
	return true
}

// undoPlaced takes back a task that this call placed.
func (c *chooser) undoPlaced(i int, gpus []int) {
	v := overlayView(c.engine, i)
	for _, d := range gpus {
		v.GPUs[d] += c.spec.Needs.PerGPU()
	}
	for _, d := range c.demands {
		if d.metric < len(v.Loads) {
			v.Loads[d.metric] -= d.load
		}
	}
	c.applyToOverlay(v, i, c.spec.Needs, -1)
}
