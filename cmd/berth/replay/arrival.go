package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
)

// arrivals are the trace's tasks as they come, one after the other, to an installation.
type arrivals struct {
	Options
	*installation.Installation
	coming  []trace.Task // in order of their arrival
	arrived int
	failed  error
}

func newArrivals(o Options) arrivals {
	tasks := slices.Clone(o.Tasks)
	slices.SortStableFunc(tasks, func(a, b trace.Task) int { return cmp.Compare(*a.Created, *b.Created) })
	return arrivals{Options: o, coming: tasks}
}

// next has the next task arrive at its time, and the one after it at its own.
func (r *arrivals) next(submit func(trace.Task) error) {
	if r.arrived == len(r.coming) {
		return
	}
	at := epoch.Add(time.Duration(float64(*r.coming[r.arrived].Created) / r.Compress))
	r.Loop.After(max(0, at.Sub(r.Loop.Now())), func() {
		pod := r.coming[r.arrived]
		r.arrived++
		if err := submit(pod); err != nil {
			r.failed = errors.Join(r.failed, fmt.Errorf("task %s: %w", pod.Name, err))
		}
		r.next(submit)
	})
}
