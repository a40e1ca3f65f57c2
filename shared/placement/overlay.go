package placement

import (
	"math"
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// overlay is what one call has placed so far, as if it were rows already: views of the instances as
// they are then. When the call ends it is taken back.
type overlay struct {
	views      []*snapshot.InstanceView // by index, nil where nothing was placed
	counts     []int32
	touched    []int32
	choosers   []*chooser     // that this call used
	indexes    []*sortedIndex // that saw what was placed
	group      string         // of the tasks placed
	spareViews []*snapshot.InstanceView
}

func (o *overlay) growTo(n int) {
	growTo(&o.views, n)
	growTo(&o.counts, n)
}

// countOn is how many tasks this call placed on the instance.
func (o *overlay) countOn(i int) int { return int(o.counts[i]) }

// groupOn is the group of the tasks that this call placed on the instance, empty where there are
// none.
func (o *overlay) groupOn(i int) string {
	if o.counts[i] > 0 {
		return o.group
	}
	return ""
}

// overlayView is the call's own view of the instance.
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

// addToOverlay places a task of the class on the instance for the rest of the call.
func (c *chooser) addToOverlay(i int, gpus []int) {
	v := overlayView(c.engine, i)
	for _, d := range gpus {
		v.GPUs[d] -= c.spec.Needs.PerGPU()
	}
	for _, d := range c.demands {
		growTo(&v.Loads, d.metric+1) // no load yet where it is shorter
		v.Loads[d.metric] += d.load
	}
	c.applyToOverlay(v, i, c.spec.Needs, 1)
}

// removeFromOverlay takes a task of the class's owner off the instance for the rest of the call.
func (c *chooser) removeFromOverlay(i int, t *cluster.Task) {
	v := overlayView(c.engine, i)
	for _, d := range t.GPUs {
		if d < len(v.GPUs) {
			v.GPUs[d] += t.Needs.PerGPU()
		}
	}
	for _, d := range c.demands {
		if d.metric < len(v.Loads) {
			load, reported := t.Reported[d.name]
			if !reported {
				load = d.load
			}
			v.Loads[d.metric] -= load
		}
	}
	if len(t.GPUs) == 0 {
		v.Unpinned -= t.Needs.GPUs
	}
	c.applyToOverlay(v, i, t.Needs, -1)
}

// applyToOverlay has everything know that the instance has one task more (1) or less (-1), which counts for
// its owner.
func (c *chooser) applyToOverlay(v *snapshot.InstanceView, i int, needs cluster.Resources, sign int) {
	v.CPU -= int64(sign) * needs.CPU
	v.Memory -= int64(sign) * needs.Memory
	if v.ENIs != math.MaxInt { // no limit known
		v.ENIs -= sign * int(needs.ENIs)
	}
	c.countInOverlay(i, sign)
}

// countInOverlay has the owner's tasks on the instance, whose view the call has changed or not, count as
// one more or less.
func (c *chooser) countInOverlay(i int, sign int) {
	o := &c.engine.overlay
	v := overlayView(c.engine, i)
	o.counts[i] += int32(sign)
	o.group = c.spec.Group
	countTasks(c.engine, c.spec, i, int32(sign))
	c.engine.columns.observeUsage(i, v, int(o.counts[i]))
	c.reevaluateConstraints(i)
	for _, x := range o.indexes {
		x.reposition(int32(i))
	}
}

// applyToIndex has the index see what this call has placed so far, if it has not. What comes next it is
// told of.
func (o *overlay) applyToIndex(x *sortedIndex) {
	if slices.Contains(o.indexes, x) {
		return
	}
	x.repositionAll(o.touched)
	o.indexes = append(o.indexes, x)
}

// undoPlacements takes back what the call placed for the spec. The indexes that saw it look at
// those instances again when they are next used.
func undoPlacements(e *Engine, spec *Spec) {
	o := &e.overlay
	for _, at := range o.touched {
		i := int(at)
		countTasks(e, spec, i, -o.counts[i])
		o.spareViews = append(o.spareViews, o.views[i])
		o.views[i], o.counts[i] = nil, 0
		e.observeUsage(i, e.views[i], 0)
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

// countTasks has the tallies of the spec's owner count n more tasks.
func countTasks(e *Engine, spec *Spec, i int, n int32) {
	for _, counts := range e.caches.countsByOwner[spec.Owner] {
		if counts.group == "" || counts.group == spec.Group {
			counts.addPlaced(i, n)
		}
	}
}
