package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/wire"
)

// answered serves one request and returns the status and, for an error, the code and the message.
func (b *berth) answered(t *testing.T, op, body string) (status int, code, message string) {
	t.Helper()
	status, answer := b.mux.ServeOperation(t.Context(), op, []byte(body))
	for _, problem := range models(t).CheckOperation(op, []byte(body), status, answer) {
		t.Errorf("%s %.300s: %s\nanswer: %.500s", op, body, problem, answer)
	}
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &e); err != nil {
		t.Fatalf("%s answers %q: %v", op, answer, err)
	}
	return status, e.Type, e.Message
}

const (
	invalidParameter = "InvalidParameterException"
	notSupported     = "UnsupportedFeatureException"
	serialization    = "SerializationException"
)

// spreadOver returns the input of a CreateService with a strategy that spreads over an attribute.
func spreadOver(attribute string) string {
	return `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"placementStrategy":[{"type":"spread","field":"` +
		`attribute:` + attribute + `"}]}`
}

// list returns a JSON list of n equal items.
func list(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func tags(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"key":"k%d","value":"v"}`, i))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// bad has requests that are refused before anything happens, each with the code and a word of the
// message.
var bad = []struct{ name, op, body, code, has string }{
	{"UnknownCluster", "CreateService", `{"cluster":"nope","serviceName":"s","taskDefinition":"shop","desiredCount":1}`,
		"ClusterNotFoundException", "Cluster not found."},
	{"UnknownCluster", "RunTask", `{"cluster":"nope","taskDefinition":"shop"}`, "ClusterNotFoundException",
		"Cluster not found."},
	{"UnknownCluster", "DescribeServices", `{"cluster":"nope","services":["s"]}`, "ClusterNotFoundException", ""},
	{"UnknownCluster", "DescribeTasks", `{"cluster":"nope","tasks":["00000000000000000000000000000000"]}`,
		"ClusterNotFoundException", ""},
	{"UnknownCluster", "ListServices", `{"cluster":"nope"}`, "ClusterNotFoundException", ""},
	{"UnknownCluster", "ListTasks", `{"cluster":"nope"}`, "ClusterNotFoundException", ""},
	{"UnknownService", "UpdateService", `{"cluster":"prod","service":"nope","desiredCount":1}`,
		"ServiceNotFoundException", ""},
	{"UnknownService", "DeleteService", `{"cluster":"prod","service":"nope"}`, "ServiceNotFoundException", ""},
	{"UnknownTask", "StopTask", `{"cluster":"prod","task":"00000000000000000000000000000000"}`, invalidParameter,
		"not found"},
	{"UnknownDefinition", "CreateService", `{"serviceName":"s","taskDefinition":"nope","desiredCount":1}`,
		"ClientException", "TaskDefinition not found."},

	{"MissingField", "CreateService", `{"taskDefinition":"shop","desiredCount":1}`, invalidParameter, "serviceName"},
	{"MissingField", "CreateService", `{"serviceName":"s","desiredCount":1}`, invalidParameter, "taskDefinition"},
	{"MissingField", "CreateService", `{"serviceName":"s","taskDefinition":"shop"}`, invalidParameter, "desiredCount"},
	{"MissingField", "UpdateService", `{}`, invalidParameter, "service"},
	{"MissingField", "DeleteService", `{}`, invalidParameter, "service"},
	{"MissingField", "DescribeServices", `{}`, invalidParameter, "services"},
	{"MissingField", "RunTask", `{}`, invalidParameter, "taskDefinition"},
	{"MissingField", "StartTask", `{"taskDefinition":"shop"}`, invalidParameter, "containerInstances"},
	{"MissingField", "StopTask", `{}`, invalidParameter, "task"},
	{"MissingField", "DescribeTasks", `{}`, invalidParameter, "tasks"},
	{"MissingField", "UpdateCluster", `{}`, invalidParameter, "cluster"},
	{"MissingField", "DeleteCluster", `{}`, invalidParameter, "cluster"},
	{"MissingField", "DescribeTaskDefinition", `{}`, invalidParameter, "taskDefinition"},
	{"MissingField", "DeregisterTaskDefinition", `{}`, invalidParameter, "taskDefinition"},
	{"MissingField", "DeleteTaskDefinitions", `{}`, invalidParameter, "taskDefinitions"},
	{"MissingField", "DescribeContainerInstances", `{"cluster":"prod"}`, "ClientException",
		"Container Instances cannot be empty."},
	{"FargateNetwork", "RunTask", `{"taskDefinition":"awsvpc","launchType":"FARGATE"}`, invalidParameter,
		"Network Configuration must be provided when networkMode 'awsvpc' is specified."},
	{"Role", "CreateService", `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"role":"r"}`,
		invalidParameter, "A role was passed, but no load balancers were present."},
	{"Role", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"role":"r",` + twoGroups + `}`, invalidParameter,
		"You cannot specify an IAM role for services that require a service linked role."},
	{"Role", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"role":"arn:aws:iam::1:role/r",` + oneGroup + `]}`,
		invalidParameter, "expected the name or ARN of a role"},
	{"PlatformVersion", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"platformVersion":"1.4.0"}`, invalidParameter,
		"The platform version must be null when specifying an EC2 launch type."},
	{"PlatformVersion", "UpdateService", `{"service":"s","platformVersion":"1.4.0"}`, invalidParameter,
		"The platform version must be null"},
	{"PlatformVersion", "CreateTaskSet",
		`{"cluster":"prod","service":"web","taskDefinition":"shop","platformVersion":"1.4.0"}`, invalidParameter,
		"The platform version must be null"},
	{"PlatformVersion", "RunTask", `{"taskDefinition":"shop","platformVersion":"1.4.0"}`, invalidParameter,
		"The platform version must be null"},
	{"NoSubnets", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"networkConfiguration":{"awsvpcConfiguration":{"subnets":[]}},"platformVersion":"1.4.0"}`, invalidParameter, "subnets can not be empty."},
	{"MissingCluster", "RunTask", `{"cluster":"none","taskDefinition":"shop","launchType":"Fargate"}`, invalidParameter,
		"launch type should be one of [EC2,FARGATE,EXTERNAL]"},
	{"MissingCluster", "DescribeTasks", `{"cluster":"none"}`, "ClusterNotFoundException", "Cluster not found."},
	{"MissingCluster", "StopTask", `{"cluster":"none","task":"x"}`, "ClusterNotFoundException", "Cluster not found."},
	{"NoRevision", "DeregisterTaskDefinition", `{"taskDefinition":"shop"}`, "ClientException", "Revision is missing."},
	{"NoRevision", "DeregisterTaskDefinition", `{"taskDefinition":"shop:x"}`, invalidParameter,
		"Invalid revision number. Number: x"},
	{"MissingField", "UpdateContainerInstancesState", `{"status":"DRAINING"}`, invalidParameter, "containerInstances"},
	{"MissingField", "DeregisterContainerInstance", `{}`, invalidParameter, "containerInstance"},
	{"MissingField", "PutAttributes", `{}`, invalidParameter, "attributes"},
	{"MissingField", "TagResource", `{"tags":[]}`, invalidParameter, "resourceArn"},
	{"MissingField", "TagResource", `{"resourceArn":"arn:aws:ecs:eu-west-1:123456789012:service/prod/web"}`,
		invalidParameter, "tags"},
	{"MissingField", "UntagResource", `{"resourceArn":"arn:aws:ecs:eu-west-1:123456789012:service/prod/web"}`,
		invalidParameter, "tagKeys"},

	{"WrongType", "CreateService", `{"serviceName":7}`, serialization, "serviceName"},
	{"WrongType", "CreateService", `{"serviceName":"s","desiredCount":"two"}`, serialization, "desiredCount"},
	{"WrongType", "CreateService", `{"desiredCount":2.5}`, serialization, "desiredCount"},
	{"WrongType", "RunTask", `{"overrides":[]}`, serialization, "overrides"},
	{"WrongType", "DescribeTasks", `{"tasks":"a"}`, serialization, "tasks"},
	{"WrongType", "PutAttributes", `{"attributes":{"name":"a"}}`, serialization, "attributes"},
	{"TwoMegabytes", "CreateService", `{"serviceName":"` + strings.Repeat("x", 2<<20) + `"}`,
		"RequestEntityTooLargeException", ""},

	{"Negative", "CreateService", `{"serviceName":"s","taskDefinition":"shop","desiredCount":-1}`, invalidParameter,
		"desiredCount"},
	{"Negative", "UpdateService", `{"service":"s","desiredCount":-1}`, invalidParameter, "desiredCount"},
	{"Negative", "RunTask", `{"taskDefinition":"shop","count":-1}`, invalidParameter, "count"},
	{"Negative", "RunTask", `{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","cpu":-5}]}}`,
		invalidParameter, "negative"},
	{"TooLittleMemory", "RunTask",
		`{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","memory":5}]}}`,
		invalidParameter, "at least 6 MiB"},
	{"TooLittleMemoryReserved", "RunTask",
		`{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","memoryReservation":5}]}}`,
		invalidParameter, "at least 6 MiB"},
	{"LessMemoryThanReserved", "RunTask",
		`{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","memory":99,"memoryReservation":100}]}}`,
		invalidParameter, "greater than or equal to 'memoryReservation'"},
	{"Negative", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"deploymentConfiguration":{"minimumHealthyPercent":-1}}`, invalidParameter, "minimumHealthyPercent"},
	{"Negative", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"deploymentConfiguration":{"maximumPercent":-1}}`,
		invalidParameter, "maximumPercent"},
	{"TooMuch", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"deploymentConfiguration":{"minimumHealthyPercent":101}}`, invalidParameter, "minimumHealthyPercent must be at most 100"},
	{"TooMuch", "RunTask", `{"taskDefinition":"shop","count":0}`, invalidParameter, "count"},
	{"TooMuch", "RunTask", `{"taskDefinition":"shop","count":11}`, invalidParameter, "count"},
	{"TooMuch", "ListTasks", `{"maxResults":101}`, invalidParameter, "maxResults"},
	{"TooMuch", "ListServices", `{"maxResults":0}`, invalidParameter, "maxResults"},
	{"TooMany", "PutAttributes", `{"attributes":` + list(10_000, `{"name":"a","targetId":"0a"}`) + `}`,
		invalidParameter, "attributes"},
	{"TooMany", "DescribeServices", `{"services":` + list(11, `"s"`) + `}`, invalidParameter, "services"},
	{"TooMany", "DescribeTasks", `{"tasks":` + list(101, `"s"`) + `}`, invalidParameter, "tasks"},
	{"TooMany", "DescribeClusters", `{"clusters":` + list(101, `"s"`) + `}`, invalidParameter, "clusters"},
	{"TooMany", "StartTask", `{"taskDefinition":"shop","containerInstances":` + list(11, `"a"`) + `}`, invalidParameter,
		"containerInstances"},
	{"TooMany", "UpdateContainerInstancesState", `{"status":"ACTIVE","containerInstances":` + list(11, `"a"`) + `}`,
		invalidParameter, "containerInstances"},
	{"TooMany", "CreateService", `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"loadBalancers":` +
		list(6, `{"targetGroupArn":"`+targetGroup+`","containerName":"app","containerPort":80}`) + `}`, invalidParameter,
		"at most 5"},
	{"TooMany", "RunTask", `{"taskDefinition":"shop","tags":` + tags(51) + `}`, invalidParameter, "tags"},
	{"TooMany", "RunTask",
		`{"taskDefinition":"shop","overrides":{"containerOverrides":[{"name":"app","command":["` + strings.Repeat("x",
			8192) + `"]}]}}`, invalidParameter, "overrides"},
	{"Twice", "StartTask", `{"taskDefinition":"shop","containerInstances":["0a","0a"]}`, invalidParameter, "twice"},
	{"Twice", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"a"},{"key":"a"}]}`, invalidParameter, "Duplicate"},

	{"InvalidARN", "CreateService",
		`{"cluster":"arn:aws:ecs","serviceName":"s","taskDefinition":"shop","desiredCount":1}`, invalidParameter,
		"Invalid identifier"},
	{"InvalidARN", "DescribeClusters", `{"clusters":["arn:aws:s3:::bucket"]}`, invalidParameter, "Invalid identifier"},
	{"OtherKind", "DescribeServices",
		`{"cluster":"arn:aws:ecs:eu-west-1:123456789012:service/prod/web","services":["web"]}`, invalidParameter,
		"not the ARN of a cluster"},
	{"OtherKind", "DescribeTasks", `{"cluster":"prod","tasks":["arn:aws:ecs:eu-west-1:123456789012:service/prod/web"]}`,
		invalidParameter, "not the ARN of a task"},
	{"OtherRegion", "ListTasks", `{"cluster":"arn:aws:ecs:us-east-1:123456789012:cluster/prod"}`, invalidParameter,
		"us-east-1. Your region is eu-west-1"},
	{"OtherAccount", "ListTasks", `{"cluster":"arn:aws:ecs:eu-west-1:999999999999:cluster/prod"}`, invalidParameter,
		"999999999999. Your account is"},
	{"OtherPartition", "ListTasks", `{"cluster":"arn:aws-cn:ecs:eu-west-1:123456789012:cluster/prod"}`,
		invalidParameter, "aws-cn. Your partition is"},
	{"OtherCluster", "DescribeServices", `{"services":["arn:aws:ecs:eu-west-1:123456789012:service/prod/web"]}`,
		invalidParameter, "Identifier is for prod. Your cluster is default"},
	{"OtherCluster", "PutAttributes",
		`{"attributes":[{"name":"a","targetId":"arn:aws:ecs:eu-west-1:123456789012:container-instance/prod/0a"}]}`,
		invalidParameter, "prod"},
	{"BadName", "CreateService", `{"serviceName":"a b","taskDefinition":"shop","desiredCount":1}`, invalidParameter,
		"serviceName"},
	{"BadName", "CreateService", `{"serviceName":"` + strings.Repeat("a",
		256) + `","taskDefinition":"shop","desiredCount":1}`, invalidParameter, "serviceName"},
	{"BadName", "CreateCluster", `{"clusterName":"a/b"}`, invalidParameter, "cluster name"},
	{"BadName", "ListTasks", `{"cluster":"#"}`, invalidParameter, "Invalid identifier"},
	{"BadName", "DescribeTasks", `{"tasks":["short"]}`, invalidParameter, "taskId length"},
	{"BadName", "DescribeTasks", `{"tasks":["zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"]}`, invalidParameter,
		"Invalid identifier"},
	{"BadName", "RunTask", `{"taskDefinition":"shop:0"}`, invalidParameter, "task definition"},
	{"BadName", "RunTask", `{"taskDefinition":"shop","startedBy":"a\u0007b"}`, invalidParameter, "startedBy"},
	{"BadName", "StartTask", `{"taskDefinition":"shop","containerInstances":["0a"],"startedBy":"` + strings.Repeat("a",
		37) + `"}`, invalidParameter, "startedBy"},
	{"BadName", "RunTask", `{"taskDefinition":"shop","clientToken":"a b"}`, invalidParameter, "clientToken"},
	{"BadName", "RunTask", `{"taskDefinition":"shop","clientToken":"` + strings.Repeat("a", 65) + `"}`,
		invalidParameter, "clientToken"},
	{"BadName", "StopTask", `{"task":"00000000000000000000000000000000","reason":"` + strings.Repeat("a", 256) + `"}`,
		invalidParameter, "reason"},
	{"SpreadField", "CreateService", spreadOver("a$ %"), invalidParameter, "spread field 'attribute:a$ %' is invalid."},
	{"SpreadField", "CreateService", spreadOver(strings.Repeat("a", 129)), invalidParameter, "is invalid."},
	{"Reserved", "RunTask", `{"taskDefinition":"shop","group":"service:web"}`, invalidParameter, "group"},
	{"Reserved", "StartTask", `{"taskDefinition":"shop","containerInstances":["0a"],"group":"service:web"}`,
		invalidParameter, "group"},
	{"Reserved", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"AWS:x","value":"v"}]}`, invalidParameter, "aws:"},
	{"UnknownValue", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"schedulingStrategy":"SOMETIMES"}`,
		invalidParameter, "schedulingStrategy"},
	{"UnknownValue", "ListTasks", `{"desiredStatus":"SLEEPING"}`, invalidParameter, "desiredStatus"},
	{"UnknownValue", "DescribeTasks", `{"tasks":["00000000000000000000000000000000"],"include":["ALL"]}`,
		invalidParameter, "include"},
	{"UnknownValue", "RunTask", `{"taskDefinition":"shop","launchType":"MOON"}`, invalidParameter,
		"launch type should be one of [EC2,FARGATE,EXTERNAL]"},
	{"UnknownValue", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"launchType":"MOON"}`, "ClientException",
		"launch type should be one of [EC2,FARGATE]"},
	{"Combination", "ListTasks", `{"startedBy":"me","family":"shop"}`, invalidParameter, "only filter"},

	{"DaemonDesired", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","desiredCount":1}`, invalidParameter,
		"desired count"},
	{"DaemonMaximum", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","deploymentConfiguration":{"maximumPercent":200}}`, invalidParameter, "maximumPercent"},
	{"DaemonStrategy", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","placementStrategy":[{"type":"random"}]}`, invalidParameter, "placement strategies"},
	{"DaemonFargate", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","launchType":"FARGATE"}`,
		invalidParameter, "Fargate"},
	{"DaemonController", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","schedulingStrategy":"DAEMON","deploymentController":{"type":"EXTERNAL"}}`, invalidParameter, "deployment controllers"},

	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"taskDefinition":"shop"}`, invalidParameter,
		"TaskDefinition must be blank."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"networkConfiguration":{"awsvpcConfiguration":{"subnets":["s"]}}}`, invalidParameter, "NetworkConfiguration must be null."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"loadBalancers":[{"targetGroupArn":"` + targetGroup + `","containerName":"app","containerPort":80}]}`, invalidParameter, "LoadBalancers must be empty or null."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"serviceRegistries":[{"registryArn":"arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-1"}]}`, invalidParameter, "ServiceRegistries must be empty or null."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"launchType":"EC2"}`, invalidParameter,
		"LaunchType must be blank."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","deploymentController":{"type":"EXTERNAL"},"capacityProviderStrategy":[{"capacityProvider":"p","weight":1}]}`, invalidParameter, "CapacityProviderStrategy must be empty or null."},
	{"ExternalController", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"deploymentController":{"type":"SOME"}}`,
		invalidParameter, "deploymentController.type"},
	{"TaskSet", "CreateTaskSet", `{"service":"sets","taskDefinition":"shop"}`, invalidParameter,
		"cluster must not be empty"},
	{"TaskSet", "CreateTaskSet", `{"cluster":"prod","taskDefinition":"shop"}`, invalidParameter,
		"service must not be empty"},
	{"TaskSet", "CreateTaskSet", `{"cluster":"prod","service":"sets"}`, invalidParameter,
		"taskDefinition must not be empty"},
	{"TaskSet", "CreateTaskSet", `{"cluster":"prod","service":"sets","taskDefinition":"shop","scale":{"value":101}}`,
		invalidParameter, "scale.value is 101"},
	{"TaskSet", "CreateTaskSet", `{"cluster":"prod","service":"sets","taskDefinition":"shop","scale":{"value":-0.5}}`,
		invalidParameter, "scale.value is -0.5"},
	{"TaskSet", "CreateTaskSet",
		`{"cluster":"prod","service":"sets","taskDefinition":"shop","scale":{"value":1,"unit":"TASKS"}}`,
		invalidParameter, "scale.unit"},
	{"TaskSet", "CreateTaskSet",
		`{"cluster":"prod","service":"sets","taskDefinition":"shop","externalId":"` + strings.Repeat("a", 256) + `"}`,
		invalidParameter, "externalId"},
	{"TaskSet", "CreateTaskSet", `{"cluster":"prod","service":"sets","taskDefinition":"shop","clientToken":"a b"}`,
		invalidParameter, "clientToken"},
	{"TaskSet", "CreateTaskSet",
		`{"cluster":"prod","service":"sets","taskDefinition":"shop","launchType":"EC2","capacityProviderStrategy":[{"capacityProvider":"p","weight":1}]}`, invalidParameter, "both a launch type and capacity provider strategy"},
	{"TaskSet", "CreateTaskSet",
		`{"cluster":"prod","service":"sets","taskDefinition":"shop","capacityProviderStrategy":[
			{"capacityProvider":"arn:aws:ecs:eu-west-1:210987654321:capacity-provider/p","weight":1}]}`, invalidParameter, "Your account is 123456789012"},
	{"TaskSet", "CreateTaskSet",
		`{"cluster":"prod","service":"sets","taskDefinition":"shop","tags":[{"key":"berth:metrics","value":"a=1"}]}`,
		invalidParameter, "berth:metrics"},
	{"TaskSet", "UpdateTaskSet", `{"cluster":"prod","service":"sets","taskSet":"ecs-svc/1"}`, invalidParameter,
		"scale must not be empty"},
	{"TaskSet", "UpdateTaskSet", `{"cluster":"prod","service":"sets","scale":{"value":1}}`, invalidParameter,
		"taskSet must not be empty"},
	{"TaskSet", "UpdateTaskSet", `{"cluster":"prod","service":"sets","taskSet":"1","scale":{"value":1}}`,
		invalidParameter, "Task Set Identifier is invalid"},
	{"TaskSet", "DeleteTaskSet",
		`{"cluster":"prod","service":"sets","taskSet":"arn:aws:ecs:eu-west-1:123456789012:task-set/prod/other/ecs-svc/1"}`, invalidParameter, "Task Set Identifier is invalid"},
	{"TaskSet", "DeleteTaskSet",
		`{"cluster":"prod","service":"sets","taskSet":"arn:aws:ecs:eu-west-1:123456789012:task/prod/0a"}`,
		invalidParameter, "Task Set Identifier is invalid"},
	{"TaskSet", "UpdateServicePrimaryTaskSet", `{"cluster":"prod","service":"sets"}`, invalidParameter,
		"primaryTaskSet must not be empty"},
	{"TaskSet", "DescribeTaskSets", `{"cluster":"prod","service":"sets","taskSets":["ecs-svc/x"]}`, invalidParameter,
		"Task Set Identifier is invalid"},
	{"TaskSet", "DescribeTaskSets", `{"cluster":"prod","service":"sets","include":["ALL"]}`, invalidParameter,
		"include"},
	{"TaskSet", "DescribeTaskSets", `{"cluster":"prod","service":"sets","taskSets":` + list(101, `"ecs-svc/1"`) + `}`,
		invalidParameter, "more than 100"},
	{"TaskSet", "TagResource",
		`{"resourceArn":"arn:aws:ecs:eu-west-1:123456789012:task-set/prod/sets/ecs-svc/x","tags":[{"key":"a","value":"b"}]}`, invalidParameter, "Task Set Identifier is invalid"},

	{"Wait", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:wait","value":"soon"}]}`, invalidParameter,
		"berth:wait"},
	{"Wait", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:wait","value":"-5m"}]}`, invalidParameter,
		"berth:wait"},
	{"Wait", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:wait","value":"721h"}]}`, invalidParameter,
		"berth:wait"},
	{"Wait", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:wait","value":"forever"}]}`,
		invalidParameter, "berth:wait"},
	{"OwnTag", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:cpu-milli","value":"5"}]}`, invalidParameter,
		"berth:cpu-milli"},
	{"OwnTag", "RegisterTaskDefinition", `{"family":"f","tags":[{"key":"berth:cpu-milli","value":"-5"}]}`,
		invalidParameter, "berth:cpu-milli"},
	{"OwnTag", "RegisterTaskDefinition", `{"family":"f","tags":[{"key":"berth:gpu-milli","value":"1000"}]}`,
		invalidParameter, "berth:gpu-milli"},
	{"OwnTag", "RegisterTaskDefinition", `{"family":"f","tags":[{"key":"Berth:Gpu-Milli","value":"10"}]}`,
		invalidParameter, "Berth:Gpu-Milli"},
	{"OwnTag", "RegisterTaskDefinition",
		`{"family":"f","tags":[{"key":"berth:gpu-milli","value":"10"}],"containerDefinitions":[{"resourceRequirements":[{"type":"GPU","value":"1"}]}]}`, invalidParameter, "berth:gpu-milli"},
	{"OwnTag", "CreateCluster", `{"tags":[{"key":"berth:x","value":"5"}]}`, invalidParameter, "berth:x"},
	{"NoEC2", "RunTask", `{"taskDefinition":"fargate"}`, invalidParameter, "EC2"},
	{"Network", "CreateService",
		`{"serviceName":"s","taskDefinition":"awsvpc","desiredCount":1,"networkConfiguration":{"awsvpcConfiguration":{"subnets":[]}}}`, invalidParameter, "subnets can not be empty."},
	{"Network", "CreateService",
		`{"serviceName":"s","taskDefinition":"awsvpc","desiredCount":1,"networkConfiguration":{"awsvpcConfiguration":{"subnets":["s"],"assignPublicIp":"ENABLED"}}}`, invalidParameter, "public IP"},
	{"Network", "CreateService",
		`{"serviceName":"s","taskDefinition":"awsvpc","desiredCount":1,"networkConfiguration":{"awsvpcConfiguration":{"subnets":` + list(17, `"s"`) + `}}}`, invalidParameter, "subnets can have at most 16 items."},
	{"Network", "RunTask",
		`{"taskDefinition":"awsvpc","networkConfiguration":{"awsvpcConfiguration":{"subnets":["s"],"securityGroups":` + list(6, `"g"`) + `}}}`, invalidParameter, "securityGroups cannot have more than 5 items."},
	{"Rules", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"placementConstraints":[{"type":"distinctInstance","expression":"a"}]}`, invalidParameter, "distinctInstance expression should not be specified."},
	{"Rules", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"placementConstraints":[{"type":"memberOf"}]}`,
		invalidParameter, "must have an expression"},
	{"Rules", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"placementConstraints":[{"type":"memberof","expression":"a"}]}`, invalidParameter, "placementConstraints.type"},
	{"Rules", "RunTask", `{"taskDefinition":"shop","placementConstraints":` + list(11,
		`{"type":"distinctInstance"}`) + `}`, invalidParameter, "more than 10"},
	{"Rules", "RunTask", `{"taskDefinition":"shop","placementStrategy":` + list(6, `{"type":"random"}`) + `}`,
		invalidParameter, "Maximum number of strategies is 5."},
	{"Rules", "RunTask", `{"taskDefinition":"shop","placementStrategy":[{"type":"random","field":"cpu"}]}`,
		invalidParameter, "random field should not be specified."},
	{"Rules", "RunTask", `{"taskDefinition":"shop","placementStrategy":[{"type":"binpack","field":"gpu"}]}`,
		invalidParameter, "binpack field 'gpu' is invalid."},
	{"Rules", "RunTask", `{"taskDefinition":"shop","placementStrategy":[{"type":"spread","field":"attribute:"}]}`,
		invalidParameter, "spread"},
	{"Rules", "UpdateService", `{"service":"s","placementStrategy":[{"field":"cpu"}]}`, invalidParameter,
		"must have a type"},
	{"RuleTag", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:domain-policy","value":"spread"}]}`, invalidParameter, "expected adaptive, maximum-difference"},
	{"RuleTag", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:metrics","value":"MEMORY=5"}]}`, invalidParameter, "is no metric"},
	{"RuleTag", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:move-cost","value":"huge"}]}`, invalidParameter, "berth:move-cost"},
	{"UnknownService", "ListServiceDeployments", `{"cluster":"prod","service":"nope"}`, "ServiceNotFoundException", ""},
	{"UnknownCluster", "ListServiceDeployments", `{"cluster":"nope","service":"web"}`, "ClusterNotFoundException", ""},
	{"MissingField", "ListServiceDeployments", `{}`, invalidParameter, "service"},
	{"MissingField", "DescribeServiceDeployments", `{}`, invalidParameter, "serviceDeploymentArns"},
	{"MissingField", "DescribeServiceRevisions", `{}`, invalidParameter, "serviceRevisionArns"},
	{"MissingField", "StopServiceDeployment", `{}`, invalidParameter, "serviceDeploymentArn"},
	{"MissingField", "UpdateTaskProtection", `{"protectionEnabled":true}`, invalidParameter, "tasks"},
	{"MissingField", "GetTaskProtection", `{}`, invalidParameter, "tasks"},
	{"UnknownValue", "ListServiceDeployments", `{"cluster":"prod","service":"web","status":["DONE"]}`, invalidParameter,
		"status"},
	{"UnknownValue", "StopServiceDeployment",
		`{"serviceDeploymentArn":"arn:aws:ecs:eu-west-1:123456789012:service-deployment/prod/web/a","stopType":"NOW"}`,
		invalidParameter, "stopType"},
	{"UnknownValue", "UpdateContainerInstancesState", `{"status":"INACTIVE","containerInstances":["0a"]}`,
		invalidParameter, "[ACTIVE,DRAINING]"},
	{"MissingField", "UpdateContainerInstancesState", `{"containerInstances":["0a"]}`, invalidParameter,
		"[ACTIVE,DRAINING]"},
	{"TooMuch", "ListServiceDeployments", `{"cluster":"prod","service":"web","maxResults":101}`, invalidParameter,
		"maxResults is 101"},
	{"TooMuch", "ListServiceDeployments", `{"cluster":"prod","service":"web","createdAt":{"after":2,"before":1}}`,
		invalidParameter, "createdAt.before"},
	{"TooMuch", "ListServiceDeployments", `{"cluster":"prod","service":"web","createdAt":{"after":1e300}}`,
		serialization, "number 1e300"},
	{"TooMuch", "UpdateTaskProtection",
		`{"protectionEnabled":true,"tasks":["00000000000000000000000000000000"],"expiresInMinutes":2881}`,
		invalidParameter, "expiresInMinutes is 2881"},
	{"TooMuch", "UpdateTaskProtection",
		`{"protectionEnabled":true,"tasks":["00000000000000000000000000000000"],"expiresInMinutes":0}`,
		invalidParameter, "expiresInMinutes is 0"},
	{"WrongType", "ListServiceDeployments", `{"cluster":"prod","service":"web","createdAt":{"after":"noon"}}`,
		serialization, "string"},
	{"TooMany", "UpdateTaskProtection", `{"protectionEnabled":true,"tasks":` + list(11,
		`"00000000000000000000000000000000"`) + `}`, invalidParameter, "tasks"},
	{"TooMany", "GetTaskProtection", `{"tasks":` + list(101, `"00000000000000000000000000000000"`) + `}`,
		invalidParameter, "tasks"},
	{"TooMany", "DescribeServiceDeployments", `{"serviceDeploymentArns":` + list(21, `"a"`) + `}`, invalidParameter,
		"serviceDeploymentArns"},
	{"TooMany", "DescribeServiceRevisions", `{"serviceRevisionArns":` + list(21, `"a"`) + `}`, invalidParameter,
		"serviceRevisionArns"},
	{"InvalidARN", "DescribeServiceDeployments", `{"serviceDeploymentArns":["a"]}`, invalidParameter, "no ARN of ECS"},
	{"OtherKind", "DescribeServiceDeployments",
		`{"serviceDeploymentArns":["arn:aws:ecs:eu-west-1:123456789012:service-revision/prod/web/1"]}`,
		invalidParameter, "not the ARN of a service-deployment"},
	{"OtherKind", "DescribeServiceRevisions",
		`{"serviceRevisionArns":["arn:aws:ecs:eu-west-1:123456789012:service-revision/prod/web"]}`, invalidParameter,
		"not the ARN of a service-revision"},
	{"OtherRegion", "StopServiceDeployment",
		`{"serviceDeploymentArn":"arn:aws:ecs:us-east-1:123456789012:service-deployment/prod/web/1"}`, invalidParameter,
		"us-east-1"},
	{"RuleTag", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:domain-policy","value":"adaptive"}]}`,
		invalidParameter, "berth:domain-policy"},
	{"Misspelt", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:domain-policy","value":"adaptve"}]}`,
		invalidParameter, `Tag berth:domain-policy: The domain policy is "adaptve", expected adaptive, maximum-difference, quorum-safe, ` +
			`nonpacking, ignore or none; did you mean "adaptive"?`},
	{"Misspelt", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:domain-polcy","value":"quorum"}]}`,
		invalidParameter, `Tag berth:domain-polcy is not known here; did you mean "berth:domain-policy"?`},
	{"Misspelt", "CreateService",
		`{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"berth:rebalancing","value":"onn"}]}`,
		invalidParameter, `Rebalancing is "onn", expected on or off; did you mean "on"?`},
	{"Misspelt", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"Berth:Wait","value":"forever"}]}`,
		invalidParameter, `Tag Berth:Wait is not known here; did you mean "berth:wait"?`},
	{"Misspelt", "RunTask", `{"taskDefinition":"shop","tags":[{"key":"berth:wait","value":"forver"}]}`,
		invalidParameter, `such as 10m; did you mean "forever"?`},
	{"Misspelt", "PutAccountSetting", `{"name":"containerInsights","value":"enabeld"}`, invalidParameter,
		`Invalid setting 'value'; did you mean "enabled"?`},
	{"Misspelt", "CreateCapacityProvider", `{"name":"spot","autoScalingGroupProvider":{"autoScalingGroupArn":"` +
		`arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:1:autoScalingGroupName/g",` +
		`"managedScaling":{"status":"ENABELD"}}}`, invalidParameter,
		`"ENABELD", expected ENABLED or DISABLED; did you mean "ENABLED"?`},
	{"Misspelt", "CreateService", `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,` +
		`"availabilityZoneRebalancing":"ENABELD"}`, invalidParameter,
		`"ENABELD", expected ENABLED or DISABLED; did you mean "ENABLED"?`},
}

