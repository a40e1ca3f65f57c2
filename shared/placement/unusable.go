package placement

import (
	"fmt"
	"slices"
	"strings"
)

// UnusableInstance is an instance that takes tasks and that no service can have one on, by the rules, however
// many run (P2).
type UnusableInstance struct {
	Instance string
	Why      string
}

// ServiceSpec is a service as [Engine.Unused] looks at it.
type ServiceSpec struct {
	Name   string
	Spec   *Spec
	Target int // desired count: domain rules depend on it (P4, P5)
}

// UnusableInstances are the instances that none of the services can use, in order of id: no constraint holds
// there, or domain rules always leave them out, such as the sixth node of Service Fabric's example.
// It says nothing of room. Where there is no service, none is unused.
func (e *Engine) UnusableInstances(services []ServiceSpec) []UnusableInstance {
	e.sync()
	if len(services) == 0 {
		return nil
	}
	used, barring := make([]bool, len(e.views)), make([][]string, len(e.views))
	for n := range services {
		s := &services[n]
		c := chooserFor(e, &Request{Spec: s.Spec, Target: s.Target}, relaxationAt(&e.snap.Configuration.Priorities, 0))
		var can []bool
		if c.domains != nil && s.Target > 0 {
			can = c.domains.UsableInstances(s.Target)
		}
		for i := range e.views {
			switch {
			case !c.matcher.matchesInstance(i):
			case can == nil || can[i]:
				used[i] = true
			default:
				barring[i] = append(barring[i], s.Name)
			}
		}
	}
	var out []UnusableInstance
	for i, v := range e.views {
		if !e.inCluster[i] || used[i] || !e.takesTasks[i] {
			continue
		}
		u := UnusableInstance{v.ID, "it does not meet the requirements of any service"}
		if names := barring[i]; len(names) > 0 {
			u.Why = "a task there would break the domain rule of " + listNames(names)
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b UnusableInstance) int { return strings.Compare(a.Instance, b.Instance) })
	return out
}

// listNames are the first few names, and how many others there are.
func listNames(names []string) string {
	const most = 3
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
