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

// upgradeKinds is what happens to a cluster whose nodes are updated, with how often relative to each other.
var upgradeKinds = []struct {
	name   string
	weight int
}{
	{"update-nodes", 5}, {"scale", 5}, {"crash-task", 3}, {"kill-instance", 2}, {"crash-instance", 1}, {"disconnect", 2}, {"reconnect", 3},
	{"block-standalone", 2}, {"block-protected", 2}, {"block-percentages", 2}, {"block-foreign", 1}, {"fail-launches", 2}, {"deploy", 2},
	{"unhealthy", 1}, {"protect", 1}, {"run-task", 1}, {"burst", 8},
}

// drawUpgrade makes the history of a seed: an update first, and then whatever happens.
func drawUpgrade(rng *rand.Rand) []Action {
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
					a.N &^= 3 // forced: other revisions may need more room than there is
				}
				actions = append(actions, a)
				break
			}
		}
	}
	return actions
}

// updateNodes asks for an update: to another image or to the last one again; some by force.
func (u *upgrading) updateNodes(a Action) {
	if u.images == 0 || a.N%2 == 0 {
		u.images++
	}
	u.begin(operation.UpdateNodeGroupVersion{
		ReleaseVersion: image(u.images), Force: a.Pick%4 == 0, ForceProtected: a.Pick%8 == 0,
	})
}

// blockStandalone has a standalone task run that nobody but its owner stops.
func (u *upgrading) blockStandalone(a Action) {
	u.judge.blocked = true
	token := fmt.Sprint("block", a.Pick)
	var got []string
	u.client.submit(operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "small", Count: 1 + a.N%2, Token: token, Params: token,
	}, func(ids []string) { got = ids })
	u.blocks = append(u.blocks, func() {
		for _, id := range got {
			u.client.stopOne(id)
		}
	})
}

// blockForeign has a task run that somebody else has started.
func (u *upgrading) blockForeign(a Action) {
	u.judge.blocked = true
	before := map[string]bool{}
	for _, t := range u.AWS.Machines.TaskTruths(clusterName) {
		before[t.ID] = true
	}
	a.Pick = a.Pick / 14 * 14 // of the family small
	u.foreignTask(a)
	for _, t := range u.AWS.Machines.TaskTruths(clusterName) {
		if !before[t.ID] {
			u.blocks = append(u.blocks, func() { _ = u.AWS.ECS.StopTask(context.Background(), clusterName, t.ID, "done") })
		}
	}
}

// blockProtected protects a service's tasks for an hour.
func (u *upgrading) blockProtected(a Action) {
	s := u.client.pick(a)
	if s == nil || s.daemon {
		return
	}
	var ids []string
	for n, t := range u.ranBy(s) {
		if n < 3 {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	u.judge.blocked = true
	set := func(d time.Duration) {
		u.client.call("protect", func(ctx context.Context) error {
			_, _, err := u.API.TaskProtections.ProtectTasks(ctx, clusterName, ids, d)
			return err
		}, func(error) {})
	}
	set(time.Hour)
	u.blocks = append(u.blocks, func() { set(0) })
}

// blockPercentages forbids a service to start a task before one stops, and to stop one before another is started.
func (u *upgrading) blockPercentages(a Action) {
	s := u.client.pick(a)
	if s == nil || s.daemon {
		return
	}
	u.judge.blocked = true
	hundred, more := 100, 200
	u.client.change(s, operation.UpdateService{MinHealthy: &hundred, MaxPercent: &hundred}, func() {})
	u.blocks = append(u.blocks, func() { u.widen(s, hundred, more) })
}

func (u *upgrading) widen(s *wanted, least, most int) {
	if s.busy {
		u.Loop.After(5*time.Second, func() { u.widen(s, least, most) })
		return
	}
	u.client.change(s, operation.UpdateService{MinHealthy: &least, MaxPercent: &most}, func() {})
}

// burst has the load of a service grow by far: managed scaling adds nodes.
func (u *upgrading) burst(a Action) {
	if s := u.client.pick(a); s != nil && !s.daemon && u.pool.Scaled {
		n := s.desired + 3 + a.N
		u.client.change(s, operation.UpdateService{Desired: &n}, func() { s.desired = n })
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

// failLaunches has all launches fail in one way, for long enough to be noticed or not.
func (u *upgrading) failLaunches(a Action) {
	f := launchFaults[a.Pick%uint64(len(launchFaults))]
	u.judge.launching(f)
	u.launch = func() autoscaling.LaunchFault { return f }
	u.Loop.After(time.Duration(2+6*a.N)*time.Minute, func() { u.launch = nil })
}

// launchFault is what goes wrong with one launch.
func (u *upgrading) launchFault(string, int64) autoscaling.LaunchFault {
	if u.launch != nil {
		return u.launch()
	}
	var f autoscaling.LaunchFault
	switch c := u.chaos; {
	case c.hit(LaunchFails):
		f = launchFaults[c.below(LaunchFails, 3)]
	case c.hit(LaunchSilent):
		f.Silent = true
	case c.hit(LaunchSlow):
		f.Slow = c.upTo(LaunchSlow, 600)
	case c.hit(LaunchElsewhere):
		f.Zone = u.pool.machine().Zones[c.below(LaunchElsewhere, u.pool.Zones)]
	default:
		return f
	}
	u.judge.launching(f)
	return f
}

// registered is called when an instance comes: some of them stay away from then on, and where there are upgrade domains it
// gets its own, as its user data would have it.
func (u *upgrading) registered(i *cluster.Instance) {
	if u.pool.Domains > 0 {
		u.placed++
		u.attribute(i.ID, cluster.AttributeUpgrade, fmt.Sprint("ud", 8+u.placed%u.pool.Domains))
	}
	if u.sick || u.chaos.hit(LaunchSick) {
		u.judge.disturbed = true
		_ = u.AWS.Machines.DisconnectAgent(i.ID)
	}
}

// attribute sets one behind Berth's back.
func (u *upgrading) attribute(instance, name, value string) {
	if err := u.AWS.ECS.PutAttribute(context.Background(), clusterName, instance, name, value); err != nil {
		u.checker.fail("%v", err)
	}
}

// watch sees every commit: instances that are new, and what updates become.
func (u *upgrading) watch(records []state.Record) {
	for _, r := range records {
		switch row := r.New.(type) {
		case *cluster.Instance:
			if r.Old == nil {
				u.Loop.After(0, func() { u.registered(row) })
			}
		case *cluster.Task:
			if old, ok := r.Old.(*cluster.Task); ok && old.Desired != row.Desired {
				u.judge.stopped(row)
			}
		case *cluster.Update:
			old, _ := r.Old.(*cluster.Update)
			u.judge.update(old, row)
		}
	}
}

// Actions that take nodes out of service by themselves, and those after which tasks may not leave a node in time.
var (
	disturbing = []string{"kill-instance", "crash-instance", "disconnect"}
	hindering  = []string{"deploy", "run-task", "unhealthy", "crash-task", "protect"}
)

// happens is called for each action.
func (u *upgrading) happens(a Action) {
	if u == nil {
		return
	}
	u.judge.disturbed = u.judge.disturbed || slices.Contains(disturbing, a.Kind)
	u.judge.blocked = u.judge.blocked || slices.Contains(hindering, a.Kind) || u.judge.disturbed
}
