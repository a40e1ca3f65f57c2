package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is the outcome of a check, and of one finding. Users read it, so it never changes.
type Verdict string

// The verdicts, from the best.
const (
	OK      Verdict = "ok"
	Unknown Verdict = "unknown" // it could not be checked
	Warn    Verdict = "warn"    // it works, and may soon not
	Fail    Verdict = "fail"
)

// severity orders the verdicts.
var severity = map[Verdict]int{OK: 0, Unknown: 1, Warn: 2, Fail: 3}

// Check is one thing that was looked at.
type Check struct {
	// Name never changes.
	Name string `json:"name"`
	// Looked says at what: "8 functions".
	Looked   string    `json:"looked"`
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`
}

// Finding is one thing that is wrong, or that could not be checked.
type Finding struct {
	Verdict  Verdict `json:"verdict"`
	Thing    string  `json:"thing"`
	Value    string  `json:"value"`
	Expected string  `json:"expected,omitempty"`
	// Remedy says what to do, Command is a command to copy.
	Remedy  string `json:"remedy,omitempty"`
	Command string `json:"command,omitempty"`
}

// Report is the outcome of all checks, in a fixed order.
type Report struct {
	// A report is about a stack in a Region, or about a data folder.
	Stack   string    `json:"stack,omitempty"`
	Region  string    `json:"region,omitempty"`
	Data    string    `json:"data,omitempty"`
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	Checks  []Check   `json:"checks"`
}

// add adds a check under its name.
func (r *Report) add(name string, c Check) {
	if c.Name = name; severity[c.Verdict] > severity[r.Verdict] {
		r.Verdict = c.Verdict
	}
	r.Checks = append(r.Checks, c)
}

// newCheck returns a check with the verdict of its worst finding. The findings are ordered by their
// verdict, the worst first, and then by thing.
func newCheck(name, looked string, findings ...Finding) Check {
	c := Check{Name: name, Looked: looked, Verdict: OK, Findings: joinUnknown(findings)}
	slices.SortStableFunc(c.Findings, func(a, b Finding) int {
		if d := severity[b.Verdict] - severity[a.Verdict]; d != 0 {
			return d
		}
		return strings.Compare(a.Thing, b.Thing)
	})
	if len(c.Findings) > 0 {
		c.Verdict = c.Findings[0].Verdict
	}
	return c
}

// joinUnknown makes one finding of those that could not be checked for the same reason.
func joinUnknown(findings []Finding) []Finding {
	out, same := []Finding{}, map[string][]string{}
	for _, f := range findings {
		if f.Verdict == Unknown {
			same[f.Value] = append(same[f.Value], f.Thing)
		}
	}
	for _, f := range findings {
		if things := same[f.Value]; f.Verdict == Unknown {
			if things == nil {
				continue
			}
			f.Thing = listNames(things)
			delete(same, f.Value)
		}
		out = append(out, f)
	}
	return out
}

// Denied is the error of what the caller has no permission to read.
type Denied struct{ Action string }

// Error names the permission.
func (d *Denied) Error() string { return "needs " + d.Action }

// Read is what was read, or why it was not.
type Read[T any] struct {
	Got T
	Err error
}

// notChecked returns the finding of something that could not be read.
func notChecked(thing string, err error) Finding {
	var denied *Denied
	if errors.As(err, &denied) {
		return Finding{Verdict: Unknown, Thing: thing, Value: "not checked: needs " + denied.Action,
			Remedy: "Allow the action to your user or role; `berth doctor --help` lists all that it needs."}
	}
	return Finding{Verdict: Unknown, Thing: thing, Value: fmt.Sprintf("not checked: %v", err)}
}

// ErrMissing is the error of something that does not exist. ErrUnsupported is that of a group that
// launches by a launch configuration.
var (
	ErrMissing     = errors.New("it does not exist")
	ErrUnsupported = errors.New("it has a launch configuration, expected a launch template")
)

// unreadable returns the finding of something that could not be read: a failure if that is because
// it does not exist.
func (f *Facts) unreadable(thing string, err error) Finding {
	if errors.Is(err, ErrMissing) {
		return Finding{Verdict: Fail, Thing: thing, Value: "it does not exist", Expected: "what template.yaml makes",
			Remedy: "Deploy the stack again; CloudFormation makes only what it believes to be missing, so delete the " +
				"resource from the stack first if it was deleted by hand",
			Command: f.aws("cloudformation detect-stack-drift --stack-name %s", f.Stack.Name)}
	}
	return notChecked(thing, err)
}

// Count returns how many checks have the verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// countOf returns "1 queue" or "3 queues".
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// asDenied reports whether an error is a missing permission.
func asDenied(err error, denied **Denied) bool { return errors.As(err, denied) }
