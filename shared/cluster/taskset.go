package cluster

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// DeploymentController says who decides which revisions of a service run.
type DeploymentController string

// ExternalController leaves it to the caller, who makes task sets. A service without a controller
// has the ECS API's own, ECS: its deployments replace one another.
const ExternalController DeploymentController = "EXTERNAL"

// MaxTaskSets is how many task sets a service may have, those that are being deleted included.
const MaxTaskSets = 5

// TaskSet makes a deployment a task set of the ECS API: a revision that keeps a count of its own
// until the caller changes its scale or deletes it. No other deployment replaces its tasks.
type TaskSet struct {
	// Scale is the percentage of the service's desired count that the set should have.
	Scale      float64 `json:"sc"`
	ExternalID string  `json:"ex,omitempty"`
	// External is set if its tasks have the launch type EXTERNAL.
	External bool              `json:"xt,omitempty"`
	Tags     map[string]string `json:"tg,omitempty"`
	// Token is the clientToken of the call that created it, Params a digest of its parameters.
	Token  string `json:"ct,omitempty"`
	Params string `json:"cp,omitempty"`
	// Draining is set once it is deleted. It is removed when its last task has ended.
	Draining bool `json:"dr,omitempty"`
	// Steady is set while its tasks are as they should be, StabilityAt is since when that has been
	// so or not so.
	Steady      bool      `json:"sd,omitempty"`
	StabilityAt time.Time `json:"sa,omitzero"`
}

// Count returns how many tasks the set should have if the service should have so many: its share,
// rounded up; none once it is deleted. With a scale of 12 and 10 desired, it has 2.
func (t *TaskSet) Count(desired int) int {
	if t.Draining {
		return 0
	}
	// Less than a billionth of a task comes from the arithmetic, not from the caller.
	return int(math.Ceil(float64(desired)*t.Scale/100 - 1e-9))
}

// HasTaskSets reports whether the service has the deployment controller EXTERNAL: its deployments
// are task sets. The PRIMARY one's is in [ServiceStatus.Deployment], which has no id while no task
// set is primary.
func (s *Service) HasTaskSets() bool { return s.Controller == ExternalController }

// TaskSets returns copies of the deployments that are the service's task sets, the oldest first.
func (s *Service) TaskSets() (sets []Deployment) {
	if !s.HasTaskSets() {
		return nil
	}
	for _, d := range append([]Deployment{s.Deployment}, s.Older...) {
		if d.Set != nil {
			sets = append(sets, d)
		}
	}
	slices.SortStableFunc(sets, func(a, b Deployment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return sets
}

// SetTaskSets replaces the service's task sets. The one with the id of primary is the PRIMARY one,
// the others follow with the newest first.
func (s *Service) SetTaskSets(sets []Deployment, primary string) {
	s.Deployment, s.Older = Deployment{State: RolloutCompleted}, nil
	for _, d := range sets {
		if d.ID == primary {
			s.Deployment = d
		} else {
			s.Older = append(s.Older, d)
		}
	}
	slices.SortStableFunc(s.Older, func(a, b Deployment) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
}

// OfRevision returns the service as tasks of one of its revisions see it. If the revision is a task
// set, that is a service which has this deployment alone, with the set's count, launch type and
// capacity providers.
func (s *Service) OfRevision(id string) *Service {
	for _, d := range s.TaskSets() {
		if d.ID == id {
			return s.OfTaskSet(d)
		}
	}
	return s
}

// OfTaskSet returns the service with one task set as its only deployment. Its tasks are kept like
// those of a completed deployment: no circuit breaker, alarm or rollout concerns them.
func (s *Service) OfTaskSet(d Deployment) *Service {
	alone := *s
	d.State = RolloutCompleted
	alone.Deployment, alone.Older, alone.Last, alone.Release = d, nil, nil, nil
	alone.Controller, alone.Desired, alone.Providers = "", 0, d.Providers
	alone.Running, alone.Pending = d.Running, d.Pending
	if d.Set != nil {
		alone.Desired, alone.Rules.External = d.Set.Count(s.Desired), d.Set.External
	}
	return &alone
}

// Parts returns the service as each of its task sets sees it, see [Service.OfTaskSet]. A service of
// the deployment controller ECS is one part.
func (s *Service) Parts() (parts []*Service) {
	if !s.HasTaskSets() {
		return []*Service{s}
	}
	for _, d := range s.TaskSets() {
		parts = append(parts, s.OfTaskSet(d))
	}
	return parts
}

// WantedTasks returns how many tasks the service should have in all: its desired count, or what its
// task sets should have together.
func (s *Service) WantedTasks() (n int) {
	for _, part := range s.Parts() {
		n += part.Desired
	}
	return n
}

// UsedProviders returns the capacity provider strategies by which the service's tasks start: its
// own and those of its task sets.
func (s *Service) UsedProviders() []ProviderShare {
	shares := s.Providers
	for _, d := range s.TaskSets() {
		shares = slices.Concat(shares, d.Providers)
	}
	return shares
}
