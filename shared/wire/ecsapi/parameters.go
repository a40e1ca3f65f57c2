package ecsapi

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/input"
)

// parseParameters reads what CreateService and UpdateService have in common. What Berth does not do
// is refused by name; an empty list, or a feature that is switched off, asks for nothing and
// passes.
func parseParameters(r input.References, in *ecs.UpdateServiceInput) (p operation.ServiceParameters, err error) {
	if err = checkServiceMembers(in); err != nil {
		return p, err
	}
	if p.LoadBalancers, err = parseList(in.LoadBalancers, parseLoadBalancers); err != nil {
		return p, err
	}
	if p.Registries, err = parseList(in.ServiceRegistries, parseRegistries); err != nil {
		return p, err
	}
	if p.Volumes, err = parseList(in.VolumeConfigurations, parseServiceVolumes); err != nil {
		return p, err
	}
	readStrategy := func(items []types.CapacityProviderStrategyItem) ([]cluster.ProviderShare, error) {
		return parseStrategy(r, items)
	}
	if p.Providers, err = parseList(in.CapacityProviderStrategy, readStrategy); err != nil {
		return p, err
	}
	if err = checkNotNegative("healthCheckGracePeriodSeconds", in.HealthCheckGracePeriodSeconds); err != nil {
		return p, err
	}
	p.Grace = intOrNil(in.HealthCheckGracePeriodSeconds)
	p.ManagedTags, p.ExecuteCommand = in.EnableECSManagedTags, in.EnableExecuteCommand
	if z := in.AvailabilityZoneRebalancing; z != "" {
		p.ZoneRebalancing = new(z == types.AvailabilityZoneRebalancingEnabled)
	}
	if c := in.DeploymentConfiguration; c != nil {
		if p.Breaker, err = parseBreaker(c.DeploymentCircuitBreaker); err != nil {
			return p, err
		}
		if p.Alarms, err = parseAlarms(c.Alarms); err != nil {
			return p, err
		}
		p.Early, err = parseEarlySuccess(c.EarlySuccessCriteria)
	}
	if err == nil && p.Breaker != nil && p.Breaker.Enable &&
		slices.ContainsFunc(input.Value(p.LoadBalancers), isClassic) {
		err = input.Invalid("Deployment circuit breaker feature is not supported with Classic Load Balancers. Remove " +
			"the Classic Load Balancer and try again.") // ECS's words
	}
	return p, err
}

// parseList reads a list. One that is not given stays nil, so UpdateService keeps the old list; an
// empty one is given, and removes it.
func parseList[I, O any](in []I, read func([]I) ([]O, error)) (*[]O, error) {
	if in == nil {
		return nil, nil
	}
	out, err := read(in)
	return &out, err
}

// checkServiceMembers refuses the members that Berth serves neither for CreateService nor for
// UpdateService, apart from those of the deployment configuration.
func checkServiceMembers(in *ecs.UpdateServiceInput) error {
	if err := input.CheckOneOf("propagateTags", in.PropagateTags); err != nil {
		return err
	}
	if err := input.CheckOneOf("availabilityZoneRebalancing", in.AvailabilityZoneRebalancing); err != nil {
		return err
	}
	if err := checkPlatformVersion(in.PlatformVersion); err != nil {
		return err
	}
	controller, err := parseController(in.DeploymentController)
	if err != nil {
		return err
	}
	err = refuseUnserved(
		unserved{"deploymentController.type " + string(controller),
			controller == types.DeploymentControllerTypeCodeDeploy},
		unserved{"serviceConnectConfiguration", in.ServiceConnectConfiguration != nil &&
			in.ServiceConnectConfiguration.Enabled},
		unserved{"vpcLatticeConfigurations", len(in.VpcLatticeConfigurations) > 0},
		unserved{"gatewayConnectors", len(in.GatewayConnectors) > 0},
		unserved{"monitoring", in.Monitoring != nil},
	)
	if err != nil || in.DeploymentConfiguration == nil {
		return err
	}
	return checkDeploymentFeatures(in.DeploymentConfiguration)
}

