package cluster

import (
	"maps"
	"math"
)

// Limit is how much load of a metric an instance takes (P12, P13); math.MaxInt64 where nothing
// limits it.
type Limit struct {
	Unbuffered int64 // without the buffer, and without overbooking
	Total      int64
}

// Unlimited is the limit of a metric without capacity.
var Unlimited = Limit{math.MaxInt64, math.MaxInt64}

// Equal reports whether both node types have the same properties and capacities.
func (n NodeType) Equal(o NodeType) bool {
	return maps.Equal(n.Capacities, o.Capacities) && maps.Equal(n.Properties, o.Properties)
}

// MetricLimit is what the configuration makes of a capacity (P12, P13): see [Scaled].
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

// ScaleCapacity is a capacity times a factor, cut off to a whole number (P12, P13): what only binary
// arithmetic makes a fraction below a whole number is that number.
func ScaleCapacity(capacity int64, by float64) int64 {
	x := float64(capacity) * by
	x = math.Floor(x + 1e-9 + math.Abs(x)*1e-15)
	if x >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x)
}
