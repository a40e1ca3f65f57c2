package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prices of what only an idle installation is counted in, in us-east-1 in dollars, as of November
// 2026, without free tiers.
const (
	scheduleTick  = 1e-6        // EventBridge Scheduler, per invocation
	metricRequest = 0.01 / 1000 // CloudWatch, per request for metrics and alarms
	customMetric  = 0.30 / 30   // CloudWatch, per metric and day
	metricAlarm   = 0.10 / 30   // CloudWatch, per alarm and day
)

// Lambda bills the time that an invocation waits for answers. These are assumed: DynamoDB promises
// single-digit milliseconds; the others promise nothing.
const (
	ownTime      = 0.005 // seconds of each invocation
	tableLatency = 0.005 // per request
	awsLatency   = 0.1   // per call of Auto Scaling, ECS and CloudWatch
)

// Lambda keeps five connections open to a queue that it reads, with MaximumConcurrency even while
// nothing comes (Lambda, configuring scaling behaviour for SQS event source mappings), and each
// receives for at most 20 s. Users measure 15 empty receives a minute (getlift/lift, issue 132).
const receivesPerQueue = 5 * 24 * 60 * 60 / 20 // a day

// Day is what an idle installation uses in a day.
type Day struct {
	Functions     map[string]*FunctionDay
	Queues        int // that Lambda reads
	Providers     int // capacity providers with managed scaling
	QueueRequests int // beside Lambda's polling
}

// FunctionDay is what one function uses in a day.
type FunctionDay struct {
	Memory      float64 // GB
	Invocations int
	Unscheduled int // invocations of no schedule
	ReadUnits   float64
	WriteUnits  float64
	Requests    int64          // to the table
	Calls       map[string]int // of AWS's other services, by operation
}

// metricCalls are the operations for which CloudWatch charges.
var metricCalls = []string{"DeleteAlarms", "DescribeAlarms", "PutMetricAlarm", "PutMetricData"}

// seconds is how long the function runs.
func (f *FunctionDay) seconds() float64 {
	calls := 0
	for _, n := range f.Calls {
		calls += n
	}
	return ownTime*float64(f.Invocations) + tableLatency*float64(f.Requests) + awsLatency*float64(calls)
}

// Dollars is the price of the function's day.
func (f *FunctionDay) Dollars() float64 {
	metrics := 0
	for _, operation := range metricCalls {
		metrics += f.Calls[operation]
	}
	p := ListPrices
	return float64(f.Invocations)*p.Invocation + float64(f.Invocations-f.Unscheduled)*scheduleTick +
		f.Memory*f.seconds()*p.GBSecond + f.ReadUnits*p.ReadUnit + f.WriteUnits*p.WriteUnit + float64(metrics)*metricRequest
}

// Schedules is the price of all that functions do in a day. On an idle day schedules cause all of it.
func (d Day) Schedules() (dollars float64) {
	for _, f := range d.Functions {
		dollars += f.Dollars()
	}
	return dollars
}

// Total is the price of all that functions and queues do in a day, without what a day without them
// would cost as well.
func (d Day) Total() float64 { return d.Schedules() + float64(d.QueueRequests)*ListPrices.QueueRequest }

// Sums returns what all functions use together.
func (d Day) Sums() (sum FunctionDay) {
	for _, f := range d.Functions {
		sum.Invocations += f.Invocations
		sum.Unscheduled += f.Unscheduled
		sum.ReadUnits += f.ReadUnits
		sum.WriteUnits += f.WriteUnits
		sum.Requests += f.Requests
	}
	return sum
}

// Polling is the price of Lambda's own polls of the queues in a day.
func (d Day) Polling() float64 {
	return float64(d.Queues*receivesPerQueue) * ListPrices.QueueRequest
}

// Kept is the price of the two metrics and the two alarms of each capacity provider in a day.
func (d Day) Kept() float64 { return float64(d.Providers) * 2 * (customMetric + metricAlarm) }

// Table returns the day as a table in Markdown.
func (d Day) Table() string {
	var b strings.Builder
	b.WriteString("| function | invocations | read units | write units | calls of AWS | seconds | dollars |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(d.Functions)) {
		f := d.Functions[name]
		var calls []string
		for _, operation := range slices.Sorted(maps.Keys(f.Calls)) {
			calls = append(calls, fmt.Sprint(f.Calls[operation], " ", operation))
		}
		fmt.Fprintf(&b, "| `%s` | %d | %.0f | %.0f | %s | %.0f | %.4f |\n", name, f.Invocations, f.ReadUnits,
			f.WriteUnits, strings.Join(calls, ", "), f.seconds(), f.Dollars())
	}
	return b.String()
}
