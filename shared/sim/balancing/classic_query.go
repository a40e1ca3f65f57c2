package balancing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// The answers, with the names of the API.
type (
	xmlBalancer struct {
		Name        string `xml:"LoadBalancerName"`
		DNSName     string
		HostedZone  string        `xml:"CanonicalHostedZoneNameID"`
		Listeners   []xmlListener `xml:"ListenerDescriptions>member"`
		Zones       []string      `xml:"AvailabilityZones>member"`
		Subnets     []string      `xml:"Subnets>member"`
		Groups      []string      `xml:"SecurityGroups>member"`
		Instances   []xmlInstance `xml:"Instances>member"`
		HealthCheck healthCheck
		Scheme      string
		CreatedTime time.Time
	}
	xmlListener struct{ Listener listener }
	xmlInstance struct{ InstanceId string }
	// classicResult has the members that any of the operations answers with.
	classicResult struct {
		DNSName     string           `xml:",omitempty"`
		Balancers   []xmlBalancer    `xml:"LoadBalancerDescriptions>member,omitempty"`
		Instances   []xmlInstance    `xml:"Instances>member,omitempty"`
		States      []instanceState  `xml:"InstanceStates>member,omitempty"`
		Settings    *classicSettings `xml:"LoadBalancerAttributes"`
		HealthCheck *healthCheck
		Tags        []classicTags `xml:"TagDescriptions>member,omitempty"`
	}
	classicTags struct {
		Name string         `xml:"LoadBalancerName"`
		Tags []xmlAttribute `xml:"Tags>member"`
	}
)

// classicSettings are the attributes of a Classic Load Balancer. Only ConnectionDraining has an
// effect here. Times are in seconds, EmitInterval in minutes.
type classicSettings struct {
	AccessLog *struct {
		Enabled                      bool
		EmitInterval                 int    `default:"60"`
		S3BucketName, S3BucketPrefix string `xml:",omitempty"`
	}
	ConnectionDraining *struct {
		Enabled bool
		Timeout int
	}
	ConnectionSettings     *struct{ IdleTimeout int }
	CrossZoneLoadBalancing *struct{ Enabled bool }
	// AdditionalAttributes has the desync mitigation mode.
	AdditionalAttributes []xmlAttribute `xml:"AdditionalAttributes>member"`
}

// defaultSettings are the attributes of a new load balancer.
func defaultSettings() (s classicSettings, err error) {
	no := protocol.Tree{"Enabled": "false", "Timeout": "300"}
	s.AdditionalAttributes = []xmlAttribute{{"elb.http.desyncmitigationmode", "defensive"}}
	return s, protocol.DecodeTree(protocol.Tree{"AccessLog": no, "ConnectionDraining": no,
		"CrossZoneLoadBalancing": no, "ConnectionSettings": protocol.Tree{"IdleTimeout": "60"}}, &s)
}

// update changes the attributes that are given. The timeout of connection draining stays unless
// it is given, too.
func (s *classicSettings) update(given *classicSettings) {
	if d := given.ConnectionDraining; d != nil && d.Timeout == 0 {
		d.Timeout = s.ConnectionDraining.Timeout
	}
	s.AccessLog = cmp.Or(given.AccessLog, s.AccessLog)
	s.ConnectionDraining = cmp.Or(given.ConnectionDraining, s.ConnectionDraining)
	s.ConnectionSettings = cmp.Or(given.ConnectionSettings, s.ConnectionSettings)
	s.CrossZoneLoadBalancing = cmp.Or(given.CrossZoneLoadBalancing, s.CrossZoneLoadBalancing)
	if given.AdditionalAttributes != nil {
		s.AdditionalAttributes = given.AdditionalAttributes
	}
}

// QueryService returns the operations of Elastic Load Balancing, version 1, that are simulated.
func (e *ClassicBalancers) QueryService() protocol.QueryService {
	a := &classicAPI{e}
	actions := a.changeActions()
	maps.Copy(actions, map[string]protocol.Action{
		"ConfigureHealthCheck":                protocol.StrictAction(a.configureHealthCheck),
		"CreateLoadBalancer":                  protocol.StrictAction(a.createBalancer),
		"DeleteLoadBalancer":                  protocol.StrictAction(a.deleteBalancer),
		"DeregisterInstancesFromLoadBalancer": protocol.StrictAction(a.deregisterInstances),
		"DescribeInstanceHealth":              protocol.StrictAction(a.describeInstanceHealth),
		"DescribeLoadBalancerAttributes":      protocol.StrictAction(a.describeSettings),
		"DescribeLoadBalancers":               protocol.StrictAction(a.describeBalancers),
		"DescribeTags":                        protocol.StrictAction(a.describeTags),
		"ModifyLoadBalancerAttributes":        protocol.StrictAction(a.modifySettings),
		"RegisterInstancesWithLoadBalancer":   protocol.StrictAction(a.registerInstances),
	})
	return protocol.QueryService{
		Namespace: "http://elasticloadbalancing.amazonaws.com/doc/2012-06-01/", Actions: actions,
	}
}

