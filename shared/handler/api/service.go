package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// CreateService writes a new service. The same clientToken with the same parameters gives the same service again.
func (a *Handler) CreateService(ctx context.Context, spec operation.CreateService) (*operation.ServiceDetail, error) {
	if _, err := a.known(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	if d, err := a.Created(ctx, spec); d != nil || err != nil {
		return d, err
	}
	def, err := a.definition(ctx, spec.Cluster, spec.TaskDefinition)
	if err != nil {
		return nil, err
	}
	if spec.Providers, err = a.strategy(ctx, spec); err != nil {
		return nil, err
	}
	var made *cluster.Service
	err = state.RetryRaces("creating service "+spec.Name, func() error {
		old, err := a.service(ctx, spec.Cluster, spec.Name)
		if err != nil {
			return err
		}
		if old != nil && old.Status != cluster.ServiceInactive {
			made, err = again(old, spec)
			return err
		}
		if made, err = a.newService(spec, def, old); err != nil {
			return err
		}
		if err := a.another(ctx, spec.Cluster); err != nil {
			return err
		}
		if err := a.usable(ctx, made, nil); err != nil {
			return err
		}
		if made.Strategy == cluster.Daemon {
			if made.Desired, err = a.active(ctx, spec.Cluster); err != nil {
				return err
			}
		}
		return a.narrowService(ctx, nil, made)
	})
	if err != nil {
		return nil, err
	}
	return a.detail(ctx, made)
}

// strategy is the service's capacity provider strategy, the cluster's default where the caller named neither one nor a launch
// type (S14). DAEMON services have none.
func (a *Handler) strategy(ctx context.Context, spec operation.CreateService) (*[]cluster.ProviderShare, error) {
	if given := listed(spec.Providers); given != nil || spec.Launched || spec.Strategy == cluster.Daemon {
		return spec.Providers, a.associated(ctx, spec.Cluster, given)
	}
	shares, err := a.defaultStrategy(ctx, spec.Cluster)
	if err != nil || len(shares) == 0 {
		return spec.Providers, err
	}
	return &shares, nil
}

// active counts the instances that a DAEMON service is taken to want until placement has looked: a waiter must not find
// that none of none is all.
func (a *Handler) active(ctx context.Context, clusterName string) (n int, err error) {
	rows, err := a.State.List(ctx, state.Prefix(clusterName, state.PrefixInstance))
	if err != nil {
		return 0, fmt.Errorf("listing instances: %w", err)
	}
	for _, row := range rows {
		if i, ok := row.(*cluster.Instance); ok && i.Status == cluster.InstanceActive {
			n++
		}
	}
	return n, nil
}

func (a *Handler) newService(spec operation.CreateService, def *cluster.TaskDefinition, old *cluster.Service) (*cluster.Service, error) {
	now := a.Clock.Now()
	s := &cluster.Service{
		Head: cluster.Head{Cluster: spec.Cluster, Rev: 1}, Name: spec.Name, Short: cluster.ShortKey(spec.Cluster, spec.Name, now),
		Status: cluster.ServiceActive, Strategy: cmp.Or(spec.Strategy, cluster.Replica),
		MinHealthy: 100, MaxPercent: 200, Role: spec.Role, CreatedAt: now, CreatedBy: spec.CreatedBy, Tags: spec.Tags,
		PropagateTags: spec.PropagateTags, Token: spec.Token, Params: spec.Params, Rules: spec.Rules,
	}
	if err := errors.Join(checkRules(&s.Rules, def, s.Strategy), networked(def, spec.Network)); err != nil {
		return nil, err
	}
	if s.Strategy == cluster.Daemon {
		s.MinHealthy, s.MaxPercent = 0, 100
	}
	if old != nil {
		s.Rev = old.Rev + 1
	}
	if err := change(s, spec.Desired, spec.MinHealthy, spec.MaxPercent); err != nil {
		return nil, err
	}
	take(s, spec.ServiceParameters)
	if err := early(s); err != nil {
		return nil, err
	}
	s.Providers = listed(spec.Providers)
	begin(s, cluster.Revision{
		TaskDefinition: def.Name(), Network: spec.Network, LoadBalancers: listed(spec.LoadBalancers), Registries: listed(spec.Registries),
	}, now)
	err := rebalanceable(s, def)
	if spec.ZoneRebalancing == nil {
		s.ZoneRebalancing = err == nil // what ECS does since 2025
	}
	if s.ZoneRebalancing && err != nil {
		return nil, err
	}
	return s, discoverable(s)
}

func listed[T any](given *[]T) []T {
	if given == nil || len(*given) == 0 {
		return nil
	}
	return *given
}

// take takes in what a caller gave of the parameters that make no deployment.
func take(s *cluster.Service, p operation.ServiceParameters) {
	s.Breaker = value(p.Breaker, s.Breaker)
	s.Alarms = value(p.Alarms, s.Alarms)
	s.Early = value(p.Early, s.Early)
	s.Grace = value(p.Grace, s.Grace)
	s.ZoneRebalancing = value(p.ZoneRebalancing, s.ZoneRebalancing)
	s.Options.ManagedTags = value(p.ManagedTags, s.Options.ManagedTags)
	s.Options.ExecuteCommand = value(p.ExecuteCommand, s.Options.ExecuteCommand)
}

// early refuses early success with fewer healthy tasks than there have to be in any case.
func early(s *cluster.Service) error {
	if s.Early.Enable && s.Early.Percent < s.MinHealthy {
		return cluster.Errorf(cluster.CodeInvalidParameter, "healthyPercent of earlySuccessCriteria is %d, but must be at least minimumHealthyPercent, which is %d.", s.Early.Percent, s.MinHealthy)
	}
	return nil
}

// discoverable refuses more tasks than a Cloud Map service has instances (a quota of ECS and Cloud Map).
func discoverable(s *cluster.Service) error {
	if len(s.Deployment.Registries) > 0 && s.Desired > cluster.MaxDiscovered {
		return cluster.Errorf(cluster.CodeInvalidParameter, "desiredCount is %d, but a service with serviceRegistries has at most %d tasks.", s.Desired, cluster.MaxDiscovered)
	}
	return nil
}

// change takes in the numbers of a service that a caller gave.
func change(s *cluster.Service, desired, minHealthy, maxPercent *int) error {
	if s.Strategy == cluster.Daemon {
		if desired != nil {
			return cluster.Errorf(cluster.CodeInvalidParameter, "The daemon scheduling strategy does not support a desired count. Remove desiredCount and try again.")
		}
		if maxPercent != nil && *maxPercent != 100 {
			return cluster.Errorf(cluster.CodeInvalidParameter, "The daemon scheduling strategy does not support values for maximumPercent other than 100.")
		}
	}
	for name, v := range map[string]*int{"desiredCount": desired, "minimumHealthyPercent": minHealthy, "maximumPercent": maxPercent} {
		if v != nil && *v < 0 {
			return cluster.Errorf(cluster.CodeInvalidParameter, "%s is %d, but must not be negative.", name, *v)
		}
	}
	if desired != nil && *desired > cluster.MaxDesired {
		return cluster.Errorf(cluster.CodeInvalidParameter, "desiredCount is %d, but a service has at most %d tasks.", *desired, cluster.MaxDesired)
	}
	s.Desired = value(desired, s.Desired)
	s.MinHealthy = value(minHealthy, s.MinHealthy)
	s.MaxPercent = value(maxPercent, s.MaxPercent)
	if s.MaxPercent < s.MinHealthy || s.MaxPercent == 0 {
		return cluster.Errorf(cluster.CodeInvalidParameter, "maximumPercent is %d, but must be above 0 and at least minimumHealthyPercent, which is %d.", s.MaxPercent, s.MinHealthy)
	}
	return nil
}

func value[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// narrowService writes a service, and its history, so that placement both wakes and cannot act on what it was before.
func (a *Handler) narrowService(ctx context.Context, old, s *cluster.Service) error {
	return state.NarrowAll(ctx, a.State, s.Cluster, func(stamp int64) ([]state.Write, error) {
		row := *s
		row.Stamp = stamp
		return append([]state.Write{{Put: &row}}, a.history(old, s)...), nil
	})
}

func (a *Handler) service(ctx context.Context, clusterName, name string) (*cluster.Service, error) {
	row, err := a.State.Get(ctx, state.ServiceKey(clusterName, name))
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", name, err)
	}
	s, _ := row.(*cluster.Service)
	return s, nil
}

// edit changes a service that is there.
func (a *Handler) edit(ctx context.Context, clusterName, name string, f func(*cluster.Service) error) (*operation.ServiceDetail, error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, err
	}
	var next cluster.Service
	err := state.RetryRaces("changing service "+name, func() error {
		old, err := a.service(ctx, clusterName, name)
		if err != nil {
			return err
		}
		if old == nil {
			return cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
		}
		next = *old
		next.Rev++
		if err := f(&next); err != nil {
			return err
		}
		return a.narrowService(ctx, old, &next)
	})
	if err != nil {
		return nil, err
	}
	return a.detail(ctx, &next)
}

