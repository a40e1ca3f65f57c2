package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

// consume makes the worker note each batch with its time, and answer with f.
func consume(w *world, f func(records []state.Record) (string, error)) *[]string {
	got := &[]string{}
	w.worker.Records = func(_ context.Context, records []state.Record) (string, error) {
		*got = append(*got, w.at().String()+" "+names(records))
		return f(records)
	}
	w.runtime.Start()
	return got
}

func fine([]state.Record) (string, error) { return "", nil }

// failOn fails every batch that has one of the services.
func failOn(bad ...string) func([]state.Record) (string, error) {
	return func(records []state.Record) (string, error) {
		if slices.ContainsFunc(strings.Fields(names(records)), func(n string) bool { return slices.Contains(bad, n) }) {
			return "", errors.New("a bad record")
		}
		return "", nil
	}
}

// retryFrom reports the first record of one of the services as failed.
func retryFrom(bad ...string) func([]state.Record) (string, error) {
	return func(records []state.Record) (string, error) {
		for i, n := range strings.Fields(names(records)) {
			if slices.Contains(bad, n) {
				return records[i].Sequence, nil
			}
		}
		return "", nil
	}
}

const failures = `
Failures:
  Type: AWS::SQS::Queue
`

const onFailure = "DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Failures.Arn}}\n"

// given returns the ranges of sequence numbers that were given up, with the conditions.
func given(t *testing.T, w *world) string {
	var out []string
	for _, m := range w.runtime.VisibleMessages("Failures") {
		var record struct {
			RequestContext     struct{ Condition string }
			DDBStreamBatchInfo struct {
				StartSequenceNumber, EndSequenceNumber string
				BatchSize                              int
			}
		}
		if err := json.Unmarshal(m.Body, &record); err != nil {
			t.Fatal(err)
		}
		b := record.DDBStreamBatchInfo
		out = append(out, fmt.Sprintf("%s %s-%s (%d)", record.RequestContext.Condition,
			strings.TrimLeft(b.StartSequenceNumber, "0"),
			strings.TrimLeft(b.EndSequenceNumber, "0"), b.BatchSize))
	}
	return strings.Join(out, ", ")
}

func TestStreamDeliversBatchesInOrder(t *testing.T) {
	t.Run("AtOnceWithoutWindow", func(t *testing.T) {
		w := open(t, template(readsTable("BatchSize: 2"), table), nil)
		got := consume(w, fine)
		w.stream.put("a", "b", "c")
		w.run(time.Minute)
		equal(t, "deliveries", *got, []string{"0s a b", "0s c"})
	})
	t.Run("WhenFullOrAfterTheWindow", func(t *testing.T) {
		w := open(t, template(readsTable("BatchSize: 3\nMaximumBatchingWindowInSeconds: 5"), table), nil)
		got := consume(w, fine)
		w.stream.put("a", "b", "c", "d")
		w.run(time.Minute)
		equal(t, "deliveries", *got, []string{"0s a b c", "5s d"})
		equal(t, "acknowledged", w.stream.acked["worker"], fmt.Sprintf("%020d", 4))
	})
	t.Run("OneAtATime", func(t *testing.T) {
		var w *world
		w = open(t, template(readsTable("BatchSize: 2\nMaximumBatchingWindowInSeconds: 1"), table),
			func(o *embedded.RuntimeOptions) {
				o.Execute = func(_ string, run func(context.Context), done func(bool)) {
					w.loop.After(3*time.Second, func() { run(context.Background()); done(false) })
				}
			})
		got := consume(w, fine)
		w.stream.put("a", "b", "c", "d", "e")
		w.run(time.Minute)
		equal(t, "ends", *got, []string{"3s a b", "6s c d", "9s e"})
	})
	t.Run("UnacknowledgedRecordsComeFirst", func(t *testing.T) {
		stream := &memoryStream{acked: map[string]string{}}
		stream.pending = []state.Record{stream.record("old")}
		w := open(t, template(readsTable(""), table), func(o *embedded.RuntimeOptions) { o.Stream = stream })
		stream.put("between")
		got := consume(w, fine)
		stream.put("new")
		w.run(time.Minute)
		equal(t, "deliveries", *got, []string{"0s old between", "0s new"})
	})
}

