package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// An Action is one thing that happens to the cluster from outside, at a time. A history is a list
// of actions. Which instance, task or service an action hits follows from Pick when it happens, so
// a history still makes sense after some of its actions were removed.
type Action struct {
	At   time.Duration
	Kind string
	Pick uint64
	N    int
}

// String formats the action as a failure prints it.
func (a Action) String() string {
	return fmt.Sprintf("%8s %-16s pick=%d n=%d", a.At, a.Kind, a.Pick%1000, a.N)
}

// actionKinds lists what can happen, and how often relative to each other. The order and the
// weights are part of every seed.
var actionKinds = []struct {
	name   string
	weight int
	act    func(*World, Action)
}{
	{"create-service", 6, func(w *World, a Action) { w.client.createService(a, false) }},
	{"create-daemon", 2, func(w *World, a Action) { w.client.createService(a, true) }},
	{"scale", 10, func(w *World, a Action) { w.client.scaleService(a) }},
	{"percentages", 2, func(w *World, a Action) { w.client.changePercentages(a) }},
	{"delete-service", 3, func(w *World, a Action) { w.client.deleteService(a) }},
	{"run-task", 6, func(w *World, a Action) { w.client.runTask(a, "") }},
	{"run-waiting", 4, (*World).runWaitingTask},
	{"start-task", 3, func(w *World, a Action) { w.client.startTask(a) }},
	{"stop-task", 4, func(w *World, a Action) { w.client.stopTask(a) }},
	{"start-and-stop", 1, func(w *World, a Action) { w.client.startAndStop(a) }},
	{"repeat-request", 3, func(w *World, a Action) { w.client.repeatRequest(a) }},
	{"malformed-request", 3, (*World).sendMalformedRequest},
	{"malformed-event", 2, (*World).sendMalformedEvent},
	{"huge-request", 1, func(w *World, a Action) { w.client.sendHugeRequest(a) }},
	{"add-instance", 3, (*World).addInstances},
	{"kill-instance", 3, (*World).killInstance},
	{"crash-instance", 2, (*World).crashInstance},
	{"disconnect", 4, (*World).disconnectAgent},
	{"reconnect", 5, (*World).reconnectAgent},
	{"flap-agent", 2, (*World).flapAgent},
	{"drain", 2, func(w *World, a Action) { w.setInstanceStatus(a, "DRAINING") }},
	{"activate", 2, func(w *World, a Action) { w.setInstanceStatus(a, "ACTIVE") }},
	{"attribute", 2, (*World).changeAttribute},
	{"fail-zone", 1, (*World).failZone},
	{"resize", 1, (*World).shrinkInstance},
	{"crash-task", 8, (*World).crashTask},
	{"unhealthy", 3, (*World).makeUnhealthy},
	{"all-unhealthy", 2, (*World).makeAllUnhealthy},
	{"foreign-task", 2, (*World).startForeignTask},
	{"change-rules", 10, func(w *World, a Action) { w.client.changeRules(a) }},
	{"configure", 5, func(w *World, a Action) { w.client.changeConfiguration(a) }},
	{"report-load", 14, (*World).reportLoads},
	{"relabel", 12, (*World).changePlacementAttribute},
	{"uncordon", 3, (*World).uncordonInstance},
	{"deploy", 16, func(w *World, a Action) { w.client.deployService(a) }},
	{"deployment-settings", 8, func(w *World, a Action) { w.client.changeDeploymentSettings(a) }},
	{"stop-deployment", 2, func(w *World, a Action) { w.client.stopDeployment(a) }},
	{"target-unhealthy", 4, (*World).makeTargetUnhealthy},
	{"alarm", 2, (*World).fireAlarm},
	{"create-checked", 0, func(w *World, a Action) {
		w.client.createPlainService(fmt.Sprint("c", a.N), "checked:1", 7,
			false)
	}},
	{"protect", 3, func(w *World, a Action) { w.client.protectTasks(a) }},
	// Drawn by [drawExtras], in half of the runs.
	{"deploy-and-stop", 0, func(w *World, a Action) { w.client.deployAndStop(a) }},
	{"early-success", 0, func(w *World, a Action) { w.client.changeEarlySuccess(a) }},
	{"spot-interruption", 0, (*World).interruptSpotInstance},
	{"rebalance-recommendation", 0, (*World).recommendRebalance},
	{"create-with-providers", 0, func(w *World, a Action) { w.client.createServiceWithProviders(a) }},
	{"change-providers", 0, func(w *World, a Action) { w.client.changeProviderStrategy(a) }},
	{"remove-images", 0, (*World).removeImages},
	// Drawn by [drawTaskSets].
	{"create-external", 0, func(w *World, a Action) { w.client.createExternal(a) }},
	{"add-task-set", 0, func(w *World, a Action) { w.client.addTaskSet(a) }},
	{"scale-task-set", 0, func(w *World, a Action) { w.client.scaleTaskSet(a) }},
	{"primary-task-set", 0, func(w *World, a Action) { w.client.makePrimary(a) }},
	{"delete-task-set", 0, func(w *World, a Action) {
		if s, set := w.client.pickTaskSet(a); set != nil {
			w.client.deleteTaskSet(s, set)
		}
	}},
	// Drawn by [drawTaints].
	{"taint", 0, (*World).taintInstance},
	{"remove-taints", 0, (*World).removeTaints},
	{"tolerate", 0, func(w *World, a Action) { w.client.changeTolerations(a) }},
	// Drawn by [drawApplications].
	{"limit-applications", 0, func(w *World, a Action) { w.client.limitApplications(a) }},
	{"join-application", 0, func(w *World, a Action) { w.client.joinApplication(a) }},
	// Drawn by [drawUpgradeHistory].
	{"update-nodes", 0, func(w *World, a Action) { w.upgrade.updateNodes(a) }},
	{"block-standalone", 0, func(w *World, a Action) { w.upgrade.blockStandalone(a) }},
	{"block-foreign", 0, func(w *World, a Action) { w.upgrade.blockForeign(a) }},
	{"block-protected", 0, func(w *World, a Action) { w.upgrade.blockProtected(a) }},
	{"block-percentages", 0, func(w *World, a Action) { w.upgrade.blockPercentages(a) }},
	{"fail-launches", 0, func(w *World, a Action) { w.upgrade.failLaunches(a) }},
	{"burst", 0, func(w *World, a Action) { w.upgrade.growService(a) }},
}

// perform executes an action.
func (w *World) perform(a Action) {
	w.upgrade.noteAction(a)
	for _, k := range actionKinds {
		if k.name == a.Kind {
			k.act(w, a)
		}
	}
}

// unhealthyStorm is a history in which most tasks are unhealthy at once, twice.
var unhealthyStorm = []Action{
	{At: 0, Kind: "create-checked", N: 0}, {At: 0, Kind: "create-checked", N: 1}, {At: 0, Kind: "create-checked", N: 2},
	{At: 7 * time.Minute, Kind: "all-unhealthy"}, {At: 14 * time.Minute, Kind: "all-unhealthy"},
}

// drawHistory draws a history of n actions over the span.
func drawHistory(rng *rand.Rand, n int, span time.Duration) []Action {
	total := 0
	for _, k := range actionKinds {
		total += k.weight
	}
	// Every history begins with something to schedule.
	actions := []Action{{0, "create-service", rng.Uint64(), rng.IntN(8) + 1}}
	for range n - 1 {
		w := rng.IntN(total)
		for _, k := range actionKinds {
			if w -= k.weight; w < 0 {
				at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
				actions = append(actions, Action{at, k.name, rng.Uint64(), rng.IntN(8)})
				break
			}
		}
	}
	return actions
}
