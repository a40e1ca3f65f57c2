package wire_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
)

const (
	targetGroup = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/0123456789abcdef"
	registryARN = "arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-0123456789abcdef"
)

// wideName has as many characters as the name of an alarm can have, each of three bytes.
var wideName = strings.Repeat("警", 255)

// everything is a service with all the parameters that Berth serves.
func everything(in *ecs.CreateServiceInput) {
	in.TaskDefinition = new("awsvpc")
	in.LoadBalancers = []types.LoadBalancer{{TargetGroupArn: new(targetGroup), ContainerName: new("app"),
		ContainerPort: new(int32(80))}}
	in.ServiceRegistries = []types.ServiceRegistry{{RegistryArn: new(registryARN), ContainerName: new("app"),
		ContainerPort: new(int32(80))}}
	in.HealthCheckGracePeriodSeconds = new(int32(30))
	in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: new("spot"), Weight: 3},
		{CapacityProvider: new("on-demand"), Base: 2}}
	in.AvailabilityZoneRebalancing = types.AvailabilityZoneRebalancingDisabled
	in.EnableECSManagedTags, in.EnableExecuteCommand, in.PropagateTags = true, true, types.PropagateTagsService
	in.DeploymentConfiguration = &types.DeploymentConfiguration{
		MinimumHealthyPercent: new(int32(50)), MaximumPercent: new(int32(150)),
		Strategy: types.DeploymentStrategyRolling,
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{
			Enable: true, Rollback: true, ResetOnHealthyTask: new(false),
			ThresholdConfiguration: &types.ThresholdConfiguration{Type: types.ThresholdTypeCount, Value: 5},
		},
		Alarms: &types.DeploymentAlarms{AlarmNames: []string{wideName}, Enable: true},
		EarlySuccessCriteria: &types.DeploymentEarlySuccessCriteria{
			Enable: true, HealthyPercent: new(int32(80)),
			SourceServiceRevisionCleanup: types.ServiceRevisionCleanupDeferred,
		},
	}
}

func TestServiceParameters(t *testing.T) {
	b := newBerth(t)
	b.create(t, everything)
	made := b.scheduler.lastMade
	off, on := false, true
	expect(t, "parameters", made.ServiceParameters, operation.ServiceParameters{
		Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true, Cumulative: true,
			Type: cluster.ThresholdCount, Value: 5},
		Alarms:        &cluster.DeploymentAlarms{Names: []string{wideName}, Enable: true},
		Early:         &cluster.EarlySuccess{Enable: true, Percent: 80, Deferred: true},
		LoadBalancers: &[]cluster.LoadBalancer{{TargetGroup: targetGroup, Container: "app", Port: 80}},
		Registries:    &[]cluster.Registry{{ARN: registryARN, Container: "app", ContainerPort: 80}},
		Grace:         new(30), ZoneRebalancing: &off, ManagedTags: &on, ExecuteCommand: &on,
		Providers: &[]cluster.ProviderShare{{Provider: "spot", Weight: 3}, {Provider: "on-demand", Base: 2}},
	})
	expect(t, "propagated tags", made.PropagateTags, "SERVICE")
}

