package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
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
	Reason     string `json:"reason,omitempty"` // of one that stopped or is to
	Instance   string `json:"instance,omitempty"`
	GPUs       []int  `json:"gpus,omitempty"`
	// Foreign reports that somebody else started it, on an instance of their choice.
	Foreign bool `json:"foreign,omitempty"`
	// Explanation is what is answered now if the task is asked for anew, as if it were not there;
	// none for one that Berth no longer has to place.
	Explanation *Explanation `json:"explanation,omitempty"`
	// Here is the same of the instance that it is on: whether it would be chosen again, and what
	// speaks against it.
	Here *Verdict `json:"here,omitempty"`
	// Replaces and ReplacedBy name the other task of a move under way; Move is one that is planned.
	Replaces   string `json:"replaces,omitempty"`
	ReplacedBy string `json:"replacedBy,omitempty"`
	Move       *Move  `json:"move,omitempty"`
}

// ServiceAnswer is why a service's tasks have no instance, and what keeps them from where they
// should be.
type ServiceAnswer struct {
	Service    string `json:"service"`
	Strategy   string `json:"schedulingStrategy"`
	Status     string `json:"status"`
	Definition string `json:"taskDefinition"`
	Desired    int    `json:"desiredCount"`
	Running    int    `json:"runningCount"`
	Pending    int    `json:"pendingCount"` // on an instance, not RUNNING yet
	Missing    int    `json:"missingCount"` // without an instance
	// Instances is how many tasks each instance has, those with the most first.
	Instances []Share `json:"instances"`
	// Decided is why tasks found no instance when placement last looked; Now why they would find
	// none now.
	Decided *berthapi.Diagnosis `json:"decided,omitempty"`
	Now     *Answer             `json:"now,omitempty"`
	// Scaling is what managed scaling decides about the capacity providers of the strategy; none
	// where nothing is known of it.
	Scaling []ScalingDecision `json:"managedScaling,omitempty"`
	// Failed is why the PRIMARY deployment has FAILED: it launches no tasks, until there is
	// another.
	Failed string `json:"failed,omitempty"`
	// HeldUntil is before when nothing of the PRIMARY deployment is started, after tasks that never
	// ran; empty for no such time.
	HeldUntil string `json:"heldUntil,omitempty"`
	// Moving reports that tasks are on their way to other instances, or will be once the service
	// has come to rest.
	Moving   bool          `json:"moving"`
	UnderWay []Replacement `json:"underWay"`
	Planned  []Move        `json:"planned"`
	// Unrepaired is the rule that tasks break and no moves can mend, as last decided; UnrepairedNow
	// as things stand.
	Unrepaired    string   `json:"unrepaired,omitempty"`
	UnrepairedNow []string `json:"unrepairedNow"`
}

// ScalingDecision is what managed scaling decides about a capacity provider's group, and what the
// service's tasks that wait ask of it.
type ScalingDecision struct {
	Provider string   `json:"capacityProvider"`
	Group    string   `json:"autoScalingGroup"`
	Current  int      `json:"currentCapacity"` // the desired capacity as it is
	Desired  int      `json:"desiredCapacity"`
	Why      string   `json:"why"`
	Demands  []string `json:"demands"`
}

// Share is how many of the tasks an instance has.
type Share struct {
	Instance string `json:"instance"`
	Tasks    int    `json:"tasks"`
}

// ExplainTask explains one task, by its id or ECS's. The snapshot is as before when it returns.
func ExplainTask(snap *snapshot.Snapshot, id string) (*TaskAnswer, error) {
	w := newModel(snap)
	t := w.findTask(id)
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
	if !t.IsActive() {
		out.Reason = t.Reason
		return out, nil
	}
	if t.Foreign {
		return out, nil
	}
	if err := w.addMoves(out); err != nil {
		return nil, err
	}
	r, err := w.taskRequest(t)
	if err != nil {
		return nil, err
	}
	w.engine.WithoutTask(t, func() {
		x := w.engine.Explain(r)
		out.Explanation = explanationOf(&x)
		if v := snap.Instances[t.Instance]; v != nil && v.Instance != nil {
			out.Here, err = w.instanceVerdict(r, &x, t.Instance)
		}
	})
	return out, err
}

func (m *model) findTask(id string) *cluster.Task {
	for t := range m.snap.Tasks() {
		if t.ID == id || t.ECSID == id {
			return t
		}
	}
	return nil
}

// addMoves says of which move under way, or planned, the task is a part.
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

