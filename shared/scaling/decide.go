package scaling

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// Input is everything that a decision about one capacity provider depends on.
type Input struct {
	Provider *cluster.CapacityProvider
	Group    *cluster.AutoScalingGroup
	// Snapshot is the cluster. Placements are tried on it and undone.
	Snapshot *snapshot.Snapshot
	// Waiting are the provider's tasks in PROVISIONING.
	Waiting []WaitingTasks
	// Daemons are the specs of DAEMON services. Each new instance that matches one gets a task of
	// it first (S4).
	Daemons []*placement.Spec
	// Movers are the services whose tasks may be moved to empty an instance, by short key.
	Movers map[string]moves.Owner
	// RegisteredElsewhere names the cluster that an instance of the group has registered with, by
	// EC2 id: another cluster, or this one if the event was lost. Only instances that a decision
	// returned as Unregistered need to be looked up.
	RegisteredElsewhere map[string]string
	// Between reports that a wake-up asks for the decision, between the looks of two minutes. Then
	// nothing is scaled in or consolidated, and only providers that scale out at once are scaled
	// out. The others keep ECS's pace.
	Between bool
	// Upgrading reports that the group's nodes are being upgraded. Then no instance is removed.
	Upgrading bool
	// History is what the last decision remembered. The first time only its head is set.
	History cluster.ScalingHistory
	Now     time.Time
}

// WaitingTasks are the tasks of one owner that wait for an instance and need the same.
type WaitingTasks struct {
	Name   string // of the owner, as users read it: "service web"
	Spec   *placement.Spec
	Target int // desired count of a service: domain rules depend on it
	Count  int
	// Since has when each of the tasks began to wait.
	Since []time.Time
}

// Decision is what to do about a capacity provider.
//
// It must be carried out in this order, so that the group never terminates an instance that is
// about to get a task: remember History, then Protect, UnmarkReleasable, MarkReleasable, Release,
// Undrain, Drain, Terminate, Replace, and the desired capacity last. Lists are sorted by id
// unless something else is said.
type Decision struct {
	Metric
	// Desired is the desired capacity to set, already lowered by the instances to Terminate.
	// It is the group's own if nothing changes. Why says what it depends on.
	Desired int
	Why     string
	// Protect and Release are EC2 instances to protect from scale-in, or to protect no longer (C6).
	Protect, Release []string
	// MarkReleasable are container instances to record as ones that the group may terminate.
	// Dispatch then protects them before it starts a task there. UnmarkReleasable are those for
	// which that no longer holds.
	MarkReleasable, UnmarkReleasable []string
	// Drain and Undrain are container instances to make DRAINING, or ACTIVE again.
	Drain, Undrain []string
	// Terminate are EC2 instances, emptied and DRAINING, to terminate. Each lowers the desired
	// capacity by one.
	Terminate []string
	// Replace are EC2 instances that never registered, to terminate. The group launches others: the
	// desired capacity stays.
	Replace []string
	// Unregistered are EC2 instances that the decision treats as useless because they have not
	// registered in time. Before it is carried out, the other clusters must be checked for them,
	// and for those of Replace ECS must be asked. If one is found, decide again with
	// RegisteredElsewhere.
	Unregistered []string
	// Demands are the waiting tasks by what they need, the largest first (C2).
	Demands []Demand
	// Consolidation has every instance that consolidation considered, the cheapest first; none if
	// it is off.
	Consolidation []Candidate
	Events        []Event
	// Verdicts says for each instance of the group why it stays, or that it may go.
	Verdicts []Verdict
	History  cluster.ScalingHistory
}

// An Event is a message to users.
type Event struct {
	// Owner is the owner that it concerns, as [WaitingTasks] names it, or empty for the capacity
	// provider itself.
	Owner string
	// Key identifies a condition that lasts, so that it is not emitted every minute. It is empty
	// for something that was done, which is emitted each time.
	Key     string
	Message string
	// AfterResize reports that the message is true only once instances are replaced and the desired
	// capacity is set.
	AfterResize bool
}

// Verdict is why an instance of the group stays, or may go.
type Verdict struct {
	EC2InstanceID string
	Instance      string // container instance id; empty if it has not registered
	Why           string
}

