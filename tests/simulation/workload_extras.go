package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
)

// extraKinds are actions of half of the runs. They are drawn from a source of their own, so that
// the histories of seeds stay what they were before these kinds were added.
var extraKinds = []string{
	"deploy-and-stop", "deploy-and-stop", "spot-interruption", "spot-interruption", "rebalance-recommendation",
	"create-with-providers", "create-with-providers",
	"change-providers", "early-success", "early-success", "remove-images",
}

// drawExtras draws the actions that a seed has in addition to its history.
func drawExtras(seed uint64, span time.Duration) []Action {
	rng := rand.New(rand.NewPCG(seed, 0x6578747261))
	if rng.IntN(2) == 0 {
		return nil
	}
	out := []Action{}
	for range 2 + rng.IntN(5) {
		at := time.Duration(rng.Int64N(int64(span) * 4 / 5)).Truncate(time.Millisecond)
		out = append(out, Action{at, extraKinds[rng.IntN(len(extraKinds))], rng.Uint64(), rng.IntN(8)})
	}
	return out
}

// deployAndStop starts a deployment and soon stops it: by rollback or abort.
func (c *apiClient) deployAndStop(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	c.deployService(a)
	how := []cluster.StopType{cluster.StopAbort, cluster.StopRollback, cluster.StopAbort}[a.N%3]
	c.world.Loop.After(time.Duration(5+a.Pick/5%90)*time.Second, func() { c.stopCurrentDeployment(s, how) })
}

// changeEarlySuccess lets the deployments of a service complete before all tasks run, or ends that.
func (c *apiClient) changeEarlySuccess(a Action) {
	s := c.pickService(a)
	if s == nil {
		return
	}
	criteria := map[string]any{
		"enable": a.N < 7, "healthyPercent": []int{60, 50, 75}[a.Pick/5%3],
		"sourceServiceRevisionCleanup": []string{"BLOCKING", "DEFERRED"}[a.Pick/15%2],
	}
	in := map[string]any{"service": s.name, "deploymentConfiguration": map[string]any{"earlySuccessCriteria": criteria}}
	if !s.daemon && a.N%2 == 0 { // ECS requires at least the minimum healthy percent
		in["deploymentConfiguration"].(map[string]any)["minimumHealthyPercent"] = 50
	}
	c.updateSettings(s, in, func() { c.deployService(a) })
}

// interruptSpotInstance sends EC2's warning and terminates the instance two minutes later. By then
// it is DRAINING, unless the client has made it ACTIVE since.
func (w *World) interruptSpotInstance(a Action) {
	i := w.pickInstance(a)
	if i == nil || !w.putEC2Event("EC2 Spot Instance Interruption Warning",
		map[string]any{"instance-id": i.EC2InstanceID, "instance-action": "terminate"}) {
		return
	}
	warned := w.Loop.Now()
	w.Loop.After(2*time.Minute, func() {
		if now := w.describeInstance(i.ID); now != nil && now.Status == cluster.InstanceDraining {
			w.cover(coverage.Spot)
		} else if now != nil && w.checker.Staleness == invariant.CalmStaleness &&
			w.client.activated[i.ID].Before(warned) {
			w.checker.Fail("invariant 8: EC2 interrupts instance %s, which is still %s", i.ID, now.Status)
		}
		_ = w.AWS.Machines.KillInstance(i.ID)
	})
}

// recommendRebalance sends EC2's rebalance recommendation. In half of the cases the instance is
// terminated much later.
func (w *World) recommendRebalance(a Action) {
	i := w.pickInstance(a)
	if i == nil || !w.putEC2Event("EC2 Instance Rebalance Recommendation",
		map[string]any{"instance-id": i.EC2InstanceID}) {
		return
	}
	w.Loop.After(10*time.Minute, func() {
		if now := w.describeInstance(i.ID); now != nil && now.Status == cluster.InstanceDraining {
			w.cover(coverage.Recommended)
		}
		if a.N%2 == 0 {
			_ = w.AWS.Machines.KillInstance(i.ID)
		}
	})
}

// putEC2Event puts an event of EC2 on the bus, and reports whether that worked.
func (w *World) putEC2Event(kind string, detail map[string]any) bool {
	err := w.putEvent("aws.ec2", kind, fmt.Sprint("ec2-", w.steps), detail)
	if err != nil {
		w.checker.Fail("putting an event of EC2: %v", err)
	}
	return err == nil
}

// describeInstance returns the instance as ECS has it, or nil if it is gone.
func (w *World) describeInstance(id string) *cluster.Instance {
	for _, i := range w.instances() {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// removeImages lets no task start for some minutes, twice. In between, delayed tasks start and end
// the throttle.
func (w *World) removeImages(a Action) {
	for n, long := range []time.Duration{time.Duration(2+a.N) * time.Minute, time.Minute} {
		w.Loop.After(time.Duration(n)*time.Duration(14+a.Pick/7%14)*time.Minute, func() {
			w.imagesMissingUntil = w.Loop.Now().Add(long)
			for _, s := range w.client.services {
				if on := w.runningTasksOf(s); len(on) > 0 {
					_ = w.AWS.Machines.CrashTask(on[a.Pick%uint64(len(on))].ECSID, 1)
				}
			}
		})
	}
}

// checkStartsEachMinute checks, in runs without faults, that services start missing tasks as soon
// as their throttle allows (S7).
func (w *World) checkStartsEachMinute() {
	since := map[string]time.Time{}
	var check func()
	check = func() {
		for _, s := range w.checker.ActiveServices() {
			first, was := since[s.Short]
			switch due := w.checker.CanStartNow(s); {
			case !due:
				delete(since, s.Short)
			case !was:
				since[s.Short] = w.Loop.Now()
			case w.Loop.Now().Sub(first) >= longestShortage:
				w.checker.Fail("invariant 8: service %s has missed tasks for %s, and its throttle lets it start one",
					s.Name, longestShortage)
			}
		}
		w.Loop.After(time.Minute, check)
	}
	w.Loop.After(time.Minute, check)
}

// longestShortage is how long, without faults, a service may miss tasks that it could start.
const longestShortage = 3 * time.Minute
