package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

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
		f.runSchedule(tick{name: s.wiring.Schedule, at: f.runtime.loop.Now()})
	}
}

// A tick is one asynchronous invocation for a schedule. failures counts the attempts so far.
type tick struct {
	name     string
	at       time.Time
	failures int
}

// runSchedule invokes the function for a schedule. If that fails, it does so again after one
// minute, and after two more, as Lambda does with asynchronous invocations (Lambda, error handling
// for asynchronous invocation).
func (f *function) runSchedule(t tick) {
	f.count.Schedules[t.name]++
	call := func(ctx context.Context, fn Function) error {
		if fn.Schedule == nil {
			return errors.New("the function handles no schedule")
		}
		return fn.Schedule(ctx, t.name)
	}
	f.startInvocation(call, func(err error) {
		if err == nil {
			return
		}
		t.failures++
		wait, async := time.Duration(t.failures)*time.Minute, f.wiring.Async
		switch now := f.runtime.loop.Now(); {
		case t.failures > async.Retries:
			f.reportFailedTick(t, "RetriesExhausted", err)
		case now.Add(wait).Sub(t.at) > async.MaxAge:
			f.reportFailedTick(t, "EventAgeExceeded", err)
		default:
			f.runtime.scheduleAfter(wait, func() { f.runSchedule(t) })
		}
	})
}

// asyncFailure is what Lambda sends to the on-failure destination of an asynchronous invocation
// (Lambda, capturing records of asynchronous invocations).
type asyncFailure struct {
	Version         string            `json:"version"`
	Timestamp       time.Time         `json:"timestamp"`
	RequestContext  failureRequest    `json:"requestContext"`
	RequestPayload  map[string]string `json:"requestPayload"`
	Response        failureResponse   `json:"responseContext"`
	ResponsePayload map[string]string `json:"responsePayload"`
}

// reportFailedTick tells the on-failure queue, if there is one, of a tick that is given up.
func (f *function) reportFailedTick(t tick, condition string, err error) {
	q := f.runtime.queues[f.wiring.Async.OnFailure]
	if q == nil {
		return
	}
	body, marshalErr := json.Marshal(asyncFailure{
		Version: "1.0", Timestamp: f.runtime.loop.Now(),
		RequestContext: failureRequest{
			RequestID:   f.wiring.Name + "-" + t.name + "-" + t.at.UTC().Format(time.RFC3339),
			FunctionARN: localARN("lambda", "function:"+f.wiring.LogicalID),
			Condition:   condition, InvokeCount: t.failures,
		},
		RequestPayload:  map[string]string{"schedule": t.name},
		Response:        failureResponse{StatusCode: 200, ExecutedVersion: "$LATEST", FunctionError: "Unhandled"},
		ResponsePayload: map[string]string{"errorMessage": err.Error()},
	})
	if marshalErr == nil {
		q.count.Sends++
		q.sendMessage(body, 0)
	}
}
