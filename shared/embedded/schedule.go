package embedded

import "time"

// schedule ticks at a fixed rate from the start of the runtime, never catching up on ticks that
// were missed while the machine slept.
type schedule struct {
	function *function
	wiring   *ScheduleSource
	next     time.Time
}

func (s *schedule) start() {
	s.next = s.function.runtime.loop.Now()
	s.planNextRun()
}

func (s *schedule) planNextRun() {
	loop := s.function.runtime.loop
	now := loop.Now()
	s.next = s.next.Add(s.wiring.Every)
	if s.next.Before(now) {
		s.next = now.Add(s.wiring.Every)
	}
	s.function.runtime.scheduleAfter(s.next.Sub(now), s.fireSchedule)
}

func (s *schedule) fireSchedule() {
	s.planNextRun()
	if f := s.function; !f.runtime.faults.shouldSkipSchedule(f.wiring.Name, s.wiring.Schedule) {
		f.runSchedule(s.wiring.Schedule, 0)
	}
}
