package cluster

import (
	"cmp"
	"strings"
)

// DefaultName is the name of the cluster that a request is about if it names none, as with ECS.
const DefaultName = "default"

// Account says where Berth runs. It makes the ARNs of the ECS and EKS APIs.
type Account struct {
	ID        string // 12 digits
	Region    string
	Partition string // empty: "aws"
}

// ARN returns the ARN of an ECS resource, with kind and names joined by slashes: ARN("task",
// "prod", id).
func (a Account) ARN(kind string, names ...string) string {
	return a.prefix("ecs") + kind + "/" + strings.Join(names, "/")
}

// NodeGroupARN returns the ARN of a node group in the EKS API; id is a UUID.
func (a Account) NodeGroupARN(clusterName, name, id string) string {
	return a.prefix("eks") + "nodegroup/" + clusterName + "/" + name + "/" + id
}

// EKSClusterARN returns the ARN of a cluster in the EKS API.
func (a Account) EKSClusterARN(name string) string { return a.prefix("eks") + "cluster/" + name }

// RootARN returns the ARN of the account's root user.
func (a Account) RootARN() string {
	return "arn:" + cmp.Or(a.Partition, "aws") + ":iam::" + a.ID + ":root"
}

func (a Account) prefix(service string) string {
	return "arn:" + cmp.Or(a.Partition, "aws") + ":" + service + ":" + a.Region + ":" + a.ID + ":"
}

// ResourceARN is a parsed ECS ARN.
type ResourceARN struct {
	Kind    string // cluster, service, task, container-instance, task-definition, capacity-provider …
	Cluster string // empty in the old short form of service, task and container-instance ARNs
	Name    string
	Account string // 12 digits
	Region  string
}

// ParseARN parses an ECS ARN. It returns false for any other text.
func ParseARN(s string) (ResourceARN, bool) {
	parts := strings.SplitN(s, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "ecs" {
		return ResourceARN{}, false
	}
	kind, rest, ok := strings.Cut(parts[5], "/")
	if !ok || kind == "" || rest == "" {
		return ResourceARN{}, false
	}
	a := ResourceARN{Kind: kind, Name: rest, Region: parts[3], Account: parts[4]}
	switch kind {
	case "service", "task", "container-instance":
		if c, name, ok := strings.Cut(rest, "/"); ok {
			a.Cluster, a.Name = c, name
			return a, c != "" && name != "" && !strings.Contains(name, "/")
		}
	case "task-set": // task-set/cluster/service/ecs-svc/digits
		a.Cluster, a.Name, ok = strings.Cut(rest, "/")
		return a, ok && a.Cluster != "" && strings.Count(a.Name, "/") == 2
	case "cluster":
		a.Cluster = rest
		return a, !strings.Contains(rest, "/")
	}
	return a, true
}

// LastPart returns the text after the last slash: the id in an ARN, or the id itself.
func LastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }
