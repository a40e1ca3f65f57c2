package cluster

import "time"

// LoadWindow is how often reported loads change a cluster's placement at most (P10): reports are gathered until the
// window they came in ends.
const LoadWindow = 10 * time.Second

// MaxReports is how many tasks report in one call.
const MaxReports = 100

// LoadReport is what one task says of its own load, per metric.
type LoadReport struct {
	Task  string           `json:"task"` // id
	Loads map[string]int64 `json:"loads"`
}

// PendingLoad is a report that waits for its window to end; of several in one window the last counts, metric by metric.
type PendingLoad struct {
	Head
	Window time.Time        `json:"w"` // its end
	Owner  string           `json:"o"`
	ID     string           `json:"id"`
	Loads  map[string]int64 `json:"l"`
}

// Key sorts pending loads by window.

// LoadsBy is the range of pending loads whose window ended at t or earlier.
func LoadsBy(cluster string, t time.Time) Range {
	return Range{Cluster: cluster, From: PrefixLoad, To: loadSort(t) + "\xff"}
}
