package simulation

import (
	"math/rand/v2"
	"time"
)

// Chaos is how often each fault befalls a run: probabilities per occasion, drawn once per seed so that seeds differ
// in kind and not only in detail. All zero is a run without faults.
type Chaos struct {
	// Compute.
	Crash float64 // a function dies at a port call, before or after its effect
	Aside float64 // a process is set aside at a port call while others run
	Skew  float64 // an invocation's clock is off by up to a minute
	// Store.
	Conflict  float64 // a write fails as if another transaction had been in the way
	Throttle  float64 // a call is refused for now
	Ambiguous float64 // a call gives an error although, or although not, it took effect
	Stale     float64 // an eventually consistent read misses the newest writes
	// Messages.
	Duplicate, Delay, Drop, Redeliver, Reorder, Split float64
	StreamDuplicate, StreamStall                      float64
	EventDrop                                         float64
	SkipSchedule                                      float64
	// ECS.
	StartAmbiguous, StartLate, ECSThrottle, ListLate float64

	rng    *rand.Rand
	active bool
}

// newChaos draws the faults of one seed: most kinds are off in most seeds, so that each is also seen alone.
func newChaos(rng *rand.Rand) *Chaos {
	draw := func(most float64) float64 {
		if rng.Float64() < 0.5 {
			return 0
		}
		return most * rng.Float64()
	}
	return &Chaos{
		Crash: draw(0.02), Aside: draw(0.3), Skew: draw(0.2),
		Conflict: draw(0.1), Throttle: draw(0.1), Ambiguous: draw(0.05), Stale: draw(0.5),
		Duplicate: draw(0.2), Delay: draw(0.3), Drop: draw(0.05), Redeliver: draw(0.2), Reorder: draw(0.5), Split: draw(0.5),
		StreamDuplicate: draw(0.2), StreamStall: draw(0.1), EventDrop: draw(0.1), SkipSchedule: draw(0.2),
		StartAmbiguous: draw(0.2), StartLate: draw(0.1), ECSThrottle: draw(0.2), ListLate: draw(0.5),
		rng: rng, active: true,
	}
}

// hit draws whether something with this probability happens now. Without faults it draws nothing.
func (c *Chaos) hit(p float64) bool { return c.active && p > 0 && c.rng.Float64() < p }

func (c *Chaos) crash(string) bool { return c.hit(c.Crash) }

func (c *Chaos) aside() (time.Duration, bool) {
	if !c.hit(c.Aside) {
		return 0, false
	}
	return time.Duration(c.rng.IntN(2000)) * time.Millisecond, true
}

func (c *Chaos) skew() time.Duration {
	if !c.hit(c.Skew) {
		return 0
	}
	return time.Duration(c.rng.IntN(120)-60) * time.Second
}
