// Package scaling decides how many instances the Auto Scaling group of a capacity provider should have, which of them are
// to be protected from scale-in, which to be emptied and terminated, and says why (C1–C8). It reads no clock and changes
// nothing: a cluster, a group, what was remembered and the time in, a decision out.
//
// Read on: census.go says what the group's instances count as, demand.go how many more the waiting tasks need, size.go what
// becomes of the desired capacity, consolidate.go which instances had better be emptied.
package scaling

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// Input is all that a decision about one capacity provider rests on.
type Input struct {
	Provider *cluster.CapacityProvider
	Group    *cluster.AutoScalingGroup
	// Snapshot is the cluster. Placements are tried on it; afterwards it is as before, but for the order in which it lists
	// what has none.
	Snapshot *snapshot.Snapshot
	// Waiting are the provider's tasks in PROVISIONING.
	Waiting []Waiting
	// Daemons are what the tasks of DAEMON services need: each new instance that they match gets one first (S4).
	Daemons []*placement.Spec
	// Movers are the services whose tasks may be moved to empty an instance, by short key.
	Movers map[string]placement.Mover
	// Elsewhere are instances of the group that have registered with another cluster, or with this one unheard, by EC2 id: the
	// cluster's name. Those that no decision named as Silent need not be looked for.
	Elsewhere map[string]string
	// Upgrading reports that the group's nodes are being upgraded: then nothing is taken away.
	Upgrading bool
	// History is what the last decision remembered; where there was none, only its head is set.
	History cluster.ScalingHistory
	Now     time.Time
}

// Waiting are tasks of one owner that wait for an instance.
type Waiting struct {
	Name   string // of the owner, as users read it: "service web"
	Spec   *placement.Spec
	Target int // desired count of a service: domain rules depend on it
	Count  int
}

// Decision is what to do about a capacity provider. It is to be carried out in this order: History kept, Protect, Forget, Note,
// Release, Undrain, Drain, Terminate, Replace, then the desired capacity; so the group never takes an instance that is about to get a task.
// Lists are in order of id, where nothing else is said.
type Decision struct {
	// Published reports that there is a metric: Reservation, CapacityProviderReservation in percent, made of Needed (M) and
	// Running (N) (C1).
	Published       bool
	Reservation     float64
	Needed, Running int
	// Desired is what the group's desired capacity is to be, those of Terminate already taken off; the group's own where
	// nothing is to change. Why says what it rests on.
	Desired int
	Why     string
	// Protect and Release are EC2 instances to be protected from scale-in, or no longer (C6).
	Protect, Release []string
	// Note are container instances about which is to be written down that the group may take them, so that whoever has a task
	// started there protects them first; Forget those of which that no longer holds.
	Note, Forget []string
	// Drain and Undrain are container instances to become DRAINING, or ACTIVE again.
	Drain, Undrain []string
	// Terminate are EC2 instances, emptied and DRAINING, to be terminated with the desired capacity lowered by one each.
	Terminate []string
	// Replace are EC2 instances that never registered, to be terminated and launched anew by the group: the desired capacity
	// stays.
	Replace []string
	// Silent are EC2 instances that the decision takes for of no use, as they have not registered in time. Whoever carries it out
	// makes sure first that no other cluster has them, and that ECS does not know those of Replace; else it decides anew (Elsewhere).
	Silent []string
	// Demands are the waiting tasks by what they need, those first that find room less easily (C2).
	Demands []Demand
	// Consolidation is what came of the look for instances that can be emptied, the cheapest first; none where it is off.
	Consolidation []Candidate
	Events        []Event
	// Instances says of each instance of the group what it counts as, and why it is not taken away or may be.
	Instances []Verdict
	History   cluster.ScalingHistory
}

// Event is something that users should be told.
type Event struct {
	// Owner is whom it concerns, as [Waiting] names it; empty for the capacity provider itself.
	Owner string
	// Topic is the same for events that say the same of the same thing: who has told of one need not repeat it while it
	// comes every minute. Empty where something is done: that is news each time.
	Topic   string
	Message string
	// Done reports that it tells of instances replaced or of the desired capacity, as what was done: it is true once that is so.
	Done bool
}

// Verdict is why an instance of the group stays, or may go.
type Verdict struct {
	EC2InstanceID string
	Instance      string // container instance id, empty where it has not registered
	Why           string
}

// Decide sizes the group (C1–C5, C8), protects and releases its instances (C6), and empties those that consolidation can
// do without. Where managed scaling is off it only says so (C7).
func Decide(in Input) Decision {
	c := take(in)
	c.resume()
	if c.settings.Enabled {
		c.protect()
		c.measure()
		c.size()
		c.replace()
		c.consolidate()
	} else {
		c.out.Why = "managed scaling is off"
		c.endDrains(c.out.Why)
		c.unprotect()
		c.next = cluster.ScalingHistory{
			Head: in.History.Head, Provider: in.Provider.Name, Drains: c.next.Drains, Protecting: c.next.Protecting,
		}
	}
	c.explain()
	for _, ids := range [][]string{c.out.Note, c.out.Forget, c.out.Drain, c.out.Undrain, c.out.Terminate} {
		slices.Sort(ids)
	}
	c.out.History = c.next
	return c.out
}

// Consolidate is the plan that [Decide] would make now with consolidation enabled: which instances can be emptied, the
// cheapest first, which of them the budget allows, and why the others cannot. None where managed scaling is off.
func Consolidate(in Input) []Candidate {
	provider := *in.Provider
	provider.Scaling.Consolidation.Enabled = true
	in.Provider = &provider
	return Decide(in).Consolidation
}
