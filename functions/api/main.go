// Command api is the Lambda function behind the function URL: the ECS API, and of the EKS API what concerns node groups.
// Services, tasks, capacity providers and node groups are Berth's own; all else is passed on to ECS.
package main

import (
	"crypto/rand"
	"encoding/hex"

	"berth/functions/internal/environment"
	"berth/shared/awsapi/eventsource"
	"berth/shared/handler/api"
	"berth/shared/wire"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/transport"
)

func main() {
	e := environment.Load()
	h := &api.Handler{
		State: e.State(), ECS: e.ECS(), Clock: environment.Clock{}, Settings: e.Settings(), Log: e.Log, NewID: newID,
	}
	server := wire.NewServer(wire.ServerOptions{
		Options: ecsapi.Options{
			Account: e.Account(), ECS: e.Forwarder(), Logger: e.Log, PassableRoles: e.List("PASSABLE_ROLE_ARNS"), Enforce: true,
			Resources: ecsapi.Resources{
				Clusters: h, Services: h, Deployments: h, Tasks: h, TaskProtections: h, Tags: h, CapacityProviders: h, ClusterProviders: h,
			},
		},
		Own:        berthapi.Resources{Configurations: h, Services: h, Loads: h, Rows: h},
		NodeGroups: &api.NodeGroups{Handler: h},
	})
	e.Start(&eventsource.Function{URL: server, WithPrincipal: transport.WithPrincipal}, nil)
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}
