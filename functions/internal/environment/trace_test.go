package environment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"berth/functions/internal/environment"
	"berth/shared/state"
)

// span is the part of a span that tests check.
type span struct {
	TraceID    string `json:"traceId"`
	SpanID     string `json:"spanId"`
	Parent     string `json:"parentSpanId"`
	Name       string `json:"name"`
	Kind       int    `json:"kind"`
	Start      string `json:"startTimeUnixNano"`
	End        string `json:"endTimeUnixNano"`
	Attributes []struct {
		Key   string `json:"key"`
		Value struct {
			StringValue, IntValue string
		} `json:"value"`
	} `json:"attributes"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

func (s span) attributes() map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.StringValue + a.Value.IntValue
	}
	return all
}

// collector accepts spans on loopback and answers with a status.
type collector struct {
	t      *testing.T
	url    string
	status int
	posts  int
	spans  []span
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t, status: http.StatusOK}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes json.RawMessage }
			ScopeSpans []struct{ Spans []span }
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" ||
		len(in.ResourceSpans) != 1 {
		c.t.Errorf("%v, request %s %v: %s", err, r.URL, r.Header, body)
		return
	}
	if want := `[{"key":"service.name","value":{"stringValue":"f"}}]`; string(in.ResourceSpans[0].Resource.Attributes) != want {
		c.t.Errorf("resource %s", in.ResourceSpans[0].Resource.Attributes)
	}
	c.posts++
	c.spans = append(c.spans, in.ResourceSpans[0].ScopeSpans[0].Spans...)
	w.WriteHeader(c.status)
}

// traced returns an environment whose calls of AWS go to aws, and whose spans go to endpoint.
func traced(t *testing.T, endpoint string, aws http.HandlerFunc) *environment.Environment {
	server := httptest.NewServer(aws)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "s",
		"AWS_ENDPOINT_URL": server.URL,
		"TABLE_NAME":       "table", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "AWS_LAMBDA_FUNCTION_NAME": "f",
	} {
		t.Setenv(name, value)
	}
	return environment.LoadProcess()
}

// get reads a row in an invocation of its own, within Lambda's trace unless that is empty.
func get(e *environment.Environment, lambdaTrace string) error {
	store := e.StateTable()
	ctx := lambdacontext.NewContext(context.Background(), &lambdacontext.LambdaContext{AwsRequestID: "r-1"})
	if lambdaTrace != "" {
		//lint:ignore SA1029 it is the key of Lambda's library
		ctx = context.WithValue(ctx, "x-amzn-trace-id", lambdaTrace)
	}
	_, err := e.WrapInvoker(func(ctx context.Context, _ json.RawMessage) (any, error) {
		_, err := store.Get(ctx, state.Key{Cluster: "c", Sort: "meta"})
		return nil, err
	}, nil)(ctx, nil)
	return err
}

func nothing(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }

func TestTracing(t *testing.T) {
	t.Run("AnInvocationAndItsCallsAreOneTrace", func(t *testing.T) {
		c := newCollector(t)
		e := traced(t, c.url, nothing)
		if err := get(e, "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0"); err != nil {
			t.Fatal(err)
		}
		if c.posts != 1 || len(c.spans) != 2 {
			t.Fatalf("%d requests, spans %+v", c.posts, c.spans)
		}
		call, invocation := c.spans[0], c.spans[1]
		if invocation.TraceID != "5759e988bd862e3fe1be46a994272793" || invocation.Parent != "53995c3f42cd8ad8" ||
			invocation.Kind != 2 ||
			invocation.Name != "invoke" || invocation.attributes()["faas.invocation_id"] != "r-1" ||
			invocation.Status.Code != 0 {
			t.Errorf("invocation %+v", invocation)
		}
		got := call.attributes()
		if call.TraceID != invocation.TraceID || call.Parent != invocation.SpanID || call.Kind != 3 ||
			call.Name != "DynamoDB.GetItem" ||
			got["rpc.service"] != "DynamoDB" || got["rpc.method"] != "GetItem" ||
			got["http.response.status_code"] != "200" {
			t.Errorf("call %+v", call)
		}
		for _, s := range c.spans {
			start, err := strconv.ParseInt(s.Start, 10, 64)
			end, err2 := strconv.ParseInt(s.End, 10, 64)
			if err != nil || err2 != nil || end < start || len(s.SpanID) != 16 {
				t.Errorf("span %+v", s)
			}
		}
	})
	t.Run("WithoutLambdasHeaderEachInvocationIsATraceOfItsOwn", func(t *testing.T) {
		c := newCollector(t)
		e := traced(t, c.url, nothing)
		for range 2 {
			if err := get(e, ""); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.spans) != 4 || len(c.spans[1].TraceID) != 32 || c.spans[1].TraceID == c.spans[3].TraceID ||
			c.spans[1].Parent != "" {
			t.Errorf("spans %+v", c.spans)
		}
	})
	t.Run("ErrorsAreShown", func(t *testing.T) {
		c := newCollector(t)
		e := traced(t, c.url, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type": "ResourceNotFoundException", "message": "no table"}`)
		})
		if get(e, "") == nil || len(c.spans) != 2 {
			t.Fatalf("spans %+v", c.spans)
		}
		call, invocation := c.spans[0], c.spans[1]
		if call.Status.Code != 2 || call.attributes()["http.response.status_code"] != "400" ||
			invocation.Status.Code != 2 ||
			!strings.Contains(invocation.Status.Message, "no table") {
			t.Errorf("spans %+v", c.spans)
		}
	})
	t.Run("RepeatedCallsAreSeveral", func(t *testing.T) {
		c := newCollector(t)
		failures := 1
		e := traced(t, c.url, func(w http.ResponseWriter, r *http.Request) {
			if failures > 0 {
				failures--
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			nothing(w, r)
		})
		if err := get(e, ""); err != nil || len(c.spans) != 3 || c.spans[0].Status.Code != 2 ||
			c.spans[1].Status.Code != 0 {
			t.Errorf("%v, spans %+v", err, c.spans)
		}
	})
	t.Run("ACollectorThatFailsFailsNoInvocation", func(t *testing.T) {
		c := newCollector(t)
		c.status = http.StatusServiceUnavailable
		if err := get(traced(t, c.url, nothing), ""); err != nil || c.posts != 1 {
			t.Errorf("%v, %d requests", err, c.posts)
		}
		if err := get(traced(t, "http://127.0.0.1:1", nothing), ""); err != nil {
			t.Errorf("without a collector: %v", err)
		}
	})
	t.Run("OffWhereNoEndpointIsSet", func(t *testing.T) {
		var calls int
		e := traced(t, "", func(w http.ResponseWriter, r *http.Request) {
			calls++
			nothing(w, r)
		})
		if err := get(e, ""); err != nil || calls != 1 || e.JoinedErrors() != nil {
			t.Errorf("%v, %v, %d calls", err, e.JoinedErrors(), calls)
		}
	})
	t.Run("AMalformedEndpointIsAnErrorAtTheStart", func(t *testing.T) {
		for _, endpoint := range []string{"localhost:4318", "ftp://x", "http://"} {
			e := environment.NewWithOutput(&bytes.Buffer{}, func(name string) string {
				return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}[name]
			})
			if err := e.JoinedErrors(); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT") {
				t.Errorf("%s: %v", endpoint, err)
			}
		}
	})
	t.Run("TheLimitKeepsTheInvocation", func(t *testing.T) {
		c := newCollector(t)
		e := traced(t, c.url, nothing)
		store := e.StateTable()
		_, err := e.WrapInvoker(func(ctx context.Context, _ json.RawMessage) (any, error) {
			for range 2100 {
				if _, err := store.Get(ctx, state.Key{Cluster: "c", Sort: "meta"}); err != nil {
					return nil, err
				}
			}
			return nil, errors.New("in the end")
		}, nil)(context.Background(), nil)
		if err == nil || len(c.spans) != 2049 || c.spans[2048].Status.Message != "in the end" {
			t.Errorf("%v, %d spans", err, len(c.spans))
		}
	})
}
