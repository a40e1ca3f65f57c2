package shape_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

const arns = "arn:aws:ecs:eu-west-1:123456789012:"

func TestParseInstance(t *testing.T) {
	zoned := noon.In(time.FixedZone("", 3600))
	got := shape.ParseInstance("prod", types.ContainerInstance{
		ContainerInstanceArn: new(arns + "container-instance/prod/0a"), Ec2InstanceId: new("i-1"), Status: new("DRAINING"),
		AgentConnected: true, Version: 7, RegisteredAt: &zoned,
		VersionInfo: &types.VersionInfo{AgentVersion: new("1.98.0")},
		Attributes:  []types.Attribute{{Name: new("ecs.availability-zone"), Value: new("a")}, {Name: new("flag")}},
		RegisteredResources: []types.Resource{
			{Name: new("CPU"), IntegerValue: 2048}, {Name: new("MEMORY"), IntegerValue: 7680},
			{Name: new("PORTS"), StringSetValue: []string{"22", "none", "70000"}}, {Name: new("PORTS_UDP"), StringSetValue: []string{"53"}},
			{Name: new("GPU"), StringSetValue: []string{"GPU-1", "GPU-2"}}, {Name: new("OTHER"), IntegerValue: 1},
		},
	})
	expect(t, "instance", got, &cluster.Instance{
		Head: cluster.Head{Cluster: "prod"}, ID: "0a", EC2InstanceID: "i-1", Status: cluster.InstanceDraining, AgentConnected: true,
		AgentVersion: "1.98.0",
		Version:      7, RegisteredAt: cluster.At(noon), Attributes: map[string]string{"ecs.availability-zone": "a", "flag": ""},
		Registered: cluster.Capacity{
			CPU: 2048 * cluster.CPUUnit, Memory: 7680, GPUs: []string{"GPU-1", "GPU-2"},
			Ports: []cluster.Port{{Number: 22, Protocol: cluster.TCP}, {Number: 53, Protocol: cluster.UDP}},
		},
	})
	expect(t, "location", got.RegisteredAt.Time().Location().String(), "UTC")
	expect(t, "nothing known", shape.ParseInstance("prod", types.ContainerInstance{}).RegisteredAt.IsZero(), true)
}

func TestParseTask(t *testing.T) {
	later := noon.Add(time.Minute)
	got := shape.ParseTask(types.Task{
		TaskArn: new(arns + "task/prod/0b"), ClusterArn: new(arns + "cluster/prod"), TaskDefinitionArn: new(arns + "task-definition/web:3"),
		ContainerInstanceArn: new(arns + "container-instance/prod/0a"), StartedBy: new("me"), Group: new("family:web"),
		LastStatus: new("STOPPED"), DesiredStatus: new("STOPPED"), Version: 5, HealthStatus: types.HealthStatusUnhealthy,
		StartedAt: &noon, StoppedAt: &later, StopCode: types.TaskStopCodeEssentialContainerExited, StoppedReason: new("exited"),
		Cpu: new("256"),
		Containers: []types.Container{
			{Name: new("app"), Cpu: new("10"), Memory: new("300"), MemoryReservation: new("200"), GpuIds: []string{"1"}, NetworkBindings: []types.NetworkBinding{
				{HostPort: new(int32(80)), BindIP: new("0.0.0.0")}, {HostPort: new(int32(80)), BindIP: new("::")},
				{HostPort: new(int32(53)), Protocol: types.TransportProtocolUdp}, {HostPort: new(int32(49153)), ContainerPort: new(int32(8080))}, {},
			}},
			{Cpu: new("20"), Memory: new("100"), GpuIds: []string{"2"}, ExitCode: new(int32(3))},
			{ExitCode: new(int32(4))},
		},
	})
	expect(t, "task", got, cluster.ECSTask{
		Cluster: "prod", ID: "0b", Instance: "0a", StartedBy: "me", Group: "family:web", TaskDefinition: "web:3",
		Last: cluster.TaskStopped, Desired: cluster.TaskStopped, Version: 5, Health: cluster.Unhealthy, Started: noon, Stopped: later,
		StopCode: cluster.StopContainerExited, Reason: "exited", ExitCode: new(3),
		Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 300, GPUs: 2},
		Ports: []cluster.Port{{Number: 80, Protocol: cluster.TCP}, {Number: 53, Protocol: cluster.UDP}},
		Bindings: []cluster.Binding{
			{Container: "app", HostPort: 80, Protocol: cluster.TCP}, {Container: "app", HostPort: 53, Protocol: cluster.UDP},
			{Container: "app", HostPort: 49153, ContainerPort: 8080, Protocol: cluster.TCP},
		},
	})
}

