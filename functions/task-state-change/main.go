// Command task-state-change is the Lambda function that writes down what ECS reports of tasks and instances: the
// events in the queue, and each hour what ECS itself says.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"berth/functions/internal/environment"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
)

func main() {
	e := environment.Load()
	h := &handler.TaskStateChange{
		State: e.State(), ECS: e.ECS(), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{ECSSources: e.List("EVENT_SOURCES")},
	}
	e.Check()
	f := &eventsource.Function{Messages: h.Messages, Schedule: h.Schedule, Log: e.Log}
	lambda.Start(f.Invoke)
}
