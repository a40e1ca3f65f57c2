package main

import (
	"fmt"
	"slices"
	"time"

	"berth/tests/bench/workload"
)

const (
	replicas = 1000 // in one request
	repeats  = 20
)

// replicasResult is how long one request for many identical tasks takes.
type replicasResult struct {
	Benchmark string  `json:"benchmark"` // replicas
	Workload  string  `json:"workload"`
	Nodes     int     `json:"nodes"`
	Replicas  int     `json:"replicas"`
	P50       float64 `json:"p50ms"`
	Slowest   float64 `json:"slowestms"`
	CPU       float64 `json:"cpums"` // the mean
}

// placeReplicas asks for a thousand tasks of a new service in one request, on a cluster that is
// half as full as the workload makes it. The service is a copy of the workload's first, with its
// rules.
func placeReplicas(w *workload.Workload) (replicasResult, error) {
	out := replicasResult{Benchmark: "replicas", Workload: w.Name, Nodes: len(w.Instances), Replicas: replicas}
	e, err := newEngine(w)
	if err != nil {
		return out, err
	}
	for task, at := range w.Seats() {
		if at == workload.None || task%2 > 0 {
			continue
		}
		if err := e.Seat(task, w.Service(task), int(at)); err != nil {
			return out, err
		}
	}
	var took []time.Duration
	var cpu time.Duration
	for n := range repeats + 1 {
		s := w.Services[0]
		s.Name, s.Replicas = fmt.Sprintf("replicas-%d", n), replicas
		r, err := newRequest(definitionRow(&s), serviceRow(&s))
		if err != nil {
			return out, err
		}
		r.Count = replicas
		before, begin := workload.CPU(), time.Now()
		e.placed = e.placer.PlaceInto(e.placed[:0], r).Placed
		end := time.Now()
		if len(e.placed) != replicas {
			return out, fmt.Errorf("%s of %d instances: %d of %d replicas were placed", w.Name, out.Nodes,
				len(e.placed), replicas)
		}
		if n > 0 { // the first request also builds the engine's index
			took, cpu = append(took, end.Sub(begin)), cpu+workload.CPU()-before
		}
	}
	slices.Sort(took)
	out.P50, out.Slowest = milliseconds(took[repeats/2]), milliseconds(took[repeats-1])
	out.CPU = milliseconds(cpu) / repeats
	return out, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
