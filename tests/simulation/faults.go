package simulation

import (
	"time"

	"berth/shared/embedded"
	"berth/shared/fleet"
)

// messageFaults are what may befall queues, streams, events and schedules.
func (w *World) messageFaults() embedded.Faults {
	c := func() *Chaos { return w.chaos }
	return embedded.Faults{
		Send: func(string) embedded.SendFault {
			var f embedded.SendFault
			if w.LoseEvents || c().hit(c().Drop) {
				f.Drop = true
			}
			if c().hit(c().Duplicate) {
				f.Copies = 1 + c().rng.IntN(2)
			}
			if c().hit(c().Delay) {
				f.Delay = time.Duration(c().rng.IntN(90)) * time.Second
			}
			return f
		},
		Shuffle: func(_ string, n int, swap func(i, j int)) {
			if c().hit(c().Reorder) {
				c().rng.Shuffle(n, swap)
			}
		},
		Split: func(_ string, n int) int {
			if c().hit(c().Split) {
				return 1 + c().rng.IntN(n)
			}
			return n
		},
		Redeliver: func(string) bool { return c().hit(c().Redeliver) },
		Stream: func(string) embedded.StreamFault {
			var f embedded.StreamFault
			if c().hit(c().StreamStall) {
				f.Stall = time.Duration(c().rng.IntN(60)) * time.Second
			}
			f.Again = c().hit(c().StreamDuplicate)
			return f
		},
		Event:    func([]byte) bool { return w.LoseEvents || c().hit(c().EventDrop) },
		Schedule: func(string, string) bool { return c().hit(c().SkipSchedule) },
		Environment: func(_ string, n int) int {
			if c().active && c().Aside > 0 {
				return c().rng.IntN(n+1) - 1
			}
			return n - 1
		},
	}
}

// callFaults are what may befall calls of ECS.
func (w *World) callFaults() fleet.CallFaults {
	c := w.chaos
	if !c.active {
		return fleet.CallFaults{}
	}
	late := time.Duration(0)
	if c.ListLate > 0 {
		late = 20 * time.Second
	}
	return fleet.CallFaults{
		ListLate: late,
		Call: func(operation, _ string) fleet.CallFault {
			switch {
			case w.running == nil: // the simulator itself is looking
				return fleet.CallFault{}
			case c.hit(c.ECSThrottle):
				return fleet.CallFault{Throttled: true}
			case operation != "StartTask" && operation != "StopTask":
				return fleet.CallFault{}
			case c.hit(c.StartAmbiguous):
				return fleet.CallFault{Ambiguous: true, Applied: c.rng.IntN(2) == 0}
			case c.hit(c.StartLate):
				return fleet.CallFault{Ambiguous: true, Applied: true, Late: time.Duration(c.rng.IntN(100)) * time.Second}
			}
			return fleet.CallFault{}
		},
	}
}

// behaviour is how tasks live: most well, some not.
func (w *World) behaviour(fleet.StartInfo) fleet.Behaviour {
	rng := w.chaos.rng
	if !w.chaos.active {
		return fleet.Behaviour{}
	}
	var b fleet.Behaviour
	switch rng.IntN(12) {
	case 0:
		b.FailStart = "CannotPullContainerError: no such image"
	case 1:
		b.Latency = time.Duration(20+rng.IntN(60)) * time.Second
	case 2:
		b.RunFor, b.ExitCode = time.Duration(1+rng.IntN(120))*time.Second, rng.IntN(2)
	case 3:
		b.UnhealthyAfter, b.Flap = time.Duration(rng.IntN(60))*time.Second, 30*time.Second
	case 4:
		b.IgnoreStop = true
	}
	return b
}
