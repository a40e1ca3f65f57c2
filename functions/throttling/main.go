// Command throttling is the Lambda function that records how the starts of services are slowed
// down, from the events of tasks that stopped without ever running.
package main

import (
	"berth/functions/internal/environment"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/throttling"
)

func main() {
	e := environment.Load()
	h := &throttling.Handler{
		State: e.State(), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{ECSSources: e.List("EVENT_SOURCES")}, Figures: &handler.Figures{},
	}
	e.Start(&eventsource.Function{Messages: h.Messages}, h.Figures)
}
