package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// vcpuQuotas are the quotas of vCPUs in Service Quotas, by the letters that instance types begin
// with. Spot is "" where there is none. The longest beginning decides.
var vcpuQuotas = []struct {
	name, onDemand, spot string
	families             []string
}{
	{"Standard", "L-1216C47A", "L-34B43A08", []string{"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}},
	{"G and VT", "L-DB2E81BA", "L-3819A6DF", []string{"g", "gr", "vt"}},
	{"P", "L-417A185B", "L-7212CCBC", []string{"p"}},
	{"P5", "L-417A185B", "L-C4BD4855", []string{"p5"}},
	{"X", "L-7295265B", "L-E3A00192", []string{"x"}},
	{"F", "L-74FC7D96", "L-88CF9481", []string{"f"}},
	{"Inf", "L-1945791B", "L-B5D1601B", []string{"inf"}},
	{"Trn", "L-2C3B7624", "L-6B0D517C", []string{"trn"}},
	{"DL", "L-6E869C2A", "L-85EED4F7", []string{"dl"}},
	{"HPC", "L-F7808C92", "", []string{"hpc"}},
	{"High Memory", "L-43DA4232", "", []string{"u"}},
}

// vcpuUse is what the groups of an installation launch under a quota of vCPUs.
type vcpuUse struct {
	what     string   // "vCPUs of On-Demand Standard instances"
	types    []string // sorted
	machines int      // that the groups have now
}

// vcpuQuotaOf returns the quota of an instance type and what it bounds; false for a type that is
// under none, as Mac's.
func vcpuQuotaOf(instanceType string, spot bool) (id QuotaID, what string, found bool) {
	letters, longest := instanceType[:max(0, strings.IndexAny(instanceType, "0123456789-"))], 0
	for _, q := range vcpuQuotas {
		for _, family := range q.families {
			matches := letters == family || family == "p5" && strings.HasPrefix(instanceType, "p5")
			code, kind := q.onDemand, "On-Demand"
			if spot {
				code, kind = q.spot, "Spot"
			}
			if matches && code != "" && len(family) > longest {
				longest = len(family)
				id, what, found = QuotaID{"ec2", code}, "vCPUs of "+kind+" "+q.name+" instances", true
			}
		}
	}
	return id, what, found
}

// vcpuUses returns the quotas of vCPUs under which the groups launch.
func (f *Facts) vcpuUses() map[QuotaID]vcpuUse {
	uses := map[QuotaID]vcpuUse{}
	for _, name := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[name].Got
		for _, market := range []struct {
			spot  bool
			types []string
		}{{false, g.OnDemand}, {true, g.Spot}} {
			for _, t := range market.types {
				id, what, found := vcpuQuotaOf(t, market.spot)
				if !found {
					continue
				}
				use := uses[id]
				use.what, use.types, use.machines = what, append(use.types, t), use.machines+len(g.Instances)
				slices.Sort(use.types)
				use.types = slices.Compact(use.types)
				uses[id] = use
			}
		}
	}
	return uses
}

// NeededQuotas returns the quotas of Service Quotas that concern the installation, and the instance
// types of its groups, sorted.
func (f *Facts) NeededQuotas() (ids []QuotaID, types []string) {
	ids = slices.Collect(maps.Keys(AccountQuotas))
	for id, use := range f.vcpuUses() {
		ids, types = append(ids, id), append(types, use.types...)
	}
	slices.Sort(types)
	return ids, slices.Compact(types)
}

// ErrNoDatapoint is the error of a usage metric without values, which it has while nothing is used.
var ErrNoDatapoint = errors.New("CloudWatch has no datapoint of how many are used")

// judgeVCPUs compares the quotas of vCPUs with what runs in the account: launches beyond them fail.
// The smallest type of the groups must have room.
func (f quotaJudge) judgeVCPUs() (found []Finding) {
	uses := f.vcpuUses()
	if len(uses) > 0 && f.VCPUs.Err != nil {
		found = append(found, notChecked("the sizes of instance types", f.VCPUs.Err))
	}
	for id, use := range uses {
		read := f.Quotas[id]
		running := read.Got.Used
		if errors.Is(running.Err, ErrNoDatapoint) && use.machines == 0 {
			running.Err = nil
		}
		switch {
		case read.Err != nil:
			found = append(found, notChecked("the quota of "+use.what, read.Err))
			continue
		case running.Err != nil:
			found = append(found, notChecked("how many "+use.what+" run", running.Err))
			continue
		}
		smallest := slices.MinFunc(use.types, func(a, b string) int { return f.VCPUs.Got[a] - f.VCPUs.Got[b] })
		need := max(1, f.VCPUs.Got[smallest])
		u := used{running.Got, read.Got.Value}
		verdict := u.verdict(float64(need))
		if verdict == OK {
			continue
		}
		found = append(found, Finding{Verdict: verdict, Thing: use.what, Value: u.String(),
			Expected: fmt.Sprintf("room for more: another %s needs %d, and its launch fails without", smallest, need),
			Remedy:   "Ask for a higher quota, or let the groups use instance types of another family",
			Command:  f.askForMore(id, fmt.Sprintf("%.0f", max(2*u.limit, u.amount+float64(need))))})
	}
	return found
}

// launchCodes are the codes by which EC2 refuses a launch for a quota of vCPUs. They are part of the
// messages of Auto Scaling's activities.
var launchCodes = []struct {
	code string
	spot bool
}{{"VcpuLimitExceeded", false}, {"InstanceLimitExceeded", false}, {"MaxSpotInstanceCountExceeded", true}}

// judgeLaunches finds groups whose last launch was refused for a quota.
func (f quotaJudge) judgeLaunches() (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[name]
		for _, c := range launchCodes {
			if g.Err != nil || !strings.Contains(g.Got.Failure.Got, c.code) {
				continue
			}
			types := g.Got.OnDemand
			if c.spot {
				types = g.Got.Spot
			}
			id, what, _ := vcpuQuotaOf("m5.large", c.spot) // Standard, unless the group's types are known
			for _, t := range types {
				if of, kind, bounded := vcpuQuotaOf(t, c.spot); bounded {
					id, what = of, kind
					break
				}
			}
			found = append(found, Finding{Verdict: Fail, Thing: "launches of group " + name, Value: g.Got.Failure.Got,
				Expected: "a higher quota of " + what,
				Remedy: "Ask for more than `aws service-quotas get-service-quota` " +
					"says (set N), or let the group use another instance type",
				Command: f.askForMore(id, "$N")})
		}
	}
	return found
}
