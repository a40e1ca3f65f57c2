package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// The most that a task may use that is run by itself, and the most that a million of them may cost in
// dollars. The goal was $10: docs/decisions/023-partitions.md says what was tried.
var oneAtATime = Budget{Cost{WriteUnits: 20, ReadUnits: 14, QueueRequests: 7, Invocations: 8}, 22}

// TestTasksOneAtATime runs a task every five minutes, of which each ends before the next begins, so that
// nothing is handled together, and counts what such an hour costs more than one without tasks.
func TestTasksOneAtATime(t *testing.T) {
	const name, hours, perHour = "alone", 5, 12
	c := &sizedCluster{idleClusters: newIdleClusters(t, 0, 0)}
	if _, err := c.EnsureCluster(t.Context(), name, 20, ec2.Machine{Type: "m5.large"}); err != nil {
		t.Fatal(err)
	}
	c.call("/", "RegisterTaskDefinition", `{"family":"job","containerDefinitions":[{"name":"app","image":"app",
		"cpu":256,"memory":256,"environment":[{"name":"BERTH_FLEET_RUN_SECONDS","value":"60"}]}]}`)
	runTask := func() {
		c.asAPI(func(ctx context.Context) error {
			_, err := c.API.Tasks.SubmitRequest(ctx, operation.SubmitTasks{Kind: cluster.RunTask, Cluster: name,
				TaskDefinition: "job", Count: 1})
			return err
		})
	}
	runTask() // the task definition is read
	c.run(time.Hour)
	c.beginDay()
	c.run(hours * time.Hour)
	idle := c.endDay()
	c.beginDay()
	for range hours * perHour {
		runTask()
		c.run(time.Hour / perHour)
	}
	busy := c.endDay()
	n := float64(hours * perHour)
	more := func(of func(Day) float64) float64 { return (of(busy) - of(idle)) / n }
	cost := Cost{
		WriteUnits:    more(func(d Day) float64 { return d.Sums().WriteUnits }),
		ReadUnits:     more(func(d Day) float64 { return d.Sums().ReadUnits }),
		QueueRequests: more(func(d Day) float64 { return float64(d.QueueRequests) }),
		Invocations:   more(func(d Day) float64 { return float64(d.Sums().Unscheduled) }),
	}
	dollars := 1e6 * more(Day.Total)
	fmt.Printf("a task at a time: %.2f write units, %.2f read units, %.2f queue requests, %.2f invocations, "+
		"$%.2f per million tasks\n", cost.WriteUnits, cost.ReadUnits, cost.QueueRequests, cost.Invocations, dollars)
	t.Logf("without tasks\n%s\nwith tasks\n%s", idle.Table(), busy.Table())
	if over := oneAtATime.exceededAt(cost, dollars); over != "" {
		t.Error(over)
	}
}
