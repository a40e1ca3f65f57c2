// Command dispatch is the Lambda function that carries out what was committed: it starts and stops
// tasks at ECS, and registers them with load balancers and in Cloud Map. It is invoked by the
// table's stream, by the wake-up queue, and by a schedule each minute.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/balancing"
	"berth/shared/awsapi/eventbus"
	"berth/shared/awsapi/wakequeue"
	"berth/shared/handler"
	"berth/shared/handler/dispatch"
)

func main() {
	e := environment.LoadProcess()
	settings := e.HandlerSettings()
	h := &dispatch.Handler{
		State: e.StateTable(), ECS: e.ECSClient(), LoadBalancers: balancing.NewLoadBalancers(e.AWSConfig()),
		Registries: balancing.NewRegistries(e.AWSConfig()),
		Groups: &handler.OwnedGroups{AutoScaling: autoscaling.NewGroups(e.AWSConfig()),
			Installation: e.RequiredVariable("INSTALLATION")},
		Scaling:  wakequeue.NewQueue(e.AWSConfig(), e.RequiredVariable("SCALING_QUEUE_URL")),
		Upgrades: wakequeue.NewQueue(e.AWSConfig(), e.RequiredVariable("UPGRADE_QUEUE_URL")),
		Account:  e.Account(), Clock: environment.Clock{}, Settings: settings, Log: e.Log,
		Telemetry: &handler.Telemetry{}, Parallel: handler.InParallel(10),
	}
	if settings.PublishEvents {
		h.Bus = eventbus.NewBus(e.AWSConfig())
	}
	e.StartFunction(&eventsource.Function{Records: h.HandleRecords, Messages: h.HandleMessages,
		Schedule: h.RunSchedule}, h.Telemetry)
}
