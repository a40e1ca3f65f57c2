// Command task-state-change is the Lambda function that writes down what ECS reports of tasks and
// instances: the events in the queue, and each hour what ECS itself says.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
)

func main() {
	e := environment.LoadProcess()
	h := &taskstatechange.Handler{
		State: e.StateTable(), ECS: e.ECSClient(), Clock: environment.Clock{}, Settings: e.HandlerSettings(),
		Log:     e.Log,
		Decoder: awsevent.Decoder{ECSSources: e.ListVariable("EVENT_SOURCES")}, Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
