package fleet_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/fleet"
)

const registration = `{"cluster":"prod","totalResources":[{"name":"CPU","type":"INTEGER","integerValue":2048},
	{"name":"MEMORY","type":"INTEGER","integerValue":4096},{"name":"connections","type":"INTEGER","integerValue":100}],
	"attributes":[{"name":"ecs.availability-zone","value":"eu-west-1b"},{"name":"berth.fault-domain","value":"fd:/dc1/r0"}]`

func TestRegisterContainerInstance(t *testing.T) {
	w := newWorld(t, fleet.Options{})
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

	t.Run("Anew", func(t *testing.T) {
		again := strings.Replace(registration, "fd:/dc1/r0", "fd:/dc2/r0", 1) + `,"containerInstanceArn":"` + arn + `"}`
		status, _ := w.call("RegisterContainerInstance", again)
		expect(t, "status", status, http.StatusOK)
		expect(t, "domain", w.instance(i.ID).FaultDomain(), "fd:/dc2/r0")
		status, answer := w.call("DescribeContainerInstances", `{"cluster":"prod","containerInstances":["`+i.ID+`"]}`)
		expect(t, "status", status, http.StatusOK)
		expect(t, "free", dig(answer, "containerInstances", 0, "remainingResources", 0, "integerValue"), any(2048.0-256))
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
	status, answer = w.call("RegisterContainerInstance", registration+`,"containerInstanceArn":"nobody"}`)
	expect(t, "nobody", status, 400)
}
