// Command managed-scaling is the Lambda function that sizes the Auto Scaling groups of capacity
// providers, each minute and when one of its alarms fires.
package main

import (
	"berth/functions/internal/environment"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsevent"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
)

func main() {
	e := environment.Load()
	ecs := e.ECS()
	h := &managedscaling.Handler{
		State: e.State(), ECS: ecs, Hosts: ecs, Groups: autoscaling.New(e.AWS()),
		Metrics: cloudwatch.NewMetrics(e.AWS()),
		Clock:   environment.Clock{}, Settings: e.Settings(), Log: e.Log,
		Decoder: awsevent.Decoder{
			AlarmSources:   e.List("ALARM_SOURCES"),
			ScalingSources: e.List("SCALING_SOURCES"),
		}, Figures: &handler.Figures{},
	}
	e.Start(&eventsource.Function{Messages: h.Messages, Schedule: h.Schedule}, h.Figures)
}
