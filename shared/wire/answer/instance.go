package answer

import "encoding/json"

// Instance completes a container instance (AWS CLI examples).
func Instance(o Object) {
	o.setEmptyLists("attachments", "attributes", "registeredResources", "remainingResources", "tags")
	o.setDefault("agentConnected", false)
	for _, count := range []string{"pendingTasksCount", "runningTasksCount", "version"} {
		o.setDefault(count, json.Number("0"))
	}
}