// parseController returns the deployment controller that the caller names; without one it is ECS.
func parseController(c *types.DeploymentController) (types.DeploymentControllerType, error) {
	if c == nil {
		return types.DeploymentControllerTypeEcs, nil
	}
	if err := input.CheckRequired("deploymentController.type", (*string)(&c.Type)); err != nil {
		return "", err
	}
	return c.Type, input.CheckOneOf("deploymentController.type", c.Type)
}

// checkDeploymentFeatures refuses deployment strategies other than ROLLING, and what belongs to
// them.
func checkDeploymentFeatures(c *types.DeploymentConfiguration) error {
	if err := input.CheckOneOf("deploymentConfiguration.strategy", c.Strategy); err != nil {
		return err
	}
	return refuseUnserved(
		unserved{"deploymentConfiguration.strategy " + string(c.Strategy),
			c.Strategy != "" && c.Strategy != types.DeploymentStrategyRolling},
		unserved{"deploymentConfiguration.bakeTimeInMinutes", input.Value(c.BakeTimeInMinutes) != 0},
		unserved{"deploymentConfiguration.canaryConfiguration", c.CanaryConfiguration != nil},
		unserved{"deploymentConfiguration.linearConfiguration", c.LinearConfiguration != nil},
		unserved{"deploymentConfiguration.lifecycleHooks", len(c.LifecycleHooks) > 0},
	)
}

// parsePercents reads minimumHealthyPercent, 0 to 100, and maximumPercent, at least 1; nil for one
// that is not given. How the two relate is checked when they are applied.
func parsePercents(c *types.DeploymentConfiguration) (least, most *int, err error) {
	if c == nil {
		return nil, nil, nil
	}
	switch n := input.Value(c.MinimumHealthyPercent); {
	case n < 0:
		return nil, nil, input.Invalid("minimumHealthyPercent is %d, but must be between 0 and 100.", n)
	case n > 100:
		return nil, nil, input.Invalid("minimumHealthyPercent must be at most 100")
	}
	if n := c.MaximumPercent; n != nil && *n < 1 {
		return nil, nil, input.Invalid("maximumPercent is %d, but must be at least 1.", *n)
	}
	return intOrNil(c.MinimumHealthyPercent), intOrNil(c.MaximumPercent), nil
}

// parseBreaker reads a circuit breaker, nil if there is none. A threshold is a percentage of the
// desired count, 1 to 100, or a count of at least 1 (S8).
func parseBreaker(b *types.DeploymentCircuitBreaker) (*cluster.CircuitBreaker, error) {
	if b == nil {
		return nil, nil
	}
	// With resetOnHealthyTask, ECS's default, a healthy task sets the count of failures back to 0.
	// Without it they add up over the deployment.
	out := &cluster.CircuitBreaker{Enable: b.Enable, Rollback: b.Rollback,
		Cumulative: b.ResetOnHealthyTask != nil && !*b.ResetOnHealthyTask}
	t := b.ThresholdConfiguration
	if t == nil {
		return out, nil
	}
	if t.Type == "" {
		return nil, input.Invalid("deploymentCircuitBreaker.thresholdConfiguration.type must not be empty.")
	}
	if err := input.CheckOneOf("deploymentCircuitBreaker.thresholdConfiguration.type", t.Type); err != nil {
		return nil, err
	}
	// A percentage is of the desired count, so it ends at 100; a count has no bound of its own.
	most := int32(100)
	if t.Type == types.ThresholdTypeCount {
		most = math.MaxInt32
	}
	if t.Value < 1 || t.Value > most {
		return nil,
			input.Invalid("deploymentCircuitBreaker.thresholdConfiguration.value is %d, but must be between 1 and %d "+
				"for %s.", t.Value, most, t.Type)
	}
	out.Type, out.Value = cluster.ThresholdType(t.Type), int(t.Value)
	return out, nil
}

