package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
	"berth/tests/wiring"
)

// idleClusters is an installation in which nothing happens. What each function uses is counted.
type idleClusters struct {
	*installation.Installation
	t       *testing.T
	wiring  *wiring.Template
	day     Day
	current *FunctionDay // that runs; nil between invocations
}

func newIdleClusters(t *testing.T, clusters, scaled int) *idleClusters {
	t.Helper()
	c := &idleClusters{t: t}
	var err error
	if c.wiring, err = wiring.Read(berth.Template); err != nil {
		t.Fatal(err)
	}
	c.Installation, err = installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), Seed: 1,
		WrapGroups: func(_ string, g installation.Groups) installation.Groups { return countedMetrics{g, c} },
		Runtime:    embedded.RuntimeOptions{Execute: c.execute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.resetDay()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.AWS.SetCallFaults(kernel.CallFaults{Call: func(operation, _ string) kernel.CallFault {
		c.countCall(operation)
		return kernel.CallFault{}
	}})
	for k := range clusters {
		c.addCluster(fmt.Sprintf("cluster-%d", k), k < scaled)
	}
	return c
}

// resetDay begins a new account.
func (c *idleClusters) resetDay() {
	c.day = Day{Functions: map[string]*FunctionDay{}, Queues: len(c.wiring.Queues)}
	for _, f := range c.wiring.Functions {
		c.day.Functions[f.Name] = &FunctionDay{Memory: float64(f.Memory) / 1024, Calls: map[string]int{}}
	}
}

// execute runs one invocation and counts what the table bills for it.
func (c *idleClusters) execute(function string, run func(context.Context), done func(bool)) {
	f := c.day.Functions[function]
	c.current = f
	before := c.Store.Usage()
	run(context.Background())
	after := c.Store.Usage()
	c.current = nil
	f.addUsage(before, after)
	done(false)
}

// addUsage counts an invocation, with what the table bills for it.
func (f *FunctionDay) addUsage(before, after embedded.Usage) {
	f.Invocations++
	f.ReadUnits += after.ReadUnits - before.ReadUnits
	f.WriteUnits += after.WriteUnits - before.WriteUnits
	f.Requests += after.Requests - before.Requests
}

func (c *idleClusters) countCall(operation string) {
	if c.current != nil {
		c.current.Calls[operation]++
	}
}

// countedMetrics counts the calls of CloudWatch.
type countedMetrics struct {
	installation.Groups
	clusters *idleClusters
}

func (m countedMetrics) PutScalingMetrics(ctx context.Context, points []cluster.Datapoint) error {
	m.clusters.countCall("PutMetricData")
	return m.Groups.PutScalingMetrics(ctx, points)
}

func (m countedMetrics) PutMetricAlarm(ctx context.Context, a cluster.MetricAlarm) error {
	m.clusters.countCall("PutMetricAlarm")
	return m.Groups.PutMetricAlarm(ctx, a)
}

func (m countedMetrics) DeleteAlarms(ctx context.Context, names []string) error {
	m.clusters.countCall("DeleteAlarms")
	return m.Groups.DeleteAlarms(ctx, names)
}

// call sends a request to the API; a path stands for the EKS API.
func (c *idleClusters) call(path, target, body string) {
	c.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	if target != "" {
		r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+target)
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	w := httptest.NewRecorder()
	c.Server.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		c.t.Fatalf("%s%s: %d %s", path, target, w.Code, w.Body)
	}
}

func (c *idleClusters) addGroup(name, clusterName string, desired int) string {
	c.t.Helper()
	return c.addGroupUpTo(name, clusterName, desired, 20)
}

func (c *idleClusters) addGroupUpTo(name, clusterName string, desired, most int) string {
	c.t.Helper()
	arn, err := c.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: name, Cluster: clusterName,
		Machine: ec2.Machine{Type: "m5.large"}, Max: most, Desired: desired, Protects: true,
		Tags: map[string]string{handler.OwnerTag: installation.Name}})
	if err != nil {
		c.t.Fatal(err)
	}
	return arn
}

