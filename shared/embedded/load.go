package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types of resource that are read.
const (
	typeFunction = "AWS::Serverless::Function"
	typeQueue    = "AWS::SQS::Queue"
	typeRule     = "AWS::Events::Rule"
	typeTable    = "AWS::DynamoDB::Table"
)

// unwired are the types of resource that connect nothing.
var unwired = []string{
	"AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::SQS::QueuePolicy", "AWS::Logs::LogGroup", "AWS::CloudFormation::Stack",
	"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard",
}

// Load reads the wiring from a SAM template: functions with their SQS, DynamoDB and ScheduleV2 events, queues, rules
// and parameters, of which some can be given. In the places that it reads it knows Ref, Sub and GetAtt; whatever else
// stands there, and any resource or property that could connect something and that it does not know, is an error that
// names the path.
func Load(text []byte, parameters map[string]string) (*Wiring, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading template: %w", err)
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("reading template: it is empty")
	}
	t := &template{parameters: map[string]any{}, resources: map[string]string{}}
	w := &Wiring{Functions: map[string]*FunctionWiring{}, Queues: map[string]*QueueWiring{}}
	t.load(t.section("template", doc.Content[0]), w, parameters)
	if err := t.err(); err != nil {
		return nil, err
	}
	return w, nil
}

func (t *template) load(root *section, w *Wiring, parameters map[string]string) {
	w.Parameters = t.readParameters(t.section("Parameters", root.node("Parameters")), parameters)
	globals := t.section("Globals", root.node("Globals"))
	defaults := globals.section("Function")
	globals.close()
	all := t.section("Resources", root.node("Resources"))
	root.close("AWSTemplateFormatVersion", "Transform", "Description", "Metadata", "Conditions", "Mappings", "Rules", "Outputs")
	for _, id := range all.names() {
		t.resources[id] = all.section(id).text("Type")
	}
	for _, id := range all.names() {
		t.loadResource(w, id, all.section(id), defaults)
	}
	defaults.close(append(slices.Clone(inert), "Timeout")...)
	t.checkVisibility(w)
}

