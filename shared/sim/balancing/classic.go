package balancing

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

const classicBucket = "classicLoadBalancers"

// ClassicBalancers are the Classic Load Balancers of Elastic Load Balancing (version 1). They have
// instances, and each of their listeners leads to the same port of every instance.
type ClassicBalancers struct {
	kernel.Table[*classicBalancer] // by name

	kernel       *kernel.Kernel
	tasks        Tasks
	healthyAfter time.Duration
}

// NewClassicBalancers returns no Classic Load Balancers yet. An instance is InService when it has
// been registered for healthyAfter and a task runs where the health check asks.
func NewClassicBalancers(k *kernel.Kernel, tasks Tasks, healthyAfter time.Duration) *ClassicBalancers {
	return &ClassicBalancers{
		Table: kernel.NewTable[*classicBalancer](classicBucket), kernel: k, tasks: tasks, healthyAfter: healthyAfter,
	}
}

// classicBalancer is a Classic Load Balancer, as stored.
type classicBalancer struct {
	Name                   string
	Listeners              []listener
	Zones, Subnets, Groups []string `json:",omitempty"`
	Scheme                 string
	CreatedAt              time.Time
	Check                  healthCheck
	Settings               classicSettings
	Instances              []target          // in order of registration; their addresses have no port
	Tags                   map[string]string `json:",omitempty"`
}

// listener leads from a port of the load balancer to one of every instance.
type listener struct {
	Protocol         string
	LoadBalancerPort int
	InstanceProtocol string
	InstancePort     int
}

// healthCheck is what a Classic Load Balancer asks its instances. Only the port of the target has
// an effect here.
type healthCheck struct {
	Target                                                  string
	Interval, Timeout, UnhealthyThreshold, HealthyThreshold int
}

func (b *classicBalancer) StoredRow() (string, string, any) { return classicBucket, b.Name, b }

var classicNames = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)

// addBalancer checks and adds a load balancer. One of that name may exist if it has the same
// listeners.
func (e *ClassicBalancers) addBalancer(b *classicBalancer) (*classicBalancer, error) {
	switch old := e.Rows[b.Name]; {
	case !classicNames.MatchString(b.Name):
		return nil, cluster.Errorf("ValidationError", "LoadBalancer name '%.64s' must have 1 to 32 letters, digits or "+
			"hyphens", b.Name)
	case len(b.Listeners) == 0:
		return nil, cluster.Errorf("ValidationError", "Listeners cannot be empty")
	case len(b.Zones)+len(b.Subnets) == 0:
		return nil, cluster.Errorf("ValidationError", "Either AvailabilityZones or SubnetIds must be specified")
	case old != nil && !slices.Equal(old.Listeners, b.Listeners):
		return nil, cluster.Errorf("DuplicateLoadBalancerName",
			"The load balancer name '%s' exists with other listeners", b.Name)
	case old != nil:
		return old, nil
	}
	e.Rows[b.Name] = b
	e.kernel.SaveRow(b)
	return b, nil
}

// findBalancer returns a load balancer, after removing the instances whose connections have
// drained.
func (e *ClassicBalancers) findBalancer(name string, now time.Time) (*classicBalancer, error) {
	b := e.Rows[name]
	if b == nil {
		return nil, cluster.Errorf(cluster.CodeBalancerNotFound, "There is no ACTIVE Load Balancer named '%s'", name)
	}
	b.Instances = slices.DeleteFunc(b.Instances,
		func(t target) bool { return !t.Until.IsZero() && !t.Until.After(now) })
	return b, nil
}

// RegisterTargets registers the instances at addresses with a load balancer, all of them or none.
// It ends the deregistration of those that are draining.
func (e *ClassicBalancers) RegisterTargets(_ context.Context, name string, targets []cluster.Address) error {
	return e.kernel.Call("RegisterInstancesWithLoadBalancer", name, func(now time.Time) error {
		b, err := e.findBalancer(name, now)
		if err != nil {
			return err
		}
		for _, a := range targets {
			if !e.tasks.HasMachine(a.Host) {
				return cluster.Errorf(cluster.CodeInvalidInstance, "Could not find EC2 instance %.64s.", a.Host)
			}
		}
		for _, a := range targets {
			at := slices.IndexFunc(b.Instances, func(o target) bool { return o.Address.Host == a.Host })
			t := target{Address: cluster.Address{Host: a.Host}, Registered: now}
			if at < 0 {
				b.Instances = append(b.Instances, t)
			} else if !b.Instances[at].Until.IsZero() {
				b.Instances[at] = t
			}
		}
		e.kernel.SaveRow(b)
		return nil
	})
}