func TestStreamRetriesUntilHandledOrGivenUp(t *testing.T) {
	for _, c := range []struct {
		name, properties string
		answer           func([]state.Record) (string, error)
		want             string // deliveries
		given            string // up
		acked            int
	}{
		{
			"WholeBatchUntilExhausted", "MaximumRetryAttempts: 2", failOn("b"),
			"0s a b c, 200ms a b c, 600ms a b c, 600ms d", "RetryAttemptsExhausted 1-3 (3)", 4,
		},
		{
			"BisectedUntilTheBadOneIsAlone", "MaximumRetryAttempts: 1\nBisectBatchOnFunctionError: true", failOn("b"),
			"0s a b c, 100ms a, 100ms b c, 200ms b, 400ms b, 400ms c, 400ms d", "RetryAttemptsExhausted 2-2 (1)", 4,
		},
		{
			"FromTheRecordNamed", "MaximumRetryAttempts: 1\nFunctionResponseTypes: [ReportBatchItemFailures]",
			retryFrom("b"),
			"0s a b c, 200ms b c, 200ms d", "RetryAttemptsExhausted 2-3 (2)", 4,
		},
		{
			"FromTheRecordNamedBisected",
			"MaximumRetryAttempts: 1\nBisectBatchOnFunctionError: true\nFunctionResponseTypes: [ReportBatchItemFailures]", retryFrom("b"),
			"0s a b c, 100ms b c, 200ms b, 400ms b, 400ms c, 400ms d", "RetryAttemptsExhausted 2-2 (1)", 4,
		},
		{
			"WholeBatchWhenAnUnknownRecordIsNamed",
			"MaximumRetryAttempts: 1\nFunctionResponseTypes: [ReportBatchItemFailures]",
			func(r []state.Record) (string, error) {
				if len(r) > 1 {
					return "nonsense", nil
				}
				return "", nil
			},
			"0s a b c, 200ms a b c, 200ms d", "RetryAttemptsExhausted 1-3 (3)", 4,
		},
		{"NoneWithoutReportBatchItemFailures", "MaximumRetryAttempts: 1", retryFrom("b"), "0s a b c, 0s d", "", 4},
		{
			"UntilTooOld", "MaximumRecordAgeInSeconds: 60\nMaximumRetryAttempts: -1", failOn("b"),
			"0s a b c, 200ms a b c, 600ms a b c, 1.4s a b c, 3s a b c, 6.2s a b c, 12.6s a b c, 22.6s a b c, 32.6s a b c, " +
				"42.6s a b c, 52.6s a b c", "RecordAgeExceeded 1-3 (3), RecordAgeExceeded 4-4 (1)", 4,
		},
		{
			"AfterAPanic", "MaximumRetryAttempts: 0", func(r []state.Record) (string, error) {
				if len(r) > 1 {
					panic("oh")
				}
				return "", nil
			}, "0s a b c, 0s d", "RetryAttemptsExhausted 1-3 (3)", 4,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, template(readsTable("BatchSize: 3\n"+onFailure+c.properties), table, failures), nil)
			got := consume(w, c.answer)
			w.stream.put("a", "b", "c", "d")
			w.run(time.Hour)
			equal(t, "deliveries", strings.Join(*got, ", "), c.want)
			equal(t, "given up", given(t, w), c.given)
			equal(t, "acknowledged", w.stream.acked["worker"], fmt.Sprintf("%020d", c.acked))
			if !w.runtime.IsIdle() {
				t.Error("the runtime is not idle")
			}
		})
	}
}

func TestStreamRetriesDoNotWaitForTheWindow(t *testing.T) {
	w := open(t,
		template(readsTable("BatchSize: 4\nMaximumBatchingWindowInSeconds: 60\nBisectBatchOnFunctionError: true\nMaximumRetryAttempts: 0"), table), nil)
	got := consume(w, failOn("b"))
	w.stream.put("a", "b", "c")
	w.run(time.Hour)
	equal(t, "deliveries", strings.Join(*got, ", "), "1m0s a b c, 1m0.1s a, 1m0.1s b c, 1m0.2s b, 1m0.2s c")
}

func TestStreamAcknowledgesOnlyWhatWasHandled(t *testing.T) {
	w := open(t, template(readsTable("BatchSize: 2\nFunctionResponseTypes: [ReportBatchItemFailures]"), table), nil)
	consume(w, retryFrom("b"))
	w.stream.put("a", "b", "c")
	w.run(time.Minute)
	equal(t, "acknowledged", w.stream.acked["worker"], fmt.Sprintf("%020d", 1))
	w.runtime.Stop()
	before := w.worked().Invocations
	w.run(time.Hour)
	equal(t, "invocations after the stop", w.worked().Invocations, before)
}

