package oracle

import (
	"fmt"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
)

// GenWorld draws a cluster. All generators keep things small and scarce, so that filters reject,
// zones tie and devices run out.
func GenWorld(t *rapid.T) *World {
	w := &World{Config: GenConfiguration(t, 1)}
	for _, name := range []string{"web", "other"} {
		w.Services = append(w.Services, &cluster.Service{
			Head:            cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec: cluster.ServiceSpec{Rules: cluster.Rules{Metrics: GenLoads(t),
				Application: rapid.SampledFrom([]string{"", "", "shop", "blog"}).Draw(t, "application")}},
		})
	}
	instances, tasks := rapid.IntRange(0, 8), rapid.IntRange(0, 16)
	if rapid.IntRange(0, 5).Draw(t, "large") == 0 { // of several blocks in the index
		instances, tasks = rapid.IntRange(25, 60), rapid.IntRange(0, 40)
	}
	for n := range instances.Draw(t, "instances") {
		w.Instances = append(w.Instances, GenInstance(t, fmt.Sprintf("i-%02d", n)))
	}
	for n := range tasks.Draw(t, "tasks") {
		w.Tasks = append(w.Tasks, GenTask(t, w, fmt.Sprintf("t-%02d", n)))
	}
	return w
}

// GenInstance draws an instance.
func GenInstance(t *rapid.T, id string) *cluster.Instance {
	i := Instance(id,
		CPU(rapid.Int64Range(0, 4).Draw(t, "cpu")*512), Memory(rapid.Int64Range(0, 4).Draw(t, "memory")*1024),
		GPUs(rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "gpus")))
	if z := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone"); z != "" {
		Zone(z)(i)
	}
	if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "disk"); v != "" {
		Attribute("disk", v)(i)
	}
	i.Status = rapid.SampledFrom([]cluster.InstanceStatus{
		cluster.InstanceActive, cluster.InstanceActive, cluster.InstanceActive, cluster.InstanceActive,
		cluster.InstanceDraining, cluster.InstanceInactive,
	}).Draw(t, "status")
	i.AgentConnected = rapid.IntRange(0, 5).Draw(t, "agent") > 0
	if rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
		i.Registered.Ports = []cluster.Port{SSH}
	}
	GenRare(t, i)
	return i
}

// GenRare gives the instance what few have.
func GenRare(t *rapid.T, i *cluster.Instance) {
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		n := rapid.IntRange(0, 3).Draw(t, "interfaces")
		i.Registered.ENIs = &n
	}
	if rapid.IntRange(0, 2).Draw(t, "capacity") == 0 {
		i.Registered.Metrics = map[string]int64{"m": rapid.SampledFrom([]int64{0, 5, 10, 20}).Draw(t, "m")}
	}
	for _, values := range [][]string{
		{cluster.AttributeNodeType, "red", "blue"}, {cluster.AttributeUpgrade, "u1", "u2", "u3"},
		{cluster.AttributeFaultDomain, "fd:/d1", "fd:/d2", "fd:/d1/r1", "fd:/d2/r2"},
	} {
		if at := rapid.IntRange(-2, len(values)-1).Draw(t, values[0]); at > 0 {
			Attribute(values[0], values[at])(i)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "cordoned") == 0 {
		Attribute(cluster.AttributeUnschedulable, "")(i)
	}
	if at := rapid.IntRange(-6, len(taints)-1).Draw(t, "tainted"); at >= 0 {
		Attribute(cluster.AttributeTaints, taints[at])(i)
	}
}

// What taints instances may have, and what tasks tolerate.
var (
	taints      = []string{"a:x:NO_SCHEDULE", "a:x:NO_EXECUTE b:y:NO_SCHEDULE"}
	tolerations = [][]cluster.Toleration{
		nil, nil, nil, {{Key: "a", AnyValue: true}}, {{Key: "a", Value: "x", Effect: cluster.NoSchedule}},
		{{Key: "a", Value: "x"}, {Key: "b", Value: "z"}}, {{AnyValue: true}},
	}
)

// GenLoads draws loads of metrics.
func GenLoads(t *rapid.T) []cluster.Metric {
	var out []cluster.Metric
	for _, name := range []string{"m", "n"} {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
			out = append(out, cluster.Metric{Name: name, Load: rapid.Int64Range(0, 6).Draw(t, name)})
		}
	}
	return out
}

