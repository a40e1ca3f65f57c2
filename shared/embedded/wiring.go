package embedded

import "time"

// Wiring is what connects functions to queues, stream, schedules and rules, as template.yaml
// declares it. Names are logical ids, except that functions go by the last part of their CodeUri.
type Wiring struct {
	Functions map[string]*FunctionWiring
	Queues    map[string]*QueueWiring
	Rules     []RuleWiring
	// Parameters are the template's, after overriding; lists joined by commas.
	Parameters map[string]string
}

// FunctionWiring is one AWS::Serverless::Function.
type FunctionWiring struct {
	Name      string
	LogicalID string
	Timeout   time.Duration
	// AsyncRetries is how often a failed tick of a schedule is tried again (EventInvokeConfig).
	AsyncRetries int
	Queues       []QueueSource
	Streams      []StreamSource
	Schedules    []ScheduleSource
}

// Batching is when a batch is delivered: when BatchSize have gathered, or Window after the first.
type Batching struct {
	BatchSize int
	Window    time.Duration
	// Partial is ReportBatchItemFailures: without it what a function reports as failed is not tried
	// again.
	Partial bool
}

// QueueSource is an event of type SQS.
type QueueSource struct {
	Batching
	Queue       string
	Concurrency int // batches at the same time
}

// StreamSource is an event of type DynamoDB.
type StreamSource struct {
	Batching
	Table     string
	Filters   []*Pattern // one of them lets a record pass; without any all do
	Retries   int        // of a batch; -1 for ever
	MaxAge    time.Duration
	Bisect    bool
	OnFailure string // queue; empty for none
}

// ScheduleSource is an event of type ScheduleV2.
type ScheduleSource struct {
	Every    time.Duration
	Schedule string // of the input {"schedule": NAME}
}

// QueueWiring is one AWS::SQS::Queue.
type QueueWiring struct {
	Name        string
	Visibility  time.Duration
	Delay       time.Duration
	MaxReceives int    // before a message goes to DeadLetters
	DeadLetters string // queue; empty for none
}

// RuleWiring is one AWS::Events::Rule.
type RuleWiring struct {
	Name    string
	Pattern *Pattern
	Queues  []string
}
