package bench

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/operation"
	"berth/shared/sim/ecs"
)

// What an instance has on a steady day, on which it starts and ends about eleven tasks.
const (
	webPerInstance  = 2  // tasks of services, with half of its CPU
	jobsPerInstance = 10 // tasks that are run and end by themselves, spread over the day
	jobSeconds      = "600"
	sizedServices   = 10 // that share the tasks
	deploymentsADay = 6  // of one service after the other, so of a tenth of the tasks each
)

// sizedCluster is one cluster with managed scaling, whose instances all have tasks.
type sizedCluster struct {
	*idleClusters
	instances int
	// before is what the runtime had counted when the day began.
	before embedded.Counters
	// isSteady says that tasks which start from now on may turn UNHEALTHY.
	isSteady bool
}

const sizedName = "sized"

func newSizedCluster(t *testing.T, instances int) *sizedCluster {
	c := &sizedCluster{idleClusters: newIdleClusters(t, 0, 0), instances: instances}
	c.AWS.Machines.SetTaskBehaviour(c.chooseBehaviour)
	c.call("/", "CreateCluster", `{"clusterName":"`+sizedName+`"}`)
	for _, family := range []string{"web", "next"} {
		c.call("/", "RegisterTaskDefinition", `{"family":"`+family+`","containerDefinitions":[{"name":"app",
			"image":"app","cpu":512,"memory":1024,"healthCheck":{"command":["CMD","true"]}}]}`)
	}
	c.call("/", "RegisterTaskDefinition", `{"family":"job","containerDefinitions":[{"name":"app","image":"app",
		"cpu":256,"memory":256,"environment":[{"name":"BERTH_FLEET_RUN_SECONDS","value":"`+jobSeconds+`"}]}]}`)
	c.addProvider(sizedName, c.addGroupUpTo("scaled-"+sizedName, sizedName, instances, instances))
	c.run(2 * time.Minute) // no longer: instances without tasks would go
	desired := webPerInstance * instances / sizedServices
	for n := range sizedServices {
		if _, err := c.API.Services.CreateService(t.Context(), operation.CreateService{
			Cluster: sizedName, Name: serviceName(n), TaskDefinition: "web", Desired: &desired,
			Rules: cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: "spread", Field: "instanceId"}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.run(time.Hour)
	if n := c.countTasks(cluster.TaskRunning); n != webPerInstance*instances {
		t.Fatalf("%d tasks run, want %d", n, webPerInstance*instances)
	}
	return c
}

func serviceName(n int) string { return fmt.Sprintf("web-%d", n) }

// chooseBehaviour lets one in ten tasks that are deployed on the steady day turn UNHEALTHY within two
// hours.
func (c *sizedCluster) chooseBehaviour(i ecs.StartInfo) ecs.Behaviour {
	h := fnv.New32a()
	_, _ = h.Write([]byte(i.StartedBy + i.Instance))
	if n := h.Sum32(); c.isSteady && n%10 == 0 {
		return ecs.Behaviour{UnhealthyAfter: time.Duration(1+n/10%120) * time.Minute}
	}
	return ecs.Behaviour{}
}

func (c *sizedCluster) countTasks(last cluster.TaskStatus) (n int) {
	for _, task := range c.AWS.Machines.TaskTruths(sizedName) {
		if task.Last == last {
			n++
		}
	}
	return n
}

// beginDay begins the account of a day, endDay closes it.
func (c *sizedCluster) beginDay() {
	c.resetDay()
	c.before = c.Runtime.Counters()
}

func (c *sizedCluster) endDay() Day {
	after := c.Runtime.Counters()
	c.day.Providers = 1
	c.day.QueueRequests = after.QueueRequests - c.before.QueueRequests
	for name, f := range c.day.Functions {
		f.Unscheduled += countUnscheduled(after.Functions[name]) - countUnscheduled(c.before.Functions[name])
	}
	return c.day
}

// countUnscheduled returns how many invocations were of no schedule.
func countUnscheduled(f embedded.FunctionCounters) int {
	n := f.Invocations
	for _, scheduled := range f.Schedules {
		n -= scheduled
	}
	return n
}

// asAPI counts what a call of the API uses.
func (c *sizedCluster) asAPI(call func(context.Context) error) {
	c.t.Helper()
	f := c.day.Functions["api"]
	before := c.Store.Usage()
	if err := call(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	f.addUsage(before, c.Store.Usage())
	f.Unscheduled++
}

// runSteadyDay lets so many hours of a day pass in which jobs run, services are deployed, and tasks turn UNHEALTHY.
func (c *sizedCluster) runSteadyDay(hours int) {
	c.isSteady = true
	const minutes = 24 * 60 // of a day
	jobs, deployments := 0, 0
	for minute := range hours * 60 {
		for want := c.instances * jobsPerInstance * (minute + 1) / minutes; jobs < want; {
			n := min(10, want-jobs)
			jobs += n
			c.asAPI(func(ctx context.Context) error {
				_, err := c.API.Tasks.SubmitRequest(ctx, operation.SubmitTasks{
					Kind: cluster.RunTask, Cluster: sizedName, TaskDefinition: "job", Count: n,
				})
				return err
			})
		}
		if minute%(minutes/deploymentsADay) == 60 {
			change := operation.UpdateService{
				Cluster: sizedName, Name: serviceName(deployments % sizedServices), TaskDefinition: "next",
			}
			deployments++
			c.asAPI(func(ctx context.Context) error {
				_, err := c.API.Services.UpdateService(ctx, change)
				return err
			})
		}
		c.run(time.Minute)
	}
}

// The most dollars that a day may cost, by the number of instances. What Lambda's polling and
// CloudWatch's metrics cost is the same for any size and not in it. Days of large clusters are counted
// for some hours only. Each is a twentieth above what was last counted: a steady day without change sets
// costs more.
var dayBudgets = []struct {
	instances, hours int
	idle, steady     float64
}{{100, 24, 0.021, 0.044}, {1000, 8, 0.046, 0.14}, {5000, 2, 0.155, 0.67}}

// TestDayBySize counts an idle and a steady day of a cluster with managed scaling. make test runs it
// for the smallest cluster only.
func TestDayBySize(t *testing.T) {
	for _, b := range dayBudgets {
		t.Run(fmt.Sprint(b.instances), func(t *testing.T) {
			if b.instances > 100 {
				skipIfShort(t)
			}
			c := newSizedCluster(t, b.instances)
			c.beginDay()
			c.run(time.Duration(b.hours) * time.Hour)
			c.reportDay("idle", b.hours, b.idle)
			c.beginDay()
			c.runSteadyDay(b.hours)
			c.reportDay("steady", b.hours, b.steady)
		})
	}
}

// reportDay prints what the hours since the day began have used, and what a day like them costs.
func (c *sizedCluster) reportDay(what string, hours int, most float64) {
	c.t.Helper()
	d := c.endDay()
	sum, days := d.Sums(), float64(hours)/24
	c.t.Logf("%d instances, %s, %d hours\n%s", c.instances, what, hours, d.Table())
	dollars := d.Total() / days
	fmt.Printf("| %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.3f |\n", c.instances, what, float64(sum.Requests)/days,
		sum.ReadUnits/days, sum.WriteUnits/days, float64(sum.Invocations)/days, float64(d.QueueRequests)/days, dollars)
	if dollars > most {
		c.t.Errorf("a day that is %s costs $%.3f, the budget is $%.2f", what, dollars, most)
	}
}
