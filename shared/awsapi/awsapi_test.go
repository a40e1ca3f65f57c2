package awsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"berth/shared/awsapi"
	"berth/shared/awsapi/wakequeue"
	"berth/shared/cluster"
)

// endpoint answers calls of the JSON protocols with a function, and keeps the calls.
type endpoint struct {
	answer func(operation string, in map[string]any) (status int, body string)
	mu     sync.Mutex
	calls  []call
}

// seen returns the calls so far.
func (e *endpoint) seen() []call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

func (e *endpoint) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = nil
}

type call struct {
	operation string
	in        map[string]any
	header    http.Header
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := call{header: r.Header}
	_, c.operation, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	_ = json.Unmarshal(body, &c.in)
	e.mu.Lock()
	e.calls = append(e.calls, c)
	e.mu.Unlock()
	status, answer := e.answer(c.operation, c.in)
	if status == 0 { // never answers
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

var testCredentials = credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "session")

func serve(t *testing.T, answer func(operation string, in map[string]any) (int, string)) (*endpoint, *ecs.Client) {
	t.Helper()
	e := &endpoint{answer: answer}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, ecs.New(ecs.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: testCredentials})
}

func fails(status int, code string) func(string, map[string]any) (int, string) {
	return func(string, map[string]any) (int, string) {
		return status, fmt.Sprintf(`{"__type":%q,"message":"it said"}`, code)
	}
}

var startCall = cluster.StartCall{Cluster: "c", TaskDefinition: "web:1", Instances: []string{"i"},
	StartedBy: "berth/0123456789ab/1-0"}

func TestActionsAreTriedOnce(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		answer    func(string, map[string]any) (int, string)
		ambiguous bool
		code      cluster.Code
	}{
		"Refused":      {answer: fails(400, "InvalidParameterException"), code: cluster.CodeInvalidParameter},
		"Throttled":    {answer: fails(400, "ThrottlingException"), code: cluster.CodeThrottling},
		"RateExceeded": {answer: fails(400, "RequestLimitExceeded"), code: cluster.CodeThrottling},
		"ServerError":  {answer: fails(500, "ServerException"), ambiguous: true, code: cluster.CodeServer},
		"NoAnswer": {answer: func(string, map[string]any) (int, string) { return 0, "" }, ambiguous: true,
			code: cluster.CodeServer},
		"NotJSON": {answer: func(string, map[string]any) (int, string) { return 200, "{" }, ambiguous: true,
			code: cluster.CodeServer},
		// An expired token says nothing about the task, so it must not become an error of the API.
		"TokenExpired": {answer: fails(400, "ExpiredTokenException"), code: cluster.CodeServer},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := serve(t, c.answer)
			adapter := &awsapi.ECS{Client: client}
			if name == "NoAnswer" {
				adapter.Timeout = 100 * time.Millisecond
			}
			_, startErr := adapter.StartTask(ctx, startCall)
			stopErr := adapter.StopTask(ctx, "c", "t", "why")
			for _, err := range []error{startErr, stopErr} {
				if err == nil || errors.Is(err, cluster.ErrAmbiguous) != c.ambiguous ||
					cluster.ErrorCode(err) != c.code {
					t.Errorf("error %v: ambiguous %v, code %s; want %v, %s", err, errors.Is(err, cluster.ErrAmbiguous),
						cluster.ErrorCode(err), c.ambiguous, c.code)
				}
			}
			if len(server.seen()) != 2 {
				t.Errorf("%d calls, want one each", len(server.seen()))
			}
		})
	}
	t.Run("NoConnection", func(t *testing.T) {
		client := ecs.New(ecs.Options{Region: "eu-central-1", BaseEndpoint: aws.String("http://127.0.0.1:1"),
			Credentials: testCredentials})
		if _, err := (&awsapi.ECS{Client: client}).StartTask(ctx, startCall); err == nil ||
			errors.Is(err, cluster.ErrAmbiguous) {
			t.Errorf("StartTask = %v, want an unambiguous error", err)
		}
	})
}

func TestListsReadAllPages(t *testing.T) {
	ctx := context.Background()
	pages := func(member, prefix string) func(string, map[string]any) (int, string) {
		return func(_ string, in map[string]any) (int, string) {
			if in["nextToken"] == nil {
				return 200, fmt.Sprintf(`{%q:["%s/c/1","%s/c/2"],"nextToken":"more"}`, member, prefix, prefix)
			}
			return 200, fmt.Sprintf(`{%q:["%s/c/3"]}`, member, prefix)
		}
	}
	want := []string{"1", "2", "3"}
	t.Run("Tasks", func(t *testing.T) {
		server, client := serve(t, pages("taskArns", "arn:aws:ecs:eu-central-1:1:task"))
		got, err := (&awsapi.ECS{Client: client}).ListTasks(ctx, cluster.TaskFilter{Cluster: "c", StartedBy: "s"})
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("ListTasks = %v, %v; want %v", got, err, want)
		}
		if diff := cmp.Diff(map[string]any{"cluster": "c", "startedBy": "s"}, server.seen()[0].in); diff != "" {
			t.Errorf("ECS takes startedBy only alone (-want +got):\n%s", diff)
		}
	})
	t.Run("Instances", func(t *testing.T) {
		_, client := serve(t, pages("containerInstanceArns", "arn:aws:ecs:eu-central-1:1:container-instance"))
		got, err := (&awsapi.ECS{Client: client}).ListInstances(ctx, "c")
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("ListInstances = %v, %v; want %v", got, err, want)
		}
	})
}

