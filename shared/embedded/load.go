package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types of resource that are read.
const (
	typeFunction = "AWS::Serverless::Function"
	typeQueue    = "AWS::SQS::Queue"
	typeRule     = "AWS::Events::Rule"
	typeBus      = "AWS::Events::EventBus"
	typeTable    = "AWS::DynamoDB::Table"
)

// unwired are the types of resource that connect nothing. Any other type is refused: a new kind of
// connection in the template must not be missing from the embedded tier without notice. Any other
// type is refused: a new kind of connection in the template must not be missing from the embedded
// tier without notice.
var unwired = []string{
	"AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::SQS::QueuePolicy", "AWS::Events::EventBusPolicy",
	"AWS::Logs::LogGroup",
	"AWS::CloudFormation::Stack", "AWS::Budgets::Budget",
	"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard",
}

// LoadTemplate reads the wiring from a SAM template: functions with their SQS, DynamoDB and
// ScheduleV2 events, queues, rules and parameters. The given parameters replace the template's
// defaults. Where it reads values it knows Ref, Sub and GetAtt.
//
// What it does not know and could connect something is an error: a function of CloudFormation, a
// resource, a property. The error names every such place by its path, such as
// Resources.Dispatch.Properties.Events.Stream.Type.
// Parameters may also give CloudFormation's own AWS::AccountId and AWS::Region.
func LoadTemplate(text []byte, parameters map[string]string) (*Wiring, error) {
	root, err := parseYAML(string(text))
	if err != nil {
		return nil, err
	}
	t := &template{parameters: map[string]any{}, resources: map[string]string{}, pseudo: maps.Clone(pseudoParameters)}
	parameters = maps.Clone(parameters)
	for name := range pseudoParameters {
		if value, given := parameters[name]; given {
			t.pseudo[name] = value
			delete(parameters, name)
		}
	}
	w := &Wiring{Functions: map[string]*FunctionWiring{}, Queues: map[string]*QueueWiring{}}
	t.readWiring(t.openSection("template", root), w, parameters)
	if err := t.joinedErrors(); err != nil {
		return nil, err
	}
	return w, nil
}

// parsed is the template that was parsed last. Tests open hundreds of installations in one process,
// all from one template.
var parsed struct {
	sync.Mutex
	text string
	root *yaml.Node // never changed
}

func parseYAML(text string) (*yaml.Node, error) {
	parsed.Lock()
	defer parsed.Unlock()
	if parsed.root != nil && parsed.text == text {
		return parsed.root, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("reading template: %w", err)
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("reading template: it is empty")
	}
	parsed.text, parsed.root = text, doc.Content[0]
	return parsed.root, nil
}

// readWiring reads parameters first, which anything may refer to, and then the types of all
// resources, which references are checked against.
func (t *template) readWiring(root *section, w *Wiring, parameters map[string]string) {
	w.Parameters = t.readParameters(t.openSection("Parameters", root.childNode("Parameters")), parameters)
	globals := t.openSection("Globals", root.childNode("Globals"))
	defaults := globals.childSection("Function")
	globals.rejectUnreadKeys()
	all := t.openSection("Resources", root.childNode("Resources"))
	root.rejectUnreadKeys("AWSTemplateFormatVersion", "Transform", "Description", "Metadata", "Conditions", "Mappings",
		"Rules", "Outputs")
	for _, id := range all.keyNames() {
		t.resources[id] = all.childSection(id).textValue("Type")
	}
	for _, id := range all.keyNames() {
		t.readResource(w, id, all.childSection(id), defaults)
	}
	defaults.rejectUnreadKeys(append(slices.Clone(inert), "Timeout")...)
	t.checkVisibility(w)
}