func TestStreamFilterSkipsRecords(t *testing.T) {
	filter := `FilterCriteria: {Filters: [{Pattern: '{"dynamodb": {"Keys": {"sk": {"S": [{"suffix": "#a"}]}}}}'}]}`
	t.Run("FilteredRecordsCostNothingAndAreAcknowledged", func(t *testing.T) {
		w := open(t, template(readsTable("BatchSize: 10\n"+filter), table), nil)
		got := consume(w, fine)
		w.stream.put("b", "a", "b", "b", "a", "b")
		w.run(time.Minute)
		equal(t, "deliveries", *got, []string{"0s a a"})
		equal(t, "acknowledged", w.stream.acked["worker"], fmt.Sprintf("%020d", 6))
		equal(t, "invocations", w.worked().Invocations, 1)
	})
	t.Run("FilteredRecordsAloneAreAcknowledgedFromTimeToTime", func(t *testing.T) {
		w := open(t, template(readsTable(filter), table), nil)
		got := consume(w, fine)
		for range 300 {
			w.stream.put("b")
		}
		w.run(time.Minute)
		equal(t, "deliveries", len(*got), 0)
		equal(t, "acknowledged", w.stream.acked["worker"], fmt.Sprintf("%020d", 256))
	})
}

func TestStreamFilterSeesAttributeValues(t *testing.T) {
	row := func(rev int64) *cluster.Task {
		return &cluster.Task{
			Head: cluster.Head{Cluster: "c", Rev: rev},
			TaskSpec: cluster.TaskSpec{
				ID: "t", Owner: "o", Needs: cluster.Resources{CPU: 250},
				Overrides: &cluster.Overrides{CPU: "1"},
			},
			TaskAssignment: cluster.TaskAssignment{GPUs: []int{3}},
			TaskReport:     cluster.TaskReport{Foreign: true},
		}
	}
	r := state.Record{Sequence: "9", Op: state.Modify, Key: state.KeyOf(row(1)), Old: row(1), New: row(2)}
	for pattern, want := range map[string]bool{
		`{"dynamodb": {"NewImage": {"rv": {"N": ["2"]}}}}`:                            true,
		`{"dynamodb": {"NewImage": {"rv": {"N": [2]}}}}`:                              false, // numbers are text there
		`{"dynamodb": {"NewImage": {"rv": {"S": ["2"]}}}}`:                            false,
		`{"dynamodb": {"OldImage": {"rv": {"N": ["1"]}}}}`:                            true,
		`{"dynamodb": {"NewImage": {"fo": {"BOOL": [true]}}}}`:                        true,
		`{"dynamodb": {"NewImage": {"gd": {"L": {"N": ["3"]}}}}}`:                     true,
		`{"dynamodb": {"NewImage": {"n": {"M": {"c": {"N": ["250"]}}}}}}`:             true,
		`{"dynamodb": {"NewImage": {"ov": {"M": {"c": {"S": [{"exists": true}]}}}}}}`: true,
		`{"dynamodb": {"NewImage": {"la": {"S": [{"exists": true}]}}}}`:               false,
		`{"dynamodb": {"NewImage": {"pk": {"S": ["c"]}, "sk": {"S": ["task#o#t"]}}}}`: true,
		`{"dynamodb": {"Keys": {"pk": {"S": ["c"]}, "sk": {"S": ["task#o#t"]}}}}`:     true,
		`{"dynamodb": {"Keys": {"rv": {"N": [{"exists": false}]}}}}`:                  true,
		`{"eventName": ["MODIFY"], "eventSource": ["aws:dynamodb"]}`:                  true,
		`{"dynamodb": {"SequenceNumber": ["9"]}}`:                                     true,
	} {
		s := embedded.StreamSource{Filters: []*embedded.Pattern{must(embedded.ParsePattern(pattern))}}
		if got := s.PassesFilters(&r); got != want {
			t.Errorf("%s: got %v, want %v", pattern, got, want)
		}
	}
	either := embedded.StreamSource{Filters: []*embedded.Pattern{
		must(embedded.ParsePattern(`{"eventName": ["INSERT"]}`)),
		must(embedded.ParsePattern(`{"eventName": ["MODIFY"]}`)),
	}}
	if none := (&embedded.StreamSource{}); !either.PassesFilters(&r) || !none.PassesFilters(&r) {
		t.Error("one filter of two, or none at all, must let it pass")
	}
}

func TestStreamFaultsStallAndRepeat(t *testing.T) {
	w := open(t, template(readsTable("BatchSize: 3"), table), func(o *embedded.RuntimeOptions) {
		stall := []time.Duration{5 * time.Second, 0, 0, 0}
		o.Faults.Split = func(source string, _ int) int {
			equal(t, "source", source, "worker")
			return 2
		}
		o.Faults.Stream = func(string) embedded.StreamFault {
			f := embedded.StreamFault{Stall: stall[0], Again: stall[0] > 0}
			stall = stall[1:]
			return f
		}
	})
	got := consume(w, fine)
	w.stream.put("a", "b", "c")
	w.run(time.Minute)
	equal(t, "deliveries", *got, []string{"5s a b", "5s a b", "5s c"})
}

