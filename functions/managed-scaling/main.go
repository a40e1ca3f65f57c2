// Command managed-scaling is the Lambda function that sizes the Auto Scaling groups of capacity
// providers, each minute and when one of its alarms fires.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/cloudwatch"
	"berth/shared/awsapi/launchtemplate"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
)

func main() {
	e := environment.LoadProcess()
	ecs, settings := e.ECSClient(), e.HandlerSettings()
	h := &managedscaling.Handler{
		State: e.StateTable(), ECS: ecs, Hosts: ecs,
		Groups: &handler.OwnedGroups{AutoScaling: autoscaling.NewGroups(e.AWSConfig()),
			Installation: e.RequiredVariable("INSTALLATION")},
		Metrics: cloudwatch.NewMetrics(e.AWSConfig()), Types: launchtemplate.NewTemplates(e.AWSConfig()),
		Clock: environment.Clock{}, Settings: settings, Log: e.Log,
		Decoder: e.EventDecoder(), Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