// UpdateService changes a service. A change of what its tasks are made of, or one that is forced, is a new deployment
// (S8); all else holds from now on for what there is.
func (a *Handler) UpdateService(ctx context.Context, c operation.UpdateService) (*operation.ServiceDetail, error) {
	var definition string
	if c.TaskDefinition != "" {
		if _, err := a.known(ctx, c.Cluster); err != nil {
			return nil, err
		}
		def, err := a.definition(ctx, c.Cluster, c.TaskDefinition)
		if err != nil {
			return nil, err
		}
		definition = def.Name()
	}
	if err := a.associated(ctx, c.Cluster, listed(c.Providers)); err != nil {
		return nil, err
	}
	return a.reshape(ctx, c.Cluster, c.Name, func(s *cluster.Service) error {
		if s.Status != cluster.ServiceActive {
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		}
		return a.update(s, c, definition)
	})
}

func (a *Handler) update(s *cluster.Service, c operation.UpdateService, definition string) error {
	s.PropagateTags = cmp.Or(c.PropagateTags, s.PropagateTags)
	if c.Constraints != nil {
		s.Rules.Constraints = *c.Constraints
	}
	if c.Strategies != nil {
		if s.Strategy == cluster.Daemon && len(*c.Strategies) > 0 {
			return cluster.Errorf(cluster.CodeInvalidParameter, "The daemon scheduling strategy does not support placement strategies. Remove the placement strategies and try again.")
		}
		s.Rules.Strategies = *c.Strategies
	}
	take(s, c.ServiceParameters)
	if err := changeProviders(s, c); err != nil {
		return err
	}
	left := owed(s)
	if err := change(s, c.Desired, c.MinHealthy, c.MaxPercent); err != nil {
		return err
	}
	if err := early(s); err != nil {
		return err
	}
	next, differs := revised(s, c, definition)
	if differs || c.Force {
		if err := deploy(s, next, left, a.Clock.Now()); err != nil {
			return err
		}
	}
	return discoverable(s)
}

