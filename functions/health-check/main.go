// Command health-check is the Lambda function that looks each minute at the health of registered
// tasks in target groups and in Cloud Map, and at the alarms of deployments under way, these also
// when an event says that one has fired.
package main

import (
	"berth/functions/internal/environment"
	"berth/shared/awsapi/balancing"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/healthcheck"
)

func main() {
	e := environment.Load()
	h := &healthcheck.Handler{
		State: e.State(), LoadBalancers: balancing.NewLoadBalancers(e.AWS()),
		Registries: balancing.NewRegistries(e.AWS()),
		Alarms:     cloudwatch.NewAlarms(e.AWS()), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{AlarmSources: e.List("ALARM_SOURCES")}, Figures: &handler.Figures{},
	}
	e.Start(&eventsource.Function{Messages: h.Messages, Schedule: h.Schedule}, h.Figures)
}
