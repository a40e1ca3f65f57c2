package invariant

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// A Checker compares every commit with the invariants, on its own copy of the rows and by its own
// statement of the rules.
type Checker struct {
	*RowHistory
	cover  func(coverage.Point)
	Broken []string
	// LogRecords, if not nil, is called with the records of each commit.
	LogRecords func([]state.Record)
	// startCalls counts the StartTask calls per batch and instance, CallCount all calls of
	// StartTask and StopTask.
	startCalls map[string]int
	CallCount  int
	// ChangeCount counts rows that were created or changed, but not those that expired.
	ChangeCount int
	// movingOwners are the owners of tasks that the current commit stops in order to move them.
	movingOwners map[string]bool
	LatestChange state.Key // the last row counted
	// Deployments are the models of services' deployments, by short key. deploymentDefinitions are
	// the task definitions of deployments, deploymentFailures their failed or unhealthy tasks, by
	// deployment id.
	Deployments           map[string]*model.DeploymentHistory
	deploymentDefinitions map[string]string
	deploymentFailures    map[string]map[string]bool
	// hadViolation means that a rule was violated before the current commit, if that replaces
	// tasks.
	hadViolation bool
	// ExpiredFailures counts rows of tasks that never ran, and of throttles, that have expired.
	ExpiredFailures int
	// unprotectedAt is when the row of an expired protection was last removed, by its service's short
	// key.
	unprotectedAt map[string]time.Time
	// AlarmFired means that the alarm has fired in this run. RequestedStops are the service
	// deployments whose stop was requested, each with the type of stop.
	AlarmFired     bool
	RequestedStops map[string]bool
	// placedAt is when tasks were given their instances, by id. ClockSkew is the largest error of a
	// clock.
	placedAt  map[string]time.Time
	ClockSkew time.Duration
	// specChangedAt is when a service's spec last changed, by short key.
	specChangedAt map[string]time.Time
	changeSets    changeSetReader
}

// NewChecker returns a checker for one cluster. It calls cover for each point of coverage.
func NewChecker(clusterName string, now func() time.Time, cover func(coverage.Point)) *Checker {
	return &Checker{
		RowHistory: newRowHistory(clusterName, now), cover: cover, startCalls: map[string]int{},
		Deployments:           map[string]*model.DeploymentHistory{},
		deploymentDefinitions: map[string]string{}, deploymentFailures: map[string]map[string]bool{},
		specChangedAt: map[string]time.Time{}, RequestedStops: map[string]bool{},
		placedAt: map[string]time.Time{}, unprotectedAt: map[string]time.Time{},
	}
}

// Fail records a violated invariant. The text begins with the invariant's number, if it has one.
func (c *Checker) Fail(format string, args ...any) {
	c.Broken = append(c.Broken, fmt.Sprintf(format, args...))
}

func (c *Checker) countChange(key state.Key) {
	c.ChangeCount++
	c.LatestChange = key
}

// CheckCommit applies the records of one commit and checks what it changed.
func (c *Checker) CheckCommit(records []state.Record) {
	c.hadViolation = slices.ContainsFunc(records, isReplacement) && c.findViolation(nil) != ""
	for _, r := range records {
		before := c.apply(r.Key, r.New)
		if r.New == nil {
			c.checkRemoval(r.Key, before)
			continue
		}
		c.checkProgress(r.Key, before, r.New)
	}
	c.checkChangeSets(records)
	if c.LogRecords != nil {
		c.LogRecords(records)
	}
	c.movingOwners = ownersOfMovedTasks(records)
	later := newlyPlaced(records)
	for id := range later {
		c.placedAt[id] = c.now()
	}
	for _, r := range records {
		row, ok := r.New.(*cluster.Task)
		if !ok {
			continue
		}
		old, _ := r.Old.(*cluster.Task)
		if later[row.ID] {
			c.checkPlacement(row, later)
			delete(later, row.ID)
			if old != nil {
				c.cover(coverage.Waited)
			}
		}
		if old != nil && old.Desired == cluster.TaskRunning && row.Desired == cluster.TaskStopped {
			c.checkStop(old, row)
		}
		if row.Foreign && old == nil {
			c.cover(coverage.Foreign)
		}
	}
}

// isReplacement reports whether the record creates a task that replaces another.
func isReplacement(r state.Record) bool {
	row, ok := r.New.(*cluster.Task)
	old, _ := r.Old.(*cluster.Task)
	return ok && row.Replaces != "" && old == nil
}

// ownersOfMovedTasks returns the owners of tasks that the commit stops in order to move them. Until
// their successors start, fewer tasks run than the decision counted on.
func ownersOfMovedTasks(records []state.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		row, ok := r.New.(*cluster.Task)
		old, _ := r.Old.(*cluster.Task)
		if ok && old != nil && old.Desired == cluster.TaskRunning && row.Desired == cluster.TaskStopped &&
			strings.HasPrefix(row.Reason, "Moved: ") {
			out[row.Owner] = true
		}
	}
	return out
}

