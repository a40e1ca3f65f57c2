//go:build unix

package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

var stamps = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `)

// updateSteps is what an update does to the nodes of the backend, before each answer.
func updateSteps(end func(*backend)) []func(*backend) {
	return []func(*backend){
		func(*backend) {}, // before the update begins
		func(*backend) {},
		func(b *backend) {
			b.last.Phase, b.last.WaitingFor = cluster.PhaseUpgrade,
				"tasks to leave i-1: task task-1 of service web is protected"
			b.last.Removals = []cluster.NodeRemoval{{Instance: "i-1", Node: "node-1", Step: cluster.StepDrain}}
		},
		func(b *backend) {
			b.last.Removals, b.last.WaitingFor = nil, ""
			b.auto.Instances[0] = cluster.GroupInstance{ID: "i-3", Zone: "us-east-1a", Lifecycle: "InService"}
		},
		end,
	}
}

func TestUpgrade(t *testing.T) {
	b, endpoint := newBackend(t)
	b.changes = updateSteps(func(b *backend) { b.last.Status = cluster.UpdateSuccessful })
	code, out, errs := berth("upgrade", "workers", "--release-version", "ami-2", "--max-unavailable", "20%", "--force",
		"--every", "10ms", "--endpoint", endpoint)
	want := `update u-1 of node group workers to ReleaseVersion ami-2: InProgress, 2 of 2 nodes are old
phase: setup
phase: upgrade
old node i-1 in us-east-1a: drain
waiting for tasks to leave i-1: task task-1 of service web is protected
new node i-3 in us-east-1a: InService
old node i-1 in us-east-1a: terminated, 1 of 2 replaced
Successful: 1 of 2 old nodes replaced since the first report, desired capacity 2
`
	if out = stamps.ReplaceAllString(out, ""); code != 0 || out != want || errs != "" {
		t.Errorf("exit code %d, %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if len(b.changeCalls) != 2 ||
		b.changeCalls[0] != `clusters/default/node-groups/workers/update-config {"updateConfig":{"maxUnavailablePercentage":20}}` ||
		!strings.HasPrefix(b.changeCalls[1],
			`clusters/default/node-groups/workers/update-version {"clientRequestToken":"`) ||
		!strings.HasSuffix(b.changeCalls[1], `,"force":true,"releaseVersion":"ami-2"}`) {
		t.Errorf("asked for %q", b.changeCalls)
	}
}

// The times of the lines are those of Berth's clock, which may be ahead of this machine's.
func TestUpgradeTellsTheTimeOfBerth(t *testing.T) {
	b, endpoint := newBackend(t)
	b.now = time.Date(2031, 4, 5, 6, 7, 8, 0, time.UTC)
	b.changes = updateSteps(func(b *backend) { b.last.Status = cluster.UpdateSuccessful })
	code, out, errs := berth("upgrade", "workers", "--release-version", "ami-2", "--every", "10ms", "--endpoint", endpoint)
	at := b.now.UTC().Format(time.TimeOnly) + "  "
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, at) {
			t.Errorf("got %q, want %q at its beginning", line, at)
		}
	}
	if code != 0 || errs != "" || out == "" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

