package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/shared/embedded"
	"berth/shared/state"
)

func TestEnvironmentsAreReused(t *testing.T) {
	t.Run("HandleOneInvocationAtATime", func(t *testing.T) {
		var w *world
		slow := true
		w = open(t, template(readsJobs("BatchSize: 1"), jobs), func(o *embedded.RuntimeOptions) {
			o.Execute = func(_ string, run func(context.Context), done func(bool)) {
				if !slow {
					run(context.Background())
					done(false)
					return
				}
				w.loop.After(time.Second, func() { run(context.Background()); done(false) })
			}
		})
		w.worker.Messages = func(context.Context, []state.Message) []string { return nil }
		w.runtime.Start()
		w.send("Jobs", "a", 0)
		w.send("Jobs", "b", 0)
		w.run(5 * time.Second)
		slow = false
		for range 5 {
			w.send("Jobs", "c", 0)
		}
		w.run(5 * time.Second)
		equal(t, "environments", len(w.made), 2)
		if w.made[0] == w.made[1] {
			t.Errorf("two environments are called %s", w.made[0])
		}
	})
	t.Run("DifferAfterARestart", func(t *testing.T) {
		first := open(t, template(readsJobs(""), jobs), nil)
		first.run(time.Nanosecond)
		again, err := embedded.NewRuntime(first.loop,
			must(embedded.LoadTemplate([]byte(template(readsJobs(""), jobs)), nil)), embedded.RuntimeOptions{
				Functions: map[string]func(string) embedded.Function{"worker": func(name string) embedded.Function {
					first.made = append(first.made, name)
					return first.worker
				}},
			})
		if err != nil {
			t.Fatal(err)
		}
		first.worker.Messages = func(context.Context, []state.Message) []string { return nil }
		for _, r := range []*embedded.Runtime{first.runtime, again} {
			r.Start()
			if err := r.Queue("Jobs").Send(t.Context(), []byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			first.run(time.Second)
		}
		if len(first.made) != 2 || first.made[0] == first.made[1] {
			t.Errorf("environments %v, want two that differ", first.made)
		}
	})
	t.Run("FaultChoosesTheEnvironment", func(t *testing.T) {
		choose := []int{-1, 0, 1}
		var idle []int
		w := open(t, template(readsJobs(""), jobs), func(o *embedded.RuntimeOptions) {
			o.Faults.Environment = func(_ string, n int) int {
				idle = append(idle, n)
				c := choose[0]
				choose = choose[1:]
				return c
			}
		})
		w.worker.Messages = func(context.Context, []state.Message) []string { return nil }
		w.runtime.Start()
		for range 4 {
			w.send("Jobs", "a", 0)
			w.run(time.Second)
		}
		equal(t, "idle at each choice, environments made", []any{idle, len(w.made)}, []any{[]int{1, 2, 2}, 2})
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestFailedInvocationsEndTheirEnvironment(t *testing.T) {
	t.Run("TimeOutCancelsTheContext", func(t *testing.T) {
		var w *world
		var seen context.Context
		w = open(t, template(readsJobs(""), jobs), func(o *embedded.RuntimeOptions) {
			o.Execute = func(_ string, run func(context.Context), done func(bool)) {
				finished := make(chan struct{})
				go func() {
					defer close(finished)
					run(context.Background())
				}()
				w.loop.After(15*time.Second, func() {
					<-finished // it would block for ever if the time-out had not cancelled it
					done(false)
				})
			}
		})
		w.worker.Messages = func(ctx context.Context,
			_ []state.Message) []string {
			seen = ctx
			<-ctx.Done()
			return nil
		}
		w.runtime.Start()
		w.send("Jobs", "a", 0)
		w.run(20 * time.Second)
		if c := w.worked(); c.TimeOuts != 1 || c.Errors != 1 || w.queue("Jobs").Deleted != 0 {
			t.Errorf("counters %+v, deleted %d: want one time-out, its result ignored", c, w.queue("Jobs").Deleted)
		}
		if seen == nil || seen.Err() == nil {
			t.Error("the context was not cancelled")
		}
	})
	t.Run("CrashEndsTheEnvironment", func(t *testing.T) {
		crash := true
		w := open(t, template(readsJobs(""), jobs), func(o *embedded.RuntimeOptions) {
			o.Execute = func(_ string, run func(context.Context), done func(bool)) {
				run(context.Background())
				done(crash)
				crash = false
			}
		})
		w.worker.Messages = func(context.Context, []state.Message) []string { return nil }
		w.runtime.Start()
		w.send("Jobs", "a", 0)
		w.run(time.Minute)
		if c := w.worked(); c.Crashes != 1 || c.ColdStarts != 2 || c.Messages["Jobs"] != 2 ||
			w.queue("Jobs").Deleted != 1 {
			t.Errorf("counters %+v: want one crash, and the message again in a new environment", c)
		}
	})
	t.Run("PanicIsLoggedWithItsStack", func(t *testing.T) {
		var log bytes.Buffer
		w := open(t, template(readsJobs(""), jobs), func(o *embedded.RuntimeOptions) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		w.worker.Messages = func(context.Context, []state.Message) []string { panic("out of cheese") }
		w.runtime.Start()
		w.send("Jobs", "a", 0)
		w.run(time.Second)
		if !strings.Contains(log.String(), "out of cheese") || !strings.Contains(log.String(), "function_test.go") {
			t.Errorf("log %q has no message or no stack", log.String())
		}
	})
}

const minutely = `
Tick:
  Type: ScheduleV2
  Properties: {ScheduleExpression: rate(1 minute), Input: '{"schedule": "due"}'}
`

func TestSchedules(t *testing.T) {
	t.Run("TickAtTheirRate", func(t *testing.T) {
		w := open(t, template(minutely+strings.NewReplacer("Tick", "Tock", "1 minute", "2 hours", "due",
			"sweep").Replace(minutely)), nil)
		got := map[string][]string{}
		w.worker.Schedule = func(_ context.Context, name string) error {
			got[name] = append(got[name], w.at().String())
			return nil
		}
		w.runtime.Start()
		w.run(4 * time.Hour)
		equal(t, "sweeps", got["sweep"], []string{"2h0m0s", "4h0m0s"})
		equal(t, "first and number of the others", []any{got["due"][0], len(got["due"])}, []any{"1m0s", 240})
		equal(t, "invocations apart from schedules", w.runtime.Counters().Invocations, 0)
		if err := w.runtime.TickSchedule("worker", "sweep"); err != nil {
			t.Fatal(err)
		}
		w.run(0)
		equal(t, "sweeps", len(got["sweep"]), 3)
	})
	t.Run("FailedTickIsTriedTwiceMore", func(t *testing.T) {
		w := open(t, template(strings.Replace(minutely, "1 minute", "1 hour", 1)), nil)
		var got []string
		w.worker.Schedule = func(context.Context, string) error {
			got = append(got, w.at().String())
			return errors.New("no")
		}
		w.runtime.Start()
		w.run(119 * time.Minute)
		equal(t, "ticks", got, []string{"1h0m0s", "1h1m0s", "1h3m0s"})
	})
	t.Run("FailedTickIsReportedWhenGivenUp", func(t *testing.T) {
		for _, c := range []struct {
			name, config, condition string
			ticks                   int
		}{
			{"AfterItsRetries", "MaximumRetryAttempts: 1", "RetriesExhausted", 2},
			{"AtItsAge", "MaximumEventAgeInSeconds: 100", "EventAgeExceeded", 2},
		} {
			t.Run(c.name, func(t *testing.T) {
				config := "      EventInvokeConfig:\n        " + c.config + `
        DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Jobs.Arn}}
      Events:`
				text := template(strings.Replace(minutely, "1 minute", "1 hour", 1), jobs)
				w := open(t, strings.Replace(text, "      Events:", config, 1), nil)
				ticks := 0
				w.worker.Schedule = func(context.Context, string) error { ticks++; return errors.New("no room") }
				w.runtime.Start()
				w.run(90 * time.Minute)
				equal(t, "attempts", ticks, c.ticks)
				reports := w.runtime.VisibleMessages("Jobs")
				equal(t, "reports", len(reports), 1)
				for _, part := range []string{c.condition, `"schedule":"due"`, "no room",
					`"approximateInvokeCount":2`} {
					if !strings.Contains(string(reports[0].Body), part) {
						t.Errorf("report %s, want %s in it", reports[0].Body, part)
					}
				}
			})
		}
	})
	t.Run("FaultSkipsATick", func(t *testing.T) {
		w := open(t, template(minutely), func(o *embedded.RuntimeOptions) {
			o.Faults.Schedule = func(function, name string) bool { return function+name == "workerdue" }
		})
		w.worker.Schedule = func(context.Context, string) error { t.Error("it ticked"); return nil }
		w.runtime.Start()
		w.run(time.Hour)
	})
	t.Run("EndWithTheRuntime", func(t *testing.T) {
		w := open(t, template(minutely), nil)
		ticks := 0
		w.worker.Schedule = func(context.Context, string) error { ticks++; return errors.New("no") }
		w.runtime.Start()
		w.run(time.Minute)
		w.runtime.Stop()
		w.run(time.Hour)
		equal(t, "ticks", ticks, 1)
		if !w.loop.IsIdle() {
			t.Error("the stopped runtime keeps the loop busy")
		}
	})
	t.Run("CostLittleTime", func(t *testing.T) {
		// 214,000 idle minutes, as many as the longest trace has.
		w := open(t, template(minutely), nil)
		ticks := 0
		w.worker.Schedule = func(context.Context, string) error { ticks++; return nil }
		w.runtime.Start()
		w.run(214_000 * time.Minute)
		equal(t, "ticks", ticks, 214_000)
	})
}

func TestIdleOnlyOnceEverythingIsHandled(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"message": func(w *world) { w.send("Jobs", "a", 0) },
		"record":  func(w *world) { w.stream.put("a") },
		"event":   func(w *world) { _ = w.runtime.PutEvent([]byte(event("my.app", "RUNNING"))) },
	} {
		t.Run(name, func(t *testing.T) {
			stream := strings.Replace(readsTable("MaximumBatchingWindowInSeconds: 1"), "Read", "Stream", 1)
			w := open(t, template(readsJobs("")+stream, jobs, table, rules), nil)
			w.worker.Messages = func(context.Context, []state.Message) []string { return nil }
			w.worker.Records = func(context.Context, []state.Record) (string, error) { return "", nil }
			w.runtime.Start()
			w.run(time.Second)
			if !w.runtime.IsIdle() {
				t.Error("the runtime has nothing to do and is not idle")
			}
			for do(w); !w.runtime.IsIdle(); w.loop.Step() {
				continue
			}
			equal(t, "invocations when idle", w.worked().Invocations, 1)
		})
	}
}

func TestRuntimeRefusesFunctionsItCannotConnect(t *testing.T) {
	handlers := func(names ...string) map[string]func(string) embedded.Function {
		m := map[string]func(string) embedded.Function{}
		for _, n := range names {
			m[n] = func(string) embedded.Function { return embedded.Function{} }
		}
		return m
	}
	reads := must(embedded.LoadTemplate([]byte(template(readsTable(""), table)), nil))
	for want, o := range map[string]embedded.RuntimeOptions{
		`connecting function "worker": it has event sources and no handler`: {Stream: &memoryStream{}},
		`connecting function "worker": there is no stream to read`:          {Functions: handlers("worker")},
		`connecting function "wroker": the template has no function with that folder`: {Functions: handlers("worker",
			"wroker")},
	} {
		if _, err := embedded.NewRuntime(embedded.NewVirtualLoop(epoch), reads, o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestMissingHandlersFail(t *testing.T) {
	w := open(t, template(readsJobs("")+minutely+strings.Replace(readsTable("MaximumRetryAttempts: 0"), "Read",
		"Stream", 1), jobs, table), nil)
	w.runtime.Start()
	w.send("Jobs", "a", 0)
	w.stream.put("a")
	w.run(61 * time.Second)
	if c := w.worked(); c.Errors != c.Invocations || c.Messages["Jobs"] != 3 || c.Records != 1 ||
		c.Schedules["due"] != 1 {
		t.Errorf("counters %+v: want every invocation to fail", c)
	}
}

func BenchmarkIdleMinute(b *testing.B) {
	loop := embedded.NewVirtualLoop(epoch)
	r := must(embedded.NewRuntime(loop, must(embedded.LoadTemplate([]byte(template(minutely)), nil)),
		embedded.RuntimeOptions{
			Functions: map[string]func(string) embedded.Function{"worker": func(string) embedded.Function {
				return embedded.Function{Schedule: func(context.Context, string) error { return nil }}
			}},
		}))
	r.Start()
	for b.Loop() {
		loop.Step()
	}
}