// newlyPlaced returns the ids of the tasks that the commit gives an instance.
func newlyPlaced(records []state.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		row, ok := r.New.(*cluster.Task)
		old, _ := r.Old.(*cluster.Task)
		if ok && row.Instance != "" && !row.Foreign && (old == nil || old.Instance == "") {
			out[row.ID] = true
		}
	}
	return out
}

// checkRemoval checks that no row is removed that still matters.
func (c *Checker) checkRemoval(key state.Key, before state.Row) {
	if before == nil {
		return
	}
	if e := before.Header().Expires; e > 0 && c.now().Unix()-e > 60 {
		c.cover(coverage.TTLLag)
	}
	if t, ok := before.(*cluster.Task); ok && t.Started.IsZero() {
		c.ExpiredFailures++
	}
	switch row := before.(type) {
	case *cluster.Throttle:
		c.ExpiredFailures++
	case *cluster.Protection:
		if !row.Until.After(c.now()) {
			c.unprotectedAt[row.Owner] = c.now()
		}
	case *cluster.Task:
		if row.Last != cluster.TaskStopped {
			c.Fail("invariant 9: the row of task %s was removed while %s", row.ID, row.Status())
		}
	case *cluster.Service:
		if row.Status != cluster.ServiceInactive {
			c.Fail("invariant 9: the row of service %s was removed while %s", row.Name, row.Status)
		}
	case *state.Request:
		if !row.Answered {
			c.Fail("invariant 9: request %s was removed before it was answered", row.ID)
		}
	case *state.Meta, *state.Entry:
		c.Fail("row %s was removed", key.Sort)
	}
}

// checkProgress checks that no row goes backward.
func (c *Checker) checkProgress(key state.Key, before, after state.Row) {
	switch now := after.(type) {
	case *cluster.Task:
		c.countChange(key)
		c.recordFailure(now)
		if old, ok := before.(*cluster.Task); ok {
			c.checkTaskProgress(old, now)
		}
		if other, ok := c.ByECSID[now.ECSID]; ok && other != key && now.ECSID != "" {
			c.Fail("invariant 2: tasks %s and %s have both adopted %s", key.Sort, other.Sort, now.ECSID)
		}
	case *cluster.Instance:
		if old, ok := before.(*cluster.Instance); ok && now.Version < old.Version {
			c.Fail("instance %s went back from version %d to %d", now.ID, old.Version, now.Version)
		}
	case *state.Meta:
		if old, ok := before.(*state.Meta); ok && now.Version < old.Version {
			c.Fail("the placement version of %s went back from %d to %d", key.Cluster, old.Version, now.Version)
		}
	case *state.Request:
		c.countChange(key)
		if old, ok := before.(*state.Request); ok && old.Answered && !slices.Equal(old.Tasks, now.Tasks) {
			c.Fail("invariant 9: the answer of request %s changed from %v to %v", now.ID, old.Tasks, now.Tasks)
		} else if ok && !old.Answered && now.Answered {
			c.checkRefusedRequest(now)
		}
	case *state.Outbox:
		c.countChange(key)
		if strings.HasPrefix(now.ID, "extra-") {
			c.cover(coverage.Extra)
		}
	case *cluster.Target:
		c.countChange(key)
		if t := c.taskOf(now.Owner, now.Task); t != nil {
			c.recordFailure(t)
		}
	case *cluster.Service:
		old, _ := before.(*cluster.Service)
		if !c.isExplainedAgain(old, now) {
			c.countChange(key)
		}
		c.checkDeployments(old, now)
	case *cluster.ServiceEvent:
		if old, ok := before.(*cluster.ServiceEvent); !ok || old.Number != now.Number {
			c.countChange(key) // otherwise only its expiry changed
		}
	}
}

// isExplainedAgain reports whether only the diagnosis of a service changed, because the row of an
// expired protection was removed: that reconciles the service once more, and the free room may
// differ from what the diagnosis says although it is still too little. Anything else would have been
// due when the protection ended.
func (c *Checker) isExplainedAgain(old, now *cluster.Service) bool {
	at, ok := c.unprotectedAt[now.Short]
	if !ok || old == nil || old.Blocked == nil || now.Blocked == nil || c.now().Sub(at) >= c.Staleness {
		return false
	}
	was, is := *old, *now
	was.Head, was.Blocked, is.Head, is.Blocked = cluster.Head{}, nil, cluster.Head{}, nil
	return reflect.DeepEqual(was, is)
}

