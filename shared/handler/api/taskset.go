package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// TaskSets creates, scales, deletes and describes the task sets of services with the deployment
// controller EXTERNAL (S15).
type TaskSets struct{ *Dependencies }

func taskSetNotFound() error {
	return cluster.Errorf(cluster.CodeTaskSetNotFound, "The specified task set was not found.")
}

// checkHasTaskSets refuses a service that is not ACTIVE, and one whose deployments are not the
// caller's. The texts are ECS's.
func checkHasTaskSets(s *cluster.Service) error {
	switch {
	case s.Status != cluster.ServiceActive:
		return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
	case !s.HasTaskSets():
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Amazon ECS only supports task set management on services configured to use external deployment "+
				"controllers.")
	}
	return nil
}

// FindCreatedTaskSet returns the task set that an earlier CreateTaskSet with the same clientToken
// made, nil if none did. Like [Services.FindCreatedService] it comes before all checks. The token
// with other parameters is refused.
func (a *TaskSets) FindCreatedTaskSet(
	ctx context.Context, spec operation.CreateTaskSet,
) (*operation.TaskSetDetail, error) {
	if _, err := a.findCluster(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	s, err := a.requireService(ctx, spec.Cluster, spec.Service)
	if err != nil {
		return nil, err
	}
	if err := checkHasTaskSets(s); err != nil {
		return nil, err
	}
	return findByToken(s, spec)
}

func findByToken(s *cluster.Service, spec operation.CreateTaskSet) (*operation.TaskSetDetail, error) {
	if spec.Token == "" {
		return nil, nil
	}
	for _, d := range s.TaskSets() {
		if d.Set.Token != spec.Token {
			continue
		}
		if d.Set.Params != spec.Params {
			return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Creation of task set was not idempotent.")
		}
		return &operation.TaskSetDetail{Deployment: d, Service: s}, nil
	}
	return nil, nil
}

// CreateTaskSet adds a task set to a service, which has at most [cluster.MaxTaskSets]. It is ACTIVE
// until it is made the primary one. Placement starts its tasks.
func (a *TaskSets) CreateTaskSet(ctx context.Context, spec operation.CreateTaskSet) (*operation.TaskSetDetail, error) {
	if d, err := a.FindCreatedTaskSet(ctx, spec); d != nil || err != nil {
		return d, err
	}
	def, err := a.lookUpDefinition(ctx, spec.Cluster, spec.TaskDefinition)
	if err != nil {
		return nil, err
	}
	if err := a.checkAssociated(ctx, spec.Cluster, spec.Providers); err != nil {
		return nil, err
	}
	if len(spec.Providers) == 0 && !spec.Launched {
		if spec.Providers, err = a.defaultStrategy(ctx, spec.Cluster); err != nil {
			return nil, err
		}
	}
	ref := operation.TaskSetRef{Cluster: spec.Cluster, Service: spec.Service}
	return a.editTaskSet(ctx, ref, func(s *cluster.Service) (id string, err error) {
		switch d, err := findByToken(s, spec); {
		case err != nil:
			return "", err
		case d != nil: // another call with the same token came first
			return d.Deployment.ID, errUnchanged
		}
		sets := s.TaskSets()
		if len(sets) >= cluster.MaxTaskSets {
			return "", cluster.Errorf(cluster.CodeInvalidParameter,
				"%d deployments exist on the service. Unable to create new TaskSet since this exceeds the maximum "+
					"limit.", len(sets))
		}
		d, err := newTaskSet(s, spec, def, a.Clock.Now())
		if err != nil {
			return "", err
		}
		before := *s
		s.SetTaskSets(append(sets, d), s.Deployment.ID)
		return d.ID, a.checkFeasible(ctx, s, &before)
	})
}

// newTaskSet returns the deployment that is the new task set of a service.
func newTaskSet(
	s *cluster.Service, spec operation.CreateTaskSet, def *cluster.TaskDefinition, now time.Time,
) (d cluster.Deployment, err error) {
	d = cluster.Deployment{
		Revision: cluster.Revision{
			ID: newDeploymentID(s, now), CreatedAt: now, TaskDefinition: def.Name(), Network: spec.Network,
			LoadBalancers: spec.LoadBalancers, Registries: spec.Registries, Providers: spec.Providers,
		},
		UpdatedAt: now, State: cluster.RolloutCompleted,
		Set: &cluster.TaskSet{
			Scale: spec.Scale, ExternalID: spec.ExternalID, External: spec.External, Tags: spec.Tags, Token: spec.Token,
			Params: spec.Params, StabilityAt: now,
		},
	}
	d.Desired = d.Set.Count(s.Desired)
	return d, errors.Join(checkRules(&s.Rules, def, s.Strategy), checkNetwork(def, spec.Network),
		checkDiscoverable(s.OfTaskSet(d)))
}

// UpdateTaskSet scales a task set.
func (a *TaskSets) UpdateTaskSet(
	ctx context.Context, ref operation.TaskSetRef, scale float64,
) (*operation.TaskSetDetail, error) {
	return a.changeTaskSet(ctx, ref, func(s *cluster.Service, d *cluster.Deployment) error {
		if d.Set.Draining {
			return drainingSet("scaled")
		}
		d.Set.Scale = scale
		rescale(d, s.Desired, a.Clock.Now())
		return checkDiscoverable(s.OfTaskSet(*d))
	})
}

func drainingSet(what string) error {
	return cluster.Errorf(cluster.CodeInvalidParameter, "The task set cannot be %s: it is DRAINING.", what)
}

// rescale records that a task set is to have another number of tasks.
func rescale(d *cluster.Deployment, desired int, now time.Time) {
	d.Desired, d.UpdatedAt = d.Set.Count(desired), now
	d.Set.Steady, d.Set.StabilityAt = false, now
}

// DeleteTaskSet lets a task set end: it is DRAINING until its tasks have stopped, and then no more.
// Unless force is set, it must have been scaled to 0 and must not be the primary one.
func (a *TaskSets) DeleteTaskSet(
	ctx context.Context, ref operation.TaskSetRef, force bool,
) (*operation.TaskSetDetail, error) {
	return a.changeTaskSet(ctx, ref, func(s *cluster.Service, d *cluster.Deployment) error {
		switch {
		case d.Set.Draining:
			return errUnchanged
		case d.Set.Scale > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The task set cannot be deleted while it is scaled above 0. Scale it to 0, or set force.")
		case d.ID == s.Deployment.ID && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The primary task set cannot be deleted. Make another one primary, or set force.")
		}
		d.Set.Draining = true
		rescale(d, s.Desired, a.Clock.Now())
		return nil
	})
}

// MakePrimary makes a task set the primary one of its service. The one before becomes ACTIVE. No
// task starts or stops for that.
func (a *TaskSets) MakePrimary(ctx context.Context, ref operation.TaskSetRef) (*operation.TaskSetDetail, error) {
	return a.editTaskSet(ctx, ref, func(s *cluster.Service) (string, error) {
		sets := s.TaskSets()
		i := slices.IndexFunc(sets, func(d cluster.Deployment) bool { return d.ID == ref.ID })
		switch {
		case i < 0:
			return "", taskSetNotFound()
		case sets[i].Set.Draining:
			return "", drainingSet("made primary")
		case ref.ID == s.Deployment.ID:
			return ref.ID, errUnchanged
		}
		sets[i].UpdatedAt = a.Clock.Now()
		s.SetTaskSets(sets, ref.ID)
		return ref.ID, nil
	})
}

// DescribeTaskSets returns the task sets of a service that are named, all if none is, the oldest
// first.
func (a *TaskSets) DescribeTaskSets(
	ctx context.Context, clusterName, service string, ids []string,
) ([]*operation.TaskSetDetail, []cluster.Failure, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	s, err := a.requireService(ctx, clusterName, service)
	if err != nil {
		return nil, nil, err
	}
	if err := checkHasTaskSets(s); err != nil {
		return nil, nil, err
	}
	if len(ids) == 0 {
		for _, d := range s.TaskSets() {
			ids = append(ids, d.ID)
		}
	}
	found, missing, err := describeEach(ids, func(id string) (*operation.TaskSetDetail, error) {
		return findTaskSet(s, id), nil
	})
	for i := range missing {
		missing[i].ARN = s.Name + "/" + missing[i].ARN
	}
	return found, missing, err
}

// findTaskSet returns a task set of the service; nil if it does not have it.
func findTaskSet(s *cluster.Service, id string) *operation.TaskSetDetail {
	for _, d := range s.TaskSets() {
		if d.ID == id {
			return &operation.TaskSetDetail{Deployment: d, Service: s}
		}
	}
	return nil
}

// changeTaskSet applies f to a copy of a task set.
func (a *TaskSets) changeTaskSet(
	ctx context.Context, ref operation.TaskSetRef, f func(*cluster.Service, *cluster.Deployment) error,
) (*operation.TaskSetDetail, error) {
	return a.editTaskSet(ctx, ref, func(s *cluster.Service) (string, error) {
		sets := s.TaskSets()
		i := slices.IndexFunc(sets, func(d cluster.Deployment) bool { return d.ID == ref.ID })
		if i < 0 {
			return "", taskSetNotFound()
		}
		sets[i].Set = new(*sets[i].Set)
		if err := f(s, &sets[i]); err != nil {
			return ref.ID, err
		}
		before := *s
		s.SetTaskSets(sets, s.Deployment.ID)
		return ref.ID, a.checkFeasible(ctx, s, &before)
	})
}

// editTaskSet applies f to a copy of the service, which must have task sets, and commits the result
// unless f returns [errUnchanged]. f returns the id of the task set to answer with.
func (a *TaskSets) editTaskSet(
	ctx context.Context, ref operation.TaskSetRef, f func(*cluster.Service) (string, error),
) (*operation.TaskSetDetail, error) {
	var out *operation.TaskSetDetail
	_, err := a.editService(ctx, ref.Cluster, ref.Service, func(s *cluster.Service) error {
		if err := checkHasTaskSets(s); err != nil {
			return err
		}
		id, err := f(s)
		if err == nil {
			s.Steady = false
		}
		out = findTaskSet(s, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkExternalUpdate refuses what UpdateService cannot change of a service with the deployment
// controller EXTERNAL: what its task sets say. Known texts are ECS's.
func checkExternalUpdate(c operation.UpdateService) error {
	for _, refused := range []struct {
		used bool
		what string
	}{
		{c.TaskDefinition != "", "task definition"},
		{c.Network != nil, "network parameters"},
		{c.LoadBalancers != nil, "load balancers"},
		{c.Registries != nil, "service registries"},
		{c.Volumes != nil, "volume configurations"},
		{c.Providers != nil, "capacity provider strategy"},
	} {
		if refused.used {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"Unable to update %s on services with a EXTERNAL deployment controller. Create a new task set.",
				refused.what)
		}
	}
	if c.Force {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Cannot force a new deployment on services with a EXTERNAL deployment controller.")
	}
	return checkRolloutParameters(c.ServiceParameters)
}

// checkRolloutParameters refuses the parameters of a service that only rollouts have: task sets
// replace nothing, and their tasks do not move.
func checkRolloutParameters(p operation.ServiceParameters) error {
	name := ""
	switch {
	case p.Breaker != nil && p.Breaker.Enable:
		name = "deploymentConfiguration.deploymentCircuitBreaker"
	case p.Alarms != nil && p.Alarms.Enable:
		name = "deploymentConfiguration.alarms"
	case p.Early != nil && p.Early.Enable:
		name = "deploymentConfiguration.earlySuccessCriteria"
	case p.ZoneRebalancing != nil && *p.ZoneRebalancing:
		name = "availabilityZoneRebalancing"
	default:
		return nil
	}
	return cluster.Errorf(cluster.CodeInvalidParameter,
		"%s is not supported on services with a EXTERNAL deployment controller.", name)
}

// rescaleTaskSets records the counts that the service's task sets have with its desired count.
func rescaleTaskSets(s *cluster.Service, now time.Time) error {
	sets := s.TaskSets()
	for i := range sets {
		d := &sets[i]
		if d.Set.Count(s.Desired) == d.Desired {
			continue
		}
		d.Set = new(*d.Set)
		rescale(d, s.Desired, now)
		if err := checkDiscoverable(s.OfTaskSet(*d)); err != nil {
			return err
		}
	}
	s.SetTaskSets(sets, s.Deployment.ID)
	s.Steady = false
	return nil
}

// checkTaskSetRules checks the rules of a service against the task definitions of its task sets.
func (a *Dependencies) checkTaskSetRules(ctx context.Context, s *cluster.Service) error {
	if err := checkRules(&s.Rules, &cluster.TaskDefinition{}, s.Strategy); err != nil {
		return err
	}
	for _, d := range s.TaskSets() {
		def, err := a.cachedDefinition(ctx, s.Cluster, d.TaskDefinition)
		if err != nil {
			return err
		}
		if err := checkRules(&s.Rules, def, s.Strategy); err != nil {
			return fmt.Errorf("task set %s: %w", d.ID, err)
		}
	}
	return nil
}
