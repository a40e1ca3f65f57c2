// Command node-group-upgrade is the Lambda function that carries out updates of node groups, one
// step each minute.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/launchtemplate"
	"berth/shared/handler/nodegroupupgrade"
)

func main() {
	e := environment.LoadProcess()
	ecs, groups := e.ECSClient(), autoscaling.NewGroups(e.AWSConfig())
	h := &nodegroupupgrade.Handler{
		State: e.StateTable(), ECS: ecs, Hosts: ecs, Auto: groups, Updates: groups,
		Templates: launchtemplate.NewTemplates(e.AWSConfig()),
		Clock:     environment.Clock{}, Settings: e.HandlerSettings(), Log: e.Log,
	}
	e.StartFunction(&eventsource.Function{Schedule: h.RunSchedule}, nil)
}
