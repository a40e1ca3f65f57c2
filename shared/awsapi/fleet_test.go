package awsapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth/shared/awsapi"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

var _ handler.ECS = (*awsapi.ECS)(nil)

// clock is a clock that moves only when a test moves it.
type clock struct {
	now   time.Time
	calls []callback
}

type callback struct {
	at time.Time
	do func()
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) After(d time.Duration, f func()) {
	c.calls = append(c.calls, callback{c.now.Add(d), f})
}

// pass moves the clock by d and runs the callbacks that are due by then.
func (c *clock) pass(d time.Duration) {
	for end := c.now.Add(d); ; {
		i := -1
		for n, call := range c.calls {
			if !call.at.After(end) && (i < 0 || call.at.Before(c.calls[i].at)) {
				i = n
			}
		}
		if i < 0 {
			c.now = end
			return
		}
		next := c.calls[i]
		c.calls = slices.Delete(c.calls, i, i+1)
		c.now = next.at
		next.do()
	}
}

// faces are two ways to the same simulated ECS: in process, and through the SDK over HTTP.
type faces struct {
	clock   *clock
	direct  handler.ECS
	adapter *awsapi.ECS
	client  *ecs.Client
}

func openFleet(t *testing.T) *faces {
	t.Helper()
	ctx := context.Background()
	c := &clock{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	f, err := sim.Open(sim.Options{Clock: c, Account: cluster.Account{ID: "123456789012", Region: "eu-central-1"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.Handler(f.ECS.Endpoint()))
	t.Cleanup(server.Close)
	client := ecs.New(ecs.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, Credentials: testCredentials})
	if _, err := client.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("c")}); err != nil {
		t.Fatal(err)
	}
	_, err = client.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("web"), Tags: []types.Tag{{Key: aws.String("berth:cpu-milli"), Value: aws.String("250")}},
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityEc2},
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: aws.String("nginx"), Cpu: 128, Memory: aws.Int32(256),
			Essential:    aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80), HostPort: aws.Int32(8080)}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Machines.AddInstances("c", 3, ec2.Machine{Type: "m5.large",
		Attributes: map[string]string{"stack": "blue"}}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	return &faces{clock: c, direct: f.ECS, adapter: &awsapi.ECS{Client: client}, client: client}
}

// anyOrder ignores the order of lists, of which ECS promises none.
var anyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// agree makes the same call both ways, and expects the same answer or an error of the same code.
func agree[T any](t *testing.T, f *faces, what string, ask func(handler.ECS) (T, error)) T {
	t.Helper()
	want, wantErr := ask(f.direct)
	got, err := ask(f.adapter)
	if (err == nil) != (wantErr == nil) || err != nil && cluster.ErrorCode(err) != cluster.ErrorCode(wantErr) {
		t.Fatalf("%s: error %v, want as in process: %v", what, err, wantErr)
	}
	if diff := cmp.Diff(want, got, anyOrder); diff != "" {
		t.Fatalf("%s (-in process +over HTTP):\n%s", what, diff)
	}
	return got
}

// TestAdapterAnswersAsTheSimulatedECS compares the adapter with the simulated ECS, which is as
// strict as the real one: what it answers in process it must answer through the protocol, the SDK
// and this package.
func TestAdapterAnswersAsTheSimulatedECS(t *testing.T) {
	ctx := context.Background()
	f := openFleet(t)
	instances := agree(t, f, "ListInstances", func(e handler.ECS) ([]string,
		error) {
		return e.ListInstances(ctx, "c")
	})
	if len(instances) != 3 {
		t.Fatalf("%d instances, want 3", len(instances))
	}
	described := agree(t, f, "DescribeInstances", func(e handler.ECS) ([]*cluster.Instance, error) {
		return e.DescribeInstances(ctx, "c", instances)
	})
	if i := described[0]; !i.IsAvailable() || i.Attributes["stack"] != "blue" || i.Registered.CPU != 2*cluster.VCPU ||
		i.Zone() == "" {
		t.Errorf("instance %+v", i)
	}
	for _, name := range []string{"web", "web:1", "arn:aws:ecs:eu-central-1:123456789012:task-definition/web:1",
		"nothing:7"} {
		d := agree(t, f, "DescribeTaskDefinition "+name, func(e handler.ECS) (*cluster.TaskDefinition, error) {
			return e.DescribeTaskDefinition(ctx, name)
		})
		if d != nil && (d.Name() != "web:1" || d.Needs.CPU != 250*cluster.MilliVCPU || d.Needs.Memory != 256) {
			t.Errorf("task definition %+v", d)
		}
	}
	if families := agree(t, f, "ListFamilies", func(e handler.ECS) ([]string, error) { return e.ListFamilies(ctx) }); len(
		families) == 0 {
		t.Error("no families")
	}
	for _, name := range []string{"c", "nowhere"} {
		agree(t, f, "ClusterActive "+name, func(e handler.ECS) (bool, error) { return e.ClusterActive(ctx, name) })
	}
	deleteOf := func(e handler.ECS, name string) (bool, error) { return false, e.DeleteTaskDefinition(ctx, name) }
	for _, name := range []string{"nothing:7", "web:1"} { // the second is refused, because it is ACTIVE
		agree(t, f, "deleting "+name, func(e handler.ECS) (bool, error) { return deleteOf(e, name) })
		agree(t, f, "deregistering "+name, func(e handler.ECS) (bool, error) {
			return false, e.DeregisterTaskDefinition(ctx, name)
		})
	}
	if _, err := deleteOf(f.adapter, "web:1"); err != nil {
		t.Error(err)
	}
	agree(t, f, "deleting it again", func(e handler.ECS) (bool, error) { return deleteOf(e, "web:1") })
	agree(t, f, "ListTasks of no cluster", func(e handler.ECS) ([]string, error) {
		return e.ListTasks(ctx, cluster.TaskFilter{Cluster: "nowhere"})
	})
}