// The API shows what a service's row has, in the words in which the caller gave it.
func TestServiceShape(t *testing.T) {
	b := newBerth(t)
	b.create(t, everything)
	p := b.scheduler.lastMade.ServiceParameters
	row := b.scheduler.services["prod/web"]
	row.Service.Breaker, row.Service.Alarms, row.Service.Early, row.Service.Grace, row.Service.Providers = *p.Breaker,
		*p.Alarms, *p.Early, *p.Grace, *p.Providers
	row.Service.Options, row.Service.PropagateTags,
		row.Service.ZoneRebalancing = cluster.ServiceOptions{ManagedTags: true, ExecuteCommand: true}, "SERVICE", true
	row.Service.Deployment.LoadBalancers, row.Service.Deployment.Registries = *p.LoadBalancers, *p.Registries
	row.Service.Deployment.Providers = *p.Providers // the older one came without
	row.Service.Deployment.Running, row.Service.Deployment.Pending = 1, 1
	row.Service.Deployment.State, row.Service.Deployment.Reason = cluster.RolloutFailed,
		"ECS deployment circuit breaker: tasks failed to start."
	row.Service.Older = []cluster.Deployment{{
		Revision:  cluster.Revision{ID: "ecs-svc/1111111111111111111", CreatedAt: noon, TaskDefinition: "shop:2"},
		UpdatedAt: noon,
		State:     cluster.RolloutCompleted, Desired: 3, Running: 2,
	}}
	row.Service.Release = &cluster.Release{ID: "r1"}
	got := must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
		Services: []string{"web"}}))(t).Services[0]

	var in ecs.CreateServiceInput
	everything(&in)
	expect(t, "deployment configuration", got.DeploymentConfiguration, in.DeploymentConfiguration)
	expect(t, "load balancers", got.LoadBalancers, in.LoadBalancers)
	expect(t, "registries", got.ServiceRegistries, in.ServiceRegistries)
	expect(t, "providers", got.CapacityProviderStrategy, in.CapacityProviderStrategy)
	expect(t, "launch type", got.LaunchType, types.LaunchType(""))
	expect(t, "grace", *got.HealthCheckGracePeriodSeconds, int32(30))
	expect(t, "rebalancing", got.AvailabilityZoneRebalancing, types.AvailabilityZoneRebalancingEnabled)
	expect(t, "tags", got.PropagateTags, types.PropagateTagsService)
	expect(t, "options", []bool{got.EnableECSManagedTags, got.EnableExecuteCommand}, []bool{true, true})
	expect(t, "deployments", got.Deployments, []types.Deployment{
		{
			Id: new("ecs-svc/1234567890123456789"), Status: new("PRIMARY"),
			TaskDefinition: new(account.ARN("task-definition", "awsvpc:1")),
			DesiredCount:   2, RunningCount: 1, PendingCount: 1, CreatedAt: &noon, UpdatedAt: &noon,
			CapacityProviderStrategy: in.CapacityProviderStrategy,
			RolloutState:             types.DeploymentRolloutStateFailed,
			RolloutStateReason:       new("ECS deployment circuit breaker: tasks failed to start."),
		}, {
			Id: new("ecs-svc/1111111111111111111"), Status: new("ACTIVE"),
			TaskDefinition: new(account.ARN("task-definition", "shop:2")),
			DesiredCount:   3, RunningCount: 2, CreatedAt: &noon, UpdatedAt: &noon, LaunchType: types.LaunchTypeEc2,
			RolloutState:       types.DeploymentRolloutStateCompleted,
			RolloutStateReason: new("ECS deployment ecs-svc/1111111111111111111 completed."),
		},
	})
	expect(t, "service deployment", *got.CurrentServiceDeployment,
		account.ARN("service-deployment", "prod", "web", "r1"))
	expect(t, "revisions", got.CurrentServiceRevisions, []types.ServiceCurrentRevisionSummary{
		{Arn: new(account.ARN("service-revision", "prod", "web", "1234567890123456789")), RequestedTaskCount: 2,
			RunningTaskCount: 1, PendingTaskCount: 1},
		{Arn: new(account.ARN("service-revision", "prod", "web", "1111111111111111111")), RequestedTaskCount: 3,
			RunningTaskCount: 2},
	})
}

