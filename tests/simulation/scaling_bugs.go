package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/state"
)

// A ScalingBug is a mistake in managed scaling that the simulation must find, planted in a port
// around the real code.
type ScalingBug string

// The bugs.
const (
	NoScalingBug ScalingBug = ""
	// ChangeMinimum and ExceedMaximum change the group's bounds (C7).
	ChangeMinimum ScalingBug = "the group's minimum is changed"
	ExceedMaximum ScalingBug = "the desired capacity goes above the maximum"
	// CountDaemons keeps instances for their daemons (C5).
	CountDaemons ScalingBug = "a daemon counts as load"
	// IgnoreWarmup takes every instance for warm (C3).
	IgnoreWarmup ScalingBug = "the warm-up is ignored"
	// BothScalers keeps the target tracking policy when Berth's own alarms take over (C1).
	BothScalers ScalingBug = "both scalers are in charge"
	// KeepLowAlarm keeps the low alarm when managed scaling is switched off (C1).
	KeepLowAlarm ScalingBug = "the low alarm is left"
	// ReleaseProtected never protects an instance that gets tasks (C6).
	ReleaseProtected ScalingBug = "a protected instance is released"
	// ReplaceUnasked replaces unregistered instances although no tag asks for it (C5).
	ReplaceUnasked ScalingBug = "instances are replaced although no tag asks for it"
	// ActTwice acts on each wake-up as if nothing was on its way yet (C3).
	ActTwice ScalingBug = "a wake-up is acted on twice"
	// SwitchNetOff leaves managed scaling to its wake-ups.
	SwitchNetOff ScalingBug = "the schedule is switched off"
	// IgnoreTypes does not know how large the group's instance type is (C2).
	IgnoreTypes ScalingBug = "an empty group starts for a task that its type cannot hold"
	// ForgetWaiting leaves tasks that wait out of the change sets that managed scaling applies.
	ForgetWaiting ScalingBug = "waiting tasks are in no change set"
	// IgnoreConsolidation balances without a look at what consolidation empties. The simulated week
	// must find it.
	IgnoreConsolidation ScalingBug = "balancing does not give way to consolidation"
)

// ScalingBugs lists the bugs, each with the failure by which it must be found. Other failures do
// not count.
var ScalingBugs = map[ScalingBug]string{
	ChangeMinimum: "C7: the desired capacity is set to", ExceedMaximum: "C7: the desired capacity is set to",
	CountDaemons: "has 0 tasks, protected from scale-in: true", IgnoreWarmup: "C3: scaled out to",
	BothScalers: "C1: two scalers are in charge", KeepLowAlarm: "-low false", ReleaseProtected: "invariant 7: ",
	ReplaceUnasked: "is replaced although no tag asks for it", IgnoreTypes: "C2: 2 instances are launched",
	ActTwice: "C3: an empty group is scaled out to", SwitchNetOff: "invariant 8: ",
	ForgetWaiting: "no change set up to batch",
}

// matchingFailures returns the failures that show the bug.
func (b ScalingBug) matchingFailures(broken []string) (out []string) {
	for _, why := range broken {
		if strings.Contains(why, ScalingBugs[b]) {
			out = append(out, why)
		}
	}
	return out
}

// adjustShape returns a shape in which the bug can show.
func (b ScalingBug) adjustShape(s scalingShape) scalingShape {
	switch b {
	case ChangeMinimum:
		s.Min = 3
	case ExceedMaximum:
		s.Max = 5
	case CountDaemons:
		s.Daemon, s.Protection = true, true
	case BothScalers:
		s.Tracked, s.Consolidating = true, false
	case ReleaseProtected:
		s.Protection = true
	case IgnoreWarmup:
		s.UntilRegistered = false
	case ReplaceUnasked:
		s.Replacing = false
	case ActTwice:
		s.Immediate, s.Tracked, s.Min = true, false, 0
	case SwitchNetOff:
		s.Immediate, s.Tracked = true, false
	case IgnoreTypes:
		s.Oversized, s.Min = true, 0
	}
	return s
}

// wrapStore plants the bug in a function's store.
func (b ScalingBug) wrapStore(function string, s state.Store) state.Store {
	if b == CountDaemons && function == "managed-scaling" {
		return &daemonCountingStore{s}
	}
	if b == ReplaceUnasked && function == "managed-scaling" {
		return &replacingStore{s}
	}
	if b == ForgetWaiting && function == "placement" {
		return &forgetfulStore{s}
	}
	if b == IgnoreConsolidation && function == "placement" {
		return &unconsolidatedStore{s}
	}
	return s
}

// An unconsolidatedStore shows what managed scaling remembers as if consolidation was off.
type unconsolidatedStore struct{ state.Store }

func (s *unconsolidatedStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	for n, row := range rows {
		if history, ok := row.(*cluster.ScalingHistory); ok {
			next := *history
			next.Progress = ""
			rows[n] = &next
		}
	}
	return rows, err
}

// A forgetfulStore writes change sets without the tasks that wait.
type forgetfulStore struct{ state.Store }

