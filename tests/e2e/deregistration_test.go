package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// As with ECS, a service keeps using a task definition that was deregistered, as `terraform apply`
// does with the revision that it replaces. The simulated ECS refuses StartTask of an INACTIVE
// revision, as AWS does.
func TestServicesKeepDeregisteredTaskDefinitions(t *testing.T) {
	v := newVirtual(t)
	s := &scenario{t: t, tier: v, api: v.Client(), cluster: "harbour"}
	ctx := t.Context()
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(s)
	if err := v.AddInstances(s.cluster, 2, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	s.await("two instances", func() bool { return len(s.instances()) == 2 })
	for range 2 {
		s.registerFamily("quay", 128, 128)
	}
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{Cluster: &s.cluster, ServiceName: aws.String("quay"),
		TaskDefinition: aws.String("quay:2"), DesiredCount: aws.Int32(2)}))(s)
	s.awaitSteady("quay", 2)
	for range 2 {
		ended := mustSucceed(s.api.DeregisterTaskDefinition(ctx,
			&ecs.DeregisterTaskDefinitionInput{TaskDefinition: aws.String("quay:2")}))(s)
		if ended.TaskDefinition.Status != types.TaskDefinitionStatusInactive {
			t.Errorf("deregistered it is %s", ended.TaskDefinition.Status)
		}
	}

	// Everybody sees it as INACTIVE, and nothing new may use it.
	status := func(name string) (string, types.TaskDefinitionStatus) {
		d := mustSucceed(s.api.DescribeTaskDefinition(ctx,
			&ecs.DescribeTaskDefinitionInput{TaskDefinition: &name}))(s).TaskDefinition
		arn := *d.TaskDefinitionArn
		return arn[strings.LastIndexByte(arn, '/')+1:], d.Status
	}
	if _, got := status("quay:2"); got != types.TaskDefinitionStatusInactive {
		t.Errorf("it is described as %s", got)
	}
	if name, got := status("quay"); name != "quay:1" || got != types.TaskDefinitionStatusActive {
		t.Errorf("the family's latest revision is %s, %s", name, got)
	}
	active := mustSucceed(s.api.ListTaskDefinitions(ctx,
		&ecs.ListTaskDefinitionsInput{FamilyPrefix: aws.String("quay")}))(s).TaskDefinitionArns
	inactive := mustSucceed(s.api.ListTaskDefinitions(ctx, &ecs.ListTaskDefinitionsInput{
		FamilyPrefix: aws.String("quay"), Status: types.TaskDefinitionStatusInactive}))(s).TaskDefinitionArns
	if len(active) != 1 || len(inactive) != 1 || !strings.HasSuffix(inactive[0], "quay:2") {
		t.Errorf("%v are ACTIVE, %v INACTIVE", active, inactive)
	}
	_, err := s.api.RunTask(ctx, &ecs.RunTaskInput{Cluster: &s.cluster, TaskDefinition: aws.String("quay:2")})
	if err == nil || !strings.Contains(err.Error(), "ClientException: TaskDefinition is inactive") {
		t.Errorf("RunTask answers %v", err)
	}

	// The service still replaces tasks, also after a sweep.
	atECS := func() bool {
		d, err := v.AWS.ECS.DescribeTaskDefinition(ctx, "quay:2")
		if err != nil {
			t.Fatal(err)
		}
		return d.Inactive
	}
	v.Loop.RunUntil(v.Loop.Now().Add(2 * time.Hour))
	if atECS() {
		t.Error("ECS has deregistered a revision that a service uses")
	}
	lost := s.runningTasks("quay")[0]
	mustSucceed(s.api.StopTask(ctx, &ecs.StopTaskInput{Cluster: &s.cluster, Task: lost.TaskArn}))(s)
	s.await("a replacement", func() bool {
		running := s.runningTasks("quay")
		return len(running) == 2 && *running[0].TaskArn != *lost.TaskArn && *running[1].TaskArn != *lost.TaskArn
	})

	// Once it has moved on, the sweep deregisters the revision at ECS.
	mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("quay"),
		TaskDefinition: aws.String("quay")}))(s)
	s.await("the deployment", func() bool {
		d := s.describeService("quay").Deployments
		return len(d) == 1 && d[0].RolloutState == types.DeploymentRolloutStateCompleted &&
			strings.HasSuffix(*d[0].TaskDefinition, "quay:1")
	})
	v.Loop.RunUntil(v.Loop.Now().Add(2 * time.Hour))
	if !atECS() {
		t.Error("ECS has not deregistered the revision")
	}
	if _, got := status("quay:2"); got != types.TaskDefinitionStatusInactive {
		t.Errorf("it is described as %s", got)
	}
}