// changeProviders replaces the capacity provider strategy, which takes a forced deployment, as with ECS.
func changeProviders(s *cluster.Service, c operation.UpdateService) error {
	if c.Providers == nil || slices.Equal(*c.Providers, s.Providers) {
		return nil
	}
	switch {
	case s.Strategy == cluster.Daemon && len(*c.Providers) > 0:
		return cluster.Errorf(cluster.CodeUnsupported, "capacityProviderStrategy with the daemon scheduling strategy is not supported.")
	case !c.Force:
		return cluster.Errorf(cluster.CodeInvalidParameter, "A change of capacityProviderStrategy needs forceNewDeployment.")
	}
	s.Providers = listed(c.Providers)
	return nil
}

// DeleteService has a service's tasks stopped and the service with them. A REPLICA service must be at 0, or the
// deletion forced.
func (a *Handler) DeleteService(ctx context.Context, clusterName, name string, force bool) (*operation.ServiceDetail, error) {
	return a.edit(ctx, clusterName, name, func(s *cluster.Service) error {
		switch {
		case s.Status == cluster.ServiceInactive:
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		case s.Strategy == cluster.Replica && s.Desired > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter, "The service cannot be stopped while it is scaled above 0.")
		case s.Status == cluster.ServiceActive && len(s.Older) > 0 && !force:
			return cluster.Errorf(cluster.CodeInvalidParameter, "The service cannot be stopped while deployments are active.")
		}
		s.Status, s.Desired = cluster.ServiceDraining, 0
		s.Release = stopped(s.Release, a.Clock.Now(), "The service was deleted.")
		return nil
	})
}

