package cloudwatch

import (
	"time"

	"berth/shared/sim/kernel"
)

const bucket = "alarms"

// Service is CloudWatch: alarms, and the last datapoints of metrics.
type Service struct {
	kernel.Table[*Alarm] // by name

	kernel      *kernel.Kernel
	eventSource string
	series      map[string]*Series // by key of the metric
	observe     func(s *Series, now time.Time)
}

// NewService returns a service whose alarms report state changes from an event source.
func NewService(k *kernel.Kernel, eventSource string) *Service {
	return &Service{
		Table: kernel.NewTable[*Alarm](bucket), kernel: k, eventSource: eventSource, series: map[string]*Series{},
	}
}

// ObserveMetrics calls f in the step that publishes a datapoint, after the alarms have been
// evaluated.
func (c *Service) ObserveMetrics(f func(s *Series, now time.Time)) { c.observe = f }
