package cluster

import "time"

// LoadWindow is how often reported loads may change a cluster's placement (P10). Reports are stored
// until the window ends in which they arrived.
const LoadWindow = 10 * time.Second

// MaxReports is how many tasks may report in one call.
const MaxReports = 100

// LoadReport is the load that a task reports of itself, per metric.
type LoadReport struct {
	Task  string           `json:"task"` // id
	Loads map[string]int64 `json:"loads"`
}