func (s *forgetfulStore) Write(ctx context.Context, w state.Write) (state.Row, error) {
	set, ok := w.Put.(*state.ChangeSet)
	if !ok {
		return s.Store.Write(ctx, w)
	}
	changes, err := set.Unpack()
	if err != nil {
		return nil, err
	}
	next := *set
	err = next.Pack(slices.DeleteFunc(changes, func(c state.Change) bool {
		t, ok := c.Row.(*cluster.Task)
		return ok && t.IsProvisioning()
	}))
	if err != nil {
		return nil, err
	}
	return s.Store.Write(ctx, state.Write{Put: &next, Any: true})
}

// A replacingStore shows capacity providers as if they replaced unregistered instances.
type replacingStore struct{ state.Store }

func (s *replacingStore) Get(ctx context.Context, k state.Key) (state.Row, error) {
	row, err := s.Store.Get(ctx, k)
	return replacingProvider(row), err
}

func (s *replacingStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	for n := range rows {
		rows[n] = replacingProvider(rows[n])
	}
	return rows, err
}

func replacingProvider(row state.Row) state.Row {
	p, ok := row.(*cluster.CapacityProvider)
	if !ok || p == nil {
		return row
	}
	next := *p
	next.Scaling.ReplaceUnregistered = true
	return &next
}

// A daemonCountingStore shows DAEMON services as REPLICA services.
type daemonCountingStore struct{ state.Store }

func (s *daemonCountingStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	for n, row := range rows {
		if service, ok := row.(*cluster.Service); ok && service.Strategy == cluster.Daemon {
			next := *service
			next.Strategy = cluster.Replica
			rows[n] = &next
		}
	}
	return rows, err
}

// wrapGroups plants the bug in the calls of Auto Scaling.
func (b ScalingBug) wrapGroups(function string, g installation.Groups) installation.Groups {
	switch b {
	case NoScalingBug, CountDaemons, ReplaceUnasked, SwitchNetOff, ForgetWaiting:
		return g
	}
	if function != "managed-scaling" && b != ReleaseProtected {
		return g
	}
	return &buggyScalingGroups{Groups: g, bug: b}
}

type buggyScalingGroups struct {
	installation.Groups
	bug      ScalingBug
	onItsWay int // the instances that ActTwice hides
}

func (g *buggyScalingGroups) DescribeTypes(ctx context.Context, names []string) ([]cluster.InstanceType, error) {
	if g.bug == IgnoreTypes {
		return nil, cluster.Errorf("UnauthorizedOperation", "the simulation plants this refusal")
	}
	return g.Groups.DescribeTypes(ctx, names)
}

// countLive returns how many of a group's instances are in service.
func countLive(g *cluster.AutoScalingGroup) (n int) {
	for _, i := range g.Instances {
		n += countIf(i.IsInService())
	}
	return n
}

// boundsError is by how much the group's bounds are misread.
const boundsError = 2

func (g *buggyScalingGroups) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	got, err := g.Groups.DescribeGroups(ctx, names)
	for _, a := range got {
		switch g.bug {
		case ChangeMinimum:
			a.Min = max(0, a.Min-boundsError)
		case ExceedMaximum:
			a.Max += boundsError
		case ActTwice:
			live := countLive(a)
			g.onItsWay = max(0, a.Desired-live)
			a.Desired -= g.onItsWay
			a.Instances = slices.DeleteFunc(slices.Clone(a.Instances),
				func(i cluster.GroupInstance) bool { return i.Lifecycle == "Pending" })
		case IgnoreWarmup:
			a.Instances = slices.Clone(a.Instances)
			for n := range a.Instances {
				a.Instances[n].LaunchedAt = epoch.Add(-time.Hour)
			}
		}
	}
	return got, err
}

func (g *buggyScalingGroups) SetDesired(ctx context.Context, group string, n int) error {
	if g.bug == ChangeMinimum || g.bug == ExceedMaximum {
		got, err := g.Groups.DescribeGroups(ctx, []string{group})
		if err != nil || len(got) != 1 {
			return err
		}
		return g.SetSizes(ctx, group, cluster.SizesChange{Min: new(min(got[0].Min, n)), Max: new(max(got[0].Max, n)),
			Desired: &n})
	}
	return g.Groups.SetDesired(ctx, group, n+g.onItsWay)
}

func (g *buggyScalingGroups) DeletePolicy(ctx context.Context, group, name string) error {
	if g.bug == BothScalers {
		return nil
	}
	return g.Groups.DeletePolicy(ctx, group, name)
}

func (g *buggyScalingGroups) DeleteAlarms(ctx context.Context, names []string) error {
	if g.bug == KeepLowAlarm {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasSuffix(name, "low") })
	}
	return g.Groups.DeleteAlarms(ctx, names)
}

func (g *buggyScalingGroups) SetInstanceProtection(
	ctx context.Context, group string, ids []string, protected bool,
) error {
	if g.bug == ReleaseProtected && protected {
		return nil
	}
	return g.Groups.SetInstanceProtection(ctx, group, ids, protected)
}
