package rebalance

import (
	"fmt"
	"slices"
)

// A Problem is a cluster by small numbers: tasks, services, instances and resources are positions
// in its slices. It says what must hold and what everything costs. A cost is in units of the
// caller's choice; only sums and differences of costs matter.
type Problem struct {
	Resources []Resource
	Instances []Instance
	Services  []Service
	Tasks     []Task
	Balances  []Balance
	Evens     []Evenness
	Spreads   []Spread
	Weights   Weights
	// Distances has what a move costs between two instances, by the first one and then by the
	// second one. It is nil if distances do not matter.
	Distances []int32
	// Allows reports that the task may be on the instance by rules that do not depend on where
	// other tasks are. It may be nil.
	Allows func(task, instance int32) bool
	// Together lets tasks move together with those that depend on them in their neighborhood. Each
	// neighborhood must be one instance.
	Together bool
}

// A Resource is anything that instances have and tasks use: memory, GPUs, a metric.
type Resource struct {
	// Transit reports that a moved task takes up the resource on its first instance too, until the
	// plan is complete.
	Transit bool
	// Overload is the cost of each unit that an instance uses above its safety level.
	Overload int64
}

// An Instance is somewhere that tasks run.
type Instance struct {
	Zone, Neighborhood int32
	// Capacity is what there is of each resource, Safety how much of it is best used.
	Capacity, Safety []int64
	// Base is what is used besides the tasks. It may be nil.
	Base []int64
}

// A Service has tasks that are alike to the rules below. A rule that is broken at the start does
// not get worse.
type Service struct {
	Exclusive  bool    // two of its tasks never share an instance
	LeastZones int32   // zones that it has tasks in, at least
	DependsOn  []int32 // services that have a task in each neighborhood that it has tasks in
	// Domains returns the service's fault and upgrade domains, without tasks. It may be nil.
	Domains func() Domains
}

// Domains count the tasks of one service and know the rules of its domains.
type Domains interface {
	AddTasks(instance, count int)
	MayMove(from, to int) bool
}

// A Task runs on one instance.
type Task struct {
	Service int32
	Start   int32 // the instance that it is on
	Needs   []int64
	Cost    int64 // of moving it
	Fixed   bool  // it stays where it is
}

// A Balance wants what is free of two resources to be in proportion on each instance: of the
// second one at least Ratio times as much as of the first one.
type Balance struct {
	First, Second int32
	Ratio, Weight int64
}

// An Evenness wants instances to use as much of a resource as each other. An instance costs Weight
// times the square of its distance from the mean, in multiples of the mean. If Few is set, it wants few
// instances to use the resource instead: an instance costs Weight times the square root of its use, in
// multiples of the mean.
type Evenness struct {
	Resource     int32
	Mean, Weight float64
	Apart        []bool // instances that do not count; nil for none
	Few          bool
}

// A Spread wants as many tasks of a service in one group of instances as in another. It costs
// Weight times the sum of the squares of how many there are.
type Spread struct {
	Service int32
	GroupOf []int32 // per instance, from 0; nil if each instance is its own group
	Weight  int64
}

// Weights multiply the costs of moves.
type Weights struct {
	Task     int64 // the costs of moved tasks
	Service  int64 // the number of moved tasks of the service that has the most of them
	Distance int64 // the distances of moved tasks from where they started
}

// Validate returns an error if the problem refers to what it does not have, or if it has a number
// that cannot be.
func (p *Problem) Validate() error {
	if len(p.Instances) == 0 {
		return fmt.Errorf("there are 0 instances, expected at least 1")
	}
	if n := len(p.Instances) * len(p.Instances); p.Distances != nil && len(p.Distances) != n {
		return fmt.Errorf("there are %d distances, expected %d", len(p.Distances), n)
	}
	for i, x := range p.Instances {
		if len(x.Capacity) != len(p.Resources) || len(x.Safety) != len(p.Resources) {
			return fmt.Errorf("instance %d has %d capacities and %d safety levels, expected %d", i, len(x.Capacity),
				len(x.Safety), len(p.Resources))
		}
		if x.Base != nil && len(x.Base) != len(p.Resources) {
			return fmt.Errorf("instance %d has %d base loads, expected %d", i, len(x.Base), len(p.Resources))
		}
		if x.Zone < 0 || x.Neighborhood < 0 {
			return fmt.Errorf("instance %d is in zone %d, neighborhood %d, expected none below 0", i, x.Zone,
				x.Neighborhood)
		}
	}
	if err := p.validateTasks(); err != nil {
		return err
	}
	if err := p.validateGoals(); err != nil {
		return err
	}
	if most := p.costBound(); most > mostCost {
		return fmt.Errorf("costs may reach %.3g, expected at most %.3g", most, mostCost)
	}
	return nil
}

