package awsjson_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs/schemas"
	"github.com/aws/smithy-go"
)

var structures = map[string]*smithy.Schema{
	"Service": schemas.Service, "Deployment": schemas.Deployment, "DeploymentConfiguration": schemas.DeploymentConfiguration,
	"ServiceEvent": schemas.ServiceEvent, "Task": schemas.Task, "Container": schemas.Container, "TaskOverride": schemas.TaskOverride,
	"ContainerOverride": schemas.ContainerOverride, "Failure": schemas.Failure, "Cluster": schemas.Cluster,
	"ContainerInstance": schemas.ContainerInstance, "Resource": schemas.Resource, "Attribute": schemas.Attribute, "Tag": schemas.Tag,
	"CreateServiceResponse": schemas.CreateServiceResponse, "UpdateServiceResponse": schemas.UpdateServiceResponse,
	"DeleteServiceResponse": schemas.DeleteServiceResponse, "DescribeServicesResponse": schemas.DescribeServicesResponse,
	"ListServicesResponse": schemas.ListServicesResponse, "RunTaskResponse": schemas.RunTaskResponse,
	"StartTaskResponse": schemas.StartTaskResponse, "StopTaskResponse": schemas.StopTaskResponse,
	"DescribeTasksResponse": schemas.DescribeTasksResponse, "ListTasksResponse": schemas.ListTasksResponse,
	"ListTagsForResourceResponse": schemas.ListTagsForResourceResponse,

	"DeploymentCircuitBreaker": schemas.DeploymentCircuitBreaker, "ThresholdConfiguration": schemas.ThresholdConfiguration,
	"DeploymentEarlySuccessCriteria": schemas.DeploymentEarlySuccessCriteria,
	"DeploymentAlarms":               schemas.DeploymentAlarms, "LoadBalancer": schemas.LoadBalancer, "ServiceRegistry": schemas.ServiceRegistry,
	"CapacityProviderStrategyItem": schemas.CapacityProviderStrategyItem, "NetworkConfiguration": schemas.NetworkConfiguration,
	"AwsVpcConfiguration": schemas.AwsVpcConfiguration, "ServiceCurrentRevisionSummary": schemas.ServiceCurrentRevisionSummary,
	"ServiceDeployment": schemas.ServiceDeployment, "ServiceDeploymentBrief": schemas.ServiceDeploymentBrief,
	"ServiceDeploymentAlarms": schemas.ServiceDeploymentAlarms, "ServiceDeploymentCircuitBreaker": schemas.ServiceDeploymentCircuitBreaker,
	"ServiceRevisionSummary": schemas.ServiceRevisionSummary, "Rollback": schemas.Rollback, "ServiceRevision": schemas.ServiceRevision,
	"ContainerImage": schemas.ContainerImage, "ProtectedTask": schemas.ProtectedTask,
	"ListServiceDeploymentsResponse":     schemas.ListServiceDeploymentsResponse,
	"DescribeServiceDeploymentsResponse": schemas.DescribeServiceDeploymentsResponse,
	"StopServiceDeploymentResponse":      schemas.StopServiceDeploymentResponse,
	"DescribeServiceRevisionsResponse":   schemas.DescribeServiceRevisionsResponse,
	"UpdateTaskProtectionResponse":       schemas.UpdateTaskProtectionResponse, "GetTaskProtectionResponse": schemas.GetTaskProtectionResponse,
}

var kinds = map[string][]smithy.ShapeType{
	"timestamp": {smithy.ShapeTypeTimestamp}, "list": {smithy.ShapeTypeList}, "structure": {smithy.ShapeTypeStructure, smithy.ShapeTypeUnion},
	"string": {smithy.ShapeTypeString, smithy.ShapeTypeEnum}, "integer": {smithy.ShapeTypeInteger}, "long": {smithy.ShapeTypeLong},
	"double": {smithy.ShapeTypeDouble}, "boolean": {smithy.ShapeTypeBoolean},
}

// Answers have the members and types of botocore's model, by which the aws CLI reads them. That
// model may be ahead of the SDK.
func TestModel(t *testing.T) {
	f, err := os.Open("testdata/model.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	model := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, kind, _ := strings.Cut(lines.Text(), " ")
		model[name] = kind
	}
	for structure, s := range structures {
		for member, m := range s.Members() {
			if kind := model[structure+"."+member]; !slices.Contains(kinds[kind], m.Type()) {
				t.Errorf("%s.%s is a %q, in the SDK type %v", structure, member, kind, m.Type())
			}
		}
	}
}