// GenConfiguration draws the n-th revision of the cluster's configuration.
func GenConfiguration(t *rapid.T, n int64) *cluster.Configuration {
	priority := func(name string) cluster.Priority {
		return cluster.Priority(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, -1}).Draw(t, name))
	}
	c := &cluster.Configuration{
		Head: cluster.Head{Cluster: "c", Rev: n},
		NodeTypes: map[string]cluster.NodeType{
			"red":  {Capacities: map[string]int64{"n": 10}, Properties: map[string]string{"tier": "1"}},
			"blue": {Properties: map[string]string{"tier": "2"}},
		},
		Priorities: cluster.Priorities{
			Placement: priority("placement"), Capacity: priority("capacity"), FaultDomain: priority("fault"),
			UpgradeDomain: priority("upgrade"),
		},
		QuorumFault: rapid.IntRange(0, 5).Draw(t, "quorum") == 0,
		NoSwitch:    rapid.IntRange(0, 5).Draw(t, "no switch") == 0,
	}
	c.Priorities.Affinity = priority("affinity")
	c.Applications = GenApplications(t)
	switch rapid.IntRange(0, 3).Draw(t, "buffer") {
	case 0:
		c.Buffer = map[string]float64{"m": 0.5}
	case 1:
		c.Overbooking = map[string]float64{"m": 0.5, "n": -1}
	}
	return c
}

// GenApplications draws the limits of applications, few enough for most worlds to have none.
func GenApplications(t *rapid.T) map[string]cluster.Application {
	out := map[string]cluster.Application{}
	for _, name := range []string{"shop", "blog"} {
		if rapid.IntRange(0, 2).Draw(t, name) > 0 {
			continue
		}
		a := cluster.Application{MaximumNodes: rapid.IntRange(0, 4).Draw(t, "nodes"),
			Metrics: map[string]cluster.ApplicationMetric{}}
		for _, metric := range []string{"m", "n"} {
			a.Metrics[metric] = cluster.ApplicationMetric{
				NodeCapacity:  rapid.SampledFrom([]int64{0, 0, 6, 12}).Draw(t, "on a node"),
				TotalCapacity: rapid.SampledFrom([]int64{0, 0, 10, 30}).Draw(t, "in all"),
				Reservation:   rapid.SampledFrom([]int64{0, 0, 3, 6}).Draw(t, "reserved"),
			}
		}
		out[name] = a
	}
	return out
}

// GenNeeds draws the needs of a task.
func GenNeeds(t *rapid.T) cluster.Resources {
	r := cluster.Resources{
		CPU:    rapid.Int64Range(0, 3).Draw(t, "cpu") * 256 * cluster.CPUUnit,
		Memory: rapid.Int64Range(0, 3).Draw(t, "memory") * 512,
	}
	switch rapid.IntRange(0, 5).Draw(t, "gpu") {
	case 0:
		r.GPUs = rapid.IntRange(1, 2).Draw(t, "devices")
	case 1:
		r.GPUs, r.GPUMilli = 1, rapid.SampledFrom([]int32{250, 500, 600}).Draw(t, "share")
	}
	if rapid.IntRange(0, 4).Draw(t, "interface") == 0 {
		r.ENIs = 1
	}
	return r
}

// GenPorts draws static host ports.
func GenPorts(t *rapid.T) []cluster.Port {
	var out []cluster.Port
	for _, p := range []cluster.Port{SSH, HTTP, QUIC} {
		if rapid.IntRange(0, 7).Draw(t, "port") == 0 {
			out = append(out, p)
		}
	}
	return out
}

