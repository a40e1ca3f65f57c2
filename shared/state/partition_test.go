package state_test

import (
	"fmt"
	"testing"

	"berth/shared/state"
)

// Tasks are spread evenly, and every key leads back to its cluster.
func TestPartitionKeysOfTasks(t *testing.T) {
	counts := map[string]int{}
	const tasks = 16000
	for i := range tasks {
		key := state.TaskKey("prod", "0123456789ab", fmt.Sprintf("%032x", i))
		partition := key.PartitionKey()
		if got := state.ClusterOfPartition(partition); got != "prod" {
			t.Fatalf("partition %s is of cluster %s", partition, got)
		}
		counts[partition]++
	}
	if len(counts) != state.TaskPartitions {
		t.Errorf("%d partition keys, want %d", len(counts), state.TaskPartitions)
	}
	for partition, n := range counts {
		if n < tasks/state.TaskPartitions*8/10 || n > tasks/state.TaskPartitions*12/10 {
			t.Errorf("partition key %s has %d of %d tasks", partition, n, tasks)
		}
	}
}

func TestPartitionKeysOfOtherRows(t *testing.T) {
	for key, want := range map[state.Key]string{
		state.ServiceKey("prod", "web"):                              "prod",
		state.InstanceKey("prod", "i"):                               "prod",
		state.ProviderKey("p"):                                       "#",
		{Cluster: state.Directory, Sort: state.PrefixEntry + "prod"}: "#",
	} {
		if got := key.PartitionKey(); got != want {
			t.Errorf("%v has the partition key %s, want %s", key, got, want)
		}
		if got := state.ClusterOfPartition(want); got != key.Cluster {
			t.Errorf("partition %s is of cluster %s, want %s", want, got, key.Cluster)
		}
	}
}

// A range names the partition keys of all rows that it may have.
func TestRangesOfSpreadRows(t *testing.T) {
	for _, c := range []struct {
		from, to       string
		spread, within bool
	}{
		{"", "\xff", true, false},
		{"task#", "task#\xff", true, true},
		{"task#owner#", "task#owner#\xff", true, true},
		{"alias#x", "alias#x\xff", true, true},
		{"service#", "throttle#\xff", true, false},
		{"service#", "service#\xff", false, false},
		{"taskdef#", "taskdef#\xff", false, false},
		{"target#", "task#", false, false},
		{"task#b", "task#a", false, true},
	} {
		r := state.Range{Cluster: "prod", From: c.from, To: c.to}
		if got := len(r.SpreadPartitions()); got != 0 != c.spread || c.spread && got != state.TaskPartitions {
			t.Errorf("%q to %q has %d partitions of spread rows", c.from, c.to, got)
		}
		if got := r.IsAllSpread(); got != c.within {
			t.Errorf("%q to %q has only spread rows: %v, want %v", c.from, c.to, got, c.within)
		}
	}
}
