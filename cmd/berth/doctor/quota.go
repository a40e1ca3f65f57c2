package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// launchQuotas are the codes by which EC2 refuses a launch for a quota, with the code of the quota
// in Service Quotas. The codes are part of the messages of Auto Scaling's activities.
var launchQuotas = []struct{ code, what, quota string }{
	{"VcpuLimitExceeded", "vCPUs of running On-Demand Standard instances", "L-1216C47A"},
	{"InstanceLimitExceeded", "running On-Demand Standard instances", "L-1216C47A"},
	{"MaxSpotInstanceCountExceeded", "Spot instances", "L-34B43A08"},
}

// maxInstances is how many container instances ECS allows in a cluster (ECS service quotas).
const maxInstances = 5000

// checkQuotas compares quotas with what is used of them.
func checkQuotas(f *Facts) Check {
	const looked = "Lambda's concurrency, Auto Scaling groups, launches, instances in a cluster"
	found := append(f.judgeConcurrency(), f.judgeGroupCount()...)
	for _, name := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[name]
		for _, q := range launchQuotas {
			if g.Err != nil || !strings.Contains(g.Got.Failure.Got, q.code) {
				continue
			}
			found = append(found, Finding{Verdict: Fail, Thing: "launches of group " + name, Value: g.Got.Failure.Got,
				Expected: "a higher quota of " + q.what,
				Remedy: "Ask for more than `aws service-quotas get-service-quota` " +
					"says (set N), or let the group use another instance type",
				Command: f.aws("service-quotas request-service-quota-increase --service-code ec2 --quota-code %s "+
					"--desired-value $N", q.quota)})
		}
	}
	for _, c := range f.Clusters.Got {
		if n := len(c.ECS.Got.Instances); n >= maxInstances*9/10 {
			found = append(found, Finding{Verdict: Warn, Thing: "cluster " + c.Name, Value: countOf(n, "instance"),
				Expected: fmt.Sprintf("fewer than %d, which ECS allows in a cluster", maxInstances),
				Remedy:   "Use larger machines, or a second cluster"})
		}
	}
	return newCheck("", looked, found...)
}

// neededConcurrency is how many functions may run at a time if every source is busy, and one call
// of the API.
func (p *Plan) neededConcurrency() int {
	n := 1 + len(p.Schedules)
	for _, m := range p.Mappings {
		n += m.Concurrency
	}
	return n
}

// judgeConcurrency compares the account's limit with what Berth's functions need that have reserved
// none. New accounts have a limit of 10.
func (f *Facts) judgeConcurrency() []Finding {
	if f.Lambda.Err != nil {
		return []Finding{notChecked("Lambda's concurrency", f.Lambda.Err)}
	}
	need := f.Plan.neededConcurrency()
	finding := Finding{Thing: "concurrent executions of Lambda",
		Value: fmt.Sprintf("%d in the account, %d of them unreserved", f.Lambda.Got.Concurrent,
			f.Lambda.Got.Unreserved),
		Expected: fmt.Sprintf("at least %d, which Berth uses while all its queues are busy; the API needs one for "+
			"each call more", need),
		Remedy: "Ask for a higher quota, or reserve concurrency for Berth by the parameter ReservedConcurrency",
		Command: f.aws("service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 " +
			"--desired-value 1000")}
	switch {
	case f.Lambda.Got.Concurrent < need:
		finding.Verdict = Fail
	case f.Lambda.Got.Unreserved < need && f.usesUnreserved():
		finding.Verdict = Warn
	default:
		return nil
	}
	return []Finding{finding}
}

// usesUnreserved reports whether a function has no reserved concurrency.
func (f *Facts) usesUnreserved() bool {
	for _, r := range f.Functions {
		if r.Err == nil && r.Got.Reserved.Err == nil && r.Got.Reserved.Got == nil {
			return true
		}
	}
	return false
}

// judgeGroupCount compares the number of Auto Scaling groups with the account's limit: Berth makes
// one for a node group.
func (f *Facts) judgeGroupCount() []Finding {
	if f.Scaling.Err != nil {
		return []Finding{notChecked("the number of Auto Scaling groups", f.Scaling.Err)}
	}
	used, most := f.Scaling.Got.Groups, f.Scaling.Got.MaxGroups
	if most == 0 || used < most*9/10 {
		return nil
	}
	v := Warn
	if used >= most {
		v = Fail
	}
	return []Finding{{Verdict: v, Thing: "Auto Scaling groups", Value: fmt.Sprintf("%d of %d", used, most),
		Expected: "room for another one: Berth makes one for each node group", Remedy: "Ask for a higher quota",
		Command: f.aws("service-quotas request-service-quota-increase --service-code autoscaling --quota-code "+
			"L-CDE20ADC --desired-value %d", most*2)}}
}
