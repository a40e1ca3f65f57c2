package balancing

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// The default and the longest deregistration delay (Elastic Load Balancing, target group
// attributes).
const (
	defaultDelay = 300 * time.Second
	maxDelay     = time.Hour
)

const groupBucket = "targetGroups"

const maxPort = 65535

// Tasks is what target groups need to know of the tasks that are their targets. Its methods belong
// in a step.
type Tasks interface {
	// TaskAt returns the id of the task that runs at an address, empty where none does.
	TaskAt(a cluster.Address) string
	// TargetFault reports whether the task runs, and why it fails the checks of target groups,
	// empty where it passes them.
	TargetFault(task string) (fault string, runs bool)
	// HasMachine reports whether the machine with an EC2 id is there.
	HasMachine(ec2 string) bool
}

// TargetGroups are the target groups of Elastic Load Balancing.
type TargetGroups struct {
	kernel.Table[*targetGroup] // by ARN

	kernel       *kernel.Kernel
	tasks        Tasks
	healthyAfter time.Duration
}

// NewTargetGroups returns no target groups yet. A target is healthy when its task has run for
// healthyAfter.
func NewTargetGroups(k *kernel.Kernel, tasks Tasks, healthyAfter time.Duration) *TargetGroups {
	return &TargetGroups{
		Table: kernel.NewTable[*targetGroup](groupBucket), kernel: k, tasks: tasks, healthyAfter: healthyAfter,
	}
}

// targetGroup is a target group, as stored.
type targetGroup struct {
	Name, ARN string
	Type      string // instance or ip
	Protocol  string
	VPC       string
	Port      int
	Delay     time.Duration     // of deregistration
	Targets   []target          // in order of registration
	Tags      map[string]string `json:",omitempty"`
	// Attributes are those that were set and have no effect.
	Attributes map[string]string `json:",omitempty"`
	keptSettings
}

// target is one registered address. It exists whether or not a task is there.
type target struct {
	Address    cluster.Address
	Task       string    // id of the task that was found there last
	Registered time.Time // the checks begin
	Until      time.Time // being taken out until then; zero while it is in
}

func (g *targetGroup) StoredRow() (string, string, any) { return groupBucket, g.ARN, g }

// CreateTargetGroup creates a target group of a type (instance or ip) with a deregistration delay,
// and returns its ARN. It returns the group of that name, unchanged, if there is one.
func (e *TargetGroups) CreateTargetGroup(name, kind string, delay time.Duration) (arn string, err error) {
	err = e.kernel.Change(func(time.Time) error {
		g, err := e.newTargetGroup(targetGroup{Name: name, Type: kind, Protocol: "HTTP", Port: 80, Delay: delay})
		if err == nil {
			arn = g.ARN
		}
		return err
	})
	return arn, err
}

// newTargetGroup checks and adds a group, or returns the one that has the name already. The ARN
// derives from the name, so that a group which is made again has the same.
func (e *TargetGroups) newTargetGroup(g targetGroup) (*targetGroup, error) {
	g.Type = cmp.Or(g.Type, "instance")
	switch {
	case g.Name == "" || len(g.Name) > 32:
		return nil, cluster.Errorf("ValidationError",
			"Target group name '%.64s' cannot be longer than '32' characters, nor empty", g.Name)
	case g.Type != "instance" && g.Type != "ip":
		return nil, cluster.Errorf("ValidationError", "the target type %q is not known here", g.Type)
	case g.Delay < 0 || g.Delay > maxDelay:
		return nil, cluster.Errorf("ValidationError", "the deregistration delay %s is out of bounds", g.Delay)
	}
	for _, old := range e.Rows {
		if old.Name == g.Name {
			return old, nil
		}
	}
	g.ARN = e.kernel.ResourceARN("elasticloadbalancing",
		"targetgroup/"+g.Name+"/"+cluster.Digest("targetgroup", g.Name)[:16])
	e.Rows[g.ARN] = &g
	e.kernel.SaveRow(&g)
	return &g, nil
}

// DeleteTargetGroup deletes a target group with all its targets, if it exists.
func (e *TargetGroups) DeleteTargetGroup(arn string) error {
	return e.kernel.Change(func(time.Time) error {
		if g := e.Rows[arn]; g != nil {
			delete(e.Rows, arn)
			e.kernel.DeleteRow(g)
		}
		return nil
	})
}

// findTargetGroup returns a group by ARN, after removing the targets whose deregistration has
// ended: no caller sees them earlier, so it needs no timer.
func (e *TargetGroups) findTargetGroup(arn string, now time.Time) (*targetGroup, error) {
	g := e.Rows[arn]
	if g == nil {
		return nil, cluster.Errorf(cluster.CodeTargetGroupNotFound, "Target groups '%s' not found", arn)
	}
	g.Targets = slices.DeleteFunc(g.Targets, func(t target) bool { return !t.Until.IsZero() && !t.Until.After(now) })
	return g, nil
}

// RegisterTargets registers addresses with a target group, all of them or none. It ends the
// deregistration of those that are draining.
func (e *TargetGroups) RegisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	return e.kernel.Call("RegisterTargets", arn, func(now time.Time) error {
		g, err := e.findTargetGroup(arn, now)
		if err != nil {
			return err
		}
		for _, a := range targets {
			if err := e.checkTarget(g, a); err != nil {
				return err
			}
		}
		for _, a := range targets {
			g.addTarget(target{Address: a, Task: e.tasks.TaskAt(a), Registered: now})
		}
		e.kernel.SaveRow(g)
		return nil
	})
}

