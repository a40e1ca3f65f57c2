package state

import (
	"fmt"
	"time"

	"berth/shared/cluster"
)

// KeyOf returns the key of a row. It panics for a type that is not a row, which can only be a bug.
func KeyOf(row Row) Key {
	switch r := row.(type) {
	case *cluster.ScalingHistory:
		return ScalingHistoryKey(r.Cluster, r.Provider)
	case *cluster.Update:
		return UpdateKey(r.Cluster, r.NodeGroup, r.ID)
	case *Meta:
		return Key{r.Cluster, PrefixMeta}
	case *Entry:
		return Key{Directory, PrefixEntry + r.Name}
	case *cluster.Instance:
		return InstanceKey(r.Cluster, r.ID)
	case *cluster.Service:
		return ServiceKey(r.Cluster, r.Name)
	case *cluster.Task:
		return TaskKey(r.Cluster, r.Owner, r.ID)
	case *Alias:
		return AliasKey(r.Cluster, r.Derived)
	case *Outbox:
		return Key{r.Cluster, PrefixOutbox + r.ID}
	case *Inbox:
		return Key{r.Cluster, PrefixInbox + r.ID}
	case *Request:
		return RequestKey(r.Cluster, r.ID)
	case *Checkpoint:
		return Key{r.Cluster, PrefixCheckpoint}
	case *ChangeSet:
		return ChangeSetKey(r.Cluster, r.Batch)
	case *Bucket:
		return Key{Directory, PrefixBucket + r.Name}
	case *AccountSettings:
		return Key{Directory, PrefixSettings}
	case *Deregistration:
		return DeregistrationKey(r.Name())
	case *cluster.CapacityProvider:
		return ProviderKey(r.Name)
	case *cluster.ClusterProviders:
		return ClusterProvidersKey(r.Cluster)
	case *cluster.ServiceDeployment:
		return Key{r.Cluster, PrefixDeployment + r.Short + "#" + r.ID}
	case *cluster.ServiceRevision:
		return Key{r.Cluster, PrefixRevision + r.Short + "#" + r.IDDigits()}
	case *GroupUse:
		return GroupUseKey(r.Group)
	case *PendingLoad:
		return Key{r.Cluster, loadSort(r.Window) + "#" + r.Owner + "#" + r.ID}
	case *LoadTimes:
		return LoadTimesKey(r.Cluster, r.Owner, r.ID)
	case *cluster.NodeGroup:
		return NodeGroupKey(r.Cluster, r.Name)
	case *cluster.TaskDefinition:
		return TaskDefinitionKey(r.Cluster, r.Name())
	case *cluster.ServiceEvent:
		return Key{r.Cluster, fmt.Sprintf("%s%s#%02d", PrefixEvent, r.Service, r.Slot)}
	case *Due:
		return Key{r.Cluster, DueSort(r.At) + "#" + string(r.Kind) + "#" + r.Subject}
	case *cluster.Configuration:
		return Key{r.Cluster, PrefixConfiguration}
	case *cluster.Target:
		return TargetKey(r.Cluster, r.Owner, r.Task)
	case *cluster.Protection:
		return ProtectionKey(r.Cluster, r.Owner, r.Task)
	case *cluster.Throttle:
		return ThrottleKey(r.Cluster, r.Owner)
	case *cluster.AlarmWatch:
		return AlarmWatchKey(r.Cluster, r.Owner)
	}
	panic(fmt.Sprintf("%T is no kind of row", row))
}

// ProviderKey names a capacity provider. These belong to no cluster.
func ProviderKey(name string) Key { return Key{Directory, PrefixProvider + name} }

// ClusterProvidersKey names the row with a cluster's capacity providers and default strategy.
func ClusterProvidersKey(cluster string) Key { return Key{cluster, PrefixProviders} }

// ScalingHistoryKey names what managed scaling remembers of a capacity provider in a cluster.
func ScalingHistoryKey(cluster, name string) Key { return Key{cluster, PrefixScaling + name} }

// GroupUseKey names the row that says who uses an Auto Scaling group.
func GroupUseKey(group string) Key { return Key{Directory, PrefixGroupUse + group} }

// LoadTimesKey names the row that says when a task last reported its loads.
func LoadTimesKey(cluster, owner, id string) Key {
	return Key{cluster, PrefixLoadTimes + owner + "#" + id}
}

func loadSort(t time.Time) string { return PrefixLoad + t.UTC().Format("2006-01-02T15:04:05Z") }

// NodeGroupKey names a node group.
func NodeGroupKey(cluster, name string) Key { return Key{cluster, PrefixNodeGroup + name} }

// UpdateKey names one update of a node group.
func UpdateKey(cluster, nodeGroup, id string) Key {
	return Key{cluster, PrefixUpdate + nodeGroup + "#" + id}
}

// InstanceKey names a container instance.
func InstanceKey(cluster, id string) Key { return Key{cluster, PrefixInstance + id} }

// ServiceKey names a service.
func ServiceKey(cluster, name string) Key { return Key{cluster, PrefixService + name} }

// TaskKey names a task. Owner is the short key of its service, or of the cluster for a standalone
// task.
func TaskKey(cluster, owner, id string) Key { return Key{cluster, PrefixTask + owner + "#" + id} }

// AliasKey names the alias of a derived task id or of an EC2 instance id.
func AliasKey(cluster, derived string) Key { return Key{cluster, PrefixAlias + derived} }

// TaskDefinitionKey names the cached copy of a task definition; name is family:revision.
func TaskDefinitionKey(cluster, name string) Key { return Key{cluster, PrefixDefinition + name} }

// DeregistrationKey names the row of a revision that was deregistered through Berth; name is
// family:revision.
func DeregistrationKey(name string) Key { return Key{Directory, PrefixDeregistration + name} }

// RequestKey names a RunTask or StartTask request.
func RequestKey(cluster, id string) Key { return Key{cluster, PrefixRequest + id} }

// DueSort returns the sort key below which all rows due at t or earlier lie. Times sort as text.
func DueSort(t time.Time) string {
	return PrefixDue + t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// TargetKey names the row with a task's registrations.
func TargetKey(cluster, owner, id string) Key {
	return Key{cluster, PrefixTarget + owner + "#" + id}
}

// ProtectionKey names a task's scale-in protection.
func ProtectionKey(cluster, owner, id string) Key {
	return Key{cluster, PrefixProtection + owner + "#" + id}
}

// ThrottleKey names a service's throttle.
func ThrottleKey(cluster, owner string) Key { return Key{cluster, PrefixThrottle + owner} }

// AlarmWatchKey names the row with the states of a service's deployment alarms.
func AlarmWatchKey(cluster, owner string) Key { return Key{cluster, PrefixAlarms + owner} }
