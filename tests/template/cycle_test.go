package template

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const file = "../../template.yaml"

// triggers lead from a resource to those that it invokes: from rules, queues and the table to
// functions, and from functions to queues and the table. A function may write where its role allows
// it.
type triggers map[string][]string

func (e triggers) addTrigger(from, to string) {
	if from != "" && to != "" && !slices.Contains(e[from], to) {
		e[from] = append(e[from], to)
	}
}

// readTriggers finds the triggers of a template.
func readTriggers(text []byte) (triggers, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	e, roles := triggers{}, map[string][]string{}
	resources := memberOf(root.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		name, r := resources.Content[i].Value, resources.Content[i+1]
		properties := memberOf(r, "Properties")
		switch memberOf(r, "Type").Value {
		case "AWS::Serverless::Function":
			role := referredResource(memberOf(properties, "Role"))
			roles[role] = append(roles[role], name)
			e.addEventSources(name, memberOf(properties, "Events"))
			e.addTrigger(name, failureQueue(memberOf(properties, "EventInvokeConfig")))
		case "AWS::Events::Rule":
			for _, target := range contentOf(memberOf(properties, "Targets")) {
				e.addTrigger(name, referredResource(memberOf(target, "Arn")))
				e.addTrigger(name, referredResource(memberOf(memberOf(target, "DeadLetterConfig"), "Arn")))
			}
		case "AWS::SQS::Queue":
			// Nothing here reads dead letters, so a trigger of their queue ends there.
			e.addTrigger(name, referredResource(memberOf(memberOf(properties, "RedrivePolicy"), "deadLetterTargetArn")))
		}
	}
	for i := 0; i+1 < len(resources.Content); i += 2 {
		if name, r := resources.Content[i].Value, resources.Content[i+1]; memberOf(r,
			"Type").Value == "AWS::IAM::Role" {
			for _, function := range roles[name] {
				e.addAllowed(function, memberOf(r, "Properties"))
			}
		}
	}
	return e, nil
}

// addEventSources adds what invokes a function, and where its failures go.
func (e triggers) addEventSources(function string, events *yaml.Node) {
	for i := 1; events != nil && i < len(events.Content); i += 2 {
		properties := memberOf(events.Content[i], "Properties")
		for _, source := range []string{"Queue", "Stream", "Topic"} {
			e.addTrigger(referredResource(memberOf(properties, source)), function)
		}
		e.addTrigger(function, failureQueue(properties))
	}
}

// failureQueue returns the queue that is told of what an event source or asynchronous invocations
// give up, or "".
func failureQueue(n *yaml.Node) string {
	return referredResource(memberOf(memberOf(memberOf(n, "DestinationConfig"), "OnFailure"), "Destination"))
}

// triggeringActions are the actions by which a function can trigger something else.
var triggeringActions = []string{
	"sqs:SendMessage", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem",
	"lambda:InvokeFunction", "sns:Publish", "events:PutEvents",
}

// addAllowed adds the resources that a function's role allows it to trigger. An action with "*", or
// on all resources, reaches everything.
func (e triggers) addAllowed(function string, n *yaml.Node) {
	if n == nil {
		return
	}
	if action := memberOf(n, "Action"); action != nil {
		for _, a := range contentOf(action) {
			for _, resource := range contentOf(memberOf(n, "Resource")) {
				switch {
				case strings.Contains(a.Value, "*"), slices.Contains(triggeringActions, a.Value) &&
					resource.Value == "*":
					e.addTrigger(function, "*")
				case slices.Contains(triggeringActions, a.Value):
					e.addTrigger(function, referredResource(resource))
				}
			}
		}
		return
	}
	for _, below := range n.Content {
		e.addAllowed(function, below)
	}
}

// contentOf returns a list's items, or a scalar alone.
func contentOf(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.SequenceNode && !strings.HasPrefix(n.Tag, "!Sub"):
		return n.Content
	}
	return []*yaml.Node{n}
}

func memberOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// referredResource returns the resource that Ref, GetAtt or Sub names.
func referredResource(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(n.Value, "${"), ".")
	return strings.TrimSuffix(name, "}")
}

// findCycle returns a path from a resource back to itself that avoids the given resource, or nil.
func (e triggers) findCycle(without string) []string {
	var walk func(path []string) []string
	done := map[string]bool{}
	walk = func(path []string) []string {
		at := path[len(path)-1]
		for _, next := range e[at] {
			if next == "*" {
				return append(path, "anything")
			}
			if i := slices.Index(path, next); i >= 0 && next != without {
				return append(slices.Clone(path[i:]), next)
			}
			if next == without || done[next] {
				continue
			}
			if found := walk(append(path, next)); found != nil {
				return found
			}
		}
		done[at] = true
		return nil
	}
	for from := range e {
		if from == without || done[from] {
			continue
		}
		if found := walk([]string{from}); found != nil {
			return found
		}
	}
	return nil
}

// TestEveryCyclePassesThroughTheTable exists because Lambda cuts a chain of functions and queues
// after about 16 laps.
func TestEveryCyclePassesThroughTheTable(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e, err := readTriggers(text)
	if err != nil {
		t.Fatal(err)
	}
	if found := e.findCycle("Table"); found != nil {
		t.Errorf("a cycle that does not pass through the table: %s", strings.Join(found, " → "))
	}
	if e.findCycle("") == nil {
		t.Error("there is no cycle at all: the table's stream is not seen")
	}
	for _, edge := range []string{
		"TaskEvents EventsQueue", "EventsQueue TaskStateChangeFunction", "TaskStateChangeFunction Table",
		"Table PlacementFunction",
		"PlacementFunction WakeQueue", "WakeQueue DispatchFunction", "DispatchFunction Table", "Table DispatchFunction",
		"ApiFunction Table", "PlacementFunction StreamFailures",
		"TaskStateChangeFunction FailedSweeps", "TaskEvents RuleDeadLetters",
	} {
		from, to, _ := strings.Cut(edge, " ")
		if !slices.Contains(e[from], to) {
			t.Errorf("%s does not lead to %s: %v", from, to, e[from])
		}
	}
}

func TestCyclesAreFound(t *testing.T) {
	const function = `
Resources:
  Q: {Type: AWS::SQS::Queue, Properties: {}}
  Table: {Type: AWS::DynamoDB::Table, Properties: {}}
  F:
    Type: AWS::Serverless::Function
    Properties:
      Role: !GetAtt R.Arn
      Events: {In: {Type: SQS, Properties: {Queue: !GetAtt Q.Arn}}}
  R:
    Type: AWS::IAM::Role
    Properties:
      Policies: [{PolicyDocument: {Statement: [{Action: %s, Resource: %s}]}}]
`
	for name, c := range map[string]struct {
		action, resource string
		cycle            bool
	}{
		"ItsOwnQueue":     {"sqs:SendMessage", "!GetAtt Q.Arn", true},
		"AmongOthers":     {"[sqs:ReceiveMessage, sqs:SendMessage]", "[!GetAtt Table.Arn, !GetAtt Q.Arn]", true},
		"AllResources":    {"sqs:SendMessage", `"*"`, true},
		"AllActions":      {`"sqs:*"`, "!GetAtt Q.Arn", true},
		"OnlyReads":       {"sqs:ReceiveMessage", "!GetAtt Q.Arn", false},
		"TheTable":        {"dynamodb:PutItem", "!GetAtt Table.Arn", false},
		"ConditionalRead": {"ecs:ListTasks", `"*"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := readTriggers(fmt.Appendf(nil, function, c.action, c.resource))
			if err != nil {
				t.Fatal(err)
			}
			if found := e.findCycle("Table"); (found != nil) != c.cycle {
				t.Errorf("cycle %v, want one: %v", found, c.cycle)
			}
		})
	}
}
