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

// Services creates, changes, deletes and describes services. quotas is what this environment
// remembers of how many there are.
type Services struct {
	*Dependencies
	quotas quotas
}

// CreateService writes a new service. The same clientToken with the same parameters returns the
// service that exists already; any other use of a taken name is an InvalidParameterException. The
// name of an INACTIVE service is free.
//
// A DAEMON service's desired count is set to the number of ACTIVE instances, until placement has
// counted those that are eligible.
func (a *Services) CreateService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error) {
	if _, err := a.findCluster(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	// A repeated call must succeed, even if the checks below would now fail.
	if d, err := a.FindCreatedService(ctx, spec); d != nil || err != nil {
		return d, err
	}
	def := &cluster.TaskDefinition{} // task sets bring their own
	if spec.Controller != cluster.ExternalController {
		var err error
		if def, err = a.lookUpDefinition(ctx, spec.Cluster, spec.TaskDefinition); err != nil {
			return nil, err
		}
		if spec.Providers, err = a.providerStrategy(ctx, spec); err != nil {
			return nil, err
		}
	}
	var made *cluster.Service
	err := a.retryNarrowing(ctx, spec.Cluster, "creating service "+spec.Name, func() error {
		old, err := a.findService(ctx, spec.Cluster, spec.Name)
		if err != nil {
			return err
		}
		if old != nil && old.Status != cluster.ServiceInactive {
			// The name is taken, perhaps by the same call a moment ago.
			made, err = resolveServiceConflict(old, spec)
			return err
		}
		if made, err = a.newService(spec, def, old); err != nil {
			return err
		}
		// Not earlier: what newService refuses takes no place in the count.
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

// FindCreatedService returns the service that an earlier CreateService with the same clientToken
// made, nil if none did. It comes before all checks: a repeated call must succeed even if the task
// definition has been deregistered since, or the capacity provider removed. The token with other
// parameters is refused.
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

// resolveServiceConflict answers a CreateService whose name is taken: with the service, if it is
// the same call again, else with ECS's error.
func resolveServiceConflict(old *cluster.Service, spec operation.CreateService) (*cluster.Service, error) {
	switch {
	case spec.Token != "" && old.Token == spec.Token && old.Params == spec.Params:
		return old, nil
	case old.Status == cluster.ServiceDraining:
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Unable to Start a service that is still Draining.")
	}
	return nil, cluster.Errorf(cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
}

// providerStrategy returns the service's capacity provider strategy: the one given, or the
// cluster's default if the caller named neither a strategy nor a launch type (S14). DAEMON services
// have none.
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

// countActiveInstances returns how many tasks a new DAEMON service is assumed to want. With 0, a
// client that waits for the service to be stable would see 0 of 0 tasks running and stop waiting.
func (a *Services) countActiveInstances(ctx context.Context, clusterName string) (n int, err error) {
	instances, err := state.ListRows[*cluster.Instance](ctx, a.State, state.Prefix(clusterName, state.PrefixInstance),
		"instances")
	for _, i := range instances {
		if i.Status == cluster.InstanceActive {
			n++
		}
	}
	return n, err
}

// newService returns the row of a new service, with its first deployment. old is the INACTIVE
// service of the same name, or nil; the row continues its revisions, so that writes cannot be
// confused.
//
// Defaults are ECS's: minimumHealthyPercent 100 and maximumPercent 200, for DAEMON 0 and 100.
func (a *Services) newService(
	spec operation.CreateService, def *cluster.TaskDefinition, old *cluster.Service,
) (*cluster.Service, error) {
	now := a.Clock.Now()
	s := &cluster.Service{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{
			Name: spec.Name, Short: cluster.ShortKey(spec.Cluster, spec.Name, now), CreatedAt: now,
			CreatedBy: spec.CreatedBy, Token: spec.Token, Params: spec.Params, Controller: spec.Controller,
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
	if s.HasTaskSets() {
		s.SetTaskSets(nil, "")
		s.ZoneRebalancing = false
		return s, checkRolloutParameters(spec.ServiceParameters)
	}
	s.Providers = listOrNil(spec.Providers)
	setDeployment(s, cluster.Revision{
		TaskDefinition: def.Name(), Network: spec.Network, LoadBalancers: listOrNil(spec.LoadBalancers),
		Registries: listOrNil(spec.Registries), Volumes: listOrNil(spec.Volumes),
	}, now)
	if err := checkVolumeTags(s.Deployment.Volumes, s.Tags, def.Tags); err != nil {
		return nil, err
	}
	err := checkRebalancing(s, def)
	if spec.ZoneRebalancing == nil {
		// Not given, it is on where it is possible, as with ECS since 2025.
		s.ZoneRebalancing = err == nil
	}
	if s.ZoneRebalancing && err != nil {
		return nil, err
	}
	return s, checkDiscoverable(s)
}

// UpdateService changes a service. A change of what its tasks are made of (task definition,
// network, load balancers, registries), or a forced one, starts a deployment (S8). Everything else
// applies to the running deployment from now on.
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
		if c.Controller != nil && *c.Controller != s.Controller {
			return cluster.Errorf(cluster.CodeUnsupported,
				"A change of deploymentController is not supported: create another service.")
		}
		if s.HasTaskSets() {
			if err := checkExternalUpdate(c); err != nil {
				return err
			}
		}
		return a.applyUpdate(s, c, definition)
	})
}

// applyUpdate applies the members that were given to s. definition is the task definition as
// family:revision, empty if it stays.
func (a *Services) applyUpdate(s *cluster.Service, c operation.UpdateService, definition string) error {
	s.PropagateTags = cmp.Or(c.PropagateTags, s.PropagateTags)
	if c.Constraints != nil {
		s.Rules.Constraints = *c.Constraints
	}
	if c.Strategies != nil {
		if s.Strategy == cluster.Daemon && len(*c.Strategies) > 0 {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The daemon scheduling strategy does not support placement strategies. Remove the placement "+
					"strategies and try again.")
		}
		s.Rules.Strategies = *c.Strategies
	}
	applyParameters(s, c.ServiceParameters)
	if err := changeProviders(s, c); err != nil {
		return err
	}
	// Taken before the desired count changes: the older deployment keeps what it was to have.
	left := desiredOfPrevious(s)
	if err := applyCounts(s, c.Desired, c.MinHealthy, c.MaxPercent); err != nil {
		return err
	}
	if s.HasTaskSets() {
		return rescaleTaskSets(s, a.Clock.Now())
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

// changeProviders replaces the capacity provider strategy. As with ECS that needs
// forceNewDeployment: the strategy applies where tasks start.
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

// DeleteService lets a service end: it is DRAINING until its tasks have stopped, then INACTIVE
// (S10). Unless force is set, a REPLICA service must have been scaled to 0 and no older deployment
// may be left. A service that is DRAINING or INACTIVE is returned as it is: deleting it again succeeds,
// as with ECS (aws/aws-sdk-js issue 4189).
func (a *Services) DeleteService(
	ctx context.Context, clusterName, name string, force bool,
) (*operation.ServiceDetail, error) {
	return a.editService(ctx, clusterName, name, func(s *cluster.Service) error {
		switch {
		case s.Status != cluster.ServiceActive:
			return errUnchanged
		case s.Strategy == cluster.Replica && s.Desired > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The service cannot be stopped while it is scaled above 0.")
		case len(s.Older)+len(s.TaskSets()) > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The service cannot be stopped while deployments are active.")
		}
		// Placement stops the tasks, and makes the service INACTIVE when the last one has stopped.
		s.Status, s.Desired = cluster.ServiceDraining, 0
		s.Release = stoppedRelease(s.Release, a.Clock.Now(), "The service was deleted.")
		return nil
	})
}

// UpdateRules sets the rules that tags of Berth's own stand for, without a tag being set (P8). A
// tag of the service that says otherwise is removed: it would no longer be true.
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

// DescribeServices returns the services named, with their newest events. INACTIVE services are
// found until their rows expire; then they are MISSING (S10).
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

// ListServices returns a page of the names of ACTIVE services, in order. more reports whether there
// is another page.
func (a *Services) ListServices(ctx context.Context, q operation.ListServices) (names []string, more bool, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	r := state.Prefix(q.Cluster, state.PrefixService)
	if q.After != "" {
		r.From = state.PrefixService + q.After + "\x00"
	}
	r.Limit = maxListedRows
	if q.Limit > 0 {
		r.Limit = min(q.Limit+1, maxListedRows) // one more says whether there is another page
	}
	for {
		services, err := state.ListRows[*cluster.Service](ctx, a.State, r, "services")
		if err != nil {
			return nil, false, err
		}
		for _, s := range services {
			if s.Status != cluster.ServiceActive || q.Strategy != "" && s.Strategy != q.Strategy || q.External != nil &&
				*q.External != s.OfRevision(s.Deployment.ID).Rules.External {
				continue
			}
			if q.Limit > 0 && len(names) == q.Limit {
				return names, true, nil
			}
			names = append(names, s.Name)
		}
		if len(services) < r.Limit {
			return names, false, nil
		}
		r.From = state.KeyOf(services[len(services)-1]).Sort + "\x00"
	}
}