// parseEarlySuccess reads the early success criteria, nil if there are none. If they are enabled,
// both healthyPercent and sourceServiceRevisionCleanup must be given.
func parseEarlySuccess(e *types.DeploymentEarlySuccessCriteria) (*cluster.EarlySuccess, error) {
	const member = "deploymentConfiguration.earlySuccessCriteria"
	if e == nil {
		return nil, nil
	}
	if err := input.CheckOneOf(member+".sourceServiceRevisionCleanup", e.SourceServiceRevisionCleanup); err != nil {
		return nil, err
	}
	switch n := e.HealthyPercent; {
	case e.Enable && (n == nil || e.SourceServiceRevisionCleanup == ""):
		return nil, input.Invalid("%s must have healthyPercent and sourceServiceRevisionCleanup.", member)
	case n != nil && (*n < 0 || *n > 100):
		return nil, input.Invalid("%s.healthyPercent is %d, but must be between 0 and 100.", member, *n)
	}
	return &cluster.EarlySuccess{
		Enable: e.Enable, Percent: int(input.Value(e.HealthyPercent)),
		Deferred: e.SourceServiceRevisionCleanup == types.ServiceRevisionCleanupDeferred,
	}, nil
}

// maxAlarmName is CloudWatch's limit in characters.
const maxAlarmName = 255

// parseAlarms reads deployment alarms, nil if there are none. Whether the alarms exist is not
// checked here: an event says so later (S8).
func parseAlarms(a *types.DeploymentAlarms) (*cluster.DeploymentAlarms, error) {
	if a == nil {
		return nil, nil
	}
	switch {
	case len(a.AlarmNames) > cluster.MaxAlarms:
		return nil, input.Invalid("deploymentConfiguration.alarms.alarmNames has %d items, but at most %d are allowed.",
			len(a.AlarmNames), cluster.MaxAlarms)
	case a.Enable && len(a.AlarmNames) == 0:
		return nil, input.Invalid("deploymentConfiguration.alarms.alarmNames cannot be empty where alarms are enabled.")
	}
	for _, name := range a.AlarmNames {
		if name == "" || utf8.RuneCountInString(name) > maxAlarmName {
			return nil,
				input.Invalid("deploymentConfiguration.alarms.alarmNames has %.260q, but a name has 1 to %d "+
					"characters.", name, maxAlarmName)
		}
	}
	return &cluster.DeploymentAlarms{Names: slices.Clone(a.AlarmNames), Enable: a.Enable, Rollback: a.Rollback}, nil
}

// ARNs of any account and Region: a target group or Cloud Map service may be shared. Whether it
// exists shows when the first task is registered.
var (
	targetGroups = regexp.MustCompile(`^arn:[a-z-]+:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:` +
		`targetgroup/[A-Za-z0-9-]{1,32}/[0-9a-f]{1,32}$`)
	classicNames = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)
	registryARNs = regexp.MustCompile(`^arn:[a-z-]+:servicediscovery:[a-z0-9-]+:[0-9]{12}:service/[A-Za-z0-9_-]{1,64}$`)
)

// maxPort is the highest port number of TCP and UDP.
const maxPort = 65535

// checkPort checks a container's port number, if it is given.
func checkPort(member string, n *int32) error {
	if n != nil && (*n < 1 || *n > maxPort) {
		return input.Invalid("%s is %d, but must be between 1 and %d.", member, *n, maxPort)
	}
	return nil
}

// parseLoadBalancers reads at most 5 load balancers, each with a target group of its own, or one
// Classic Load Balancer.
func parseLoadBalancers(in []types.LoadBalancer) (out []cluster.LoadBalancer, err error) {
	if len(in) > cluster.MaxLoadBalancers {
		return nil, input.Invalid("loadBalancers has %d items, but a service has at most %d.", len(in),
			cluster.MaxLoadBalancers)
	}
	for _, l := range in {
		one, err := parseLoadBalancer(l)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o cluster.LoadBalancer) bool { return o.TargetGroup == one.TargetGroup }) {
			return nil, input.Invalid("loadBalancers names target group %s twice.", one.TargetGroup)
		}
		out = append(out, one)
	}
	if len(out) > 1 && slices.ContainsFunc(out, isClassic) {
		return nil, input.Invalid("loadBalancers has %d items, but a service with a Classic Load Balancer has no "+
			"other.", len(out))
	}
	return out, nil
}

