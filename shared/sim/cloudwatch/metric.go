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

// ReservationMetric returns the metric of a capacity provider that managed scaling sets alarms on.
func ReservationMetric(namespace, clusterName, provider string) Metric {
	return scalingMetric(cluster.ReservationMetric, namespace, clusterName, provider)
}

// scalingMetric returns one of managed scaling's metrics of a capacity provider.
func scalingMetric(name, namespace, clusterName, provider string) Metric {
	return Metric{namespace, name, map[string]string{
		cluster.DimensionCluster: clusterName, cluster.DimensionProvider: provider,
	}}
}

// MetricKey returns a text that is different for every metric.
func (m Metric) MetricKey() string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q", m.Namespace, m.Name)
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		fmt.Fprintf(&key, " %q=%q", name, m.Dimensions[name])
	}
	return key.String()
}

// Series has the last datapoints of a metric, one for each minute, the oldest first. It is not
// stored.
type Series struct {
	Metric  Metric
	samples []sample
}

// sample is a minute's datapoint: what was published in that minute. Sum and N give the average,
// so that values which come later can still be added.
type sample struct {
	At               time.Time
	Sum, Least, Most float64
	N                float64
}

// HasStatistic reports whether the statistic is simulated.
func HasStatistic(name string) bool { return statistics[name] != nil }

// singleSample returns a sample of one value.
func singleSample(at time.Time, value float64) sample {
	return sample{At: at, Sum: value, Least: value, Most: value, N: 1}
}

// Average is the statistic of managed scaling.
const Average = "Average"

// statistics compute CloudWatch's statistics of a sample.
var statistics = map[string]func(sample) float64{
	Average: func(s sample) float64 { return s.Sum / s.N }, "Sum": func(s sample) float64 { return s.Sum },
	"Minimum": func(s sample) float64 { return s.Least }, "Maximum": func(s sample) float64 { return s.Most },
	"SampleCount": func(s sample) float64 { return s.N },
}

// The comparisons of managed scaling.
const Above, Below = "GreaterThanThreshold", "LessThanThreshold"

// comparisons are CloudWatch's comparison operators that need one threshold.
var comparisons = map[string]func(value, threshold float64) bool{
	Above: func(v, t float64) bool { return v > t }, Below: func(v, t float64) bool { return v < t },
	"GreaterThanOrEqualToThreshold": func(v, t float64) bool { return v >= t },
	"LessThanOrEqualToThreshold":    func(v, t float64) bool { return v <= t },
}

// keptSamples is how many minutes of a metric are kept: a day, which is how far alarms can look
// back.
const keptSamples = 24 * 60

// addSample adds what was published to its minute. Datapoints may come in any order, as CloudWatch
// takes them up to two weeks late.
func (of *Series) addSample(s sample) {
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

// LastValues returns the values of a statistic in the last n periods that have datapoints, the
// newest first. A period is that many seconds long. If gaps count, periods without datapoints are
// among the n. Example: with datapoints at 10:00, 10:01 and 10:04, the last 3 periods of a minute
// are 10:04 and two gaps, which is one value; without gaps they are all three values.
func (of *Series) LastValues(n, seconds int, statistic string, gaps bool) (values []float64) {
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
