package placement

import (
	"cmp"
	"slices"
)

// placeBySwaps makes room for the next task by moving others of the same call, and reports whether
// that succeeded. Placing one task after the other can lead into a corner: four tasks on a 4 × 4
// grid of fault and upgrade domains need four different rows and columns, and an early choice may
// block the last one. Tasks of an application stay: swaps may take them to further instances. So do
// those of a service whose constraints depend on tasks: each swap would change its domains.
func (p *placer) placeBySwaps() bool {
	c := p.chooser
	if c.domains == nil || c.application != nil || len(c.domainTemplate.matcher.dynamic) > 0 {
		return false
	}
	var own, free []int32
	for _, t := range p.placed[p.countBefore:] {
		own = append(own, int32(p.engine.snap.Instances[t.Instance].Index))
	}
	for i := range c.engine.views {
		if c.acceptsFeasibility(p.feasibilityOf(i)) {
			free = append(free, int32(i))
		}
	}
	slices.SortFunc(free, func(i, j int32) int { return cmp.Compare(c.engine.idLabel[i], c.engine.idLabel[j]) })
	at, swaps := c.domains.FindSwaps(free, own)
	if at < 0 {
		return false
	}
	for _, w := range swaps {
		t := &p.placed[p.countBefore+slices.Index(own, w.From)]
		c.placeInOverlay(int(w.From), t.GPUs, -1)
		t.Instance, t.GPUs = c.engine.views[w.To].ID, assignDevices(p.engine, int(w.To), c.spec.Needs)
		c.placeInOverlay(int(w.To), t.GPUs, 1)
	}
	p.placeNextOn(int(at))
	return true
}