// isClassic reports whether a load balancer is a Classic Load Balancer.
func isClassic(l cluster.LoadBalancer) bool {
	_, classic := cluster.ClassicName(l.TargetGroup)
	return classic
}

// parseLoadBalancer reads one load balancer: target group or name, container and port. Blue/green
// settings are refused by name.
func parseLoadBalancer(l types.LoadBalancer) (out cluster.LoadBalancer, err error) {
	if l.AdvancedConfiguration != nil {
		return out, input.Unsupported("loadBalancers.advancedConfiguration")
	}
	if out.TargetGroup, err = parseBalancer(input.Value(l.TargetGroupArn),
		input.Value(l.LoadBalancerName)); err != nil {
		return out, err
	}
	if input.Value(l.ContainerName) == "" {
		return out, input.Invalid("Container Name can not be blank.") // ECS's words
	}
	if l.ContainerPort == nil {
		return out, input.Invalid("loadBalancers.containerPort must not be empty.")
	}
	out.Container, out.Port = *l.ContainerName, int(*l.ContainerPort)
	return out, checkPort("loadBalancers.containerPort", l.ContainerPort)
}

// parseBalancer reads which target group or Classic Load Balancer is meant, by ARN or name. It is
// an error of ECS to give both.
func parseBalancer(arn, name string) (string, error) {
	switch {
	case arn != "" && name != "":
		return "", input.Invalid("loadBalancerName and targetGroupArn cannot both be specified. You must specify " +
			"either a loadBalancerName or a targetGroupArn.")
	case name != "" && !classicNames.MatchString(name):
		return "", input.Invalid("loadBalancers.loadBalancerName is %.300q, expected the name of a Classic Load "+
			"Balancer: up to 32 letters, digits and hyphens.", name)
	case name != "":
		return cluster.ClassicBalancer(name), nil
	case !targetGroups.MatchString(arn):
		return "", input.Invalid("loadBalancers.targetGroupArn is %.300q, expected the ARN of a target group.", arn)
	}
	return arn, nil
}

// parseRegistries reads the Cloud Map service of a service, at most one. An A record needs no port.
// An SRV record needs either a container and its port, or, for tasks in awsvpc mode, a port alone
// (S9).
func parseRegistries(in []types.ServiceRegistry) (out []cluster.Registry, err error) {
	if len(in) > cluster.MaxRegistries {
		return nil, input.Invalid("serviceRegistries has %d items, but a service has at most %d.", len(in),
			cluster.MaxRegistries)
	}
	for _, r := range in {
		named := input.Value(r.ContainerName) != ""
		switch {
		case !registryARNs.MatchString(input.Value(r.RegistryArn)):
			return nil,
				input.Invalid("serviceRegistries.registryArn is %.300q, expected the ARN of a Cloud Map service.",
					input.Value(r.RegistryArn))
		case named != (r.ContainerPort != nil):
			return nil, input.Invalid("serviceRegistries needs containerName and containerPort together, or neither.")
		case named && r.Port != nil:
			return nil, input.Invalid("serviceRegistries takes port, or containerName and containerPort, not both.")
		}
		if err := checkPort("serviceRegistries.port", r.Port); err != nil {
			return nil, err
		}
		if err := checkPort("serviceRegistries.containerPort", r.ContainerPort); err != nil {
			return nil, err
		}
		out = append(out, cluster.Registry{
			ARN: *r.RegistryArn, Port: int(input.Value(r.Port)), Container: input.Value(r.ContainerName),
			ContainerPort: int(input.Value(r.ContainerPort)),
		})
	}
	return out, nil
}

