package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/cmd/berth/listing"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/shared/wire/berthapi"
)

// TaskAnswer is why a task is where it is.
type TaskAnswer struct {
	Task       string `json:"task"`
	Service    string `json:"service,omitempty"`
	Definition string `json:"taskDefinition,omitempty"`
	Status     string `json:"status"`
	Reason     string `json:"reason,omitempty"` // why it stopped or should stop
	Instance   string `json:"instance,omitempty"`
	GPUs       []int  `json:"gpus,omitempty"`
	// Foreign reports that somebody else started it. Berth neither placed it nor stops it.
	Foreign bool `json:"foreign,omitempty"`
	// Explanation is where the task would go if it were placed now, as if it were not there. It is
	// nil for a task that Berth does not place (any more).
	Explanation *Explanation `json:"explanation,omitempty"`
	// Here is what that placement says about the instance that the task is on.
	Here *Verdict `json:"here,omitempty"`
	// Replaces and ReplacedBy name the other task of a move in progress; Move is a planned move.
	Replaces   string `json:"replaces,omitempty"`
	ReplacedBy string `json:"replacedBy,omitempty"`
	Move       *Move  `json:"move,omitempty"`
}

// ServiceAnswer is why a service's tasks have no instance, and which moves and broken rules concern
// it. What Berth last decided comes from the service's row; what it would decide now is computed.
type ServiceAnswer struct {
	Service string `json:"service"`
	// TaskSet is the task set that is explained, if the service has task sets: the primary one.
	TaskSet    string `json:"taskSet,omitempty"`
	Strategy   string `json:"schedulingStrategy"`
	Status     string `json:"status"`
	Definition string `json:"taskDefinition"`
	Desired    int    `json:"desiredCount"`
	Running    int    `json:"runningCount"`
	Pending    int    `json:"pendingCount"` // on an instance, not RUNNING yet
	Missing    int    `json:"missingCount"` // without an instance
	// Instances counts the tasks on each instance, those with the most first.
	Instances []Share `json:"instances"`
	// Revisions counts the tasks of each revision, the PRIMARY one first. It is empty if only that has
	// tasks, and for a task set.
	Revisions []RevisionTasks `json:"revisions,omitempty"`
	// Decided is why tasks found no instance when placement last tried, Now what it would find now.
	Decided *berthapi.Diagnosis `json:"decided,omitempty"`
	Now     *Answer             `json:"now,omitempty"`
	// Scaling is what managed scaling decides about the capacity providers of the strategy.
	Scaling []ScalingDecision `json:"managedScaling,omitempty"`
	DeploymentAnswer
	// Moving reports that tasks are moving, or will move once the service is steady.
	Moving   bool          `json:"moving"`
	UnderWay []Replacement `json:"underWay"`
	Planned  []Move        `json:"planned"`
	// Unrepaired is a broken rule that no moves can repair, as placement last found; UnrepairedNow
	// are those of now.
	Unrepaired    string   `json:"unrepaired,omitempty"`
	UnrepairedNow []string `json:"unrepairedNow"`
}

// RevisionTasks is how many tasks of one revision are on instances.
type RevisionTasks struct {
	Deployment string `json:"deploymentId"`
	Status     string `json:"status"` // PRIMARY or ACTIVE
	Definition string `json:"taskDefinition"`
	Running    int    `json:"runningCount"`
	Pending    int    `json:"pendingCount"`
}

// DeploymentAnswer says what is wrong with the service's deployments.
type DeploymentAnswer struct {
	// Failed is why the PRIMARY deployment has FAILED. It launches no tasks; a new deployment must.
	Failed string `json:"failed,omitempty"`
	// RolledBack is the last deployment, if it was rolled back.
	RolledBack *RolledBack `json:"rolledBack,omitempty"`
	// HeldUntil is when the PRIMARY deployment may start tasks again, if failed starts hold it
	// back.
	HeldUntil string `json:"heldUntil,omitempty"`
}

// ScalingDecision is what managed scaling decides about a capacity provider's group, with the
// demands of the service's waiting tasks.
type ScalingDecision struct {
	Provider string   `json:"capacityProvider"`
	Group    string   `json:"autoScalingGroup"`
	Current  int      `json:"currentCapacity"` // the group's present desired capacity
	Desired  int      `json:"desiredCapacity"`
	Why      string   `json:"why"`
	Demands  []string `json:"demands"`
}

// Share is how many of some tasks an instance has.
type Share struct {
	Instance string `json:"instance"`
	Tasks    int    `json:"tasks"`
}

