package main

import (
	"errors"

	"berth/shared/cluster"
	"berth/shared/service"
)

// A Scaling lets the number of the service's replicas follow their average load.
type Scaling struct {
	Metric    string  `json:"metric"`
	Lower     float64 `json:"lower"`
	Upper     float64 `json:"upper"`
	Minimum   int     `json:"minimum"`
	Maximum   int     `json:"maximum"` // -1: as many as there are nodes for it
	Increment int     `json:"increment"`
}

// scaledTarget returns the target that the load of the first partition's replicas asks for.
func (s *session) scaledTarget() (int, error) {
	w, err := s.loadWorld()
	if err != nil {
		return 0, err
	}
	l := s.c.Scaling
	if l == nil || len(w.partitions) == 0 {
		return 0, errors.New("no service is scaled")
	}
	p, metric := w.partitions[0], w.snap.MetricIndex(l.Metric)
	var loads []int64
	for _, t := range w.snap.TasksOf(p.row.Short) {
		load := int64(0)
		w.snap.LoadsOf(t, func(m int, n int64) {
			if m == metric {
				load = n
			}
		})
		loads = append(loads, load)
	}
	return service.ScaleByLoad(&cluster.LoadScaling{Metric: l.Metric, Lower: l.Lower, Upper: l.Upper,
		Increment: l.Increment, Min: l.Minimum, Max: l.Maximum}, p.row.Desired, loads,
		len(w.engine.EligibleInstances(p.spec))).Desired, nil
}
