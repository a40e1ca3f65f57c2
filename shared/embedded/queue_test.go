package embedded_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/embedded"
	"berth/shared/state"
)

func TestQueueDeliversBatches(t *testing.T) {
	type delivery struct{ at, bodies string }
	collect := func(w *world, into *[]delivery) {
		w.worker.Messages = func(_ context.Context, m []state.Message) []string {
			*into = append(*into, delivery{w.at().String(), bodies(m)})
			return nil
		}
		w.runtime.Start()
	}
	t.Run("AtOnceWithoutWindow", func(t *testing.T) {
		w := open(t, template(readsJobs("BatchSize: 3"), jobs), nil)
		var got []delivery
		collect(w, &got)
		for n := range 4 {
			w.send("Jobs", fmt.Sprint(n), 0)
		}
		w.run(time.Minute)
		equal(t, "deliveries", got, []delivery{{"0s", "0 1 2"}, {"0s", "3"}})
	})
	t.Run("WhenFullOrAfterTheWindow", func(t *testing.T) {
		w := open(t, template(readsJobs("BatchSize: 3\nMaximumBatchingWindowInSeconds: 5"), jobs), nil)
		var got []delivery
		collect(w, &got)
		for n := range 7 {
			w.loop.After(time.Duration(n)*time.Second, func() { w.send("Jobs", fmt.Sprint(n), 0) })
		}
		w.run(20 * time.Second)
		w.send("Jobs", "7", 0)
		w.run(time.Minute)
		equal(t, "deliveries", got, []delivery{{"2s", "0 1 2"}, {"5s", "3 4 5"}, {"11s", "6"}, {"25s", "7"}})
	})
	t.Run("UpToThePayloadOfAnInvocation", func(t *testing.T) {
		w := open(t, template(readsJobs("BatchSize: 10"), jobs), nil)
		var got []int
		w.worker.Messages = func(_ context.Context, m []state.Message) []string {
			got = append(got, len(m))
			return nil
		}
		w.runtime.Start()
		for range 8 {
			w.send("Jobs", strings.Repeat("x", 1<<20), 0)
		}
		w.run(time.Minute)
		equal(t, "messages of each invocation", got, []int{6, 2})
	})
	t.Run("AfterTheDelay", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs), nil)
		var got []delivery
		collect(w, &got)
		w.send("Jobs", "late", 900*time.Second)
		w.send("Jobs", "soon", time.Second)
		w.run(time.Second / 2)
		if c := w.queue("Jobs"); c.Delayed != 2 || c.Visible != 0 || !w.runtime.IsIdle() {
			t.Errorf("counters %+v, idle %v; want two delayed, and idle", c, w.runtime.IsIdle())
		}
		w.run(time.Hour)
		equal(t, "deliveries", got, []delivery{{"1s", "soon"}, {"15m0s", "late"}})
	})
	t.Run("NotBeforeTheStart", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs), nil)
		w.send("Jobs", "early", 0)
		w.run(time.Minute)
		var got []delivery
		collect(w, &got)
		w.run(time.Second)
		equal(t, "deliveries", got, []delivery{{"1m0s", "early"}})
	})
}

