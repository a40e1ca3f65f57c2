package simulation

import (
	"context"
	"maps"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// Bugs in upgrades of node groups.
const (
	// OldNodesSchedulable cordons no old node, and believes that all are cordoned.
	OldNodesSchedulable Bug = "upgrade: old nodes are not made unschedulable"
	// DrainAllAtOnce makes every old node DRAINING with the first.
	DrainAllAtOnce Bug = "upgrade: all old nodes are DRAINING at once"
	// OneTooMany takes one node more out of service than allowed.
	OneTooMany Bug = "upgrade: one node too many at a time"
	// NoReplacement drains the next node before the last one was replaced.
	NoReplacement Bug = "upgrade: replacements are not waited for"
	// NoDrainTimeOut waits forever for tasks to leave.
	NoDrainTimeOut Bug = "upgrade: the drain time-out is off"
	// NoCordonWait terminates a node as soon as its last task has stopped.
	NoCordonWait Bug = "upgrade: nothing is waited for between the last task and the termination"
	// KeepSurge takes the surge for part of the original size.
	KeepSurge Bug = "upgrade: the surge is not taken back"
	// RaiseMinimum sets the minimum together with the desired capacity.
	RaiseMinimum Bug = "upgrade: the minimum is changed"
	// SurplusAnywhere removes surplus nodes in any zone.
	SurplusAnywhere Bug = "upgrade: the surplus is taken in the wrong zone"
	// DaemonStays never stops daemons, so that they block a drain.
	DaemonStays Bug = "upgrade: a daemon counts as load"
	// UpdatedAgain replaces nodes that are up to date.
	UpdatedAgain Bug = "upgrade: nodes that were up to date are replaced"
	// ForceProtectedTasks stops protected tasks by force without permission.
	ForceProtectedTasks Bug = "upgrade: force stops protected tasks"
	// BothInCharge hides the upgrade from managed scaling.
	BothInCharge Bug = "upgrade: managed scaling takes nodes at the same time"
	// AllDomains replaces nodes of all upgrade domains together.
	AllDomains Bug = "upgrade: upgrade domains are not kept apart"
	// CordonsStay leaves old nodes unschedulable after a failed update.
	CordonsStay Bug = "upgrade: nodes stay unschedulable"
	// ActedOnTwice carries out a termination once more for a wake-up that came twice.
	ActedOnTwice Bug = "upgrade: a wake-up is acted on twice"
	// NoUpgradeNet switches node-group-upgrade's schedule off.
	NoUpgradeNet Bug = "upgrade: the net is switched off"
	// EarlyEvent takes an event that comes early for the one that a step waits for.
	EarlyEvent Bug = "upgrade: a step is skipped because its event came early"
)

// UpgradeBugs lists the bugs, each with the failure by which it must be found.
var UpgradeBugs = map[Bug]string{
	OldNodesSchedulable: "still takes tasks", DrainAllAtOnce: "out of service at once",
	OneTooMany:    "out of service at once",
	NoReplacement: "are in service, of", NoDrainTimeOut: "has been DRAINING for",
	NoCordonWait: "after its last task stopped",
	KeepSurge:    "nothing justifies that", RaiseMinimum: "minimum is", SurplusAnywhere: "the zones have",
	DaemonStays:  "nothing kept tasks",
	UpdatedAgain: "was up to date when update", ForceProtectedTasks: "invariant 7",
	BothInCharge: "takes nodes of a group under update",
	CordonsStay:  "is left unschedulable", AllDomains: "are replaced at once",
	ActedOnTwice: "is terminated", NoUpgradeNet: "the update is stuck", EarlyEvent: "after its last task stopped",
}

// wrapUpgradeStore plants such a bug in a function's store.
func (b Bug) wrapUpgradeStore(w *World, function string, s state.Store) state.Store {
	return &buggyUpgradeStore{Store: s, world: w, bug: b, function: function}
}

type buggyUpgradeStore struct {
	state.Store
	world    *World
	bug      Bug
	function string
}

func (s *buggyUpgradeStore) Get(ctx context.Context, key state.Key) (state.Row, error) {
	row, err := s.Store.Get(ctx, key)
	return s.distort(row), err
}

func (s *buggyUpgradeStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	if s.function == "managed-scaling" && s.bug == BothInCharge && strings.HasPrefix(r.From, state.PrefixNodeGroup) {
		return nil, err
	}
	var out []state.Row
	for _, row := range rows {
		if _, ok := row.(*cluster.Protection); ok && s.bug == ForceProtectedTasks && s.function == upgrader {
			continue
		}
		out = append(out, s.distort(row))
	}
	return out, err
}

// distort returns a row as the bug makes it look to node-group-upgrade.
func (s *buggyUpgradeStore) distort(row state.Row) state.Row {
	if s.function != upgrader {
		return row
	}
	switch r := row.(type) {
	case *cluster.Instance:
		return s.distortInstance(r)
	case *cluster.Update:
		if r != nil && !r.HasEnded() {
			next := *r
			s.distortUpdate(&next)
			return &next
		}
	}
	return row
}

func (s *buggyUpgradeStore) distortInstance(i *cluster.Instance) *cluster.Instance {
	u := s.world.upgrade.lastUpdate()
	if i == nil || u == nil {
		return i
	}
	next := *i
	next.Attributes = maps.Clone(i.Attributes)
	switch {
	case s.bug == OldNodesSchedulable:
		next.Attributes[cluster.AttributeUnschedulable] = "somebody"
	case s.bug == CordonsStay && u.Phase == cluster.PhaseRestore:
		delete(next.Attributes, cluster.AttributeUnschedulable)
	case s.bug == AllDomains && next.Attributes[cluster.AttributeUpgrade] != "":
		next.Attributes[cluster.AttributeUpgrade] = "any"
	case s.bug == UpdatedAgain && s.world.upgrade.nodeChecker.upToDate[i.EC2InstanceID]:
		next.Attributes[nodegroup.LabelImage] = "another"
	}
	return &next
}

func (s *buggyUpgradeStore) distortUpdate(u *cluster.Update) {
	p := s.world.upgrade.pool
	switch s.bug {
	case OneTooMany:
		if u.OriginalSizes != nil {
			u.MaxUnavailable = p.maxUnavailable(u.OriginalSizes.Desired) + 1
		}
	case NoReplacement:
		u.RequiredNodes = 0
	case NoDrainTimeOut:
		u.Timeouts.Drain = 1 << 50
	case NoCordonWait:
		u.Timeouts.Cordon = -1
	case EarlyEvent:
		// The schedule ticks on the minute: what runs in between was woken.
		if s.world.Loop.Now().Sub(epoch)%time.Minute != 0 {
			u.Timeouts.Cordon = -1
		}
	case KeepSurge:
		if had := s.world.upgrade.nodeChecker.originalSizes; u.Phase == cluster.PhaseUpgrade {
			u.OriginalSizes = &cluster.Sizes{Min: had.Min, Max: had.Max + u.Surge, Desired: had.Desired + u.Surge}
		}
	case SurplusAnywhere:
		if u.Phase == cluster.PhaseScaleDown {
			u.Zones = map[string]int{p.machine().Zones[0]: 100}
		}
	}
}

// wrapUpgradeGroups plants such a bug in a function's calls of Auto Scaling.
func (b Bug) wrapUpgradeGroups(function string, g installation.Groups) installation.Groups {
	if (b == RaiseMinimum || b == ActedOnTwice) && function == upgrader {
		return &buggyUpgradeGroups{g, b}
	}
	return g
}

type buggyUpgradeGroups struct {
	installation.Groups
	bug Bug
}

// TerminateInstance removes one more node of the surplus, as a wake-up that is acted on twice would.
func (g *buggyUpgradeGroups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	err := g.Groups.TerminateInstance(ctx, id, lower)
	if err != nil || !lower || g.bug != ActedOnTwice {
		return err
	}
	found, err := g.DescribeGroups(ctx, []string{groupName})
	if err != nil || len(found) == 0 {
		return err
	}
	for _, i := range found[0].Instances {
		if i.Lifecycle == "InService" && i.ID != id {
			return g.Groups.TerminateInstance(ctx, i.ID, true)
		}
	}
	return nil
}

func (g *buggyUpgradeGroups) SetSizes(ctx context.Context, group string, s cluster.SizesChange) error {
	if g.bug == RaiseMinimum {
		s.Min = s.Desired
	}
	return g.Groups.SetSizes(ctx, group, s)
}

// wrapUpgradeECS plants such a bug in a function's calls of ECS.
func (b Bug) wrapUpgradeECS(w *World, function string, e handler.ECS) handler.ECS {
	if b == DrainAllAtOnce && function == upgrader || b == DaemonStays {
		return &buggyUpgradeECS{e, w, b}
	}
	return e
}

type buggyUpgradeECS struct {
	handler.ECS
	world *World
	bug   Bug
}

func (e *buggyUpgradeECS) DrainInstance(ctx context.Context, clusterName, id string) error {
	if u := e.world.upgrade.lastUpdate(); e.bug == DrainAllAtOnce && u.Phase == cluster.PhaseUpgrade {
		for _, n := range e.world.upgrade.nodeChecker.listNodes() {
			if n.isServing() && n.isOutdated(u) && n.row.ID != id {
				_ = e.ECS.DrainInstance(ctx, clusterName, n.row.ID)
			}
		}
	}
	return e.ECS.DrainInstance(ctx, clusterName, id)
}

// StopTask leaves the tasks of daemons running.
func (e *buggyUpgradeECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) error {
	row := e.world.checker.TaskByECSID(ecsID)
	if e.bug == DaemonStays && row != nil {
		if s := e.world.checker.ServiceOf(row); s != nil && s.Strategy == cluster.Daemon &&
			s.Status == cluster.ServiceActive {
			return nil
		}
	}
	return e.ECS.StopTask(ctx, clusterName, ecsID, reason)
}
