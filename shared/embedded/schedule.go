package embedded

import "time"

// schedule ticks at a fixed rate from the start of the runtime. Ticks that were missed while the
// machine slept are not made up.
type schedule struct {
	function *function
	wiring   *ScheduleSource
	next     time.Time
}

func (s *schedule) startTicking() {
	s.next = s.function.runtime.loop.Now()
	s.planNextTick()
}

// planNextTick counts from the tick before, so that a late callback does not shift the later ones.
func (s *schedule) planNextTick() {
	loop := s.function.runtime.loop
	now := loop.Now()
	s.next = s.next.Add(s.wiring.Every)
	if s.next.Before(now) {
		s.next = now.Add(s.wiring.Every)
	}
	s.function.runtime.scheduleAfter(s.next.Sub(now), s.fireTick)
}

func (s *schedule) fireTick() {
	s.planNextTick()
	if f := s.function; !f.runtime.faults.shouldSkipSchedule(f.wiring.Name, s.wiring.Schedule) {
		f.runSchedule(s.wiring.Schedule, 0)
	}
}
