// Command api is the Lambda function behind the function URL. It serves the ECS API and EKS's node
// groups: services, tasks, capacity providers and node groups itself, the rest through ECS.
package main

import (
	"berth/functions/internal/environment"
	"berth/functions/internal/eventsource"
	"berth/shared/handler/api"
	"berth/shared/wire"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/transport"
)

func main() {
	e := environment.LoadProcess()
	h := api.New(api.Dependencies{
		State: e.StateTable(), ECS: e.ECSClient(), Clock: environment.Clock{},
		Settings: e.HandlerSettings(), Log: e.Log,
	})
	allowed, unverified := e.AccessPolicy()
	server := wire.NewServer(wire.ServerOptions{
		Options: ecsapi.Options{
			Account: e.Account(), ECS: e.ECSForwarder(), Networks: e.Networks(), Logger: e.Log,
			PassableRoles: e.ListVariable("PASSABLE_ROLE_ARNS"), Enforce: true, Access: allowed,
			Resources: ecsapi.Resources{
				Clusters: h.Clusters, Services: h.Services, Deployments: h.Deployments, TaskSets: h.TaskSets,
				Tasks: h.Tasks, TaskProtections: h.TaskProtections, Tags: h.Tags, AccountSettings: h.AccountSettings,
				CapacityProviders: h.CapacityProviders, ClusterProviders: h.ClusterProviders,
			},
		},
		Own: berthapi.Resources{Configurations: h.Configurations, Balances: h.Clusters, Services: h.Services,
			Loads: h.Loads, Rows: h.Rows},
		NodeGroups: h.NodeGroups,
	})
	e.StartFunction(&eventsource.Function{URL: server, WithPrincipal: transport.WithPrincipal,
		UnverifiedCaller: unverified}, nil)
}