// parseStrategy reads the capacity provider strategy of a service or task (S14). At most one entry
// has a base, and at least one a weight above 0: with weights 0 throughout, tasks beyond the base
// would have no provider. With a base of 2 and weights 1 and 3, for example, the first two tasks go
// to the provider with the base, and of every four after that one and three. A strategy has
// providers with Auto Scaling groups only; one that has those of Fargate only is refused by name.
func parseStrategy(r input.References, in []types.CapacityProviderStrategyItem) ([]cluster.ProviderShare, error) {
	shares, err := parseShares(r, in)
	if err != nil {
		return nil, err
	}
	if len(shares) > 0 && isFargateShare(shares[0]) {
		return nil, input.Unsupported("capacityProviderStrategy.capacityProvider " + shares[0].Provider)
	}
	switch {
	case countBases(shares) > 1:
		return nil, input.Invalid("There are multiple capacity providers in the specified capacity provider strategy " +
			"with a base value greater than zero. Only one capacity provider can have a base value greater than " +
			"zero. Specify a valid capacity provider strategy and try again.")
	case len(shares) > 0 && !cluster.HasWeight(shares):
		return nil, input.Invalid("There are no capacity providers in the capacity provider strategy with a weight " +
			"value greater than zero. Specify a weight value greater than zero for at least one capacity provider " +
			"and try again.")
	}
	return shares, nil
}

// parseDefaultStrategy reads the default capacity provider strategy of a cluster. It may have
// weights of 0 throughout: then ECS refuses the services and tasks that would use it.
func parseDefaultStrategy(
	r input.References, in []types.CapacityProviderStrategyItem,
) ([]cluster.ProviderShare, error) {
	shares, err := parseShares(r, in)
	if err == nil && countBases(shares) > 1 {
		return nil, input.Invalid("The specified capacity provider strategy contains multiple capacity providers " +
			"with a base value defined. Only one capacity provider per strategy can have a base value defined.")
	}
	return shares, err
}

// countBases returns how many providers of a strategy have a base.
func countBases(shares []cluster.ProviderShare) (n int) {
	for _, s := range shares {
		if s.Base > 0 {
			n++
		}
	}
	return n
}

// checkUnmixed refuses a strategy that has providers of Fargate and others, in ECS's words.
func checkUnmixed(shares []cluster.ProviderShare) error {
	fargate := 0
	for _, s := range shares {
		if isFargateShare(s) {
			fargate++
		}
	}
	if fargate == 0 || fargate == len(shares) {
		return nil
	}
	return input.Invalid("A capacity provider strategy cannot contain a mix of capacity providers using Auto Scaling " +
		"groups and Fargate providers. Specify one or the other and try again.")
}

// isFargateShare reports whether the provider of a share is one of Fargate's.
func isFargateShare(s cluster.ProviderShare) bool { return cluster.IsFargateProvider(s.Provider) }

// parseShares reads a capacity provider strategy of any cluster: its providers are either all those
// of Fargate or all others.
func parseShares(
	r input.References, in []types.CapacityProviderStrategyItem,
) (out []cluster.ProviderShare, err error) {
	if len(in) > cluster.MaxProviders {
		return nil, input.Invalid("capacityProviderStrategy has %d items, but at most %d are allowed.", len(in),
			cluster.MaxProviders)
	}
	for _, p := range in {
		if err := input.CheckRequired("capacityProviderStrategy.capacityProvider", p.CapacityProvider); err != nil {
			return nil, err
		}
		name, err := r.CapacityProviderName(*p.CapacityProvider)
		switch {
		case err != nil:
			return nil, err
		case p.Base < 0 || p.Base > cluster.MaxBase:
			return nil, input.Invalid("The base of capacity provider %s is %d, but must be between 0 and %d.", name,
				p.Base, cluster.MaxBase)
		case p.Weight < 0 || p.Weight > cluster.MaxWeight:
			return nil, input.Invalid("The weight of capacity provider %s is %d, but must be between 0 and %d.", name,
				p.Weight, cluster.MaxWeight)
		case slices.ContainsFunc(out, func(o cluster.ProviderShare) bool { return o.Provider == name }):
			return nil, input.Invalid("capacityProviderStrategy names capacity provider %s twice.", name)
		}
		out = append(out, cluster.ProviderShare{Provider: name, Base: int(p.Base), Weight: int(p.Weight)})
	}
	return out, checkUnmixed(out)
}

// intOrNil returns a number that may not be given.
func intOrNil(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// checkNotNegative refuses a negative number, if it is given.
func checkNotNegative(member string, n *int32) error {
	if input.Value(n) < 0 {
		return input.Invalid("%s is %d, but must not be negative.", member, *n)
	}
	return nil
}