// ExplainTask explains one task, named by its id in Berth or in ECS. It restores the snapshot
// before it returns.
func ExplainTask(snap *snapshot.Snapshot, id string) (*TaskAnswer, error) {
	m := newModel(snap)
	t := m.findTask(id)
	if t == nil {
		var known []string
		for other := range snap.Tasks() {
			if !other.HasEnded() {
				known = append(known, other.ID)
			}
		}
		return nil, &NotFound{"task", id, known}
	}
	out := &TaskAnswer{
		Task: t.ID, Service: t.Service, Definition: t.TaskDefinition, Status: string(t.Status()), Instance: t.Instance,
		GPUs:    t.GPUs,
		Foreign: t.Foreign, Replaces: t.Replaces,
	}
	// Nothing decides about a task any more that has stopped or is being stopped.
	if !t.IsActive() {
		out.Reason = t.Reason
		return out, nil
	}
	if t.Foreign {
		return out, nil
	}
	if err := m.addMoves(out); err != nil {
		return nil, err
	}
	r, err := m.taskRequest(t)
	if err != nil {
		return nil, err
	}
	// Without the task, its own resources and ports are free: it does not compete with itself.
	decide.WithOwnReservation(snap, t.Owner, func() {
		m.engine.WithoutTask(t, func() {
			x := m.engine.Explain(r)
			out.Explanation = explanationOf(&x)
			if v := snap.Instances[t.Instance]; v != nil && v.Instance != nil {
				out.Here, err = m.instanceVerdict(r, &x, t.Instance)
			}
		})
	})
	return out, err
}

// findTask returns a task by its id, or by the beginning of the id of one task only. Standard ECS
// tools show ECS's id, Berth's own the id of the row; both must find it.
func (m *model) findTask(id string) *cluster.Task {
	var short *cluster.Task
	matches := 0
	for t := range m.snap.Tasks() {
		if t.ID == id || t.ECSID == id {
			return t
		}
		if listing.IsShortFor(id, t.ID) || listing.IsShortFor(id, t.ECSID) {
			short, matches = t, matches+1
		}
	}
	if matches > 1 {
		return nil
	}
	return short
}

// addMoves adds the move in progress, or the planned one, that the task is part of.
func (m *model) addMoves(a *TaskAnswer) error {
	if m.snap.Services[a.Service] == nil {
		return nil
	}
	plan, err := m.planMoves()
	if err != nil {
		return err
	}
	for _, m := range plan.UnderWay {
		if m.Task == a.Task {
			a.ReplacedBy = m.By
		}
	}
	for _, m := range plan.Planned {
		if m.Task == a.Task {
			a.Move = &m
		}
	}
	return nil
}

// taskRequest is the request that would place the task now.
func (m *model) taskRequest(t *cluster.Task) (r placement.Request, err error) {
	r.Count = 1
	if s := m.snap.Services[t.Service]; s != nil && s.Short == t.Owner {
		// An older task is asked about with its own definition, not with that of the deployment.
		as := *s.OfRevision(t.Revision)
		as.Deployment.ID, as.Deployment.TaskDefinition = t.Revision, t.TaskDefinition
		r.Target = s.WantedTasks()
		r.Spec, err = m.serviceSpec(&as, &cluster.Rules{})
		return r, err
	}
	def := m.snap.Definitions[t.TaskDefinition]
	if def == nil {
		def = &cluster.TaskDefinition{Ports: t.Ports}
	}
	// As placement asks: with what RunTask overrode, and with the capacity provider that it waits for.
	r.Spec = specs.NewCache(m.snap).ForStandalone(specs.ShapeOf(t), def, t.Owner)
	return r, nil
}

// ExplainService explains one service. k is nil if only the snapshot is known; then the answer has
// no decisions of managed scaling.
func ExplainService(snap *snapshot.Snapshot, k *Capacity, name string, now time.Time) (*ServiceAnswer, error) {
	m := newModel(snap)
	s, err := m.findService(name)
	if err != nil {
		return nil, err
	}
	out := &ServiceAnswer{
		Service: s.Name, Strategy: string(s.Strategy), Status: string(s.Status),
		Definition: s.Deployment.TaskDefinition, Desired: s.Desired,
		Instances: []Share{}, Decided: berthapi.DiagnosisOf(s.Blocked), Moving: s.Moving, Unrepaired: s.Unrepaired,
		UnderWay: []Replacement{}, Planned: []Move{}, UnrepairedNow: []string{},
	}
	if s.Deployment.Set != nil {
		out.TaskSet = s.Deployment.ID
	}
	if k != nil {
		out.Scaling = k.scalingDecisions(snap, s, now)
	}
	// A replacement that has not taken over yet is one task too many: it must not hide a missing
	// one.
	extra := m.countTasks(s, out)
	if s.Status != cluster.ServiceActive {
		return out, nil
	}
	r, err := m.missingRequest(s, out, extra)
	if err != nil {
		return nil, err
	}
	out.RolledBack = m.explainRollback(s)
	if s.Deployment.State == cluster.RolloutFailed {
		out.Failed = cmp.Or(s.Deployment.Reason, "ECS deployment "+s.Deployment.ID+" failed.")
		// A deployment that has FAILED starts nothing, so where its tasks would go does not matter.
		return out, m.addRepairs(s, out)
	}
	// Tasks of an older revision may fill the desired count while those of the PRIMARY one fail to start.
	for _, r := range berthapi.ThrottleOf(s, listing.ThrottleOf(snap, s, now)).Revisions {
		isHeld := r.NextAttemptAt.After(now) && !s.Deployment.IsCompleted()
		if r.Status == "PRIMARY" && (isHeld || out.Missing > 0) {
			out.HeldUntil = r.NextAttemptAt.Format(time.RFC3339)
		}
	}
	if out.Missing > 0 {
		out.Now = &Answer{Tasks: (&Question{Service: name}).describeTasks()}
		decide.WithOwnReservation(snap, s.Short, func() { m.placeTasks(out.Now, r) })
	}
	return out, m.addRepairs(s, out)
}

