package state

import (
	"time"

	"berth/shared/cluster"
)

// PendingLoad is a report that waits for its window to end; of several in one window the last
// counts, metric by metric.
type PendingLoad struct {
	cluster.Head
	Window time.Time        `json:"w"` // its end
	Owner  string           `json:"o"`
	ID     string           `json:"id"`
	Loads  map[string]int64 `json:"l"`
}

// LoadsBy is the range of pending loads whose window ended at t or earlier.
func LoadsBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixLoad, To: loadSort(t) + "\xff"}
}
