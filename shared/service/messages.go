package service

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"berth/shared/cluster"
)

// maxMessage bounds a service event, in bytes. It is enough for about a hundred task ids.
const maxMessage = 4096

// SteadyStateMessage says that all tasks of a service are RUNNING. Like all messages here it uses
// ECS's words where ECS has any (S12).
func SteadyStateMessage(name string) string {
	return serviceMessage(name, "has reached a steady state.")
}

// TasksStartedMessage names the tasks that were started; replaced of them replace unhealthy ones.
// If there are very many, it names the first and counts the rest.
func TasksStartedMessage(name string, ids []string, replaced int) string {
	text := withTaskIDs(serviceMessage(name, fmt.Sprintf("has started %d tasks:", len(ids))), ids)
	if replaced > 0 {
		text += fmt.Sprintf(" Amazon ECS replaced %d tasks due to an unhealthy status.", replaced)
	}
	return text
}

// TasksStoppedMessage names RUNNING tasks that were stopped, like [TasksStartedMessage].
func TasksStoppedMessage(name string, ids []string) string {
	return withTaskIDs(serviceMessage(name, fmt.Sprintf("has stopped %d running tasks:", len(ids))), ids)
}

// PendingTasksStoppedMessage counts tasks that were stopped before they were RUNNING.
func PendingTasksStoppedMessage(name string, n int) string {
	return serviceMessage(name, fmt.Sprintf("stopped %d pending tasks.", n))
}

// DeploymentCompletedMessage says that a deployment has all its tasks.
func DeploymentCompletedMessage(name, deployment string) string {
	return serviceMessage(name, "(deployment "+deployment+") deployment completed.")
}

// DeploymentFailedMessage says that a deployment has failed, and why.
func DeploymentFailedMessage(name, deployment, why string) string {
	return serviceMessage(name, "(deployment "+deployment+") deployment failed: "+why+".")
}

// RollingBackMessage says that a service returns to an earlier deployment.
func RollingBackMessage(name, deployment string) string {
	return serviceMessage(name, "rolling back to deployment "+deployment+".")
}

// StartsImpairedMessage says that the starts of a service are slowed down because they keep failing
// (S7).
func StartsImpairedMessage(name string) string {
	return serviceMessage(name, "is unable to consistently start tasks successfully.")
}

// MissingAlarmsMessage names alarms of a deployment that do not exist. ECS has no such event.
func MissingAlarmsMessage(name, deployment string, alarms []string) string {
	return cutToLimit(serviceMessage(name,
		"(deployment "+deployment+") has alarms that do not exist: "+strings.Join(alarms,
			", ")+"."))
}

// DeploymentStuckMessage says that a deployment's percentages allow no step.
func DeploymentStuckMessage(name string) string {
	return serviceMessage(name,
		"was unable to stop or start tasks during a deployment because of the service deployment configuration. "+
			"Update the minimumHealthyPercent or maximumPercent value and try again.")
}

// MaximumTooSmallMessage says that maximumPercent keeps a service from having all its n tasks.
func MaximumTooSmallMessage(name string, n, percent, most int) string {
	return serviceMessage(name, fmt.Sprintf("cannot start all of its %d tasks: maximumPercent %d allows %d. "+
		"Raise maximumPercent.", n, percent, most))
}

// TasksProtectedMessage says that n tasks of a deployment should stop and are protected.
func TasksProtectedMessage(name, deployment string, n int) string {
	return serviceMessage(name,
		fmt.Sprintf("was unable to reach steady state because (taskSet %s) was unable to scale in due to (reason %d "+
			"tasks under protection)", deployment, n))
}

// TooManyUnhealthyMessage says that n unhealthy tasks are not replaced because most of the cluster
// looks unhealthy.
func TooManyUnhealthyMessage(name string, n int) string {
	return serviceMessage(name,
		fmt.Sprintf("is not replacing %d unhealthy tasks, because too many tasks of the cluster appear unhealthy at "+
			"once.", n))
}

// UnhealthyContainerMessage says that a task fails its container health check.
func UnhealthyContainerMessage(name, task string) string {
	return serviceMessage(name, "(task "+task+") failed container health checks.")
}

// UnhealthyTargetMessage says that a target group or Cloud Map service finds a task unhealthy, or a
// Classic Load Balancer its instance.
func UnhealthyTargetMessage(name, task string, r *cluster.Registration) string {
	what, where := fmt.Sprintf("(task %s) (port %d)", task, r.Port), balancerWords(r.ARN)
	if r.Registry {
		where = "service-registry " + r.ARN
	}
	if _, classic := cluster.ClassicName(r.ARN); classic {
		what = "(instance " + r.Address + ")"
	}
	return cutToLimit(serviceMessage(name,
		fmt.Sprintf("%s is unhealthy in (%s) due to (reason %s).", what, where, r.Reason)))
}

// balancerWords names a target group or Classic Load Balancer as ECS's texts do.
func balancerWords(balancer string) string {
	if name, classic := cluster.ClassicName(balancer); classic {
		return "elb " + name
	}
	return "target-group " + balancer
}

