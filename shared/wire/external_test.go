package wire_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func TestLaunchTypeExternal(t *testing.T) {
	anywhere := func(in *ecs.CreateServiceInput) {
		in.TaskDefinition, in.LaunchType = new("anywhere"), types.LaunchTypeExternal
	}
	t.Run("OfAService", func(t *testing.T) {
		b := newBerth(t)
		b.create(t, anywhere)
		expect(t, "external", b.scheduler.lastMade.Rules.External, true)
		expect(t, "names a launch type", b.scheduler.lastMade.Launched, true)
		b.scheduler.services["prod/web"].Service.Rules.External = true
		got := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
			Services: []string{"web"}}))(t).Services[0]
		expect(t, "launch type", got.LaunchType, types.LaunchTypeExternal)
		expect(t, "launch type of the deployment", got.Deployments[0].LaunchType, types.LaunchTypeExternal)
		_, err := b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
			TaskDefinition: new("shop")})
		refused(t, err, invalidParameter, "Task definition does not support launch_type EXTERNAL.")
	})
	t.Run("OfTasks", func(t *testing.T) {
		b := newBerth(t)
		must(b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("anywhere"),
			LaunchType: types.LaunchTypeExternal}))(t)
		expect(t, "external", b.scheduler.lastSpec.Rules.External, true)
		_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("anywhere")})
		refused(t, err, invalidParameter, "Task definition does not support launch_type EC2.")
		must(b.StartTask(t.Context(), &ecs.StartTaskInput{Cluster: new("prod"), TaskDefinition: new("anywhere"),
			ContainerInstances: []string{"0a"}}))(t)
	})
	t.Run("IsRefusedWhereECSRefusesIt", func(t *testing.T) {
		b := newBerth(t)
		for body, want := range map[string]string{
			`"taskDefinition":"shop"`: "Task definition does not support launch_type EXTERNAL.",
			`"taskDefinition":"anywhere","loadBalancers":[{"targetGroupArn":"` + targetGroup + `","containerName":"app","containerPort":80}]`: "The EXTERNAL launch type does not support loadBalancers",
			`"taskDefinition":"anywhere","capacityProviderStrategy":[{"capacityProvider":"a","weight":1}]`:                                    "both a launch type and capacity provider strategy",
		} {
			_, code, message := b.answered(t, "CreateService",
				`{"cluster":"prod","serviceName":"s","desiredCount":1,"launchType":"EXTERNAL",`+body+`}`)
			expect(t, "code of "+want, code, invalidParameter)
			if !strings.Contains(message, want) {
				t.Errorf("%q, want %q", message, want)
			}
		}
	})
	t.Run("FiltersLists", func(t *testing.T) {
		b := newBerth(t)
		for launch, want := range map[types.LaunchType]*bool{"": nil, types.LaunchTypeEc2: new(false),
			types.LaunchTypeExternal: new(true)} {
			must(b.ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: new("prod"), LaunchType: launch}))(t)
			expect(t, "asked for with "+string(launch), b.scheduler.lastQuery.External, want)
		}
		got := must(b.ListServices(t.Context(), &ecs.ListServicesInput{Cluster: new("prod"),
			LaunchType: types.LaunchTypeFargate}))(t)
		expect(t, "of Fargate", len(got.ServiceArns), 0)
		b.create(t)
		for manager, want := range map[types.ResourceManagementType]int{"": 1, types.ResourceManagementTypeCustomer: 1,
			types.ResourceManagementTypeEcs: 0} {
			got := must(b.ListServices(t.Context(), &ecs.ListServicesInput{Cluster: new("prod"),
				ResourceManagementType: manager}))(t)
			expect(t, "managed by "+string(manager), len(got.ServiceArns), want)
		}
	})
}
