package awsjson

import (
	"encoding/json"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// subjectOf returns what a request is about, for the log: cluster, then resource, such as
// "prod/web". It reads only members that hold names and ids, so that no secret is ever logged. A
// request that names nothing is about the cluster "default".
func subjectOf(body []byte) string {
	var in map[string]json.RawMessage
	if json.Unmarshal(body, &in) != nil {
		return ""
	}
	var names []string
	for _, member := range subjects {
		names = append(names, namesIn(in[member])...)
	}
	if len(names) == 0 {
		return cluster.DefaultName
	}
	const most = 5
	if len(names) > most {
		names = append(slices.Clip(names[:most]), "...")
	}
	return strings.Join(names, "/")
}

// subjects are the members that name a resource, in the order in which they are logged.
var subjects = []string{
	"cluster", "clusterName", "service", "serviceName", "family", "taskDefinition", "taskDefinitions", "taskSet",
	"primaryTaskSet", "task", "tasks",
	"containerInstance", "containerInstances", "capacityProvider", "name", "resourceArn", "serviceDeploymentArn",
}

// maxSubject is how much of one name is logged. ARNs are shorter.
const maxSubject = 300

// namesIn returns a name, or the names of a list.
func namesIn(value json.RawMessage) []string {
	var one string
	var many []string
	if json.Unmarshal(value, &one) == nil && one != "" {
		many = []string{one}
	} else if json.Unmarshal(value, &many) != nil {
		return nil
	}
	for i, name := range many {
		many[i] = name[:min(len(name), maxSubject)]
	}
	return many
}
