package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/state"
)

// upgradeKinds lists what happens to a cluster whose nodes are updated, and how often relative to
// each other.
var upgradeKinds = []struct {
	name   string
	weight int
}{
	{"update-nodes", 5}, {"scale", 5}, {"crash-task", 3}, {"kill-instance", 2}, {"crash-instance", 1},
	{"disconnect", 2}, {"reconnect", 3},
	{"block-standalone", 2}, {"block-protected", 2}, {"block-percentages", 2}, {"block-foreign", 1},
	{"fail-launches", 2}, {"deploy", 2},
	{"unhealthy", 1}, {"protect", 1}, {"run-task", 1}, {"burst", 8},
}

// drawUpgradeHistory draws the history of a seed. It begins with an update.
func drawUpgradeHistory(rng *rand.Rand) []Action {
	total := 0
	for _, k := range upgradeKinds {
		total += k.weight
	}
	actions := []Action{{0, "update-nodes", rng.Uint64(), rng.IntN(8)}}
	for range rng.IntN(12) {
		w := rng.IntN(total)
		for _, k := range upgradeKinds {
			if w -= k.weight; w < 0 {
				at := time.Duration(rng.Int64N(int64(upgradeSpan))).Truncate(time.Millisecond)
				a := Action{at, k.name, rng.Uint64(), rng.IntN(8)}
				if a.Kind == "deploy" {
					a.N &^= 3 // forced deployments only: other revisions may need more room than there is
				}
				actions = append(actions, a)
				break
			}
		}
	}
	return actions
}

// updateNodes requests an update, to another image or to the last one again. Some are forced.
func (u *upgradeWorld) updateNodes(a Action) {
	if u.lastImage == 0 || a.N%2 == 0 {
		u.lastImage++
	}
	u.requestUpdate(operation.UpdateNodeGroupVersion{
		ReleaseVersion: imageID(u.lastImage), Force: a.Pick%4 == 0, ForceProtected: a.Pick%8 == 0,
	})
}

// blockStandalone runs a standalone task, which only its owner stops.
func (u *upgradeWorld) blockStandalone(a Action) {
	u.nodeChecker.drainBlocked = true
	token := fmt.Sprint("block", a.Pick)
	var got []string
	u.client.submitTasks(operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "small", Count: 1 + a.N%2, Token: token,
		Params: token,
	}, func(ids []string) { got = ids })
	u.unblockers = append(u.unblockers, func() {
		for _, id := range got {
			u.client.stopTaskByID(id)
		}
	})
}

// blockForeign starts a foreign task.
func (u *upgradeWorld) blockForeign(a Action) {
	u.nodeChecker.drainBlocked = true
	before := map[string]bool{}
	for _, t := range u.AWS.Machines.TaskTruths(clusterName) {
		before[t.ID] = true
	}
	a.Pick = a.Pick / 14 * 14 // chooses the family small
	u.startForeignTask(a)
	for _, t := range u.AWS.Machines.TaskTruths(clusterName) {
		if !before[t.ID] {
			u.unblockers = append(u.unblockers, func() {
				_ = u.AWS.ECS.StopTask(context.Background(), clusterName, t.ID,
					"done")
			})
		}
	}
}