// countTasks counts the service's tasks by state, instance and revision. It returns how many of them are
// replacements of tasks that still count.
func (m *model) countTasks(s *cluster.Service, a *ServiceAnswer) (extra int) {
	on, revisions := map[string]int{}, map[string]taskCount{}
	for _, t := range m.snap.TasksOf(s.Short) {
		if !t.IsActive() || t.Instance == "" || s.Deployment.Set != nil && t.Revision != s.Deployment.ID {
			continue
		}
		on[t.Instance]++
		of := revisions[t.Revision]
		if t.Last == cluster.TaskRunning {
			a.Running++
			of.running++
		} else {
			a.Pending++
			of.pending++
		}
		revisions[t.Revision] = of
		if old := m.snap.Task(s.Short, t.Replaces); t.Replaces != "" && old != nil && old.IsActive() {
			extra++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(on)) {
		a.Instances = append(a.Instances, Share{id, on[id]})
	}
	slices.SortStableFunc(a.Instances, func(a, b Share) int { return cmp.Compare(b.Tasks, a.Tasks) })
	if s.Deployment.Set == nil {
		a.Revisions = countRevisions(s, revisions)
	}
	return extra
}

// taskCount is how many tasks are on instances.
type taskCount struct{ running, pending int }

// countRevisions returns the tasks of the PRIMARY revision and of the older ones that have some, or
// nothing if none of the older ones has.
func countRevisions(s *cluster.Service, of map[string]taskCount) (out []RevisionTasks) {
	add := func(d *cluster.Deployment, status string) {
		n := of[d.ID]
		out = append(out, RevisionTasks{d.ID, status, d.TaskDefinition, n.running, n.pending})
	}
	add(&s.Deployment, "PRIMARY")
	for i := range s.Older {
		if d := &s.Older[i]; of[d.ID] != (taskCount{}) {
			add(d, "ACTIVE")
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// missingRequest is the request for the tasks without an instance. A DAEMON service misses one on
// each eligible instance that has none.
func (m *model) missingRequest(s *cluster.Service, a *ServiceAnswer, extra int) (placement.Request, error) {
	r := placement.Request{Target: m.snap.Services[s.Name].WantedTasks()}
	var err error
	if r.Spec, err = m.serviceSpec(s, &cluster.Rules{}); err != nil {
		return r, err
	}
	if s.Strategy == cluster.Daemon {
		// A DAEMON service wants one task on each eligible instance, so those are asked for one by
		// one.
		r.Instances = slices.DeleteFunc(m.engine.EligibleInstances(r.Spec), func(id string) bool {
			return slices.ContainsFunc(a.Instances, func(x Share) bool { return x.Instance == id })
		})
		a.Missing = len(r.Instances)
	} else {
		a.Missing = max(0, s.Desired-(a.Running+a.Pending-extra))
	}
	r.Count = a.Missing
	return r, nil
}

// addRepairs adds the service's moves, and those of its broken rules that no moves repair.
func (m *model) addRepairs(s *cluster.Service, a *ServiceAnswer) error {
	ask, err := m.movesRequest()
	if err != nil || ask.Owners[s.Short].Spec == nil {
		return err
	}
	// Moves are planned for all services together: one may have to make way for another.
	plan := m.planner.PlanMoves(ask)
	a.Planned = slices.DeleteFunc(m.convertMoves(plan.Moves), func(m Move) bool { return m.Service != s.Name })
	a.UnderWay = slices.DeleteFunc(m.replacementsInProgress(), func(m Replacement) bool { return m.Service != s.Name })
	a.UnrepairedNow = describeViolations(slices.DeleteFunc(plan.Unrepaired,
		func(v moves.Violation) bool { return v.Owner != s.Short }), nil)
	return nil
}
