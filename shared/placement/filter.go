package placement

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
)

// filter is one reason why an instance cannot take a task of a class. concerns says whether it can
// refuse the class's tasks at all. passes decides; explain is asked only where it refused: what was
// needed, the best there is, in the unit of [cluster.Rejection], or a detail.
type filter struct {
	name     cluster.Filter
	concerns func(*class) bool
	passes   func(*class, int) bool
	explain  func(*class, int) cluster.Rejection
}

// filters are all there are, in the order in which they are tried: the first to refuse is the one
// that counts. Placing asks for the same in a cheaper order: [shape.fitness], [isPassedBy] and
// [class.opens].
var filters = []filter{
	{cluster.FilterStatus, always, passesStatus, explainStatus},
	{cluster.FilterAgent, always, passesAgent, explainNothing},
	{cluster.FilterUnschedulable, always, passesCordon, explainUnschedulable},
	{cluster.FilterRefused, concernsRefused, passesRefused, explainNothing},
	{cluster.FilterAttribute, concernsAttributes, passesAttributes, explainAttribute},
	{cluster.FilterConstraint, concernsConstraints, passesConstraints, explainConstraint},
	{cluster.FilterOccupied, concernsOccupied, passesOccupied, explainNothing},
	{cluster.FilterFaultDomain, concernsDomains, passesFaultDomain, explainFaultDomain},
	{cluster.FilterUpgrade, concernsDomains, passesUpgradeDomain, explainUpgradeDomain},
	{cluster.FilterPort, concernsPorts, (*class).hasPorts, explainPort},
	{cluster.FilterCPU, always, (*class).hasCPU, explainCPU},
	{cluster.FilterMemory, always, (*class).hasMemory, explainMemory},
	{cluster.FilterGPU, concernsGPUs, (*class).hasGPUs, explainGPU},
	{cluster.FilterENI, concernsENIs, (*class).hasENIs, explainENI},
	{cluster.FilterMetric, concernsMetrics, passesMetrics, explainMetric},
}

func always(*class) bool { return true }

func explainNothing(*class, int) cluster.Rejection { return cluster.Rejection{} }

func passesStatus(c *class, i int) bool { return c.engine.active[i] }

func explainStatus(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: string(c.engine.views[i].Status)}
}

func passesAgent(c *class, i int) bool { return c.engine.agent[i] }

func passesCordon(c *class, i int) bool {
	return !c.engine.cordon[i] && (len(c.spec.Avoid) == 0 || !slices.Contains(c.spec.Avoid, c.engine.views[i].ID))
}

func explainUnschedulable(c *class, i int) cluster.Rejection {
	if c.engine.cordon[i] {
		return cluster.Rejection{}
	}
	return cluster.Rejection{Detail: "in the list of instances to avoid"}
}

func concernsRefused(c *class) bool { return len(c.engine.held) > 0 }

func passesRefused(c *class, i int) bool { return !c.engine.holds(i) }

func concernsAttributes(c *class) bool { return len(c.spec.Attributes) > 0 }

func passesAttributes(c *class, i int) bool {
	return eligibility.MissingAttribute(c.engine.views[i], c.spec.Attributes) == ""
}

func explainAttribute(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: eligibility.MissingAttribute(c.engine.views[i], c.spec.Attributes)}
}

func concernsConstraints(c *class) bool { return len(c.rules) > 0 }

func passesConstraints(c *class, i int) bool { return firstBrokenRule(c, i) == nil }

func explainConstraint(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: firstBrokenRule(c, i).text}
}

// firstBrokenRule is the first constraint that the instance does not meet.
func firstBrokenRule(c *class, i int) *rule {
	for _, r := range c.rules {
		if !r.matches[i] {
			return r
		}
	}
	return nil
}

func concernsOccupied(c *class) bool { return c.most > 0 }

func passesOccupied(c *class, i int) bool { return c.tally.held[int32(i)] < c.most }

func concernsDomains(c *class) bool { return c.domains != nil }

func passesFaultDomain(c *class, i int) bool { return c.domains.AdmitsFault(c.domains.Fault(i)) }

func explainFaultDomain(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.engine.views[i].FaultDomain()}
}

func passesUpgradeDomain(c *class, i int) bool {
	return c.domains.AdmitsUpgrade(c.domains.Upgrade(i))
}

func explainUpgradeDomain(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.engine.views[i].UpgradeDomain()}
}

func concernsPorts(c *class) bool { return len(c.spec.Ports) > 0 }

func explainPort(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.names[c.taken(i)]}
}

func explainCPU(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Need: cpuUnits(c.spec.Needs.CPU), Best: cpuUnits(c.engine.cpu[i])}
}

func cpuUnits(cpu int64) float64 { return float64(cpu) / cluster.CPUUnit }

func explainMemory(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.Memory), Best: float64(c.engine.memory[i])}
}

func concernsGPUs(c *class) bool { return c.spec.Needs.GPUs > 0 }

// explainGPU counts GPUs: a whole device needs one that is entirely free, a share the device with
// the most free.
func explainGPU(c *class, i int) cluster.Rejection {
	per := float64(c.spec.Needs.PerGPU()) / cluster.WholeGPU
	why := cluster.Rejection{Need: float64(c.spec.Needs.GPUs) * per, Best: float64(c.enough(i)) * per}
	if c.spec.Needs.GPUs == 1 && per < 1 {
		why.Best = max(why.Best, float64(c.engine.share[i])/cluster.WholeGPU)
	}
	return why
}

func concernsENIs(c *class) bool { return c.spec.Needs.ENIs > 0 }

func explainENI(c *class, i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.ENIs), Best: float64(max(0, c.engine.enis[i]))}
}

func concernsMetrics(c *class) bool { return len(c.demands) > 0 }

func passesMetrics(c *class, i int) bool { return c.allows(c.room(i)) }

// explainMetric names the first metric that has no room.
func explainMetric(c *class, i int) cluster.Rejection {
	for _, d := range c.demands {
		limit := c.engine.metrics[d.metric].total[i]
		if c.strict {
			limit = c.engine.metrics[d.metric].unbuffered[i]
		}
		if load := c.engine.metrics[d.metric].load[i]; d.load > limit-load {
			return cluster.Rejection{Detail: d.name, Need: float64(d.load), Best: float64(max(0, limit-load))}
		}
	}
	return cluster.Rejection{}
}
