package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// defaultDelay is the deregistration delay of a target group that sets none (Elastic Load Balancing, target group
// attributes), maxDelay the longest.
const (
	defaultDelay = 300 * time.Second
	maxDelay     = time.Hour
)

// targetGroup is a target group, as stored. Nobody sends it requests: what its health checks find out is whether a task is
// there, and what [Fleet.SetTargetHealth] says of it.
type targetGroup struct {
	Name, ARN string
	Type      string // instance or ip
	Protocol  string
	VPC       string
	Port      int
	Delay     time.Duration // of deregistration
	Targets   []target      // in order of registration
}

type target struct {
	Address    cluster.Address
	Task       string    // id of the task that was found there last
	Registered time.Time // the checks begin
	Until      time.Time // being taken out until then; zero while it is in
}

func (g *targetGroup) row() (string, string, any) { return bucketTargetGroups, g.ARN, g }

// CreateTargetGroup makes a target group of a type (instance or ip) with a deregistration delay, and gives its ARN. One of
// the same name stays as it is.
func (f *Fleet) CreateTargetGroup(name, kind string, delay time.Duration) (arn string, err error) {
	err = f.change(func(time.Time) error {
		g, err := f.newTargetGroup(targetGroup{Name: name, Type: kind, Protocol: "HTTP", Port: 80, Delay: delay})
		if err == nil {
			arn = g.ARN
		}
		return err
	})
	return arn, err
}

func (f *Fleet) newTargetGroup(g targetGroup) (*targetGroup, error) {
	g.Type = cmp.Or(g.Type, "instance")
	switch {
	case g.Name == "" || len(g.Name) > 32:
		return nil, cluster.Errorf("ValidationError", "Target group name '%.64s' cannot be longer than '32' characters, nor empty", g.Name)
	case g.Type != "instance" && g.Type != "ip":
		return nil, cluster.Errorf("ValidationError", "the target type %q is not known here", g.Type)
	case g.Delay < 0 || g.Delay > maxDelay:
		return nil, cluster.Errorf("ValidationError", "the deregistration delay %s is out of bounds", g.Delay)
	}
	for _, old := range f.targetGroups {
		if old.Name == g.Name {
			return old, nil
		}
	}
	g.ARN = f.arn("elasticloadbalancing", "targetgroup/"+g.Name+"/"+cluster.Digest("targetgroup", g.Name)[:16])
	f.targetGroups[g.ARN] = &g
	f.touch(&g)
	return &g, nil
}

// arn is the ARN of something that is not ECS's.
func (f *Fleet) arn(service, resource string) string {
	a := f.opt.Account
	return "arn:" + cmp.Or(a.Partition, "aws") + ":" + service + ":" + a.Region + ":" + a.ID + ":" + resource
}

// DeleteTargetGroup removes a target group with all its targets; one that is not there stays so.
func (f *Fleet) DeleteTargetGroup(arn string) error {
	return f.change(func(time.Time) error {
		if g := f.targetGroups[arn]; g != nil {
			delete(f.targetGroups, arn)
			f.forget(g)
		}
		return nil
	})
}

// targetGroup finds a group by ARN, rid of the targets that have been taken out.
func (f *Fleet) targetGroup(arn string, now time.Time) (*targetGroup, error) {
	g := f.targetGroups[arn]
	if g == nil {
		return nil, cluster.Errorf(cluster.CodeTargetGroupNotFound, "Target groups '%s' not found", arn)
	}
	g.Targets = slices.DeleteFunc(g.Targets, func(t target) bool { return !t.Until.IsZero() && !t.Until.After(now) })
	return g, nil
}

// RegisterTargets puts addresses into a target group. One that is being taken out is put in again.
func (f *Fleet) RegisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	run := func() error {
		return f.change(func(now time.Time) error {
			g, err := f.targetGroup(arn, now)
			if err != nil {
				return err
			}
			for _, a := range targets {
				if err := f.acceptable(g, a); err != nil {
					return err
				}
			}
			for _, a := range targets {
				g.put(target{Address: a, Task: f.taskAt(a), Registered: now})
			}
			f.touch(g)
			return nil
		})
	}
	proceed, err := f.faulty("RegisterTargets", arn, run)
	if proceed {
		err = run()
	}
	return err
}

// acceptable refuses what the type of the target group has no place for.
func (f *Fleet) acceptable(g *targetGroup, a cluster.Address) error {
	isInstance := len(a.Host) > 2 && a.Host[:2] == "i-"
	switch {
	case g.Type == "instance" && !isInstance:
		return cluster.Errorf("ValidationError", "Instance ID '%.64s' is not valid", a.Host)
	case g.Type == "ip" && isInstance:
		return cluster.Errorf("ValidationError", "The IP address '%.64s' is not a valid IPv4 or IPv6 address", a.Host)
	case isInstance && f.machine(a.Host) == nil:
		return cluster.Errorf(cluster.CodeInvalidTarget, "The following targets are not in a running state and cannot be registered: '%s'", a.Host)
	case a.Port < 1 || a.Port > 65535:
		return cluster.Errorf("ValidationError", "port %d is out of bounds", a.Port)
	}
	return nil
}

