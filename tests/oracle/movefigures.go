package oracle

import (
	"fmt"
	"math"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// A figure is what a rule counts in one place.
type figure struct {
	value, limit, total int64
	ending              int64 // comes on top, and is about to end
}

// limitFor returns how high the value may end, as far as that limit is concerned.
func (f figure) limitFor(limit int64, was figure) int64 { return max(limit-f.ending, was.value) }

// figures returns all counts that a rule limits, by place. possible is false if devices or ports
// are used twice.
func (o *MoveOracle) figures() (possible bool, out map[string]figure) {
	out = map[string]figure{}
	nodes := int64(0)
	limits := o.Config.Applications[Shop]
	for i, v := range o.Instances {
		loads := map[string]int64{}
		ending := map[string]int64{}
		devices, listeners := 0, 0
		onIt, gone := map[string]int64{}, map[string]int64{}
		count := func(t *cluster.Task, into map[string]int64) {
			into["CPU"] += t.Needs.CPU
			for m, n := range t.Reported {
				into[m] += n
			}
			if o.applicationOfOwner(t.Owner) == Shop {
				into["in "+Shop]++
				into["a of "+Shop] += t.Reported["a"]
			}
			devices += t.Needs.GPUs
			listeners += len(t.Ports)
		}
		for n, t := range o.counted {
			if o.at[n] == i {
				count(t, loads)
				onIt[t.Owner]++
			}
		}
		for _, t := range o.Tasks {
			if !t.IsActive() && t.Instance == v.ID {
				count(t, ending)
				gone[t.Owner]++
			}
		}
		if devices > len(v.Registered.GPUs) || listeners > 1 {
			return false, nil
		}
		if loads["in "+Shop] > 0 && v.Status != cluster.InstanceDraining {
			nodes++
		}
		if loads["in "+Shop]+ending["in "+Shop] > 0 {
			loads["a"] += max(0, o.reservedFor(i)-loads["a of "+Shop]-ending["a of "+Shop])
		}
		for m, limit := range o.cellLimits(v) {
			out[fmt.Sprintf("cell %s %s", v.ID, m)] = figure{loads[m], limit[0], limit[1], ending[m]}
		}
		for name, n := range onIt {
			if most := o.maxPerInstance(name); most > 0 {
				out[fmt.Sprintf("shared %s %s", v.ID, name)] = figure{n, most, most, gone[name]}
			}
		}
	}
	if most := int64(limits.MaximumNodes); most > 0 {
		out["nodes "+Shop] = figure{value: nodes, limit: most, total: most}
	}
	for name, d := range o.domains {
		o.countDomains(name, d, out)
	}
	return true, out
}

// NodesOfShop returns how many instances the application is on, or 0 if their number has no limit.
func (o *MoveOracle) NodesOfShop() int64 {
	_, now := o.figures()
	return now["nodes "+Shop].value
}

// cellLimits returns what the instance takes of each dimension without the buffer, and in all.
func (o *MoveOracle) cellLimits(v *cluster.Instance) map[string][2]int64 {
	out := map[string][2]int64{"CPU": {v.Registered.CPU, v.Registered.CPU}}
	for m, n := range v.Registered.Metrics {
		out[m] = [2]int64{n, n}
	}
	if n := o.Config.Applications[Shop].Metrics["a"].NodeCapacity; n > 0 {
		out["a of "+Shop] = [2]int64{n, n}
	}
	if n, ok := out["a"]; ok {
		if p := o.Config.Buffer["a"]; p > 0 {
			out["a"] = [2]int64{n[0] * 8 / 10, n[0]}
		}
		switch p := o.Config.Overbooking["a"]; {
		case p > 0:
			out["a"] = [2]int64{n[0], n[0] * 13 / 10}
		case p < 0:
			out["a"] = [2]int64{n[0], math.MaxInt32}
		}
	}
	return out
}

func (o *MoveOracle) countDomains(name string, d *domain.Domains, out map[string]figure) {
	units := map[string]int64{}
	add := func(sign int) {
		for n, t := range o.counted {
			if t.Owner == name && o.at[n] >= 0 {
				d.AddTasks(o.at[n], sign)
			}
		}
	}
	add(1)
	fault, upgrade := d.Excess()
	add(-1)
	out["fault "+name], out["upgrade "+name] = figure{value: int64(fault)}, figure{value: int64(upgrade)}
	// Where the rule is a limit per domain, none may go over it that was not: domains here are one
	// level deep.
	for n, t := range o.counted {
		if t.Owner == name && o.at[n] >= 0 {
			v := o.Instances[o.at[n]]
			units["unit fault "+name+" "+v.FaultDomain()]++
			units["unit upgrade "+name+" "+v.UpgradeDomain()]++
		}
	}
	policy := o.Owners[name].Spec.DomainPolicy
	quorumFault, quorumUpgrade := d.UsesQuorum()
	for unit, n := range units {
		isFault := strings.HasPrefix(unit, "unit fault ")
		limited := isFault && (quorumFault || policy == cluster.PolicyNonpacking) || !isFault && quorumUpgrade
		if limited && !strings.HasSuffix(unit, " ") && (!isFault || d.FaultDomainCount() > 0) &&
			(isFault || d.UpgradeDomainCount() > 0) {
			out[unit] = figure{value: n, limit: o.unitLimit(name, unit[strings.LastIndex(unit, " ")+1:], isFault)}
		}
	}
}

// liveDomains returns the domains in which a task of the owner may run.
func (o *MoveOracle) liveDomains(name string, fault bool) map[string]bool {
	out := map[string]bool{}
	probe := Task("", "", Owner(name))
	for i, v := range o.Instances {
		domain := v.UpgradeDomain()
		if fault {
			domain = v.FaultDomain()
		}
		if domain != "" && o.takesTasks(i) && !o.avoids(probe, i) && o.matches(probe, i) {
			out[domain] = true
		}
	}
	return out
}

// unitLimit returns how many tasks a domain may have: by quorum safety (P4), or 1 under nonpacking,
// where a domain without an instance for the tasks is none.
func (o *MoveOracle) unitLimit(name, domain string, fault bool) int64 {
	live := o.liveDomains(name, fault)
	if fault && o.Owners[name].Spec.DomainPolicy == cluster.PolicyNonpacking {
		if live[domain] {
			return 1
		}
		return math.MaxInt32
	}
	domains := len(live)
	if domains < 2 {
		domains = 0
	}
	if domains == 0 {
		return math.MaxInt32 // no two domains, no limit
	}
	target := o.Owners[name].Target
	limit := max(target-(target/2+1), 1)
	if domains*limit < target {
		limit++
	}
	return int64(limit)
}