// TestStreamLosesNothing runs the stream under random failures and faults. Every record must be
// handled at least once or given up with a report, and records of one key must first be handled in
// order.
func TestStreamLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		percent := func(what string) int { return rapid.SampledFrom([]int{0, 20, 60}).Draw(rt, what) }
		failing, crashing, faulty := percent("failing"), percent("crashing"), percent("faulty")
		hit := func(p int) bool { return p > 0 && rapid.IntRange(0, 99).Draw(rt, "hit") < p }
		properties := fmt.Sprintf("BatchSize: 5\nMaximumBatchingWindowInSeconds: 1\nMaximumRetryAttempts: %d\nBisectBatchOnFunctionError: %v\n%s%s",
			rapid.IntRange(-1, 3).Draw(rt, "retries"), rapid.Bool().Draw(rt, "bisect"), onFailure,
			rapid.SampledFrom([]string{"", "FunctionResponseTypes: [ReportBatchItemFailures]"}).Draw(rt, "partial"))
		partial := strings.Contains(properties, "Report")
		healed := false
		var w *world
		w = open(t, template(readsTable(properties), table, failures), func(o *embedded.RuntimeOptions) {
			o.Execute = func(_ string, run func(context.Context), done func(bool)) {
				w.loop.After(time.Duration(rapid.IntRange(0, 12).Draw(rt, "takes"))*time.Second/2, func() {
					crash := !healed && hit(crashing)
					if !crash || hit(50) {
						run(context.Background())
					}
					done(crash)
				})
			}
			o.Faults.Split = func(_ string, n int) int { return rapid.IntRange(1, n).Draw(rt, "split") }
			o.Faults.Stream = func(string) embedded.StreamFault {
				return embedded.StreamFault{Again: hit(faulty),
					Stall: time.Duration(rapid.IntRange(0, 3).Draw(rt, "stall")) * time.Second}
			}
		})
		handled := map[string]bool{} // by sequence
		last := map[state.Key]string{}
		consume(w, func(records []state.Record) (string, error) {
			for _, r := range records {
				if !healed && hit(failing) {
					if partial {
						return r.Sequence, nil
					}
					return "", errors.New("failed")
				}
				if !handled[r.Sequence] && r.Sequence < last[r.Key] {
					rt.Fatalf("record %s of %s came for the first time after %s", r.Sequence, r.Key.Sort, last[r.Key])
				}
				handled[r.Sequence], last[r.Key] = true, r.Sequence
			}
			return "", nil
		})
		for n := range rapid.IntRange(1, 25).Draw(rt, "records") {
			w.loop.After(time.Duration(n)*300*time.Millisecond, func() {
				w.stream.put(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"))
			})
		}
		w.loop.After(10*time.Minute, func() { healed = true })
		w.run(2 * time.Hour)
		noticed := map[string]bool{}
		for _, m := range w.runtime.VisibleMessages("Failures") {
			var record struct {
				DDBStreamBatchInfo struct{ StartSequenceNumber, EndSequenceNumber string }
			}
			if err := json.Unmarshal(m.Body, &record); err != nil {
				rt.Fatal(err)
			}
			for n := range w.stream.n {
				s := fmt.Sprintf("%020d", n+1)
				if b := record.DDBStreamBatchInfo; b.StartSequenceNumber <= s && s <= b.EndSequenceNumber {
					noticed[s] = true
				}
			}
		}
		for n := range w.stream.n {
			if s := fmt.Sprintf("%020d", n+1); !handled[s] && !noticed[s] {
				rt.Fatalf("record %s was neither handled nor given up", s)
			}
		}
		if !w.runtime.IsIdle() || w.stream.acked["worker"] != fmt.Sprintf("%020d", w.stream.n) {
			rt.Fatalf("not everything was acknowledged: %s of %d", w.stream.acked["worker"], w.stream.n)
		}
	})
}

// In real time a batch has all that is committed when it is delivered, also what came after it was
// due. A decision that does not know of a commit loses a race to it.
func TestStreamDeliversWhatIsCommitted(t *testing.T) {
	loop, stream := embedded.NewRealLoop(), &memoryStream{acked: map[string]string{}}
	batches := make(chan string, 10)
	worker := func(string) embedded.Function {
		return embedded.Function{Records: func(_ context.Context, records []state.Record) (string, error) {
			batches <- names(records)
			return "", nil
		}}
	}
	wiring, err := embedded.LoadTemplate([]byte(template(readsTable("BatchSize: 10"), table)), nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := embedded.NewRuntime(loop, wiring, embedded.RuntimeOptions{Stream: stream,
		Functions: map[string]func(string) embedded.Function{"worker": worker}})
	if err != nil {
		t.Fatal(err)
	}
	loop.Post(func() {
		runtime.Start()
		stream.put("a")
		loop.Post(func() { stream.put("b") }) // the batch with a is due by then
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Run(ctx) }()
	defer func() { stop(); <-ended }()
	equal(t, "the first batch", <-batches, "a b")
}
