package service

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"berth/shared/cluster"
)

// maxMessage bounds a service event, in bytes: a hundred task ids or so.
const maxMessage = 4096

// SteadyStateMessage is the event of a service whose tasks are all RUNNING, in ECS's words as are all that follow (S12).
func SteadyStateMessage(name string) string { return event(name, "has reached a steady state.") }

// TasksStartedMessage is the event of tasks started, replaced of them in the place of unhealthy ones. Of very many, the first are
// named and the rest counted.
func TasksStartedMessage(name string, ids []string, replaced int) string {
	text := listed(event(name, fmt.Sprintf("has started %d tasks:", len(ids))), ids)
	if replaced > 0 {
		text += fmt.Sprintf(" Amazon ECS replaced %d tasks due to an unhealthy status.", replaced)
	}
	return text
}

// TasksStoppedMessage is the event of RUNNING tasks stopped, named as in [Started].
func TasksStoppedMessage(name string, ids []string) string {
	return listed(event(name, fmt.Sprintf("has stopped %d running tasks:", len(ids))), ids)
}

// PendingTasksStoppedMessage is the event of n tasks stopped before they were RUNNING.
func PendingTasksStoppedMessage(name string, n int) string {
	return event(name, fmt.Sprintf("stopped %d pending tasks.", n))
}

// DeploymentCompletedMessage is the event of a deployment that has reached its desired count.
func DeploymentCompletedMessage(name, deployment string) string {
	return event(name, "(deployment "+deployment+") deployment completed.")
}

// DeploymentFailedMessage is the event of a deployment that has failed, and why.
func DeploymentFailedMessage(name, deployment, why string) string {
	return event(name, "(deployment "+deployment+") deployment failed: "+why+".")
}

// RollingBackMessage is the event of a service that goes back to an earlier deployment.
func RollingBackMessage(name, deployment string) string {
	return event(name, "rolling back to deployment "+deployment+".")
}

// StartsImpairedMessage is the event of a service whose starts are slowed down (S7).
func StartsImpairedMessage(name string) string {
	return event(name, "is unable to consistently start tasks successfully.")
}

// MissingAlarmsMessage is the event of a deployment whose alarms are not all there: beyond ECS, which says nothing.
func MissingAlarmsMessage(name, deployment string, alarms []string) string {
	return bounded(event(name, "(deployment "+deployment+") has alarms that do not exist: "+strings.Join(alarms, ", ")+"."))
}

// DeploymentStuckMessage is the event of a deployment whose percentages leave it no step to take.
func DeploymentStuckMessage(name string) string {
	return event(name, "was unable to stop or start tasks during a deployment because of the service deployment configuration. "+
		"Update the minimumHealthyPercent or maximumPercent value and try again.")
}

// TasksProtectedMessage is the event of n tasks of a deployment that would be stopped if they were not protected.
func TasksProtectedMessage(name, deployment string, n int) string {
	return event(name, fmt.Sprintf("was unable to reach steady state because (taskSet %s) was unable to scale in due to (reason %d tasks under protection)", deployment, n))
}

// TooManyUnhealthyMessage is the event of n tasks that are unhealthy and are not replaced, as most of the cluster looks so.
func TooManyUnhealthyMessage(name string, n int) string {
	return event(name, fmt.Sprintf("is not replacing %d unhealthy tasks, because too many tasks of the cluster look unhealthy at once.", n))
}

// UnhealthyContainerMessage is the event of a task whose container health check fails.
func UnhealthyContainerMessage(name, task string) string {
	return event(name, "(task "+task+") failed container health checks.")
}

// UnhealthyTargetMessage is the event of a task whose target group or Cloud Map service finds it unhealthy.
func UnhealthyTargetMessage(name, task string, r *cluster.Registration) string {
	where := "target-group " + r.ARN
	if r.Registry {
		where = "service-registry " + r.ARN
	}
	return bounded(event(name, fmt.Sprintf("(task %s) (port %d) is unhealthy in (%s) due to (reason %s).", task, r.Port, where, r.Reason)))
}

// TargetsRegisteredMessage and Deregistered are the events of n tasks put into a target group, or taken out of it.
func TargetsRegisteredMessage(name string, n int, targetGroup string) string {
	return event(name, fmt.Sprintf("registered %d targets in (target-group %s)", n, targetGroup))
}

// Deregistered: see [Registered].
func TargetsDeregisteredMessage(name string, n int, targetGroup string) string {
	return event(name, fmt.Sprintf("deregistered %d targets in (target-group %s)", n, targetGroup))
}

// RegistrationFailedMessage is the event of a task that a target group refused.
func RegistrationFailedMessage(name, targetGroup, why string) string {
	return bounded(event(name, fmt.Sprintf("failed to register targets in (target-group %s) with (error %s)", targetGroup, why)))
}

// ConnectionsDrainingMessage is the event of n tasks that get no new connections any more.
func ConnectionsDrainingMessage(name string, n int) string {
	return event(name, fmt.Sprintf("has begun draining connections on %d tasks.", n))
}

// UnableToPlaceMessage is the event of a task that found no instance: ECS's words first, whose closest instance says little,
// then all that Berth knows (P17).
func UnableToPlaceMessage(name string, d *cluster.Diagnosis) string {
	text := "was unable to place a task because no container instance met all of its requirements."
	switch {
	case d.Empty != "":
		text += " Reason: No Container Instances were found in your capacity provider."
	case d.Evaluated == 0:
		text += " Reason: " + cluster.NoInstances
	case d.Closest != "":
		text += " The closest matching (container-instance " + d.Closest + ") " + lacks(d) + "."
	}
	text += " For more information, see the Troubleshooting section of the Amazon ECS Developer Guide."
	if d.Evaluated > 0 {
		text += " " + d.String()
	}
	return bounded(event(name, text))
}

// ProvisioningLimitMessage is the event of tasks that cannot even wait for an instance, as too many of the cluster do (C4).
func ProvisioningLimitMessage(name string) string {
	return event(name, "was unable to place tasks in your cluster because the tasks provisioning capacity limit was exceeded.")
}

// lacks says what is wrong with an instance as ECS does, where it has words for it.
func lacks(d *cluster.Diagnosis) string {
	why := d.Failure()
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

func event(name, text string) string { return "(service " + name + ") " + text }

// listed appends the ids, as many as fit.
func listed(head string, ids []string) string {
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

// bounded cuts what is too long, between characters.
func bounded(s string) string {
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

// Move is one task on its way to another instance.
type Move struct{ Task, From, To, Why string }

// MovingTasksMessage is the event of tasks whose replacement on another instance was started, or that were stopped for it.
func MovingTasksMessage(name string, moves []Move) string {
	entries := make([]string, len(moves))
	for i, m := range moves {
		entries[i] = fmt.Sprintf("%s) (from %s to %s: %s", m.Task, m.From, m.To, m.Why)
	}
	return listed(event(name, fmt.Sprintf("is moving %d tasks:", len(moves))), entries)
}

// CannotMoveMessage is the event of tasks that break a rule where they are, with no moves that would mend it.
func CannotMoveMessage(name, why string) string {
	return bounded(event(name, "has tasks that break a rule where they are, and no moves mend it: "+why+"."))
}
