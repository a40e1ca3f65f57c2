package ecsapi

import (
	"log/slog"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// Resources are the things that Berth keeps itself, or that it is told about after ECS has changed
// them. Names are plain, never ARNs; errors of the API are [cluster.Error].
type Resources struct {
	Clusters          Clusters
	Services          Services
	Deployments       Deployments
	Tasks             Tasks
	TaskProtections   TaskProtections
	Tags              Tagging
	CapacityProviders CapacityProviders
	ClusterProviders  ClusterProviders
}

// Options say what the operations of the ECS API stand on.
type Options struct {
	Account   cluster.Account
	Resources Resources
	ECS       Forwarder
	// PassableRoles are the task and execution roles that callers may use, where Enforce is set:
	// any other gives AccessDeniedException. The embedded tier has no roles to give away.
	PassableRoles []string
	Enforce       bool
	// Logger gets one line per change, with the principal, and faults.
	Logger *slog.Logger
}

// How much is kept of what ECS says and never takes back.
const (
	mostDefinitions = 1000
	mostZones       = 10_000
)

// Operations are the operations of the ECS API that are served, by name. Those on services, tasks
// and capacity providers are Berth's own; those on clusters, task definitions, container instances,
// attributes and their tags are checked, passed on to ECS, and made known to [Resources].
func Operations(o Options) map[string]awsjson.Operation {
	refs, u, r := input.References{Account: o.Account}, upstream{o.ECS, o.Logger}, o.Resources
	passable := roles{o.PassableRoles, o.Enforce}
	definitions := &taskDefinitions{ecs: u, roles: passable, kept: cache[*types.TaskDefinition]{most: mostDefinitions}}
	out := map[string]awsjson.Operation{}
	for _, operations := range []map[string]awsjson.Operation{
		(&clusterOperations{refs, u, r.Clusters, r.ClusterProviders}).operations(),
		(&definitionOperations{refs, u, passable, r.Clusters}).operations(),
		(&instanceOperations{refs, u, r.Clusters}).operations(),
		(&serviceOperations{refs, r.Services, definitions}).operations(),
		(&deploymentOperations{refs, r.Deployments, definitions}).operations(),
		(&taskOperations{refs, r.Tasks, definitions, &zones{ecs: u,
			kept: cache[string]{most: mostZones}}}).operations(),
		(&protectionOperations{refs, r.TaskProtections}).operations(),
		(&providerOperations{refs, r.CapacityProviders}).operations(),
		(&tagOperations{refs, u, r.Tags, r.CapacityProviders}).operations(),
	} {
		maps.Copy(out, operations)
	}
	for name, f := range out {
		out[name] = awsjson.LoggedOperation(o.Logger, name, f)
	}
	return out
}