func TestQueueRefusesInvalidMessages(t *testing.T) {
	w := open(t, template(readsJobs(""), jobs), nil)
	for name, err := range map[string]error{
		"delay 15m1s":       w.runtime.Queue("Jobs").Send(t.Context(), []byte("x"), 901*time.Second),
		"delay -1ns":        w.runtime.Queue("Jobs").Send(t.Context(), []byte("x"), -1),
		"1048577":           w.runtime.Queue("Jobs").Send(t.Context(), make([]byte, 1<<20+1), 0),
		"0 bytes":           w.runtime.Queue("Jobs").Send(t.Context(), nil, 0),
		"has no such queue": w.runtime.Queue("Jbos").Send(t.Context(), []byte("x"), 0),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
	w.run(time.Second)
	equal(t, "messages", w.queue("Jobs").Messages, 0)
}

func TestQueueDeliversAgain(t *testing.T) {
	// deliveries sends two messages, one of which fails, and returns when each was delivered and
	// how often it had been received.
	deliveries := func(t *testing.T, w *world, bad func(good, bad state.Message) []string) string {
		var got []string
		w.worker.Messages = func(_ context.Context, m []state.Message) []string {
			got = append(got, fmt.Sprintf("%s %s #%d", w.at(), bodies(m), m[0].Receives))
			if i := slices.IndexFunc(m, func(m state.Message) bool { return string(m.Body) == "bad" }); i >= 0 {
				return bad(m[0], m[i])
			}
			return nil
		}
		w.runtime.Start()
		w.send("Jobs", "good", 0)
		w.send("Jobs", "bad", 0)
		w.run(time.Hour)
		if !w.runtime.IsIdle() {
			t.Error("the runtime is not idle")
		}
		return strings.Join(got, ", ")
	}
	const partial = "0s good bad #1, 30s bad #2, 1m0s bad #3"
	const whole = "0s good bad #1, 30s good bad #2, 1m0s good bad #3"
	t.Run("NamedMessagesAfterTheVisibilityTimeout", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs), nil)
		equal(t, "deliveries", deliveries(t, w, func(_, bad state.Message) []string { return []string{bad.ID} }),
			partial)
		dead := w.runtime.VisibleMessages("Dead")
		if len(dead) != 1 || string(dead[0].Body) != "bad" || dead[0].Receives != 3 {
			t.Errorf("dead letters %v, want the bad one after 3 receives", dead)
		}
		if got := w.runtime.DeadLetters(); len(got) != 1 || got[0].Queue != "Dead" || got[0].Messages != 1 ||
			got[0].Since.Sub(w.loop.Now()) != 90*time.Second-time.Hour {
			t.Errorf("dead letters %+v, want one since it was given up, after 90 s", got)
		}
		if c := w.queue("Jobs"); c.Deleted != 1 || c.DeadLettered != 1 || c.InFlight != 0 || c.Visible != 0 {
			t.Errorf("counters %+v", c)
		}
	})
	t.Run("AllMessagesAfterAPanic", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs), nil)
		equal(t, "deliveries", deliveries(t, w, func(_, _ state.Message) []string { panic("oh") }), whole)
		if c := w.worked(); c.Panics != 3 || c.Errors != 3 || c.ColdStarts != 3 {
			t.Errorf("counters %+v: want 3 panics, each ending its environment", c)
		}
	})
	t.Run("AllMessagesIfAnUnknownOneIsNamed", func(t *testing.T) {
		w := open(t, template(readsJobs(""), jobs), nil)
		equal(t, "deliveries", deliveries(t, w, func(_, _ state.Message) []string { return []string{"nobody"} }), whole)
	})
	t.Run("NoneWithoutReportBatchItemFailures", func(t *testing.T) {
		w := open(t, strings.Replace(template(readsJobs(""), jobs), "[ReportBatchItemFailures]", "[]", 1), nil)
		equal(t, "deliveries", deliveries(t, w, func(_, bad state.Message) []string { return []string{bad.ID} }),
			"0s good bad #1")
	})
	t.Run("WhileASlowInvocationStillRuns", func(t *testing.T) {
		// The first invocation ends after the visibility time-out, so its deletion has no effect.
		first := true
		var w *world
		w = open(t, strings.Replace(template(readsJobs(""), jobs), "Timeout: 10", "Timeout: 30", 1),
			func(o *embedded.RuntimeOptions) {
				o.Execute = func(_ string, run func(context.Context), done func(bool)) {
					wait := time.Duration(0)
					if first {
						first, wait = false, 35*time.Second
					}
					w.loop.After(wait, func() { run(context.Background()); done(false) })
				}
			})
		got := deliveries(t, w, func(_, _ state.Message) []string { return nil })
		equal(t, "deliveries", got, "30s good bad #2, 35s good bad #1")
		if c := w.worked(); c.TimeOuts != 1 || w.queue("Jobs").Deleted != 2 {
			t.Errorf("time-outs %d, deleted %d; want the late result ignored", c.TimeOuts, w.queue("Jobs").Deleted)
		}
	})
}

