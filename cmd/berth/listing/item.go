package listing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/service"
	"berth/shared/snapshot"
)

// Service is a service in a list.
type Service struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	Strategy   string `json:"schedulingStrategy"`
	Definition string `json:"taskDefinition"`
	Desired    int    `json:"desiredCount"`
	Running    int    `json:"runningCount"`
	Pending    int    `json:"pendingCount"`
	Healthy    int    `json:"healthyCount"`
	// Deployments counts the revisions that have tasks, Rollout is the state of the newest.
	Deployments int    `json:"deployments"`
	Rollout     string `json:"rolloutState"`
	// State is one word for people: steady, changing, moving, blocked, throttled, crashing, stuck,
	// unhealthy, failed, draining or inactive.
	State     string    `json:"state"`
	CreatedAt time.Time `json:"createdAt"`
}

// Task is a task in a list.
type Task struct {
	ID         string    `json:"id"`
	Service    string    `json:"service,omitempty"`
	Definition string    `json:"taskDefinition"`
	Status     string    `json:"lastStatus"`
	Desired    string    `json:"desiredStatus"`
	Health     string    `json:"health,omitempty"`
	Instance   string    `json:"instance,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	CreatedAt  time.Time `json:"createdAt,omitzero"`
	StoppedAt  time.Time `json:"stoppedAt,omitzero"`
}

// Instance is a container instance in a list. Amounts are CPU units and MiB.
type Instance struct {
	ID            string            `json:"id"`
	EC2           string            `json:"ec2InstanceId,omitempty"`
	Status        string            `json:"status"`
	Connected     bool              `json:"agentConnected"`
	Unschedulable bool              `json:"unschedulable,omitempty"`
	Type          string            `json:"instanceType,omitempty"`
	Zone          string            `json:"availabilityZone,omitempty"`
	FaultDomain   string            `json:"faultDomain,omitempty"`
	UpgradeDomain string            `json:"upgradeDomain,omitempty"`
	Provider      string            `json:"capacityProvider,omitempty"`
	Tasks         int               `json:"tasks"`
	CPU           Amount            `json:"cpu"`
	Memory        Amount            `json:"memory"`
	GPUs          Amount            `json:"gpus,omitzero"`
	Metrics       map[string]Amount `json:"metrics,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
}

// Amount is how much of a resource tasks have been allocated, of how much there is.
type Amount struct {
	Allocated float64 `json:"allocated"`
	Total     float64 `json:"total"`
}

// Share is the allocated part, from 0 to 1.
func (a Amount) Share() float64 {
	if a.Total <= 0 {
		return 0
	}
	return min(1, max(0, a.Allocated/a.Total))
}

// Cluster is a cluster in a list.
type Cluster struct {
	Name      string `json:"clusterName"`
	Status    string `json:"status"`
	Instances int    `json:"registeredContainerInstancesCount"`
	Running   int    `json:"runningTasksCount"`
	Pending   int    `json:"pendingTasksCount"`
	Services  int    `json:"activeServicesCount"`
}

// Event is a service event.
type Event struct {
	ID      string    `json:"id"`
	At      time.Time `json:"createdAt"`
	Service string    `json:"service"`
	Message string    `json:"message"`
}

// Services returns the services of a cluster by name, without those that are INACTIVE.
func Services(snap *snapshot.Snapshot, now time.Time) []Service {
	out := []Service{}
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		if s := snap.Services[name]; s.Status != cluster.ServiceInactive {
			out = append(out, NewService(snap, s, now))
		}
	}
	return out
}

// ThrottleOf returns how a service's starts are slowed down, or nil. Calls that ECS refused are in no
// throttle's row, because no event reports them; placement counts them with every decision, and so
// does this, with the delays of an installation that has not changed them.
func ThrottleOf(snap *snapshot.Snapshot, s *cluster.Service, now time.Time) *cluster.Throttle {
	row, tasks := snap.Throttle(s.Short), snap.TasksOf(s.Short)
	if !slices.ContainsFunc(tasks, (*cluster.Task).NeverRan) {
		return row
	}
	settings := handler.DefaultSettings()
	return &cluster.Throttle{Head: s.Head, Owner: s.Short, Service: s.Name,
		Revisions: service.Backoffs(row, tasks, settings.Limits(), now)}
}