// blockProtected protects a service's tasks for an hour.
func (u *upgradeWorld) blockProtected(a Action) {
	s := u.client.pickService(a)
	if s == nil || s.daemon {
		return
	}
	var ids []string
	for n, t := range u.runningTasksOf(s) {
		if n < 3 {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	u.nodeChecker.drainBlocked = true
	set := func(d time.Duration) {
		u.client.callUntilAnswered("protect", func(ctx context.Context) error {
			_, _, err := u.API.TaskProtections.ProtectTasks(ctx, clusterName, ids, d)
			return err
		}, func(error) {})
	}
	set(time.Hour)
	u.unblockers = append(u.unblockers, func() { set(0) })
}

// blockPercentages allows a service neither to start a task before one stops, nor to stop one
// before another has started.
func (u *upgradeWorld) blockPercentages(a Action) {
	s := u.client.pickService(a)
	if s == nil || s.daemon {
		return
	}
	u.nodeChecker.drainBlocked = true
	least, most := 100, 101 // 100 would be refused, and the services have fewer than 100 tasks
	u.client.updateService(s, operation.UpdateService{MinHealthy: &least, MaxPercent: &most}, func() {})
	u.unblockers = append(u.unblockers, func() { u.restorePercentages(s, least, 200) })
}

func (u *upgradeWorld) restorePercentages(s *expectedService, least, most int) {
	if s.busy {
		u.Loop.After(5*time.Second, func() { u.restorePercentages(s, least, most) })
		return
	}
	u.client.updateService(s, operation.UpdateService{MinHealthy: &least, MaxPercent: &most}, func() {})
}

// growService raises a service's desired count so much that managed scaling adds nodes.
func (u *upgradeWorld) growService(a Action) {
	if s := u.client.pickService(a); s != nil && !s.daemon && u.pool.ManagedScaling {
		n := s.desired + 3 + a.N
		u.client.updateService(s, operation.UpdateService{Desired: &n}, func() { s.desired = n })
	}
}

// launchFaults are the ways in which launches fail for a while, in Auto Scaling's words.
var launchFaults = []autoscaling.LaunchFault{
	{Reason: "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient capacity in the " +
		"Availability Zone you requested. Launching EC2 instance failed."},
	{Reason: "Could not launch On-Demand Instances. InstanceLimitExceeded - Your quota allows for 0 more running instance(s). Launching EC2 instance failed."},
	{Reason: "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit. " +
		"Launching EC2 instance failed."},
	{Silent: true},
}

// failLaunches lets all launches fail in one way for some minutes.
func (u *upgradeWorld) failLaunches(a Action) {
	f := launchFaults[a.Pick%uint64(len(launchFaults))]
	u.nodeChecker.recordLaunchFault(f)
	u.launchOverride = func() autoscaling.LaunchFault { return f }
	u.Loop.After(time.Duration(2+6*a.N)*time.Minute, func() { u.launchOverride = nil })
}

// drawLaunchFault draws the fault of one launch.
func (u *upgradeWorld) drawLaunchFault(string, int64) autoscaling.LaunchFault {
	if u.launchOverride != nil {
		return u.launchOverride()
	}
	var f autoscaling.LaunchFault
	switch c := u.faults; {
	case c.strikes(LaunchFails):
		f = launchFaults[c.drawBelow(LaunchFails, 3)]
	case c.strikes(LaunchSilent):
		f.Silent = true
	case c.strikes(LaunchSlow):
		f.Slow = c.drawUpTo(LaunchSlow, 600)
	case c.strikes(LaunchElsewhere):
		f.Zone = u.pool.machine().Zones[c.drawBelow(LaunchElsewhere, u.pool.Zones)]
	default:
		return f
	}
	u.nodeChecker.recordLaunchFault(f)
	return f
}

// onRegistered is called for each new instance. It assigns the upgrade domain, as user data would,
// and may disconnect the agent.
func (u *upgradeWorld) onRegistered(i *cluster.Instance) {
	if u.pool.UpgradeDomains > 0 {
		u.domainsAssigned++
		u.putAttribute(i.ID, cluster.AttributeUpgrade, fmt.Sprint("ud", 8+u.domainsAssigned%u.pool.UpgradeDomains))
	}
	if u.agentsLeave || u.faults.strikes(LaunchDisconnected) {
		u.nodeChecker.disturbed = true
		_ = u.AWS.Machines.DisconnectAgent(i.ID)
	}
}

// putAttribute sets an attribute directly at ECS.
func (u *upgradeWorld) putAttribute(instance, name, value string) {
	if err := u.AWS.ECS.PutAttribute(context.Background(), clusterName, instance, name, value); err != nil {
		u.checker.Fail("%v", err)
	}
}

// checkNodeCommit looks in each commit for new instances, stopped tasks and changed updates.
func (u *upgradeWorld) checkNodeCommit(records []state.Record) {
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Instance:
			if r.Old == nil {
				u.Loop.After(0, func() { u.onRegistered(row) })
			}
		case *cluster.Task:
			if old, ok := r.Old.(*cluster.Task); ok && old.Desired != row.Desired {
				u.nodeChecker.checkForcedStop(row)
			}
		case *cluster.Update:
			old, _ := r.Old.(*cluster.Update)
			u.nodeChecker.observeUpdate(old, row)
		}
	}
}

// disturbingKinds take nodes out of service by themselves. After blockingKinds tasks may not leave
// a node in time.
var (
	disturbingKinds = []string{"kill-instance", "crash-instance", "disconnect"}
	blockingKinds   = []string{"deploy", "run-task", "unhealthy", "crash-task", "protect"}
)

// noteAction records which failures an action would explain.
func (u *upgradeWorld) noteAction(a Action) {
	if u == nil {
		return
	}
	u.nodeChecker.disturbed = u.nodeChecker.disturbed || slices.Contains(disturbingKinds, a.Kind)
	u.nodeChecker.drainBlocked = u.nodeChecker.drainBlocked || slices.Contains(blockingKinds, a.Kind) ||
		u.nodeChecker.disturbed
}
