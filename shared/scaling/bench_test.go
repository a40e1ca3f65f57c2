package scaling_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

// A decision about 5,000 instances with 15,000 tasks, none of which can be removed, with 100 more
// waiting or with consolidation.
func BenchmarkDecide(b *testing.B) {
	for name, more := range map[string]option{
		"Waiting":       waits(100, cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}),
		"Consolidating": consolidating(1, 10*time.Minute),
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(web("web", 15000, ""), bounds(0, 6000))
			for n := range 5000 {
				w.instance(n+1, 3)
			}
			more(w)
			in := w.input()
			for b.Loop() {
				scaling.Decide(in)
			}
		})
	}
}