// targetWords is what ECS's texts call the members of a target group or Classic Load Balancer.
func targetWords(balancer string) string {
	if _, classic := cluster.ClassicName(balancer); classic {
		return "instances"
	}
	return "targets"
}

// TargetsRegisteredMessage counts tasks that were registered with a target group or Classic Load
// Balancer.
func TargetsRegisteredMessage(name string, n int, balancer string) string {
	return serviceMessage(name,
		fmt.Sprintf("registered %d %s in (%s)", n, targetWords(balancer), balancerWords(balancer)))
}

// TargetsDeregisteredMessage counts tasks that were deregistered from a target group or Classic
// Load Balancer.
func TargetsDeregisteredMessage(name string, n int, balancer string) string {
	return serviceMessage(name,
		fmt.Sprintf("deregistered %d %s in (%s)", n, targetWords(balancer), balancerWords(balancer)))
}

// RegistrationFailedMessage says that a target group or Classic Load Balancer refused a task.
func RegistrationFailedMessage(name, balancer, why string) string {
	return cutToLimit(serviceMessage(name,
		fmt.Sprintf("failed to register %s in (%s) with (error %s)", targetWords(balancer),
			balancerWords(balancer), why)))
}

// ConnectionsDrainingMessage counts tasks that get no new connections any more.
func ConnectionsDrainingMessage(name string, n int) string {
	return serviceMessage(name, fmt.Sprintf("has begun draining connections on %d tasks.", n))
}

// UnableToPlaceMessage says why a task found no instance: first in ECS's words, which name the
// closest instance, then with all that Berth knows (P17).
func UnableToPlaceMessage(name string, d *cluster.Diagnosis) string {
	text := "was unable to place a task because no container instance met all of its requirements."
	switch {
	case d.Empty != "":
		text += " Reason: No Container Instances were found in your capacity provider."
	case d.Evaluated == 0:
		text += " Reason: " + cluster.NoInstances
	case d.Closest != "":
		text += " The closest matching (container-instance " + d.Closest + ") " + missingResource(d) + "."
	}
	text += " For more information, see the Troubleshooting section of the Amazon ECS Developer Guide."
	if d.Evaluated > 0 {
		text += " " + d.String()
	}
	return cutToLimit(serviceMessage(name, text))
}

// ProvisioningLimitMessage says that tasks cannot even wait for an instance, because too many of
// the cluster do (C4).
func ProvisioningLimitMessage(name string) string {
	return serviceMessage(name,
		"was unable to place tasks in your cluster because the tasks provisioning capacity limit was exceeded.")
}

// UnknownNamesMessage says that names in the service's rules have no effect, because no instance has
// them.
func UnknownNamesMessage(name, unknown string) string {
	return cutToLimit(serviceMessage(name, "has a placement rule without effect: "+unknown+"."))
}

// missingResource says what an instance lacks, as ECS does where it has words for it.
func missingResource(d *cluster.Diagnosis) string {
	why := d.FailureReason()
	switch why {
	case "RESOURCE:CPU":
		return "has insufficient CPU units available"
	case "RESOURCE:MEMORY":
		return "has insufficient memory available"
	case "RESOURCE:PORTS":
		return "is already using a port required by your task"
	case "ATTRIBUTE":
		return "is missing an attribute required by your task"
	}
	return `encountered error "` + why + `"`
}

// serviceMessage starts a message with the name of the service, as ECS does.
func serviceMessage(name, text string) string { return "(service " + name + ") " + text }

// withTaskIDs appends as many ids as fit, and counts the rest.
func withTaskIDs(head string, ids []string) string {
	var b strings.Builder
	b.WriteString(head)
	for i, id := range ids {
		entry := " (task " + id + ")"
		if b.Len()+len(entry)+len(" and 2147483647 more.") > maxMessage {
			fmt.Fprintf(&b, " and %d more", len(ids)-i)
			break
		}
		b.WriteString(entry)
	}
	return b.String() + "."
}

// cutToLimit cuts a message that is too long, between two characters.
func cutToLimit(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	const more = "…"
	cut := maxMessage - len(more)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Move is one task that moves to another instance.
type Move struct{ Task, From, To, Why string }

// MovingTasksMessage names tasks whose replacement on another instance was started, or that were
// stopped for it.
func MovingTasksMessage(name string, moves []Move) string {
	entries := make([]string, len(moves))
	for i, m := range moves {
		entries[i] = fmt.Sprintf("%s) (from %s to %s: %s", m.Task, m.From, m.To, m.Why)
	}
	return withTaskIDs(serviceMessage(name, fmt.Sprintf("is moving %d tasks:", len(moves))), entries)
}

// CannotMoveMessage says that tasks violate a rule where they are, and that no moves repair it.
func CannotMoveMessage(name, why string) string {
	return cutToLimit(serviceMessage(name,
		"has tasks that violate a placement rule, and no set of moves fixes it: "+why+"."))
}
