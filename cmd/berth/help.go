package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

const description = `Berth is an event-driven scheduler for containers on your own machines. It speaks the Amazon ECS API.

Examples:
  berth up                                  6 simulated instances in 3 zones, state in .berth
  berth up --ephemeral --nodes 100 --seed 7 nothing on disk, and chance repeats with the seed
  berth replay --compress 20000             the shipped trace, with tasks arriving 20,000 times faster
  berth replay --json | jq .stateHash
  berth pack --tasks gpuspec33              how full GPUs get, and how fast
  berth whatif --service web --count 3      where three more tasks would go, and why
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --dry-run   what an update of the nodes would do`

// details are the long help texts, by command: what flags cannot say, the names in the JSON, and
// examples.
var details = map[string]string{
	"up": `Examples:
  berth up                                      6 instances in 3 zones, state in .berth
  berth up --listen 127.0.0.1:0                 on a free port, which the last line names
  berth up --nodes 40 --zones 4 --type c5.large --data /tmp/big
  berth up --ephemeral                          keeps nothing

Started again on the same data, Berth continues where it stopped. The simulated tasks have kept running meanwhile.
The same address serves EKS's node groups, and the simulated fleet's Auto Scaling, launch templates, CloudWatch, target groups
and Cloud Map (see berth fleet --help): export AWS_ENDPOINT_URL=http://127.0.0.1:5252
Ctrl-C stops it.`,

	"fleet": `The fleet speaks ECS's protocol; Berth's functions find it by AWS_ENDPOINT_URL_ECS. It reports task and instance state
changes to EventBridge at AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_EVENTBRIDGE). The events have the source in --source, because
only AWS may send events of aws.ecs.

The fleet also has Auto Scaling groups (AWS_ENDPOINT_URL_AUTO_SCALING), launch templates (AWS_ENDPOINT_URL_EC2), CloudWatch's
metrics and alarms (AWS_ENDPOINT_URL_CLOUDWATCH), target groups and Cloud Map, as far as Berth needs them. A group's
instances register with the cluster that the launch template's user data names (ECS_CLUSTER=NAME), or else with default.
Subnets are in the Region's zones a, b, c ... in turn. Tags of a group make its launches go wrong:

  berth-fleet:launch-failure=InsufficientInstanceCapacity              they fail with this EC2 error code
  berth-fleet:launch-failure=InsufficientInstanceCapacity@us-east-1a   they fail in this zone
  berth-fleet:launch-seconds=300               they take this much longer
  berth-fleet:launch-zone=us-east-1f           they land in a zone that the group does not have
  berth-fleet:launched-machines=never-register or never-healthy (the agent stays disconnected)

berth up serves all of this as well, on its one endpoint.

Examples:
  AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test berth fleet
  berth fleet --nodes 40 --zones 4 --type c5.large --speed 10
  curl -X DELETE http://127.0.0.1:5253/fleet/instances/ID               # terminate a machine
  curl -H 'Content-Type: application/json' -d '{"exitCode": 1}' http://127.0.0.1:5253/fleet/tasks/ID/exit
  curl -H 'Content-Type: application/json' -d '{"count": 2}' http://127.0.0.1:5253/fleet/instances

Ctrl-C stops it.`,

	"replay": `Examples:
  berth replay                                              149 days of a production cluster
  berth replay --compress 100000 --every-nth-node 2         more tasks than half of its nodes can hold
  berth replay --nodes nodes.csv --tasks tasks.csv --json   your own recording
  berth replay --compress 20000 --scale both                what consolidation saves`,

	"import": `Node types with their properties and capacities, the node buffer, overbooking, thresholds and constraint priorities become the
cluster's configuration, which is replaced as a whole. A cluster that does not exist is created. An instance is a node if the
attribute berth.property.NodeName, its own id or its EC2 id is the node's name. It gets the node's type and its fault and
upgrade domain as attributes.

Examples:
  berth import ClusterManifest.xml --dry-run
  berth import ClusterConfig.json --cluster prod --register --cpu 2048 --memory 8192`,

	"pack": `Each task arrives once, in random order; after that, tasks are drawn at random until they have asked for 130 % of the GPUs.
No task ends. The result is how many GPUs were allocated when the tasks had asked for 100 %, and at the end.

Examples:
  berth pack                                            the shipped trace, 10 seeds
  berth pack --tasks gpuspec33 --strategy best-fit      for comparison
  berth pack --nodes nodes.csv --tasks tasks.csv --json your own lists`,

	"whatif": `Without tasks and --moves, it only saves. Constraints are added to those of the service or definition. A strategy, policy, metric, scoring or node constraint replaces
theirs.

Exit code: 0 if all tasks would find an instance, 3 if some would not, 1 for a failure, 2 for bad flags.

JSON: tasks, count, placed [instance, gpus], unplaced, explanation (of the first: diagnosis, best, runnerUp [instance, key
[name, value, text]], decidedBy, notKept, text), diagnosis (of the unplaced: evaluated, feasible, unplaced, rejected [filter,
count, need, best, detail], closestInstance, text), instance (instance, chosen, feasible, refused, key, text), moves (underWay,
planned [task, service, from, to, via, mode, cost, after, why], violations, unrepaired, exact, room [moves, places, exact,
automatic]).

Examples:
  berth whatif --service web --count 3
  berth whatif --cpu 512 --memory 1024 --port 80/tcp --instance 4f6a0b91c2d34e5f8a7b6c5d4e3f2a1b
  berth whatif --task-definition web:7 --member-of 'attribute:disk == ssd' --strategy binpack:memory
  berth whatif --save now.jsonl; berth whatif --snapshot now.jsonl --service web --moves
  berth whatif --trace --gpus 1 --cpu 4096 --memory 8192 --count 100 --json`,

	"upgrade": `Replaces the nodes of a node group by new ones, like UpdateNodegroupVersion of the EKS API, and reports for each node what is
being done and what it waits for. Without flags it follows the update in progress and starts none.

Ctrl-C stops only the report: the update continues. Exit code: 0 if it is Successful, 1 if it has Failed (each error is
printed with its code and resources) or cannot start, 2 for bad flags, 130 for Ctrl-C. With --dry-run 3 if something would
make the update fail, else 0.

JSON: id, nodegroup, status, phase, waiting, desiredCapacity, old, replaced, nodes [instanceId, availabilityZone, lifecycleState, old,
step, since], errors [errorCode, errorMessage, resourceIds]. With --dry-run: nodegroup, autoScalingGroup, params [type, value],
strategy, maxUnavailable, surge, sizes, nodes [instanceId, instance, availabilityZone, upgradeDomain, turn, tasks, stays], noRoom
[turn, why], upToDate, refused.

Examples:
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --dry-run
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --max-unavailable 20%
  berth upgrade workers --launch-template-version 7 --force
  berth upgrade workers                                       follow the update in progress`,

	"consolidate": `Switches consolidation on for a capacity provider (its tag berth:consolidation) and shows what it will do. Consolidation drains
instances whose tasks fit on other instances in use, the cheapest first, and terminates them. It respects the services'
percentages and the disruption budget: berth:consolidation-percent of the group in berth:consolidation-window. It stays on
until --off. Each instance is listed with where its tasks would go, or why it stays.

JSON: capacityProviders [capacityProvider, autoScalingGroup, enabled, managedScaling, why, percent, window, instances [instance,
ec2InstanceId, cost, fits, drain, moves [task, service, to], why], draining].

Examples:
  berth consolidate --dry-run
  berth consolidate spot
  berth consolidate spot --off`,

	"explain": `Examples:
  berth explain service web
  berth explain task 0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b
  berth explain instance i-0b9d6f2f5c1e4a7d9
  berth explain service web --snapshot now.jsonl --json   about a cluster that berth whatif --save saved`,

	"explain task": `Places the task once more as if it were not there, and compares the result with the instance that it is on. It changes nothing.

JSON: task, service, taskDefinition, status, reason, instance, gpus, foreign, explanation and here (as in berth whatif),
replaces, replacedBy, move.

Examples:
  berth explain task 0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b
  berth explain task arn:aws:ecs:us-east-1:123456789012:task/default/0b9d6f2f5c1e4a7d9c8b7a6f5e4d3c2b --json`,

	"explain service": `Shows what placement found when it last tried and what it would find now, what managed scaling decides about the capacity
providers that the tasks wait for, the moves in progress and planned, and the broken rules that no moves can repair. It
changes nothing.

JSON: service, schedulingStrategy, status, taskDefinition, desiredCount, runningCount, pendingCount, missingCount, instances
[instance, tasks], decided (a diagnosis), now (as in berth whatif), managedScaling [capacityProvider, autoScalingGroup,
currentCapacity, desiredCapacity, why, demands], failed, heldUntil, moving, underWay, planned, unrepaired,
unrepairedNow.

Examples:
  berth explain service web
  berth explain service web --cluster prod --json`,

	"explain cluster": `Shows capacity, load and what is left of each metric, with and without the node buffer, whether the metric is balanced by its
thresholds, and the instances that the rules allow no service to use. It changes nothing.

JSON: instances, metrics [name, capacity, capacityWithoutBuffer, load, remaining, remainingWithoutBuffer, violated, emptiest,
fullest, balancingThreshold, activityThreshold, balanced], unused [instance, why]; a capacity without limit is left out.

Examples:
  berth explain cluster
  berth explain cluster --cluster prod --json`,

	"explain instance": `Shows the instance's tasks and what is free; whether it is draining, protected or being upgraded; why managed scaling does not
terminate it and what consolidation would do with it; and for each service, why its next task would not go there. About a
cluster in a file, only tasks and services are known. It changes nothing.

JSON: instance, ec2InstanceId, status, agentConnected, availabilityZone, capacityProvider, unschedulable, resources [name, total,
free], tasks [task, service, status, daemon, foreign, protectedUntil], excluded [service, refused, text], managedScaling
(capacityProvider, autoScalingGroup, lifecycleState, protectedFromScaleIn, why, consolidation), update (nodegroup, id, phase,
step, since, waiting).

Examples:
  berth explain instance 4f6a0b91c2d34e5f8a7b6c5d4e3f2a1b
  berth explain instance i-0b9d6f2f5c1e4a7d9 --cluster prod --json`,

	"rollback": `Stops the deployment in progress (StopServiceDeployment). If the service's deployment has ended, nothing changes: update the
service to the task definition that it should have.

JSON: serviceDeploymentArn, stopType.

Examples:
  berth rollback web
  berth rollback web --cluster prod --abort --json`,

	"throttle": `After tasks that stop without ever having been RUNNING, the next start of their revision waits: 1 minute, then 3, 9, and at most
27. A new deployment starts without a wait, and a task that reaches RUNNING ends it. It changes nothing.

JSON: service, revisions [deploymentId, status (PRIMARY, ACTIVE), taskDefinition, step, failures, since, nextAttemptAt, reason].

Examples:
  berth throttle web
  berth throttle web --cluster prod --json`,
}

// addDetails gives each command its long help text.
func addDetails(parser *kong.Kong) error {
	var add func(n *kong.Node, path string)
	add = func(n *kong.Node, path string) {
		n.Detail = details[path]
		for _, child := range n.Children {
			add(child, strings.TrimSpace(path+" "+child.Name))
		}
	}
	add(parser.Model.Node, "")
	return nil
}
