package embedded

import "time"

// schedule ticks at a fixed rate from the start of the runtime, never catching up on ticks that were missed while
// the machine slept.
type schedule struct {
	function *function
	wiring   *ScheduleSource
	next     time.Time
}

func (s *schedule) start() {
	s.next = s.function.runtime.loop.Now()
	s.plan()
}

func (s *schedule) plan() {
	loop := s.function.runtime.loop
	now := loop.Now()
	s.next = s.next.Add(s.wiring.Every)
	if s.next.Before(now) {
		s.next = now.Add(s.wiring.Every)
	}
	s.function.runtime.later(s.next.Sub(now), s.fire)
}

func (s *schedule) fire() {
	s.plan()
	if f := s.function; !f.runtime.faults.schedule(f.wiring.Name, s.wiring.Schedule) {
		f.tick(s.wiring.Schedule, 0)
	}
}