// classicAPI answers calls of the Query protocol.
type classicAPI struct{ balancers *ClassicBalancers }

// dnsName is under invalid, so that no client reaches anybody else's load balancer.
func (b *classicBalancer) dnsName() string { return strings.ToLower(b.Name) + ".elb.invalid" }

func (b *classicBalancer) describeBalancer() xmlBalancer {
	out := xmlBalancer{
		Name: b.Name, DNSName: b.dnsName(), HostedZone: "Z00000000000000000000", Zones: b.Zones, Subnets: b.Subnets,
		Groups: b.Groups, HealthCheck: b.Check, Scheme: b.Scheme, CreatedTime: b.CreatedAt,
	}
	for _, l := range b.Listeners {
		out.Listeners = append(out.Listeners, xmlListener{l})
	}
	for _, t := range b.Instances {
		out.Instances = append(out.Instances, xmlInstance{t.Address.Host})
	}
	return out
}

// createBalancer gives a load balancer Elastic Load Balancing's defaults: no connection draining,
// and a check of the first listener's port.
func (a *classicAPI) createBalancer(_ context.Context, in *struct {
	LoadBalancerName  string `protocol:"required"`
	AvailabilityZones []string
	Subnets           []string
	SecurityGroups    []string
	Scheme            string `default:"internet-facing"`
	Tags              []tagInput
	Listeners         []listener
}) (any, error) {
	var out classicResult
	listeners, err := newListeners(in.Listeners)
	if err != nil {
		return nil, err
	}
	err = a.balancers.kernel.Change(func(now time.Time) error {
		b := &classicBalancer{
			Name: in.LoadBalancerName, Zones: in.AvailabilityZones, Subnets: in.Subnets, Groups: in.SecurityGroups,
			Scheme: in.Scheme, CreatedAt: now, Tags: tagMap(in.Tags),
		}
		b.Listeners = listeners
		if b.Settings, err = defaultSettings(); err != nil {
			return err
		}
		if len(b.Listeners) > 0 {
			b.Check = healthCheck{
				Target: fmt.Sprint("TCP:", b.Listeners[0].InstancePort), Interval: 30, Timeout: 5,
				UnhealthyThreshold: 2, HealthyThreshold: 10,
			}
		}
		b, err := a.balancers.addBalancer(b)
		if err == nil {
			out.DNSName = b.dnsName()
		}
		return err
	})
	return &out, err
}

// describeBalancers fails if one of the load balancers named does not exist.
func (a *classicAPI) describeBalancers(_ context.Context, in *struct {
	LoadBalancerNames []string
	PageSize          int // all are answered with at once
}) (any, error) {
	var out classicResult
	err := a.balancers.kernel.View(func(now time.Time) error {
		names := in.LoadBalancerNames
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(a.balancers.Rows))
		}
		for _, name := range names {
			b, err := a.balancers.findBalancer(name, now)
			if err != nil {
				return err
			}
			out.Balancers = append(out.Balancers, b.describeBalancer())
		}
		return nil
	})
	return &out, err
}

type classicInput struct {
	LoadBalancerName string `protocol:"required"`
}

// deleteBalancer deletes a load balancer, if it exists.
func (a *classicAPI) deleteBalancer(_ context.Context, in *classicInput) (any, error) {
	return nil, a.balancers.kernel.Change(func(time.Time) error {
		if b := a.balancers.Rows[in.LoadBalancerName]; b != nil {
			delete(a.balancers.Rows, b.Name)
			a.balancers.kernel.DeleteRow(b)
		}
		return nil
	})
}

// instancesInput names instances of a load balancer; none for all of them in
// DescribeInstanceHealth.
type instancesInput struct {
	LoadBalancerName string `protocol:"required"`
	Instances        []xmlInstance
}

