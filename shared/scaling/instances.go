package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// view is the input with what each instance of the group counts as. Nothing changes it.
type view struct {
	Input
	settings  cluster.ManagedScaling
	instances []*instance // sorted by EC2 id
	// running (N) counts the instances that the group has: those that are up or have registered. Of
	// these, arriving have yet to register, and unregistered did not in time. Those of another
	// cluster and those older than the provider are neither.
	running, arriving, unregistered int
	// warming are the instances that block scaling out.
	warming []*instance
	// since is when the group was first reconciled
	since time.Time
	// firstSeen and launched are remembered, see [cluster.ScalingHistory].
	firstSeen, launched map[string]time.Time
	engine              func() *placement.Engine
}

// instance is one instance of the group.
type instance struct {
	*cluster.GroupInstance
	node       *snapshot.InstanceView // nil if it has not registered
	load       []*cluster.Task        // tasks that hold capacity, without those of daemons, sorted by id
	launchedAt time.Time
	firstSeen  time.Time // when it was first seen without having registered
	isWarming  bool
	isOverdue  bool // it has not registered in time
	counts     bool // it is part of N
	// foreign is why an instance that never registered here is not the provider's; empty if it is.
	// Something that Berth does not see may run there, so it counts as used and stays.
	foreign string
}

func newView(in Input) *view {
	in.History = withoutFuture(in.History, in.Now)
	v := &view{
		Input: in, settings: in.Provider.Scaling, since: in.History.FirstReconciledAt,
		firstSeen: map[string]time.Time{}, launched: map[string]time.Time{},
		engine: sync.OnceValue(func() *placement.Engine { return placement.New(in.Snapshot) }),
	}
	if v.since.IsZero() {
		v.since = in.Now
	}
	registered := registeredNodes(in.Group, in.Snapshot)
	byID := func(a, b cluster.GroupInstance) int { return cmp.Compare(a.ID, b.ID) }
	for _, i := range slices.SortedFunc(slices.Values(in.Group.Instances), byID) {
		m := &instance{GroupInstance: &i, node: registered[i.ID]}
		v.instances = append(v.instances, m)
		if m.IsInService() || m.IsLaunching() { // the desired capacity does not count Terminating, Standby or Warmed
			classifyInstance(v, m)
			countInstance(v, m)
		}
	}
	return v
}

// registeredNodes returns the container instances that instances of the group have registered as,
// by EC2 id.
func registeredNodes(g *cluster.AutoScalingGroup, snap *snapshot.Snapshot) map[string]*snapshot.InstanceView {
	inGroup := make(map[string]bool, len(g.Instances))
	for _, i := range g.Instances {
		inGroup[i.ID] = true
	}
	nodes := make(map[string]*snapshot.InstanceView, len(g.Instances))
	for _, node := range snap.Instances {
		if node.Instance == nil || node.IsDeregistered() || !inGroup[node.EC2InstanceID] {
			continue
		}
		if old := nodes[node.EC2InstanceID]; old == nil || node.Supersedes(old.Instance) {
			nodes[node.EC2InstanceID] = node
		}
	}
	return nodes
}

// classifyInstance works out what an instance counts as.
func classifyInstance(v *view, m *instance) {
	if m.node != nil {
		for _, t := range m.node.Tasks {
			if !isDaemon(v.Snapshot, t) {
				m.load = append(m.load, t)
			}
		}
		slices.SortFunc(m.load, compareTasks)
	}
	dateLaunch(v, m)
	m.isWarming = v.Now.Sub(m.launchedAt) < v.settings.Warmup && (m.node == nil || !v.settings.UntilRegistered)
	m.isOverdue = m.node == nil && v.Now.Sub(m.launchedAt) >= v.registrationTimeout()
	m.counts = m.IsInService() || m.node != nil
	if m.counts && m.isOverdue {
		m.foreign = foreignReason(v, m)
	}
}

func countInstance(v *view, m *instance) {
	if m.isWarming {
		v.warming = append(v.warming, m)
	}
	if !m.counts {
		return
	}
	v.running++
	switch {
	case m.node != nil:
	case !m.isOverdue:
		v.arriving++
	case m.foreign != "": // something may run there: it counts as used
	default:
		v.unregistered++
	}
}

// dateLaunch finds out when an instance was launched: what EC2 says, or else when it was first seen
// or when it registered, if that was sooner. The time is remembered as long as the group has the
// instance, because it may register again.
func dateLaunch(v *view, m *instance) {
	seen, ok := v.History.UnregisteredSince[m.ID]
	switch {
	case !ok && v.History.FirstReconciledAt.IsZero():
		seen = v.Now
	case !ok:
		seen = laterThan(v.since, v.Now)
	}
	if m.node == nil {
		m.firstSeen = seen
		v.firstSeen[m.ID] = seen
	}
	if m.launchedAt = m.LaunchedAt; !m.launchedAt.IsZero() {
		return
	}
	if m.launchedAt, ok = v.History.LaunchTimes[m.ID]; !ok {
		m.launchedAt = seen
	}
	if m.node != nil && !m.node.RegisteredAt.IsZero() && m.node.RegisteredAt.Time().Before(m.launchedAt) {
		m.launchedAt = m.node.RegisteredAt.Time()
	}
	v.launched[m.ID] = m.launchedAt
}

