package awsjson_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth/shared/awsapi"
	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
)

// client returns the SDK's client, which calls m over loopback.
func client(t *testing.T, m http.Handler) *ecs.Client {
	t.Helper()
	server := httptest.NewServer(m)
	// Each request has its own connection: other tests' servers close idle ones.
	server.Client().Transport.(*http.Transport).DisableKeepAlives = true
	t.Cleanup(server.Close)
	return ecs.New(ecs.Options{
		BaseEndpoint: &server.URL, Region: "eu-west-1", HTTPClient: awsapi.HTTP{Client: server.Client()},
		Retryer:     aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
	})
}

// fixed returns an operation that answers every input with out, and keeps the input.
func fixed[I, O any](in *I, out *O) awsjson.Operation {
	return awsjson.TypedOperation(func(_ context.Context, got *I) (*O, error) {
		*in = *got
		return out, nil
	})
}

var unexported = cmp.Options{
	cmpopts.IgnoreFields(ecs.DescribeServicesOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.DescribeTasksOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.DescribeContainerInstancesOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.DescribeTaskDefinitionOutput{}, "ResultMetadata"),
	cmpopts.IgnoreFields(ecs.RunTaskOutput{}, "ResultMetadata"),
	cmpopts.EquateEmpty(),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore()),
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

// What the SDK sends arrives, and the SDK gets what is answered.
func TestRoundTripWithTheSDK(t *testing.T) {
	ctx := t.Context()
	t.Run("DescribeServices", func(t *testing.T) {
		want := outputs["service"].out.(*ecs.DescribeServicesOutput)
		sent := &ecs.DescribeServicesInput{Cluster: new("prod"), Services: []string{"web"},
			Include: []types.ServiceField{types.ServiceFieldTags}}
		var in ecs.DescribeServicesInput
		got, err := client(t, awsjson.NewMux(map[string]awsjson.Operation{"DescribeServices": fixed(&in,
			want)})).DescribeServices(ctx, sent)
		expect(t, "error", err, nil)
		expect(t, "input", &in, sent)
		expect(t, "output", got, want)
	})
	t.Run("DescribeTasks", func(t *testing.T) {
		want := outputs["task"].out.(*ecs.DescribeTasksOutput)
		sent := &ecs.DescribeTasksInput{Tasks: []string{"a", "b"}}
		var in ecs.DescribeTasksInput
		got, err := client(t, awsjson.NewMux(map[string]awsjson.Operation{"DescribeTasks": fixed(&in,
			want)})).DescribeTasks(ctx, sent)
		expect(t, "error", err, nil)
		expect(t, "input", &in, sent)
		expect(t, "output", got, want)
	})
	t.Run("DescribeContainerInstances", func(t *testing.T) {
		want := outputs["instance"].out.(*ecs.DescribeContainerInstancesOutput)
		sent := &ecs.DescribeContainerInstancesInput{ContainerInstances: []string{"a"}}
		var in ecs.DescribeContainerInstancesInput
		m := awsjson.NewMux(map[string]awsjson.Operation{"DescribeContainerInstances": fixed(&in, want)})
		got, err := client(t, m).DescribeContainerInstances(ctx, sent)
		expect(t, "error", err, nil)
		expect(t, "output", got, want)
	})
	t.Run("DescribeTaskDefinition", func(t *testing.T) {
		want := outputs["definition"].out.(*ecs.DescribeTaskDefinitionOutput)
		var in ecs.DescribeTaskDefinitionInput
		m := awsjson.NewMux(map[string]awsjson.Operation{"DescribeTaskDefinition": fixed(&in, want)})
		got, err := client(t, m).DescribeTaskDefinition(ctx,
			&ecs.DescribeTaskDefinitionInput{TaskDefinition: new("web")})
		expect(t, "error", err, nil)
		expect(t, "output", got, want)
	})
	t.Run("RunTask", func(t *testing.T) {
		sent := &ecs.RunTaskInput{
			TaskDefinition: new("web:3"), Count: new(int32(2)), ClientToken: new("token"), EnableECSManagedTags: true,
			Overrides: &types.TaskOverride{Cpu: new("512"), ContainerOverrides: []types.ContainerOverride{{
				Name: new("app"), Command: []string{"sh", "-c", "true"}, Memory: new(int32(64)),
				Environment: []types.KeyValuePair{{Name: new("cluster"), Value: new("é\x01")}},
			}}},
			PlacementConstraints: []types.PlacementConstraint{{Type: types.PlacementConstraintTypeDistinctInstance}},
			Tags:                 []types.Tag{{Key: new("berth:wait"), Value: new("10m")}},
		}
		var in ecs.RunTaskInput
		got, err := client(t, awsjson.NewMux(map[string]awsjson.Operation{"RunTask": fixed(&in,
			&ecs.RunTaskOutput{})})).RunTask(ctx, sent)
		expect(t, "error", err, nil)
		expect(t, "input", &in, sent)
		expect(t, "output", got, &ecs.RunTaskOutput{})
	})
}