// What is given reaches the scheduler, the rest stays as it was, and an empty list removes
// everything.
func TestUpdateService(t *testing.T) {
	b := newBerth(t)
	b.create(t)
	update := func(set func(*ecs.UpdateServiceInput)) operation.UpdateService {
		t.Helper()
		in := &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web")}
		set(in)
		must(b.UpdateService(t.Context(), in))(t)
		return b.scheduler.lastEdit
	}
	expect(t, "nothing", update(func(*ecs.UpdateServiceInput) {}),
		operation.UpdateService{Cluster: "prod", Name: "web"})
	got := update(func(in *ecs.UpdateServiceInput) {
		in.LoadBalancers, in.ServiceRegistries = []types.LoadBalancer{}, []types.ServiceRegistry{}
		in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{}
		in.PlacementConstraints, in.PlacementStrategy = []types.PlacementConstraint{}, []types.PlacementStrategy{}
		in.NetworkConfiguration = &types.NetworkConfiguration{}
	})
	for what, n := range map[string]int{
		"load balancers": len(*got.LoadBalancers), "registries": len(*got.Registries), "providers": len(*got.Providers),
		"constraints": len(*got.Constraints), "strategies": len(*got.Strategies), "subnets": len(got.Network.Subnets),
	} {
		expect(t, what, n, 0)
	}
	got = update(func(in *ecs.UpdateServiceInput) {
		var c ecs.CreateServiceInput
		everything(&c)
		in.LoadBalancers, in.ServiceRegistries, in.CapacityProviderStrategy = c.LoadBalancers, c.ServiceRegistries,
			c.CapacityProviderStrategy
		in.DeploymentConfiguration, in.HealthCheckGracePeriodSeconds = c.DeploymentConfiguration,
			c.HealthCheckGracePeriodSeconds
		in.AvailabilityZoneRebalancing = types.AvailabilityZoneRebalancingEnabled
		in.EnableECSManagedTags, in.EnableExecuteCommand = new(false), new(true)
		in.ForceNewDeployment, in.TaskDefinition = true, new("awsvpc")
	})
	expect(t, "force", got.Force, true)
	expect(t, "task definition", got.TaskDefinition, "awsvpc:1")
	expect(t, "percentages", []int{*got.MinHealthy, *got.MaxPercent}, []int{50, 150})
	expect(t, "breaker", got.Breaker.Value, 5)
	expect(t, "rebalancing", *got.ZoneRebalancing, true)
	expect(t, "options", []bool{*got.ManagedTags, *got.ExecuteCommand}, []bool{false, true})
	expect(t, "target group", (*got.LoadBalancers)[0].TargetGroup, targetGroup)

	// A new task definition must have what the service's load balancers name.
	b.scheduler.services["prod/web"].Service.Deployment.LoadBalancers = []cluster.LoadBalancer{{TargetGroup: targetGroup, Container: "web", Port: 80}}
	_, err := b.UpdateService(t.Context(), &ecs.UpdateServiceInput{Cluster: new("prod"), Service: new("web"),
		TaskDefinition: new("shop")})
	refused(t, err, invalidParameter, "The container web does not exist in the task definition.")
}

