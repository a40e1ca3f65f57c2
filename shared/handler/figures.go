package handler

import (
	"maps"
	"sync"
)

// Figure is a number that operators watch.
type Figure string

// The figures: all are counts but OutboxAge, in seconds, and Turns.
const (
	// EventsHandled are messages and events taken in, RecordsHandled records of the stream.
	EventsHandled  Figure = "EventsHandled"
	RecordsHandled Figure = "RecordsHandled"
	// TasksStarted, TasksRefused and TasksStopped are what ECS said to StartTask and StopTask.
	TasksStarted Figure = "TasksStarted"
	TasksRefused Figure = "TasksRefused"
	TasksStopped Figure = "TasksStopped"
	// CommitsLost are decisions that had to be made again, as somebody else was first.
	CommitsLost Figure = "CommitsLost"
	// OutboxAge is how long the oldest that waits to be started or stopped has waited.
	OutboxAge Figure = "OutboxAge"
	// IdleRounds is how often an outbox, or a service, was looked at again without anything being done: the hops of a chain.
	IdleRounds Figure = "Turns"
	// LeftUndone is what a sweep found that placement should have done long ago.
	LeftUndone Figure = "LeftUndone"
	// ClustersMissing are clusters that ECS has no more, where services are still wanted.
	ClustersMissing Figure = "ClustersMissing"
)

// Units are CloudWatch's, of the figures that are no counts.
var Units = map[Figure]string{OutboxAge: "Seconds", IdleRounds: "None"}

// Figures gather what a function does between two looks at them. A nil *Figures gathers nothing. They may be used by
// several goroutines.
type Figures struct {
	mu      sync.Mutex
	values  map[Figure]float64
	dropped map[string]int
}

// Add adds to a count.
func (f *Figures) Add(name Figure, n int) {
	f.update(name, func(v float64) float64 { return v + float64(n) })
}

// SetMax keeps the greatest value.
func (f *Figures) SetMax(name Figure, value float64) {
	f.update(name, func(v float64) float64 { return max(v, value) })
}

func (f *Figures) update(name Figure, next func(float64) float64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = map[Figure]float64{}
	}
	f.values[name] = next(f.values[name])
}

// AddDropped counts a message that no retry could have helped.
func (f *Figures) AddDropped(kind string) {
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

// Take gives what was gathered, those that are not 0, and the dropped messages by kind of reason, and begins anew.
func (f *Figures) Take() (values map[Figure]float64, dropped map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	values, dropped = f.values, f.dropped
	f.values, f.dropped = nil, nil
	maps.DeleteFunc(values, func(_ Figure, v float64) bool { return v == 0 })
	return values, dropped
}