// reasons say why single instances stay as they are, by EC2 id.
type reasons map[string]string

// Decide sizes the group (C1 to C5, C8), protects and releases its instances (C6), and empties
// those that consolidation can do without. If managed scaling is off, it only says so (C7).
func Decide(in Input) Decision {
	v := newView(in)
	drains := resumeDrains(v)
	why := drains.reasons
	if !v.settings.Enabled {
		return decideDisabled(v, drains)
	}
	samples := refreshSamples(v)
	protection := planProtection(v)
	maps.Copy(why, protection.reasons)
	demand := computeDemand(v, samples.Samples)
	metric := computeMetric(v, demand)
	size := computeSize(v, demand, metric, drains)
	replacement := planReplacement(v, metric)
	maps.Copy(why, replacement.reasons)
	finished := advanceDrains(v, metric, size, drains)
	deferred := cmp.Or(v.whyConsolidationOff(), whyNotBetween(v),
		whyConsolidationDeferred(v, demand, metric, finished, size.lastOut))
	found := findConsolidation(v, deferred, drains)

	d := Decision{
		Metric: metric, Desired: finished.desired, Why: size.why,
		Protect: protection.protect, Release: protection.release, MarkReleasable: protection.markReleasable,
		UnmarkReleasable: protection.unmarkReleasable,
		Drain:            drains.drain, Undrain: drains.undrain, Terminate: finished.terminate,
		Replace: replacement.replace, Unregistered: replacement.unregistered,
		Demands: demand.demands, Consolidation: found.candidates,
		Events:   slices.Concat(demand.events, size.events, replacement.events, finished.events, found.events),
		Verdicts: explainInstances(v, size.hold, why),
	}
	if len(finished.terminate) > 0 {
		d.Why = finished.why
	}
	d.History = v.nextHistory()
	d.History.Samples, d.History.EmptySince = samples.Samples, samples.NoneSince
	d.History.LowMinutes, d.History.LastLowMinute = size.low.Low, size.low.Minute
	d.History.LastScaleOut, d.History.LastScaleIn = size.lastOut, finished.lastIn
	if size.desired > v.Group.Desired {
		d.History.ScaleOuts++
	}
	d.History.LastReplacement = replacement.lastReplaced
	d.History.Drains, d.History.DeferredUntil = drains.drains, drains.deferredUntil
	d.History.Progress = consolidationProgress(v, size, finished, &found, drains)
	d.History.EmptyingUntil = emptyingUntil(v, d.History.Progress)
	d.History.Protecting = protection.protecting
	d.History.LookAgainAt = size.lookAgainAt
	d.sortLists()
	return d
}

// decideDisabled is the decision while managed scaling is off: drains are cancelled and protection
// ends.
func decideDisabled(v *view, drains *drainPlan) Decision {
	d := Decision{Desired: v.Group.Desired, Why: "managed scaling is off"}
	drains.cancelAll(v, d.Why)
	protection := endProtection(v)
	d.Release, d.UnmarkReleasable = protection.release, protection.unmarkReleasable
	d.Drain, d.Undrain = drains.drain, drains.undrain
	for _, m := range v.instances {
		d.Verdicts = append(d.Verdicts, m.newVerdict(cmp.Or(notCounted(m), d.Why)))
	}
	d.History = cluster.ScalingHistory{
		Head: v.History.Head, Provider: v.Provider.Name, Protecting: protection.protecting,
	}
	d.History.Drains = drains.drains
	d.sortLists()
	return d
}

func (d *Decision) sortLists() {
	for _, ids := range [][]string{d.MarkReleasable, d.UnmarkReleasable, d.Drain, d.Undrain, d.Terminate} {
		slices.Sort(ids)
	}
}

// PlanConsolidation returns the plan that [Decide] would make now if consolidation was enabled: the
// instances that can be emptied, the cheapest first, which of them the budget allows, and why the
// others cannot. There is none if managed scaling is off.
func PlanConsolidation(in Input) []Candidate {
	provider := *in.Provider
	provider.Scaling.Consolidation.Enabled = true
	in.Provider = &provider
	return Decide(in).Consolidation
}
