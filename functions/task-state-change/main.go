// Command task-state-change is the Lambda function that writes down what ECS reports of tasks and instances: the
// events in the queue, and each hour what ECS itself says.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"berth/functions/internal/environment"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
)

func main() {
	e := environment.Load()
	h := &handler.TaskStateChange{
		State: e.State(), ECS: e.ECS(), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{ECSSources: e.List("EVENT_SOURCES")},
	}
	e.Check()
	metrics := e.Metrics()
	messages := func(ctx context.Context, m []cluster.Message) []string {
		defer clear(h.Dropped)
		defer func() { metrics.Count("Dropped", h.Dropped) }()
		return h.Messages(ctx, m)
	}
	f := &eventsource.Function{Messages: messages, Schedule: h.Schedule, Log: e.Log}
	lambda.Start(f.Invoke)
}