// readResource adds one resource to the wiring. Of the table it only checks that the stream has
// both images, which handlers compare.
func (t *template) readResource(w *Wiring, id string, r, defaults *section) {
	kind := r.textValue("Type")
	if slices.Contains(unwired, kind) {
		return
	}
	p := r.childSection("Properties")
	switch kind {
	case typeFunction:
		f := t.readFunctionWiring(id, p, defaults)
		if w.Functions[f.Name] != nil {
			t.addError(p.keyPath("CodeUri"), "two functions have the folder %q", f.Name)
		}
		w.Functions[f.Name] = f
	case typeQueue:
		w.Queues[id] = p.readQueueWiring(id)
	case typeRule:
		if rule, ok := p.readRuleWiring(id); ok {
			w.Rules = append(w.Rules, rule)
		}
	case typeBus:
		p.rejectUnreadKeys("Name", "Description", "KmsKeyIdentifier", "Tags")
	case typeTable:
		if stream := p.childSection("StreamSpecification"); stream.textValue("StreamViewType") != "NEW_AND_OLD_IMAGES" {
			t.addError(stream.keyPath("StreamViewType"), "must be NEW_AND_OLD_IMAGES")
		}
		return
	default:
		t.addError(r.keyPath("Type"), "the embedded tier does not know resources of type %q", kind)
		return
	}
	r.rejectUnreadKeys("Metadata", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy")
}

// inert are properties of a function that change nothing about when and with what it is invoked.
var inert = []string{
	"Architectures", "Description", "Environment", "FunctionUrlConfig", "Handler", "KmsKeyArn", "LoggingConfig",
	"MemorySize",
	"Policies", "RecursiveLoop", "ReservedConcurrentExecutions", "Role", "Runtime", "Tags", "Tracing",
}

// readFunctionWiring reads a function. Of its properties only the time-out may come from the
// globals. Defaults and bounds are Lambda's.
func (t *template) readFunctionWiring(id string, p, defaults *section) *FunctionWiring {
	f := &FunctionWiring{LogicalID: id, Name: path.Base(strings.TrimSuffix(p.textValue("CodeUri"), "/"))}
	if f.Name == "." || f.Name == "/" {
		t.addError(p.keyPath("CodeUri"), "must name the function's folder")
	}
	f.Timeout = secondsToDuration(p.boundedNumber("Timeout", defaults.boundedNumber("Timeout", 3, 1, 900), 1, 900))
	f.Async = readAsyncConfig(p.childSection("EventInvokeConfig"))
	events := p.childSection("Events")
	for _, name := range events.keyNames() {
		f.addEventSource(events.childSection(name))
	}
	p.rejectUnreadKeys(inert...)
	return f
}

// readAsyncConfig reads the settings of asynchronous invocations (Lambda, error handling for
// asynchronous invocation).
func readAsyncConfig(s *section) AsyncConfig {
	defer s.rejectUnreadKeys()
	return AsyncConfig{
		Retries:   s.boundedNumber("MaximumRetryAttempts", 2, 0, 2),
		MaxAge:    secondsToDuration(s.boundedNumber("MaximumEventAgeInSeconds", 21_600, 60, 21_600)),
		OnFailure: s.readFailureQueue(),
	}
}

// readFailureQueue reads the queue that gets a report of what was given up, "" for none.
func (s *section) readFailureQueue() string {
	if !s.hasKey("DestinationConfig") {
		return ""
	}
	destination := s.childSection("DestinationConfig")
	defer destination.rejectUnreadKeys()
	failure := destination.childSection("OnFailure")
	defer failure.rejectUnreadKeys()
	failure.allowOnlyValue("Type", "SQS")
	return failure.resourceRef("Destination", "Arn", typeQueue)
}

// addEventSource adds one entry of a function's Events.
func (f *FunctionWiring) addEventSource(s *section) {
	p := s.childSection("Properties")
	switch kind := s.textValue("Type"); kind {
	case "SQS":
		f.Queues = append(f.Queues, p.readQueueSource())
	case "DynamoDB":
		f.Streams = append(f.Streams, p.readStreamSource())
	case "ScheduleV2":
		f.Schedules = append(f.Schedules, p.readScheduleSource())
	default:
		s.t.addError(s.keyPath("Type"), "the embedded tier does not know events of type %q", kind)
		return
	}
	p.rejectUnreadKeys()
	s.rejectUnreadKeys()
}

// readBatching reads what queues and streams have in common, with the default size and the largest.
func (s *section) readBatching(size, most int) Batching {
	s.allowOnlyValue("Enabled", true)
	b := Batching{
		BatchSize: s.boundedNumber("BatchSize", size, 1, most),
		Window:    secondsToDuration(s.boundedNumber("MaximumBatchingWindowInSeconds", 0, 0, 300)),
	}
	for i, n := range s.listNodes("FunctionResponseTypes") {
		v, err := s.t.resolveNode(n, s.listItemPath("FunctionResponseTypes", i))
		if err != nil || v != "ReportBatchItemFailures" {
			s.t.addError(s.listItemPath("FunctionResponseTypes", i), "must be ReportBatchItemFailures")
		}
		b.Partial = true
	}
	return b
}

// defaultConcurrency is how many batches of a queue are handled at the same time if the template
// says nothing. Lambda begins with five and then scales up.
const defaultConcurrency = 5

// readQueueSource reads an SQS event. Batches have 10 messages by default and at most 10,000
// (Lambda, SQS event source mapping).
func (s *section) readQueueSource() QueueSource {
	scaling := s.childSection("ScalingConfig")
	defer scaling.rejectUnreadKeys()
	return QueueSource{
		Batching: s.readBatching(10, 10_000), Queue: s.resourceRef("Queue", "Arn", typeQueue),
		Concurrency: scaling.boundedNumber("MaximumConcurrency", defaultConcurrency, 2, 1000),
	}
}

// readStreamSource reads a DynamoDB event. It insists on TRIM_HORIZON and one batch per shard at a
// time: the handlers rely on having every record, in order.
func (s *section) readStreamSource() StreamSource {
	source := StreamSource{
		Batching: s.readBatching(100, 10_000), Table: s.resourceRef("Stream", "StreamArn", typeTable),
		Retries: s.boundedNumber("MaximumRetryAttempts", -1, -1, 10_000),
		Bisect:  s.boolValue("BisectBatchOnFunctionError"),
		Filters: s.readFilterPatterns(),
	}
	if s.textValue("StartingPosition") != "TRIM_HORIZON" {
		s.t.addError(s.keyPath("StartingPosition"), "must be TRIM_HORIZON")
	}
	s.allowOnlyValue("ParallelizationFactor", 1.0)
	if age := s.boundedNumber("MaximumRecordAgeInSeconds", -1, -1, 604_800); age >= 60 {
		source.MaxAge = secondsToDuration(age)
	} else if age != -1 {
		s.t.addError(s.keyPath("MaximumRecordAgeInSeconds"), "must be -1 or from 60 to 604800, is %d", age)
	}
	source.OnFailure = s.readFailureQueue()
	return source
}

// maxFilters is how many filters an event source can have after a raised quota; five by default
// (Lambda, event filtering).
const maxFilters = 10

// readFilterPatterns compiles the filters, so that an unknown operator is an error of the template
// and not of the first record.
func (s *section) readFilterPatterns() []*Pattern {
	criteria := s.childSection("FilterCriteria")
	defer criteria.rejectUnreadKeys()
	items := criteria.listNodes("Filters")
	if len(items) > maxFilters {
		s.t.addError(criteria.keyPath("Filters"), "has %d filters, at most %d are allowed", len(items), maxFilters)
	}
	var out []*Pattern
	for i, n := range items {
		item := s.t.openSection(criteria.listItemPath("Filters", i), n)
		p, err := ParsePattern(item.textValue("Pattern"))
		if err != nil {
			s.t.addError(item.keyPath("Pattern"), "%w", err)
		}
		item.rejectUnreadKeys()
		out = append(out, p)
	}
	return out
}

// readScheduleSource reads a schedule. The function gets its name from the input, {"schedule":
// NAME}.
func (s *section) readScheduleSource() ScheduleSource {
	var input map[string]string
	text := s.textValue("Input")
	err := json.Unmarshal([]byte(text), &input)
	if bad := err != nil || len(input) != 1 || input["schedule"] == ""; bad && (text != "" || !s.hasKey("Input")) {
		s.t.addError(s.keyPath("Input"), `must be {"schedule": NAME}`)
	}
	s.allowOnlyValue("State", "ENABLED")
	flexible := s.childSection("FlexibleTimeWindow")
	flexible.allowOnlyValue("Mode", "OFF")
	flexible.rejectUnreadKeys()
	_ = s.childNode("Description")
	_ = s.childNode("OmitName")    // schedules have no names here
	_ = s.childNode("RetryPolicy") // of the delivery to Lambda, which cannot fail here
	_ = s.childNode("RoleArn")
	return ScheduleSource{Every: s.readScheduleRate("ScheduleExpression"), Schedule: input["schedule"]}
}

// readScheduleRate reads rate(N UNIT) with minutes, hours or days, and with seconds, which AWS does not have.
// Cron expressions are not known.
func (s *section) readScheduleRate(key string) time.Duration {
	text := s.textValue(key)
	var n int
	var unit string
	if _, err := fmt.Sscanf(text, "rate(%d %s", &n, &unit); err == nil && n > 0 {
		switch unit {
		case "seconds)":
			return time.Duration(n) * time.Second
		case "minute)", "minutes)":
			return time.Duration(n) * time.Minute
		case "hour)", "hours)":
			return time.Duration(n) * time.Hour
		case "day)", "days)":
			return time.Duration(n) * 24 * time.Hour
		}
	}
	s.t.addError(s.keyPath(key), "must be rate(N minutes), hours or days, is %q", text)
	return time.Hour
}
