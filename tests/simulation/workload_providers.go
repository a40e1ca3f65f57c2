package simulation

import (
	"context"
	"fmt"
	"slices"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
)

// Actions on capacity providers and services that use them (S14).

// providerNames are also the names of the Auto Scaling groups.
var providerNames = []string{"on-demand", "spot"}

// providerStrategies are capacity provider strategies of services.
var providerStrategies = [][]cluster.ProviderShare{
	{{Provider: "on-demand", Base: 1, Weight: 1}, {Provider: "spot", Weight: 2}},
	{{Provider: "on-demand", Base: 2}, {Provider: "spot", Weight: 1}},
	{{Provider: "spot", Weight: 1}},
	{{Provider: "on-demand", Weight: 1}, {Provider: "spot", Weight: 1}},
}

// usesProviders reports whether some service of this run has a capacity provider strategy.
func (w *World) usesProviders() bool {
	return slices.ContainsFunc(w.Actions, func(a Action) bool { return a.Kind == "create-with-providers" })
}

// allowsFallback reports whether a task that has waited for its capacity provider may use another
// one of its strategy.
func (w *World) allowsFallback() bool { return w.usesProviders() && w.Seed%2 == 0 }

// createProviders creates the capacity providers. Nobody scales their groups.
func (w *World) createProviders() error {
	ctx := context.Background()
	for n, name := range providerNames {
		arn, err := w.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: name, Cluster: clusterName, Machine: machine,
			Max: 3, Desired: 1 + n, Tags: map[string]string{handler.OwnerTag: installation.Name}})
		if err != nil {
			return err
		}
		if _, err := w.API.CapacityProviders.CreateCapacityProvider(ctx,
			&cluster.CapacityProvider{Name: name, Group: name, GroupARN: arn,
				Scaling: cluster.DefaultScaling}); err != nil {
			return err
		}
	}
	_, err := w.API.ClusterProviders.PutClusterProviders(ctx, clusterName, providerNames, nil)
	return err
}

// createServiceWithProviders creates a service with a capacity provider strategy and without
// placement rules.
func (c *apiClient) createServiceWithProviders(a Action) {
	name := fmt.Sprint("p", a.Pick%2)
	if slices.ContainsFunc(c.services, func(o *expectedService) bool { return o.name == name }) {
		return
	}
	s := &expectedService{name: name, desired: 1 + a.N, exists: true, busy: true, hasProviders: true,
		definition: []string{"small:1", "checked:1", "big:1"}[a.Pick/2%3]}
	s.rules = &cluster.Rules{DomainPolicy: cluster.PolicyNone}
	c.services = append(c.services, s)
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: s.definition, Desired: &s.desired,
		Token: fmt.Sprint("create", a.Pick), Params: fmt.Sprint(a.Pick),
		Rules:             *s.rules,
		ServiceParameters: operation.ServiceParameters{Providers: &providerStrategies[a.Pick/6%uint64(len(providerStrategies))], ZoneRebalancing: new(bool)},
	}
	c.world.logf("create %s: %d of %s, by %+v", name, s.desired, s.definition, *spec.Providers)
	c.callUntilAnswered("create "+name, func(ctx context.Context) error {
		_, err := c.world.API.Services.CreateService(ctx, spec)
		return err
	}, func(err error) {
		if s.busy = false; err != nil {
			c.world.checker.Fail("invariant 9: creating service %s fails: %v", name, err)
		}
	})
}

// changeProviderStrategy gives a service another capacity provider strategy by a forced deployment.
func (c *apiClient) changeProviderStrategy(a Action) {
	for _, s := range c.services {
		if s.hasProviders && s.exists && !s.busy {
			next := providerStrategies[a.Pick/5%uint64(len(providerStrategies))]
			c.world.logf("share %s anew: %+v", s.name, next)
			c.startDeployment(s, operation.UpdateService{Force: true,
				ServiceParameters: operation.ServiceParameters{Providers: &next}})
			return
		}
	}
}
