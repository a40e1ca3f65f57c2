// Command managed-scaling is the Lambda function that sizes the Auto Scaling groups of capacity
// providers, each minute and when one of its alarms fires.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
)

func main() {
	e := environment.LoadProcess()
	ecs := e.ECSClient()
	h := &managedscaling.Handler{
		State: e.StateTable(), ECS: ecs, Hosts: ecs, Groups: autoscaling.NewGroups(e.AWSConfig()),
		Metrics: cloudwatch.NewMetrics(e.AWSConfig()),
		Clock:   environment.Clock{}, Settings: e.HandlerSettings(), Log: e.Log,
		Decoder: awsevent.Decoder{
			AlarmSources:   e.ListVariable("ALARM_SOURCES"),
			ScalingSources: e.ListVariable("SCALING_SOURCES"),
		}, Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