func TestUpgradeFails(t *testing.T) {
	b, endpoint := newBackend(t)
	b.changes = updateSteps(func(b *backend) {
		b.last.Status = cluster.UpdateFailed
		b.last.Errors = []cluster.UpdateError{{Code: cluster.PodEvictionFailure,
			Message: "Tasks did not leave node i-2", Resources: []string{"i-2"}}}
	})
	code, out, errs := berth("upgrade", "workers", "--release-version", "ami-2", "--every", "10ms", "--json",
		"--endpoint", endpoint)
	if code != 1 || errs != "berth: update u-1 of node group workers has Failed: PodEvictionFailure\n" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last struct {
		Status   string
		Replaced int
		Errors   []struct {
			Code      string   `json:"errorCode"`
			Message   string   `json:"errorMessage"`
			Resources []string `json:"resourceIds"`
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(lines) != 4 || last.Status != "Failed" || last.Replaced != 1 || len(last.Errors) != 1 ||
		last.Errors[0].Code != "PodEvictionFailure" ||
		last.Errors[0].Message != "Tasks did not leave node i-2" ||
		!slices.Equal(last.Errors[0].Resources, []string{"i-2"}) {
		t.Errorf("%d lines, the last %+v", len(lines), last)
	}
}

// An update in progress is followed, not started again; Ctrl-C stops only the report.
func TestUpgradeInProgress(t *testing.T) {
	b, endpoint := newBackend(t)
	b.last, b.group.Update, b.group.Status = b.updateRow("ami-2"), "u-1", cluster.NodeGroupUpdating
	for _, flag := range []string{"--release-version=ami-3", "--dry-run", "--force"} {
		code, _, errs := berth("upgrade", "workers", flag, "--endpoint", endpoint)
		if code != 1 || !strings.Contains(errs,
			"update u-1 of node group workers to ReleaseVersion ami-2 is in progress; `berth upgrade workers` without flags follows it") {
			t.Errorf("%s: exit code %d, %s", flag, code, errs)
		}
	}
	if code, out, errs := berth("upgrade", "workers", "--no-wait", "--json", "--endpoint", endpoint); code != 0 ||
		out != `{"id":"u-1","nodegroup":"workers","status":"InProgress"}`+"\n" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	c := startChild(t, "berth", "upgrade", "workers", "--every", "10ms", "--endpoint", endpoint)
	if line := <-c.lines; !strings.HasSuffix(line,
		"update u-1 of node group workers to ReleaseVersion ami-2: InProgress, 2 of 2 nodes are old") {
		t.Error(line)
	}
	code := c.interrupt()
	if _, errs := c.outputSoFar(); code != 130 ||
		errs != "Update u-1 continues; `berth upgrade workers` follows it again.\nberth: interrupted\n" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if b.mu.Lock(); len(b.changeCalls) > 0 {
		t.Errorf("asked for %q", b.changeCalls)
	}
	b.mu.Unlock()
}

// The error for a node group that is being created, or could not be, names its status.
func TestUpgradeOfAnUnfinishedNodeGroup(t *testing.T) {
	b, endpoint := newBackend(t)
	b.group.Status = cluster.NodeGroupCreating
	if code, _, errs := berth("upgrade", "workers", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, "node group workers is CREATING, which takes a minute") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	b.group.Status = cluster.NodeGroupCreateFailed
	b.group.Issues = []cluster.NodeGroupIssue{{Code: cluster.IssueGroupNotFound,
		Message: "There is no Auto Scaling group asg"}}
	if code, _, errs := berth("upgrade", "workers", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs,
			"node group workers is CREATE_FAILED: AutoScalingGroupNotFound: There is no Auto Scaling group asg") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestUpgradeDryRun(t *testing.T) {
	b, endpoint := newBackend(t)
	code, out, errs := berth("upgrade", "workers", "--release-version", "ami-2", "--max-unavailable", "2", "--dry-run",
		"--endpoint", endpoint)
	for _, want := range []string{
		"Update of node group workers to ReleaseVersion ami-2 (Auto Scaling group asg): 2 nodes would be replaced, at most 2 at a time (DEFAULT); 0 up to date.\n",
		"The group would grow from 2 to 4 nodes", "  1. i-1 in us-east-1a: 1 task\n",
		"In each turn the rest of the cluster can hold the load.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	if code != 0 || errs != "" || len(b.changeCalls) > 0 {
		t.Errorf("exit code %d, %s, asked for %q", code, errs, b.changeCalls)
	}
	code, out, errs = berth("upgrade", "workers", "--release-version", "ami-2", "--max-unavailable", "2", "--strategy",
		"minimal", "--dry-run", "--json", "--endpoint", endpoint)
	if code != 3 || errs != "" || !strings.Contains(out, `"surge":0`) ||
		!strings.Contains(out, `"noRoom":[{"turn":1,"why":"task task-`) {
		t.Errorf("both at once and no new ones: exit code %d, %s%s", code, out, errs)
	}
}

// The dry run reads the launch template itself, so that it foresees what would make the update fail
// there.
func TestUpgradeDryRunReadsTheLaunchTemplate(t *testing.T) {
	b, endpoint := newBackend(t)
	b.group.Target.SourceTemplate, b.group.Target.SourceVersion = "lt-7", "1"
	for _, c := range []struct {
		args string
		code int
		out  string
		errs string
	}{
		{"--launch-template-version 2", 0, "2 nodes would be replaced", ""},
		{"--launch-template-version 9", 3,
			"would fail before it replaces a node: InvalidLaunchTemplateId.VersionNotFound: no version 9\n", ""},
		{"--launch-template-version 3", 3,
			"InvalidParameterException: Version 3 of launch template lt-7 names no image", ""},
		{"--release-version ami-3", 3,
			"InvalidRequestException: You cannot specify version or releaseVersion: the launch template names an image\n", ""},
		{"--launch-template-version 9 --json", 3, `"refused":"InvalidLaunchTemplateId.VersionNotFound: no version 9"`,
			""},
		// this user may not read it, but Berth may
		{"--launch-template-version 4", 1, "", "UnauthorizedOperation: You may not"},
	} {
		code, out, errs := berth(append([]string{"upgrade", "workers", "--dry-run", "--endpoint", endpoint},
			strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" &&
			errs != "" {
			t.Errorf("%s: exit code %d, %s%s", c.args, code, out, errs)
		}
	}
	if len(b.changeCalls) > 0 {
		t.Errorf("asked for %q", b.changeCalls)
	}
}

func TestUpgradeHelp(t *testing.T) {
	code, out, _ := berth("upgrade", "--help")
	if out = strings.Join(strings.Fields(out), " "); code != 0 ||
		!strings.Contains(out,
			"it follows the update in progress and starts none. Ctrl-C stops only the report: the update continues.") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestUpgradeRefuses(t *testing.T) {
	b, endpoint := newBackend(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"worker", 1, `node group "worker" is not in the cluster, expected one of: workers`},
		{"workers --release-version ami-refused", 1,
			"UpdateNodegroupVersion: InvalidParameterException: no such image"},
		{"workers", 1,
			"no update of node group workers is in progress; to start one, give --release-version or --launch-template-version"},
		{"workers --force", 1, "no update of node group workers is in progress"},
		{"workers --dry-run", 1, "no update of node group workers is in progress"},
		{"workers --launch-template-version 2", 1,
			"was created without a launch template of its own, expected --release-version"},
		{"workers --strategy rolling", 2, `--strategy is "rolling", expected DEFAULT or MINIMAL`},
		{"workers --max-unavailable 0", 2, `--max-unavailable is "0", expected 1 to 100, or 1% to 100%`},
		{"workers --max-unavailable 101%", 2, `--max-unavailable is "101%"`},
		{"workers --force-protected", 2, "--force-protected is given, expected only with --force"},
		{"workers --release-version ami-2 --launch-template-version 2", 2, "--launch-template-version is"},
		{"workers --launch-template-version newest", 2, "expected a number, $Latest or $Default"},
		{"workers --dry-run --no-wait", 2, "--no-wait is given"},
		{"wor/kers", 2, `the node group is "wor/kers"`},
		{"", 2, "expected \"<nodegroup>\""},
	} {
		code, out, errs := berth(append([]string{"upgrade", "--endpoint", endpoint}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s%s, want %q", c.args, code, out, errs, c.want)
		}
	}
	b.group.Target.SourceTemplate = "lt-7"
	if code, _, errs := berth("upgrade", "workers", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, "no update of node group workers is in progress") {
		t.Errorf("with a launch template of its own: exit code %d, %s", code, errs)
	}
	if slices.ContainsFunc(b.changeCalls, func(s string) bool { return !strings.Contains(s, "ami-refused") }) {
		t.Errorf("asked for %q", b.changeCalls)
	}
}
