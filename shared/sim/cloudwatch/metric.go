package cloudwatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// Metric names a metric of CloudWatch.
type Metric struct {
	Namespace, Name string
	Dimensions      map[string]string
}

// Reservation is managed scaling's metric of a capacity provider.
func Reservation(namespace, clusterName, provider string) Metric {
	return Metric{namespace, cluster.ReservationMetric, map[string]string{
		cluster.DimensionCluster: clusterName, cluster.DimensionProvider: provider,
	}}
}

// Key tells metrics apart.
func (m Metric) Key() string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q", m.Namespace, m.Name)
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		fmt.Fprintf(&key, " %q=%q", name, m.Dimensions[name])
	}
	return key.String()
}

// Series are the last datapoints of a metric, one of each minute, the oldest first. They are not stored.
type Series struct {
	Metric  Metric
	samples []sample
}

// sample is what was published in a minute.
type sample struct {
	At               time.Time
	Sum, Least, Most float64
	N                float64
}

// HasStatistic reports whether a statistic is one that datapoints have.
func HasStatistic(name string) bool { return statistics[name] != nil }

// singleSample is a sample of one value.
func singleSample(at time.Time, value float64) sample {
	return sample{At: at, Sum: value, Least: value, Most: value, N: 1}
}

// Average is the statistic of managed scaling.
const Average = "Average"

// statistics are those of CloudWatch that a sample tells.
var statistics = map[string]func(sample) float64{
	Average: func(s sample) float64 { return s.Sum / s.N }, "Sum": func(s sample) float64 { return s.Sum },
	"Minimum": func(s sample) float64 { return s.Least }, "Maximum": func(s sample) float64 { return s.Most },
	"SampleCount": func(s sample) float64 { return s.N },
}

// The comparisons of managed scaling.
const Above, Below = "GreaterThanThreshold", "LessThanThreshold"

var comparisons = map[string]func(value, threshold float64) bool{
	Above: func(v, t float64) bool { return v > t }, Below: func(v, t float64) bool { return v < t },
	"GreaterThanOrEqualToThreshold": func(v, t float64) bool { return v >= t },
	"LessThanOrEqualToThreshold":    func(v, t float64) bool { return v <= t },
}

// keptSamples is how many minutes of a metric are remembered: what an alarm of a day looks at.
const keptSamples = 24 * 60

// publish takes in a datapoint, has the metric's alarms look at it, and then the policies that follow the metric.
func (c *Service) publish(m Metric, s sample, now time.Time) {
	key := m.Key()
	of := c.series[key]
	if of == nil {
		of = &Series{Metric: m}
		c.series[key] = of
	}
	of.add(s)
	for _, name := range slices.Sorted(maps.Keys(c.alarms)) {
		if a := c.alarms[name]; a.Metric.Key() == key {
			c.evaluate(a, of, now)
		}
	}
	if c.observe != nil {
		c.observe(of, now)
	}
}

func (of *Series) add(s sample) {
	s.At = s.At.UTC().Truncate(time.Minute)
	k, found := slices.BinarySearchFunc(of.samples, s.At, func(a sample, at time.Time) int { return a.At.Compare(at) })
	if found {
		old := &of.samples[k]
		old.Sum, old.N, old.Least, old.Most = old.Sum+s.Sum, old.N+s.N, min(old.Least, s.Least), max(old.Most, s.Most)
		return
	}
	of.samples = slices.Insert(of.samples, k, s)
	of.samples = of.samples[max(0, len(of.samples)-keptSamples):]
}

// Last are the values of a statistic in periods of seconds, the last n that have any, the newest first, none older than n
// periods where gaps count.
func (of *Series) Last(n, seconds int, statistic string, gaps bool) (values []float64) {
	period := max(time.Minute, time.Duration(seconds)*time.Second)
	var bucket sample
	take := func() {
		if bucket.N > 0 {
			values = append(values, statistics[statistic](bucket))
		}
		bucket = sample{}
	}
	newest := of.samples[len(of.samples)-1].At.Truncate(period)
	for _, s := range slices.Backward(of.samples) {
		at := s.At.Truncate(period)
		if gaps && newest.Sub(at) >= time.Duration(n)*period {
			break
		}
		if bucket.N > 0 && !bucket.At.Equal(at) {
			if take(); len(values) == n {
				return values
			}
		}
		if bucket.N == 0 {
			bucket = sample{At: at, Least: s.Least, Most: s.Most}
		}
		bucket.Sum, bucket.N = bucket.Sum+s.Sum, bucket.N+s.N
		bucket.Least, bucket.Most = min(bucket.Least, s.Least), max(bucket.Most, s.Most)
	}
	take()
	return values
}

// evaluate has an alarm fire where all of its last periods are beyond the threshold. It is looked at when a datapoint comes,
// and not when one does not.
func (c *Service) evaluate(a *Alarm, of *Series, now time.Time) {
	values := of.Last(a.Times, a.Period, a.Statistic, a.Missing != "ignore")
	beyond := 0
	for _, v := range values {
		if comparisons[a.Compare](v, a.Threshold) {
			beyond++
		}
	}
	state := ok
	switch {
	case beyond == a.Times || a.Missing == "breaching" && beyond == len(values):
		state = firing
	case beyond == len(values) && a.Missing != "notBreaching":
		return // too few to tell
	}
	_ = c.setState(a.Name, state, fmt.Sprintf("Threshold Crossed: %d of the last %d datapoints were %s (%g)", beyond, len(values), a.Compare, a.Threshold), now)
}
