package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkFunctions compares the functions' configurations with the template.
func checkFunctions(f *Facts) Check {
	return newCheck("", countOf(len(f.Plan.Functions), "function"), sortedReads(f, f.Plan.Functions, f.Functions,
		f.judgeFunction)...)
}

// judgeFunction judges one function. An Inactive one has not been called for a long time, and wakes
// up with the next call.
func (f *Facts) judgeFunction(id string, p PlannedFunction, got Function) (found []Finding) {
	name := f.physical(id)
	if got.State != "Active" && got.State != "Inactive" || got.Update == "Failed" {
		found = append(found, Finding{Verdict: Fail, Thing: id,
			Value: strings.TrimSpace(fmt.Sprintf("%s %s %s %s", got.State, got.StateReason, got.Update,
				got.UpdateReason)),
			Expected: "Active, its last update Successful", Remedy: "Deploy again", Command: "make deploy"})
	}
	if role := f.physical(p.Role); role != "" && !strings.HasSuffix(got.Role, "/"+role) {
		found = append(found, Finding{Verdict: Fail, Thing: id, Value: "its role is " + got.Role,
			Expected: "role " + role,
			Remedy:   "Give it the role of the stack", Command: f.aws(
				"lambda update-function-configuration --function-name %s --role $(aws iam get-role --role-name %s "+
					"--query Role.Arn --output text)", name, role)})
	}
	if got.VariablesErr != nil {
		found = append(found, notChecked("the variables of "+id, got.VariablesErr))
	}
	var differing []string
	for _, v := range slices.Sorted(maps.Keys(p.Variables)) {
		if value, there := got.Variables[v]; got.VariablesErr == nil && (!there || value != p.Variables[v]) {
			differing = append(differing, fmt.Sprintf("%s is %q instead of %q", v, value, p.Variables[v]))
		}
	}
	if len(differing) > 0 {
		found = append(found, Finding{Verdict: Fail, Thing: id, Value: strings.Join(differing, "; "),
			Expected: "the variables of template.yaml",
			Remedy:   "Deploy this version of Berth again; change a parameter with it if the values were set by hand",
			Command:  "make deploy"})
	}
	switch reserved := got.Reserved.Got; {
	case got.Reserved.Err != nil:
		found = append(found, notChecked("the reserved concurrency of "+id, got.Reserved.Err))
	case reserved != nil && *reserved == 0:
		found = append(found, Finding{Verdict: Fail, Thing: id, Value: "reserved concurrency 0: it never runs",
			Expected: "none, or at least 1", Remedy: "Remove the reservation, or set the parameter ReservedConcurrency",
			Command: f.aws("lambda delete-function-concurrency --function-name %s", name)})
	}
	return found
}

// checkPermissions compares what the roles' policies allow with what the template's do.
func checkPermissions(f *Facts) Check {
	return newCheck("", "the policies of "+countOf(len(f.Plan.Roles), "role"),
		sortedReads(f, f.Plan.Roles, f.Roles, f.judgeRole)...)
}

// judgeRole judges one role. The remedy restores the whole policy: CloudFormation does not, because
// its template has not changed.
func (f *Facts) judgeRole(id string, p PlannedRole, got Role) (found []Finding) {
	if got.Boundary != "" {
		found = append(found, Finding{Verdict: Unknown, Thing: id, Value: "its permissions boundary " + got.Boundary +
			" is not checked", Remedy: "Make sure that the boundary allows all that template.yaml does"})
	}
	missing := got.missingGrants(p.Statements)
	if len(missing) == 0 {
		return found
	}
	document, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": p.Statements})
	if err != nil {
		return append(found, notChecked(id, err))
	}
	name := f.physical(id)
	return append(found, Finding{Verdict: Fail, Thing: id,
		Value:    "role " + name + " does not allow " + strings.Join(missing, "; "),
		Expected: "what template.yaml grants " + p.PolicyName,
		Remedy: "If the stack is of another version of Berth, deploy this one (make deploy). If the policy was " +
			"changed by hand, restore it",
		Command: f.aws("iam put-role-policy --role-name %s --policy-name %s --policy-document '%s'", name, p.PolicyName,
			document)})
}

// checkTable judges the table and its stream.
func checkTable(f *Facts) Check {
	const looked = "the table, its stream and its time to live"
	name := f.physical(f.Plan.Table)
	if f.Table.Err != nil {
		return newCheck("", looked, f.unreadable("table "+name, f.Table.Err))
	}
	t := f.Table.Got
	var found []Finding
	if t.Status != "ACTIVE" && t.Status != "UPDATING" {
		found = append(found, Finding{Verdict: Fail, Thing: "table " + name, Value: t.Status, Expected: "ACTIVE",
			Remedy:  "Wait until it is ACTIVE; a table whose key is inaccessible needs its KMS key back",
			Command: f.aws("dynamodb wait table-exists --table-name %s", name)})
	}
	if t.StreamARN == "" || t.StreamView != "NEW_AND_OLD_IMAGES" {
		found = append(found, Finding{Verdict: Fail, Thing: "stream of table " + name,
			Value: strings.TrimSpace("off " + t.StreamView), Expected: "NEW_AND_OLD_IMAGES",
			Remedy: "Switch the stream on, and deploy again, so that the functions read the new stream",
			Command: f.aws("dynamodb update-table --table-name %s --stream-specification "+
				"StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", name)})
	}
	switch {
	case t.TTL.Err != nil:
		found = append(found, notChecked("time to live of table "+name, t.TTL.Err))
	case t.TTL.Got != "ttl":
		found = append(found, Finding{Verdict: Warn, Thing: "time to live of table " + name,
			Value: fmt.Sprintf("attribute %q", t.TTL.Got), Expected: `attribute "ttl": stopped tasks are never removed`,
			Remedy: "Switch it on", Command: f.aws("dynamodb update-time-to-live --table-name %s "+
				"--time-to-live-specification Enabled=true,AttributeName=ttl", name)})
	}
	return newCheck("", looked, found...)
}
