package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// Services creates, changes, deletes and looks up services.
type Services struct {
	*Dependencies
	quotas quotas
}

// CreateService writes a new service. The same clientToken with the same parameters gives the same
// service again.
func (a *Services) CreateService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error) {
	if _, err := a.findCluster(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	if d, err := a.FindCreatedService(ctx, spec); d != nil || err != nil {
		return d, err
	}
	def, err := a.lookUpDefinition(ctx, spec.Cluster, spec.TaskDefinition)
	if err != nil {
		return nil, err
	}
	if spec.Providers, err = a.providerStrategy(ctx, spec); err != nil {
		return nil, err
	}
	var made *cluster.Service
	err = state.RetryRaces("creating service "+spec.Name, func() error {
		old, err := a.findService(ctx, spec.Cluster, spec.Name)
		if err != nil {
			return err
		}
		if old != nil && old.Status != cluster.ServiceInactive {
			made, err = resolveServiceConflict(old, spec)
			return err
		}
		if made, err = a.newService(spec, def, old); err != nil {
			return err
		}
		if err := a.reserveService(ctx, spec.Cluster); err != nil {
			return err
		}
		if err := a.checkFeasible(ctx, made, nil); err != nil {
			return err
		}
		if made.Strategy == cluster.Daemon {
			if made.Desired, err = a.countActiveInstances(ctx, spec.Cluster); err != nil {
				return err
			}
		}
		return a.commitService(ctx, nil, made)
	})
	if err != nil {
		return nil, err
	}
	return a.serviceDetail(ctx, made)
}

// FindCreatedService is the service that the same CreateService made before, by its clientToken;
// nil where none did. It comes before all checks: what was made stays made where its task
// definition has been deregistered or its capacity provider removed since. Another CreateService
// with that token for that name is refused.
func (a *Services) FindCreatedService(
	ctx context.Context, spec operation.CreateService,
) (*operation.ServiceDetail, error) {
	if spec.Token == "" {
		return nil, nil
	}
	s, err := a.findService(ctx, spec.Cluster, spec.Name)
	if err != nil || s == nil || s.Status == cluster.ServiceInactive || s.Token != spec.Token {
		return nil, err
	}
	if s, err = resolveServiceConflict(s, spec); err != nil {
		return nil, err
	}
	return a.serviceDetail(ctx, s)
}

// resolveServiceConflict answers a CreateService of a name that is taken.
func resolveServiceConflict(old *cluster.Service, spec operation.CreateService) (*cluster.Service, error) {
	switch {
	case spec.Token != "" && old.Token == spec.Token && old.Params == spec.Params:
		return old, nil
	case old.Status == cluster.ServiceDraining:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter,
			"Unable to Start a service that is still Draining.")
	}
	return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
}

// providerStrategy is the service's capacity provider strategy, the cluster's default where the
// caller named neither one nor a launch type (S14). DAEMON services have none.
func (a *Services) providerStrategy(
	ctx context.Context, spec operation.CreateService,
) (*[]cluster.ProviderShare, error) {
	if given := listOrNil(spec.Providers); given != nil || spec.Launched || spec.Strategy == cluster.Daemon {
		return spec.Providers, a.checkAssociated(ctx, spec.Cluster, given)
	}
	shares, err := a.defaultStrategy(ctx, spec.Cluster)
	if err != nil || len(shares) == 0 {
		return spec.Providers, err
	}
	return &shares, nil
}

// countActiveInstances counts the instances that a DAEMON service is taken to want until placement
// has looked: a waiter must not find that none of none is all.
func (a *Services) countActiveInstances(ctx context.Context, clusterName string) (n int, err error) {
	instances, err := listRows[*cluster.Instance](ctx, a.State, state.Prefix(clusterName, state.PrefixInstance),
		"instances")
	for _, i := range instances {
		if i.Status == cluster.InstanceActive {
			n++
		}
	}
	return n, err
}

func (a *Services) newService(
	spec operation.CreateService, def *cluster.TaskDefinition, old *cluster.Service,
) (*cluster.Service, error) {
	now := a.Clock.Now()
	s := &cluster.Service{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{
			Name: spec.Name, Short: cluster.ShortKey(spec.Cluster, spec.Name, now), CreatedAt: now,
			CreatedBy: spec.CreatedBy, Token: spec.Token, Params: spec.Params,
		},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cmp.Or(spec.Strategy, cluster.Replica), MinHealthy: 100, MaxPercent: 200, Role: spec.Role,
			Tags: spec.Tags, PropagateTags: spec.PropagateTags, Rules: spec.Rules,
		},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
	}
	if err := errors.Join(checkRules(&s.Rules, def, s.Strategy), checkNetwork(def, spec.Network)); err != nil {
		return nil, err
	}
	if s.Strategy == cluster.Daemon {
		s.MinHealthy, s.MaxPercent = 0, 100
	}
	if old != nil {
		s.Rev = old.Rev + 1
	}
	if err := applyCounts(s, spec.Desired, spec.MinHealthy, spec.MaxPercent); err != nil {
		return nil, err
	}
	applyParameters(s, spec.ServiceParameters)
	if err := checkEarlySuccess(s); err != nil {
		return nil, err
	}
	s.Providers = listOrNil(spec.Providers)
	setDeployment(s, cluster.Revision{
		TaskDefinition: def.Name(), Network: spec.Network, LoadBalancers: listOrNil(spec.LoadBalancers),
		Registries: listOrNil(spec.Registries),
	}, now)
	err := checkRebalancing(s, def)
	if spec.ZoneRebalancing == nil {
		s.ZoneRebalancing = err == nil // what ECS does since 2025
	}
	if s.ZoneRebalancing && err != nil {
		return nil, err
	}
	return s, checkDiscoverable(s)
}

