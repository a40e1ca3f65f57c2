package wiring

import (
	"slices"
	"strings"
	"testing"

	"berth"
)

// Each combination of alternatives is a case of its own, and matches nothing of another one.
func TestCasesOfAPattern(t *testing.T) {
	pattern := map[string]any{
		"account": []any{"AWS::AccountId"},
		"kind":    []any{"x", "y"},
		"detail": map[string]any{
			"id": []any{map[string]any{"exists": true}},
			"$or": []any{
				map[string]any{"status": []any{"UP"}},
				map[string]any{"status": []any{map[string]any{"anything-but": "UP"}},
					"by": []any{map[string]any{"prefix": "me/"}}},
			},
		},
	}
	cases := casesOf(pattern)
	var ids []string
	for _, c := range cases {
		ids = append(ids, c.ID())
	}
	want := []string{
		"detail.id exists, detail.status is UP, kind is x",
		"detail.by begins with me/, detail.id exists, detail.status is not UP, kind is x",
		"detail.id exists, detail.status is UP, kind is y",
		"detail.by begins with me/, detail.id exists, detail.status is not UP, kind is y",
	}
	if !slices.Equal(ids, want) {
		t.Fatalf("cases\n%s\nwant\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
	for event, matched := range map[string]string{
		`{"kind": "x", "detail": {"id": 1, "status": "UP"}}`:                   want[0],
		`{"kind": "x", "detail": {"id": 1, "status": "DOWN", "by": "me/you"}}`: want[1],
		`{"kind": "y", "detail": {"id": 1, "status": "UP", "by": "me/you"}}`:   want[2],
		`{"kind": "y", "detail": {"id": 1, "status": "DOWN", "by": "me/"}}`:    want[3],
		`{"kind": "x", "detail": {"status": "UP"}}`:                            "",
		`{"kind": "z", "detail": {"id": 1, "status": "UP"}}`:                   "",
	} {
		for i, c := range cases {
			got, err := c.Matches([]byte(event))
			if err != nil || got != (want[i] == matched) {
				t.Errorf("%s is of case %q: %v, %v", event, want[i], got, err)
			}
		}
	}
}

// Nothing that invokes a function is left out.
func TestEveryTriggerIsRead(t *testing.T) {
	read, err := Read(berth.Template)
	if err != nil {
		t.Fatal(err)
	}
	triggers := 0
	for _, f := range read.Functions {
		triggers += len(f.Triggers)
		for _, trigger := range f.Triggers {
			if trigger.Kind != URL && trigger.Kind != Schedule && len(trigger.Cases) == 0 {
				t.Errorf("%s %s gets nothing", f.Name, trigger.Name)
			}
			if trigger.Kind == Schedule && (trigger.Rate == "" || trigger.Input == "") {
				t.Errorf("%s %s has no rate or no input", f.Name, trigger.Name)
			}
		}
	}
	want := 0
	for _, kind := range []string{" Type: DynamoDB\n", " Type: SQS\n", " Type: ScheduleV2\n", "FunctionUrlConfig:"} {
		want += strings.Count(berth.Template, kind)
	}
	if triggers != want || len(read.Functions) != strings.Count(berth.Template, "Type: AWS::Serverless::Function\n") {
		t.Errorf("%d triggers of %d functions, the template has %d", triggers, len(read.Functions), want)
	}
	for _, q := range read.Queues {
		if len(q.Senders) == 0 || q.Receiver == "" || q.DeadLetters == "" {
			t.Errorf("queue %s: %+v", q.Name, q)
		}
	}
	if len(read.Queues) != strings.Count(berth.Template, "RedrivePolicy:") {
		t.Errorf("%d queues, the template has %d", len(read.Queues), strings.Count(berth.Template, "RedrivePolicy:"))
	}
}
