package awsjson_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/document"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"

	"berth/shared/wire/awsjson"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 4, 12, 0, 0, 123_000_000, time.UTC)

// outputs are answers that between them have every kind of member: nested structures, lists of
// structures, maps, sets, times, numbers of all widths, and zeros that ECS sends and the SDK leaves
// out.
var outputs = map[string]struct {
	op  string
	out any
}{
	"task": {"DescribeTasks", &ecs.DescribeTasksOutput{Tasks: []types.Task{{
		TaskArn: new("arn:aws:ecs:eu-west-1:123456789012:task/prod/0a"), ClusterArn: new("arn:aws:ecs:eu-west-1:123456789012:cluster/prod"),
		LastStatus: new("RUNNING"), DesiredStatus: new("RUNNING"), Version: 1 << 40, StartedAt: &noon, Cpu: new("256"),
		Containers: []types.Container{{
			Name: new("app \"<&>\u2028"), ExitCode: new(int32(0)), GpuIds: []string{"GPU-1"},
			NetworkBindings: []types.NetworkBinding{{HostPort: new(int32(8080)), Protocol: types.TransportProtocolTcp}},
		}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
			Name: new("app"), Command: []string{}, Environment: []types.KeyValuePair{{Name: new("A"), Value: new("")}},
		}}},
	}}}},
	"service": {"DescribeServices", &ecs.DescribeServicesOutput{Services: []types.Service{{
		ServiceName: new("web"), Status: new("ACTIVE"), DesiredCount: 0, RunningCount: 2, CreatedAt: &noon,
		SchedulingStrategy: types.SchedulingStrategyReplica,
		DeploymentConfiguration: &types.DeploymentConfiguration{
			MaximumPercent: new(int32(200)), MinimumHealthyPercent: new(int32(0)),
			DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{},
		},
		Deployments: []types.Deployment{{Id: new("ecs-svc/1"), Status: new("PRIMARY"), CreatedAt: &noon}},
		Events:      []types.ServiceEvent{{Id: new("e"), CreatedAt: &noon, Message: new("(service web) has reached a steady state.")}},
	}}, Failures: []types.Failure{{Arn: new("none"), Reason: new("MISSING")}}}},
	"instance": {"DescribeContainerInstances", &ecs.DescribeContainerInstancesOutput{ContainerInstances: []types.ContainerInstance{{
		ContainerInstanceArn: new("arn"), RegisteredResources: []types.Resource{
			{Name: new("CPU"), Type: new("INTEGER"), IntegerValue: 2048},
			{Name: new("PORTS"), Type: new("STRINGSET"), StringSetValue: []string{"22"}},
		},
	}}}},
	"definition": {"DescribeTaskDefinition", &ecs.DescribeTaskDefinitionOutput{TaskDefinition: &types.TaskDefinition{
		Family: new("web"), Revision: 3, Status: types.TaskDefinitionStatusActive, RegisteredAt: &noon,
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: new("app"), Essential: new(false), DockerLabels: map[string]string{"Upper.Case": "kept"},
			Ulimits: []types.Ulimit{{Name: types.UlimitNameNofile, HardLimit: 0, SoftLimit: 0}},
		}},
	}}},
	"cluster": {"CreateCluster", &ecs.CreateClusterOutput{Cluster: &types.Cluster{ClusterName: new("prod"), Status: new("ACTIVE")}}},
	"empty":   {"ListTasks", &ecs.ListTasksOutput{}},
	"nothing": {"TagResource", &ecs.TagResourceOutput{}},
}

