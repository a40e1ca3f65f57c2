package main

import (
	"slices"

	"berth/tests/bench/workload"
)

// scanEngine measures the machine rather than a scheduler: it finds the tightest fit by looking at
// every instance, in arrays, for the workload mixed only. It keeps no rows and knows no other rule.
type scanEngine struct {
	services    []workload.Service
	cpu, memory []int64
	has         [][]bool // by service
}

func newScanEngine(w *workload.Workload) *scanEngine {
	s := &scanEngine{services: w.Services}
	for i := range w.Instances {
		s.cpu, s.memory = append(s.cpu, w.Instances[i].CPU), append(s.memory, w.Instances[i].Memory)
	}
	for _, service := range w.Services {
		has := make([]bool, len(w.Instances))
		for i := range has {
			has[i] = !slices.ContainsFunc(service.Where, func(m workload.Match) bool {
				return !slices.Contains(m.Values, w.Instances[i].Attribute(m.Attribute))
			})
		}
		s.has = append(s.has, has)
	}
	return s
}

// Seat implements workload.Engine.
func (s *scanEngine) Seat(_, service, instance int) error {
	s.cpu[instance] -= s.services[service].CPU
	s.memory[instance] -= s.services[service].Memory
	return nil
}

// Ready implements workload.Engine.
func (s *scanEngine) Ready() error { return nil }

// Prepare implements workload.Engine.
func (s *scanEngine) Prepare(int, int) {}

// Place implements workload.Engine.
func (s *scanEngine) Place(task, service int) (workload.Placement, error) {
	best, least := workload.None, int64(0)
	cpu, memory, has := s.services[service].CPU, s.services[service].Memory, s.has[service]
	for i, free := range s.cpu {
		if free < cpu || s.memory[i] < memory || !has[i] {
			continue
		}
		if left := 4*free + s.memory[i]; best < 0 || left < least { // 4 GiB count as much as one vCPU
			best, least = i, left
		}
	}
	if best < 0 {
		return workload.Placement{Instance: best, Considered: len(s.cpu)}, nil
	}
	return workload.Placement{Instance: best, Considered: len(s.cpu)}, s.Seat(task, service, best)
}

// Leave implements workload.Engine.
func (s *scanEngine) Leave(_, service, instance int) error {
	s.cpu[instance] += s.services[service].CPU
	s.memory[instance] += s.services[service].Memory
	return nil
}

// rowScanEngine is a scanEngine that keeps the rows that Berth keeps. What it takes longer than Berth
// is the search alone.
type rowScanEngine struct {
	*engine
	scan *scanEngine
}

func newRowScanEngine(w *workload.Workload) (*rowScanEngine, error) {
	e, err := newEngine(w)
	return &rowScanEngine{e, newScanEngine(w)}, err
}

// Seat implements workload.Engine.
func (s *rowScanEngine) Seat(task, service, instance int) error {
	if err := s.scan.Seat(task, service, instance); err != nil {
		return err
	}
	return s.engine.Seat(task, service, instance)
}

// Ready implements workload.Engine.
func (s *rowScanEngine) Ready() error { return nil }

// Place implements workload.Engine.
func (s *rowScanEngine) Place(task, service int) (workload.Placement, error) {
	p, err := s.scan.Place(task, service)
	if err != nil || p.Instance == workload.None {
		return p, err
	}
	t := s.next
	s.next = nil
	return p, s.putRow(task, t, s.snap.InstancesByIndex()[p.Instance])
}

// Leave implements workload.Engine.
func (s *rowScanEngine) Leave(task, service, instance int) error {
	if err := s.scan.Leave(task, service, instance); err != nil {
		return err
	}
	return s.engine.Leave(task, service, instance)
}
