package cluster

import "time"

// LoadWindow is how often reported loads may change a cluster's placement (P10). Reports are stored
// until the window ends in which they arrived.
const LoadWindow = 10 * time.Second

// MaxReports is how many tasks may report in one call.
const MaxReports = 100

// MaxReportAge is how late a report may come. The last report of each metric is remembered for that
// long, so that an older one never replaces a newer one.
const MaxReportAge = time.Hour

// LoadReport is the load that a task reports of itself, per metric.
type LoadReport struct {
	Task  string           `json:"task"` // id
	Loads map[string]int64 `json:"loads"`
	// At is when it was reported. Zero stands for now.
	At time.Time `json:"-"`
}
