package template

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// readResources returns the resources of a template in their order.
func readResources(t *testing.T, path string) (names []string, resources []*yaml.Node) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	all := memberOf(root.Content[0], "Resources").Content
	for i := 0; i+1 < len(all); i += 2 {
		names, resources = append(names, all[i].Value), append(resources, all[i+1])
	}
	return names, resources
}

// wantLiteral fails unless a setting has a number of its own.
func wantLiteral(t *testing.T, of string, n *yaml.Node, key, want string) {
	t.Helper()
	if v := memberOf(n, key); v == nil || v.Value != want {
		t.Errorf("%s: %s is %v, want %s", of, key, v, want)
	}
}

// Without bounds and dead letters EventBridge drops an event after a day, and says so nowhere.
func TestTargetsOfRulesHaveDeadLetters(t *testing.T) {
	names, resources := readResources(t, file)
	targets, mayWrite := 0, ""
	for i, r := range resources {
		if names[i] == "RuleDeadLettersPolicy" {
			text, err := yaml.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			mayWrite = string(text)
		}
	}
	for i, r := range resources {
		if memberOf(r, "Type").Value != "AWS::Events::Rule" {
			continue
		}
		for _, target := range contentOf(memberOf(memberOf(r, "Properties"), "Targets")) {
			targets++
			if got := referredResource(memberOf(memberOf(target, "DeadLetterConfig"),
				"Arn")); got != "RuleDeadLetters" {
				t.Errorf("%s: dead letters go to %q", names[i], got)
			}
			wantLiteral(t, names[i], memberOf(target, "RetryPolicy"), "MaximumEventAgeInSeconds", "3600")
			wantLiteral(t, names[i], memberOf(target, "RetryPolicy"), "MaximumRetryAttempts", "185")
		}
		if !strings.Contains(mayWrite, "!GetAtt "+names[i]+".Arn\n") {
			t.Errorf("%s may not write to RuleDeadLetters", names[i])
		}
	}
	if targets < 9 {
		t.Errorf("%d targets were found", targets)
	}
}

// A run that Lambda tries again for six hours, its default, would meet hundreds of later ones. No schedule has a
// name that another stack's has.
func TestScheduledFunctionsHaveBounds(t *testing.T) {
	names, resources := readResources(t, file)
	scheduled := 0
	for i, r := range resources {
		p := memberOf(r, "Properties")
		for _, event := range contentOf(memberOf(p, "Events")) {
			for j := 1; j < len(event.Content); j += 2 {
				if memberOf(event.Content[j], "Type").Value != "ScheduleV2" {
					continue
				}
				scheduled++
				runs, retry, age := memberOf(p, "EventInvokeConfig"),
					memberOf(memberOf(event.Content[j], "Properties"), "RetryPolicy"), [2]string{"600", "300"}
				if names[i] == "TaskStateChangeFunction" {
					age = [2]string{"3600", "3600"}
					if failureQueue(runs) != "FailedSweeps" {
						t.Error("a sweep that failed is reported nowhere")
					}
				}
				// SAM would call the schedule after the event, so a second stack could not be created.
				wantLiteral(t, names[i], memberOf(event.Content[j], "Properties"), "OmitName", "true")
				wantLiteral(t, names[i], runs, "MaximumEventAgeInSeconds", age[0])
				wantLiteral(t, names[i], runs, "MaximumRetryAttempts", "2")
				wantLiteral(t, names[i], retry, "MaximumEventAgeInSeconds", age[1])
				wantLiteral(t, names[i], retry, "MaximumRetryAttempts", "10")
			}
		}
	}
	if scheduled != 5 {
		t.Errorf("%d schedules were found", scheduled)
	}
}

// An alarm for silence must fire when there is no data, and any other must not. docs/alarms.md says
// what each alarm means and what to do.
func TestAlarmsSayWhatSilenceMeans(t *testing.T) {
	page, err := os.ReadFile("../../docs/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[A-Z].*?"+`) \|`).FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			documented = append(documented, name)
		}
	}
	names, resources := readResources(t, "../../infra/alarms.yaml")
	for i, r := range resources {
		p := memberOf(r, "Properties")
		missing := memberOf(p, "TreatMissingData").Value
		silence := memberOf(p, "ComparisonOperator").Value == "LessThanThreshold"
		if silence != (missing == "breaching") || !silence && missing != "notBreaching" {
			t.Errorf("%s: missing data is %s", names[i], missing)
		}
		if !slices.Contains(documented, names[i]) {
			t.Errorf("docs/alarms.md has no row of %s", names[i])
		}
	}
	for _, name := range documented {
		if !slices.Contains(names, name) {
			t.Errorf("docs/alarms.md has %s, which is no alarm", name)
		}
	}
}
