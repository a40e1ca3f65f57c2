package cloudwatch

import (
	"time"

	"go.etcd.io/bbolt"

	"berth/shared/sim/kernel"
)

const bucket = "alarms"

// Service is CloudWatch: alarms, and the last datapoints of metrics.
type Service struct {
	kernel      *kernel.Kernel
	eventSource string
	alarms      map[string]*Alarm  // by name
	series      map[string]*Series // by key of the metric
	observe     func(s *Series, now time.Time)
}

// NewService returns a service whose alarms report state changes from an event source.
func NewService(k *kernel.Kernel, eventSource string) *Service {
	return &Service{kernel: k, eventSource: eventSource, alarms: map[string]*Alarm{}, series: map[string]*Series{}}
}

// ObserveMetrics calls f in the step that publishes a datapoint, after the alarms have been
// evaluated.
func (c *Service) ObserveMetrics(f func(s *Series, now time.Time)) { c.observe = f }

// Buckets implements [kernel.Tables].
func (c *Service) Buckets() []string { return []string{bucket} }

// Load implements [kernel.Tables].
func (c *Service) Load(tx *bbolt.Tx) error { return kernel.LoadTable(tx, bucket, c.alarms) }

// Resume implements [kernel.Tables].
func (c *Service) Resume(time.Time) {}
