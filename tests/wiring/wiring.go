package wiring

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template is what invokes functions, and what feeds it.
type Template struct {
	Functions []Function
	Queues    []Queue
}

// Function is one function with all that invokes it.
type Function struct {
	Name        string // the folder in functions/
	Description string
	Memory      int // MB
	Triggers    []Trigger
}

// Kind is the kind of a trigger.
type Kind string

// The kinds of triggers.
const (
	Stream   Kind = "stream"
	Messages Kind = "queue"
	Schedule Kind = "schedule"
	URL      Kind = "function URL"
)

// Trigger is one event source of a function.
type Trigger struct {
	Kind Kind
	// Name is the source's name in the template; the function URL has none.
	Name string
	// Queue is the logical id of the queue.
	Queue string
	// Rate and Input are those of a schedule.
	Rate, Input string
	// Batch is the maximum number of messages or records at a time, Window the seconds for which
	// they are gathered.
	Batch, Window string
	// Partial means that the function reports the failed messages or records of a batch.
	Partial bool
	// Cases are the alternatives of a stream's filters, or what a queue gets.
	Cases []Case
}

// Case is one kind of record or event that passes a filter or a rule, or a message that a function
// sends.
type Case struct {
	// From is the logical id of the rule, or the folder of the function that sends the message. It
	// is empty for records.
	From string
	// Description is the rule's.
	Description string
	// Sent reports whether a function sends the message; then there is no pattern.
	Sent bool
	// Conditions all hold for what passes.
	Conditions []Condition
	pattern    any
}

// Queue is a queue that invokes a function.
type Queue struct {
	Name, DeadLetters    string // logical ids
	Senders              []string
	Receiver             string
	Visibility, Receives string
}

// Read reads the text of template.yaml.
func Read(text string) (*Template, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	r := &reader{parameters: map[string]any{}, resources: map[string]resource{}}
	if err := r.readAll(doc.Content[0]); err != nil {
		return nil, err
	}
	t := &Template{}
	for _, id := range r.order {
		if res := r.resources[id]; res.kind == "AWS::Serverless::Function" {
			f, err := r.function(res.properties)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
			t.Functions = append(t.Functions, f)
		}
	}
	for _, id := range r.order {
		if res := r.resources[id]; res.kind == "AWS::SQS::Queue" && res.properties["RedrivePolicy"] != nil {
			t.Queues = append(t.Queues, t.queue(id, res.properties))
		}
	}
	return t, nil
}

// queue describes a queue by what functions have been found to read it.
func (t *Template) queue(id string, properties map[string]any) Queue {
	redrive := mapOf(properties["RedrivePolicy"])
	q := Queue{Name: id, DeadLetters: textOf(redrive["deadLetterTargetArn"]),
		Visibility: textOf(properties["VisibilityTimeout"]), Receives: textOf(redrive["maxReceiveCount"])}
	for _, f := range t.Functions {
		for _, trigger := range f.Triggers {
			if trigger.Queue != id {
				continue
			}
			q.Receiver = f.Name
			for _, c := range trigger.Cases {
				if !slices.Contains(q.Senders, c.From) {
					q.Senders = append(q.Senders, c.From)
				}
			}
		}
	}
	return q
}

// function reads a function's event sources, the streams first.
func (r *reader) function(p map[string]any) (Function, error) {
	f := Function{Name: path.Base(textOf(p["CodeUri"])), Description: textOf(p["Description"]), Memory: r.memory}
	if own, ok := p["MemorySize"].(int); ok {
		f.Memory = own
	}
	if p["FunctionUrlConfig"] != nil {
		f.Triggers = append(f.Triggers, Trigger{Kind: URL})
	}
	sources := mapOf(p["Events"])
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		source := mapOf(sources[name])
		t, err := r.trigger(name, textOf(source["Type"]), mapOf(source["Properties"]))
		if err != nil {
			return f, fmt.Errorf("event %s: %w", name, err)
		}
		f.Triggers = append(f.Triggers, t)
	}
	order := []Kind{URL, Stream, Messages, Schedule}
	slices.SortStableFunc(f.Triggers, func(a, b Trigger) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return f, nil
}

func (r *reader) trigger(name, kind string, p map[string]any) (t Trigger, err error) {
	t = Trigger{Name: name, Batch: textOf(p["BatchSize"]), Window: textOf(p["MaximumBatchingWindowInSeconds"])}
	for _, response := range listOf(p["FunctionResponseTypes"]) {
		t.Partial = t.Partial || response == "ReportBatchItemFailures"
	}
	switch kind {
	case "DynamoDB":
		t.Kind = Stream
		for _, filter := range listOf(mapOf(p["FilterCriteria"])["Filters"]) {
			var pattern any
			if err := yaml.Unmarshal([]byte(textOf(mapOf(filter)["Pattern"])), &pattern); err != nil {
				return t, err
			}
			t.Cases = append(t.Cases, casesOf(pattern)...)
		}
	case "SQS":
		t.Kind, t.Queue = Messages, textOf(p["Queue"])
		t.Cases = r.casesOfQueue(t.Queue)
	case "ScheduleV2":
		t.Kind, t.Rate, t.Input = Schedule, textOf(p["ScheduleExpression"]), textOf(p["Input"])
	default:
		return t, fmt.Errorf("the type %q is unknown here", kind)
	}
	return t, nil
}

// casesOfQueue returns what rules and functions send to a queue. A function sends to the queues
// that its variables name.
func (r *reader) casesOfQueue(queue string) (all []Case) {
	for _, id := range r.order {
		p := r.resources[id].properties
		switch r.resources[id].kind {
		case "AWS::Events::Rule":
			for _, target := range listOf(p["Targets"]) {
				if mapOf(target)["Arn"] != queue {
					continue
				}
				for _, c := range casesOf(p["EventPattern"]) {
					c.From, c.Description = id, textOf(p["Description"])
					all = append(all, c)
				}
			}
		case "AWS::Serverless::Function":
			for _, value := range mapOf(mapOf(p["Environment"])["Variables"]) {
				if value == queue {
					all = append(all, Case{From: path.Base(textOf(p["CodeUri"])), Sent: true})
				}
			}
		}
	}
	return all
}

// ID names the case within its trigger, such as "TaskEvents: detail.lastStatus is STOPPED".
func (c Case) ID() string {
	parts := make([]string, len(c.Conditions))
	for i, condition := range c.Conditions {
		parts[i] = condition.Path + " " + condition.Test
	}
	if c.Sent {
		return "a message of " + c.From
	}
	return strings.TrimPrefix(c.From+": "+strings.Join(parts, ", "), ": ")
}
