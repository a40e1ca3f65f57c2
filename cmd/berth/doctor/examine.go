package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// checks has the name of each check and what makes it, in the order of reports: first what others
// depend on.
var checks = []struct {
	name string
	make func(*Facts) Check
}{
	{"clock", checkClock},
	{"stack", checkStack},
	{"functions", checkFunctions},
	{"permissions", checkPermissions},
	{"table", checkTable},
	{"event source mappings", checkMappings},
	{"rules", checkRules},
	{"schedules", checkSchedules},
	{"queues", checkQueues},
	{"dead letters", checkDeadLetters},
	{"quotas", checkQuotas},
	{"clusters", checkClusters},
	{"events arrive", checkEvents},
	{"groups", checkGroups},
	{"machines join", checkMachines},
}

// Examine makes every check.
func Examine(f *Facts) *Report {
	r := &Report{Stack: f.Stack.Name, Region: regionOfStack(f.Stack), At: f.Now.UTC().Truncate(time.Second),
		Verdict: OK}
	for _, c := range checks {
		r.add(c.name, c.make(f))
	}
	return r
}

func regionOfStack(s Stack) string { return newResolver(nil, s).pseudo["AWS::Region"] }

// Limits of the clock: the Date of an answer is wrong by a second, and AWS refuses requests that
// are more than five minutes off.
const (
	clockWarns = 30 * time.Second
	clockFails = 4 * time.Minute
)

// checkClock compares this machine's clock with AWS's.
func checkClock(f *Facts) Check {
	const looked = "this machine's clock against the Date of AWS's answers"
	off := f.ClockOffset.Abs().Round(time.Second)
	if off < clockWarns {
		return newCheck("", looked)
	}
	v, side := Warn, "behind"
	if f.ClockOffset < 0 {
		side = "ahead of"
	}
	if off >= clockFails {
		v = Fail
	}
	return newCheck("", looked, Finding{Verdict: v, Thing: "this machine's clock",
		Value:    fmt.Sprintf("%s %s AWS's", off, side),
		Expected: fmt.Sprintf("within %s: AWS refuses requests that are 5 minutes off", clockWarns),
		Remedy:   "Let the machine take its time from the network; do the same on machines that do not join",
		Command:  "sudo timedatectl set-ntp true"})
}

// checkStack compares the stack's resources with the template's.
func checkStack(f *Facts) Check {
	var found []Finding
	again := "Deploy again; `aws cloudformation describe-stack-events` says what failed before"
	status := Finding{Thing: "stack " + f.Stack.Name, Value: f.Stack.Status,
		Expected: "CREATE_COMPLETE or UPDATE_COMPLETE",
		Remedy:   again, Command: "make deploy"}
	if f.Stack.Reason != "" {
		status.Value += ": " + f.Stack.Reason
	}
	switch f.Stack.Status {
	case "CREATE_COMPLETE", "UPDATE_COMPLETE":
	case "UPDATE_ROLLBACK_COMPLETE", "CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":
		status.Verdict = Warn
		found = append(found, status)
	default:
		status.Verdict = Fail
		found = append(found, status)
	}
	for _, id := range slices.Sorted(maps.Keys(f.Plan.Resources)) {
		r, there := f.Stack.Resources[id]
		if !there {
			found = append(found, Finding{Verdict: Fail, Thing: id, Value: "the stack does not have it",
				Expected: "a resource of type " + f.Plan.Resources[id],
				Remedy:   "The stack is of another version of Berth, or incomplete; deploy this version",
				Command:  "make deploy"})
			continue
		}
		if !isComplete(r.Status) {
			found = append(found, Finding{Verdict: Fail, Thing: id, Value: r.Status + " " + r.Reason,
				Expected: "CREATE_COMPLETE or UPDATE_COMPLETE", Remedy: again,
				Command: f.aws("cloudformation describe-stack-events --stack-name %s", f.Stack.Name)})
		}
	}
	return newCheck("", countOf(len(f.Plan.Resources), "resource")+" of the template", found...)
}

// isComplete reports whether a resource is as its last change wanted it, or as it was before.
func isComplete(status string) bool {
	return slices.Contains([]string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE",
		"ROLLBACK_COMPLETE",
		"IMPORT_COMPLETE"}, status)
}

// sortedReads calls visit with what was read of each resource of the plan, by its id, and adds the
// finding of one that could not be read.
func sortedReads[P, T any](f *Facts, planned map[string]P, read map[string]Read[T],
	visit func(id string, p P, got T) []Finding,
) (found []Finding) {
	for _, id := range slices.Sorted(maps.Keys(planned)) {
		r, there := read[id]
		switch {
		case !there: // the stack does not have it, which its own check says
		case r.Err != nil:
			found = append(found, f.unreadable(id, r.Err))
		default:
			found = append(found, visit(id, planned[id], r.Got)...)
		}
	}
	return found
}
