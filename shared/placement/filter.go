package placement

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
)

// A filter is one reason why an instance cannot run a task.
type filter struct {
	name     cluster.Filter
	concerns func(*chooser) bool      // whether it can reject the chooser's tasks at all
	passes   func(*chooser, int) bool // whether it accepts the instance
	// explain is called for rejected instances only. It returns what was needed and the best there
	// is, in the units of [cluster.Rejection], or a detail.
	explain func(*chooser, int) cluster.Rejection
}

// filters has all filters in the order of explanations: an instance counts for the first one that
// rejects it. Placing checks the same rules in a cheaper order, in [shape.feasibilityOf],
// [isOwnerException] and [chooser.isRegionOpen]. Every new filter needs its check there.
var filters = []filter{
	{cluster.FilterStatus, concernsEvery, passesStatus, explainStatus},
	{cluster.FilterAgent, concernsEvery, passesAgent, explainNothing},
	{cluster.FilterUnschedulable, concernsEvery, passesCordon, explainUnschedulable},
	{cluster.FilterTaint, concernsEvery, passesTaints, explainTaint},
	{cluster.FilterRefused, concernsRefused, passesRefused, explainNothing},
	{cluster.FilterAttribute, concernsAttributes, passesAttributes, explainAttribute},
	{cluster.FilterConstraint, concernsConstraints, passesConstraints, explainConstraint},
	{cluster.FilterAffinity, concernsAffinity, passesAffinity, explainNothing},
	{cluster.FilterOccupied, concernsOccupied, passesOccupied, explainNothing},
	{cluster.FilterFaultDomain, concernsDomains, passesFaultDomain, explainFaultDomain},
	{cluster.FilterUpgrade, concernsDomains, passesUpgradeDomain, explainUpgradeDomain},
	{cluster.FilterPort, concernsPorts, (*chooser).hasPorts, explainPort},
	{cluster.FilterCPU, concernsEvery, (*chooser).hasCPU, explainCPU},
	{cluster.FilterMemory, concernsEvery, (*chooser).hasMemory, explainMemory},
	{cluster.FilterGPU, concernsGPUs, (*chooser).hasGPUs, explainGPU},
	{cluster.FilterENI, concernsENIs, (*chooser).hasENIs, explainENI},
	{cluster.FilterMetric, concernsMetrics, passesMetrics, explainMetric},
	{cluster.FilterApplicationNodes, concernsApplication, passesApplicationNodes, explainApplicationNodes},
	{cluster.FilterApplicationNode, concernsApplication, passesApplicationOnNode, explainApplicationOnNode},
	{cluster.FilterApplicationTotal, concernsApplication, passesApplicationInAll, explainApplicationInAll},
}

func concernsEvery(*chooser) bool { return true }

func explainNothing(*chooser, int) cluster.Rejection { return cluster.Rejection{} }

func passesStatus(c *chooser, i int) bool { return c.engine.active[i] }

func explainStatus(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: string(c.engine.views[i].Status)}
}

func passesAgent(c *chooser, i int) bool { return c.engine.agentConnected[i] }

func passesCordon(c *chooser, i int) bool {
	return !c.engine.cordoned[i] && (len(c.spec.Avoid) == 0 || !slices.Contains(c.spec.Avoid, c.engine.views[i].ID))
}

func explainUnschedulable(c *chooser, i int) cluster.Rejection {
	if c.engine.cordoned[i] {
		return cluster.Rejection{}
	}
	return cluster.Rejection{Detail: "in the list of instances to avoid"}
}

func passesTaints(c *chooser, i int) bool {
	if !c.engine.tainted[i] {
		return true
	}
	_, tainted := eligibility.UntoleratedTaint(c.engine.views[i], c.spec.Tolerations)
	return !tainted
}

func explainTaint(c *chooser, i int) cluster.Rejection {
	taint, _ := eligibility.UntoleratedTaint(c.engine.views[i], c.spec.Tolerations)
	return cluster.Rejection{Detail: taint.String()}
}

func concernsRefused(c *chooser) bool { return len(c.engine.heldBack) > 0 }

func passesRefused(c *chooser, i int) bool { return !c.engine.isHeldBack(i) }

