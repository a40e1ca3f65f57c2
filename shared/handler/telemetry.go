package handler

import (
	"maps"
	"sync"
)

// A Measurement is a number that operators watch, published as a CloudWatch metric of that name.
type Measurement string

// The measurements. All are counts except OutboxAge, in seconds, and IdleRounds.
const (
	// EventsHandled counts queue messages and events, RecordsHandled stream records.
	EventsHandled  Measurement = "EventsHandled"
	RecordsHandled Measurement = "RecordsHandled"
	// TasksStarted, TasksRefused and TasksStopped count ECS's answers to StartTask and StopTask.
	TasksStarted Measurement = "TasksStarted"
	TasksRefused Measurement = "TasksRefused"
	TasksStopped Measurement = "TasksStopped"
	// CommitsLost counts decisions that were made again because another commit came first.
	CommitsLost Measurement = "CommitsLost"
	// OutboxAge is how long the oldest outbox row has waited, in seconds.
	OutboxAge Measurement = "OutboxAge"
	// IdleRounds is how many rounds in a row over an outbox or a service did nothing. A growing
	// value means a loop. Its metric keeps the name Turns, which alarms refer to.
	IdleRounds Measurement = "Turns"
	// LeftUndone counts what a sweep found that placement should have done earlier.
	LeftUndone Measurement = "LeftUndone"
	// ClustersMissing counts clusters that ECS no longer has although they have active services.
	ClustersMissing Measurement = "ClustersMissing"
)

// MeasurementUnits are the CloudWatch units of the measurements that are not counts.
var MeasurementUnits = map[Measurement]string{OutboxAge: "Seconds", IdleRounds: "None"}

// Telemetry collects measurements between two calls of Collect. A nil *Telemetry collects nothing.
// It is safe for concurrent use.
type Telemetry struct {
	mu      sync.Mutex
	values  map[Measurement]float64
	dropped map[string]int
}

// AddCount adds to a count.
func (f *Telemetry) AddCount(name Measurement, n int) {
	f.updateValue(name, func(v float64) float64 { return v + float64(n) })
}

// SetMax raises a measurement to value if it is lower.
func (f *Telemetry) SetMax(name Measurement, value float64) {
	f.updateValue(name, func(v float64) float64 { return max(v, value) })
}

// updateValue replaces a measurement by next of it.
func (f *Telemetry) updateValue(name Measurement, next func(float64) float64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = map[Measurement]float64{}
	}
	f.values[name] = next(f.values[name])
}

// CountDropped counts a message that was dropped because no retry can help. kind must come from a
// small set: each becomes a dimension.
func (f *Telemetry) CountDropped(kind string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped == nil {
		f.dropped = map[string]int{}
	}
	f.dropped[kind]++
}

// Collect returns the measurements that are not 0 and the dropped messages by kind, and resets
// both.
func (f *Telemetry) Collect() (values map[Measurement]float64, dropped map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	values, dropped = f.values, f.dropped
	f.values, f.dropped = nil, nil
	maps.DeleteFunc(values, func(_ Measurement, v float64) bool { return v == 0 })
	return values, dropped
}

// DropKind returns the first word of a reason, so that the number of kinds stays small.
func DropKind(reason string) string {
	for i, r := range reason {
		if r == ' ' && i > 0 {
			return reason[:i]
		}
	}
	return reason
}
