package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// world is a runtime in virtual time with one function, "worker", whose handlers a test sets.
type world struct {
	t       *testing.T
	loop    *embedded.Loop
	runtime *embedded.Runtime
	stream  *memoryStream
	worker  embedded.Function
	made    []string // environments
}

// open connects a template whose worker has the given events. edit may change the options.
func open(t *testing.T, resources string, edit func(*embedded.RuntimeOptions)) *world {
	t.Helper()
	w := &world{t: t, loop: embedded.NewVirtualLoop(epoch), stream: &memoryStream{acked: map[string]string{}}}
	wiring, err := embedded.LoadTemplate([]byte(resources), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := embedded.RuntimeOptions{Stream: w.stream, Functions: map[string]func(string) embedded.Function{
		"worker": func(environment string) embedded.Function {
			w.made = append(w.made, environment)
			return w.worker
		},
	}}
	if edit != nil {
		edit(&o)
	}
	if w.runtime, err = embedded.NewRuntime(w.loop, wiring, o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run(d time.Duration) { w.loop.RunUntil(w.loop.Now().Add(d)) }

// at returns the time since the start.
func (w *world) at() time.Duration { return w.loop.Now().Sub(epoch) }

func (w *world) send(queue, body string, delay time.Duration) {
	w.t.Helper()
	if err := w.runtime.Queue(queue).Send(context.Background(), []byte(body), delay); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) worked() embedded.FunctionCounters { return w.runtime.Counters().Functions["worker"] }

func (w *world) queue(name string) embedded.QueueCounters { return w.runtime.Counters().Queues[name] }

// memoryStream is a stream without a store behind it.
type memoryStream struct {
	f       func([]state.Record)
	pending []state.Record
	acked   map[string]string
	n       int
}

func (s *memoryStream) OnRecords(f func([]state.Record))     { s.f = f }
func (s *memoryStream) PendingRecords(string) []state.Record { return s.pending }
func (s *memoryStream) AckRecords(consumer, sequence string) { s.acked[consumer] = sequence }
func (s *memoryStream) ExpireRows(time.Time) int             { return 0 }

// record returns the next record: a change of the service with the name.
func (s *memoryStream) record(name string) state.Record {
	s.n++
	row := &cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: int64(s.n), Stamp: 7},
		ServiceIdentity: cluster.ServiceIdentity{Name: name},
	}
	return state.Record{Sequence: fmt.Sprintf("%020d", s.n), Op: state.Modify, Key: state.KeyOf(row), Old: row,
		New: row}
}

func (s *memoryStream) put(names ...string) {
	for _, name := range names {
		s.f([]state.Record{s.record(name)})
	}
}

// template returns a SAM template with a worker that has the events, and more resources.
func template(events string, more ...string) string {
	text := `
Resources:
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/worker/
      Timeout: 10
      Events:
` + indent(events, 8)
	return text + indent(strings.Join(more, "\n"), 2)
}

func indent(text string, n int) string {
	var out strings.Builder
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			out.WriteString(strings.Repeat(" ", n) + line)
		}
	}
	return out.String()
}

const (
	jobs = `
Jobs:
  Type: AWS::SQS::Queue
  Properties:
    VisibilityTimeout: 30
    RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 3}
Dead:
  Type: AWS::SQS::Queue
`
	table = `
Table:
  Type: AWS::DynamoDB::Table
  Properties:
    StreamSpecification: {StreamViewType: NEW_AND_OLD_IMAGES}
`
)

// readsJobs returns an event that reads the queue Jobs, with more properties.
func readsJobs(properties string) string {
	return `
Read:
  Type: SQS
  Properties:
    Queue: !GetAtt Jobs.Arn
    FunctionResponseTypes: [ReportBatchItemFailures]
` + indent(properties, 4)
}

// readsTable returns an event that reads the table's stream, with more properties.
func readsTable(properties string) string {
	return `
Read:
  Type: DynamoDB
  Properties:
    Stream: !GetAtt Table.StreamArn
    StartingPosition: TRIM_HORIZON
` + indent(properties, 4)
}

func bodies(messages []state.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m.Body))
	}
	return strings.Join(out, " ")
}

func names(records []state.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, r.New.(*cluster.Service).Name)
	}
	return strings.Join(out, " ")
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}