func TestQueueBoundsItsConcurrency(t *testing.T) {
	running, most, ran := 0, 0, 0
	var w *world
	w = open(t, template(readsJobs("BatchSize: 1\nScalingConfig: {MaximumConcurrency: 2}"), jobs),
		func(o *embedded.RuntimeOptions) {
			o.Execute = func(_ string, run func(context.Context), done func(bool)) {
				running++
				most = max(most, running)
				w.loop.After(3*time.Second, func() {
					run(context.Background())
					running--
					done(false)
				})
			}
		})
	w.worker.Messages = func(context.Context, []state.Message) []string { ran++; return nil }
	w.runtime.Start()
	for n := range 6 {
		w.send("Jobs", fmt.Sprint(n), 0)
	}
	w.run(9 * time.Second)
	equal(t, "at once, in all, environments", []int{most, ran, len(w.made)}, []int{2, 6, 2})
}

func TestQueueRequestsAreBilled(t *testing.T) {
	w := open(t, template(readsJobs("BatchSize: 100\nMaximumBatchingWindowInSeconds: 1"), jobs), nil)
	w.worker.Messages = func(context.Context, []state.Message) []string { return nil }
	w.runtime.Start()
	for range 25 {
		w.send("Jobs", "x", 0)
	}
	w.run(2 * time.Second)
	if c := w.queue("Jobs"); c.Sends != 25 || c.Receives != 3 || c.Deletes != 3 || c.BilledRequests() != 31 {
		t.Errorf("25 small messages: %+v, want 25 sends, 3 receives, 3 deletes", c)
	}
	w.send("Jobs", strings.Repeat("x", 65<<10), 0)
	w.run(2 * time.Second)
	if c := w.queue("Jobs"); c.Sends != 27 || c.Receives != 5 || c.Deletes != 4 {
		t.Errorf("and one of 65 KiB: %+v, want 2 sends, 2 receives, 1 delete more", c)
	}
}

// TestQueueLosesNothing runs a queue under random failures and faults. Every message must be
// handled or become a dead letter.
func TestQueueLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hit := func(percent int, what string) bool { return rapid.IntRange(0, 99).Draw(rt, what) < percent }
		var w *world
		w = open(t, template(readsJobs("BatchSize: 4\nMaximumBatchingWindowInSeconds: 1"), jobs),
			func(o *embedded.RuntimeOptions) {
				o.Execute = func(_ string, run func(context.Context), done func(bool)) {
					w.loop.After(time.Duration(rapid.IntRange(0, 40).Draw(rt, "takes"))*time.Second, func() {
						crash := hit(10, "crash")
						if !crash {
							run(context.Background())
						}
						done(crash)
					})
				}
				o.Faults = embedded.Faults{
					Send: func(string) embedded.SendFault {
						return embedded.SendFault{Copies: rapid.IntRange(0, 1).Draw(rt, "copies")}
					},
					Shuffle:   func(_ string, n int, swap func(i, j int)) { swap(0, n-1) },
					Split:     func(_ string, n int) int { return rapid.IntRange(1, n).Draw(rt, "split") },
					Redeliver: func(string) bool { return hit(20, "redeliver") },
				}
			})
		handled := map[string]int{}
		w.worker.Messages = func(_ context.Context, messages []state.Message) (retry []string) {
			for _, m := range messages {
				if hit(30, "fail") {
					retry = append(retry, m.ID)
				} else {
					handled[string(m.Body)]++
				}
			}
			return retry
		}
		w.runtime.Start()
		sent := rapid.IntRange(1, 12).Draw(rt, "sent")
		for n := range sent {
			w.loop.After(time.Duration(n)*time.Second, func() { w.send("Jobs", fmt.Sprint(n), 0) })
		}
		w.run(time.Hour)
		dead := bodies(w.runtime.VisibleMessages("Dead"))
		for n := range sent {
			if handled[fmt.Sprint(n)] == 0 && !slices.Contains(strings.Fields(dead), fmt.Sprint(n)) {
				rt.Fatalf("message %d was neither handled nor is it a dead letter (%s)", n, dead)
			}
		}
		if c := w.queue("Jobs"); !w.runtime.IsIdle() || c.Visible+c.InFlight+c.Delayed != 0 {
			rt.Fatalf("the queue has not drained: %+v", c)
		}
	})
}
