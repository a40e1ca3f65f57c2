package sim_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

const registration = `{"cluster":"prod","totalResources":[{"name":"CPU","type":"INTEGER","integerValue":2048},
	{"name":"MEMORY","type":"INTEGER","integerValue":4096},{"name":"connections","type":"INTEGER","integerValue":100}],
	"attributes":[{"name":"ecs.availability-zone","value":"eu-west-1b"},{"name":"berth.fault-domain","value":"fd:/dc1/r0"}]`

func TestRegisterContainerInstanceTakesAnySize(t *testing.T) {
	w := newWorld(t, sim.Options{})
	status, answer := w.call("RegisterContainerInstance", registration+`}`)
	expect(t, "status", status, http.StatusOK)
	arn := dig(answer, "containerInstance", "containerInstanceArn").(string)
	i := w.instance(cluster.LastPart(arn))
	expect(t, "zone", i.Zone(), "eu-west-1b")
	expect(t, "domain", i.FaultDomain(), "fd:/dc1/r0")
	expect(t, "CPU", i.Registered.CPU, int64(2048*cluster.CPUUnit))
	expect(t, "metric", i.Registered.Metrics["connections"], int64(100))
	event := w.events[len(w.events)-1].Detail.(*cluster.Instance)
	expect(t, "the event's metric", event.Registered.Metrics["connections"], int64(100))
	task := w.start("web:1", i.ID)[0]
	expect(t, "task", task.Instance, i.ID)

	t.Run("NewInstance", func(t *testing.T) {
		again := strings.Replace(registration, "fd:/dc1/r0", "fd:/dc2/r0", 1) + `,"containerInstanceArn":"` + arn + `"}`
		status, _ := w.call("RegisterContainerInstance", again)
		expect(t, "status", status, http.StatusOK)
		expect(t, "domain", w.instance(i.ID).FaultDomain(), "fd:/dc2/r0")
		status, answer := w.call("DescribeContainerInstances", `{"cluster":"prod","containerInstances":["`+i.ID+`"]}`)
		expect(t, "status", status, http.StatusOK)
		expect(t, "free", dig(answer, "containerInstances", 0, "remainingResources", 0, "integerValue"),
			any(2048.0-256))
	})
	for name, c := range map[string]struct{ old, new, has string }{
		"NoCPU":     {`"CPU"`, `"cpus"`, "CPU and MEMORY"},
		"Negative":  {`:100}`, `:-1}`, "between 0"},
		"Reserved":  {`berth.fault-domain`, `ecs.ami-id`, "reserved prefix"},
		"NoCluster": {`"prod"`, `"nowhere"`, "Cluster not found"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := w.call("RegisterContainerInstance", strings.Replace(registration, c.old, c.new, 1)+`}`)
			if text, _ := answer["message"].(string); status != 400 || !strings.Contains(text, c.has) {
				t.Errorf("%d %v, want %q", status, answer, c.has)
			}
		})
	}
	status, _ = w.call("RegisterContainerInstance", registration+`,"containerInstanceArn":"nobody"}`)
	expect(t, "nobody", status, 400)
}

// A task in awsvpc mode takes one of its instance's network interfaces, and needs a network
// configuration.
func TestAwsvpcTasksTakeNetworkInterfaces(t *testing.T) {
	w := newWorld(t, sim.Options{})
	must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{
		Family: new("own"), NetworkMode: types.NetworkModeAwsvpc,
		ContainerDefinitions: []types.ContainerDefinition{container("app", 64, 64)},
	})
	id := w.add(1, ec2.Machine{Type: "m5.large", ENIs: 1})[0]
	expect(t, "registered", *w.instance(id).Registered.ENIs, 1)
	network := &cluster.Network{Subnets: []string{"subnet-1"}}
	run := func(n *cluster.Network) (cluster.StartAnswer, error) {
		return w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "own:1", Instances: []string{id},
			StartedBy: "berth/test", Network: n})
	}
	_, err := run(nil)
	expect(t, "without a network", cluster.ErrorCode(err), cluster.CodeInvalidParameter)
	first, err := run(network)
	expect(t, "error", err, nil)
	described := must(t, w.ECS.Tasks.DescribeTasks, &ecs.DescribeTasksInput{Cluster: new("prod"),
		Tasks: []string{first.Tasks[0].ID}}).Tasks[0].Attachments[0]
	details := map[string]string{}
	for _, d := range described.Details {
		details[*d.Name] = *d.Value
	}
	address := details["privateIPv4Address"]
	expect(t, "details", len(details), 5)
	expect(t, "subnet", details["subnetId"], "subnet-1")
	expect(t, "name", details["privateDnsName"],
		"ip-"+strings.ReplaceAll(address, ".", "-")+".eu-central-1.compute.internal")
	expect(t, "MAC address", len(details["macAddress"]), len("0a:00:00:00:00:00"))
	second, err := run(network)
	expect(t, "error", err, nil)
	expect(t, "refused", second.Failures[0].Reason, "RESOURCE:ENI")
	expect(t, "stopping", w.ECS.StopTask(ctx, "prod", first.Tasks[0].ID, ""), nil)
	w.clock.advance(5 * time.Minute)
	third, err := run(network)
	expect(t, "error", err, nil)
	expect(t, "started once the interface is free", len(third.Tasks), 1)
}

// An instance that registered no resource ENI may say in an attribute how many interfaces it can have,
// also later.
func TestNetworkInterfacesByAttribute(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	expect(t, "no limit at first", w.instance(id).Registered.ENIs == nil, true)
	for _, most := range []int{2, 3} {
		check(t, w.ECS.PutAttribute(ctx, "prod", id, cluster.AttributeENIs, strconv.Itoa(most)))
		got := w.instance(id).Registered.ENIs
		expect(t, "limit", got != nil && *got == most, true)
	}
	check(t, w.ECS.RemoveAttribute(ctx, "prod", id, cluster.AttributeENIs))
	expect(t, "no limit any more", w.instance(id).Registered.ENIs == nil, true)
}
