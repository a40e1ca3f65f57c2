package balancing

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// changeActions are the operations that tools use to change a Classic Load Balancer's listeners,
// network and tags.
func (a *classicAPI) changeActions() map[string]protocol.Action {
	return map[string]protocol.Action{
		"AddTags":                                 protocol.StrictAction(a.addTags),
		"ApplySecurityGroupsToLoadBalancer":       protocol.StrictAction(a.applyGroups),
		"AttachLoadBalancerToSubnets":             protocol.StrictAction(a.attachSubnets),
		"CreateLoadBalancerListeners":             protocol.StrictAction(a.createListeners),
		"DeleteLoadBalancerListeners":             protocol.StrictAction(a.deleteListeners),
		"DetachLoadBalancerFromSubnets":           protocol.StrictAction(a.detachSubnets),
		"DisableAvailabilityZonesForLoadBalancer": protocol.StrictAction(a.disableZones),
		"EnableAvailabilityZonesForLoadBalancer":  protocol.StrictAction(a.enableZones),
		"RemoveTags":                              protocol.StrictAction(a.removeTags),
	}
}

// newListeners checks listeners and completes them with their defaults.
func newListeners(in []listener) (out []listener, err error) {
	for _, l := range in {
		l.InstanceProtocol = cmp.Or(l.InstanceProtocol, l.Protocol)
		if l.InstancePort < 1 || l.InstancePort > maxPort || l.LoadBalancerPort < 1 || l.LoadBalancerPort > maxPort {
			return nil, cluster.Errorf("ValidationError", "a listener leads from port %d to %d, which is out of bounds",
				l.LoadBalancerPort, l.InstancePort)
		}
		out = append(out, l)
	}
	return out, nil
}

// changeBalancer changes a load balancer, or leaves it as it is where change fails.
func (a *classicAPI) changeBalancer(name string, change func(b *classicBalancer) error) error {
	return a.balancers.kernel.Change(func(now time.Time) error {
		b, err := a.balancers.findBalancer(name, now)
		if err == nil {
			err = change(b)
		}
		if err == nil {
			a.balancers.kernel.SaveRow(b)
		}
		return err
	})
}

// createListeners adds listeners, all of them or none. A listener that is there already succeeds.
func (a *classicAPI) createListeners(_ context.Context, in *struct {
	LoadBalancerName string `protocol:"required"`
	Listeners        []listener
}) (any, error) {
	added, err := newListeners(in.Listeners)
	if err != nil {
		return nil, err
	}
	return nil, a.changeBalancer(in.LoadBalancerName, func(b *classicBalancer) error {
		listeners := slices.Clone(b.Listeners)
		for _, l := range added {
			at := slices.IndexFunc(listeners, func(o listener) bool { return o.LoadBalancerPort == l.LoadBalancerPort })
			switch {
			case at < 0:
				listeners = append(listeners, l)
			case listeners[at] != l:
				return cluster.Errorf("DuplicateListener",
					"A listener already exists for %s with LoadBalancerPort %d, "+
						"but with a different InstancePort, Protocol, or SSLCertificateId", b.Name, l.LoadBalancerPort)
			}
		}
		b.Listeners = listeners
		return nil
	})
}

// deleteListeners removes the listeners of some ports. A load balancer whose last listener goes
// checks the port that its health check names.
func (a *classicAPI) deleteListeners(_ context.Context, in *struct {
	LoadBalancerName  string `protocol:"required"`
	LoadBalancerPorts []int
}) (any, error) {
	return nil, a.changeBalancer(in.LoadBalancerName, func(b *classicBalancer) error {
		b.Listeners = slices.DeleteFunc(b.Listeners,
			func(l listener) bool { return slices.Contains(in.LoadBalancerPorts, l.LoadBalancerPort) })
		return nil
	})
}

func (a *classicAPI) addTags(_ context.Context, in *struct {
	LoadBalancerNames []string
	Tags              []tagInput
}) (any, error) {
	return nil, a.changeTags(in.LoadBalancerNames, func(b *classicBalancer) {
		for _, t := range in.Tags {
			b.Tags[t.Key] = t.Value
		}
	})
}

func (a *classicAPI) removeTags(_ context.Context, in *struct {
	LoadBalancerNames []string
	Tags              []struct{ Key string }
}) (any, error) {
	return nil, a.changeTags(in.LoadBalancerNames, func(b *classicBalancer) {
		for _, t := range in.Tags {
			delete(b.Tags, t.Key)
		}
	})
}

// changeTags changes the tags of one load balancer: the API takes one name a call.
func (a *classicAPI) changeTags(names []string, change func(b *classicBalancer)) error {
	if len(names) != 1 {
		return cluster.Errorf("ValidationError", "exactly one load balancer must be named, not %d", len(names))
	}
	return a.changeBalancer(names[0], func(b *classicBalancer) error {
		if b.Tags == nil {
			b.Tags = map[string]string{}
		}
		change(b)
		return nil
	})
}

// A networkInput names zones, subnets or security groups of a load balancer. They are kept and
// described, and change nothing.
type networkInput struct {
	LoadBalancerName                           string `protocol:"required"`
	AvailabilityZones, Subnets, SecurityGroups []string
}

func (a *classicAPI) enableZones(_ context.Context, in *networkInput) (any, error) {
	return a.changeNetwork(in, func(b *classicBalancer) { b.Zones = union(b.Zones, in.AvailabilityZones) })
}

func (a *classicAPI) disableZones(_ context.Context, in *networkInput) (any, error) {
	return a.changeNetwork(in, func(b *classicBalancer) { b.Zones = without(b.Zones, in.AvailabilityZones) })
}

func (a *classicAPI) attachSubnets(_ context.Context, in *networkInput) (any, error) {
	return a.changeNetwork(in, func(b *classicBalancer) { b.Subnets = union(b.Subnets, in.Subnets) })
}

func (a *classicAPI) detachSubnets(_ context.Context, in *networkInput) (any, error) {
	return a.changeNetwork(in, func(b *classicBalancer) { b.Subnets = without(b.Subnets, in.Subnets) })
}

func (a *classicAPI) applyGroups(_ context.Context, in *networkInput) (any, error) {
	return a.changeNetwork(in, func(b *classicBalancer) { b.Groups = in.SecurityGroups })
}

// changeNetwork answers with what the load balancer has after a change.
func (a *classicAPI) changeNetwork(in *networkInput, change func(b *classicBalancer)) (any, error) {
	var out struct {
		Zones   []string `xml:"AvailabilityZones>member"`
		Subnets []string `xml:"Subnets>member"`
		Groups  []string `xml:"SecurityGroups>member"`
	}
	return &out, a.changeBalancer(in.LoadBalancerName, func(b *classicBalancer) error {
		change(b)
		out.Zones, out.Subnets, out.Groups = b.Zones, b.Subnets, b.Groups
		return nil
	})
}

// union returns the items of both lists, each once, in order.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// without returns the items of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
