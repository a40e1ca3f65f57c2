package snapshot

import "berth/shared/cluster"

// A serviceSet holds the services of a cluster, and those that decisions look for, by name.
type serviceSet struct {
	Services    map[string]*cluster.Service // by name
	blocked     map[string]*cluster.Service
	daemons     map[string]*cluster.Service
	governed    map[string]*cluster.Service
	rebalancing map[string]*cluster.Service // services whose zones are out of balance
}

func newServiceSet() serviceSet {
	return serviceSet{
		Services: map[string]*cluster.Service{}, blocked: map[string]*cluster.Service{},
		daemons:  map[string]*cluster.Service{},
		governed: map[string]*cluster.Service{}, rebalancing: map[string]*cluster.Service{},
	}
}

func (x *serviceSet) put(r *cluster.Service) {
	x.Services[r.Name] = r
	x.unlist(r.Name)
	if r.Blocked != nil {
		x.blocked[r.Name] = r
	}
	if r.Rebalancing {
		x.rebalancing[r.Name] = r
	}
	if r.Strategy == cluster.Daemon {
		x.daemons[r.Name] = r
	}
	if r.Rules.Govern() && r.Strategy != cluster.Daemon {
		x.governed[r.Name] = r
	}
}

func (x *serviceSet) remove(name string) {
	delete(x.Services, name)
	x.unlist(name)
}

func (x *serviceSet) unlist(name string) {
	delete(x.blocked, name)
	delete(x.daemons, name)
	delete(x.governed, name)
	delete(x.rebalancing, name)
}

// Blocked returns the services that want tasks which found no instance, by name. The caller changes
// nothing.
func (x *serviceSet) Blocked() map[string]*cluster.Service { return x.blocked }

// Rebalancing returns the services whose tasks are moving to other zones, or should be (S13), by
// name. The caller changes nothing.
func (x *serviceSet) Rebalancing() map[string]*cluster.Service { return x.rebalancing }

// Daemons returns the DAEMON services, by name. The caller changes nothing.
func (x *serviceSet) Daemons() map[string]*cluster.Service { return x.daemons }
