package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Action is one thing that happens to the cluster from outside, at a time. A history is a list of them; which instance,
// task or service it hits follows from Pick at the moment it happens, so that a history still means something after
// others were taken out of it.
type Action struct {
	At   time.Duration
	Kind string
	Pick uint64
	N    int
}

// String is the action as a failure prints it.
func (a Action) String() string {
	return fmt.Sprintf("%8s %-16s pick=%d n=%d", a.At, a.Kind, a.Pick%1000, a.N)
}

// kinds are what can happen, with how often relative to each other.
var kinds = []struct {
	name   string
	weight int
	act    func(*World, Action)
}{
	{"create-service", 6, func(w *World, a Action) { w.client.create(a, false) }},
	{"create-daemon", 2, func(w *World, a Action) { w.client.create(a, true) }},
	{"scale", 10, func(w *World, a Action) { w.client.scale(a) }},
	{"percentages", 2, func(w *World, a Action) { w.client.percentages(a) }},
	{"delete-service", 3, func(w *World, a Action) { w.client.remove(a) }},
	{"run-task", 6, func(w *World, a Action) { w.client.run(a, "") }},
	{"run-waiting", 4, (*World).runWaiting},
	{"start-task", 3, func(w *World, a Action) { w.client.start(a) }},
	{"stop-task", 4, func(w *World, a Action) { w.client.stop(a) }},
	{"spam", 1, func(w *World, a Action) { w.client.spam(a) }},
	{"repeat-request", 3, func(w *World, a Action) { w.client.repeat(a) }},
	{"vandalize", 3, (*World).vandalize},
	{"bad-event", 2, (*World).badEvent},
	{"huge-request", 1, func(w *World, a Action) { w.client.huge(a) }},
	{"add-instance", 3, (*World).addInstances},
	{"kill-instance", 3, (*World).killInstance},
	{"crash-instance", 2, (*World).crashInstance},
	{"disconnect", 4, (*World).disconnect},
	{"reconnect", 5, (*World).reconnect},
	{"flap-agent", 2, (*World).flapAgent},
	{"drain", 2, func(w *World, a Action) { w.setState(a, "DRAINING") }},
	{"activate", 2, func(w *World, a Action) { w.setState(a, "ACTIVE") }},
	{"attribute", 2, (*World).changeAttribute},
	{"fail-zone", 1, (*World).failZone},
	{"resize", 1, (*World).resize},
	{"crash-task", 8, (*World).crashTask},
	{"unhealthy", 3, (*World).unhealthy},
	{"all-unhealthy", 2, (*World).allUnhealthy},
	{"foreign-task", 2, (*World).foreignTask},
	{"rules", 10, func(w *World, a Action) { w.client.rerule(a) }},
	{"configure", 5, func(w *World, a Action) { w.client.configure(a) }},
	{"report-load", 14, (*World).reportLoad},
	{"relabel", 12, (*World).relabel},
	{"uncordon", 3, (*World).uncordon},
	{"deploy", 16, func(w *World, a Action) { w.client.deploy(a) }},
	{"tune", 8, func(w *World, a Action) { w.client.tune(a) }},
	{"stop-deployment", 2, func(w *World, a Action) { w.client.stopDeployment(a) }},
	{"target-unhealthy", 4, (*World).targetUnhealthy},
	{"alarm", 2, (*World).fireAlarm},
	{"create-checked", 0, func(w *World, a Action) { w.client.plain(fmt.Sprint("c", a.N), "checked:1", 7, false) }},
	{"protect", 3, func(w *World, a Action) { w.client.protect(a) }},
	// In half of the runs, see [extras].
	{"stop-release", 0, func(w *World, a Action) { w.client.stopRelease(a) }},
	{"early-success", 0, func(w *World, a Action) { w.client.succeedEarly(a) }},
	{"spot-interruption", 0, (*World).spot},
	{"rebalance-recommendation", 0, (*World).recommend},
	{"create-provided", 0, func(w *World, a Action) { w.client.createProvided(a) }},
	{"share-anew", 0, func(w *World, a Action) { w.client.shareAnew(a) }},
	{"image-gone", 0, (*World).imageGone},
	// Where a node group is updated, see [drawUpgrade].
	{"update-nodes", 0, func(w *World, a Action) { w.upgrades.updateNodes(a) }},
	{"block-standalone", 0, func(w *World, a Action) { w.upgrades.blockStandalone(a) }},
	{"block-foreign", 0, func(w *World, a Action) { w.upgrades.blockForeign(a) }},
	{"block-protected", 0, func(w *World, a Action) { w.upgrades.blockProtected(a) }},
	{"block-percentages", 0, func(w *World, a Action) { w.upgrades.blockPercentages(a) }},
	{"fail-launches", 0, func(w *World, a Action) { w.upgrades.failLaunches(a) }},
	{"burst", 0, func(w *World, a Action) { w.upgrades.burst(a) }},
}

// act lets an action take place.
func (w *World) act(a Action) {
	w.upgrades.happens(a)
	for _, k := range kinds {
		if k.name == a.Kind {
			k.act(w, a)
		}
	}
}

// storm is a history in which most tasks are unhealthy at once, twice.
var storm = []Action{
	{At: 0, Kind: "create-checked", N: 0}, {At: 0, Kind: "create-checked", N: 1}, {At: 0, Kind: "create-checked", N: 2},
	{At: 7 * time.Minute, Kind: "all-unhealthy"}, {At: 14 * time.Minute, Kind: "all-unhealthy"},
}

// draw makes the history of a seed: n actions over the span.
func draw(rng *rand.Rand, n int, span time.Duration) []Action {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	// Every history begins with something to schedule.
	actions := []Action{{0, "create-service", rng.Uint64(), rng.IntN(8) + 1}}
	for range n - 1 {
		w := rng.IntN(total)
		for _, k := range kinds {
			if w -= k.weight; w < 0 {
				at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
				actions = append(actions, Action{at, k.name, rng.Uint64(), rng.IntN(8)})
				break
			}
		}
	}
	return actions
}
