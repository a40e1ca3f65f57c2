// Command health-check is the Lambda function that reads, each minute, the health of tasks whose containers have
// health checks, that of registered tasks in target groups and Cloud Map, and the alarms of deployments in progress.
// It also reads the first health of tasks soon after they have begun to run, and an alarm when an event reports
// that it has fired.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/balancing"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/handler"
	"berth/shared/handler/healthcheck"
)

func main() {
	e := environment.LoadProcess()
	h := &healthcheck.Handler{
		State: e.StateTable(), ECS: e.ECSClient(), LoadBalancers: balancing.NewLoadBalancers(e.AWSConfig()),
		Registries: balancing.NewRegistries(e.AWSConfig()), Alarms: cloudwatch.NewAlarms(e.AWSConfig()),
		Clock: environment.Clock{}, Settings: e.HandlerSettings(), Log: e.Log, Decoder: e.EventDecoder(),
		Telemetry: &handler.Telemetry{}, Parallel: handler.InParallel(4),
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
