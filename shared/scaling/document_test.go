package scaling_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// The examples of Amazon's document on cluster auto scaling, with their arithmetic.
func TestDocumentedExamples(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512} // 2 on an instance
	for name, c := range map[string]struct {
		options []option
		metric  float64
		desired int
	}{
		// "If the number of empty container instances is 2, the value is set to 98 %".
		"TwoOfAHundredEmpty": {[]option{instances(98, 2)}, 98, 100},
		// "The value equals 100 %: all container instances are running at least one non-daemon
		// task".
		"AllInUse": {[]option{instances(100, 0), bounds(0, 200)}, 100, 100},
		// "To keep 10 % free capacity, set the target capacity value to 90 %": ceil(90 × 100 ÷ 90)
		// = 100, ceil(91 × 100 ÷ 90) = 102.
		"TenPercentFree":  {[]option{instances(90, 10), target(90), bounds(0, 200)}, 90, 100},
		"NinePercentFree": {[]option{instances(91, 9), target(90), bounds(0, 200)}, 91, 102},
		// "minimumScalingStepSize if the maximum calculated instance count is less": 3 for 5 tasks,
		// 4 at least.
		"LessThanTheMinimumStep": {[]option{instances(2, 0), full, waits(5, half), steps(4, 10)}, 300, 6},
		// "or the lower value of either the maximumScalingStepSize or the maximum calculated
		// instance count".
		"TheCountBelowTheMaximumStep": {[]option{instances(2, 0), full, waits(5, half), steps(1, 10)}, 250, 5},
		"TheMaximumStepBelowTheCount": {[]option{instances(2, 0), full, waits(50, half), steps(1, 10)}, 600, 12},
		// "When all tasks are not compatible with the smallest instance type, the value remains at
		// 100 %".
		"NoneCompatible": {[]option{instances(2, 0), waits(5, cluster.Resources{Memory: 8192})}, 100, 2},
		// "Scales out to 200 % (two instances)".
		"FromZero": {[]option{waits(1, half)}, 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(c.options...).decide()
			expect(t, "metric", d.Reservation, c.metric)
			expect(t, "desired", d.Desired, c.desired)
		})
	}
}

// A service's life, minute by minute: 20 tasks, four on an instance, and none from minute 20 on. An
// instance is launched the minute after it was requested and registers two minutes later.
func TestDocumentedServiceLife(t *testing.T) {
	f := newFleet(t, func(int) int { return 0 })
	f.provider.Scaling.UntilRegistered = false
	got := ""
	last := 0
	for m := range 60 {
		load := 20
		if m >= 20 {
			load = 0
		}
		if f.minute(load); f.group.Desired != last {
			got += fmt.Sprintf("%d: %d, ", m, f.group.Desired)
			last = f.group.Desired
		}
	}
	// From zero two. Launched in minute 1 they warm up until minute 6; 8 tasks run there then, the
	// 12 others need 3 more. The metric is low from minute 20 on, for the 15th time in minute 34:
	// half of 5 go, rounded down, then half of what is left, one at least.
	expect(t, "desired capacity by minute", got, "0: 2, 6: 5, 34: 3, 35: 2, 36: 1, 37: 0, ")
}
