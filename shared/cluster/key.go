package cluster

import (
	"fmt"
	"time"
)

// KeyOf returns the key of a row. It panics for a type that is no row, which only a mistake in this program can cause.
func KeyOf(row Row) Key {
	switch r := row.(type) {
	case *ScalingHistory:
		return ScalingHistoryKey(r.Cluster, r.Provider)
	case *Update:
		return UpdateKey(r.Cluster, r.NodeGroup, r.ID)
	case *Meta:
		return Key{r.Cluster, PrefixMeta}
	case *Entry:
		return Key{Directory, PrefixEntry + r.Name}
	case *Instance:
		return InstanceKey(r.Cluster, r.ID)
	case *Service:
		return ServiceKey(r.Cluster, r.Name)
	case *Task:
		return TaskKey(r.Cluster, r.Owner, r.ID)
	case *Alias:
		return AliasKey(r.Cluster, r.Derived)
	case *Outbox:
		return Key{r.Cluster, PrefixOutbox + r.ID}
	case *Request:
		return RequestKey(r.Cluster, r.ID)
	case *Checkpoint:
		return Key{r.Cluster, PrefixCheckpoint}
	case *Bucket:
		return Key{Directory, PrefixBucket + r.Name}
	case *CapacityProvider:
		return ProviderKey(r.Name)
	case *ClusterProviders:
		return ClusterProvidersKey(r.Cluster)
	case *ServiceDeployment:
		return Key{r.Cluster, PrefixDeployment + r.Short + "#" + r.ID}
	case *ServiceRevision:
		return Key{r.Cluster, PrefixRevision + r.Short + "#" + r.Digits()}
	case *GroupUse:
		return GroupUseKey(r.Group)
	case *PendingLoad:
		return Key{r.Cluster, loadSort(r.Window) + "#" + r.Owner + "#" + r.ID}
	case *NodeGroup:
		return NodeGroupKey(r.Cluster, r.Name)
	case *TaskDefinition:
		return TaskDefinitionKey(r.Cluster, r.Name())
	case *ServiceEvent:
		return Key{r.Cluster, fmt.Sprintf("%s%s#%02d", PrefixEvent, r.Service, r.Slot)}
	case *Due:
		return Key{r.Cluster, DueSort(r.At) + "#" + string(r.Kind) + "#" + r.Subject}
	case *Configuration:
		return Key{r.Cluster, PrefixConfiguration}
	case *Target:
		return TargetKey(r.Cluster, r.Owner, r.Task)
	case *Protection:
		return ProtectionKey(r.Cluster, r.Owner, r.Task)
	case *Throttle:
		return ThrottleKey(r.Cluster, r.Owner)
	case *AlarmWatch:
		return AlarmWatchKey(r.Cluster, r.Owner)
	}
	panic(fmt.Sprintf("%T is no kind of row", row))
}

func ProviderKey(name string) Key { return Key{Directory, PrefixProvider + name} }

func ClusterProvidersKey(cluster string) Key { return Key{cluster, PrefixProviders} }

func ScalingHistoryKey(cluster, name string) Key { return Key{cluster, PrefixScaling + name} }

func GroupUseKey(group string) Key { return Key{Directory, PrefixGroupUse + group} }

func loadSort(t time.Time) string { return PrefixLoad + t.UTC().Format("2006-01-02T15:04:05Z") }

func NodeGroupKey(cluster, name string) Key { return Key{cluster, PrefixNodeGroup + name} }

func UpdateKey(cluster, nodeGroup, id string) Key {
	return Key{cluster, PrefixUpdate + nodeGroup + "#" + id}
}

func InstanceKey(cluster, id string) Key { return Key{cluster, PrefixInstance + id} }

func ServiceKey(cluster, name string) Key { return Key{cluster, PrefixService + name} }

func TaskKey(cluster, owner, id string) Key { return Key{cluster, PrefixTask + owner + "#" + id} }

func AliasKey(cluster, derived string) Key { return Key{cluster, PrefixAlias + derived} }

func TaskDefinitionKey(cluster, name string) Key { return Key{cluster, PrefixDefinition + name} }

func RequestKey(cluster, id string) Key { return Key{cluster, PrefixRequest + id} }

func DueSort(t time.Time) string {
	return PrefixDue + t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func TargetKey(cluster, owner, id string) Key {
	return Key{cluster, PrefixTarget + owner + "#" + id}
}

func ProtectionKey(cluster, owner, id string) Key {
	return Key{cluster, PrefixProtection + owner + "#" + id}
}

func ThrottleKey(cluster, owner string) Key { return Key{cluster, PrefixThrottle + owner} }

func AlarmWatchKey(cluster, owner string) Key { return Key{cluster, PrefixAlarms + owner} }