func (t *template) loadResource(w *Wiring, id string, r, defaults *section) {
	kind := r.text("Type")
	if slices.Contains(unwired, kind) {
		return
	}
	p := r.section("Properties")
	switch kind {
	case typeFunction:
		f := t.function(id, p, defaults)
		if w.Functions[f.Name] != nil {
			t.fail(p.at("CodeUri"), "two functions have the folder %q", f.Name)
		}
		w.Functions[f.Name] = f
	case typeQueue:
		w.Queues[id] = p.queue(id)
	case typeRule:
		if rule, ok := p.rule(id); ok {
			w.Rules = append(w.Rules, rule)
		}
	case typeTable:
		if stream := p.section("StreamSpecification"); stream.text("StreamViewType") != "NEW_AND_OLD_IMAGES" {
			t.fail(stream.at("StreamViewType"), "must be NEW_AND_OLD_IMAGES")
		}
		return
	default:
		t.fail(r.at("Type"), "the embedded tier does not know resources of type %q", kind)
		return
	}
	r.close("Metadata", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy")
}

// inert are properties of a function that change nothing about what invokes it.
var inert = []string{
	"Architectures", "Description", "Environment", "FunctionUrlConfig", "Handler", "KmsKeyArn", "LoggingConfig", "MemorySize",
	"Policies", "RecursiveLoop", "ReservedConcurrentExecutions", "Role", "Runtime", "Tags", "Tracing",
}

// function reads a function. Only its time-out may come from the globals.
func (t *template) function(id string, p, defaults *section) *FunctionWiring {
	f := &FunctionWiring{LogicalID: id, Name: path.Base(strings.TrimSuffix(p.text("CodeUri"), "/"))}
	if f.Name == "." || f.Name == "/" {
		t.fail(p.at("CodeUri"), "must name the function's folder")
	}
	f.Timeout = seconds(p.number("Timeout", defaults.number("Timeout", 3, 1, 900), 1, 900))
	async := p.section("EventInvokeConfig")
	f.AsyncRetries = async.number("MaximumRetryAttempts", 2, 0, 2)
	async.close()
	events := p.section("Events")
	for _, name := range events.names() {
		f.event(events.section(name))
	}
	p.close(inert...)
	return f
}

func (f *FunctionWiring) event(s *section) {
	p := s.section("Properties")
	switch kind := s.text("Type"); kind {
	case "SQS":
		f.Queues = append(f.Queues, p.queueSource())
	case "DynamoDB":
		f.Streams = append(f.Streams, p.streamSource())
	case "ScheduleV2":
		f.Schedules = append(f.Schedules, p.scheduleSource())
	default:
		s.t.fail(s.at("Type"), "the embedded tier does not know events of type %q", kind)
		return
	}
	p.close()
	s.close()
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// batching reads what queues and streams have in common.
func (s *section) batching(size, most int) Batching {
	s.only("Enabled", true)
	b := Batching{
		BatchSize: s.number("BatchSize", size, 1, most), Window: seconds(s.number("MaximumBatchingWindowInSeconds", 0, 0, 300)),
	}
	for i, n := range s.list("FunctionResponseTypes") {
		v, err := s.t.resolve(n, s.item("FunctionResponseTypes", i))
		if err != nil || v != "ReportBatchItemFailures" {
			s.t.fail(s.item("FunctionResponseTypes", i), "must be ReportBatchItemFailures")
		}
		b.Partial = true
	}
	return b
}

// defaultConcurrency is how many batches of a queue Lambda handles at the same time to begin with.
const defaultConcurrency = 5

func (s *section) queueSource() QueueSource {
	scaling := s.section("ScalingConfig")
	defer scaling.close()
	return QueueSource{
		Batching: s.batching(10, 10_000), Queue: s.resource("Queue", "Arn", typeQueue),
		Concurrency: scaling.number("MaximumConcurrency", defaultConcurrency, 2, 1000),
	}
}

func (s *section) streamSource() StreamSource {
	source := StreamSource{
		Batching: s.batching(100, 10_000), Table: s.resource("Stream", "StreamArn", typeTable),
		Retries: s.number("MaximumRetryAttempts", -1, -1, 10_000), Bisect: s.flag("BisectBatchOnFunctionError"),
		Filters: s.filters(),
	}
	if s.text("StartingPosition") != "TRIM_HORIZON" {
		s.t.fail(s.at("StartingPosition"), "must be TRIM_HORIZON")
	}
	s.only("ParallelizationFactor", 1.0)
	if age := s.number("MaximumRecordAgeInSeconds", -1, -1, 604_800); age >= 60 {
		source.MaxAge = seconds(age)
	} else if age != -1 {
		s.t.fail(s.at("MaximumRecordAgeInSeconds"), "must be -1 or from 60 to 604800, is %d", age)
	}
	if s.has("DestinationConfig") {
		destination := s.section("DestinationConfig")
		failure := destination.section("OnFailure")
		failure.only("Type", "SQS")
		source.OnFailure = failure.resource("Destination", "Arn", typeQueue)
		failure.close()
		destination.close()
	}
	return source
}

// maxFilters is how many filters an event source can have once the quota is raised; five without.
const maxFilters = 10

func (s *section) filters() []*Pattern {
	criteria := s.section("FilterCriteria")
	defer criteria.close()
	items := criteria.list("Filters")
	if len(items) > maxFilters {
		s.t.fail(criteria.at("Filters"), "%d filters, the most are %d", len(items), maxFilters)
	}
	var out []*Pattern
	for i, n := range items {
		item := s.t.section(criteria.item("Filters", i), n)
		p, err := ParsePattern(item.text("Pattern"))
		if err != nil {
			s.t.fail(item.at("Pattern"), "%w", err)
		}
		item.close()
		out = append(out, p)
	}
	return out
}

func (s *section) scheduleSource() ScheduleSource {
	var input map[string]string
	text := s.text("Input")
	err := json.Unmarshal([]byte(text), &input)
	if bad := err != nil || len(input) != 1 || input["schedule"] == ""; bad && (text != "" || !s.has("Input")) {
		s.t.fail(s.at("Input"), `must be {"schedule": NAME}`)
	}
	s.only("State", "ENABLED")
	flexible := s.section("FlexibleTimeWindow")
	flexible.only("Mode", "OFF")
	flexible.close()
	_ = s.node("Description")
	_ = s.node("RetryPolicy") // of the delivery to Lambda, which cannot fail here
	_ = s.node("RoleArn")
	return ScheduleSource{Every: s.rate("ScheduleExpression"), Schedule: input["schedule"]}
}

// rate reads rate(N UNIT) with minutes, hours or days.
func (s *section) rate(key string) time.Duration {
	text := s.text(key)
	var n int
	var unit string
	if _, err := fmt.Sscanf(text, "rate(%d %s", &n, &unit); err == nil && n > 0 {
		switch unit {
		case "minute)", "minutes)":
			return time.Duration(n) * time.Minute
		case "hour)", "hours)":
			return time.Duration(n) * time.Hour
		case "day)", "days)":
			return time.Duration(n) * 24 * time.Hour
		}
	}
	s.t.fail(s.at(key), "must be rate(N minutes), hours or days, is %q", text)
	return time.Hour
}
