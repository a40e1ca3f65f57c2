package placement

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
)

// filter is one reason why an instance cannot take a task of a class. concerns says whether it can refuse the class's
// tasks at all. passes decides; explain is asked only where it refused: what was needed, the best there is, in the unit
// of [cluster.Rejection], or a detail.
type filter struct {
	name     cluster.Filter
	concerns func(*class) bool
	passes   func(*class, int) bool
	explain  func(*class, int) cluster.Rejection
}

// filters are all there are, in the order in which they are tried: the first to refuse is the one that counts. Placing
// asks for the same in a cheaper order: [shape.fitness], [ranking.judge] and [class.opens].
var filters = []filter{
	{cluster.FilterStatus, always, (*class).isActive, (*class).explainStatus},
	{cluster.FilterAgent, always, (*class).hasAgent, explainNothing},
	{cluster.FilterUnschedulable, always, (*class).isSchedulable, (*class).explainUnschedulable},
	{cluster.FilterRefused, (*class).isHeld, (*class).isLetGo, explainNothing},
	{cluster.FilterAttribute, (*class).wantsAttributes, (*class).hasAttributes, (*class).explainAttribute},
	{cluster.FilterConstraint, (*class).isConstrained, (*class).meetsConstraints, (*class).explainConstraint},
	{cluster.FilterOccupied, (*class).isExclusive, (*class).isUnoccupied, explainNothing},
	{cluster.FilterFaultDomain, (*class).isGoverned, (*class).isFaultDomainOpen, (*class).explainFaultDomain},
	{cluster.FilterUpgrade, (*class).isGoverned, (*class).isUpgradeDomainOpen, (*class).explainUpgradeDomain},
	{cluster.FilterPort, (*class).wantsPorts, (*class).hasPorts, (*class).explainPort},
	{cluster.FilterCPU, always, (*class).hasCPU, (*class).explainCPU},
	{cluster.FilterMemory, always, (*class).hasMemory, (*class).explainMemory},
	{cluster.FilterGPU, (*class).wantsGPUs, (*class).hasGPUs, (*class).explainGPU},
	{cluster.FilterENI, (*class).wantsENIs, (*class).hasENIs, (*class).explainENI},
	{cluster.FilterMetric, (*class).wantsMetrics, (*class).hasMetrics, (*class).explainMetric},
}

func always(*class) bool { return true }

func explainNothing(*class, int) cluster.Rejection { return cluster.Rejection{} }

func (c *class) isActive(i int) bool { return c.active[i] }

func (c *class) explainStatus(i int) cluster.Rejection {
	return cluster.Rejection{Detail: string(c.views[i].Status)}
}

func (c *class) hasAgent(i int) bool { return c.agent[i] }

func (c *class) isSchedulable(i int) bool {
	return !c.cordon[i] && (len(c.spec.Avoid) == 0 || !slices.Contains(c.spec.Avoid, c.views[i].ID))
}

func (c *class) explainUnschedulable(i int) cluster.Rejection {
	if c.cordon[i] {
		return cluster.Rejection{}
	}
	return cluster.Rejection{Detail: "to be avoided"}
}

func (c *class) isHeld() bool { return len(c.held) > 0 }

func (c *class) isLetGo(i int) bool { return !c.holds(i) }

func (c *class) wantsAttributes() bool { return len(c.spec.Attributes) > 0 }

func (c *class) hasAttributes(i int) bool {
	return eligibility.MissingAttribute(c.views[i], c.spec.Attributes) == ""
}

func (c *class) explainAttribute(i int) cluster.Rejection {
	return cluster.Rejection{Detail: eligibility.MissingAttribute(c.views[i], c.spec.Attributes)}
}

func (c *class) isConstrained() bool { return len(c.rules) > 0 }

func (c *class) meetsConstraints(i int) bool { return c.broken(i) == nil }

func (c *class) explainConstraint(i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.broken(i).text}
}

// broken is the first constraint that the instance does not meet.
func (c *class) broken(i int) *rule {
	for _, r := range c.rules {
		if !r.matches[i] {
			return r
		}
	}
	return nil
}

func (c *class) isExclusive() bool { return c.most > 0 }

func (c *class) isUnoccupied(i int) bool { return c.tally.held[int32(i)] < c.most }

func (c *class) isGoverned() bool { return c.domains != nil }

func (c *class) isFaultDomainOpen(i int) bool { return c.domains.AdmitsFault(c.domains.Fault(i)) }

func (c *class) explainFaultDomain(i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.views[i].FaultDomain()}
}

func (c *class) isUpgradeDomainOpen(i int) bool {
	return c.domains.AdmitsUpgrade(c.domains.Upgrade(i))
}

func (c *class) explainUpgradeDomain(i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.views[i].UpgradeDomain()}
}

func (c *class) wantsPorts() bool { return len(c.spec.Ports) > 0 }

func (c *class) explainPort(i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.names[c.taken(i)]}
}

func (c *class) explainCPU(i int) cluster.Rejection {
	return cluster.Rejection{Need: cpuUnits(c.spec.Needs.CPU), Best: cpuUnits(c.cpu[i])}
}

func cpuUnits(cpu int64) float64 { return float64(cpu) / cluster.CPUUnit }

func (c *class) explainMemory(i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.Memory), Best: float64(c.memory[i])}
}

func (c *class) wantsGPUs() bool { return c.spec.Needs.GPUs > 0 }

// explainGPU counts GPUs: a whole device needs one that is entirely free, a share the device with the most free.
func (c *class) explainGPU(i int) cluster.Rejection {
	per := float64(c.spec.Needs.PerGPU()) / cluster.WholeGPU
	why := cluster.Rejection{Need: float64(c.spec.Needs.GPUs) * per, Best: float64(c.enough(i)) * per}
	if c.spec.Needs.GPUs == 1 && per < 1 {
		why.Best = max(why.Best, float64(c.share[i])/cluster.WholeGPU)
	}
	return why
}

func (c *class) wantsENIs() bool { return c.spec.Needs.ENIs > 0 }

func (c *class) explainENI(i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.ENIs), Best: float64(max(0, c.enis[i]))}
}

func (c *class) wantsMetrics() bool { return len(c.demands) > 0 }

func (c *class) hasMetrics(i int) bool { return c.allows(c.room(i)) }

// explainMetric names the first metric that has no room.
func (c *class) explainMetric(i int) cluster.Rejection {
	for _, d := range c.demands {
		limit := c.metrics[d.metric].total[i]
		if c.strict {
			limit = c.metrics[d.metric].unbuffered[i]
		}
		if load := c.metrics[d.metric].load[i]; d.load > limit-load {
			return cluster.Rejection{Detail: d.name, Need: float64(d.load), Best: float64(max(0, limit-load))}
		}
	}
	return cluster.Rejection{}
}
