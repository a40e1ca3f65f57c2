package service_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/service"
)

func TestScaleByLoad(t *testing.T) {
	l := cluster.LoadScaling{Metric: "m", Lower: 10, Upper: 20, Increment: 2, Min: 2, Max: 6}
	unbounded := l
	unbounded.Max = -1
	for name, c := range map[string]struct {
		scaling   cluster.LoadScaling
		desired   int
		loads     []int64
		want      int
		why       string
		instances int
	}{
		"Between":               {l, 3, []int64{10, 20}, 3, "", 9},
		"AtLower":               {l, 4, []int64{10, 10}, 4, "", 9},
		"AtUpper":               {l, 4, []int64{20, 20}, 4, "", 9},
		"Above":                 {l, 3, []int64{20, 21}, 5, "average load of m is 20.5, above 20", 9},
		"Below":                 {l, 5, []int64{10, 9}, 3, "average load of m is 9.5, below 10", 9},
		"UpToMax":               {l, 5, []int64{21}, 6, "above 20", 9},
		"DownToMin":             {l, 3, []int64{0}, 2, "below 10", 9},
		"AtMax":                 {l, 6, []int64{99}, 6, "", 9},
		"AtMin":                 {l, 2, []int64{0}, 2, "", 9},
		"FewerThanMin":          {l, 0, nil, 2, "from 2 to 6", 9},
		"MoreThanMax":           {l, 9, []int64{15}, 6, "from 2 to 6", 9},
		"NoTasks":               {l, 3, nil, 3, "", 9},
		"ToTheInstances":        {unbounded, 3, []int64{21}, 4, "above 20", 4},
		"NoInstanceFits":        {unbounded, 2, []int64{21}, 2, "", 0},
		"MoreThanOnThese":       {unbounded, 7, []int64{15}, 7, "", 4},
		"DownToMoreThanOnThese": {unbounded, 7, []int64{9}, 5, "below 10", 4},
		"UpFromMoreThanOnThese": {unbounded, 7, []int64{21}, 4, "above 20", 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := service.ScaleByLoad(&c.scaling, c.desired, c.loads, c.instances)
			if got.Desired != c.want || (got.Why == "") != (c.why == "") || !strings.Contains(got.Why, c.why) {
				t.Errorf("%+v, expected %d because %q", got, c.want, c.why)
			}
		})
	}
}

// The count never leaves its bounds, changes by the increment at most once it is within them, never
// against the load, and a reason is given if and only if it changes.
func TestScaleByLoadKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := cluster.LoadScaling{Metric: "m", Lower: 10, Upper: 20,
			Increment: rapid.IntRange(1, 9).Draw(t, "increment"),
			Min:       rapid.IntRange(1, 9).Draw(t, "min")}
		l.Max = l.Min + rapid.IntRange(0, 9).Draw(t, "more")
		loads := rapid.SliceOf(rapid.Int64Range(0, 40)).Draw(t, "loads")
		desired := rapid.IntRange(0, 30).Draw(t, "desired")
		got := service.ScaleByLoad(&l, desired, loads, 99)
		change := got.Desired - desired
		if got.Desired < l.Min || got.Desired > l.Max || (got.Why == "") != (change == 0) {
			t.Fatalf("%+v from %d, bounds %d to %d", got, desired, l.Min, l.Max)
		}
		if desired < l.Min || desired > l.Max {
			return
		}
		sum := int64(0)
		for _, n := range loads {
			sum += n
		}
		count := int64(len(loads))
		if change > l.Increment || change < -l.Increment || change > 0 && sum <= 20*count || change < 0 &&
			sum >= 10*count {
			t.Fatalf("%+v from %d with the loads %v", got, desired, loads)
		}
	})
}

// Intervals follow each other from the service's creation.
func TestLoadInterval(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &cluster.Service{}
	s.CreatedAt, s.Rules.Scaling = created, &cluster.LoadScaling{IntervalSeconds: 60}
	for after, began := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, 59 * time.Second: 0, time.Minute: time.Minute, 119 * time.Second: time.Minute,
		time.Hour + time.Second: time.Hour,
	} {
		if got := service.LoadInterval(s, created.Add(after)); !got.Equal(created.Add(began)) {
			t.Errorf("%s after the creation, the interval began %s after it, expected %s", after, got.Sub(created),
				began)
		}
	}
}
