package template

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"berth/shared/handler"
)

// A watchedMetric is a metric with an alarm. of is the logical id of a resource of template.yaml.
type watchedMetric struct{ namespace, metric, of string }

// watchedMetrics returns the metrics that the alarms of infra/alarms.yaml watch, with parameters
// resolved to the resources that template.yaml passes.
func watchedMetrics(t *testing.T, template *yaml.Node) (all []watchedMetric, turns []string) {
	t.Helper()
	text, err := os.ReadFile("../../infra/alarms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	stack := memberOf(memberOf(memberOf(memberOf(template, "Resources"), "Alarms"), "Properties"), "Parameters")
	resources := memberOf(root.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		p := memberOf(resources.Content[i+1], "Properties")
		dimension := memberOf(contentOf(memberOf(p, "Dimensions"))[0], "Value").Value
		given := memberOf(stack, dimension)
		if given == nil {
			t.Errorf("%s: template.yaml gives no %s", resources.Content[i].Value, dimension)
			continue
		}
		a := watchedMetric{memberOf(p, "Namespace").Value, memberOf(p, "MetricName").Value, referredResource(given)}
		all = append(all, a)
		if a.metric == string(handler.IdleRounds) && memberOf(p, "Statistic").Value == "Maximum" {
			turns = append(turns, a.of)
		}
	}
	return all, turns
}

// TestAlarms checks that everything that fails, waits or cycles without progress has an alarm, and
// that functions write each of Berth's own metrics that is watched.
func TestAlarms(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	all, turns := watchedMetrics(t, root.Content[0])
	want := func(namespace, metric, of string) {
		if !slices.Contains(all, watchedMetric{namespace, metric, of}) {
			t.Errorf("nothing watches %s %s of %s", namespace, metric, of)
		}
	}
	resources := memberOf(root.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		name, r := resources.Content[i].Value, resources.Content[i+1]
		p := memberOf(r, "Properties")
		switch memberOf(r, "Type").Value {
		case "AWS::Serverless::Function":
			want("AWS/Lambda", "Errors", name)
			want("AWS/Lambda", "Throttles", name)
			events := memberOf(p, "Events")
			for j := 1; events != nil && j < len(events.Content); j += 2 {
				switch memberOf(events.Content[j], "Type").Value {
				case "DynamoDB":
					want("AWS/Lambda", "IteratorAge", name)
				case "ScheduleV2":
					want("AWS/Lambda", "AsyncEventsReceived", name)
				}
			}
		case "AWS::DynamoDB::Table":
			want("AWS/DynamoDB", "ReadThrottleEvents", name)
			want("AWS/DynamoDB", "WriteThrottleEvents", name)
			if memberOf(p, "GlobalSecondaryIndexes") != nil { // their metrics have two dimensions
				t.Errorf("nothing watches the throttling of the indexes of %s", name)
			}
		case "AWS::Events::Rule":
			of := name
			if own := memberOf(p, "Name"); own != nil {
				of = referredResource(own)
			}
			want("AWS/Events", "FailedInvocations", of)
		case "AWS::SQS::Queue":
			metric := "ApproximateNumberOfMessagesVisible"
			if memberOf(p, "RedrivePolicy") != nil {
				metric = "ApproximateAgeOfOldestMessage"
			}
			want("AWS/SQS", metric, name)
		}
	}
	slices.Sort(turns)
	if got := strings.Join(turns, " "); got != "DispatchFunction PlacementFunction" {
		t.Errorf("turns without progress are watched of %q", got)
	}
	written := []string{"Dropped"}
	for _, f := range []handler.Measurement{handler.OutboxAge, handler.IdleRounds, handler.LeftUndone,
		handler.ClustersMissing} {
		written = append(written, string(f))
	}
	for _, a := range all {
		if a.namespace == "Berth" && !slices.Contains(written, a.metric) {
			t.Errorf("no function writes %s", a.metric)
		}
	}
}
