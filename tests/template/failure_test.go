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

// Lambda's own bounds are two more tries within six hours. No function is left to them.
func TestFunctionsHaveInvocationBounds(t *testing.T) {
	names, resources := readResources(t, file)
	functions := 0
	for i, r := range resources {
		if memberOf(r, "Type").Value != "AWS::Serverless::Function" {
			continue
		}
		functions++
		p := memberOf(r, "Properties")
		runs := memberOf(p, "EventInvokeConfig")
		if memberOf(runs, "MaximumEventAgeInSeconds") == nil || memberOf(runs, "MaximumRetryAttempts") == nil {
			t.Errorf("%s has no bounds for asynchronous invocations", names[i])
			continue
		}
		isScheduled := false
		for _, event := range contentOf(memberOf(p, "Events")) {
			for j := 1; j < len(event.Content); j += 2 {
				isScheduled = isScheduled || memberOf(event.Content[j], "Type").Value == "ScheduleV2"
			}
		}
		if !isScheduled {
			wantLiteral(t, names[i], runs, "MaximumRetryAttempts", "0")
		}
	}
	if functions != 8 {
		t.Errorf("%d functions were found", functions)
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
		silence := memberOf(p, "MetricName").Value == "AsyncEventsReceived"
		if silence != (missing == "breaching") || !silence && missing != "notBreaching" {
			t.Errorf("%s: missing data is %s", names[i], missing)
		}
		if !slices.Contains(documented, names[i]) {
			t.Errorf("docs/alarms.md has no row of %s", names[i])
		}
		checkAlarm(t, names[i], p)
	}
	for _, name := range documented {
		if !slices.Contains(names, name) {
			t.Errorf("docs/alarms.md has %s, which is no alarm", name)
		}
	}
}

// When alarms of a metric fire, as "statistic comparison threshold", and the time until then, as period and
// number of periods with data points. A schedule each minute is silent after a quarter of an hour, the
// hourly sweep after three hours.
var firing = map[string][2]string{
	"ApproximateNumberOfMessagesVisible": {"Maximum > 0", "60 1"},
	"ApproximateAgeOfOldestMessage":      {"Maximum > 300", "60 3"},
	"FailedInvocations":                  {"Sum > 0", "60 1"},
	"AsyncEventsReceived":                {"Sum < 1", "300 3"},
	"IteratorAge":                        {"Maximum > 300000", "60 3"},
	"Errors":                             {"Sum > 0", "60 3 of 5"},
	"Throttles":                          {"Sum > 0", "60 3 of 5"},
	"ReadThrottleEvents":                 {"Sum > 0", "60 3 of 5"},
	"WriteThrottleEvents":                {"Sum > 0", "60 3 of 5"},
	"Dropped":                            {"Sum > 0", "300 1"},
	"Turns":                              {"Maximum > 100", "60 3"},
	"OutboxAge":                          {"Maximum > 600", "60 3"},
	"LeftUndone":                         {"Sum > 0", "3600 6"},
	"ClustersMissing":                    {"Sum > 0", "3600 1"},
}

// checkAlarm checks when an alarm fires, and that it notifies the topic.
func checkAlarm(t *testing.T, name string, p *yaml.Node) {
	t.Helper()
	value := func(key string) string {
		if n := memberOf(p, key); n != nil {
			return n.Value
		}
		return ""
	}
	want := firing[value("MetricName")]
	switch name {
	case "WakeUpsWait": // wake-ups wait up to a quarter of an hour by design
		want[0] = "Maximum > 1200"
	case "TaskStateChangeScheduleSilent":
		want[1] = "3600 3"
	}
	sign := map[string]string{"GreaterThanThreshold": ">", "LessThanThreshold": "<"}[value("ComparisonOperator")]
	if got := value("Statistic") + " " + sign + " " + value("Threshold"); got != want[0] {
		t.Errorf("%s fires at %q, want %q", name, got, want[0])
	}
	window := value("Period") + " " + value("EvaluationPeriods")
	if least := value("DatapointsToAlarm"); least != "" {
		window = value("Period") + " " + least + " of " + value("EvaluationPeriods")
	}
	if window != want[1] {
		t.Errorf("%s fires after %q, want %q", name, window, want[1])
	}
	dimensions := map[string][]string{"AWS/SQS": {"QueueName"}, "AWS/Lambda": {"FunctionName"},
		"AWS/DynamoDB": {"TableName"}, "AWS/Events": {"RuleName"}}[value("Namespace")]
	if name == "LoadEventsFailed" { // the rule of another bus than the default one
		dimensions = []string{"EventBusName", "RuleName"}
	}
	var got []string
	for _, d := range contentOf(memberOf(p, "Dimensions")) {
		got = append(got, memberOf(d, "Name").Value)
	}
	if slices.Sort(got); dimensions != nil && !slices.Equal(got, dimensions) {
		t.Errorf("%s is about %q, want %q", name, got, dimensions)
	}
	actions := contentOf(memberOf(p, "AlarmActions"))
	if len(actions) != 1 || len(actions[0].Content) != 3 || actions[0].Content[0].Value != "HasTopic" ||
		actions[0].Content[1].Value != "TopicArn" {
		t.Errorf("%s does not notify the topic", name)
	}
}

// maxEnvironment is how much the variables of a function may take (Lambda quotas).
const maxEnvironment = 4 << 10

// The variables of a function leave room for lists of fifty ARNs of 55 bytes, with the defaults of all
// other parameters.
func TestEnvironmentsLeaveRoomForARNs(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	parameters := memberOf(root.Content[0], "Parameters")
	size := func(variables *yaml.Node) (bytes int) {
		for i := 0; variables != nil && i+1 < len(variables.Content); i += 2 {
			bytes += len(variables.Content[i].Value)
			switch v := variables.Content[i+1]; {
			case v.Kind == yaml.SequenceNode: // a list of ARNs
			case v.Tag != "!Ref":
				bytes += 100 // such as the URL or the ARN of a resource
			case memberOf(memberOf(parameters, v.Value), "Default") != nil:
				bytes += len(memberOf(memberOf(parameters, v.Value), "Default").Value)
			default:
				bytes += 100
			}
		}
		return bytes
	}
	common := size(memberOf(memberOf(memberOf(memberOf(root.Content[0], "Globals"), "Function"), "Environment"),
		"Variables"))
	names, resources := readResources(t, file)
	for i, r := range resources {
		if memberOf(r, "Type").Value != "AWS::Serverless::Function" {
			continue
		}
		own := size(memberOf(memberOf(memberOf(r, "Properties"), "Environment"), "Variables"))
		if left := maxEnvironment - common - own; left < 50*55 {
			t.Errorf("%s: %d bytes are left for ARNs", names[i], left)
		} else {
			t.Logf("%s: %d bytes are left for ARNs", names[i], left)
		}
	}
}
