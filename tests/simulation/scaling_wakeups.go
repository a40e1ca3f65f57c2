package simulation

import (
	"math/rand/v2"
	"time"

	"berth/shared/embedded"
)

// managedScalingQueue is the queue of managed scaling's wake-ups and alarms.
const managedScalingQueue = "ManagedScalingQueue"

// maxWakeUpDelay is by how much a wake-up of managed scaling may be late.
const maxWakeUpDelay = 3 * time.Minute

// wakeUpFaults are the faults of managed scaling's queue, besides those of every queue. Their own
// source leaves the other draws of each seed as they were.
type wakeUpFaults struct {
	random                        *rand.Rand
	lostRate, doubleRate, delayed float64
	// netOff keeps managed scaling's schedule from ticking, also when the other faults have ended.
	netOff bool
}

// drawWakeUpFaults draws the rates of a seed. A quarter of the seeds lose all messages, and a quarter
// deliver all of them twice.
func drawWakeUpFaults(seed uint64) *wakeUpFaults {
	f := &wakeUpFaults{random: rand.New(rand.NewPCG(seed, 0x77616b65))}
	f.lostRate, f.doubleRate, f.delayed = 0.5*f.random.Float64(), 0.5*f.random.Float64(), 0.5*f.random.Float64()
	switch f.random.IntN(4) {
	case 0:
		f.lostRate = 1
	case 1:
		f.lostRate, f.doubleRate = 0, 1
	}
	return f
}

// strikeWakeUps adds the faults of wake-ups to those of the runtime.
func (s *scalingWorld) strikeWakeUps(faults *embedded.Faults) {
	send, schedule, wakes := faults.Send, faults.Schedule, s.wakeUps
	faults.Send = func(queue string) embedded.SendFault {
		f := send(queue)
		if queue != managedScalingQueue || !s.faults.active || s.faultless {
			return f
		}
		f.Drop = f.Drop || wakes.random.Float64() < wakes.lostRate
		if wakes.random.Float64() < wakes.doubleRate {
			f.Copies++
		}
		if wakes.random.Float64() < wakes.delayed {
			f.Delay += time.Duration(wakes.random.Int64N(int64(maxWakeUpDelay)))
		}
		return f
	}
	faults.Schedule = func(function, name string) bool {
		return schedule(function, name) || wakes.netOff && name == "scaling"
	}
}