func TestEncode(t *testing.T) {
	for name, c := range outputs {
		t.Run(name, func(t *testing.T) {
			body, err := awsjson.EncodeOutput(c.op, c.out)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := json.Indent(&text, body, "", "  "); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			text.WriteByte('\n')
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Goroutines that encode at the same time, one answer after the other, get each answer as it is
// alone: writers and their memory are used again.
func TestEncodeManyAnswersAtOnce(t *testing.T) {
	want := map[string]string{}
	for name, c := range outputs {
		body, err := awsjson.EncodeOutput(c.op, c.out)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(body)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				kept := map[string][]byte{}
				for name, c := range outputs {
					body, err := awsjson.EncodeOutput(c.op, c.out)
					if err != nil {
						t.Error(err)
					}
					kept[name] = body
				}
				for name, body := range kept {
					if string(body) != want[name] {
						t.Errorf("%s is %s, alone %s", name, body, want[name])
					}
				}
			}
		})
	}
	all.Wait()
}

// Any text comes back as it was, but for bytes that are no UTF-8.
func FuzzEncodeText(f *testing.F) {
	for _, text := range []string{"", "plain", "a\"b\\c/", "\x00\x1f\x7f\n\t", "<&>'", "\u2028é\U0001f600", "\xff a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := awsjson.EncodeOutput("ListTasks", &ecs.ListTasksOutput{TaskArns: []string{text}, NextToken: &text})
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			TaskArns  []string
			NextToken string
		}
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		want := strings.ToValidUTF8(text, "\ufffd")
		if utf8.ValidString(text) && (len(out.TaskArns) != 1 || out.TaskArns[0] != want || out.NextToken != want) {
			t.Errorf("%q became %s", text, body)
		}
	})
}

// Each byte is escaped as JSON wants it wherever it is, however long the text: the writer looks at
// eight bytes at a time.
func TestEncodeTextWithAnyByteAnywhere(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range byte(utf8.RuneSelf) {
				text := []byte(strings.Repeat("~", length))
				text[at] = c
				body, err := awsjson.EncodeOutput("ListTasks", &ecs.ListTasksOutput{TaskArns: []string{string(text)}})
				if err != nil {
					t.Fatal(err)
				}
				var out struct{ TaskArns []string }
				if err := json.Unmarshal(body, &out); err != nil || out.TaskArns[0] != string(text) {
					t.Fatalf("%q became %s: %v", text, body, err)
				}
			}
		}
	}
}

// A value that JSON or the protocol does not have is an error, and the next answer is whole again.
func TestEncodeRefusesValuesWithoutAForm(t *testing.T) {
	hook := types.DeploymentLifecycleHook{HookDetails: document.NewLazyDocument("a")}
	for name, out := range map[string]any{
		"NotFinite": &ecs.DescribeTaskSetsOutput{TaskSets: []types.TaskSet{{Scale: &types.Scale{Value: math.NaN()}}}},
		"Document": &ecs.DescribeServicesOutput{Services: []types.Service{{DeploymentConfiguration: &types.DeploymentConfiguration{
			LifecycleHooks: []types.DeploymentLifecycleHook{hook}}}}},
	} {
		if body, err := awsjson.EncodeOutput("Describe", out); err == nil || !strings.Contains(err.Error(), "Describe") {
			t.Errorf("%s: %s, %v, want an error that names the operation", name, body, err)
		}
		if body, err := awsjson.EncodeOutput("ListTasks", &ecs.ListTasksOutput{}); err != nil ||
			string(body) != `{"taskArns":[]}` {
			t.Errorf("after %s: %s, %v", name, body, err)
		}
	}
}

func TestEncodeRefusesWhatIsNoOutput(t *testing.T) {
	_, err := awsjson.EncodeOutput("ListTasks", struct{}{})
	if err == nil || !strings.Contains(err.Error(), "ListTasks") {
		t.Errorf("error %v, want one that names the operation", err)
	}
}

// BenchmarkEncodeInstances encodes a page of DescribeContainerInstances.
func BenchmarkEncodeInstances(b *testing.B) {
	var out ecs.DescribeContainerInstancesOutput
	i := types.ContainerInstance{ContainerInstanceArn: new("arn:aws:ecs:eu-west-1:123456789012:container-instance/prod/0a"),
		Status: new("ACTIVE"), AgentConnected: true, Version: 7, RegisteredAt: &noon}
	for n := range 20 {
		i.Attributes = append(i.Attributes, types.Attribute{Name: new(fmt.Sprint("ecs.capability.docker-remote-api.1.", n))})
	}
	for _, name := range []string{"CPU", "MEMORY", "PORTS", "PORTS_UDP"} {
		i.RegisteredResources = append(i.RegisteredResources, types.Resource{Name: &name, Type: new("INTEGER"), IntegerValue: 2048})
	}
	i.RemainingResources = i.RegisteredResources
	for range 100 {
		out.ContainerInstances = append(out.ContainerInstances, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := awsjson.EncodeOutput("DescribeContainerInstances", &out); err != nil {
			b.Fatal(err)
		}
	}
}