func (in *instancesInput) addresses() (out []cluster.Address) {
	for _, i := range in.Instances {
		out = append(out, cluster.Address{Host: i.InstanceId})
	}
	return out
}

func (a *classicAPI) registerInstances(ctx context.Context, in *instancesInput) (any, error) {
	err := a.balancers.RegisterTargets(ctx, in.LoadBalancerName, in.addresses())
	if err != nil {
		return nil, err
	}
	return a.registeredInstances(in.LoadBalancerName)
}

func (a *classicAPI) deregisterInstances(ctx context.Context, in *instancesInput) (any, error) {
	err := a.balancers.DeregisterTargets(ctx, in.LoadBalancerName, in.addresses())
	if err != nil {
		return nil, err
	}
	return a.registeredInstances(in.LoadBalancerName)
}

// registeredInstances answers with the instances that a load balancer has then.
func (a *classicAPI) registeredInstances(name string) (any, error) {
	var out classicResult
	err := a.balancers.kernel.View(func(now time.Time) error {
		b, err := a.balancers.findBalancer(name, now)
		if err == nil {
			out.Instances = b.describeBalancer().Instances
		}
		return err
	})
	return &out, err
}

// describeInstanceHealth refuses instances that are not registered.
func (a *classicAPI) describeInstanceHealth(_ context.Context, in *instancesInput) (any, error) {
	var out classicResult
	err := a.balancers.kernel.CallView("DescribeInstanceHealth", in.LoadBalancerName, func(now time.Time) error {
		b, err := a.balancers.findBalancer(in.LoadBalancerName, now)
		if err != nil {
			return err
		}
		asked := in.addresses()
		for _, t := range b.Instances {
			if len(asked) == 0 || slices.Contains(asked, t.Address) {
				out.States = append(out.States, a.balancers.instanceState(b, t, now))
			}
		}
		if len(out.States) < len(asked) {
			return cluster.Errorf(cluster.CodeInvalidInstance, "One or more instances are not registered with %s",
				b.Name)
		}
		return nil
	})
	return &out, err
}

func (a *classicAPI) describeSettings(_ context.Context, in *classicInput) (any, error) {
	var out classicResult
	err := a.balancers.kernel.CallView("DescribeLoadBalancerAttributes", in.LoadBalancerName,
		func(now time.Time) error {
			b, err := a.balancers.findBalancer(in.LoadBalancerName, now)
			if err == nil {
				settings := b.Settings
				out.Settings = &settings
			}
			return err
		})
	return &out, err
}

// modifySettings changes the attributes that are given.
func (a *classicAPI) modifySettings(_ context.Context, in *struct {
	LoadBalancerName       string           `protocol:"required"`
	LoadBalancerAttributes *classicSettings `protocol:"strict"`
}) (any, error) {
	var out classicResult
	return &out, a.changeBalancer(in.LoadBalancerName, func(b *classicBalancer) error {
		if in.LoadBalancerAttributes == nil {
			return cluster.Errorf("ValidationError", "LoadBalancerAttributes must not be null")
		}
		if c := in.LoadBalancerAttributes.ConnectionDraining; c != nil && (c.Timeout < 0 || c.Timeout > 3600) {
			return cluster.Errorf("ValidationError", "ConnectionDraining.Timeout must be between 1 and 3600")
		}
		b.Settings.update(in.LoadBalancerAttributes)
		settings := b.Settings
		out.Settings = &settings
		return nil
	})
}

func (a *classicAPI) configureHealthCheck(_ context.Context, in *struct {
	LoadBalancerName string `protocol:"required"`
	HealthCheck      healthCheck
}) (any, error) {
	return &classicResult{HealthCheck: &in.HealthCheck}, a.changeBalancer(in.LoadBalancerName,
		func(b *classicBalancer) error {
			b.Check = in.HealthCheck
			return nil
		})
}

func (a *classicAPI) describeTags(_ context.Context, in *struct{ LoadBalancerNames []string }) (any, error) {
	var out classicResult
	err := a.balancers.kernel.View(func(now time.Time) error {
		for _, name := range in.LoadBalancerNames {
			b, err := a.balancers.findBalancer(name, now)
			if err != nil {
				return err
			}
			tags := classicTags{Name: name}
			for _, key := range slices.Sorted(maps.Keys(b.Tags)) {
				tags.Tags = append(tags.Tags, xmlAttribute{key, b.Tags[key]})
			}
			out.Tags = append(out.Tags, tags)
		}
		return nil
	})
	return &out, err
}