// taskRequest is the request that the task would come from now.
func (m *model) taskRequest(t *cluster.Task) (r placement.Request, err error) {
	r.Count = 1
	if s := m.snap.Services[t.Service]; s != nil && s.Short == t.Owner {
		as := *s
		as.Deployment.TaskDefinition = t.TaskDefinition
		r.Target = s.Desired
		r.Spec, err = m.serviceSpec(&as, &cluster.Rules{})
		return r, err
	}
	def, rules := m.snap.Definitions[t.TaskDefinition], t.Rules
	if def == nil {
		def = &cluster.TaskDefinition{Ports: t.Ports}
	}
	if rules == nil {
		rules = &cluster.Rules{}
	}
	if r.Spec, err = placement.NewSpec(def, t.Owner, t.Group, rules); err == nil {
		r.Spec.Needs = t.Needs
	}
	return r, err
}

// ExplainService explains one service. k is nil where only the snapshot is known.
func ExplainService(snap *snapshot.Snapshot, k *Capacity, name string, now time.Time) (*ServiceAnswer, error) {
	w := newModel(snap)
	s, err := w.findService(name)
	if err != nil {
		return nil, err
	}
	out := &ServiceAnswer{
		Service: s.Name, Strategy: string(s.Strategy), Status: string(s.Status),
		Definition: s.Deployment.TaskDefinition, Desired: s.Desired,
		Instances: []Share{}, Decided: berthapi.DiagnosisOf(s.Blocked), Moving: s.Moving, Unrepaired: s.Unrepaired,
		UnderWay: []Replacement{}, Planned: []Move{}, UnrepairedNow: []string{},
	}
	if k != nil {
		out.Scaling = k.scalingDecisions(snap, s, now)
	}
	extra := w.countTasks(s, out)
	if s.Status != cluster.ServiceActive {
		return out, nil
	}
	r, err := w.missingRequest(s, out, extra)
	if err != nil {
		return nil, err
	}
	if s.Deployment.State == cluster.RolloutFailed {
		out.Failed = cmp.Or(s.Deployment.Reason, "ECS deployment "+s.Deployment.ID+" failed.")
	} else if out.Missing > 0 {
		for _, r := range berthapi.ThrottleOf(s, snap.Throttle(s.Short)).Revisions {
			if r.Status == "PRIMARY" {
				out.HeldUntil = r.NextAttemptAt.Format(time.RFC3339)
			}
		}
		out.Now = &Answer{Tasks: (&Question{Service: name}).describeTasks()}
		w.placeTasks(out.Now, r)
	}
	return out, w.addRepairs(s, out)
}

// countTasks counts the service's tasks, and says how many of them are there only until another has
// taken over.
func (m *model) countTasks(s *cluster.Service, a *ServiceAnswer) (extra int) {
	on := map[string]int{}
	for _, t := range m.snap.TasksOf(s.Short) {
		if !t.IsActive() || t.Instance == "" {
			continue
		}
		on[t.Instance]++
		if t.Last == cluster.TaskRunning {
			a.Running++
		} else {
			a.Pending++
		}
		if old := m.snap.Task(s.Short, t.Replaces); t.Replaces != "" && old != nil && old.IsActive() {
			extra++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(on)) {
		a.Instances = append(a.Instances, Share{id, on[id]})
	}
	slices.SortStableFunc(a.Instances, func(a, b Share) int { return cmp.Compare(b.Tasks, a.Tasks) })
	return extra
}

// missingRequest is the request for the tasks that have no instance.
func (m *model) missingRequest(s *cluster.Service, a *ServiceAnswer, extra int) (placement.Request, error) {
	r := placement.Request{Target: s.Desired}
	var err error
	if r.Spec, err = m.serviceSpec(s, &cluster.Rules{}); err != nil {
		return r, err
	}
	if s.Strategy == cluster.Daemon {
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

// addRepairs are the service's own among the moves, and what stays broken of its rules.
func (m *model) addRepairs(s *cluster.Service, a *ServiceAnswer) error {
	ask, err := m.movesRequest()
	if err != nil || ask.Owners[s.Short].Spec == nil {
		return err
	}
	plan := m.planner.PlanMoves(ask)
	a.Planned = slices.DeleteFunc(m.convertMoves(plan.Moves), func(m Move) bool { return m.Service != s.Name })
	a.UnderWay = slices.DeleteFunc(m.replacementsInProgress(), func(m Replacement) bool { return m.Service != s.Name })
	a.UnrepairedNow = describeViolations(slices.DeleteFunc(plan.Unrepaired,
		func(v moves.Violation) bool { return v.Owner != s.Short }), nil)
	return nil
}
