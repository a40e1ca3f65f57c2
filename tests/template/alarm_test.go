package template

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"berth/shared/handler"
)

// alarm is a metric that is watched: of what, by the logical id of a resource of template.yaml.
type alarm struct{ namespace, metric, of string }

// watched are the alarms of infra/alarms.yaml, their parameters resolved to the resources that template.yaml gives.
func watched(t *testing.T, template *yaml.Node) (all []alarm, turns []string) {
	t.Helper()
	text, err := os.ReadFile("../../infra/alarms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	stack := member(member(member(member(template, "Resources"), "Alarms"), "Properties"), "Parameters")
	resources := member(root.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		p := member(resources.Content[i+1], "Properties")
		dimension := member(content(member(p, "Dimensions"))[0], "Value").Value
		given := member(stack, dimension)
		if given == nil {
			t.Errorf("%s: template.yaml gives no %s", resources.Content[i].Value, dimension)
			continue
		}
		a := alarm{member(p, "Namespace").Value, member(p, "MetricName").Value, referred(given)}
		all = append(all, a)
		if a.metric == string(handler.IdleRounds) && member(p, "Statistic").Value == "Maximum" {
			turns = append(turns, a.of)
		}
	}
	return all, turns
}

// TestAlarms: nothing that fails, waits or turns in circles does so unseen, and each metric of Berth's own that is
// watched is one that functions write.
func TestAlarms(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	all, turns := watched(t, root.Content[0])
	want := func(namespace, metric, of string) {
		if !slices.Contains(all, alarm{namespace, metric, of}) {
			t.Errorf("nothing watches %s %s of %s", namespace, metric, of)
		}
	}
	resources := member(root.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		name, r := resources.Content[i].Value, resources.Content[i+1]
		p := member(r, "Properties")
		switch member(r, "Type").Value {
		case "AWS::Serverless::Function":
			want("AWS/Lambda", "Errors", name)
			want("AWS/Lambda", "Throttles", name)
			events := member(p, "Events")
			for j := 1; events != nil && j < len(events.Content); j += 2 {
				if member(events.Content[j], "Type").Value == "DynamoDB" {
					want("AWS/Lambda", "IteratorAge", name)
				}
			}
		case "AWS::SQS::Queue":
			metric := "ApproximateNumberOfMessagesVisible"
			if member(p, "RedrivePolicy") != nil {
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
	for _, f := range []handler.Measurement{handler.OutboxAge, handler.IdleRounds, handler.LeftUndone, handler.ClustersMissing} {
		written = append(written, string(f))
	}
	for _, a := range all {
		if a.namespace == "Berth" && !slices.Contains(written, a.metric) {
			t.Errorf("no function writes %s", a.metric)
		}
	}
}