// NewService returns a service as lists show it.
func NewService(snap *snapshot.Snapshot, s *cluster.Service, now time.Time) Service {
	out := Service{Name: s.Name, Status: string(s.Status), Strategy: string(s.Strategy),
		Definition: s.Deployment.TaskDefinition, Desired: s.Desired, Deployments: 1 + len(s.Older),
		Rollout: string(cmp.Or(s.Deployment.State, cluster.RolloutInProgress)), CreatedAt: s.CreatedAt.UTC(),
		Healthy: s.HealthyCount()}
	for _, t := range snap.TasksOf(s.Short) {
		switch {
		case !t.IsActive() || t.Instance == "":
		case t.Last == cluster.TaskRunning:
			out.Running++
		default:
			out.Pending++
		}
	}
	wanted := s.WantedTasks() // of all task sets
	_, stuck := StuckSince(s)
	switch {
	case s.Status != cluster.ServiceActive:
		out.State = strings.ToLower(string(s.Status))
	case s.Deployment.State == cluster.RolloutFailed:
		out.State = "failed"
	case isThrottled(snap, s, out.Running < wanted, now):
		out.State = "throttled"
	case s.Blocked != nil:
		out.State = "blocked"
	case isCrashing(snap, s, now):
		out.State = "crashing"
	case stuck:
		out.State = "stuck"
	case !s.UnhealthySince.IsZero():
		out.State = "unhealthy"
	case s.Moving:
		out.State = "moving"
	case out.Running == wanted && s.Deployment.IsCompleted():
		out.State = "steady"
	default:
		out.State = "changing"
	}
	return out
}

// isThrottled reports whether starts of the service's PRIMARY deployment, or of one of its task sets, are
// slowed down. While tasks are missing, an attempt that is due counts too. If tasks of an older revision
// fill the desired count, only one that is held back does, and only until the deployment is completed.
func isThrottled(snap *snapshot.Snapshot, s *cluster.Service, isShort bool, now time.Time) bool {
	throttle := ThrottleOf(snap, s, now)
	return throttle != nil && slices.ContainsFunc(s.Parts(), func(part *cluster.Service) bool {
		b := throttle.Revisions[part.Deployment.ID]
		return b.Step > 0 && (isShort || b.NextAttemptAt.After(now) && !part.Deployment.IsCompleted())
	})
}

// StuckSince returns since when the service's percentages let it neither start nor stop a task, and
// whether that is so.
func StuckSince(s *cluster.Service) (since time.Time, stuck bool) {
	since, stuck = s.EmittedKeys[service.StuckKey]
	return since, stuck && (s.Deployment.State == cluster.RolloutInProgress || IsMaximumTooSmall(s))
}

// IsMaximumTooSmall reports whether maximumPercent keeps the service from having all its tasks.
func IsMaximumTooSmall(s *cluster.Service) bool {
	_, most := s.TaskBounds(s.Desired)
	return s.Strategy == cluster.Replica && most < s.Desired
}

// A service's tasks keep ending if at least KeepsEnding of its PRIMARY deployment, or of one of its
// task sets, have ended for one reason within EndsFor.
const (
	EndsFor     = 10 * time.Minute
	KeepsEnding = 3
)

// HasExited reports whether a task of the service's PRIMARY deployment has exited by itself.
func HasExited(s *cluster.Service, t *cluster.Task) bool {
	return t.HasEnded() && t.Revision == s.Deployment.ID && t.StopCode == cluster.StopContainerExited &&
		!t.Started.IsZero()
}

// isCrashing reports whether the tasks of the service, or of one of its task sets, keep exiting by
// themselves. Their replacements may run at the moment.
func isCrashing(snap *snapshot.Snapshot, s *cluster.Service, now time.Time) bool {
	return slices.ContainsFunc(s.Parts(), func(part *cluster.Service) bool {
		n := 0
		for _, t := range snap.TasksOf(s.Short) {
			if HasExited(part, t) && now.Sub(t.Stopped.Time()) <= EndsFor {
				n++
			}
		}
		return n >= KeepsEnding
	})
}

