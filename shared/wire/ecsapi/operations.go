package ecsapi

import (
	"log/slog"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/access"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// Resources are the interfaces through which the operations reach the scheduler: one for each kind
// of thing that Berth keeps, or that it must know of after ECS has changed it. Names are plain,
// never ARNs; errors of the API are [cluster.Error].
type Resources struct {
	Clusters          Clusters
	Services          Services
	Deployments       Deployments
	TaskSets          TaskSets
	Tasks             Tasks
	TaskProtections   TaskProtections
	Tags              Tagging
	CapacityProviders CapacityProviders
	ClusterProviders  ClusterProviders
	AccountSettings   AccountSettings
}

// Options are what the operations need.
type Options struct {
	Account   cluster.Account
	Resources Resources
	ECS       Forwarder
	// Networks looks up subnets and security groups; nil where there is no EC2 to ask.
	Networks Networks
	// PassableRoles are the task and execution roles that callers may use, if Enforce is set; any
	// other is an AccessDeniedException. Without the check, every caller of Berth could run tasks
	// with any role that Berth itself may pass. The embedded tier has no roles, so it does not
	// enforce.
	PassableRoles []string
	Enforce       bool
	// Access says who may call which operation, and change which tags; nil lets everyone.
	Access *access.Policy
	// Logger gets a line for each fault that no caller learns of.
	Logger *slog.Logger
}

// How many entries the caches of what never changes at ECS have.
const (
	// mostDefinitions bounds the cache of task definitions, of some kilobytes each.
	mostDefinitions = 1000
	// mostNetworks bounds the cache of subnets and security groups that exist.
	mostNetworks = 10_000
	// mostZones bounds the cache of availability zones, one for each instance.
	mostZones = 10_000
)

// Operations returns the operations of the ECS API that Berth serves, by name. Those on services,
// tasks, deployments, protection and capacity providers are Berth's own. Those on clusters, task
// definitions, container instances, attributes and their tags are forwarded to ECS.
func Operations(o Options) map[string]awsjson.Operation {
	refs, u, r := input.References{Account: o.Account}, upstream{o.ECS, o.Logger}, o.Resources
	passable := roles{o.PassableRoles, o.Enforce}
	view := &definitionView{u, o.Account, r.Clusters}
	definitions := &taskDefinitions{ecs: upstream{view, o.Logger}, roles: passable, clusters: r.Clusters,
		kept: cache[*types.TaskDefinition]{most: mostDefinitions}}
	known := &networks{ec2: o.Networks, log: o.Logger, found: cache[struct{}]{most: mostNetworks}}
	out := refusals()
	for _, operations := range []map[string]awsjson.Operation{
		(&clusterOperations{refs, u, r.Clusters, r.ClusterProviders, r.AccountSettings}).operations(),
		(&definitionOperations{refs, view, passable, r.Clusters}).operations(),
		(&instanceOperations{refs, u, r.Clusters}).operations(),
		(&serviceOperations{refs, r.Services, definitions, known}).operations(),
		(&deploymentOperations{refs, r.Deployments, definitions}).operations(),
		(&taskSetOperations{refs, r.TaskSets, definitions, known}).operations(),
		(&taskOperations{refs, r.Tasks, definitions, &zones{ecs: u, kept: cache[string]{most: mostZones}},
			&taskReports{ecs: u}, known}).operations(),
		(&protectionOperations{refs, r.TaskProtections}).operations(),
		(&providerOperations{refs, r.CapacityProviders}).operations(),
		(&accountOperations{refs, r.AccountSettings}).operations(),
		(&tagOperations{refs, u, r.Tags, r.CapacityProviders, r.Clusters, o.Access}).operations(),
	} {
		maps.Copy(out, operations)
	}
	for name, given := range inCluster {
		out[name] = findClusterFirst(refs, r.Clusters, out[name], given)
	}
	return out
}