// checkRefusedRequest checks the answer to a request that found no room.
func (c *Checker) checkRefusedRequest(r *state.Request) {
	if len(r.Failures) == 0 || r.Kind != cluster.RunTask {
		return
	}
	spec := c.specOfRequest(r, c.standaloneOwner())
	if spec == nil {
		return
	}
	if i := c.findOverlooked(spec, RoomQuery{}); i != nil {
		c.Fail("invariant 8: request %s was refused (%+v), and instance %s had room", r.ID, r.Failures, i.ID)
	}
}

func (c *Checker) checkTaskProgress(old, now *cluster.Task) {
	if i := c.InstanceRows[now.Instance]; !maps.Equal(old.Reported, now.Reported) && i != nil &&
		c.ExceededMetric(i, nil) != "" {
		c.cover(coverage.Overloaded)
	}
	if now.Version < old.Version {
		c.Fail("task %s went back from version %d to %d", now.ID, old.Version, now.Version)
	}
	if old.Last == cluster.TaskStopped && now.Last != cluster.TaskStopped {
		c.Fail("invariant 2: task %s was STOPPED and is %s again", now.ID, now.Last)
	}
	if old.Last == cluster.TaskRunning && now.Last != cluster.TaskRunning && now.Last != cluster.TaskStopped {
		c.Fail("task %s went from RUNNING to %q", now.ID, now.Last)
	}
	if old.Desired == cluster.TaskStopped && now.Desired != cluster.TaskStopped {
		c.Fail("invariant 2: task %s was to be stopped and is to run again", now.ID)
	}
	if old.ECSID != "" && now.ECSID != old.ECSID {
		c.Fail("invariant 2: task %s adopted %s after %s", now.ID, now.ECSID, old.ECSID)
	}
	if old.Instance != "" && now.Instance != old.Instance {
		c.Fail("task %s moved from instance %s to %s", now.ID, old.Instance, now.Instance)
	}
	if now.Attempt != old.Attempt && now.Attempt != old.Attempt+1 {
		c.Fail("task %s went from attempt %d to %d", now.ID, old.Attempt, now.Attempt)
	}
	if !now.Foreign && (now.Needs != old.Needs || !slices.Equal(now.Ports, old.Ports)) {
		c.Fail("task %s changed what it needs", now.ID)
	}
}

// checkPlacement checks a new placement (invariants 1, 3, 4 and 5). later are the task itself and
// those that the same commit placed after it.
func (c *Checker) checkPlacement(t *cluster.Task, later map[string]bool) {
	i, def := c.instanceOf(t), c.definitionOf(t.Cluster, t.TaskDefinition)
	if i == nil || def == nil {
		c.Fail("invariant 1: task %s was placed on instance %s (known: %t) by task definition %s (known: %t)",
			t.ID, t.Instance, i != nil, t.TaskDefinition, def != nil)
		return
	}
	if i.Status != cluster.InstanceActive || !i.AgentConnected || IsCordoned(i) {
		c.Fail("invariant 5: task %s was placed on instance %s, which is %s, agent connected %t, unschedulable %t",
			t.ID, i.ID, i.Status, i.AgentConnected, IsCordoned(i))
	}
	if t.Needs != def.Needs || !slices.Equal(t.Ports, def.Ports) || len(t.GPUs) != def.Needs.GPUs {
		c.Fail("invariant 1: task %s holds %+v, devices %v and ports %v, and needs %+v and %v", t.ID, t.Needs, t.GPUs,
			t.Ports, def.Needs, def.Ports)
	}
	if want := MissingAttribute(i, def); want != "" {
		c.Fail("invariant 5: task %s was placed on instance %s without attribute %s", t.ID, i.ID, want)
	}
	c.checkCapacity(t, i)
	c.checkTaskCounts(t)
	c.checkThrottle(t)
	c.checkProvider(t, i)
	if def.Family == "disk" {
		c.cover(coverage.Attributed)
	}
	if spec := c.SpecOfTask(t); spec != nil {
		if spec.Providers != nil {
			spec.Providers = []string{i.CapacityProvider()}
		}
		c.checkSpec(&newPlacement{Task: t, spec: spec, instance: i, later: later})
	}
}

