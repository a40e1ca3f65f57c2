package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"berth/shared/cluster"
	"berth/shared/dynamo"
	"berth/shared/state"
)

// Function is a handler with a field for each kind of source. Fields of sources that template.yaml
// does not connect to it are nil. [Function.Invoke] is what lambda.Start takes.
type Function struct {
	// Messages handles a batch of a queue and returns the ids of the messages to deliver again.
	Messages func(ctx context.Context, messages []state.Message) (retry []string)
	// Records handles a batch of the stream and returns the sequence of the first record to deliver
	// again, or "" if all are done. After an error the whole batch is delivered again.
	Records func(ctx context.Context, records []state.Record) (retryFrom string, err error)
	// Schedule handles a schedule, whose input {"schedule": NAME} names it.
	Schedule func(ctx context.Context, name string) error
	// URL answers requests to the function URL.
	URL http.Handler
	// WithPrincipal adds to the request's context the ARN of the caller, which IAM has verified.
	WithPrincipal func(ctx context.Context, arn string) context.Context
	// UnverifiedCaller stands for the caller of requests that no IAM authorizer has verified. If it
	// is empty, such requests are refused. Only an emulator of AWS needs it.
	UnverifiedCaller string
	// Log receives a line for each dropped event. It may be nil.
	Log *slog.Logger
}

// envelope is enough of an event to identify its source.
type envelope struct {
	Records []struct {
		EventSource string `json:"eventSource"`
	} `json:"Records"`
	DetailType     string `json:"detail-type"`
	Schedule       string `json:"schedule"`
	RequestContext struct {
		HTTP *struct{} `json:"http"`
	} `json:"requestContext"`
}

// Invoke handles one event of any source. An event of a source that the function does not have is
// an error, because template.yaml must be wrong.
func (f *Function) Invoke(ctx context.Context, event json.RawMessage) (any, error) {
	var e envelope
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("reading event: %w", err)
	}
	source := ""
	if len(e.Records) > 0 {
		source = e.Records[0].EventSource
	}
	switch {
	case source == "aws:sqs" && f.Messages != nil:
		return f.handleMessages(ctx, event)
	case source == "aws:dynamodb" && f.Records != nil:
		return f.handleRecords(ctx, event)
	case e.Schedule != "" && f.Schedule != nil:
		return nil, f.ignoreDrop(ctx, f.Schedule(ctx, e.Schedule))
	case e.RequestContext.HTTP != nil && f.URL != nil:
		return f.answerRequest(ctx, event)
	case e.DetailType != "" && f.Messages != nil:
		return nil, f.handleBareEvent(ctx, event)
	}
	return nil, fmt.Errorf("no handler for an event of %s", describeSource(e, source))
}

// describeSource names the source of an event for an error.
func describeSource(e envelope, source string) string {
	switch {
	case source != "":
		return source
	case e.Schedule != "":
		return "schedule " + strconv.Quote(e.Schedule)
	case e.RequestContext.HTTP != nil:
		return "the function URL"
	case e.DetailType != "":
		return "EventBridge"
	}
	return "an unknown source"
}

// ignoreDrop logs a drop and turns it into success, because no retry can help.
func (f *Function) ignoreDrop(ctx context.Context, err error) error {
	var drop *cluster.Drop
	if !errors.As(err, &drop) {
		return err
	}
	if f.Log != nil {
		f.Log.WarnContext(ctx, "dropped event", "reason", drop.Reason)
	}
	return nil
}

// handleMessages hands over a batch of SQS. The answer lists the messages to deliver again (partial
// batch response); the queue deletes the others.
func (f *Function) handleMessages(ctx context.Context, event []byte) (events.SQSEventResponse, error) {
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	var batch events.SQSEvent
	if err := json.Unmarshal(event, &batch); err != nil {
		return out, fmt.Errorf("reading SQS event: %w", err)
	}
	messages := make([]state.Message, len(batch.Records))
	for i, m := range batch.Records {
		// SQS always sets the count. A test event may lack it.
		receives, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
		if err != nil {
			receives = 1
		}
		messages[i] = state.Message{ID: m.MessageId, Body: []byte(m.Body), Receives: receives}
	}
	for _, id := range f.Messages(ctx, messages) {
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
	}
	return out, nil
}

// handleBareEvent handles an event that EventBridge, or a developer, sends without a queue. After
// an error Lambda invokes the function again.
func (f *Function) handleBareEvent(ctx context.Context, event []byte) error {
	if retry := f.Messages(ctx, []state.Message{{ID: "event", Body: event, Receives: 1}}); len(retry) > 0 {
		return errors.New("the event was not handled")
	}
	return nil
}

// handleRecords hands over a batch of the stream. The answer names the first record to deliver
// again; those before it count as done, as the order within a cluster must be kept.
func (f *Function) handleRecords(ctx context.Context, event []byte) (events.DynamoDBEventResponse, error) {
	out := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	var batch events.DynamoDBEvent
	if err := json.Unmarshal(event, &batch); err != nil {
		return out, fmt.Errorf("reading stream event: %w", err)
	}
	records := make([]state.Record, 0, len(batch.Records))
	for _, r := range batch.Records {
		record, err := dynamo.DecodeRecord(r)
		if err != nil {
			if err := f.ignoreDrop(ctx, err); err != nil {
				return out, err
			}
			continue
		}
		records = append(records, record)
	}
	if len(records) == 0 {
		return out, nil
	}
	retryFrom, err := f.Records(ctx, records)
	if retryFrom != "" {
		out.BatchItemFailures = append(out.BatchItemFailures,
			events.DynamoDBBatchItemFailure{ItemIdentifier: retryFrom})
	}
	return out, err
}
