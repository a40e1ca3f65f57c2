// Command task-state-change is the Lambda function that records what ECS reports about tasks and
// instances: the events in its queue, and each hour a sweep of ECS's own lists.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/wakequeue"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
)

func main() {
	e := environment.LoadProcess()
	h := &taskstatechange.Handler{
		State: e.StateTable(), ECS: e.ECSClient(), Clock: environment.Clock{}, Settings: e.HandlerSettings(),
		Log:     e.Log,
		Health:  wakequeue.NewQueue(e.AWSConfig(), e.RequiredVariable("HEALTH_QUEUE_URL")),
		Decoder: e.EventDecoder(), Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
