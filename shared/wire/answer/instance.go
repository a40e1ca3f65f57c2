package answer

import (
	"bytes"
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

// areInstancesComplete reports whether no instance in the answer lacks a member. It looks at keys
// only: decoding an answer takes ten times as long.
func areInstancesComplete(body []byte) bool {
	if len(body) == 0 || body[0] != '{' {
		return false
	}
	depth, sent := 0, 0
	instanceDepth := 0 // of the members of instances; 0 outside of them
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth == instanceDepth {
				sent = 0
			}
		case '}', ']':
			if depth == instanceDepth && sent != 1<<len(instanceMembers)-1 {
				return false
			}
			depth--
		case '"':
			end := textEnd(body, i+1)
			if end+1 >= len(body) {
				return false
			}
			key := body[i+1 : end]
			if i = end; body[end+1] != ':' {
				continue // a value
			}
			switch {
			case depth == 1:
				instanceDepth = instanceDepths[string(key)]
			case depth == instanceDepth && !bytes.HasPrefix(bytes.TrimLeft(body[end+2:], " \t\r\n"), []byte("null")):
				if at := slices.Index(instanceMembers, string(key)); at >= 0 {
					sent |= 1 << at
				}
			}
		}
	}
	return depth == 0
}

// instanceDepths says how deep in an answer the members of instances are, by the member that has
// the instances.
var instanceDepths = map[string]int{"containerInstances": 3, "containerInstance": 2}

// textEnd returns where the text that begins at i ends.
func textEnd(body []byte, i int) int {
	for ; i < len(body) && body[i] != '"'; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}
