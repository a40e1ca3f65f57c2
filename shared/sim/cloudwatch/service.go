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
	usage       func(namespace, name string, dimensions map[string]string) (float64, bool)
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

// ServeUsage lets f give the values of metrics that are not published: what the account uses now. It
// is called in a step.
func (c *Service) ServeUsage(f func(namespace, name string, dimensions map[string]string) (float64, bool)) {
	c.usage = f
}

// usageOf returns the value of a usage metric; false for any other metric.
func (c *Service) usageOf(m Metric) (float64, bool) {
	if c.usage == nil {
		return 0, false
	}
	return c.usage(m.Namespace, m.Name, m.Dimensions)
}