// Tasks returns the tasks of a cluster for which keep holds, by service and id.
func Tasks(snap *snapshot.Snapshot, keep func(*cluster.Task) bool) []Task {
	out := []Task{}
	for t := range snap.Tasks() {
		if keep(t) {
			out = append(out, NewTask(snap, t))
		}
	}
	slices.SortFunc(out, func(a, b Task) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.ID, b.ID))
	})
	return out
}

// NewTask returns a task as lists show it.
func NewTask(snap *snapshot.Snapshot, t *cluster.Task) Task {
	out := Task{ID: t.ID, Service: t.Service, Definition: t.TaskDefinition, Status: string(t.Status()),
		Desired: string(t.Desired), Instance: t.Instance, Reason: t.Reason}
	if !t.CreatedAt.IsZero() {
		out.CreatedAt = t.CreatedAt.Time().UTC()
	}
	if !t.Stopped.IsZero() {
		out.StoppedAt = t.Stopped.Time().UTC()
	}
	target := snap.Target(t.Owner, t.ID)
	switch {
	case t.Health == cluster.Unhealthy || target != nil && target.WorstHealth() == cluster.Unhealthy:
		out.Health = "unhealthy"
	case t.Health == cluster.Healthy:
		out.Health = "healthy"
	}
	return out
}

// Instances returns the registered instances of a cluster, by id.
func Instances(snap *snapshot.Snapshot) []Instance {
	out := make([]Instance, 0, len(snap.Instances))
	for _, v := range snap.Instances {
		if v.Instance != nil && !v.IsDeregistered() {
			out = append(out, NewInstance(snap, v))
		}
	}
	slices.SortFunc(out, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// NewInstance returns an instance as lists show it.
func NewInstance(snap *snapshot.Snapshot, v *snapshot.InstanceView) Instance {
	_, cordoned := v.Attributes[cluster.AttributeUnschedulable]
	out := Instance{ID: v.ID, EC2: v.EC2InstanceID, Status: string(v.Status), Connected: v.AgentConnected,
		Unschedulable: cordoned, Type: v.Attributes[cluster.AttributeInstanceType], Zone: v.Instance.Zone(),
		FaultDomain: v.FaultDomain(), UpgradeDomain: v.UpgradeDomain(), Provider: v.CapacityProvider(),
		Tasks: len(v.Tasks), Attributes: v.Attributes}
	total := v.Registered
	out.CPU = Amount{float64(total.CPU-v.CPU) / cluster.CPUUnit, float64(total.CPU) / cluster.CPUUnit}
	out.Memory = Amount{float64(total.Memory - v.Memory), float64(total.Memory)}
	if n := len(total.GPUs); n > 0 {
		free := -v.Unpinned * cluster.WholeGPU
		for _, g := range v.GPUs {
			free += g
		}
		out.GPUs = Amount{float64(n) - float64(free)/cluster.WholeGPU, float64(n)}
	}
	for name, capacity := range v.MetricCapacities(&snap.Configuration) {
		if out.Metrics == nil {
			out.Metrics = map[string]Amount{}
		}
		out.Metrics[name] = Amount{float64(v.Load(snap.MetricIndex(name))), float64(capacity)}
	}
	return out
}

// ShortID returns the part of an id that lists show: the first sixteen characters of a long one.
// Commands accept it wherever it names one thing.
func ShortID(id string) string {
	if len(id) <= shortLength || strings.ContainsAny(id, ":/") {
		return id
	}
	return id[:shortLength]
}

const shortLength = 16

// LeastShort is how many characters the beginning of an id must have to stand for it.
const LeastShort = 6

// IsShortFor reports whether a text is an id, or the beginning of a long one.
func IsShortFor(text, id string) bool {
	return text == id || len(text) >= LeastShort && len(id) > 2*LeastShort && strings.HasPrefix(id, text)
}