// addCluster adds a cluster with a service of eight tasks. If it is scaled, a capacity provider
// with managed scaling provides their two instances, and two further ones are a node group.
func (c *idleClusters) addCluster(name string, scaled bool) {
	c.t.Helper()
	c.call("/", "CreateCluster", `{"clusterName":"`+name+`"}`)
	c.call("/", "RegisterTaskDefinition",
		`{"family":"web","containerDefinitions":[{"name":"app","image":"app","cpu":512,"memory":1024}]}`)
	if scaled {
		c.scale(name)
	} else if _, err := c.AWS.Machines.AddInstances(name, 2, ec2.Machine{Type: "m5.large"}); err != nil {
		c.t.Fatal(err)
	}
	tasks := 8
	if _, err := c.API.Services.CreateService(c.t.Context(), operation.CreateService{
		Cluster: name, Name: "web", TaskDefinition: "web", Desired: &tasks}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *idleClusters) scale(name string) {
	c.t.Helper()
	c.addProvider(name, c.addGroup("scaled-"+name, name, 0))
	c.addGroup("nodes-"+name, name, 2)
	c.call("/clusters/"+name+"/node-groups", "", `{"nodegroupName":"nodes","subnets":["subnet-1"],"nodeRole":"r",
		"scalingConfig":{"minSize":0,"maxSize":20,"desiredSize":2},"tags":{"berth:auto-scaling-group":"nodes-`+name+`"}}`)
}

// addProvider makes the group "scaled-NAME" the capacity provider, with managed scaling, of a cluster.
func (c *idleClusters) addProvider(name, groupARN string) {
	c.t.Helper()
	p := &cluster.CapacityProvider{Name: "p-" + name, Group: "scaled-" + name, Protection: true, Draining: true,
		GroupARN: groupARN, Scaling: cluster.DefaultScaling}
	p.Scaling.Enabled = true
	if _, err := c.API.CapacityProviders.CreateCapacityProvider(c.t.Context(), p); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.API.ClusterProviders.PutClusterProviders(c.t.Context(), name, []string{p.Name},
		[]cluster.ProviderShare{{Provider: p.Name, Weight: 1}}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *idleClusters) run(d time.Duration) { c.Loop.RunUntil(c.Loop.Now().Add(d)) }

// An idle installation causes nothing but schedules, and these cost less than five cents a day for
// ten clusters, also if each has managed scaling and a node group.
func TestIdleDay(t *testing.T) {
	for _, shape := range []struct {
		clusters, scaled int
		most             float64 // dollars that the schedules may cost
	}{{1, 0, 0.05}, {10, 0, 0.05}, {1, 1, 0.05}, {10, 10, 0.05}} {
		t.Run(fmt.Sprintf("%dClusters%dScaled", shape.clusters, shape.scaled), func(t *testing.T) {
			c := newIdleClusters(t, shape.clusters, shape.scaled)
			c.run(3 * time.Hour)
			before := c.Runtime.Counters()
			c.resetDay()
			c.run(24 * time.Hour)
			c.day.Providers = shape.scaled
			after := c.Runtime.Counters()
			if n := after.Invocations - before.Invocations; n != 0 {
				t.Errorf("%d invocations are of no schedule", n)
			}
			if n := after.QueueRequests - before.QueueRequests; n != 0 {
				t.Errorf("%d requests to queues", n)
			}
			t.Logf("%d clusters, %d with managed scaling and a node group\n%s\nschedules $%.4f, Lambda's polling of %d queues $%.4f, metrics and alarms $%.4f",
				shape.clusters, shape.scaled, c.day.Table(), c.day.Schedules(), c.day.Queues, c.day.Polling(),
				c.day.Kept())
			if got := c.day.Schedules(); got > shape.most {
				t.Errorf("the schedules cost $%.4f a day, want at most $%.4f", got, shape.most)
			}
		})
	}
}
