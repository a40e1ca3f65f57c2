package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Action is one thing that happens to the cluster from outside, at a time. A history is a list of them; which instance,
// task or service it hits follows from Pick at the moment it happens, so that a history still means something after
// others were taken out of it.
type Action struct {
	At   time.Duration
	Kind string
	Pick uint64
	N    int
}

// String is the action as a failure prints it.
func (a Action) String() string {
	return fmt.Sprintf("%8s %-18s pick=%d n=%d", a.At, a.Kind, a.Pick%1000, a.N)
}

// kinds are what can happen, with how often relative to each other.
var kinds = []struct {
	name   string
	weight int
}{
	{"create-service", 6}, {"create-daemon", 2}, {"scale", 10}, {"delete-service", 3}, {"run-task", 6},
	{"run-waiting", 3}, {"start-task", 3}, {"stop-task", 4}, {"repeat-request", 3},
	{"add-instance", 3}, {"kill-instance", 3}, {"crash-instance", 2}, {"disconnect", 4}, {"reconnect", 5},
	{"drain", 2}, {"activate", 2}, {"fail-zone", 1}, {"crash-task", 8}, {"unhealthy", 3}, {"all-unhealthy", 1},
	{"flap-agent", 2}, {"resize", 1}, {"foreign-task", 2},
}

// draw makes the history of a seed: n actions over the span.
func draw(rng *rand.Rand, n int, span time.Duration) []Action {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	// Every history begins with something to schedule.
	actions := []Action{{0, "create-service", rng.Uint64(), rng.IntN(8) + 1}}
	for range n - 1 {
		w := rng.IntN(total)
		for _, k := range kinds {
			if w -= k.weight; w < 0 {
				at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
				actions = append(actions, Action{at, k.name, rng.Uint64(), rng.IntN(8)})
				break
			}
		}
	}
	return actions
}