// mostCost is well below what 64 bits hold.
const mostCost = 1e18

// costBound returns more than any assignment can cost.
func (p *Problem) costBound() (most float64) {
	for r := range p.Resources {
		sum := 0.0
		for t := range p.Tasks {
			sum += float64(p.Tasks[t].Needs[r])
		}
		most += sum * float64(max(1, p.Resources[r].Overload))
	}
	for _, e := range p.Evens {
		use := 0.0
		for i := range p.Instances {
			if base := p.Instances[i].Base; base != nil {
				use += float64(base[e.Resource])
			}
		}
		for t := range p.Tasks {
			use += float64(p.Tasks[t].Needs[e.Resource])
		}
		most += e.Weight * (use/e.Mean*use/e.Mean + float64(len(p.Instances)))
	}
	size := make([]float64, len(p.Services))
	for t := range p.Tasks {
		size[p.Tasks[t].Service]++
	}
	for _, x := range p.Spreads {
		most += float64(x.Weight) * size[x.Service] * size[x.Service]
	}
	for _, b := range p.Balances {
		for i := range p.Instances {
			capacity := p.Instances[i].Capacity
			most += float64(b.Weight) * (float64(b.Ratio)*float64(capacity[b.First]) + float64(capacity[b.Second]))
		}
		for t := range p.Tasks {
			needs := p.Tasks[t].Needs
			most += float64(b.Weight) * (float64(b.Ratio)*float64(needs[b.First]) + float64(needs[b.Second]))
		}
	}
	farthest := int32(0)
	for _, d := range p.Distances {
		farthest = max(farthest, d)
	}
	for t := range p.Tasks {
		most += float64(p.Tasks[t].Cost)*float64(p.Weights.Task) + float64(p.Weights.Service) +
			float64(farthest)*float64(p.Weights.Distance)
	}
	return most
}

// validateTasks checks services and tasks.
func (p *Problem) validateTasks() error {
	for s, x := range p.Services {
		for _, d := range x.DependsOn {
			if d < 0 || int(d) >= len(p.Services) {
				return fmt.Errorf("service %d depends on service %d, expected 0 to %d", s, d, len(p.Services)-1)
			}
		}
	}
	for t, x := range p.Tasks {
		switch {
		case x.Service < 0 || int(x.Service) >= len(p.Services):
			return fmt.Errorf("task %d is of service %d, expected 0 to %d", t, x.Service, len(p.Services)-1)
		case x.Start < 0 || int(x.Start) >= len(p.Instances):
			return fmt.Errorf("task %d is on instance %d, expected 0 to %d", t, x.Start, len(p.Instances)-1)
		case len(x.Needs) != len(p.Resources):
			return fmt.Errorf("task %d needs %d resources, expected %d", t, len(x.Needs), len(p.Resources))
		case len(x.Needs) > 0 && slices.Min(x.Needs) < 0:
			return fmt.Errorf("task %d needs %d of a resource, expected 0 or more", t, slices.Min(x.Needs))
		}
	}
	return nil
}

// validateGoals checks balances, evenness and spreads.
func (p *Problem) validateGoals() error {
	for n, e := range p.Evens {
		if e.Resource < 0 || int(e.Resource) >= len(p.Resources) || !(e.Mean > 0) || !(e.Weight >= 0) {
			return fmt.Errorf("evenness %d is of resource %d with mean %v and weight %v, expected 0 to %d, more than "+
				"0, and 0 or more", n, e.Resource, e.Mean, e.Weight, len(p.Resources)-1)
		}
		if e.Apart != nil && len(e.Apart) != len(p.Instances) {
			return fmt.Errorf("evenness %d knows %d instances, expected %d", n, len(e.Apart), len(p.Instances))
		}
	}
	for n, x := range p.Spreads {
		if x.Service < 0 || int(x.Service) >= len(p.Services) || x.GroupOf != nil &&
			(len(x.GroupOf) != len(p.Instances) || len(x.GroupOf) > 0 && slices.Min(x.GroupOf) < 0) {
			return fmt.Errorf("spread %d is of service %d over %d instances, expected 0 to %d, and %d instances in "+
				"groups from 0", n, x.Service, len(x.GroupOf), len(p.Services)-1, len(p.Instances))
		}
	}
	for n, b := range p.Balances {
		if min(b.First, b.Second) < 0 || int(max(b.First, b.Second)) >= len(p.Resources) {
			return fmt.Errorf("balance %d is between resources %d and %d, expected 0 to %d", n, b.First, b.Second,
				len(p.Resources)-1)
		}
	}
	return nil
}
