package state

import (
	"hash/fnv"
	"strings"
)

// TaskPartitions is over how many partition keys the tasks of a cluster are spread. DynamoDB allows
// 1,000 write units a second in a partition, and a task takes about five in its life, so one key
// would allow 200 tasks a second; ECS starts 400. Changing the number needs a migration.
const TaskPartitions = 16

// partitionSeparator divides the name of a cluster from the number of a partition. No cluster has it
// in its name.
const partitionSeparator = "#"

const partitionDigits = "0123456789abcdef"

// PartitionKey returns DynamoDB's partition key of a row. Tasks and aliases are spread over
// [TaskPartitions] keys, "prod#0" to "prod#f", by their sort keys. All other rows of a cluster, which
// are few or rarely written, have its name.
func (k Key) PartitionKey() string {
	if !isSpread(k.Sort) {
		return k.Cluster
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Sort))
	n := h.Sum32()
	return k.Cluster + partitionSeparator + string(partitionDigits[(n^n>>16)%TaskPartitions])
}

// isSpread reports whether rows with this sort key are spread over partition keys.
func isSpread(sort string) bool {
	return strings.HasPrefix(sort, PrefixTask) || strings.HasPrefix(sort, PrefixAlias)
}

// ClusterOfPartition returns the cluster, or [Directory], whose rows have the partition key.
func ClusterOfPartition(partition string) string {
	name, _, spread := strings.Cut(partition, partitionSeparator)
	if !spread || name == "" {
		return partition
	}
	return name
}

// SpreadPartitions returns the partition keys of the rows of a range that are spread, nil if none
// are.
func (r Range) SpreadPartitions() []string {
	touches := func(prefix string) bool { return r.From < prefix+"\xff" && prefix < r.To }
	if r.From >= r.To || !touches(PrefixTask) && !touches(PrefixAlias) {
		return nil
	}
	keys := make([]string, TaskPartitions)
	for n := range keys {
		keys[n] = r.Cluster + partitionSeparator + string(partitionDigits[n])
	}
	return keys
}

// IsAllSpread reports whether all rows of the range are spread over partition keys, so that the
// cluster's own partition has none of them.
func (r Range) IsAllSpread() bool {
	within := func(prefix string) bool { return prefix <= r.From && r.To <= prefix+"\xff" }
	return within(PrefixTask) || within(PrefixAlias)
}
