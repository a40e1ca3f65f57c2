package doctor

import (
	"fmt"
	"slices"
	"strconv"
)

// maxInstances is how many container instances ECS allows in a cluster (ECS service quotas). It
// cannot be raised.
const maxInstances = 5000

// quotaJudge compares quotas of the account with what is used of them.
type quotaJudge struct{ *Facts }

// checkQuotas compares quotas with what is used of them.
func checkQuotas(f *Facts) Check {
	const looked = "Lambda's concurrency, Auto Scaling groups, launch templates, network interfaces, vCPUs of the " +
		"groups' instance types, launches, instances and services of a cluster"
	j := quotaJudge{f}
	found := slices.Concat(j.judgeConcurrency(), j.judgeGroupCount(), j.judgeAccountQuotas(), j.judgeVCPUs(),
		j.judgeLaunches())
	for _, c := range f.Clusters.Got {
		found = append(found, j.judgeClusterSize(c)...)
	}
	return newCheck("", looked, found...)
}

// used is how much of a limit is used.
type used struct{ amount, limit float64 }

// isNearlyAll is true from nine tenths on.
func (u used) isNearlyAll() bool { return u.amount >= u.limit*9/10 }

// String returns "950 of 1000".
func (u used) String() string { return fmt.Sprintf("%.0f of %.0f", u.amount, u.limit) }

// verdict is OK below nine tenths, and Fail if less than need is left.
func (u used) verdict(need float64) Verdict {
	switch {
	case u.limit-u.amount < need:
		return Fail
	case u.isNearlyAll():
		return Warn
	}
	return OK
}

// askForMore returns the command that asks for a higher quota.
func (f quotaJudge) askForMore(id QuotaID, value string) string {
	return f.aws("service-quotas request-service-quota-increase --service-code %s --quota-code %s --desired-value %s",
		id.Service, id.Code, value)
}

// AccountQuotas are the quotas that each installation may meet: what they bound, AWS's value for a
// new account, and what Berth uses of it.
var AccountQuotas = map[QuotaID]struct {
	What     string
	Standard float64
	Use      string
}{
	LaunchTemplates: {"launch templates", 5000, "Berth makes one for each node group"},
	NetworkInterfaces: {"network interfaces", 5000,
		"each machine has one, and each task in awsvpc mode has one more"},
}

// The quotas of an account that do not depend on its groups.
var (
	LaunchTemplates   = QuotaID{"ec2", "L-FB451C26"}
	NetworkInterfaces = QuotaID{"vpc", "L-DF5E4CA3"}
)

// judgeAccountQuotas compares the quotas of the account with what is used. Where the quota cannot
// be read, AWS's value for a new account takes its place, unless more is used already.
func (f quotaJudge) judgeAccountQuotas() (found []Finding) {
	for id, q := range AccountQuotas {
		read := f.Quotas[id]
		limit, note := read.Got.Value, ""
		if read.Err != nil {
			found = append(found, notChecked("the quota of "+q.What, read.Err))
			limit, note = q.Standard, ", AWS's value for a new account"
		}
		if read.Got.Used.Err != nil {
			found = append(found, notChecked("how many "+q.What+" there are", read.Got.Used.Err))
			continue
		}
		u := used{read.Got.Used.Got, limit}
		verdict := u.verdict(1)
		if verdict == OK || read.Err != nil && u.amount > limit {
			continue
		}
		found = append(found, Finding{Verdict: verdict, Thing: q.What, Value: u.String() + note,
			Expected: "room for more: " + q.Use, Remedy: "Ask for a higher quota, or delete what is not needed",
			Command: f.askForMore(id, fmt.Sprintf("%.0f", 2*limit))})
	}
	return found
}

// judgeClusterSize compares the instances of a cluster with ECS's quota, and its services with Berth's
// own limit.
func (f quotaJudge) judgeClusterSize(c Cluster) (found []Finding) {
	if u := (used{float64(len(c.ECS.Got.Instances)), maxInstances}); u.isNearlyAll() {
		found = append(found, Finding{Verdict: Warn, Thing: "instances of cluster " + c.Name, Value: u.String(),
			Expected: "room for more: ECS does not raise this quota",
			Remedy:   "Use larger machines, or a second cluster"})
	}
	limit, err := strconv.ParseFloat(f.Plan.Functions["ApiFunction"].Variables["SERVICE_LIMIT"], 64)
	if u := (used{float64(c.Services), limit}); err == nil && u.verdict(1) != OK {
		found = append(found, Finding{Verdict: u.verdict(1), Thing: "services of cluster " + c.Name, Value: u.String(),
			Expected: "room for more: CreateService is refused beyond the parameter ServiceLimit",
			Remedy:   "Deploy with a higher ServiceLimit, or use a second cluster", Command: "make deploy"})
	}
	return found
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
func (f quotaJudge) judgeConcurrency() []Finding {
	if f.Lambda.Err != nil {
		return []Finding{notChecked("Lambda's concurrency", f.Lambda.Err)}
	}
	need := f.Plan.neededConcurrency()
	finding := Finding{Thing: "concurrent executions of Lambda",
		Value: fmt.Sprintf("%d in the account, %d of them unreserved", f.Lambda.Got.Concurrent,
			f.Lambda.Got.Unreserved),
		Expected: fmt.Sprintf("at least %d, which Berth uses while all its queues are busy; the API needs one for "+
			"each call more", need),
		Remedy:  "Ask for a higher quota, or reserve concurrency for Berth by the parameter ReservedConcurrency",
		Command: f.askForMore(QuotaID{"lambda", "L-B99A9384"}, "1000")}
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
func (f quotaJudge) usesUnreserved() bool {
	for _, r := range f.Functions {
		if r.Err == nil && r.Got.Reserved.Err == nil && r.Got.Reserved.Got == nil {
			return true
		}
	}
	return false
}

// judgeGroupCount compares the number of Auto Scaling groups with the account's limit: Berth makes
// one for a node group.
func (f quotaJudge) judgeGroupCount() []Finding {
	if f.Scaling.Err != nil {
		return []Finding{notChecked("the number of Auto Scaling groups", f.Scaling.Err)}
	}
	u := used{float64(f.Scaling.Got.Groups), float64(f.Scaling.Got.MaxGroups)}
	verdict := u.verdict(1)
	if u.limit == 0 || verdict == OK {
		return nil
	}
	return []Finding{{Verdict: verdict, Thing: "Auto Scaling groups", Value: u.String(),
		Expected: "room for another one: Berth makes one for each node group", Remedy: "Ask for a higher quota",
		Command: f.askForMore(QuotaID{"autoscaling", "L-CDE20ADC"}, fmt.Sprintf("%.0f", 2*u.limit))}}
}
