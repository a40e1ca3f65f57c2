package placement

import (
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// An overlay is what the current call has placed so far: views of the instances as if the tasks had
// rows already. It is undone when the call ends, because only the caller's commit makes placements
// real.
type overlay struct {
	views      []*snapshot.InstanceView // by index, nil if nothing was placed there
	counts     []int32
	touched    []int32                  // instances with a view
	choosers   []*chooser               // used by this call
	indexes    []*sortedIndex           // those that reflect the overlay
	group      string                   // of the tasks placed
	spareViews []*snapshot.InstanceView // for reuse
}

// growOverlay makes room for n instances.
func (o *overlay) growOverlay(n int) {
	growSlice(&o.views, n)
	growSlice(&o.counts, n)
}

// placedCountOn returns how many tasks this call placed on the instance.
func (o *overlay) placedCountOn(i int) int { return int(o.counts[i]) }

// placedGroupOn returns the group of the tasks that this call placed on the instance, or "" if
// there are none.
func (o *overlay) placedGroupOn(i int) string {
	if o.counts[i] > 0 {
		return o.group
	}
	return ""
}

// overlayView returns the overlay's copy of the instance's view. Views are reused: a placement
// allocates nothing here.
func overlayView(e *Engine, i int) *snapshot.InstanceView {
	o := &e.overlay
	if v := o.views[i]; v != nil {
		return v
	}
	v := &snapshot.InstanceView{}
	if n := len(o.spareViews); n > 0 {
		v, o.spareViews = o.spareViews[n-1], o.spareViews[:n-1]
	}
	gpus, loads := v.GPUs[:0], v.Loads[:0]
	*v = *e.views[i]
	v.GPUs, v.Loads = append(gpus, v.GPUs...), append(loads, v.Loads...)
	o.views[i] = v
	o.touched = append(o.touched, int32(i))
	return v
}

// placeInOverlay places (sign 1) a task of the spec on the instance until the call ends, or removes
// a task that this call placed (-1).
func (c *chooser) placeInOverlay(i int, gpus []int, sign int) {
	v := overlayView(c.engine, i)
	for _, d := range gpus {
		v.GPUs[d] -= sign * c.spec.Needs.PerGPU()
	}
	for _, d := range c.demands {
		growSlice(&v.Loads, d.metric+1) // the slice ends with the last metric that has a load
		v.Loads[d.metric] += int64(sign) * d.load
	}
	c.applyToOverlay(v, i, c.spec.Needs, sign)
}

// removeFromOverlay takes a task of the spec's owner off the instance until the call ends. Its needs
// are its own: an older revision's task may be larger than the spec's. Devices and loads stay as they
// are, because no strategy by which tasks stop compares them.
func (c *chooser) removeFromOverlay(i int, t *cluster.Task) {
	c.applyToOverlay(overlayView(c.engine, i), i, t.Needs, -1)
}

// applyToOverlay adds (sign 1) or removes (-1) a task's CPU, memory, interface and count.
func (c *chooser) applyToOverlay(v *snapshot.InstanceView, i int, needs cluster.Resources, sign int) {
	v.CPU -= int64(sign) * needs.CPU
	v.Memory -= int64(sign) * needs.Memory
	if v.ENIs != math.MaxInt { // no limit known
		v.ENIs -= sign * int(needs.ENIs)
	}
	c.countInOverlay(i, sign)
}

// countInOverlay makes the owner's tasks on the instance count as one more (1) or less (-1), and
// updates what depends on the instance.
func (c *chooser) countInOverlay(i int, sign int) {
	o := &c.engine.overlay
	v := overlayView(c.engine, i)
	o.counts[i] += int32(sign)
	o.group = c.spec.Group
	countTasks(c.engine, c.spec, i, int32(sign))
	c.engine.columns.observeUsage(i, v, int(o.counts[i]))
	countApplications(c.engine, i, c.spec, int(o.counts[i]))
	c.reevaluateConstraints(i)
	for _, x := range o.indexes {
		x.reposition(int32(i))
	}
}

// applyToIndex makes the index reflect what this call has placed so far. Later placements update
// it.
func (o *overlay) applyToIndex(x *sortedIndex) {
	if slices.Contains(o.indexes, x) {
		return
	}
	x.repositionAll(o.touched)
	o.indexes = append(o.indexes, x)
}

// undoPlacements removes what the call placed for the spec. The indexes that reflect it check those
// instances again when they are next used.
func undoPlacements(e *Engine, spec *Spec) {
	o := &e.overlay
	for _, at := range o.touched {
		i := int(at)
		countTasks(e, spec, i, -o.counts[i])
		o.spareViews = append(o.spareViews, o.views[i])
		o.views[i], o.counts[i] = nil, 0
		e.observeUsage(i, e.views[i], 0)
		countApplications(e, i, nil, 0)
	}
	for _, c := range o.choosers {
		for _, i := range o.touched {
			c.reevaluateConstraints(int(i))
		}
	}
	for _, x := range o.indexes {
		x.markDirty(o.touched)
	}
	o.touched, o.indexes, o.choosers = o.touched[:0], o.indexes[:0], o.choosers[:0]
}

// countTasks adds n tasks to all counts of the spec's owner that include the spec's tasks.
func countTasks(e *Engine, spec *Spec, i int, n int32) {
	for _, counts := range e.caches.countsByOwner[spec.Owner] {
		if counts.includes(spec.Group, spec.Deployment) {
			counts.addPlaced(i, n)
		}
	}
}