// DescribeServices gives the services named, with their newest events; those that are not there as failures.
func (a *Handler) DescribeServices(ctx context.Context, clusterName string, names []string) ([]*operation.ServiceDetail, []cluster.Failure, error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	var out []*operation.ServiceDetail
	var missing []cluster.Failure
	for _, name := range names {
		s, err := a.service(ctx, clusterName, name)
		if err != nil {
			return nil, nil, err
		}
		if s == nil {
			missing = append(missing, cluster.Failure{ARN: name, Reason: "MISSING"})
			continue
		}
		d, err := a.detail(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, d)
	}
	return out, missing, nil
}

func (a *Handler) detail(ctx context.Context, s *cluster.Service) (*operation.ServiceDetail, error) {
	rows, err := a.State.List(ctx, state.Prefix(s.Cluster, state.PrefixEvent+s.Short+"#"))
	if err != nil {
		return nil, fmt.Errorf("listing the events of service %s: %w", s.Name, err)
	}
	d := &operation.ServiceDetail{Service: s}
	for _, row := range rows {
		if e, ok := row.(*cluster.ServiceEvent); ok {
			d.EventLog = append(d.EventLog, e)
		}
	}
	slices.SortFunc(d.EventLog, func(x, y *cluster.ServiceEvent) int { return cmp.Compare(y.Number, x.Number) })
	return d, nil
}

// ListServices gives the names of ACTIVE services, in order; more reports whether there are others after them.
func (a *Handler) ListServices(ctx context.Context, q operation.ListServices) (names []string, more bool, err error) {
	if _, err := a.known(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	r := state.Prefix(q.Cluster, state.PrefixService)
	if q.After != "" {
		r.From = state.PrefixService + q.After + "\x00"
	}
	rows, err := a.State.List(ctx, r)
	if err != nil {
		return nil, false, fmt.Errorf("listing services: %w", err)
	}
	for _, row := range rows {
		s, ok := row.(*cluster.Service)
		if !ok || s.Status != cluster.ServiceActive || q.Strategy != "" && s.Strategy != q.Strategy || q.External != nil && *q.External != s.Rules.External {
			continue
		}
		if q.Limit > 0 && len(names) == q.Limit {
			return names, true, nil
		}
		names = append(names, s.Name)
	}
	return names, false, nil
}

// Tag sets and removes tags of a service or a task.
func (a *Handler) Tag(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error {
	rules := slices.ContainsFunc(cluster.RuleTags, func(key string) bool {
		_, is := set[key]
		return is || slices.Contains(remove, key)
	})
	if rules && of.Kind == "service" {
		return a.tagService(ctx, of, set, remove)
	}
	return state.RetryRaces("tagging "+of.Name, func() error {
		row, tags, err := a.tagged(ctx, of)
		if err != nil {
			return err
		}
		if *tags, err = retagged(of.Name, *tags, set, remove); err != nil {
			return err
		}
		row.Header().Rev++
		_, err = a.State.Write(ctx, state.Write{Put: row})
		return err
	})
}

// retagged are the tags after some were set and some removed.
func retagged(name string, tags, set map[string]string, remove []string) (map[string]string, error) {
	next := map[string]string{}
	maps.Copy(next, tags)
	maps.Copy(next, set)
	for _, k := range remove {
		delete(next, k)
	}
	if len(next) > MaxTags {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "%s would have %d tags, but at most %d are allowed.", name, len(next), MaxTags)
	}
	return next, nil
}

// MaxTags is the most tags of one resource.
const MaxTags = 50

// Tags are the tags of a service or a task.
func (a *Handler) Tags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error) {
	_, tags, err := a.tagged(ctx, of)
	if err != nil {
		return nil, err
	}
	return *tags, nil
}

// tagged is a copy of the row, and where its tags are.
func (a *Handler) tagged(ctx context.Context, of cluster.ResourceARN) (state.Row, *map[string]string, error) {
	if of.Kind == "service" {
		s, err := a.service(ctx, of.Cluster, of.Name)
		if err != nil {
			return nil, nil, err
		}
		if s == nil {
			return nil, nil, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
		}
		next := *s
		next.Stamp = 0
		return &next, &next.Tags, nil
	}
	t, err := a.task(ctx, of.Cluster, of.Name)
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		return nil, nil, cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
	}
	next := *t
	return &next, &next.Tags, nil
}