// Each bad request gets its code and a message that says what is wrong, and changes nothing.
func TestBadInput(t *testing.T) {
	for _, c := range bad {
		t.Run(c.op+"/"+c.name, func(t *testing.T) {
			b := newBerth(t)
			status, code, message := b.answered(t, c.op, c.body)
			if code != c.code || !strings.Contains(message, c.has) || status/100 != 4 {
				t.Errorf("%d %s %.300s, want %s with %q", status, code, message, c.code, c.has)
			}
			if len(b.scheduler.services)+len(b.scheduler.tasks)+len(b.scheduler.told) > 0 {
				t.Errorf("something changed: %v", b.scheduler.told)
			}
			for _, call := range b.cloud.calls {
				if !strings.HasPrefix(call, "Describe") {
					t.Errorf("ECS was asked for %s", call)
				}
			}
		})
	}
}

// FuzzOperations: no request makes the server panic or fault, whatever the operation.
func FuzzOperations(f *testing.F) {
	for _, c := range bad {
		if len(c.body) < 2000 {
			f.Add(c.op, []byte(c.body))
		}
	}
	f.Add("CreateService",
		[]byte(`{"cluster":"prod","serviceName":"s","taskDefinition":"shop","desiredCount":1,"tags":[{"key":"a"}]}`))
	f.Add("DescribeClusters", []byte(`{"clusters":["prod"],"include":["TAGS"]}`))
	f.Fuzz(func(t *testing.T, op string, body []byte) {
		s := newScheduler()
		m := wire.NewServer(serving(s, newCloud()))
		status, answer := m.ServeOperation(t.Context(), op, body)
		if status >= 500 || !json.Valid(answer) {
			t.Errorf("%s %q: %d %s", op, body, status, answer)
		}
		for _, d := range s.services {
			if d.Service.Name == "" || d.Service.Desired < 0 || strings.ContainsAny(d.Service.Name, "#/ ") {
				t.Errorf("service %q of %d tasks", d.Service.Name, d.Service.Desired)
			}
		}
	})
}

