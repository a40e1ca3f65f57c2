package simulation

import (
	"context"
	"log/slog"
	"time"

	"berth/shared/embedded"
	"berth/shared/sim/ecs"
	"berth/shared/sim/kernel"
)

// messageFaults are what may befall queues, streams, events and schedules.
func (w *World) messageFaults() embedded.Faults {
	c := w.chaos
	return embedded.Faults{
		Send: w.sendFault,
		Shuffle: func(_ string, n int, swap func(i, j int)) {
			if n > 1 && c.hit(Reorder) {
				c.random[Reorder].Shuffle(n, swap)
			}
		},
		Split: func(_ string, n int) int {
			if n > 1 && c.hit(Split) {
				return 1 + c.below(Split, n)
			}
			return n
		},
		Redeliver: func(string) bool { return c.hit(Redeliver) },
		Stream: func(string) embedded.StreamFault {
			var f embedded.StreamFault
			if c.hit(StreamStall) {
				f.Stall = c.upTo(StreamStall, 60)
			}
			f.Again = c.hit(StreamDuplicate)
			return f
		},
		Event:       func([]byte) bool { return w.LoseEvents || c.hit(EventDrop) },
		Schedule:    func(string, string) bool { return c.hit(SkipSchedule) },
		Environment: w.environment,
	}
}

func (w *World) sendFault(string) embedded.SendFault {
	c := w.chaos
	f := embedded.SendFault{Drop: c.hit(Drop) || w.LoseEvents}
	if c.hit(Duplicate) {
		f.Copies = 1 + c.below(Duplicate, 2)
	}
	if c.hit(Delay) {
		f.Delay = c.upTo(Delay, 150)
	}
	return f
}

// environment is any of the n idle ones, or -1 for a new one, instead of the one used last.
func (w *World) environment(_ string, n int) int {
	if n == 0 || !w.chaos.hit(Environments) {
		return n - 1
	}
	i := w.chaos.below(Environments, n+1) - 1
	switch {
	case i < 0:
		w.mark(MarkCold)
	case i < n-1:
		w.mark(MarkStaleWarm)
	}
	return i
}

// execute runs one invocation of a function as a process, unless its concurrency is zero.
func (w *World) execute(name string, run func(ctx context.Context), done func(crashed bool)) {
	if w.off || w.refuses(name, false) {
		done(true)
		return
	}
	w.spawn(name, function, run, done)
}

// callFaults are what may befall calls of ECS.
func (w *World) callFaults() kernel.CallFaults {
	f := kernel.CallFaults{Call: w.callFault}
	if w.chaos.on(ListLate) {
		f.ListLate = 20 * time.Second
	}
	return f
}

func (w *World) callFault(operation, _ string) kernel.CallFault {
	c := w.chaos
	switch {
	case w.running == nil: // the simulator itself is looking
		return kernel.CallFault{}
	case c.hit(ECSThrottle):
		return kernel.CallFault{Throttled: true}
	case operation != "StartTask" && operation != "StopTask":
		return kernel.CallFault{}
	case c.hit(StartAmbiguous):
		applied := c.below(StartAmbiguous, 2) == 0
		if operation == "StartTask" {
			w.mark(map[bool]Mark{true: MarkStartApplied, false: MarkStartLost}[applied])
		}
		return kernel.CallFault{Ambiguous: true, Applied: applied}
	case c.hit(StartLate):
		if operation == "StartTask" {
			w.mark(MarkStartLate)
		}
		return kernel.CallFault{Ambiguous: true, Applied: true, Late: c.upTo(StartLate, 100)}
	}
	return kernel.CallFault{}
}

// behaviour is how tasks live: most well, some not.
func (w *World) behaviour(i ecs.StartInfo) ecs.Behaviour {
	var b ecs.Behaviour
	c := w.chaos
	if c.hit(SlowStart) {
		b.Latency = 20*time.Second + c.upTo(SlowStart, 60)
	}
	if c.hit(FailStart) {
		b.FailStart = "CannotPullContainerError: no such image"
	}
	if c.hit(CrashLoop) {
		b.RunFor, b.ExitCode = time.Second+c.upTo(CrashLoop, 120), c.below(CrashLoop, 2)
	}
	if c.hit(FlapHealth) {
		b.UnhealthyAfter, b.Flap = c.upTo(FlapHealth, 60), 30*time.Second
	}
	if b.IgnoreStop = c.hit(IgnoreStop); b.IgnoreStop {
		w.stubborn[i.TaskID] = true
	}
	if w.chaos.active && w.Loop.Now().Before(w.noImage) {
		b.FailStart = "CannotPullContainerError: the registry does not answer"
		w.mark(MarkImageGone)
	}
	w.fated(i, &b)
	return b
}

// logbook takes down what the handlers and the runtime log.
type logbook struct {
	world *World
	attrs []slog.Attr
}

// Enabled takes everything down.
func (l logbook) Enabled(context.Context, slog.Level) bool { return true }

// Handle notes the record, and what it shows to have happened.
func (l logbook) Handle(_ context.Context, r slog.Record) error {
	text := ""
	show := func(a slog.Attr) bool {
		switch {
		case a.Key == "message" && r.Level >= slog.LevelError:
			l.world.mark(MarkPartial)
		case a.Key == "panic":
			l.world.checker.fail("a handler panicked: %v", a.Value)
		}
		text += " " + a.String()
		return true
	}
	for _, a := range l.attrs {
		show(a)
	}
	r.Attrs(show)
	l.world.note("%s: %s%s", r.Level, r.Message, text)
	return nil
}

// WithAttrs adds to what each record has.
func (l logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logbook{l.world, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

// WithGroup is not used.
func (l logbook) WithGroup(string) slog.Handler { return l }
