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
	views   []*snapshot.InstanceView // by index, nil where nothing was placed
	counts  []int32
	touched []int32
	classes []*class       // that this call used
	seen    []*sortedIndex // that saw what was placed
	groups  string         // of the tasks placed
	unused  []*snapshot.InstanceView
}

func (o *overlay) grow(n int) {
	lengthen(&o.views, n)
	lengthen(&o.counts, n)
}

// count is how many tasks this call placed on the instance.
func (o *overlay) count(i int) int { return int(o.counts[i]) }

// group is the group of the tasks that this call placed on the instance, empty where there are
// none.
func (o *overlay) group(i int) string {
	if o.counts[i] > 0 {
		return o.groups
	}
	return ""
}

// overlayView is the call's own view of the instance.
func overlayView(e *Engine, i int) *snapshot.InstanceView {
	o := &e.placed
	if v := o.views[i]; v != nil {
		return v
	}
	v := &snapshot.InstanceView{}
	if n := len(o.unused); n > 0 {
		v, o.unused = o.unused[n-1], o.unused[:n-1]
	}
	gpus, loads := v.GPUs[:0], v.Loads[:0]
	*v = *e.views[i]
	v.GPUs, v.Loads = append(gpus, v.GPUs...), append(loads, v.Loads...)
	o.views[i] = v
	o.touched = append(o.touched, int32(i))
	return v
}

// put places a task of the class on the instance for the rest of the call.
func (c *class) put(i int, gpus []int) {
	v := overlayView(c.shape.engine, i)
	for _, d := range gpus {
		v.GPUs[d] -= c.spec.Needs.PerGPU()
	}
	for _, d := range c.demands {
		lengthen(&v.Loads, d.metric+1) // no load yet where it is shorter
		v.Loads[d.metric] += d.load
	}
	c.move(v, i, c.spec.Needs, 1)
}

// remove takes a task of the class's owner off the instance for the rest of the call.
func (c *class) remove(i int, t *cluster.Task) {
	v := overlayView(c.shape.engine, i)
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
	c.move(v, i, t.Needs, -1)
}

// move has everything know that the instance has one task more (1) or less (-1), which counts for
// its owner.
func (c *class) move(v *snapshot.InstanceView, i int, needs cluster.Resources, sign int) {
	v.CPU -= int64(sign) * needs.CPU
	v.Memory -= int64(sign) * needs.Memory
	if v.ENIs != math.MaxInt { // no limit known
		v.ENIs -= sign * int(needs.ENIs)
	}
	c.recount(i, sign)
}

// recount has the owner's tasks on the instance, whose view the call has changed or not, count as
// one more or less.
func (c *class) recount(i int, sign int) {
	o := &c.engine.placed
	v := overlayView(c.shape.engine, i)
	o.counts[i] += int32(sign)
	o.groups = c.spec.Group
	countTasks(c.shape.engine, c.spec, i, int32(sign))
	c.engine.columns.measure(i, v, int(o.counts[i]))
	c.reconsider(i)
	for _, x := range o.seen {
		x.refresh(int32(i))
	}
}

// show has the index see what this call has placed so far, if it has not. What comes next it is
// told of.
func (o *overlay) show(x *sortedIndex) {
	if slices.Contains(o.seen, x) {
		return
	}
	x.refreshAll(o.touched)
	o.seen = append(o.seen, x)
}

// undoPlacements takes back what the call placed for the spec. The indexes that saw it look at
// those instances again when they are next used.
func undoPlacements(e *Engine, spec *Spec) {
	o := &e.placed
	for _, at := range o.touched {
		i := int(at)
		countTasks(e, spec, i, -o.counts[i])
		o.unused = append(o.unused, o.views[i])
		o.views[i], o.counts[i] = nil, 0
		e.measure(i, e.views[i], 0)
	}
	for _, c := range o.classes {
		for _, i := range o.touched {
			c.reconsider(int(i))
		}
	}
	for _, x := range o.seen {
		x.review(o.touched)
	}
	o.touched, o.seen, o.classes = o.touched[:0], o.seen[:0], o.classes[:0]
}

// countTasks has the tallies of the spec's owner count n more tasks.
func countTasks(e *Engine, spec *Spec, i int, n int32) {
	for _, t := range e.kept.owned[spec.Owner] {
		if t.group == "" || t.group == spec.Group {
			t.place(i, n)
		}
	}
}