// machine is the instance with an EC2 id that has not gone.
func (f *Fleet) machine(ec2 string) *instance {
	for _, i := range f.instances {
		if i.EC2 == ec2 && i.Status != cluster.InstanceInactive {
			return i
		}
	}
	return nil
}

func (g *targetGroup) put(t target) {
	at := slices.IndexFunc(g.Targets, func(o target) bool { return o.Address == t.Address })
	switch {
	case at < 0:
		g.Targets = append(g.Targets, t)
	case !g.Targets[at].Until.IsZero() || g.Targets[at].Task != t.Task:
		g.Targets[at] = t
	}
}

// DeregisterTargets takes addresses out of a target group; they are drained for as long as its delay.
func (f *Fleet) DeregisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	run := func() error {
		return f.change(func(now time.Time) error {
			g, err := f.targetGroup(arn, now)
			if err != nil {
				return err
			}
			for k := range g.Targets {
				if t := &g.Targets[k]; t.Until.IsZero() && slices.Contains(targets, t.Address) {
					t.Until = now.Add(g.Delay)
				}
			}
			f.touch(g)
			return nil
		})
	}
	proceed, err := f.faulty("DeregisterTargets", arn, run)
	if proceed {
		err = run()
	}
	return err
}

// DeregistrationDelay is how long connections of a target that was taken out are drained.
func (f *Fleet) DeregistrationDelay(_ context.Context, arn string) (delay time.Duration, err error) {
	if proceed, err := f.faulty("DescribeTargetGroupAttributes", arn, func() error { return nil }); !proceed {
		return 0, err
	}
	err = f.look(func(now time.Time) error {
		g, err := f.targetGroup(arn, now)
		if err == nil {
			delay = g.Delay
		}
		return err
	})
	return delay, err
}

// TargetHealth is that of every target of a group.
func (f *Fleet) TargetHealth(_ context.Context, arn string) (map[cluster.Address]cluster.TargetHealth, error) {
	if proceed, err := f.faulty("DescribeTargetHealth", arn, func() error { return nil }); !proceed {
		return nil, err
	}
	out := map[cluster.Address]cluster.TargetHealth{}
	err := f.look(func(now time.Time) error {
		g, err := f.targetGroup(arn, now)
		if err != nil {
			return err
		}
		for k := range g.Targets {
			s := f.targetState(&g.Targets[k], now)
			out[g.Targets[k].Address] = cluster.TargetHealth{Health: s.health(), Reason: s.description}
		}
		return nil
	})
	return out, err
}

// targetState is what a target group says of a target, in the words of Elastic Load Balancing.
type targetState struct{ state, reason, description string }

func (s targetState) health() cluster.Health {
	switch s.state {
	case "healthy":
		return cluster.Healthy
	case "unhealthy":
		return cluster.Unhealthy
	}
	return cluster.UnknownHealth
}

// targetState looks at a target: its checks pass once a task has run there for long enough, and fail as soon as there is
// none, or it was told to fail them.
func (f *Fleet) targetState(t *target, now time.Time) targetState {
	if !t.Until.IsZero() {
		return targetState{"draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"}
	}
	on := f.tasks[t.Task]
	if on == nil || on.Phase != phaseRunning {
		if t.Task = f.taskAt(t.Address); t.Task != "" {
			on = f.tasks[t.Task]
		}
	}
	switch {
	case on != nil && on.Phase == phaseRunning && on.TargetFault != "":
		return targetState{"unhealthy", "Target.ResponseCodeMismatch", on.TargetFault}
	case now.Sub(t.Registered) < f.opt.HealthyAfter:
		return targetState{"initial", "Elb.InitialHealthChecking", "Initial health checks in progress"}
	case on == nil || on.Phase != phaseRunning:
		return targetState{"unhealthy", "Target.Timeout", "Request timed out"}
	}
	return targetState{state: "healthy"}
}

// taskAt is the id of the task that runs at an address, empty where none does.
func (f *Fleet) taskAt(a cluster.Address) string {
	if i := f.machine(a.Host); i != nil {
		for _, t := range i.tasks {
			if t.Phase == phaseRunning && slices.ContainsFunc(t.bound(), func(b cluster.Binding) bool { return b.HostPort == a.Port }) {
				return t.ID
			}
		}
		return ""
	}
	for _, t := range f.tasks {
		if t.ENI && t.Phase == phaseRunning && t.address() == a.Host {
			return t.ID
		}
	}
	return ""
}

// SetTargetHealth has a running task fail the health checks of its target groups from now on, with a reason as the load
// balancer gives it ("Health checks failed with these codes: [503]"), or pass them again where that is empty.
func (f *Fleet) SetTargetHealth(task, reason string) error {
	return f.change(func(time.Time) error {
		t, err := f.running(task)
		if err != nil {
			return fmt.Errorf("setting the target health: %w", err)
		}
		t.TargetFault = reason
		f.touch(t)
		return nil
	})
}