// registrationTimeout is how long an instance has to register: its warm-up, and never less than
// ECS's own.
func (v *view) registrationTimeout() time.Duration {
	return max(v.settings.Warmup, cluster.DefaultScaling.Warmup)
}

// foreignReason says why an instance that never registered here is not the provider's; empty if it
// is.
func foreignReason(v *view, m *instance) string {
	switch other := v.RegisteredElsewhere[m.ID]; {
	case other != "":
		return "it has registered with cluster " + other
	case !m.firstSeen.After(v.since):
		return "it has not registered with the cluster, and was in the group before the capacity provider was " +
			"created"
	case m.Protected && !v.Provider.Protection:
		return "it has not registered with the cluster, and is protected from scale-in by someone else"
	}
	return ""
}

// nextHistory returns the history with what is remembered of the group's instances.
func (v *view) nextHistory() cluster.ScalingHistory {
	h := v.History
	h.Provider, h.FirstReconciledAt = v.Provider.Name, v.since
	h.UnregisteredSince, h.LaunchTimes = orNil(v.firstSeen), orNil(v.launched)
	return h
}

// orNil returns nil for an empty map, as a row that was read back has it.
func orNil(times map[string]time.Time) map[string]time.Time {
	if len(times) == 0 {
		return nil
	}
	return times
}

// isDaemon reports whether the task is of a DAEMON service. Such tasks are no load (C5).
func isDaemon(snap *snapshot.Snapshot, t *cluster.Task) bool {
	s := snap.Services[t.Service]
	return t.Service != "" && s != nil && s.Strategy == cluster.Daemon
}

func compareTasks(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) }

// neverRegistered reports whether the instance did not register in time: nothing can run there.
func (m *instance) neverRegistered() bool { return m.counts && m.isOverdue && m.foreign == "" }

// isEmpty reports whether only daemons would be lost with the instance (C5).
func (m *instance) isEmpty() bool {
	return m.counts && len(m.load) == 0 && (m.node != nil || m.neverRegistered())
}

func (v *view) countInstances(is func(*instance) bool) (n int) {
	for _, m := range v.instances {
		if is(m) {
			n++
		}
	}
	return n
}

// countLaunched returns how many instances the group has, including those that are being launched.
func (v *view) countLaunched() int {
	return v.countInstances(func(m *instance) bool { return m.IsInService() || m.IsLaunching() })
}

// instanceOf returns the instance that registered as the container instance, or nil.
func (v *view) instanceOf(instance string) *instance {
	for _, m := range v.instances {
		if m.node != nil && m.node.ID == instance {
			return m
		}
	}
	return nil
}

// desiredFor returns the smallest desired capacity of which the needed instances are at most the
// target percentage: 7 needed at a target of 80 % are 9, because 7/8 would be 88 %.
func (v *view) desiredFor(needed int) int {
	return (needed*100 + v.settings.Target - 1) / v.settings.Target
}

// clampToLimits returns n within the group's minimum and maximum, which are never changed (C7).
func (v *view) clampToLimits(n int) int { return max(v.Group.Min, min(n, v.Group.Max)) }

// maxRemovals is how many instances may go in a minute (C5).
func (v *view) maxRemovals() int { return max(1, v.Group.Desired*v.settings.MaxScaleInPercent/100) }

// providerEvent is an event about the provider itself.
func (v *view) providerEvent(key, format string, args ...any) Event {
	return Event{
		Key:     key,
		Message: fmt.Sprintf("(capacity provider %s) ", v.Provider.Name) + fmt.Sprintf(format, args...),
	}
}

// maxNamed is how many tasks or instances a sentence names.
const maxNamed = 3

// describeLoad names an instance's tasks: "2 non-daemon tasks (t1 of service web, t2)".
func (m *instance) describeLoad() string {
	var names []string
	for _, t := range m.load[:min(len(m.load), maxNamed)] {
		name := t.ID
		if t.Service != "" {
			name += " of service " + t.Service
		}
		if t.Status() != cluster.TaskRunning {
			name += " (" + string(t.Status()) + ")"
		}
		names = append(names, name)
	}
	if more := len(m.load) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s (%s)", pluralize(len(m.load), "non-daemon task"), strings.Join(names, ", "))
}

func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// areNeeded says that n instances are needed.
func areNeeded(n int) string {
	if n == 1 {
		return "1 instance is needed"
	}
	return fmt.Sprintf("%d instances are needed", n)
}

func areRunning(n int) string {
	if n == 1 {
		return "1 is running"
	}
	return fmt.Sprintf("%d are running", n)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func isSameMinute(a, b time.Time) bool {
	return a.Truncate(time.Minute).Equal(b.Truncate(time.Minute))
}
