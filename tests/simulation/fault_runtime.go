package simulation

import (
	"context"
	"log/slog"
	"time"

	"berth/shared/embedded"
	"berth/shared/sim/ecs"
	"berth/shared/sim/kernel"
	"berth/tests/simulation/coverage"
)

// messageFaults returns the faults of queues, streams, events and schedules.
func (w *World) messageFaults() embedded.Faults {
	c := w.faults
	return embedded.Faults{
		Send: w.drawSendFault,
		Shuffle: func(_ string, n int, swap func(i, j int)) {
			if n > 1 && c.strikes(ReorderMessages) {
				c.random[ReorderMessages].Shuffle(n, swap)
			}
		},
		Split: func(_ string, n int) int {
			if n > 1 && c.strikes(SplitBatch) {
				return 1 + c.drawBelow(SplitBatch, n)
			}
			return n
		},
		Redeliver: func(string) bool { return c.strikes(LoseAcknowledgement) },
		Stream: func(string) embedded.StreamFault {
			var f embedded.StreamFault
			if c.strikes(StallStream) {
				f.Stall = c.drawUpTo(StallStream, 60)
			}
			f.Again = c.strikes(DuplicateStreamBatch)
			return f
		},
		Event: func([]byte) bool { return w.LoseEvents || c.strikes(DropEvent) },
		Schedule: func(function, _ string) bool {
			return c.strikes(SkipSchedule) || w.PlantedBug == NoUpgradeNet && function == upgrader ||
				w.PlantedBug == NoDueNet && function == "dispatch"
		},
		Environment: w.pickEnvironment,
	}
}

func (w *World) drawSendFault(string) embedded.SendFault {
	c := w.faults
	f := embedded.SendFault{Drop: c.strikes(DropMessage) || w.LoseEvents}
	if c.strikes(DuplicateMessage) {
		f.Copies = 1 + c.drawBelow(DuplicateMessage, 2)
	}
	if c.strikes(DelayMessage) {
		f.Delay = c.drawUpTo(DelayMessage, 150)
	}
	return f
}

// pickEnvironment chooses one of the n idle environments, or -1 for a new one. Without the fault it
// is the one used last.
func (w *World) pickEnvironment(_ string, n int) int {
	if n == 0 || !w.faults.strikes(OtherEnvironment) {
		return n - 1
	}
	i := w.faults.drawBelow(OtherEnvironment, n+1) - 1
	switch {
	case i < 0:
		w.cover(coverage.Cold)
	case i < n-1:
		w.cover(coverage.StaleWarm)
	}
	return i
}

// runInvocation runs one invocation of a function as a process, unless its concurrency is zero.
func (w *World) runInvocation(name string, run func(ctx context.Context), done func(crashed bool)) {
	if w.functionsDown || w.isInOutage(name, false) {
		done(true)
		return
	}
	w.spawn(name, functionProcess, run, func(crashed bool) {
		if crashed && (name == "task-state-change" || name == "dispatch") {
			w.checker.DelayAnnouncements()
		}
		done(crashed)
	})
}

// callFaults returns the faults of calls of ECS.
func (w *World) callFaults() kernel.CallFaults {
	f := kernel.CallFaults{Call: w.drawCallFault}
	if w.faults.isEnabled(ListLate) {
		f.ListLate = 20 * time.Second
	}
	return f
}

func (w *World) drawCallFault(operation, _ string) kernel.CallFault {
	c := w.faults
	switch {
	case w.current == nil: // the simulation itself asks
		return kernel.CallFault{}
	case c.strikes(ECSThrottle):
		return kernel.CallFault{Throttled: true}
	case operation != "StartTask" && operation != "StopTask":
		return kernel.CallFault{}
	case c.strikes(ECSAmbiguous):
		applied := c.drawBelow(ECSAmbiguous, 2) == 0
		if operation == "StartTask" {
			w.cover(map[bool]coverage.Point{true: coverage.StartApplied, false: coverage.StartLost}[applied])
		}
		return kernel.CallFault{Ambiguous: true, Applied: applied}
	case c.strikes(ECSLate):
		if operation == "StartTask" {
			w.cover(coverage.StartLate)
		}
		return kernel.CallFault{Ambiguous: true, Applied: true, Late: c.drawUpTo(ECSLate, 100)}
	}
	return kernel.CallFault{}
}

// taskBehaviour decides how a task lives: most live well.
func (w *World) taskBehaviour(i ecs.StartInfo) ecs.Behaviour {
	w.started[i.StartedBy+" "+i.Instance] = true
	var b ecs.Behaviour
	c := w.faults
	if c.strikes(SlowStart) {
		b.Latency = 20*time.Second + c.drawUpTo(SlowStart, 60)
	}
	if c.strikes(FailStart) {
		b.FailStart = "CannotPullContainerError: no such image"
	}
	if c.strikes(CrashLoop) {
		b.RunFor, b.ExitCode = time.Second+c.drawUpTo(CrashLoop, 120), c.drawBelow(CrashLoop, 2)
	}
	if c.strikes(FlappingHealth) {
		b.UnhealthyAfter, b.Flap = c.drawUpTo(FlappingHealth, 60), 30*time.Second
	}
	if b.IgnoreStop = c.strikes(IgnoreStop); b.IgnoreStop {
		w.ignoringStop[i.TaskID] = true
	}
	if w.faults.active && w.Loop.Now().Before(w.imagesMissingUntil) {
		b.FailStart = "CannotPullContainerError: the registry does not answer"
		w.cover(coverage.ImageGone)
	}
	w.applyFamilyOutcome(i, &b)
	return b
}

// logHandler writes what the handlers and the runtime log into the run's log.
type logHandler struct {
	world *World
	attrs []slog.Attr
}

// Enabled accepts every record.
func (l logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle logs the record and covers what it shows to have happened.
func (l logHandler) Handle(_ context.Context, r slog.Record) error {
	text := ""
	show := func(a slog.Attr) bool {
		switch {
		case a.Key == "message" && r.Level >= slog.LevelError:
			l.world.cover(coverage.Partial)
		case a.Key == "panic":
			l.world.checker.Fail("a handler panicked: %v", a.Value)
		}
		text += " " + a.String()
		return true
	}
	for _, a := range l.attrs {
		show(a)
	}
	r.Attrs(show)
	l.world.logf("%s: %s%s", r.Level, r.Message, text)
	return nil
}

// WithAttrs adds attributes to each record.
func (l logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{l.world, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

// WithGroup is not used.
func (l logHandler) WithGroup(string) slog.Handler { return l }
