package embedded

import "time"

// Wiring is what connects functions to queues, stream, schedules and rules, as template.yaml
// declares it. Names are logical ids, except for functions, which are named by the last part of
// their CodeUri: functions/dispatch is "dispatch".
type Wiring struct {
	Functions map[string]*FunctionWiring
	Queues    map[string]*QueueWiring
	Rules     []RuleWiring
	// Parameters are the values of the template's parameters, given ones and defaults. Lists are
	// joined by commas.
	Parameters map[string]string
}

// FunctionWiring is one AWS::Serverless::Function.
type FunctionWiring struct {
	Name      string
	LogicalID string
	Timeout   time.Duration
	Async     AsyncConfig
	Queues    []QueueSource
	Streams   []StreamSource
	Schedules []ScheduleSource
}

// AsyncConfig is EventInvokeConfig: it says what happens after a tick of a schedule has failed.
type AsyncConfig struct {
	Retries   int
	MaxAge    time.Duration // of the tick, after which it is not tried again
	OnFailure string        // queue that gets a report of a tick that was given up; empty for none
}

// Batching says when a batch is delivered: when BatchSize have gathered, or Window after the first.
type Batching struct {
	BatchSize int
	Window    time.Duration
	// Partial is ReportBatchItemFailures. Without it what a function reports as failed is not tried
	// again.
	Partial bool
}

// QueueSource is an event of type SQS.
type QueueSource struct {
	Batching
	Queue       string
	Concurrency int // batches at the same time
}

// StreamSource is an event of type DynamoDB, such as
//
//	Type: DynamoDB
//	Properties:
//	  Stream: !GetAtt Table.StreamArn
//	  StartingPosition: TRIM_HORIZON
//	  BatchSize: 100
//	  FunctionResponseTypes: [ReportBatchItemFailures]
//	  FilterCriteria:
//	    Filters:
//	      - Pattern: '{"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "task#"}]}}}}'
type StreamSource struct {
	Batching
	Table     string
	Filters   []*Pattern    // a record must match one of them; without any all records pass
	Retries   int           // of a batch; -1 for ever
	MaxAge    time.Duration // of a record; 0 for ever
	Bisect    bool          // a failed batch is cut in two
	OnFailure string        // queue; empty for none
}

// ScheduleSource is an event of type ScheduleV2. The function gets the name of the schedule,
// because one function may have several.
type ScheduleSource struct {
	Every    time.Duration
	Schedule string // of the input {"schedule": NAME}
}

// QueueWiring is one AWS::SQS::Queue. Without dead letters a message that always fails comes back
// for ever.
type QueueWiring struct {
	Name        string
	Visibility  time.Duration // how long a received message is invisible
	Delay       time.Duration // of messages sent without one
	MaxReceives int           // before a message goes to DeadLetters
	DeadLetters string        // queue; empty for none
}

// RuleWiring is one AWS::Events::Rule, which sends the events that match its pattern to all its
// queues.
type RuleWiring struct {
	Name    string
	Bus     string // logical id of an AWS::Events::EventBus; empty for the default bus
	Pattern *Pattern
	Queues  []string
}
