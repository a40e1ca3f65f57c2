// Command node-group-upgrade is the Lambda function that carries out updates of node groups, when a
// message wakes it and each minute.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/instanceprofile"
	"berth/shared/awsapi/launchtemplate"
	"berth/shared/awsapi/parameter"
	"berth/shared/handler"
	"berth/shared/handler/nodegroupupgrade"
)

// maker makes the parts of node groups: each of its services makes one.
type maker struct {
	*autoscaling.Groups
	*launchtemplate.Templates
	*instanceprofile.Profiles
}

func main() {
	e := environment.LoadProcess()
	ecs, settings, all := e.ECSClient(), e.HandlerSettings(), autoscaling.NewGroups(e.AWSConfig())
	groups := &handler.OwnedGroups{AutoScaling: all, Updates: all, Installation: e.RequiredVariable("INSTALLATION")}
	templates, profiles := launchtemplate.NewTemplates(e.AWSConfig()), instanceprofile.NewProfiles(e.AWSConfig())
	h := &nodegroupupgrade.Handler{
		State: e.StateTable(), ECS: ecs, Hosts: ecs, Auto: groups, Updates: groups, Templates: templates,
		Maker:      &handler.OwnedMaker{Owned: groups, GroupMaker: maker{all, templates, profiles}},
		Parameters: parameter.NewStore(e.AWSConfig()),
		Clock:      environment.Clock{}, Settings: settings, Log: e.Log,
		Decoder: e.EventDecoder(), Telemetry: &handler.Telemetry{},
	}
	e.StartFunction(&eventsource.Function{Messages: h.HandleMessages, Schedule: h.RunSchedule}, h.Telemetry)
}
