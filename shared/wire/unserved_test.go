package wire_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// unserved has the members that are refused by name, by operation. A name with a dot is a member of
// deploymentConfiguration.
var unserved = map[string]map[string]string{
	"CreateService": {"launchType": `"FARGATE"`, "role": `"r"`},
	"UpdateService": {},
	"RunTask":       {"referenceId": `"r"`, "launchType": `"FARGATE"`, "platformVersion": `"1.4.0"`},
	"StartTask":     {"referenceId": `"r"`},
}

func init() {
	for _, op := range []string{"CreateService", "UpdateService"} {
		for name, v := range map[string]string{
			"serviceConnectConfiguration": `{"enabled":true}`, "vpcLatticeConfigurations": `[{"portName":"p"}]`, "platformVersion": `"1.4.0"`,
			"monitoring": `{}`, "gatewayConnectors": `[{}]`, "deploymentController": `{"type":"CODE_DEPLOY"}`, "volumeConfigurations": `[{"name":"v"}]`,
			"deploymentConfiguration.strategy": `"BLUE_GREEN"`, "deploymentConfiguration.bakeTimeInMinutes": `5`,
			"deploymentConfiguration.lifecycleHooks":      `[{"hookTargetArn":"a"}]`,
			"deploymentConfiguration.canaryConfiguration": `{}`, "deploymentConfiguration.linearConfiguration": `{}`,
		} {
			unserved[op][name] = v
		}
	}
	for _, op := range []string{"RunTask", "StartTask"} {
		for name, v := range map[string]string{
			"volumeConfigurations": `[{"name":"v"}]`, "enableExecuteCommand": `true`, "enableECSManagedTags": `true`, "propagateTags": `"SERVICE"`,
		} {
			unserved[op][name] = v
		}
	}
}

var bases = map[string]string{
	"CreateService": `"serviceName":"s","taskDefinition":"shop","desiredCount":1`, "UpdateService": `"service":"s"`,
	"RunTask": `"taskDefinition":"shop"`, "StartTask": `"taskDefinition":"shop","containerInstances":["0a"]`,
}

// What is not served is refused by name wherever it is given, and nothing else is.
func TestUnserved(t *testing.T) {
	for op, members := range unserved {
		for member, v := range members {
			t.Run(op+"/"+member, func(t *testing.T) {
				outer, part, nested := strings.Cut(member, ".")
				body := `{` + bases[op] + `,"` + outer + `":` + v + `}`
				if nested {
					body = `{` + bases[op] + `,"` + outer + `":{"` + part + `":` + v + `}}`
				}
				b := newBerth(t)
				status, code, message := b.answered(t, op, body)
				if status != 400 || code != notSupported || !strings.HasPrefix(message, member) {
					t.Errorf("%d %s %s", status, code, message)
				}
			})
		}
	}
	t.Run("OtherOperations", func(t *testing.T) {
		b := newBerth(t)
		for _, op := range []string{"CreateTaskSet", "CreateDaemon", "ExecuteCommand", "ContinueServiceDeployment", "SubmitTaskStateChange"} {
			if _, code, message := b.answered(t, op, `{}`); code != notSupported || !strings.Contains(message, op) {
				t.Errorf("%s: %s %s", op, code, message)
			}
		}
	})
	t.Run("SwitchedOff", func(t *testing.T) {
		b := newBerth(t)
		body := `{"serviceName":"s","taskDefinition":"shop","desiredCount":1,"loadBalancers":[],"placementStrategy":[],"launchType":"EC2",
			"deploymentController":{"type":"ECS"},"enableECSManagedTags":false,"propagateTags":"NONE","availabilityZoneRebalancing":"DISABLED",
			"healthCheckGracePeriodSeconds":0,"schedulingStrategy":"REPLICA","serviceConnectConfiguration":{"enabled":false},
			"deploymentConfiguration":{"strategy":"ROLLING","earlySuccessCriteria":{"enable":false},"bakeTimeInMinutes":0,
			"deploymentCircuitBreaker":{"enable":false,"rollback":false},"alarms":{"alarmNames":[],"enable":false,"rollback":false}}}`
		if status, code, message := b.answered(t, "CreateService", body); status != 200 {
			t.Errorf("%d %s %s", status, code, message)
		}
	})
}

