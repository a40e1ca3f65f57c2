//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// breakTime is how long README.md says that the section takes at most, from the start of Berth.
const breakTime = 5 * time.Minute

// TestReadmeBreakIt runs the section of README.md in which a machine is killed, a deployment fails
// and machines are upgraded, as a newcomer would, and takes its time.
func TestReadmeBreakIt(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "the AWS CLI's waiters look every 15 and 30 s")
	}
	needsAWS(t)
	t.Parallel() // it mostly waits
	section := sectionOf(t, "README.md", "## Break it")
	flags := makeRun.FindStringSubmatch(section)
	if flags == nil || !strings.Contains(section, "less than five minutes") {
		t.Fatalf("the section does not say what to start, or how long it takes: %s", section)
	}
	bin := buildBerth(t)
	begin := time.Now()
	endpoint := runBerth(t, bin, strings.Fields(flags[1])...)
	shell := newShell(t, 3*time.Minute)
	shell.env = append(shell.env, "PATH="+filepath.Dir(bin)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var ran []string
	for _, command := range shellCommands(section) {
		if makeRun.MatchString("    " + command) {
			continue
		}
		out := shell.runCommand(strings.ReplaceAll(command, defaultEndpoint, endpoint))
		at := slices.IndexFunc(breakChecks, func(c breakCheck) bool {
			return strings.HasPrefix(command, c.command) && !slices.Contains(ran, c.name)
		})
		if at < 0 {
			continue
		}
		ran = append(ran, breakChecks[at].name)
		for _, want := range breakChecks[at].want {
			if !strings.Contains(out, want) {
				t.Fatalf("%s printed %q, want %q in it", command, out, want)
			}
		}
	}
	for _, c := range breakChecks {
		if !slices.Contains(ran, c.name) {
			t.Errorf("README.md does not show %s: %s", c.name, c.command)
		}
	}
	took := time.Since(begin)
	t.Logf("it took %s from the start of Berth", took.Round(time.Second))
	if took > breakTime {
		t.Errorf("it took %s, more than the %s that README.md promises", took, breakTime)
	}
}

var makeRun = regexp.MustCompile(`(?m)^    make run FLAGS="([^"]+)"`)

// A breakCheck is a command that the section must contain, and what it must print.
type breakCheck struct {
	name, command string
	want          []string
}

const sixRun = "wants 6 tasks: 6 running, 0 starting, 0 without an instance."

// breakChecks are in the order of the section.
var breakChecks = []breakCheck{
	{"the killed machine", "berth chaos kill", []string{"The machine of instance", "is terminated."}},
	{"the service after it", "berth explain service shop", []string{"shop:1", sixRun}},
	{"the failed deployment", "berth explain service shop", []string{"shop:1", sixRun,
		"was rolled back (ROLLBACK_SUCCESSFUL)", "(shop:2) never ran: CannotStartContainerError"}},
	{"the upgrade", "berth upgrade workers", []string{": drain", "waiting for tasks to leave i-",
		"Successful: 3 of 3 old nodes replaced"}},
	{"the service after the upgrade", "berth explain service shop",
		[]string{"wants 12 tasks: 12 running, 0 starting, 0 without an instance."}},
}