func TestAdapterStartsAndStopsTasks(t *testing.T) {
	ctx := context.Background()
	f := openFleet(t)
	instances, err := f.adapter.ListInstances(ctx, "c")
	if err != nil {
		t.Fatal(err)
	}
	cpu := int32(64)
	call := cluster.StartCall{
		Cluster: "c", TaskDefinition: "web:1", Instances: instances[:2], StartedBy: "berth/0123456789ab/1-0",
		Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{
			Name: "app", Command: []string{"serve"}, CPU: &cpu,
			Environment: []cluster.Variable{{Name: "A", Value: "b"}},
		}}},
		Launch: &cluster.Launch{Tags: map[string]string{"team": "x"},
			ServiceOptions: cluster.ServiceOptions{ManagedTags: true, ExecuteCommand: true}},
	}
	answer, err := f.adapter.StartTask(ctx, call)
	if err != nil || len(answer.Tasks) != 2 || len(answer.Failures) != 0 {
		t.Fatalf("StartTask = %+v, %v; want two tasks", answer, err)
	}
	started := answer.Tasks[0]
	if started.StartedBy != call.StartedBy || started.Instance != instances[0] || started.TaskDefinition != "web:1" {
		t.Errorf("task %+v", started)
	}
	// The port is in use on the second instance: only that start fails.
	call.Instances = instances[1:]
	answer, err = f.adapter.StartTask(ctx, call)
	if err != nil || len(answer.Tasks) != 1 || len(answer.Failures) != 1 ||
		answer.Failures[0].Reason != "RESOURCE:PORTS" ||
		cluster.LastPart(answer.Failures[0].ARN) != instances[1] {
		t.Fatalf("StartTask where a port is taken = %+v, %v", answer, err)
	}
	f.clock.pass(time.Minute)
	filters := []cluster.TaskFilter{
		{Cluster: "c"}, {Cluster: "c", StartedBy: call.StartedBy}, {Cluster: "c", StartedBy: "another"},
		{Cluster: "c", Instance: instances[0]}, {Cluster: "c", Instance: instances[0], Desired: cluster.TaskStopped},
	}
	compare := func() {
		t.Helper()
		for _, filter := range filters {
			ids := agree(t, f, "ListTasks", func(e handler.ECS) ([]string, error) { return e.ListTasks(ctx, filter) })
			if len(ids) > 0 {
				agree(t, f, "DescribeTasks", func(e handler.ECS) ([]cluster.ECSTask,
					error) {
					return e.DescribeTasks(ctx, "c", ids)
				})
			}
		}
	}
	compare()
	if err := f.adapter.StopTask(ctx, "c", started.ID, "because"); err != nil {
		t.Fatal(err)
	}
	f.clock.pass(time.Minute)
	compare()
	stopped, err := f.adapter.DescribeTasks(ctx, "c", []string{started.ID, "00000000000000000000000000000000"})
	if err != nil || len(stopped) != 1 || stopped[0].Last != cluster.TaskStopped || stopped[0].Reason == "" {
		t.Errorf("DescribeTasks after StopTask = %+v, %v; want the one task, STOPPED", stopped, err)
	}
	if err := f.adapter.StopTask(ctx, "c", "00000000000000000000000000000000",
		""); cluster.ErrorCode(err) != cluster.CodeInvalidParameter {
		t.Errorf("StopTask of no task = %v", err)
	}
}

func TestForwarderReachesTheSimulatedECS(t *testing.T) {
	ctx := context.Background()
	f := openFleet(t)
	status, answer, err := (&awsapi.Forwarder{Client: f.client}).Forward(ctx, "ListClusters", []byte("{}"))
	if err != nil || status != http.StatusOK || !cmp.Equal(string(answer),
		`{"clusterArns":["arn:aws:ecs:eu-central-1:123456789012:cluster/c"]}`) {
		t.Errorf("ListClusters = %d %s, %v", status, answer, err)
	}
}
