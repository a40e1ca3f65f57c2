package answer

import (
	"encoding/json"
	"slices"
)

// The members that AWS always sends of a container instance (AWS CLI examples).
var (
	instanceLists   = []string{"attachments", "attributes", "registeredResources", "remainingResources", "tags"}
	instanceCounts  = []string{"pendingTasksCount", "runningTasksCount", "version"}
	instanceMembers = slices.Concat(instanceLists, instanceCounts, []string{agentConnected})
)

const agentConnected = "agentConnected"

// Instances completes the container instances in the answer to any operation on them. An answer
// that lacks nothing is returned as it is: 100 instances are hundreds of kilobytes, and to edit
// them takes several times as long as to look at them.
func Instances(body []byte) ([]byte, error) {
	if areInstancesComplete(body) {
		return body, nil
	}
	return Edit(body, func(out Object) error {
		for _, i := range append(out.Objects("containerInstances"), out.Object("containerInstance")) {
			if i != nil {
				completeInstance(i)
			}
		}
		return nil
	})
}

func completeInstance(o Object) {
	o.setEmptyLists(instanceLists...)
	o.setDefault(agentConnected, false)
	for _, count := range instanceCounts {
		o.setDefault(count, json.Number("0"))
	}
}

// areInstancesComplete reports whether no instance in the answer lacks a member.
func areInstancesComplete(body []byte) bool {
	var out struct {
		ContainerInstances []map[string]present
		ContainerInstance  map[string]present
	}
	if json.Unmarshal(body, &out) != nil {
		return false
	}
	instances := out.ContainerInstances
	if out.ContainerInstance != nil {
		instances = append(instances, out.ContainerInstance)
	}
	for _, i := range instances {
		if slices.ContainsFunc(instanceMembers, func(member string) bool { return !bool(i[member]) }) {
			return false
		}
	}
	return true
}

// present is decoded from a member's value: whether there is one. It decodes nothing of it.
type present bool

// UnmarshalJSON implements [json.Unmarshaler].
func (p *present) UnmarshalJSON(value []byte) error {
	*p = string(value) != "null"
	return nil
}
