package cluster

import "time"

// LoadWindow is how often reported loads change a cluster's placement at most (P10): reports are
// gathered until the window they came in ends.
const LoadWindow = 10 * time.Second

// MaxReports is how many tasks report in one call.
const MaxReports = 100

// LoadReport is what one task says of its own load, per metric.
type LoadReport struct {
	Task  string           `json:"task"` // id
	Loads map[string]int64 `json:"loads"`
}

// Key sorts pending loads by window.