// served has the members that have an effect, of an operation's input or of a structure in it; the
// rest is in [unserved].
var served = map[string][]string{
	"CreateService": {
		"serviceName", "cluster", "taskDefinition", "desiredCount", "deploymentConfiguration", "loadBalancers", "serviceRegistries",
		"networkConfiguration", "healthCheckGracePeriodSeconds", "placementConstraints", "placementStrategy", "availabilityZoneRebalancing",
		"enableECSManagedTags", "enableExecuteCommand", "propagateTags", "capacityProviderStrategy", "schedulingStrategy", "clientToken", "tags",
	},
	"UpdateService": {
		"service", "cluster", "taskDefinition", "desiredCount", "deploymentConfiguration", "loadBalancers", "serviceRegistries",
		"networkConfiguration", "healthCheckGracePeriodSeconds", "placementConstraints", "placementStrategy", "availabilityZoneRebalancing",
		"enableECSManagedTags", "enableExecuteCommand", "propagateTags", "capacityProviderStrategy", "forceNewDeployment",
	},
	"RunTask": {
		"taskDefinition", "cluster", "count", "capacityProviderStrategy", "clientToken", "group", "networkConfiguration", "overrides",
		"placementConstraints", "placementStrategy", "startedBy", "tags",
	},
	"StartTask": {"taskDefinition", "cluster", "containerInstances", "group", "networkConfiguration", "overrides", "startedBy", "tags"},

	"deploymentConfiguration":  {"alarms", "deploymentCircuitBreaker", "earlySuccessCriteria", "maximumPercent", "minimumHealthyPercent"},
	"deploymentCircuitBreaker": {"enable", "rollback", "resetOnHealthyTask", "thresholdConfiguration"},
	"thresholdConfiguration":   {"type", "value"},
	"alarms":                   {"alarmNames", "enable", "rollback"},
	"earlySuccessCriteria":     {"enable", "healthyPercent", "sourceServiceRevisionCleanup"},
	"serviceRegistries":        {"registryArn", "containerName", "containerPort", "port"},
}

// A member that a later SDK adds must not be ignored.
func TestEveryMemberIsServedOrRefused(t *testing.T) {
	for of, in := range map[string]reflect.Type{
		"CreateService": reflect.TypeFor[ecs.CreateServiceInput](), "UpdateService": reflect.TypeFor[ecs.UpdateServiceInput](),
		"RunTask": reflect.TypeFor[ecs.RunTaskInput](), "StartTask": reflect.TypeFor[ecs.StartTaskInput](),
		"deploymentConfiguration":  reflect.TypeFor[types.DeploymentConfiguration](),
		"deploymentCircuitBreaker": reflect.TypeFor[types.DeploymentCircuitBreaker](),
		"thresholdConfiguration":   reflect.TypeFor[types.ThresholdConfiguration](),
		"alarms":                   reflect.TypeFor[types.DeploymentAlarms](),
		"earlySuccessCriteria":     reflect.TypeFor[types.DeploymentEarlySuccessCriteria](),
		"serviceRegistries":        reflect.TypeFor[types.ServiceRegistry](),
	} {
		for n := range in.NumField() {
			name := in.Field(n).Name
			if name == "noSmithyDocumentSerde" {
				continue
			}
			name = strings.ToLower(name[:1]) + name[1:]
			_, refused := unserved[of][name]
			if of == "deploymentConfiguration" {
				_, refused = unserved["CreateService"][of+"."+name]
			}
			if refused == slices.Contains(served[of], name) {
				t.Errorf("%s.%s is served: %t", of, name, !refused)
			}
		}
	}
}
