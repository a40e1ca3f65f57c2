package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// A kind of run in which no function runs for two hours, while tasks, instances and agents change.
// Afterwards no healthy task may be stopped that need not be (static stability).

const (
	outageStart  = 30 * time.Minute
	outageLength = 2 * time.Hour
)

// outageKinds are the actions during the outage, drawn with equal chances.
var outageKinds = []string{
	"crash-task", "crash-task", "unhealthy", "unhealthy", "kill-instance", "crash-instance", "disconnect", "disconnect",
	"reconnect", "reconnect",
	"flap-agent", "add-instance", "drain", "activate", "all-unhealthy",
}

// runLongOutage lets services come to rest, stops all functions, and checks that the cluster
// converges again without stopping healthy tasks.
func (w *World) runLongOutage() {
	w.faults.active = false
	if _, err := w.EnsureCluster(context.Background(), clusterName, 5+w.rng.IntN(4), machine); err != nil {
		w.checker.Fail("making the cluster: %v", err)
		return
	}
	if err := w.createTargetGroups(); err != nil {
		w.checker.Fail("making target groups: %v", err)
	}
	w.registerDefinitions()
	w.Runtime.Start()
	for n := range 2 + w.rng.IntN(3) {
		w.client.createPlainService(fmt.Sprint("s", n), []string{"checked:1", "small:1", "port:1"}[w.rng.IntN(3)],
			1+w.rng.IntN(4), n == 0)
	}
	w.runUntil(epoch.Add(outageStart))
	w.logf("all functions stop")
	w.functionsDown = true
	for _, a := range drawOutageHistory(w.rng) {
		w.Loop.After(a.At, func() {
			w.logf("during the outage: %s", a)
			w.perform(a)
		})
	}
	w.runUntil(epoch.Add(outageStart + outageLength))
	w.functionsDown = false
	w.healthyTasks = w.listHealthyTasks()
	w.logf("functions run again; healthy are %q", w.healthyTasks)
	w.historySpan = outageStart + outageLength
	w.runUntil(w.Loop.Now().Add(40 * time.Minute))
	if len(w.checker.Broken) == 0 {
		w.healthyTasks = nil // agents that reconnect bring back tasks, and surplus ones may stop
		w.endFaults()
		w.checkConvergence()
	}
}

func drawOutageHistory(rng *rand.Rand) (out []Action) {
	for range 6 + rng.IntN(20) {
		at := time.Duration(rng.Int64N(int64(outageLength))).Truncate(time.Millisecond)
		// An even N makes changes directly at ECS: Berth's API does not run either.
		out = append(out, Action{at, outageKinds[rng.IntN(len(outageKinds))], rng.Uint64(), 2 * rng.IntN(4)})
	}
	return out
}

// createPlainService creates a service without placement rules.
func (c *apiClient) createPlainService(name, definition string, desired int, daemon bool) {
	s := &expectedService{name: name, daemon: daemon, desired: desired, exists: true, definition: definition,
		rules: &cluster.Rules{}}
	spec := operation.CreateService{Cluster: clusterName, Name: name, TaskDefinition: definition, Desired: &s.desired,
		Token: name, Params: name}
	if p := percentagePairs[c.world.rng.IntN(len(percentagePairs))]; !daemon {
		spec.MinHealthy, spec.MaxPercent = &p[0], &p[1]
	}
	if daemon {
		spec.Strategy, spec.Desired, spec.TaskDefinition = cluster.Daemon, nil, "checked:1"
	}
	spec.ZoneRebalancing = new(false) // it would be a reason to stop healthy tasks
	c.callUntilAnswered("create "+name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if err != nil {
			c.world.checker.Fail("invariant 9: creating service %s fails: %v", name, err)
			return
		}
		c.services = append(c.services, s)
	})
}

// listHealthyTasks returns the ECS tasks that are RUNNING and not UNHEALTHY, on ACTIVE instances
// with connected agents.
func (w *World) listHealthyTasks() (out []string) {
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		if !t.Alive || t.Last != cluster.TaskRunning || t.Desired != cluster.TaskRunning ||
			t.Health == cluster.Unhealthy {
			continue
		}
		at := slices.IndexFunc(w.instances(), func(i *cluster.Instance) bool {
			return i.ID == t.Instance &&
				i.IsAvailable()
		})
		if at >= 0 {
			out = append(out, t.ID)
		}
	}
	return out
}

// checkHealthyTaskKept checks that a task that is being stopped was not healthy after the outage.
func (w *World) checkHealthyTaskKept(ecsID string) {
	if slices.Contains(w.healthyTasks, ecsID) {
		w.checker.Fail("invariant 3: task %s is stopped after the outage, and it was healthy", ecsID)
	}
}