// The address of a task's own network interface is with its containers, or only with the
// attachment.
func TestParseTaskAddress(t *testing.T) {
	for name, task := range map[string]types.Task{
		"OfAContainer": {Containers: []types.Container{{}, {NetworkInterfaces: []types.NetworkInterface{{}, {PrivateIpv4Address: new("10.0.0.7")}}}}},
		"OfTheAttachment": {Attachments: []types.Attachment{
			{Type: new("Service Connect"), Details: []types.KeyValuePair{{Name: new("privateIPv4Address"), Value: new("10.0.0.8")}}},
			{Type: new("ElasticNetworkInterface"), Details: []types.KeyValuePair{
				{Name: new("subnetId"), Value: new("subnet-1")}, {Name: new("privateIPv4Address"), Value: new("10.0.0.7")},
			}},
		}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "address", shape.ParseTask(task).Address, "10.0.0.7") })
	}
}

func TestParseTaskStatus(t *testing.T) {
	for ecs, want := range map[string]cluster.TaskStatus{
		"PROVISIONING": cluster.TaskPending, "PENDING": cluster.TaskPending, "ACTIVATING": cluster.TaskPending,
		"RUNNING": cluster.TaskRunning, "DEACTIVATING": cluster.TaskStopping, "STOPPING": cluster.TaskStopping,
		"DEPROVISIONING": cluster.TaskStopping, "STOPPED": cluster.TaskStopped,
	} {
		t.Run(ecs, func(t *testing.T) {
			got := shape.ParseTask(types.Task{LastStatus: &ecs, DesiredStatus: new("RUNNING"), HealthStatus: types.HealthStatusUnknown})
			expect(t, "last", got.Last, want)
			expect(t, "desired", got.Desired, cluster.TaskRunning)
			expect(t, "health", got.Health, cluster.UnknownHealth)
		})
	}
}

// ECS gets what the caller gave.
func TestOverridesRoundTrip(t *testing.T) {
	want := &types.TaskOverride{
		TaskRoleArn: new("arn:task"), ExecutionRoleArn: new("arn:execution"), Cpu: new("512"), Memory: new("1 GB"),
		ContainerOverrides: []types.ContainerOverride{
			{
				Name: new("app"), Command: []string{"a", ""}, Cpu: new(int32(0)), Memory: new(int32(64)), MemoryReservation: new(int32(32)),
				Environment: []types.KeyValuePair{{Name: new("B"), Value: new("2")}, {Name: new("A"), Value: new("")}},
			},
			{Name: new("side")},
		},
	}
	noun, err := shape.ParseOverrides(want)
	expect(t, "error", err, nil)
	expect(t, "overrides", shape.OverrideShape(noun), want)
	for name, none := range map[string]*types.TaskOverride{"Nil": nil, "Empty": {}} {
		t.Run(name, func(t *testing.T) {
			noun, err := shape.ParseOverrides(none)
			if noun != nil || err != nil || shape.OverrideShape(noun) != nil {
				t.Errorf("%v, %v", noun, err)
			}
		})
	}
}

func TestOverridesRefuses(t *testing.T) {
	one := func(c types.ContainerOverride) *types.TaskOverride {
		return &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{c}}
	}
	for name, c := range map[string]struct {
		o    *types.TaskOverride
		code cluster.Code
		says string
	}{
		"Storage":      {&types.TaskOverride{EphemeralStorage: &types.EphemeralStorage{SizeInGiB: 30}}, cluster.CodeUnsupported, "ephemeralStorage"},
		"NoName":       {one(types.ContainerOverride{}), cluster.CodeInvalidParameter, "name"},
		"Negative":     {one(types.ContainerOverride{Name: new("app"), Cpu: new(int32(-1))}), cluster.CodeInvalidParameter, "app"},
		"GPUs":         {one(types.ContainerOverride{Name: new("app"), ResourceRequirements: []types.ResourceRequirement{{}}}), cluster.CodeUnsupported, "resourceRequirements"},
		"File":         {one(types.ContainerOverride{Name: new("app"), EnvironmentFiles: []types.EnvironmentFile{{}}}), cluster.CodeInvalidParameter, "environmentFiles"},
		"NoVariable":   {one(types.ContainerOverride{Name: new("app"), Environment: []types.KeyValuePair{{Value: new("x")}}}), cluster.CodeInvalidParameter, "app"},
		"TooLong":      {one(types.ContainerOverride{Name: new("app"), Command: []string{strings.Repeat("x", 8190)}}), cluster.CodeInvalidParameter, "8193"},
		"Twice":        {&types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: new("a")}, {Name: new("a")}}}, cluster.CodeInvalidParameter, "twice"},
		"ManyContains": {&types.TaskOverride{ContainerOverrides: make([]types.ContainerOverride, 11)}, cluster.CodeInvalidParameter, "10"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shape.ParseOverrides(c.o)
			if cluster.ErrorCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %s with %q", err, c.code, c.says)
			}
		})
	}
}
