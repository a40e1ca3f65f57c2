package wire_test

import (
	"strings"
	"testing"

	"berth/shared/wire/awsjson"
	"berth/shared/wire/ecsapi"
)

// refusedSamples has a use of each member that some operation refuses, by path; by operation and
// path if the operations need different ones.
var refusedSamples = map[string]string{
	"launchType": `"FARGATE"`, "referenceId": `"r"`,
	"serviceConnectConfiguration": `{"enabled":true}`, "vpcLatticeConfigurations": `[{"portName":"p"}]`,
	"monitoring": `{}`, "gatewayConnectors": `[{}]`,
	"deploymentController.type": `"CODE_DEPLOY"`, "deploymentConfiguration.strategy": `"BLUE_GREEN"`,
	"deploymentConfiguration.bakeTimeInMinutes":   `5`,
	"deploymentConfiguration.lifecycleHooks":      `[{"hookTargetArn":"a"}]`,
	"deploymentConfiguration.canaryConfiguration": `{}`, "deploymentConfiguration.linearConfiguration": `{}`,
	"loadBalancers.advancedConfiguration": `{}`, "loadBalancers.loadBalancerName": `"l"`,
	"capacityProviderStrategy.capacityProvider": `"FARGATE"`,
	"capacityProviderStrategy":                  `[{"capacityProvider":"p","weight":1}],"schedulingStrategy":"DAEMON"`,
	"serviceRegistries": `[{"registryArn":"arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-1",` +
		`"containerName":"app","containerPort":80}]`,
	"UpdateService.serviceRegistries": `[{"registryArn":"arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-1",` +
		`"containerName":"app","containerPort":80}],"taskDefinition":"shop"`,
	"overrides.ephemeralStorage": `{"sizeInGiB":21}`, "overrides.inferenceAcceleratorOverrides": `[{"deviceName":"d"}]`,
	"overrides.containerOverrides.resourceRequirements": `[{"type":"GPU","value":"1"}]`,
	"platformVersion": `"LATEST"`, "daemonName": `"d"`, "cluster": `"prod"`,
	"managedInstancesProvider": `{}`, "name": `"fargateFIPSMode"`,
}

// refusedBases have what else an operation needs.
var refusedBases = map[string]string{
	"CreateService": `"serviceName":"s","taskDefinition":"shop"`, "UpdateService": `"service":"web","cluster":"prod"`,
	"CreateTaskSet": `"service":"web","cluster":"prod","taskDefinition":"shop"`,
	"RunTask":       `"taskDefinition":"shop"`, "StartTask": `"taskDefinition":"shop","containerInstances":["0a"]`,
	"PutAccountSetting": `"value":"enabled"`, "PutAccountSettingDefault": `"value":"enabled"`,
}

// bodyWith returns the body of a request with one more member. Lists have one item.
func bodyWith(base, member, value string) string {
	parts := strings.Split(member, ".")
	for i := len(parts) - 1; i > 0; i-- {
		value = `{"` + parts[i] + `":` + value + `}`
		switch parts[i-1] {
		case "loadBalancers", "capacityProviderStrategy":
			value = "[" + value + "]"
		case "containerOverrides":
			value = `[{"name":"app",` + value[1:] + "]"
		}
	}
	if base != "" {
		base += ","
	}
	return `{` + base + `"` + parts[0] + `":` + value + `}`
}

// What is not served is refused by name, with the reason, wherever it is given.
func TestUnserved(t *testing.T) {
	for op, members := range ecsapi.RefusedMembers() {
		for _, m := range members {
			t.Run(op+"/"+m.Member, func(t *testing.T) {
				sample := refusedSamples[op+"."+m.Member]
				if sample == "" {
					sample = refusedSamples[m.Member]
				}
				base := refusedBases[op]
				if op == "CreateService" && m.Member != "capacityProviderStrategy" {
					base += `,"desiredCount":1`
				}
				b := newBerth(t)
				b.create(t)
				status, code, message := b.answered(t, op, bodyWith(base, m.Member, sample))
				if m.Words != "" && status == 400 && code == invalidParameter && message == m.Words {
					return
				}
				if status != 400 || code != notSupported || !strings.HasPrefix(message, m.Member) || m.Reason == "" ||
					!strings.HasSuffix(message, ": "+m.Reason+".") {
					t.Errorf("%d %s %s, want the reason %q", status, code, message, m.Reason)
				}
			})
		}
	}
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

// Each operation of the ECS API is served, or refused by name with a reason.
func TestEveryOperationIsServedOrRefused(t *testing.T) {
	b := newBerth(t)
	refused, served := ecsapi.RefusedOperations(), ecsapi.Operations(ecsapi.Options{})
	for _, op := range awsjson.OperationNames() {
		reason := refused[op]
		_, is := served[op]
		if !is {
			t.Errorf("%s is neither served nor refused with a reason", op)
		}
		if reason == "" {
			continue
		}
		_, code, message := b.answered(t, op, `{}`)
		if code != notSupported || message != op+" is not supported: "+reason+"." {
			t.Errorf("%s: %s %s", op, code, message)
		}
	}
}