// checkTarget returns an error if the address cannot be a target of the group, because of its type
// for example.
func (e *TargetGroups) checkTarget(g *targetGroup, a cluster.Address) error {
	isInstance := len(a.Host) > 2 && a.Host[:2] == "i-"
	switch {
	case g.Type == "instance" && !isInstance:
		return cluster.Errorf("ValidationError", "Instance ID '%.64s' is not valid", a.Host)
	case g.Type == "ip" && isInstance:
		return cluster.Errorf("ValidationError", "The IP address '%.64s' is not a valid IPv4 or IPv6 address", a.Host)
	case isInstance && !e.tasks.HasMachine(a.Host):
		return cluster.Errorf(cluster.CodeInvalidTarget,
			"The following targets are not in a running state and cannot be registered: '%s'", a.Host)
	case a.Port < 1 || a.Port > maxPort:
		return cluster.Errorf("ValidationError", "port %d is out of bounds", a.Port)
	}
	return nil
}

// addTarget adds a target, or starts its checks again if it is draining or another task is there.
// One that is registered with the same task stays as healthy as it is.
func (g *targetGroup) addTarget(t target) {
	at := slices.IndexFunc(g.Targets, func(o target) bool { return o.Address == t.Address })
	switch {
	case at < 0:
		g.Targets = append(g.Targets, t)
	case !g.Targets[at].Until.IsZero() || g.Targets[at].Task != t.Task:
		g.Targets[at] = t
	}
}

// DeregisterTargets starts to drain targets. They are gone after the group's deregistration delay.
func (e *TargetGroups) DeregisterTargets(_ context.Context, arn string, targets []cluster.Address) error {
	return e.kernel.Call("DeregisterTargets", arn, func(now time.Time) error {
		g, err := e.findTargetGroup(arn, now)
		if err != nil {
			return err
		}
		for k := range g.Targets {
			if t := &g.Targets[k]; t.Until.IsZero() && slices.Contains(targets, t.Address) {
				t.Until = now.Add(g.Delay)
			}
		}
		e.kernel.SaveRow(g)
		return nil
	})
}

// DeregistrationDelay returns how long the targets of a group drain.
func (e *TargetGroups) DeregistrationDelay(_ context.Context, arn string) (delay time.Duration, err error) {
	err = e.kernel.CallView("DescribeTargetGroupAttributes", arn, func(now time.Time) error {
		g, err := e.findTargetGroup(arn, now)
		if err == nil {
			delay = g.Delay
		}
		return err
	})
	return delay, err
}

// TargetHealth returns the health of every target of a group.
func (e *TargetGroups) TargetHealth(_ context.Context, arn string) (map[cluster.Address]cluster.TargetHealth, error) {
	out := map[cluster.Address]cluster.TargetHealth{}
	err := e.kernel.CallView("DescribeTargetHealth", arn, func(now time.Time) error {
		g, err := e.findTargetGroup(arn, now)
		if err != nil {
			return err
		}
		for k := range g.Targets {
			s := e.currentState(&g.Targets[k], now)
			out[g.Targets[k].Address] = cluster.TargetHealth{Health: s.forScheduler(), Reason: s.description}
		}
		return nil
	})
	return out, err
}

// HasTask reports whether a task is a target of a group.
func (e *TargetGroups) HasTask(id string) (found bool) {
	e.kernel.WithLock(func() {
		for _, g := range e.Rows {
			found = found || slices.ContainsFunc(g.Targets, func(t target) bool {
				return t.Until.IsZero() && (t.Task == id || e.tasks.TaskAt(t.Address) == id)
			})
		}
	})
	return found
}

// targetState is the state of a target in the words of Elastic Load Balancing. The description is
// what operators see.
type targetState struct{ state, reason, description string }

// forScheduler returns unknown health for targets that are initial, draining or unused.
func (s targetState) forScheduler() cluster.Health {
	switch s.state {
	case "healthy":
		return cluster.Healthy
	case "unhealthy":
		return cluster.Unhealthy
	}
	return cluster.UnknownHealth
}

// currentState returns the state of a target now. Health is computed when it is asked for, so that
// it needs no timers:
//
//	draining   deregistered, until the delay has passed
//	unhealthy  the task fails the checks (TargetFault)
//	initial    registered less than healthyAfter ago
//	unhealthy  no task runs at the address
//	healthy    otherwise
//
// If the task that was found there last runs no longer, it looks for the one that replaced it at
// the same address.
func (e *TargetGroups) currentState(t *target, now time.Time) targetState {
	if !t.Until.IsZero() {
		return targetState{"draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"}
	}
	fault, runs := e.tasks.TargetFault(t.Task)
	if !runs {
		if t.Task = e.tasks.TaskAt(t.Address); t.Task != "" {
			fault, runs = e.tasks.TargetFault(t.Task)
		}
	}
	switch {
	case runs && fault != "":
		return targetState{"unhealthy", "Target.ResponseCodeMismatch", fault}
	case now.Sub(t.Registered) < e.healthyAfter:
		return targetState{"initial", "Elb.InitialHealthChecking", "Initial health checks in progress"}
	case !runs:
		return targetState{"unhealthy", "Target.Timeout", "Request timed out"}
	}
	return targetState{state: "healthy"}
}
