package awsjson

import (
	"maps"
	"slices"
)

// OperationNames returns the names of all operations of the ECS API, served or not, in order.
func OperationNames() []string { return slices.Sorted(maps.Keys(knownOperations)) }

// knownOperations are the operations of the ECS API (2014-11-13) as the SDK and botocore know them.
// TestOperations compares the list with the SDK.
var knownOperations = nameSet("AssociateGatewayWithCluster", "ContinueServiceDeployment", "CreateCapacityProvider",
	"CreateCluster", "CreateDaemon", "CreateExpressGatewayService", "CreateGateway", "CreateService", "CreateTaskSet",
	"DeleteAccountSetting", "DeleteAttributes", "DeleteCapacityProvider", "DeleteCluster", "DeleteDaemon",
	"DeleteDaemonTaskDefinition", "DeleteExpressGatewayService", "DeleteGateway", "DeleteService",
	"DeleteTaskDefinitions", "DeleteTaskSet", "DeregisterContainerInstance", "DeregisterTaskDefinition",
	"DescribeCapacityProviders", "DescribeClusters", "DescribeContainerInstances", "DescribeDaemon",
	"DescribeDaemonDeployments", "DescribeDaemonRevisions", "DescribeDaemonTaskDefinition",
	"DescribeExpressGatewayService", "DescribeGateway", "DescribeGatewayResources", "DescribeGatewayRoute",
	"DescribeServiceDeployments", "DescribeServiceRevisions", "DescribeServices", "DescribeTaskDefinition",
	"DescribeTaskSets", "DescribeTasks", "DisassociateGatewayFromCluster", "DiscoverPollEndpoint", "ExecuteCommand",
	"GetTaskProtection", "ListAccountSettings", "ListAttributes", "ListClusters", "ListContainerInstances",
	"ListDaemonDeployments", "ListDaemonTaskDefinitions", "ListDaemons", "ListGatewayClusterAssociations",
	"ListGatewayRoutes", "ListGateways", "ListServiceDeployments", "ListServices", "ListServicesByNamespace",
	"ListTagsForResource", "ListTaskDefinitionFamilies", "ListTaskDefinitions", "ListTasks", "PutAccountSetting",
	"PutAccountSettingDefault", "PutAttributes", "PutClusterCapacityProviders", "RegisterContainerInstance",
	"RegisterDaemonTaskDefinition", "RegisterTaskDefinition", "RunTask", "StartTask", "StopServiceDeployment",
	"StopTask", "SubmitAttachmentStateChanges", "SubmitContainerStateChange", "SubmitTaskStateChange", "TagResource",
	"UntagResource", "UpdateCapacityProvider", "UpdateCluster", "UpdateClusterSettings", "UpdateContainerAgent",
	"UpdateContainerInstancesState", "UpdateDaemon", "UpdateExpressGatewayService", "UpdateGateway", "UpdateService",
	"UpdateServicePrimaryTaskSet", "UpdateTaskProtection", "UpdateTaskSet")

func nameSet(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}
