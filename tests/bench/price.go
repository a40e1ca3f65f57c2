// Package bench measures what Berth costs and how fast it is, on whole installations, and compares
// the figures with the design's budget. `make bench` runs it; tests/bench/compare measures
// placement alone.
package bench

import "fmt"

// Prices are AWS's list prices in us-east-1 in dollars, as of November 2026, without free tiers.
type Prices struct {
	WriteUnit    float64 // DynamoDB on-demand, per write request unit
	ReadUnit     float64 // DynamoDB on-demand, per read request unit
	QueueRequest float64 // SQS standard, per request
	Invocation   float64 // Lambda, per request
	GBSecond     float64 // Lambda, arm64
}

// String returns the price list. Stream reads by Lambda and ECS's own events are free, so they are
// not in it.
func (p Prices) String() string {
	return fmt.Sprintf("prices per million, us-east-1, November 2026: write units $%.3f, read units $%.3f, "+
		"queue requests $%.2f, invocations $%.2f; GB-second $%.7f, %g GB for %g s each",
		1e6*p.WriteUnit, 1e6*p.ReadUnit, 1e6*p.QueueRequest, 1e6*p.Invocation, p.GBSecond, lambdaSize, lambdaTime)
}

// ListPrices are the prices that costs are computed with.
var ListPrices = Prices{
	WriteUnit: 0.625e-6, ReadUnit: 0.125e-6, QueueRequest: 0.40e-6, Invocation: 0.20e-6, GBSecond: 13.3334e-6,
}

// Cost is what one task uses.
type Cost struct {
	WriteUnits, ReadUnits, QueueRequests, Invocations float64
}

// An invocation is assumed to use lambdaSize GB for lambdaTime seconds, which is more than any
// measured one.
const (
	lambdaSize = 0.25
	lambdaTime = 0.5
)

// DollarsPerMillion returns the price of a million tasks in dollars.
func (c Cost) DollarsPerMillion(p Prices) float64 {
	return 1e6 * (c.WriteUnits*p.WriteUnit + c.ReadUnits*p.ReadUnit + c.QueueRequests*p.QueueRequest +
		c.Invocations*(p.Invocation+lambdaSize*lambdaTime*p.GBSecond))
}

// Budget is the most that a task may use, and the most that a million tasks may cost in dollars.
type Budget struct {
	Cost
	Dollars float64
}

// The budgets of a task that ends by itself, and of one that Berth stops: just above what was last
// counted. The goal was $4 (docs/decisions/023-partitions.md). Of the read units a tenth is what lists of
// tasks cost that read sixteen partition keys.
var (
	EndsByItself = Budget{Cost{5.9, 0.5, 3.5, 0.06}, 5.1}
	Stopped      = Budget{Cost{8.6, 0.6, 3.5, 0.1}, 6.9}
)

// Exceeded names the first figure that is above the budget, or returns nothing.
func (b Budget) Exceeded(c Cost) string { return b.exceededAt(c, c.DollarsPerMillion(ListPrices)) }

// exceededAt is [Budget.Exceeded] with the dollars that a million tasks cost.
func (b Budget) exceededAt(c Cost, dollars float64) string {
	for _, f := range []struct {
		what      string
		got, most float64
	}{
		{"write units", c.WriteUnits, b.WriteUnits}, {"read units", c.ReadUnits, b.ReadUnits},
		{"queue requests", c.QueueRequests, b.QueueRequests}, {"invocations", c.Invocations, b.Invocations},
		{"dollars per million tasks", dollars, b.Dollars},
	} {
		if f.got > f.most {
			return fmt.Sprintf("%.3f %s, the budget is %g", f.got, f.what, f.most)
		}
	}
	return ""
}

// String returns the cost in words.
func (c Cost) String() string {
	return fmt.Sprintf("%.2f write units, %.2f read units, %.2f queue requests, %.3f invocations, $%.2f per million tasks",
		c.WriteUnits, c.ReadUnits, c.QueueRequests, c.Invocations, c.DollarsPerMillion(ListPrices))
}
