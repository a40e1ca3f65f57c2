package handler_test

import (
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// The command that gives Berth a group is pasted into a shell, so the group's name must stay a
// name.
func TestTheCommandForTheTagRunsNothingElse(t *testing.T) {
	for name, want := range map[string]string{
		"web-asg": "--tags ResourceId=web-asg,ResourceType=auto-scaling-group,Key=berth:installation,Value=b,",
		"a b; reboot": `--tags '[{"Key":"berth:installation","PropagateAtLaunch":false,"ResourceId":"a b; reboot",` +
			`"ResourceType":"auto-scaling-group","Value":"b"}]'`,
		"a'$(reboot)": `"ResourceId":"a'\''$(reboot)"`,
		"a,Value=x":   `"ResourceId":"a,Value=x"`,
	} {
		got := handler.OwnershipProblem(&cluster.AutoScalingGroup{Name: name}, "b")
		if !strings.Contains(got, want) {
			t.Errorf("for group %q: %s, want %s", name, got, want)
		}
	}
}
