// Command task-state-change is the Lambda function that writes down what ECS reports of tasks and
// instances: the events in the queue, and each hour what ECS itself says.
package main

import (
	"berth/functions/internal/environment"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
)

func main() {
	e := environment.Load()
	h := &taskstatechange.Handler{
		State: e.State(), ECS: e.ECS(), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{ECSSources: e.List("EVENT_SOURCES")}, Figures: &handler.Figures{},
	}
	e.Start(&eventsource.Function{Messages: h.Messages, Schedule: h.Schedule}, h.Figures)
}