func (c *Checker) checkCapacity(t *cluster.Task, i *cluster.Instance) {
	used := c.usageOf(i, RoomQuery{})
	if used.cpu > i.Registered.CPU || used.memory > i.Registered.Memory {
		c.Fail("invariant 1: with task %s instance %s holds %d/%d CPU, %d/%d MiB", t.ID, i.ID, used.cpu,
			i.Registered.CPU, used.memory, i.Registered.Memory)
	}
	if n := i.Registered.ENIs; n != nil && t.Needs.ENIs > 0 {
		c.cover(coverage.ENI)
		if used.enis > *n {
			c.Fail("invariant 1: with task %s instance %s has %d network interfaces of %d", t.ID, i.ID, used.enis, *n)
		}
	}
	for n, g := range t.GPUs {
		switch {
		case g < 0 || g >= len(used.gpus) || slices.Contains(t.GPUs[:n], g):
			c.Fail("invariant 1: task %s has devices %v of the %d of instance %s", t.ID, t.GPUs, len(used.gpus), i.ID)
		case used.gpus[g] > 1000:
			c.Fail("invariant 1: with task %s GPU %d of instance %s holds %d thousandths", t.ID, g, i.ID, used.gpus[g])
		case t.Needs.GPUMilli > 0 && used.gpus[g] > int(t.Needs.GPUMilli):
			c.cover(coverage.Shared)
		case used.idleGPUs() < used.unpinned:
			c.Fail("invariant 1: with task %s on GPU %d of instance %s there is none left for a foreign task that has one", t.ID, g, i.ID)
		}
	}
	for _, p := range t.Ports {
		c.cover(coverage.Port)
		if slices.Contains(i.Registered.Ports, p) {
			c.Fail("invariant 1: task %s was placed on instance %s, whose agent has port %d", t.ID, i.ID, p.Number)
		}
		for _, o := range c.ByInstance[i.ID] {
			if o.ID != t.ID && slices.Contains(o.Ports, p) {
				c.Fail("invariant 1: task %s was placed on instance %s, where task %s has port %d", t.ID, i.ID, o.ID,
					p.Number)
			}
		}
	}
}

// MissingAttribute returns the first attribute that the task definition requires and the instance
// lacks, or "".
func MissingAttribute(i *cluster.Instance, def *cluster.TaskDefinition) string {
	for _, want := range def.Attributes {
		name, value, valued := strings.Cut(want, "=")
		if got, has := i.Attributes[name]; !has || valued && got != value {
			return want
		}
	}
	return ""
}

// checkTaskCounts checks the number of tasks of the new task's service (invariants 3 and 4).
func (c *Checker) checkTaskCounts(t *cluster.Task) {
	s := c.ServiceOf(t)
	if t.Service != "" && (s == nil || s.Status != cluster.ServiceActive) {
		c.Fail("invariant 3: task %s was started of service %s, which is no longer ACTIVE", t.ID, t.Service)
	}
	if s == nil {
		return
	}
	if s.Controller == cluster.ExternalController {
		c.checkTaskSetStart(s, t)
		return
	}
	active, all := 0, -c.countPairs(t.Owner)
	for _, o := range c.ByOwner[t.Owner] {
		holds := o.Instance != "" && o.Last != cluster.TaskStopped
		if holds && o.Desired == cluster.TaskRunning {
			active++
		}
		if o.Last != cluster.TaskStopped && o.Desired == cluster.TaskRunning {
			all++
		}
		if s.Strategy == cluster.Daemon && holds && o.ID != t.ID && o.Instance == t.Instance {
			c.Fail("invariant 4: daemon %s has tasks %s and %s on instance %s", s.Name, o.ID, t.ID, t.Instance)
		}
	}
	if _, waited := c.Changes[state.KeyOf(t)].before.(*cluster.Task); s.Strategy == cluster.Replica && !waited &&
		all > s.Desired+c.allowedSurplus(s) {
		c.Fail("invariant 3: task %s was started of service %s, which then has %d tasks of %d, and only %d may be beside",
			t.ID, s.Name, all, s.Desired, c.allowedSurplus(s))
	}
	if most := s.Desired * s.MaxPercent / 100; s.Strategy == cluster.Replica && active > most {
		c.Fail("invariant 3: service %s has %d active tasks, at most %d are allowed", s.Name, active, most)
	}
}

// wasJustMoved reports whether this commit stops the task to move it.
func (c *Checker) wasJustMoved(t *cluster.Task) bool {
	return strings.HasPrefix(t.Reason, "Moved: ") && c.Changes[state.KeyOf(t)].At.Equal(c.now())
}

// CheckStartTask checks a call of StartTask: each start must have been claimed, so there are never
// more calls for a task than its row has attempts.
func (c *Checker) CheckStartTask(call cluster.StartCall) {
	c.CallCount++
	if len(call.Instances) == 0 || len(call.Instances) > cluster.MaxStart {
		c.Fail("StartTask was called for %d instances", len(call.Instances))
	}
	for _, instance := range call.Instances {
		at := slotKey(call.StartedBy, instance)
		c.startCalls[at]++
		attempts := 0
		if t := c.bySlot[at]; t != nil {
			attempts = int(t.Attempt)
		}
		if c.startCalls[at] > attempts {
			c.Fail("invariant 2: start %d of %s, but its row is at attempt %d", c.startCalls[at], at, attempts)
		}
	}
}
