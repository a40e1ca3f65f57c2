package cluster

import (
	"maps"
	"math"
	"time"
)

// A Limit is how much load of a metric an instance takes (P12, P13), or math.MaxInt64 for no limit.
type Limit struct {
	Unbuffered int64 // without node buffer and overbooking
	Total      int64
}

// Unlimited is the limit of a metric without capacity.
var Unlimited = Limit{math.MaxInt64, math.MaxInt64}

// Equal reports whether both node types have the same properties and capacities.
func (n NodeType) Equal(o NodeType) bool {
	return maps.Equal(n.Capacities, o.Capacities) && maps.Equal(n.Properties, o.Properties)
}

// MetricLimit returns the limit of an instance with this capacity of a metric. A capacity of 100
// with a node buffer of 20 % has the limits 80 and 100; with overbooking of 20 %, 100 and 120 (P12,
// P13).
func (c *Configuration) MetricLimit(metric string, capacity int64) Limit {
	out := Limit{capacity, capacity}
	if p := c.Buffer[metric]; p > 0 {
		out.Unbuffered = ScaleCapacity(capacity, 1-p)
	}
	if p := c.Overbooking[metric]; p < 0 {
		out.Total = math.MaxInt64
	} else if p > 0 {
		out.Total = ScaleCapacity(capacity, 1+p)
	}
	return out
}

// ScaleCapacity multiplies a capacity and rounds down to a whole number (P12, P13). It first
// corrects for binary arithmetic: 100 times 1.1 is 110, though the float product may be just below.
func ScaleCapacity(capacity int64, by float64) int64 {
	x := float64(capacity) * by
	x = math.Floor(x + 1e-9 + math.Abs(x)*1e-15)
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x)
}

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
