package replay

import (
	"cmp"
	"slices"
	"time"

	"berth/cmd/berth/trace"
)

// resources are what tasks hold, or nodes have: thousandths of a vCPU, MiB, thousandths of a GPU.
type resources struct{ cpu, memory, gpu int64 }

// addTask adds what the task needs; a sign of -1 takes it away.
func (r *resources) addTask(t trace.Task, sign int64) {
	r.cpu += sign * t.CPUMilli
	r.memory += sign * t.MemoryMiB
	gpu := int64(t.GPUs) * 1000
	if t.GPUs == 1 && t.GPUMilli > 0 {
		gpu = int64(t.GPUMilli)
	}
	r.gpu += sign * gpu
}

// loadCurve is what tasks hold over time: each level lasts until the next.
type loadCurve struct {
	levels  []level
	current resources
}

// level is what tasks hold from a time on.
type level struct {
	at   time.Time
	held resources
}

func (c *loadCurve) appendLevel(at time.Time, held resources) {
	c.levels, c.current = append(c.levels, level{at, held}), held
}

func (c *loadCurve) changeByTask(at time.Time, t trace.Task, sign int64) {
	next := c.current
	next.addTask(t, sign)
	c.appendLevel(at, next)
}

// Share is how much of a resource is allocated, in % of what the nodes have, over the time until
// the last task was started.
type Share struct {
	Mean float64 `json:"mean"`
	P95  float64 `json:"p95"`
	Peak float64 `json:"peak"`
}

// shareOf returns the share of one resource, with each level weighted by how long it lasts before
// end. For example, 0 % for 10 s, then 50 % for 80 s, then 100 % for 10 s has a mean of 50 % and
// a peak of 100 %, and the 95th percentile is 100 %.
func (c *loadCurve) shareOf(resource func(resources) int64, capacity int64, end time.Time) Share {
	type span struct {
		percent float64
		d       time.Duration
	}
	var spans []span
	var total time.Duration
	sum := 0.0
	for i, l := range c.levels {
		until := end
		if i+1 < len(c.levels) {
			until = c.levels[i+1].at
		}
		d := min(until.Sub(l.at), end.Sub(l.at))
		// Levels after end do not count. Without capacity there is no share.
		if d <= 0 || capacity == 0 {
			continue
		}
		percent := 100 * float64(resource(l.held)) / float64(capacity)
		spans = append(spans, span{percent, d})
		total += d
		sum += percent * d.Seconds()
	}
	if total == 0 {
		return Share{}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.percent, b.percent) })
	out := Share{Mean: sum / total.Seconds(), Peak: spans[len(spans)-1].percent}
	var passed time.Duration
	for _, s := range spans {
		if passed += s.d; passed.Seconds() >= 0.95*total.Seconds() {
			out.P95 = s.percent
			break
		}
	}
	return out
}
