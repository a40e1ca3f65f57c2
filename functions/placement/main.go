// Command placement is the Lambda function that decides where tasks run. It reads the table's
// stream, reconciles services and requests, and commits the decisions. It calls nothing but the
// table and the wake-up queue.
package main

import (
	"crypto/rand"

	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/wakequeue"
	"berth/shared/handler"
	"berth/shared/handler/placement"
)

func main() {
	e := environment.LoadProcess()
	h := &placement.Handler{
		State: e.StateTable(), Clock: environment.Clock{},
		Wake:     wakequeue.NewQueue(e.AWSConfig(), e.RequiredVariable("WAKE_QUEUE_URL")),
		Settings: e.HandlerSettings(), Log: e.Log,
		Environment: rand.Text(), Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Records: h.HandleRecords}, h.Telemetry)
}
