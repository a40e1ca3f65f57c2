package sim_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/sim"
)

const identified = `{"cluster":"prod","instanceIdentityDocument":"{\"instanceId\":\"i-0123456789abcdef0\",` +
	`\"availabilityZone\":\"eu-west-1c\",\"instanceType\":\"c5.large\"}"`

// A machine may say who and where it is by its identity document; its size is that of its type.
func TestRegisterContainerInstanceByIdentity(t *testing.T) {
	w := newWorld(t, sim.Options{})
	status, answer := w.call("RegisterContainerInstance", identified+`,"versionInfo":{"agentVersion":"1.50.0"}}`)
	expect(t, "status", status, http.StatusOK)
	arn := dig(answer, "containerInstance", "containerInstanceArn").(string)
	expect(t, "id", dig(answer, "containerInstance", "ec2InstanceId"), any("i-0123456789abcdef0"))
	expect(t, "version", dig(answer, "containerInstance", "versionInfo", "agentVersion"), any("1.50.0"))
	i := w.instance(cluster.LastPart(arn))
	expect(t, "zone", i.Zone(), "eu-west-1c")
	expect(t, "memory", i.Registered.Memory, int64(3713))
	expect(t, "type", i.Attributes[cluster.AttributeInstanceType], "c5.large")

	t.Run("AgentRestarted", func(t *testing.T) {
		status, _ := w.call("RegisterContainerInstance", `{"cluster":"prod","containerInstanceArn":"`+arn+`"}`)
		expect(t, "status", status, http.StatusOK)
		again := w.instance(i.ID)
		expect(t, "memory", again.Registered.Memory, int64(3713))
		expect(t, "zone", again.Zone(), "eu-west-1c")
		expect(t, "type", again.Attributes[cluster.AttributeInstanceType], "c5.large")
	})
	t.Run("Nothing", func(t *testing.T) {
		status, answer := w.call("RegisterContainerInstance", `{"cluster":"prod"}`)
		expect(t, "status", status, http.StatusOK)
		expect(t, "CPU", dig(answer, "containerInstance", "registeredResources", 0, "integerValue"), any(2048.0))
	})
	for _, bad := range []string{`i-0123456789abcdef0`, `eu-west-1c`, `c5.large`} {
		status, answer := w.call("RegisterContainerInstance", strings.Replace(identified, bad, "<b>", 1)+`}`)
		if text, _ := answer["message"].(string); status != 400 || !strings.Contains(text, "identity document") {
			t.Errorf("without %s: %d %v", bad, status, answer)
		}
	}
}

// Filters are the cluster query language's, as those of placement constraints.
func TestListContainerInstancesByFilter(t *testing.T) {
	w := newWorld(t, sim.Options{})
	_, answer := w.call("RegisterContainerInstance", identified+`,"attributes":[{"name":"stack","value":"blue"}]}`)
	arn := dig(answer, "containerInstance", "containerInstanceArn").(string)
	w.start("web:1", cluster.LastPart(arn))
	for filter, want := range map[string]bool{
		"attribute:stack == blue":                                                 true,
		"attribute:stack == green":                                                false,
		"ec2InstanceId == i-0123456789abcdef0":                                    true,
		"agentVersion >= 1.0.0 and agentConnected == true":                        true,
		"not(attribute:ecs.instance-type =~ c5.*)":                                false,
		"registeredAt > 2030-01-01":                                               false,
		"attribute:ecs.availability-zone == eu-west-1c and task:group exists":     true,
		"attribute:ecs.availability-zone == eu-west-1c and runningTasksCount > 5": false,
	} {
		status, answer := w.call("ListContainerInstances", `{"cluster":"prod","filter":"`+filter+`"}`)
		expect(t, "status", status, http.StatusOK)
		found := false
		for _, got := range answer["containerInstanceArns"].([]any) {
			found = found || got == any(arn)
		}
		expect(t, filter, found, want)
	}
	status, answer := w.call("ListContainerInstances", `{"cluster":"prod","filter":"stack ="}`)
	if text, _ := answer["message"].(string); status != 400 || !strings.Contains(text, "Invalid filter") {
		t.Errorf("%d %v", status, answer)
	}
}

func TestUpdateContainerAgentFindsNoUpdate(t *testing.T) {
	w := newWorld(t, sim.Options{})
	_, answer := w.call("RegisterContainerInstance", identified+`}`)
	arn := dig(answer, "containerInstance", "containerInstanceArn").(string)
	_, answer = w.call("UpdateContainerAgent", `{"cluster":"prod","containerInstance":"`+arn+`"}`)
	expect(t, "error", answer["__type"], any("NoUpdateAvailableException"))
	_, answer = w.call("UpdateContainerAgent", `{"cluster":"prod","containerInstance":"none"}`)
	expect(t, "error", answer["__type"], any("InvalidParameterException"))
}

func TestDiscoverPollEndpointNamesEndpointsThatLeadNowhere(t *testing.T) {
	w := newWorld(t, sim.Options{})
	status, answer := w.call("DiscoverPollEndpoint", `{"cluster":"none","containerInstance":"none"}`)
	expect(t, "status", status, http.StatusOK)
	for _, member := range []string{"endpoint", "telemetryEndpoint", "serviceConnectEndpoint"} {
		if text, _ := answer[member].(string); !strings.HasSuffix(text, ".invalid/") {
			t.Errorf("%s is %q", member, text)
		}
	}
}

func TestUpdateClusterSettingsReplacesThem(t *testing.T) {
	w := newWorld(t, sim.Options{})
	_, answer := w.call("UpdateClusterSettings",
		`{"cluster":"prod","settings":[{"name":"containerInsights","value":"enhanced"}]}`)
	expect(t, "value", dig(answer, "cluster", "settings", 0, "value"), any("enhanced"))
	_, answer = w.call("DescribeClusters", `{"clusters":["prod"],"include":["SETTINGS"]}`)
	expect(t, "value", dig(answer, "clusters", 0, "settings", 0, "value"), any("enhanced"))
}
