package dataplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"berth/cmd/berth/dataplane"
	"berth/shared/awsapi"
	"berth/shared/awsapi/eventbus"
	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

var keys = credentials.NewStaticCredentialsProvider("any", "any", "")

// eventBridge accepts events. The first calls of PutEvents fail, as many as refusals says.
type eventBridge struct {
	mu       sync.Mutex
	refusals int
	details  []detail
	more     chan struct{}
}

// detail is the part of an event that tests check.
type detail struct {
	Source, DetailType, TaskARN, LastStatus, Status string
	Containers                                      []struct{ ExitCode *int }
	Version                                         int
}

func (e *eventBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Entries []struct{ Source, DetailType, Detail string }
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusals > 0 {
		e.refusals--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var answers []string
	for _, entry := range in.Entries {
		d := detail{Source: entry.Source, DetailType: entry.DetailType}
		_ = json.Unmarshal([]byte(entry.Detail), &d)
		e.details = append(e.details, d)
		answers = append(answers, `{"EventId": "x"}`)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	fmt.Fprintf(w, `{"Entries": [%s]}`, strings.Join(answers, ","))
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// until waits for an event.
func (e *eventBridge) until(t *testing.T, what string, is func(detail) bool) detail {
	t.Helper()
	for late := time.After(20 * time.Second); ; {
		e.mu.Lock()
		i := slices.IndexFunc(e.details, is)
		all := slices.Clone(e.details)
		e.mu.Unlock()
		if i >= 0 {
			return all[i]
		}
		select {
		case <-e.more:
		case <-late:
			t.Fatalf("no event of %s in %+v", what, all)
		}
	}
}

// served is a fleet that a test calls.
type served struct {
	*eventBridge
	endpoint string
	ecs      *ecs.Client
}

func serve(t *testing.T, refusals int) *served {
	t.Helper()
	s := &served{eventBridge: &eventBridge{refusals: refusals, more: make(chan struct{}, 1)}}
	bus := httptest.NewServer(s.eventBridge)
	t.Cleanup(bus.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- dataplane.Serve(ctx, dataplane.Options{
			AWS: sim.Options{
				Account: cluster.Account{ID: "123456789012", Region: "us-east-1"}, Source: "test.fleet", Seed: 1,
				MinStart: time.Millisecond, MaxStart: 2 * time.Millisecond,
			},
			Listener: listener, Cluster: "default", Nodes: 2, Machine: ec2.Machine{Type: "t3.medium"},
			Bus: &eventbus.Bus{Client: eventbridge.New(eventbridge.Options{
				Region: "us-east-1", BaseEndpoint: &bus.URL, Credentials: keys, Retryer: aws.NopRetryer{},
				HTTPClient: awsapi.HTTP{},
			})},
			Ready: func(endpoint string, added int) { ready <- endpoint },
			Log:   slog.New(slog.DiscardHandler),
		})
	}()
	select {
	case s.endpoint = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.ecs = ecs.New(ecs.Options{Region: "us-east-1", BaseEndpoint: &s.endpoint, Credentials: keys})
	return s
}

// start runs a task on an instance and waits for its RUNNING event.
func (s *served) start(t *testing.T) (task, instance string) {
	t.Helper()
	ctx := t.Context()
	listed, err := s.ecs.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{})
	if err != nil || len(listed.ContainerInstanceArns) != 2 {
		t.Fatalf("ListContainerInstances = %+v, %v", listed, err)
	}
	_, err = s.ecs.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("web"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("web"), Image: aws.String("x"), Memory: aws.Int32(64),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	instance = listed.ContainerInstanceArns[0]
	out, err := s.ecs.StartTask(ctx, &ecs.StartTaskInput{TaskDefinition: aws.String("web"),
		ContainerInstances: []string{instance}})
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("StartTask = %+v, %v", out, err)
	}
	task = *out.Tasks[0].TaskArn
	s.until(t, "RUNNING", func(d detail) bool { return d.TaskARN == task && d.LastStatus == "RUNNING" })
	return cluster.LastPart(task), cluster.LastPart(instance)
}

func (s *served) call(t *testing.T, method, path, body string, header ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.endpoint+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all)
}

func TestServe(t *testing.T) {
	t.Run("ReportsUnderItsSource", func(t *testing.T) {
		s := serve(t, 0)
		s.start(t)
		d := s.until(t, "an instance",
			func(d detail) bool { return d.DetailType == "ECS Container Instance State Change" })
		if d.Source != "test.fleet" {
			t.Errorf("source %s", d.Source)
		}
	})
	t.Run("SendsAgainWhatWasNotTaken", func(t *testing.T) {
		s := serve(t, 3)
		s.start(t)
		joined := 0
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range s.details {
			if d.DetailType == "ECS Container Instance State Change" && d.Status == "ACTIVE" && d.Version == 1 {
				joined++
			}
		}
		if joined != 2 {
			t.Errorf("%d instances are known to have joined, want 2", joined)
		}
	})
	t.Run("TasksExit", func(t *testing.T) {
		s := serve(t, 0)
		task, _ := s.start(t)
		if status, answer := s.call(t, http.MethodPost, "/fleet/tasks/"+task+"/exit",
			`{"exitCode": 7}`); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		d := s.until(t, "STOPPED", func(d detail) bool { return d.LastStatus == "STOPPED" })
		if len(d.Containers) != 1 || d.Containers[0].ExitCode == nil || *d.Containers[0].ExitCode != 7 {
			t.Errorf("event %+v", d)
		}
	})
	t.Run("TasksFailTheChecksOfTheirTargetGroups", func(t *testing.T) {
		s := serve(t, 0)
		task, _ := s.start(t)
		s.until(t, "RUNNING", func(d detail) bool { return d.LastStatus == "RUNNING" })
		if status, answer := s.call(t, http.MethodPost, "/fleet/tasks/"+task+"/target",
			`{"reason": "Request timed out"}`); status != http.StatusOK {
			t.Fatal(status, answer)
		}
	})
	t.Run("TargetGroupsAreThere", func(t *testing.T) {
		s := serve(t, 0)
		const form = "application/x-www-form-urlencoded"
		create := "Action=CreateTargetGroup&Version=2015-12-01&Name=web&Protocol=HTTP&Port=80"
		status, answer := s.call(t, http.MethodPost, "/", create, "Content-Type", form, "Authorization",
			"AWS4-HMAC-SHA256 x")
		if status != http.StatusOK || !strings.Contains(answer, ":targetgroup/web/") {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("MachinesComeAndGo", func(t *testing.T) {
		s := serve(t, 0)
		_, instance := s.start(t)
		if status, answer := s.call(t, http.MethodDelete, "/fleet/instances/"+instance, ""); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		s.until(t, "the end of its task", func(d detail) bool { return d.LastStatus == "STOPPED" })
		status, answer := s.call(t, http.MethodPost, "/fleet/instances",
			`{"count": 3, "type": "c5.large", "zones": ["z"]}`)
		var got struct{ IDs []string }
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != http.StatusOK || len(got.IDs) != 3 {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("AgentsLoseEcs", func(t *testing.T) {
		s := serve(t, 0)
		_, instance := s.start(t)
		for _, step := range []string{"disconnect", "reconnect", "crash"} {
			if status, answer := s.call(t, http.MethodPost, "/fleet/instances/"+instance+"/"+step,
				"{}"); status != http.StatusOK {
				t.Errorf("%s: %d %s", step, status, answer)
			}
		}
	})
}

func TestServeRefuses(t *testing.T) {
	s := serve(t, 0)
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
	}{
		"WebPages": {http.MethodPost, "/fleet/instances", "{}", []string{"Content-Type", "text/plain"},
			http.StatusForbidden},
		"OtherNames": {http.MethodPost, "/fleet/instances", "{}", []string{"Host", "evil.example"},
			http.StatusForbidden},
		"OtherNamesDelete": {http.MethodDelete, "/fleet/instances/x", "", []string{"Host", "evil.example"},
			http.StatusForbidden},
		"UnsignedForms": {http.MethodPost, "/", "Action=DescribeTargetGroups",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, http.StatusForbidden},
		"NoJSON":          {http.MethodPost, "/fleet/instances", "x", nil, http.StatusBadRequest},
		"NoMachines":      {http.MethodPost, "/fleet/instances", `{"count": 0}`, nil, http.StatusBadRequest},
		"UnknownType":     {http.MethodPost, "/fleet/instances", `{"type": "none"}`, nil, http.StatusBadRequest},
		"UnknownInstance": {http.MethodDelete, "/fleet/instances/none", "", nil, http.StatusBadRequest},
		"UnknownTask":     {http.MethodPost, "/fleet/tasks/none/exit", "{}", nil, http.StatusBadRequest},
		"UnknownPath":     {http.MethodPost, "/fleet/nothing", "{}", nil, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if status, answer := s.call(t, c.method, c.path, c.body, c.header...); status != c.status {
				t.Errorf("%d %s, want %d", status, answer, c.status)
			}
		})
	}
}
