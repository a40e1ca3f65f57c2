// Command throttling is the Lambda function that slows down the starts of services whose tasks stop
// without ever running (S7). It is invoked by the events of such tasks.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/handler"
	"berth/shared/handler/throttling"
)

func main() {
	e := environment.LoadProcess()
	h := &throttling.Handler{
		State: e.StateTable(), Clock: environment.Clock{}, Settings: e.HandlerSettings(), Log: e.Log,
		Decoder: e.EventDecoder(), Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages}, h.Telemetry)
}
