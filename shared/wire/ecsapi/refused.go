package ecsapi

import (
	"context"
	"slices"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// Why Berth refuses whole operations.
const (
	noGateways = "Berth registers tasks with target groups and in Cloud Map, not with gateways"
	noExpress  = "an Express service's load balancer and roles are ECS's own; CreateService takes target groups"
	noDaemons  = "managed daemons run on Managed Instances only; use a service with the scheduling strategy DAEMON"
	noHooks    = "only blue/green, linear and canary deployments pause, which are not served"
	noAgents   = "agents report to ECS itself, and Berth reads its events; give agents no other endpoint"
	noExec     = "a session leads to ECS's own task; call ECS itself with the ARN that it gave the task"
	noConnect  = "no service belongs to a namespace, because Service Connect is not served"
)

// refusedOperations are the operations of the ECS API that Berth does not serve, by reason.
var refusedOperations = map[string][]string{
	noGateways: {
		"AssociateGatewayWithCluster", "CreateGateway", "DeleteGateway", "DescribeGateway", "DescribeGatewayResources",
		"DescribeGatewayRoute", "DisassociateGatewayFromCluster", "ListGatewayClusterAssociations",
		"ListGatewayRoutes", "ListGateways", "UpdateGateway",
	},
	noExpress: {
		"CreateExpressGatewayService", "DeleteExpressGatewayService", "DescribeExpressGatewayService",
		"UpdateExpressGatewayService",
	},
	noDaemons: {
		"CreateDaemon", "DeleteDaemon", "DeleteDaemonTaskDefinition", "DescribeDaemon", "DescribeDaemonDeployments",
		"DescribeDaemonRevisions", "DescribeDaemonTaskDefinition", "ListDaemonDeployments",
		"ListDaemonTaskDefinitions", "ListDaemons", "RegisterDaemonTaskDefinition", "UpdateDaemon",
	},
	noHooks: {"ContinueServiceDeployment"},
	noAgents: {
		"SubmitAttachmentStateChanges", "SubmitContainerStateChange", "SubmitTaskStateChange",
	},
	noExec:    {"ExecuteCommand"},
	noConnect: {"ListServicesByNamespace"},
}

// RefusedOperations returns the operations of the ECS API that Berth does not serve, with the
// reason.
func RefusedOperations() map[string]string {
	out := map[string]string{}
	for reason, operations := range refusedOperations {
		for _, op := range operations {
			out[op] = reason
		}
	}
	return out
}

// refusals returns operations that refuse by name.
func refusals() map[string]awsjson.Operation {
	out := map[string]awsjson.Operation{}
	for op, reason := range RefusedOperations() {
		refusal := cluster.Errorf(cluster.CodeUnsupported, "%s is not supported: %s.", op, reason)
		out[op] = func(context.Context, []byte) (any, error) { return nil, refusal }
	}
	return out
}

// A Refusal is a member of an operation's input that Berth does not serve.
type Refusal struct {
	Member string // its path
	Values string // the values that are refused; empty for any
	Reason string
	Words  string // ECS's, of an InvalidParameterException; empty for a refusal that ECS does not know
}

// Members that several operations refuse.
var (
	refusedOfServices = []Refusal{
		{Member: "deploymentController.type", Values: "CODE_DEPLOY"},
		{Member: "deploymentConfiguration.strategy", Values: "BLUE_GREEN, LINEAR, CANARY"},
		{Member: "deploymentConfiguration.bakeTimeInMinutes"},
		{Member: "deploymentConfiguration.canaryConfiguration"},
		{Member: "deploymentConfiguration.linearConfiguration"},
		{Member: "deploymentConfiguration.lifecycleHooks"},
		{Member: "loadBalancers.advancedConfiguration"},
		{Member: "serviceConnectConfiguration"},
		{Member: "vpcLatticeConfigurations"}, {Member: "gatewayConnectors"}, {Member: "monitoring"},
		{Member: "capacityProviderStrategy.capacityProvider",
			Values: "FARGATE, FARGATE_SPOT"},
		{Member: "serviceRegistries", Values: "in the network modes bridge and host"},
	}
	refusedOfTasks = []Refusal{
		{Member: "referenceId"},
		{Member: "overrides.ephemeralStorage"}, {Member: "overrides.inferenceAcceleratorOverrides"},
		{Member: "overrides.containerOverrides.resourceRequirements"},
	}
	refusedOfProviders = []Refusal{{Member: "cluster"}}
	refusedPlatform    = Refusal{Member: "platformVersion", Words: platformWords}
	refusedLaunchType  = Refusal{Member: "launchType", Values: "FARGATE, MANAGED_INSTANCES"}
)

// RefusedMembers returns the members that operations refuse by name, by operation. Everything else
// in their inputs is served.
func RefusedMembers() map[string][]Refusal {
	out := map[string][]Refusal{
		"CreateService": append(slices.Clone(refusedOfServices), refusedLaunchType, refusedPlatform,
			Refusal{Member: "capacityProviderStrategy", Values: "with the scheduling strategy DAEMON"}),
		"UpdateService": append(slices.Clone(refusedOfServices), refusedPlatform),
		"CreateTaskSet": {refusedLaunchType, refusedPlatform,
			{Member: "capacityProviderStrategy.capacityProvider", Values: "FARGATE, FARGATE_SPOT"},
			{Member: "loadBalancers.advancedConfiguration"}, {Member: "loadBalancers.loadBalancerName"},
			{Member: "serviceRegistries", Values: "in the network modes bridge and host"}},
		"RunTask": append(slices.Clone(refusedOfTasks), refusedLaunchType, refusedPlatform,
			Refusal{Member: "capacityProviderStrategy.capacityProvider", Values: "FARGATE, FARGATE_SPOT"}),
		"StartTask": slices.Clone(refusedOfTasks),
		"ListTasks": {{Member: "daemonName"}},
		"CreateCapacityProvider": append(slices.Clone(refusedOfProviders),
			Refusal{Member: "managedInstancesProvider"}),
		"UpdateCapacityProvider": append(slices.Clone(refusedOfProviders),
			Refusal{Member: "managedInstancesProvider"}),
		"DeleteCapacityProvider":    slices.Clone(refusedOfProviders),
		"DescribeCapacityProviders": slices.Clone(refusedOfProviders),
	}
	const others = "all but containerInsights and the long ARN formats"
	for _, op := range []string{
		"DeleteAccountSetting", "ListAccountSettings", "PutAccountSetting", "PutAccountSettingDefault",
	} {
		out[op] = []Refusal{{Member: "name", Values: others}}
	}
	for _, refused := range out {
		for i := range refused {
			refused[i].Reason = input.RefusalReason(refused[i].Member)
		}
	}
	return out
}

// An unserved is an input member that Berth does not serve, and whether the caller uses it.
type unserved struct {
	name string
	used bool
}

// refuseUnserved refuses the first member in use, by name, as an UnsupportedFeatureException.
// `TestUnserved` of package wire shows that no member is ignored.
func refuseUnserved(members ...unserved) error {
	for _, m := range members {
		if m.used {
			return input.Unsupported(m.name)
		}
	}
	return nil
}
