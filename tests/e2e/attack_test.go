package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/tests/lambda"
	"berth/tests/ministack"
)

const (
	writerARN  = "arn:aws:iam::000000000000:user/writer"
	managerARN = "arn:aws:iam::000000000000:role/node-groups"
)

// attack tries what must be out of reach, on functions with their roles.
func attack(t *testing.T, l *local) {
	t.Run("AGroupOfOthers", func(t *testing.T) { stealGroup(t, l) })
	t.Run("AClusterOfOthers", func(t *testing.T) { drainOthers(t, l) })
	t.Run("EveryOperationAsEveryone", func(t *testing.T) { callAsEveryone(t, l) })
}

// stealGroup names a group that does not carry Berth's tag in a node group of size 0: it keeps its
// instances.
func stealGroup(t *testing.T, l *local) {
	ctx := t.Context()
	s := newCapacityScenario(t, l, "home")
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: aws.String("home")}))(&s.scenario)
	const name = "payments-asg"
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

// callAsEveryone calls operations of each right through the deployed function, with the event that
// the function URL sends for each caller. The emulator's own URL names no caller, so the events are
// made here.
func callAsEveryone(t *testing.T, l *local) {
	ctx := t.Context()
	for operation, allowed := range map[string][]string{
		"ListServices":  {writerARN, managerARN, "arn:aws:iam::000000000000:user/reader"},
		"DeleteService": {writerARN}, "StopTask": {writerARN}, "PutAttributes": {writerARN},
		"DeleteCluster":          {writerARN},
		"CreateCapacityProvider": {managerARN}, "DeleteCapacityProvider": {managerARN},
	} {
		for _, principal := range []string{writerARN, managerARN, "arn:aws:iam::000000000000:user/reader"} {
			answer, err := l.Invoke(ctx, "api", urlEvent(t, principal, operation))
			if err != nil {
				t.Fatal(err)
			}
			if refused := strings.Contains(answer, "not authorized to perform"); refused == slices.Contains(allowed,
				principal) {
				t.Errorf("%s as %s: %s, want it allowed to %v alone", operation, principal, answer, allowed)
			}
		}
	}
	f, err := l.DeployedFunction(ctx, "api")
	if err != nil {
		t.Fatal(err)
	}
	f.Environment = append(slices.DeleteFunc(f.Environment,
		func(v string) bool { return strings.HasPrefix(v, "REQUIRE_IAM=") }), "REQUIRE_IAM=true")
	r, err := lambda.Start(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for principal, status := range map[string]string{"": `"statusCode":403`, writerARN: `"statusCode":200`} {
		answer, err := r.Invoke(ctx, urlEvent(t, principal, "ListClusters"))
		if err != nil || !strings.Contains(string(answer), status) {
			t.Errorf("as on AWS, called by %q: %s, %v, want %s", principal, answer, err, status)
		}
	}
}

// urlEvent is what the function URL sends for a call.
func urlEvent(t *testing.T, principal, operation string) []byte {
	t.Helper()
	in := events.LambdaFunctionURLRequest{
		Version: "2.0", RawPath: "/", Body: `{}`,
		Headers: map[string]string{"x-amz-target": "AmazonEC2ContainerServiceV20141113." + operation,
			"content-type": "application/x-amz-json-1.1"},
	}
	in.RequestContext.HTTP.Method = http.MethodPost
	if principal != "" {
		in.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: principal},
		}
	}
	event, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return event
}
