// Command node-group-upgrade is the Lambda function that carries out updates of node groups, each
// minute.
package main

import (
	"berth/functions/internal/environment"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/eventsource"
	"berth/shared/awsapi/launchtemplate"
	"berth/shared/handler/nodegroupupgrade"
)

func main() {
	e := environment.Load()
	ecs, groups := e.ECS(), autoscaling.New(e.AWS())
	h := &nodegroupupgrade.Handler{
		State: e.State(), ECS: ecs, Hosts: ecs, Auto: groups, Updates: groups, Templates: launchtemplate.New(e.AWS()),
		Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log,
	}
	e.Start(&eventsource.Function{Schedule: h.Schedule}, nil)
}