// DeregisterTargets starts to drain the instances at addresses. They are gone after the timeout of
// connection draining, at once where it is off.
func (e *ClassicBalancers) DeregisterTargets(_ context.Context, name string, targets []cluster.Address) error {
	return e.kernel.Call("DeregisterInstancesFromLoadBalancer", name, func(now time.Time) error {
		b, err := e.findBalancer(name, now)
		if err != nil {
			return err
		}
		for k := range b.Instances {
			t := &b.Instances[k]
			if t.Until.IsZero() && slices.ContainsFunc(targets,
				func(a cluster.Address) bool { return a.Host == t.Address.Host }) {
				t.Until = now.Add(b.drainingTimeout())
			}
		}
		e.kernel.SaveRow(b)
		return nil
	})
}

// drainingTimeout is how long connections of a deregistered instance drain.
func (b *classicBalancer) drainingTimeout() time.Duration {
	if d := b.Settings.ConnectionDraining; d == nil || !d.Enabled {
		return 0
	}
	return time.Duration(b.Settings.ConnectionDraining.Timeout) * time.Second
}

// DeregistrationDelay returns how long the connections of a deregistered instance drain.
func (e *ClassicBalancers) DeregistrationDelay(_ context.Context, name string) (delay time.Duration, err error) {
	err = e.kernel.CallView("DescribeLoadBalancerAttributes", name, func(now time.Time) error {
		b, err := e.findBalancer(name, now)
		if err == nil {
			delay = b.drainingTimeout()
		}
		return err
	})
	return delay, err
}

// TargetHealth returns the health of every instance of a load balancer.
func (e *ClassicBalancers) TargetHealth(
	_ context.Context, name string,
) (map[cluster.Address]cluster.TargetHealth, error) {
	out := map[cluster.Address]cluster.TargetHealth{}
	err := e.kernel.CallView("DescribeInstanceHealth", name, func(now time.Time) error {
		b, err := e.findBalancer(name, now)
		if err != nil {
			return err
		}
		for _, t := range b.Instances {
			s := e.instanceState(b, t, now)
			out[t.Address] = cluster.TargetHealth{Health: s.forScheduler(), Reason: s.Description}
		}
		return nil
	})
	return out, err
}

// HasTask reports whether a task runs where a load balancer checks one of its instances.
func (e *ClassicBalancers) HasTask(id string) (found bool) {
	e.kernel.WithLock(func() {
		for _, b := range e.Rows {
			found = found || slices.ContainsFunc(b.Instances, func(t target) bool {
				return t.Until.IsZero() && e.tasks.TaskAt(b.checked(t)) == id
			})
		}
	})
	return found
}

// checked returns where the health check of a load balancer asks an instance.
func (b *classicBalancer) checked(t target) cluster.Address {
	_, rest, _ := strings.Cut(b.Check.Target, ":")
	port, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(port)
	if err != nil && len(b.Listeners) > 0 {
		n = b.Listeners[0].InstancePort
	}
	return cluster.Address{Host: t.Address.Host, Port: n}
}

// instanceState is what DescribeInstanceHealth says of an instance.
type instanceState struct {
	ID          string `xml:"InstanceId"`
	State       string
	ReasonCode  string
	Description string
}

const (
	inService    = "InService"
	outOfService = "OutOfService"
	ofInstance   = "Instance" // the reason code of an instance that fails its checks
	notApplies   = "N/A"
	leaving      = "Instance deregistration currently in progress."
	failed       = "Instance has failed at least the UnhealthyThreshold number of health checks consecutively."
)

// forScheduler returns unknown health for instances that are being registered or deregistered.
func (s instanceState) forScheduler() cluster.Health {
	switch {
	case s.Description == leaving:
		return cluster.UnknownHealth
	case s.State == inService:
		return cluster.Healthy
	case s.ReasonCode == ofInstance:
		return cluster.Unhealthy
	}
	return cluster.UnknownHealth
}

// instanceState returns the state of an instance now, in Elastic Load Balancing's words.
func (e *ClassicBalancers) instanceState(b *classicBalancer, t target, now time.Time) instanceState {
	s := instanceState{ID: t.Address.Host, State: outOfService, ReasonCode: ofInstance, Description: failed}
	fault, runs := e.tasks.TargetFault(e.tasks.TaskAt(b.checked(t)))
	switch {
	case !t.Until.IsZero():
		s.State, s.ReasonCode, s.Description = inService, notApplies, leaving
	case runs && fault != "":
	case now.Sub(t.Registered) < e.healthyAfter:
		s.ReasonCode, s.Description = "ELB", "Instance registration is still in progress."
	case runs:
		s.State, s.ReasonCode, s.Description = inService, notApplies, notApplies
	}
	return s
}
