package snapshot

import "berth/shared/cluster"

// A serviceSet holds the services of a cluster by name, and separately those that decisions look
// for.
type serviceSet struct {
	Services    map[string]*cluster.Service // by name
	blocked     map[string]*cluster.Service
	daemons     map[string]*cluster.Service
	governed    map[string]*cluster.Service
	rebalancing map[string]*cluster.Service // services whose zones are out of balance
	attached    map[string]*cluster.Service // services with an affinity to another one
}

func newServiceSet() serviceSet {
	return serviceSet{
		Services: map[string]*cluster.Service{}, blocked: map[string]*cluster.Service{},
		daemons:  map[string]*cluster.Service{},
		governed: map[string]*cluster.Service{}, rebalancing: map[string]*cluster.Service{},
		attached: map[string]*cluster.Service{},
	}
}

// indexService adds or replaces a service's row.
func (x *serviceSet) indexService(r *cluster.Service) {
	x.Services[r.Name] = r
	x.removeFromLists(r.Name)
	if r.Blocked != nil {
		x.blocked[r.Name] = r
	}
	if r.Rebalancing {
		x.rebalancing[r.Name] = r
	}
	if r.Strategy == cluster.Daemon {
		x.daemons[r.Name] = r
	}
	if r.Rules.MayForceMoves() && r.Strategy != cluster.Daemon {
		x.governed[r.Name] = r
	}
	if r.Rules.Affinity != "" {
		x.attached[r.Name] = r
	}
}

func (x *serviceSet) dropService(name string) {
	delete(x.Services, name)
	x.removeFromLists(name)
}

func (x *serviceSet) removeFromLists(name string) {
	delete(x.blocked, name)
	delete(x.daemons, name)
	delete(x.governed, name)
	delete(x.rebalancing, name)
	delete(x.attached, name)
}

// BlockedServices returns the services with tasks that found no instance, by name. The caller must
// not change the map.
func (x *serviceSet) BlockedServices() map[string]*cluster.Service { return x.blocked }

// RebalancingServices returns the services with a zone rebalancing in progress (S13), by name. The
// caller must not change the map.
func (x *serviceSet) RebalancingServices() map[string]*cluster.Service { return x.rebalancing }

// AttachedServices returns the services with an affinity to another one, by name. The caller must
// not change the map.
func (x *serviceSet) AttachedServices() map[string]*cluster.Service { return x.attached }

// DaemonServices returns the DAEMON services by name. The caller must not change the map.
func (x *serviceSet) DaemonServices() map[string]*cluster.Service { return x.daemons }