// failing returns a Mux whose ListTasks fails with err.
func failing(err error) *awsjson.Mux {
	return awsjson.NewMux(map[string]awsjson.Operation{
		"ListTasks": awsjson.TypedOperation(func(context.Context, *ecs.ListTasksInput) (*ecs.ListTasksOutput,
			error) {
			return nil, err
		}),
	})
}

func TestErrorsReachTheSDK(t *testing.T) {
	code := func(t *testing.T, err error) string {
		var api smithy.APIError
		if !errors.As(err, &api) {
			t.Fatalf("error %v is none of the API", err)
		}
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	t.Run("Typed", func(t *testing.T) {
		_, err := client(t, failing(cluster.Errorf(cluster.CodeClusterNotFound,
			"Cluster not found."))).ListTasks(t.Context(), nil)
		var missing *types.ClusterNotFoundException
		if !errors.As(err, &missing) || missing.ErrorMessage() != "Cluster not found." {
			t.Errorf("error %v", err)
		}
	})
	t.Run("WithoutType", func(t *testing.T) {
		_, err := client(t, failing(cluster.Errorf(cluster.CodeThrottling, "Rate exceeded"))).ListTasks(t.Context(),
			nil)
		expect(t, "error", code(t, err), "ThrottlingException: Rate exceeded")
	})
	t.Run("FaultsAreNotRevealed", func(t *testing.T) {
		var log bytes.Buffer
		m := failing(errors.New("secret table name"))
		m.Guard.Log = slog.New(slog.NewTextHandler(&log, nil))
		_, err := client(t, m).ListTasks(t.Context(), nil)
		var fault *types.ServerException
		if !errors.As(err, &fault) || strings.Contains(fault.ErrorMessage(), "secret") {
			t.Errorf("error %v", err)
		}
		if !strings.Contains(log.String(), "secret table name") {
			t.Errorf("the log has no cause: %s", log.String())
		}
	})
	t.Run("NotServed", func(t *testing.T) {
		_, err := client(t, failing(nil)).ExecuteCommand(t.Context(),
			&ecs.ExecuteCommandInput{Command: new("sh"), Task: new("x")})
		var no *types.UnsupportedFeatureException
		if !errors.As(err, &no) || !strings.Contains(no.ErrorMessage(), "ExecuteCommand") {
			t.Errorf("error %v", err)
		}
	})
}

func TestServe(t *testing.T) {
	m := awsjson.NewMux(map[string]awsjson.Operation{
		"ListTasks": awsjson.TypedOperation(func(_ context.Context, in *ecs.ListTasksInput) (*ecs.ListTasksOutput,
			error) {
			return &ecs.ListTasksOutput{NextToken: in.NextToken, TaskArns: []string{}}, nil
		}),
		"StopTask": func(context.Context, []byte) (any, error) { panic("boom") },
		"RunTask":  func(context.Context, []byte) (any, error) { return 7, nil },
	})
	for name, c := range map[string]struct {
		op, body string
		status   int
		has      string
	}{
		"Answers": {"ListTasks", `{"nextToken":"n"}`, 200, `"nextToken":"n"`},
		"Unknown": {"ListTasks", `{"nextToken":"n","unknown":{"a":[1]}}`, 400,
			`"UnsupportedFeatureException","message":"unknown is not supported: this version`},
		"UnknownNull":     {"ListTasks", `{"unknown":null,"nextToken":"n"}`, 200, `"nextToken":"n"`},
		"EmptyBody":       {"ListTasks", "", 200, `{"taskArns":[]}`},
		"BlankBody":       {"ListTasks", " \r\n\t", 200, `{"taskArns":[]}`},
		"WrongType":       {"ListTasks", `{"nextToken":7}`, 400, `"SerializationException"`},
		"WrongTypeNamed":  {"ListTasks", `{"maxResults":"7"}`, 400, `maxResults`},
		"OutOfRange":      {"ListTasks", `{"maxResults":99999999999}`, 400, `"SerializationException"`},
		"TrailingGarbage": {"ListTasks", `{} {}`, 400, `"SerializationException"`},
		"NoObject":        {"ListTasks", `[]`, 400, `"SerializationException"`},
		"Null":            {"ListTasks", `null`, 400, `"SerializationException"`},
		"Truncated":       {"ListTasks", `{"nextToken":"`, 400, `"SerializationException"`},
		"TooLong": {"ListTasks", `{"nextToken":"` + strings.Repeat("x", 1<<20) + `"}`, 413,
			`"RequestEntityTooLargeException"`},
		"Panic":              {"StopTask", `{}`, 500, `"ServerException"`},
		"NoOutput":           {"RunTask", `{}`, 500, `"ServerException"`},
		"NotServed":          {"CreateDaemon", `{}`, 400, `"UnsupportedFeatureException","message":"CreateDaemon`},
		"NoOperation":        {"LaunchRocket", `{}`, 400, `"UnknownOperationException"`},
		"NamesAreExact":      {"listTasks", `{}`, 400, `"UnknownOperationException"`},
		"UnknownNameWithNul": {"\x00<script>", `{}`, 400, `"UnknownOperationException"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := m.ServeOperation(t.Context(), c.op, []byte(c.body))
			if status != c.status || !strings.Contains(string(answer), c.has) || !json.Valid(answer) {
				t.Errorf("%d %.300s, want %d with %s", status, answer, c.status, c.has)
			}
		})
	}
}

// request returns a good request over HTTP, which each case then spoils.
func request() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8080/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListTasks")
	return r
}

func TestServeHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*http.Request)
		status int
	}{
		"Good": {func(*http.Request) {}, 200},
		"Charset": {func(r *http.Request) {
			r.Header.Set("Content-Type",
				"application/x-amz-json-1.1; charset=utf-8")
		}, 200},
		"Get":          {func(r *http.Request) { r.Method = http.MethodGet }, 405},
		"OtherPath":    {func(r *http.Request) { r.URL.Path = "/other" }, 404},
		"Form":         {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400},
		"NoTarget":     {func(r *http.Request) { r.Header.Del("X-Amz-Target") }, 400},
		"OtherService": {func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTasks") }, 400},
		"TooLong": {func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ",
				1<<20+1)))
		}, 413},
		"ForeignOrigin":  {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"NullOrigin":     {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"OwnOrigin":      {func(r *http.Request) { r.Header.Set("Origin", "http://localhost:8080") }, 200},
		"OtherPort":      {func(r *http.Request) { r.Header.Set("Origin", "http://localhost:9090") }, 403},
		"RebindingHost":  {func(r *http.Request) { r.Host = "evil.example:8080" }, 403},
		"HostOfSameName": {func(r *http.Request) { r.Host = "localhost.evil.example" }, 403},
		"NoHost":         {func(r *http.Request) { r.Host = "" }, 403},
		"IPv4":           {func(r *http.Request) { r.Host = "127.0.0.1:1" }, 200},
		"IPv6":           {func(r *http.Request) { r.Host = "[::1]:1" }, 200},
		"IPv6NoPort":     {func(r *http.Request) { r.Host = "[::1]" }, 200},
		"OtherIP":        {func(r *http.Request) { r.Host = "192.168.0.1" }, 403},
	} {
		t.Run(name, func(t *testing.T) {
			m := awsjson.NewMux(map[string]awsjson.Operation{"ListTasks": fixed(new(ecs.ListTasksInput),
				&ecs.ListTasksOutput{})})
			m.Guard.Loopback = true
			r, w := request(), httptest.NewRecorder()
			c.spoil(r)
			m.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if w.Header().Get("X-Amzn-Requestid") == "" ||
				w.Header().Get("Content-Type") != "application/x-amz-json-1.1" {
				t.Errorf("headers %v", w.Header())
			}
			m.Guard.Loopback = false
			if c.status == http.StatusForbidden {
				r, w := request(), httptest.NewRecorder()
				c.spoil(r)
				m.ServeHTTP(w, r)
				expect(t, "status behind a front door", w.Code, http.StatusOK)
			}
		})
	}
}

// FuzzDecode: no body makes the server panic, or answer anything but success, SerializationException
// or the refusal of an unknown member, in valid JSON.
func FuzzDecode(f *testing.F) {
	m := awsjson.NewMux(map[string]awsjson.Operation{"RunTask": fixed(new(ecs.RunTaskInput), &ecs.RunTaskOutput{})})
	for _, seed := range []string{
		`{}`, ``,
		`{"overrides":{"containerOverrides":[{"name":"a","cpu":1,"environment":[{"name":"x","value":"y"}]}]}}`,
		`{"count":1e3}`, `{"count":null,"tags":[null]}`, `{"count":"1"}`, `[{}]`, `{"a":` + strings.Repeat("[", 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		status, answer := m.ServeOperation(t.Context(), "RunTask", body)
		var e struct {
			Type    string `json:"__type"`
			Message string
		}
		if err := json.Unmarshal(answer, &e); err != nil {
			t.Fatalf("answer %q: %v", answer, err)
		}
		good := status == http.StatusOK && e.Type == ""
		refused := status == http.StatusBadRequest && e.Message != "" &&
			(e.Type == string(cluster.CodeSerialization) || e.Type == string(cluster.CodeUnsupported))
		if !good && !refused {
			t.Errorf("%d %s", status, answer)
		}
	})
}