// FuzzParseARN: an accepted cluster name can be a partition key, and its ARN leads back to it.
func FuzzParseARN(f *testing.F) {
	for _, seed := range []string{
		"prod", "arn:aws:ecs:eu-west-1:123456789012:cluster/prod", "arn:aws:ecs:eu-west-1:123456789012:cluster/a/b",
		"arn:", "arn:aws:ecs:::cluster/x",
		"arn:aws:ecs:eu-west-1:123456789012:service/prod/web", "#", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		s := newScheduler()
		m := wire.NewServer(serving(s, newCloud()))
		body, err := json.Marshal(map[string]string{"cluster": ref})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := m.ServeOperation(t.Context(), "ListTasks", body)
		if status >= 500 {
			t.Fatalf("%d %s", status, answer)
		}
		name := s.lastQuery.Cluster
		if name == "" {
			return // refused
		}
		if strings.ContainsAny(name, "#/: ") || len(name) > 255 {
			t.Errorf("%q is taken for cluster %q", ref, name)
		}
		a, ok := cluster.ParseARN(account.ARN("cluster", name))
		if !ok || a.Name != name {
			t.Errorf("%q leads to %+v", name, a)
		}
	})
}

// FuzzNextToken: a token that the server did not make is refused, and no token makes it fail.
func FuzzNextToken(f *testing.F) {
	for _, seed := range []string{"", "x", "AAAAAAAAAAAAAAAA", "AAAAAAAAAAAA", "!", strings.Repeat("A", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		s := newScheduler()
		m := wire.NewServer(serving(s, newCloud()))
		body, err := json.Marshal(map[string]string{"nextToken": token})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := m.ServeOperation(t.Context(), "ListTasks", body)
		refused := status == 400 && strings.Contains(string(answer), `"InvalidParameterException"`)
		if token == "" && status != 200 || token != "" && !refused {
			t.Errorf("token %q: %d %s", token, status, answer)
		}
	})
}
