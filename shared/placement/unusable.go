package placement

import (
	"fmt"
	"slices"
	"strings"
)

// An UnusableInstance takes tasks, but the rules of every service exclude it, however many tasks
// run (P2).
type UnusableInstance struct {
	Instance string
	Why      string
}

// A ServiceSpec is a service that [Engine.UnusableInstances] considers.
type ServiceSpec struct {
	Name   string
	Spec   *Spec
	Target int // desired count, which domain rules depend on (P4, P5)
}

// Unsuitable is why no service can use an instance unless a domain rule is why.
const Unsuitable = "it does not meet the requirements of any service"

// UnusableInstances returns the instances that none of the services can use, sorted by id: no
// constraint matches them, or domain rules always leave them out, as they do the sixth node of
// Service Fabric's example. Room makes no difference. Without services there are none.
func (e *Engine) UnusableInstances(services []ServiceSpec) []UnusableInstance {
	e.Sync()
	if len(services) == 0 {
		return nil
	}
	used, barring := make([]bool, len(e.views)), make([][]string, len(e.views))
	for n := range services {
		s := &services[n]
		c := e.chooserAt(&Request{Spec: s.Spec, Target: s.Target}, 0)
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
		if !e.inCluster[i] || used[i] || !e.usages[i].takesTasks {
			continue
		}
		u := UnusableInstance{v.ID, Unsuitable}
		if names := barring[i]; len(names) > 0 {
			u.Why = "a task there would break the domain rule of " + listFirstNames(names)
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b UnusableInstance) int { return strings.Compare(a.Instance, b.Instance) })
	return out
}

// listFirstNames returns the first few names, sorted, and how many others there are.
func listFirstNames(names []string) string {
	const most = 3
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