// GenTask draws a task on some instance, or on none.
func GenTask(t *rapid.T, w *World, id string) *cluster.Task {
	on := "i-unknown"
	if n := rapid.IntRange(-1, len(w.Instances)-1).Draw(t, "on"); n >= 0 {
		on = w.Instances[n].ID
	}
	out := Task(id, on, Needs(GenNeeds(t)), Ports(GenPorts(t)...),
		Owner(rapid.SampledFrom([]string{"web", "web", "other"}).Draw(t, "owner")),
		Group(rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group")),
		Deployment(rapid.SampledFrom([]string{"", "new", "old"}).Draw(t, "deployment")),
		Created(rapid.Int64Range(1, 3).Draw(t, "created")))
	if len(w.Tasks) > 0 && rapid.IntRange(0, 4).Draw(t, "replaces") == 0 {
		if old := rapid.SampledFrom(w.Tasks).Draw(t, "replaced"); old.ID != id {
			out.Replaces = old.ID
		}
	}
	if out.Service = out.Owner; rapid.IntRange(0, 5).Draw(t, "reports") == 0 {
		out.Reported = map[string]int64{"m": rapid.Int64Range(0, 9).Draw(t, "reported")}
	}
	out.Desired = rapid.SampledFrom([]cluster.TaskStatus{
		cluster.TaskRunning, cluster.TaskRunning, cluster.TaskRunning, cluster.TaskStopped,
	}).Draw(t, "desired")
	out.Last = rapid.SampledFrom([]cluster.TaskStatus{
		"", cluster.TaskRunning, cluster.TaskRunning, cluster.TaskStopping, cluster.TaskStopped,
	}).Draw(t, "last")
	if rapid.IntRange(0, 9).Draw(t, "waits") == 0 {
		out.Instance, out.Last = "", ""
	}
	if i := w.FindInstance(out.Instance); i != nil && out.Needs.GPUs > 0 && rapid.Bool().Draw(t, "pinned") {
		for d := range i.Registered.GPUs {
			if len(out.GPUs) < out.Needs.GPUs {
				out.GPUs = append(out.GPUs, d)
			}
		}
	}
	return out
}

var Strategies = [][]cluster.PlacementStrategy{
	nil, nil, nil,
	{{Type: cluster.StrategyBinpack, Field: "MEMORY"}},
	{{Type: cluster.StrategyRandom}},
	{{Type: cluster.StrategySpread, Field: "instanceId"}},
	{{Type: cluster.StrategySpread, Field: "attribute:disk"}, {Type: cluster.StrategyRandom}},
	{{Type: cluster.StrategySpread, Field: "host"}, {Type: cluster.StrategySpread, Field: "attribute:disk"}},
	{{Type: cluster.StrategySpread, Field: "attribute:ecs.availability-zone"},
		{Type: cluster.StrategyBinpack, Field: "CPU"}},
	{{Type: cluster.StrategySpread, Field: "attribute:ecs.availability-zone"},
		{Type: cluster.StrategySpread, Field: "attribute:disk"}},
	{{Type: cluster.StrategyBinpack, Field: "CPU"}, {Type: cluster.StrategySpread, Field: "instanceId"},
		{Type: cluster.StrategyRandom}},
	{{Type: cluster.StrategyBinpack, Field: "MEMORY"}, {Type: cluster.StrategySpread, Field: "attribute:disk"}},
	{{Type: cluster.StrategySpread, Field: "attribute:disk"}, {Type: cluster.StrategyBinpack, Field: "CPU"},
		{Type: cluster.StrategySpread, Field: "attribute:ecs.availability-zone"}, {Type: cluster.StrategyRandom}},
}

var Queries = []string{
	"attribute:disk == 1", "attribute:disk exists and attribute:ecs.availability-zone != a", "runningTasksCount < 2",
	"task:group == g", "not(task:group == g)",
}

// GenConstraints draws placement constraints.
func GenConstraints(t *rapid.T) []*constraint.Expression {
	var out []*constraint.Expression
	if at := rapid.IntRange(-6, len(Queries)-1).Draw(t, "query"); at >= 0 {
		x, err := constraint.ParseQuery(Queries[at])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	if rapid.IntRange(0, 5).Draw(t, "property") == 0 {
		x, err := constraint.ParseProperties("tier > 1 || NodeType == red")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// GenRequest draws a request for the world's services.
func GenRequest(t *rapid.T, w *World) placement.Request {
	r := placement.Request{
		Count:  rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 5, 12, 40}).Draw(t, "count"),
		Target: rapid.IntRange(0, 6).Draw(t, "target"),
		Seed:   rapid.Uint64().Draw(t, "seed"), Unbuffered: rapid.IntRange(0, 5).Draw(t, "unbuffered") == 0,
	}
	r.Spec = &placement.Spec{
		Needs: GenNeeds(t), Ports: GenPorts(t), Owner: "web", Loads: w.Services[0].Rules.Metrics,
		Application: w.Services[0].Rules.Application,
		Constraints: GenConstraints(t), Tolerations: rapid.SampledFrom(tolerations).Draw(t, "tolerations"),
		Group:       rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
		Attributes:  rapid.SampledFrom([][]string{nil, nil, {"disk"}, {"disk=1"}}).Draw(t, "attributes"),
		PerInstance: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "per instance"),
		Strategies:  rapid.SampledFrom(Strategies).Draw(t, "strategies"),
		Scoring:     rapid.SampledFrom([]string{"", "", "", placement.BestFit}).Draw(t, "scoring"),
		DomainPolicy: rapid.SampledFrom([]cluster.DomainPolicy{
			"", "", "", cluster.PolicyNone, cluster.PolicyAdaptive, cluster.PolicyDifference, cluster.PolicyQuorum,
			cluster.PolicyNonpacking, cluster.PolicyIgnore,
		}).Draw(t, "policy"),
	}
	if r.Spec.Group == "" {
		r.Spec.Deployment = rapid.SampledFrom([]string{"", "", "new"}).Draw(t, "deployment")
	}
	if rapid.IntRange(0, 5).Draw(t, "avoids") == 0 {
		r.Spec.Avoid = []string{"i-01", "i-02"}
	}
	if rapid.IntRange(0, 4).Draw(t, "refused") == 0 {
		r.Refused = []string{"i-00", "i-03", "i-unknown"}
	}
	if rapid.IntRange(0, 3).Draw(t, "wishes") == 0 {
		r.Instances = []string{}
		for _, i := range w.Instances {
			if rapid.Bool().Draw(t, "wished") {
				r.Instances = append(r.Instances, i.ID)
			}
		}
		r.Instances = append(rapid.Permutation(r.Instances).Draw(t, "wish"), "i-unknown")
	}
	if rapid.IntRange(0, 3).Draw(t, "attached") == 0 {
		r.Spec.Affinity = "other"
	}
	return r
}