// UpdateService changes a service. A change of what its tasks are made of, or one that is forced,
// is a new deployment (S8); all else holds from now on for what there is.
func (a *Services) UpdateService(ctx context.Context, c operation.UpdateService) (*operation.ServiceDetail, error) {
	var definition string
	if c.TaskDefinition != "" {
		if _, err := a.findCluster(ctx, c.Cluster); err != nil {
			return nil, err
		}
		def, err := a.lookUpDefinition(ctx, c.Cluster, c.TaskDefinition)
		if err != nil {
			return nil, err
		}
		definition = def.Name()
	}
	if err := a.checkAssociated(ctx, c.Cluster, listOrNil(c.Providers)); err != nil {
		return nil, err
	}
	return a.editServiceRules(ctx, c.Cluster, c.Name, func(s *cluster.Service) error {
		if s.Status != cluster.ServiceActive {
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		}
		return a.applyUpdate(s, c, definition)
	})
}

func (a *Services) applyUpdate(s *cluster.Service, c operation.UpdateService, definition string) error {
	s.PropagateTags = cmp.Or(c.PropagateTags, s.PropagateTags)
	if c.Constraints != nil {
		s.Rules.Constraints = *c.Constraints
	}
	if c.Strategies != nil {
		if s.Strategy == cluster.Daemon && len(*c.Strategies) > 0 {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The daemon scheduling strategy does not support placement strategies. Remove the placement strategies and try again.")
		}
		s.Rules.Strategies = *c.Strategies
	}
	applyParameters(s, c.ServiceParameters)
	if err := changeProviders(s, c); err != nil {
		return err
	}
	left := desiredOfPrevious(s)
	if err := applyCounts(s, c.Desired, c.MinHealthy, c.MaxPercent); err != nil {
		return err
	}
	if err := checkEarlySuccess(s); err != nil {
		return err
	}
	next, differs := changedRevision(s, c, definition)
	if differs || c.Force {
		if err := startDeployment(s, next, left, a.Clock.Now()); err != nil {
			return err
		}
	}
	return checkDiscoverable(s)
}

// changeProviders replaces the capacity provider strategy, which takes a forced deployment, as with
// ECS.
func changeProviders(s *cluster.Service, c operation.UpdateService) error {
	if c.Providers == nil || slices.Equal(*c.Providers, s.Providers) {
		return nil
	}
	switch {
	case s.Strategy == cluster.Daemon && len(*c.Providers) > 0:
		return cluster.Errorf(cluster.CodeUnsupported,
			"capacityProviderStrategy with the daemon scheduling strategy is not supported.")
	case !c.Force:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"A change of capacityProviderStrategy needs forceNewDeployment.")
	}
	s.Providers = listOrNil(c.Providers)
	return nil
}

// DeleteService has a service's tasks stopped and the service with them. A REPLICA service must be
// at 0, or the deletion forced.
func (a *Services) DeleteService(
	ctx context.Context, clusterName, name string, force bool,
) (*operation.ServiceDetail, error) {
	return a.editService(ctx, clusterName, name, func(s *cluster.Service) error {
		switch {
		case s.Status == cluster.ServiceInactive:
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		case s.Strategy == cluster.Replica && s.Desired > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The service cannot be stopped while it is scaled above 0.")
		case s.Status == cluster.ServiceActive && len(s.Older) > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The service cannot be stopped while deployments are active.")
		}
		s.Status, s.Desired = cluster.ServiceDraining, 0
		s.Release = stoppedRelease(s.Release, a.Clock.Now(), "The service was deleted.")
		return nil
	})
}

// UpdateRules sets the parts of a service's rules that the tags stand for (P8). Tags of the service
// that said otherwise go: they would no longer tell the truth.
func (a *Services) UpdateRules(
	ctx context.Context, clusterName, name string, tags map[string]string,
) (*operation.ServiceDetail, error) {
	return a.editServiceRules(ctx, clusterName, name, func(s *cluster.Service) error {
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			if err := cluster.ApplyRuleTag(&s.Rules, key, tags[key]); err != nil {
				return err
			}
			if said, ok := s.Tags[key]; ok && said != tags[key] {
				s.Tags = maps.Clone(s.Tags)
				delete(s.Tags, key)
			}
		}
		return nil
	})
}

// DescribeServices gives the services named, with their newest events; those that are not there as
// failures.
func (a *Services) DescribeServices(
	ctx context.Context, clusterName string, names []string,
) ([]*operation.ServiceDetail, []cluster.Failure, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	return describeEach(names, func(name string) (*operation.ServiceDetail, error) {
		s, err := a.findService(ctx, clusterName, name)
		if s == nil || err != nil {
			return nil, err
		}
		return a.serviceDetail(ctx, s)
	})
}

// ListServices gives the names of ACTIVE services, in order; more reports whether there are others
// after them.
func (a *Services) ListServices(ctx context.Context, q operation.ListServices) (names []string, more bool, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	r := state.Prefix(q.Cluster, state.PrefixService)
	if q.After != "" {
		r.From = state.PrefixService + q.After + "\x00"
	}
	services, err := listRows[*cluster.Service](ctx, a.State, r, "services")
	if err != nil {
		return nil, false, err
	}
	for _, s := range services {
		if s.Status != cluster.ServiceActive || q.Strategy != "" && s.Strategy != q.Strategy || q.External != nil &&
			*q.External != s.Rules.External {
			continue
		}
		if q.Limit > 0 && len(names) == q.Limit {
			return names, true, nil
		}
		names = append(names, s.Name)
	}
	return names, false, nil
}
