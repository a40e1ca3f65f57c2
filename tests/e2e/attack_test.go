package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"berth/tests/cloud"
	"berth/tests/ministack"
)

// foreignGroup is an Auto Scaling group without Berth's tag.
const foreignGroup = "payments-asg"

// attack tries what must be out of reach, on functions with their roles.
func attack(t *testing.T, l *local) {
	t.Run("AGroupOfOthers", func(t *testing.T) { stealGroup(t, l) })
	t.Run("AClusterOfOthers", func(t *testing.T) { drainOthers(t, l) })
	t.Run("ALoadByAnyone", func(t *testing.T) { forgeLoad(t, l) })
	t.Run("EveryOperationAsEveryone", func(t *testing.T) { walkOperations(t, l) })
	t.Run("ARequestWithoutIAM", func(t *testing.T) { callWithoutIAM(t, l) })
}

// stealGroup names a group that does not carry Berth's tag in a node group of size 0: it keeps its
// instances.
func stealGroup(t *testing.T, l *local) {
	ctx := t.Context()
	s := newCapacityScenario(t, l, "home")
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("home")}))(&s.scenario)
	const name = foreignGroup
	mustSucceed(s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-1"),
			InstanceType: ec2types.InstanceTypeT3Medium},
	}))(&s.scenario)
	mustSucceed(s.groups.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(name), MinSize: aws.Int32(0), MaxSize: aws.Int32(5),
		DesiredCapacity: aws.Int32(3), AvailabilityZones: zones,
		LaunchTemplate: &asgtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String(name),
			Version: aws.String("1")},
	}))(&s.scenario)
	status, answer, err := l.CallEKS(ctx, http.MethodPost, "/clusters/home/node-groups", `{"nodegroupName":"stolen","subnets":["subnet-1"],"nodeRole":"r",
		"scalingConfig":{"minSize":0,"maxSize":5,"desiredSize":0},"tags":{"berth:auto-scaling-group":"payments-asg"}}`)
	if err != nil || status != http.StatusOK {
		t.Fatalf("CreateNodegroup: %d %s, %v", status, answer, err)
	}
	s.awaitSchedule("node-group-upgrade", "node-groups", "the node group is refused", func() bool {
		_, answer, err = l.CallEKS(ctx, http.MethodGet, "/clusters/home/node-groups/stolen", "")
		return err == nil && strings.Contains(string(answer), "CREATE_FAILED")
	})
	if !strings.Contains(string(answer), "create-or-update-tags --tags ResourceId=payments-asg") {
		t.Errorf("the node group is %s, want the command that gives Berth the group", answer)
	}
	out := mustSucceed(s.groups.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}))(&s.scenario)
	if g := out.AutoScalingGroups[0]; *g.DesiredCapacity != 3 || len(g.Instances) != 3 || len(g.Tags) != 0 {
		t.Errorf("the group of others has %d instances of %d and tags %v, want 3 and none", len(g.Instances),
			*g.DesiredCapacity, g.Tags)
	}
}

// drainOthers names a cluster that only ECS knows in an operation that is forwarded.
func drainOthers(t *testing.T, l *local) {
	ctx := t.Context()
	direct := ecs.New(ecs.Options{BaseEndpoint: &l.SimulatedAWS, Region: ministack.Region,
		Credentials: l.SimulatedConfig().Credentials})
	if _, err := direct.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("theirs")}); err != nil {
		t.Fatal(err)
	}
	if err := l.AddInstances("theirs", 1, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	listed, err := direct.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{Cluster: aws.String("theirs")})
	if err != nil || len(listed.ContainerInstanceArns) != 1 {
		t.Fatalf("instances %+v, %v", listed, err)
	}
	body, err := json.Marshal(map[string]any{"cluster": "theirs", "containerInstances": listed.ContainerInstanceArns,
		"status": "DRAINING"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.CallECS(ctx, "UpdateContainerInstancesState", string(body)); err == nil ||
		!strings.Contains(err.Error(), "ClusterNotFoundException") {
		t.Errorf("draining an instance of others: %v, want a ClusterNotFoundException", err)
	}
	got, err := direct.DescribeContainerInstances(ctx,
		&ecs.DescribeContainerInstancesInput{Cluster: aws.String("theirs"),
			ContainerInstances: listed.ContainerInstanceArns})
	if err != nil || len(got.ContainerInstances) != 1 || *got.ContainerInstances[0].Status != "ACTIVE" {
		t.Errorf("instances of others: %+v, %v, want ACTIVE", got, err)
	}
}

// forgeLoad reports a load on the default event bus, where everyone in the account may put events,
// and on Berth's own bus as somebody else: neither is kept. Only what a reporter reports there is.
func forgeLoad(t *testing.T, l *local) {
	ctx := t.Context()
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "loads"}
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(s)
	if err := l.AddInstances(s.cluster, 1, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	s.registerFamily("loaded", 64, 64)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{Cluster: &s.cluster, ServiceName: aws.String("loaded"),
		TaskDefinition: aws.String("loaded"), DesiredCount: aws.Int32(1)}))(s)
	s.awaitSteady("loaded", 1)
	if _, err := l.CallBerth(ctx, "UpdateServiceRules",
		`{"cluster":"loads","service":"loaded","metrics":[{"name":"connections","load":1}]}`); err != nil {
		t.Fatal(err)
	}
	task := *s.runningTasks("loaded")[0].TaskArn
	report := func(as aws.Credentials, name string, load int) error {
		bus := eventbridge.New(eventbridge.Options{BaseEndpoint: &l.Endpoint, Region: ministack.Region,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return as,
					nil
			})})
		out, err := bus.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
			EventBusName: &name, Source: aws.String("berth.load"), DetailType: aws.String("Task Load Report"),
			Detail: aws.String(fmt.Sprintf(`{"taskArn":%q,"loads":{"connections":%d}}`, task, load)),
		}}})
		if err == nil && out.FailedEntryCount != 0 {
			err = fmt.Errorf("%+v", out.Entries)
		}
		return err
	}
	rows := func() string {
		s.runRetries(l)
		answer, err := l.CallBerth(ctx, "ListClusterRows", `{"cluster":"loads"}`)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	users := map[cloud.Caller]aws.Credentials{}
	for _, u := range []cloud.Caller{cloud.Operator, cloud.Reporter} {
		as, err := l.CreateCaller(ctx, u, "events:PutEvents")
		if err != nil {
			t.Fatal(err)
		}
		users[u] = as
	}
	own := l.Resources["LoadBus"]
	if err := report(users[cloud.Operator], "default", 1_000_001); err != nil {
		t.Fatal(err) // everyone in the account may put events there
	}
	if err := report(users[cloud.Operator], own, 2_000_002); err == nil ||
		!strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("a load of somebody who is not in LoadReporterArns: %v, want it denied", err)
	}
	if err := report(users[cloud.Reporter], own, 77_007); err != nil {
		t.Fatal(err)
	}
	s.await("the load reported on Berth's bus", func() bool { return strings.Contains(rows(), "77007") })
	if all := rows(); strings.Contains(all, "1000001") || strings.Contains(all, "2000002") {
		t.Errorf("a forged load is kept: %s", all)
	}
}
