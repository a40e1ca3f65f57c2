package cluster

import "strings"

// Account is where Berth runs: it makes and reads the ARNs of the ECS API.
type Account struct {
	ID        string // 12 digits
	Region    string
	Partition string // "aws" where empty
}

// ARN is the ARN of an ECS resource, kind and names joined by slashes: ARN("task", "prod", id).
func (a Account) ARN(kind string, names ...string) string {
	partition := a.Partition
	if partition == "" {
		partition = "aws"
	}
	return "arn:" + partition + ":ecs:" + a.Region + ":" + a.ID + ":" + kind + "/" + strings.Join(names, "/")
}

// NodeGroupARN is the ARN of a node group in the EKS API; id is a UUID.
func (a Account) NodeGroupARN(clusterName, name, id string) string {
	partition := a.Partition
	if partition == "" {
		partition = "aws"
	}
	return "arn:" + partition + ":eks:" + a.Region + ":" + a.ID + ":nodegroup/" + clusterName + "/" + name + "/" + id
}

// ResourceARN is an ECS ARN taken apart.
type ResourceARN struct {
	Kind    string // cluster, service, task, container-instance, task-definition, capacity-provider …
	Cluster string // empty in the old short form of service, task and container-instance ARNs
	Name    string
}

// ParseARN takes an ECS ARN apart. It fails for anything that is not one.
func ParseARN(s string) (ResourceARN, bool) {
	parts := strings.SplitN(s, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "ecs" {
		return ResourceARN{}, false
	}
	kind, rest, ok := strings.Cut(parts[5], "/")
	if !ok || kind == "" || rest == "" {
		return ResourceARN{}, false
	}
	switch kind {
	case "service", "task", "container-instance":
		if c, name, ok := strings.Cut(rest, "/"); ok {
			return ResourceARN{Kind: kind, Cluster: c, Name: name},
				c != "" && name != "" && !strings.Contains(name, "/")
		}
	case "cluster":
		return ResourceARN{Kind: kind, Cluster: rest, Name: rest}, !strings.Contains(rest, "/")
	}
	return ResourceARN{Kind: kind, Name: rest}, true
}

// LastPart is the text after the last slash: the id in an ARN, or the id itself.
func LastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }
