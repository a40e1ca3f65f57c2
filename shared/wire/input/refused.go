package input

import (
	"strings"

	"berth/shared/cluster"
)

// refusalReasons says why Berth does not serve a member, by its path in the operation's input. Of
// some only a value is refused, such as FARGATE as a launch type.
var refusalReasons = map[string]string{
	"cluster":                  reasonManagedInstances,
	"managedInstancesProvider": reasonManagedInstances,
	"launchType":               reasonFargate,
	"capacityProviderStrategy.capacityProvider": reasonFargate,
	"capacityProviderStrategy":                  "a DAEMON service has a task on every instance",
	"loadBalancers.loadBalancerName":            reasonClassic,
	"loadBalancers.advancedConfiguration":       reasonBlueGreen,
	"serviceRegistries":                         "ECS tells no instance's address; use the network mode awsvpc",
	"serviceConnectConfiguration": "ECS adds Service Connect's proxy only to tasks of its own services; " +
		"use serviceRegistries",
	"vpcLatticeConfigurations":                          reasonGateway,
	"gatewayConnectors":                                 reasonGateway,
	"monitoring":                                        "ECS monitors only services of its own",
	"deploymentController.type":                         reasonCodeDeploy,
	"deploymentConfiguration.strategy":                  "only ROLLING is served",
	"deploymentConfiguration.bakeTimeInMinutes":         reasonBlueGreen,
	"deploymentConfiguration.canaryConfiguration":       reasonBlueGreen,
	"deploymentConfiguration.linearConfiguration":       reasonBlueGreen,
	"deploymentConfiguration.lifecycleHooks":            reasonBlueGreen,
	"referenceId":                                       "AWS keeps it for its own services",
	"platformVersion":                                   "only Fargate has platform versions",
	"daemonName":                                        "a DAEMON service is found by serviceName",
	"overrides.ephemeralStorage":                        reasonFargate,
	"overrides.inferenceAcceleratorOverrides":           "AWS has discontinued Elastic Inference",
	"overrides.containerOverrides.resourceRequirements": "placement knows the GPUs of the task definition only",
	"taskDefinition.inferenceAccelerators":              "AWS has discontinued Elastic Inference",
	"tagging":                                           "such resources have no tags here",
	"name":                                              "ECS acts on the one that it keeps itself",
}

// Reasons that several members have.
const (
	reasonManagedInstances = "only capacity providers of Managed Instances belong to one cluster, and Berth has none"
	reasonFargate          = "tasks run on container instances that are registered with the cluster"
	reasonCodeDeploy       = "CodeDeploy controls no services of Berth's; use ECS or EXTERNAL"
	reasonBlueGreen        = "it belongs to blue/green, linear and canary deployments, which are not served"
	reasonClassic          = "a task set has target groups only, as on AWS; give a targetGroupArn"
	reasonGateway          = "Berth registers tasks with target groups and in Cloud Map only"
)

// RefusalReason returns why Berth does not serve a member, by its path; empty for one that no
// operation refuses.
func RefusalReason(member string) string { return refusalReasons[member] }

// Unsupported returns the UnsupportedFeatureException for a member that Berth does not serve, with
// the reason. The member may be followed by the value that is refused, as in "launchType FARGATE".
func Unsupported(field string) error {
	member, _, _ := strings.Cut(field, " ")
	if reason := refusalReasons[member]; reason != "" {
		return cluster.Errorf(cluster.CodeUnsupported, "%s is not supported: %s.", field, reason)
	}
	return cluster.Errorf(cluster.CodeUnsupported, "%s is not supported.", field)
}
