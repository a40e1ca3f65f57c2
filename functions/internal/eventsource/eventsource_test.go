package eventsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/functions/internal/eventsource"
	"berth/shared/cluster"
	"berth/shared/state"
)

func invoke(t *testing.T, f *eventsource.Function, event string) (string, error) {
	t.Helper()
	out, err := f.Invoke(context.Background(), json.RawMessage(event))
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

const sqsBatch = `{"Records":[
 {"messageId":"m-1","receiptHandle":"r","body":"{\"a\":1}","attributes":{"ApproximateReceiveCount":"3"},"eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:us-east-1:1:q","awsRegion":"us-east-1"},
 {"messageId":"m-2","receiptHandle":"r","body":"two","attributes":{"ApproximateReceiveCount":"1"},"eventSource":"aws:sqs"}]}`

func TestQueue(t *testing.T) {
	var got []state.Message
	var retry []string
	f := &eventsource.Function{Messages: func(_ context.Context, m []state.Message) []string {
		got = m
		return retry
	}}
	t.Run("AcknowledgesAll", func(t *testing.T) {
		out, err := invoke(t, f, sqsBatch)
		if err != nil || out != `{"batchItemFailures":[]}` {
			t.Errorf("Invoke = %s, %v", out, err)
		}
		want := []state.Message{{ID: "m-1", Body: []byte(`{"a":1}`), Receives: 3},
			{ID: "m-2", Body: []byte("two"), Receives: 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
	t.Run("ReportsThoseToDeliverAgain", func(t *testing.T) {
		retry = []string{"m-2"}
		if out, err := invoke(t, f, sqsBatch); err != nil || out != `{"batchItemFailures":[{"itemIdentifier":"m-2"}]}` {
			t.Errorf("Invoke = %s, %v", out, err)
		}
	})
}

func TestBareEvent(t *testing.T) {
	var got []state.Message
	var retry []string
	f := &eventsource.Function{Messages: func(_ context.Context, m []state.Message) []string {
		got = m
		return retry
	}}
	const event = `{"detail-type":"ECS Task State Change","source":"aws.ecs","detail":{}}`
	if out, err := invoke(t, f, event); err != nil || out != "null" {
		t.Errorf("Invoke = %s, %v", out, err)
	}
	if len(got) != 1 || string(got[0].Body) != event || got[0].Receives != 1 {
		t.Errorf("messages %+v", got)
	}
	retry = []string{got[0].ID}
	if _, err := invoke(t, f, event); err == nil {
		t.Error("an event that was not handled is no error: nobody would try again")
	}
}

const streamBatch = `{"Records":[
 {"eventID":"1","eventName":"INSERT","eventSource":"aws:dynamodb","dynamodb":{"SequenceNumber":"100","StreamViewType":"NEW_AND_OLD_IMAGES","ApproximateCreationDateTime":1763719200,
  "Keys":{"pk":{"S":"prod"},"sk":{"S":"meta"}},"NewImage":{"pk":{"S":"prod"},"sk":{"S":"meta"},"rv":{"N":"1"},"v":{"N":"7"},"ca":{"S":"2026-11-21T10:00:00Z"},"sh":{"S":"x"}}}},
 {"eventID":"2","eventName":"INSERT","eventSource":"aws:dynamodb","dynamodb":{"SequenceNumber":"101","NewImage":{"pk":{"S":"prod"},"sk":{"S":"future#1"}}}},
 {"eventID":"3","eventName":"REMOVE","eventSource":"aws:dynamodb","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},
  "dynamodb":{"SequenceNumber":"102","OldImage":{"pk":{"S":"prod"},"sk":{"S":"instance#i"},"rv":{"N":"4"},"id":{"S":"i"}}}}]}`

func TestStream(t *testing.T) {
	var got []state.Record
	var retry string
	var fail error
	var log bytes.Buffer
	f := &eventsource.Function{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Records: func(_ context.Context, r []state.Record) (string, error) {
			got = r
			return retry, fail
		},
	}
	t.Run("PassesRowsAndDropsUnknownKinds", func(t *testing.T) {
		out, err := invoke(t, f, streamBatch)
		if err != nil || out != `{"batchItemFailures":[]}` {
			t.Errorf("Invoke = %s, %v", out, err)
		}
		var sequences []string
		for _, r := range got {
			sequences = append(sequences, fmt.Sprint(r.Sequence, " ", r.Op, " ", r.Key.Sort))
		}
		if diff := cmp.Diff([]string{"100 INSERT meta", "102 REMOVE instance#i"}, sequences); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if m, ok := got[0].New.(*state.Meta); !ok || m.Version != 7 {
			t.Errorf("row = %+v", got[0].New)
		}
		if !strings.Contains(log.String(), "stream record 2") {
			t.Errorf("the drop was not logged: %s", log.String())
		}
	})
	t.Run("ReportsTheFirstToDeliverAgain", func(t *testing.T) {
		retry = "102"
		if out, err := invoke(t, f, streamBatch); err != nil ||
			out != `{"batchItemFailures":[{"itemIdentifier":"102"}]}` {
			t.Errorf("Invoke = %s, %v", out, err)
		}
	})
	t.Run("FailsTheWholeBatch", func(t *testing.T) {
		fail = errors.New("boom")
		if _, err := invoke(t, f, streamBatch); !errors.Is(err, fail) {
			t.Errorf("Invoke = %v, want %v", err, fail)
		}
	})
}

func TestSchedule(t *testing.T) {
	var got string
	var fail error
	f := &eventsource.Function{Schedule: func(_ context.Context, name string) error {
		got = name
		return fail
	}}
	if _, err := invoke(t, f, `{"schedule":"due"}`); err != nil || got != "due" {
		t.Errorf("schedule %q, %v", got, err)
	}
	fail = &cluster.Drop{Reason: "unknown"}
	if _, err := invoke(t, f, `{"schedule":"due"}`); err != nil {
		t.Errorf("Invoke = %v, want a drop to count as done", err)
	}
	fail = errors.New("boom")
	if _, err := invoke(t, f, `{"schedule":"due"}`); !errors.Is(err, fail) {
		t.Errorf("Invoke = %v, want %v", err, fail)
	}
}

func TestSourcesWithoutHandler(t *testing.T) {
	f := &eventsource.Function{}
	for _, event := range []string{sqsBatch, streamBatch, `{"schedule":"due"}`, `{"requestContext":{"http":{}}}`, `{}`,
		`{"Records":[]}`, `[`} {
		if out, err := invoke(t, f, event); err == nil {
			t.Errorf("Invoke(%.40s) = %s, want an error", event, out)
		}
	}
}

const urlRequest = `{"version":"2.0","rawPath":"/","rawQueryString":"a=b","cookies":["x=1","y=2"],
 "headers":{"x-amz-target":"AmazonEC2ContainerServiceV20141113.ListTasks","content-type":"application/x-amz-json-1.1"},
 "requestContext":{"domainName":"id.lambda-url.us-east-1.on.aws","authorizer":{"iam":{"userArn":"arn:aws:iam::123456789012:user/ann"}},
 "http":{"method":"POST","path":"/","sourceIp":"192.0.2.1"}},"body":"eyJjbHVzdGVyIjoiYyJ9","isBase64Encoded":true}`

type principalKey struct{}

func TestURL(t *testing.T) {
	var got string
	answer := func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	f := &eventsource.Function{
		WithPrincipal: func(ctx context.Context, arn string) context.Context {
			return context.WithValue(ctx, principalKey{}, arn)
		},
		URL: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = fmt.Sprint(r.Method, " ", r.Host, r.RequestURI, " ", r.Header.Get("X-Amz-Target"), " ", string(body),
				" ",
				r.Context().Value(principalKey{}), " ", r.RemoteAddr, " ", r.ContentLength, " ", r.Header.Get("Cookie"))
			answer(w)
		}),
	}
	t.Run("PassesTheRequest", func(t *testing.T) {
		out, err := invoke(t, f, urlRequest)
		want := `POST id.lambda-url.us-east-1.on.aws/?a=b AmazonEC2ContainerServiceV20141113.ListTasks {"cluster":"c"} arn:aws:iam::123456789012:user/ann 192.0.2.1 15 x=1; y=2`
		if err != nil || got != want {
			t.Errorf("request\n%s\n%s %v", got, want, err)
		}
		if !strings.Contains(out, `"statusCode":204`) {
			t.Errorf("answer = %s", out)
		}
	})
	t.Run("KeepsThePathEncoded", func(t *testing.T) {
		encoded := strings.Replace(urlRequest, `"rawPath":"/"`, `"rawPath":"/tags/arn%3Aaws%3Aeks%2Fprod"`, 1)
		out, err := invoke(t, f, encoded)
		if err != nil || !strings.Contains(got, "on.aws/tags/arn%3Aaws%3Aeks%2Fprod?a=b ") {
			t.Errorf("request %s, answer %s %v", got, out, err)
		}
		out, err = invoke(t, f, strings.Replace(urlRequest, `"rawPath":"/"`, `"rawPath":"/%zz"`, 1))
		if err != nil || !strings.Contains(out, `"statusCode":400`) {
			t.Errorf("a path that cannot be decoded: answer %s %v", out, err)
		}
	})
	t.Run("RefusesWhatIAMHasNotAuthorized", func(t *testing.T) {
		forged := strings.Replace(urlRequest, `"authorizer":{"iam":{"userArn":"arn:aws:iam::123456789012:user/ann"}},`,
			"", 1)
		got = ""
		out, err := invoke(t, f, forged)
		if err != nil || got != "" || !strings.Contains(out, `"statusCode":403`) ||
			!strings.Contains(out, "AccessDeniedException") {
			t.Errorf("the handler got %q, the answer is %s, %v", got, out, err)
		}
		lenient := *f
		lenient.UnverifiedCaller = "emulator"
		if out, err = invoke(t, &lenient, forged); err != nil || !strings.Contains(got, " emulator ") {
			t.Errorf("with a stand-in the handler got %q, the answer is %s, %v", got, out, err)
		}
		if _, err = invoke(t, &lenient, urlRequest); err != nil ||
			!strings.Contains(got, " arn:aws:iam::123456789012:user/ann ") {
			t.Errorf("with a stand-in and an authorizer the handler got %q, %v", got, err)
		}
	})
	t.Run("AnswersText", func(t *testing.T) {
		answer = func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"X"}`)
		}
		want := `{"statusCode":400,"headers":{"Content-Type":"application/x-amz-json-1.1"},"body":"{\"__type\":\"X\"}","isBase64Encoded":false,"cookies":null}`
		if out, err := invoke(t, f, urlRequest); err != nil || out != want {
			t.Errorf("Invoke = %s, %v", out, err)
		}
	})
	t.Run("AnswersBytes", func(t *testing.T) {
		answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte{0xff, 0x00}) }
		if out, _ := invoke(t, f, urlRequest); !strings.Contains(out, `"body":"/wA=","isBase64Encoded":true`) ||
			!strings.Contains(out, `"statusCode":200`) {
			t.Errorf("Invoke = %s", out)
		}
	})
	t.Run("RefusesABrokenBody", func(t *testing.T) {
		out, err := invoke(t, f, strings.Replace(urlRequest, "eyJj", "****", 1))
		if err != nil || !strings.Contains(out, `"statusCode":400`) {
			t.Errorf("Invoke = %s, %v", out, err)
		}
	})
}
