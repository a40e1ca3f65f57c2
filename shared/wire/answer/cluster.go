package answer

import (
	"slices"
	"strconv"
	"strings"

	"berth/shared/operation"
)

// A ClusterView is what an answer about a cluster shows besides ECS's own members. AWS always shows
// lists, but only as empty ones unless the caller asks for them.
type ClusterView struct {
	Counts operation.ClusterCounts
	// Attached has the members that capacity providers contribute, in the API's shape.
	Attached Object
	// Include has the fields that the caller asked for: SETTINGS, STATISTICS, TAGS, ATTACHMENTS and
	// CONFIGURATIONS.
	Include []string
}

// Cluster completes a cluster. The counts of services and tasks are Berth's: ECS knows of no
// service of Berth's, and of no task that still waits for an instance.
func Cluster(o Object, view *ClusterView) {
	asked := func(field string) bool { return slices.Contains(view.Include, field) }
	n := &view.Counts
	o["activeServicesCount"] = n.EC2.ActiveServices + n.External.ActiveServices
	o["runningTasksCount"] = n.EC2.Running + n.External.Running
	o["pendingTasksCount"] = n.EC2.Pending + n.External.Pending
	o.setDefault("registeredContainerInstancesCount", 0)
	o["statistics"] = []any{}
	if asked("STATISTICS") {
		o["statistics"] = statistics(n)
	}
	if settings, _ := o["settings"].([]any); asked("SETTINGS") && len(settings) == 0 {
		o["settings"] = []any{map[string]any{"name": "containerInsights", "value": "disabled"}}
	}
	for member, v := range view.Attached {
		if !strings.HasPrefix(member, "attachments") || asked("ATTACHMENTS") {
			o[member] = v
		}
	}
	o.setEmptyLists("settings", "tags", "capacityProviders", "defaultCapacityProviderStrategy")
}

// statistics returns the statistics of a cluster by launch type, in AWS's names and order. Berth
// starts nothing on Fargate and has no Managed Instances, so their counts are 0.
func statistics(n *operation.ClusterCounts) (out []any) {
	add := func(name string, value int) {
		out = append(out, map[string]any{"name": name, "value": strconv.Itoa(value)})
	}
	add("runningEC2TasksCount", n.EC2.Running)
	add("runningFargateTasksCount", 0)
	add("pendingEC2TasksCount", n.EC2.Pending)
	add("pendingFargateTasksCount", 0)
	add("runningExternalTasksCount", n.External.Running)
	add("pendingExternalTasksCount", n.External.Pending)
	add("runningManagedInstancesTasksCount", 0)
	add("pendingManagedInstancesTasksCount", 0)
	add("activeEC2ServiceCount", n.EC2.ActiveServices)
	add("activeFargateServiceCount", 0)
	add("drainingEC2ServiceCount", n.EC2.DrainingServices)
	add("drainingFargateServiceCount", 0)
	add("activeExternalServiceCount", n.External.ActiveServices)
	add("drainingExternalServiceCount", n.External.DrainingServices)
	add("activeManagedInstancesServiceCount", 0)
	add("drainingManagedInstancesServiceCount", 0)
	return out
}
