package managedscaling

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// maxHold is how long a value waits to be published that tells CloudWatch nothing new. Its time
// stays that of its minute.
const maxHold = 4 * time.Minute

// maxWaiting bounds the values that wait while CloudWatch cannot be reached.
const maxWaiting = 10000

// maxValueAge is how old a value may be that CloudWatch takes (CloudWatch API, PutMetricData).
const maxValueAge = 14 * 24 * time.Hour

// A datapoint is a value of the metrics. It is on target if neither alarm nor policy acts on it.
type datapoint struct {
	cluster.Datapoint
	onTarget bool
}

// A metricBuffer holds back the values of providers in which nothing happens, because CloudWatch
// charges for each request and takes the values of many minutes in one.
//
// It is in memory: an environment that ends loses at most the values of four minutes, each of which
// equals the one before them.
type metricBuffer struct {
	mu      sync.Mutex
	waiting []cluster.Datapoint
	urgent  bool                        // one of them says something new
	last    map[[2]string]metricReading // by cluster and provider, as last taken
}

type metricReading struct {
	percent float64
	desired int
}

// add takes values. A value is urgent unless it is on target and equals the one before it.
func (b *metricBuffer) add(points []datapoint) {
	if b.last == nil {
		b.last = map[[2]string]metricReading{}
	}
	for _, p := range points {
		key, now := [2]string{p.Cluster, p.Provider}, metricReading{p.Percent, p.Desired}
		before, known := b.last[key]
		b.urgent = b.urgent || !p.onTarget || !known || before != now
		b.last[key] = now
		b.waiting = append(b.waiting, p.Datapoint)
	}
	b.waiting = b.waiting[max(0, len(b.waiting)-maxWaiting):]
}

// dropMistimed drops the values whose time is far from now, because a clock had jumped, and returns how
// many there were. CloudWatch takes no value that is more than two hours ahead, and with it refuses all
// others of the request. One that it takes would count as the value of a minute yet to come.
func (b *metricBuffer) dropMistimed(now time.Time) (dropped int) {
	before := len(b.waiting)
	b.waiting = slices.DeleteFunc(b.waiting, func(p cluster.Datapoint) bool {
		return cluster.IsAhead(p.At, now) || now.Sub(p.At) > maxValueAge
	})
	return before - len(b.waiting)
}

// isDue reports whether the values that wait must be published now.
func (b *metricBuffer) isDue(now time.Time) bool {
	hasWaited := func(p cluster.Datapoint) bool { return now.Sub(p.At) >= maxHold }
	return len(b.waiting) > 0 && (b.urgent || slices.ContainsFunc(b.waiting, hasWaited))
}

// publish publishes the values of the metrics of all clusters that were reconciled, with those that
// have waited, in as few requests as possible. If that fails, they wait for the next minute. atOnce
// publishes also what says nothing new.
func (h *Handler) publish(ctx context.Context, points []datapoint, atOnce bool) error {
	b := &h.metrics
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(points)
	b.urgent = b.urgent || atOnce
	now := h.Clock.Now()
	if n := b.dropMistimed(now); n > 0 {
		handler.Logger(h.Log).Warn("dropping metric values whose times are far from now", "count", n)
	}
	if !b.isDue(now) {
		return nil
	}
	if err := h.Metrics.PutScalingMetrics(ctx, slices.Clone(b.waiting)); err != nil {
		return cluster.Wrap(err, "publishing the metrics")
	}
	b.waiting, b.urgent = nil, false
	return nil
}