// Parameters out of bounds are refused with a message that says what is wrong, and nothing changes.
func TestServiceBounds(t *testing.T) {
	lb := func(more string) string {
		return `"loadBalancers":[{"targetGroupArn":"` + targetGroup + `"` + more + `}]`
	}
	reg := func(more string) string {
		return `"serviceRegistries":[{"registryArn":"` + registryARN + `"` + more + `}]`
	}
	breaker := func(threshold string) string {
		return `"deploymentConfiguration":{"deploymentCircuitBreaker":{"enable":true,"thresholdConfiguration":` + threshold + `}}`
	}
	for _, c := range []struct{ name, member, code, has string }{
		{"Advanced", lb(`,"advancedConfiguration":{}`), notSupported, "loadBalancers.advancedConfiguration"},
		{"NoTargetGroup", `"loadBalancers":[{"targetGroupArn":"a"}]`, invalidParameter,
			`loadBalancers.targetGroupArn is "a"`},
		{"NoContainer", lb(``), invalidParameter, "Container Name can not be blank."},
		{"NoPort", lb(`,"containerName":"app"`), invalidParameter, "loadBalancers.containerPort must not be empty"},
		{"Port", lb(`,"containerName":"app","containerPort":65536`), invalidParameter, "containerPort is 65536"},
		{"OtherContainer", lb(`,"containerName":"web","containerPort":80`), invalidParameter,
			"The container web does not exist in the task definition."},
		{"OtherPort", lb(`,"containerName":"app","containerPort":81`), invalidParameter,
			"The container app did not have a container port 81 defined."},
		{"TooManyLoadBalancers", `"loadBalancers":` + list(6, `{}`), invalidParameter, "loadBalancers has 6 items"},
		{"SameTargetGroup", `"loadBalancers":` + list(2,
			`{"targetGroupArn":"`+targetGroup+`","containerName":"app","containerPort":80}`), invalidParameter,
			"twice"},
		{"NoRegistry", `"serviceRegistries":[{"registryArn":"a"}]`, invalidParameter,
			`serviceRegistries.registryArn is "a"`},
		{"TooManyRegistries", `"serviceRegistries":` + list(2, `{}`), invalidParameter,
			"serviceRegistries has 2 items"},
		{"RegistryHalf", reg(`,"containerName":"app"`), invalidParameter, "together"},
		{"RegistryBoth", reg(`,"containerName":"app","containerPort":80,"port":80`), invalidParameter, "not both"},
		{"RegistryPort", reg(`,"port":0`), invalidParameter, "serviceRegistries.port is 0"},
		{"RegistryOnBridge", reg(``), invalidParameter,
			"When specifying 'host' or 'bridge' for networkMode, values for 'containerName' and 'containerPort' must be specified from the task definition."},
		{"RegistryOfInstances", reg(`,"containerName":"app","containerPort":80`), notSupported,
			"serviceRegistries with networkMode bridge is not supported: "},
		{"RegistryContainer", reg(`,"containerName":"web","containerPort":80`), invalidParameter,
			"The container web does not exist"},
		{"Grace", `"healthCheckGracePeriodSeconds":-1`, invalidParameter, "healthCheckGracePeriodSeconds is -1"},
		{"Rebalancing", `"availabilityZoneRebalancing":"MAYBE"`, invalidParameter, "expected ENABLED or DISABLED."},
		{"Fargate", `"capacityProviderStrategy":[{"capacityProvider":"FARGATE_SPOT","weight":1}]`, notSupported,
			"FARGATE_SPOT"},
		{"NoProvider", `"capacityProviderStrategy":[{"weight":1}]`, invalidParameter,
			"capacityProviderStrategy.capacityProvider"},
		{"ProviderElsewhere", `"capacityProviderStrategy":[{"capacityProvider":` +
			`"arn:aws:ecs:eu-west-1:210987654321:capacity-provider/spot","weight":1}]`, invalidParameter,
			"Identifier is for 210987654321. Your account is 123456789012"},
		{"ProviderOfOtherKind", `"capacityProviderStrategy":[{"capacityProvider":` +
			`"arn:aws:ecs:eu-west-1:123456789012:cluster/spot","weight":1}]`, invalidParameter,
			"is not the ARN of a capacity-provider"},
		{"ProviderPath", `"capacityProviderStrategy":[{"capacityProvider":"some/spot","weight":1}]`, invalidParameter,
			"The capacity provider name is invalid"},
		{"MixedProviders", `"capacityProviderStrategy":[{"capacityProvider":"FARGATE","weight":1},{"capacityProvider":` +
			`"a","weight":1}]`, invalidParameter, "cannot contain a mix of capacity providers"},
		{"Base", `"capacityProviderStrategy":[{"capacityProvider":"a","weight":1,"base":100001}]`, invalidParameter,
			"is 100001"},
		{"TwoBases",
			`"capacityProviderStrategy":[{"capacityProvider":"a","weight":1,"base":1},{"capacityProvider":"b","base":1}]`, invalidParameter,
			"There are multiple capacity providers in the specified capacity provider strategy with a base value " +
				"greater than zero. Only one capacity provider can have a base value greater than zero. Specify a valid " +
				"capacity provider strategy and try again."},
		{"Weight", `"capacityProviderStrategy":[{"capacityProvider":"a","weight":1001}]`, invalidParameter, "is 1001"},
		{"NoWeight", `"capacityProviderStrategy":[{"capacityProvider":"a","base":1}]`, invalidParameter,
			"There are no capacity providers in the capacity provider strategy with a weight value greater than zero. " +
				"Specify a weight value greater than zero for at least one capacity provider and try again."},
		{"SameProvider", `"capacityProviderStrategy":` + list(2, `{"capacityProvider":"a","weight":1}`),
			invalidParameter, "twice"},
		{"TooManyProviders", `"capacityProviderStrategy":` + list(21, `{"capacityProvider":"a","weight":1}`),
			invalidParameter, "has 21 items"},
		{"Threshold", breaker(`{"type":"BOUNDED_PERCENT","value":101}`), invalidParameter, "value is 101"},
		{"ThresholdCount", breaker(`{"type":"COUNT","value":0}`), invalidParameter, "value is 0"},
		{"ThresholdType", breaker(`{"type":"SOME","value":1}`), invalidParameter, "thresholdConfiguration.type"},
		{"NoThresholdType", breaker(`{"value":1}`), invalidParameter, "type must not be empty"},
		{"NoAlarms", `"deploymentConfiguration":{"alarms":{"enable":true,"alarmNames":[]}}`, invalidParameter,
			"alarmNames cannot be empty"},
		{"TooManyAlarms", `"deploymentConfiguration":{"alarms":{"enable":true,"alarmNames":` + list(101, `"a"`) + `}}`,
			invalidParameter, "101 items"},
		{"AlarmName", `"deploymentConfiguration":{"alarms":{"enable":true,"alarmNames":["` + strings.Repeat("a",
			256) + `"]}}`, invalidParameter, "1 to 255 characters"},
		{"EarlyHalf", `"deploymentConfiguration":{"earlySuccessCriteria":{"enable":true,"healthyPercent":50}}`,
			invalidParameter, "must have healthyPercent and sourceServiceRevisionCleanup"},
		{"EarlyPercent",
			`"deploymentConfiguration":{"earlySuccessCriteria":{"enable":true,"healthyPercent":101,"sourceServiceRevisionCleanup":"BLOCKING"}}`, invalidParameter, "healthyPercent is 101"},
		{"EarlyCleanup",
			`"deploymentConfiguration":{"earlySuccessCriteria":{"enable":true,"healthyPercent":1,"sourceServiceRevisionCleanup":"SOON"}}`, invalidParameter, "sourceServiceRevisionCleanup"},
		{"Strategy", `"deploymentConfiguration":{"strategy":"SOON"}`, invalidParameter,
			"deploymentConfiguration.strategy"},
	} {
		for op, base := range map[string]string{"CreateService": `"serviceName":"new","taskDefinition":"shop","desiredCount":1`, "UpdateService": `"service":"web"`} {
			t.Run(op+"/"+c.name, func(t *testing.T) {
				b := newBerth(t)
				b.create(t)
				status, code, message := b.answered(t, op, `{"cluster":"prod",`+base+`,`+c.member+`}`)
				if status != 400 || code != c.code || !strings.Contains(message, c.has) {
					t.Errorf("%d %s %s, want %s with %q", status, code, message, c.code, c.has)
				}
				if len(b.scheduler.services) != 1 || b.scheduler.lastEdit.Name != "" {
					t.Error("something changed")
				}
			})
		}
	}
	t.Run("LaunchTypeAndProviders", func(t *testing.T) {
		b := newBerth(t)
		_, code, message := b.answered(t, "CreateService",
			`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"launchType":"EC2","capacityProviderStrategy":[{"capacityProvider":"a","weight":1}]}`)
		if code != invalidParameter || !strings.Contains(message, "both a launch type and capacity provider strategy") {
			t.Error(code, message)
		}
	})
	t.Run("DaemonAndProviders", func(t *testing.T) {
		b := newBerth(t)
		_, code, _ := b.answered(t, "CreateService",
			`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","capacityProviderStrategy":[{"capacityProvider":"a","weight":1}]}`)
		expect(t, "code", code, notSupported)
	})
}