func concernsAttributes(c *chooser) bool { return len(c.spec.Attributes) > 0 }

func passesAttributes(c *chooser, i int) bool {
	return eligibility.MissingAttribute(c.engine.views[i], c.spec.Attributes) == ""
}

func explainAttribute(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: eligibility.MissingAttribute(c.engine.views[i], c.spec.Attributes)}
}

func concernsConstraints(c *chooser) bool { return len(c.constraints) > 0 }

func passesConstraints(c *chooser, i int) bool { return firstUnmetConstraint(c, i) == nil }

func explainConstraint(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: firstUnmetConstraint(c, i).text}
}

// firstUnmetConstraint returns the first constraint that the instance does not meet, or nil.
func firstUnmetConstraint(c *chooser, i int) *constraintColumn {
	for _, column := range c.constraints {
		if !column.matches[i] {
			return column
		}
	}
	return nil
}

func concernsAffinity(c *chooser) bool { return c.affinity != nil }

func passesAffinity(c *chooser, i int) bool { return c.affinity == nil || c.affinity.matches[i] }

func concernsOccupied(c *chooser) bool { return c.maxPerInstance > 0 }

func passesOccupied(c *chooser, i int) bool {
	return c.limited.occupying.Of(int32(i)) < c.maxPerInstance
}

func concernsDomains(c *chooser) bool { return c.domains != nil }

func passesFaultDomain(c *chooser, i int) bool {
	return c.domains.AdmitsFault(c.domains.FaultDomain(i))
}

func explainFaultDomain(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.engine.views[i].FaultDomain()}
}

func passesUpgradeDomain(c *chooser, i int) bool {
	return c.domains.AdmitsUpgrade(c.domains.UpgradeDomain(i))
}

func explainUpgradeDomain(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.engine.views[i].UpgradeDomain()}
}

func concernsPorts(c *chooser) bool { return len(c.spec.Ports) > 0 }

func explainPort(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Detail: c.portNames[c.firstTakenPort(i)]}
}

func explainCPU(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Need: cpuUnits(c.spec.Needs.CPU), Best: cpuUnits(max(0, c.engine.usages[i].cpu))}
}

func cpuUnits(cpu int64) float64 { return float64(cpu) / cluster.CPUUnit }

func explainMemory(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.Memory), Best: float64(max(0, c.engine.usages[i].memory))}
}

func concernsGPUs(c *chooser) bool { return c.spec.Needs.GPUs > 0 }

// explainGPU counts GPUs. A whole GPU needs a device that is entirely free; a share compares with
// the most that is free on one device: a task of half a GPU is told "best free 0.3", not "0".
func explainGPU(c *chooser, i int) cluster.Rejection {
	per := c.spec.Needs.PerGPU()
	best := c.usableDevices(i) * per
	if c.spec.Needs.GPUs == 1 && per < cluster.WholeGPU {
		best = max(best, int(c.engine.usages[i].largestShare))
	}
	return cluster.Rejection{Need: float64(c.spec.Needs.GPUs*per) / cluster.WholeGPU,
		Best: float64(best) / cluster.WholeGPU}
}

func concernsENIs(c *chooser) bool { return c.spec.Needs.ENIs > 0 }

func explainENI(c *chooser, i int) cluster.Rejection {
	return cluster.Rejection{Need: float64(c.spec.Needs.ENIs), Best: float64(max(0, c.engine.usages[i].enis))}
}

func concernsMetrics(c *chooser) bool { return len(c.demands) > 0 }

func passesMetrics(c *chooser, i int) bool { return c.acceptsFeasibility(c.roomInMetrics(i)) }

// explainMetric names the first metric without enough room.
func explainMetric(c *chooser, i int) cluster.Rejection {
	for _, d := range c.demands {
		metric := &c.engine.metrics[d.metric][i]
		limit, load := metric.total, metric.load+metric.reserved
		if c.strict {
			limit = metric.unbuffered
		}
		if added := c.application.addedLoad(i, d.metric, d.load); added > 0 && added > limit-load {
			return cluster.Rejection{Detail: d.name, Need: float64(added), Best: float64(max(0, limit-load))}
		}
	}
	return cluster.Rejection{}
}