func TestDescribeInBatchesOf100(t *testing.T) {
	ids := make([]string, 201)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
	}
	server, client := serve(t, func(_ string, in map[string]any) (int, string) {
		for _, list := range []string{"tasks", "containerInstances"} {
			if l, ok := in[list].([]any); ok && len(l) > 100 {
				return fails(400, "InvalidParameterException")("", nil)
			}
		}
		return 200, "{}"
	})
	adapter := &awsapi.ECS{Client: client}
	if _, err := adapter.DescribeTasks(context.Background(), "c", ids); err != nil {
		t.Error(err)
	}
	if _, err := adapter.DescribeInstances(context.Background(), "c", ids); err != nil {
		t.Error(err)
	}
	if len(server.seen()) != 6 {
		t.Errorf("%d calls, want 6", len(server.seen()))
	}
}

func TestClusterActiveNeedsTheStatus(t *testing.T) {
	for body, want := range map[string]bool{
		`{"clusters":[{"clusterName":"c","status":"ACTIVE"}]}`:        true,
		`{"clusters":[{"clusterName":"c","status":"INACTIVE"}]}`:      false,
		`{"clusters":[],"failures":[{"arn":"c","reason":"MISSING"}]}`: false,
	} {
		_, client := serve(t, func(string, map[string]any) (int, string) { return 200, body })
		if got, err := (&awsapi.ECS{Client: client}).ClusterActive(context.Background(), "c"); err != nil ||
			got != want {
			t.Errorf("ClusterActive with %s = %v, %v; want %v", body, got, err, want)
		}
	}
}

func TestQueueRoundsDelaysUp(t *testing.T) {
	ctx := context.Background()
	e := &endpoint{answer: func(string, map[string]any) (int, string) { return 200, `{"MessageId":"m"}` }}
	server := httptest.NewServer(e)
	defer server.Close()
	client := sqs.New(sqs.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: testCredentials,
		DisableMessageChecksumValidation: true})
	q := &wakequeue.Queue{Client: client, URL: "http://q/1/wake"}
	for delay, want := range map[time.Duration]any{
		-time.Second: nil, 0: nil, time.Millisecond: 1.0, 2 * time.Second: 2.0, 2*time.Second + 1: 3.0,
		900 * time.Second: 900.0,
	} {
		e.forget()
		if err := q.Send(ctx, []byte(`{"cluster":"c"}`), delay); err != nil {
			t.Fatal(err)
		}
		in := e.seen()[0].in
		if got := in["DelaySeconds"]; got != want && !(want == nil && got == 0.0) {
			t.Errorf("delay %s sent as %v s, want %v", delay, got, want)
		}
		if in["MessageBody"] != `{"cluster":"c"}` || in["QueueUrl"] != "http://q/1/wake" {
			t.Errorf("sent %v", in)
		}
	}
	e.forget()
	if err := q.Send(ctx, nil, 900*time.Second+1); err == nil || len(e.seen()) > 0 {
		t.Errorf("Send beyond 900 s = %v after %d calls, want an error and no call", err, len(e.seen()))
	}
}

func TestForwardPassesCallsUnchanged(t *testing.T) {
	ctx := context.Background()
	t.Run("PassesBodyAndAnswer", func(t *testing.T) {
		server, client := serve(t, func(op string, in map[string]any) (int, string) {
			return 400, fmt.Sprintf(`{"__type":"X","message":"%s %v"}`, op, in["new member"])
		})
		status, answer, err := (&awsapi.Forwarder{Client: client}).Forward(ctx, "ListClusters",
			[]byte(`{"new member":7}`))
		if err != nil || status != 400 || string(answer) != `{"__type":"X","message":"ListClusters 7"}` {
			t.Errorf("Forward = %d %s, %v", status, answer, err)
		}
		h := server.seen()[0].header
		auth := h.Get("Authorization")
		for _, part := range []string{"AWS4-HMAC-SHA256 Credential=AKIDTEST/", "/eu-central-1/ecs/aws4_request",
			"x-amz-target"} {
			if !strings.Contains(auth, part) {
				t.Errorf("Authorization %q has no %q", auth, part)
			}
		}
		if h.Get("X-Amz-Security-Token") != "session" || h.Get("Content-Type") != "application/x-amz-json-1.1" {
			t.Errorf("header %v", h)
		}
	})
	t.Run("SignsAsTheSDKDoes", func(t *testing.T) {
		// The SDK's own request differs only in which headers are signed. A service checks those
		// that SignedHeaders names.
		now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		server, client := serve(t, func(string, map[string]any) (int, string) { return 200, "{}" })
		for range 2 {
			if _, _, err := (&awsapi.Forwarder{Client: client, Now: func() time.Time { return now }}).Forward(ctx,
				"ListClusters", []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := server.seen()[0].header.Get("Authorization"),
			server.seen()[1].header.Get("Authorization"); a != b ||
			server.seen()[0].header.Get("X-Amz-Date") != "20261121T100000Z" {
			t.Errorf("the same request is signed differently:\n%s\n%s", a, b)
		}
	})
	t.Run("UsesTheRegionsEndpoint", func(t *testing.T) {
		var host string
		client := ecs.New(ecs.Options{Region: "eu-central-1", Credentials: testCredentials,
			HTTPClient: httpClient(func(r *http.Request) (*http.Response, error) {
				host = r.URL.String()
				return nil, errors.New("connection reset")
			})})
		_, _, err := (&awsapi.Forwarder{Client: client}).Forward(ctx, "ListClusters", nil)
		if host != "https://ecs.eu-central-1.amazonaws.com/" || !errors.Is(err, cluster.ErrAmbiguous) {
			t.Errorf("called %s: %v", host, err)
		}
	})
}

type httpClient func(*http.Request) (*http.Response, error)

func (f httpClient) Do(r *http.Request) (*http.Response, error) { return f(r) }