func TestRunTaskProviders(t *testing.T) {
	b := newBerth(t)
	in := &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop"),
		CapacityProviderStrategy: []types.CapacityProviderStrategyItem{
			{CapacityProvider: new(account.ARN("capacity-provider", "spot")), Weight: 3},
			{CapacityProvider: new("on-demand"), Base: 2},
		}}
	must(b.RunTask(t.Context(), in))(t)
	expect(t, "providers", b.scheduler.lastSpec.Rules.Providers,
		[]cluster.ProviderShare{{Provider: "spot", Weight: 3}, {Provider: "on-demand", Base: 2}})
	in.LaunchType = types.LaunchTypeEc2
	_, err := b.RunTask(t.Context(), in)
	refused(t, err, invalidParameter, "both a launch type and capacity provider strategy")
	in.LaunchType, in.CapacityProviderStrategy = "",
		[]types.CapacityProviderStrategyItem{{CapacityProvider: new("spot")}}
	_, err = b.RunTask(t.Context(), in)
	refused(t, err, invalidParameter, "in the capacity provider strategy with a weight value greater than zero")
	elsewhere := strings.Replace(account.ARN("capacity-provider", "spot"), account.ID, "210987654321", 1)
	in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: &elsewhere, Weight: 1}}
	_, err = b.RunTask(t.Context(), in)
	refused(t, err, invalidParameter, "Identifier is for 210987654321")
}
