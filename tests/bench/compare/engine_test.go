package main

import (
	"runtime"
	"testing"
	"time"

	"berth/tests/bench/workload"
)

func each(t *testing.T, instances int, test func(*testing.T, *workload.Workload)) {
	for _, name := range workload.Names {
		t.Run(name, func(t *testing.T) {
			w, err := workload.Make(name, instances, 1)
			if err != nil {
				t.Fatal(err)
			}
			test(t, w)
		})
	}
}

// TestEngineKeepsToTheWorkload runs the checks of every engine's answers on Berth's.
func TestEngineKeepsToTheWorkload(t *testing.T) {
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		for _, start := range []string{workload.Empty, workload.Full} {
			e, err := newEngine(w)
			if err != nil {
				t.Fatal(err)
			}
			r, err := w.Run(berth, e, workload.Span{Start: start, Time: time.Hour, Tasks: 2 * w.Live})
			if err != nil {
				t.Fatal(err)
			}
			if want := w.Live * 90 / 100; r.Placed < want || r.Placed > e.snap.TaskCount() && start == workload.Empty {
				t.Errorf("from %s: %d placed, %d refused, %d tasks in the end", start, r.Placed, r.Refused,
					e.snap.TaskCount())
			}
			if r.Considered == 0 || r.Considered > 1000 {
				t.Errorf("from %s: %.0f looks at an instance for a task", start, r.Considered)
			}
		}
	})
}

// churn returns an engine that is full and knows every service, and a step that replaces one task.
func churn(t *testing.T, w *workload.Workload) (e *engine, step func()) {
	e, err := newEngine(w)
	if err != nil {
		t.Fatal(err)
	}
	where := w.Seats()
	for task, at := range where {
		if at != workload.None {
			if err := e.Seat(task, w.Service(task), int(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.Ready(); err != nil {
		t.Fatal(err)
	}
	task := w.Live
	step = func() {
		slot := &where[task%w.Live]
		e.Prepare(task, w.Service(task))
		if *slot != workload.None {
			if err := e.Leave(task-w.Live, w.Service(task-w.Live), int(*slot)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := e.Place(task, w.Service(task))
		if err != nil {
			t.Fatal(err)
		}
		*slot = int32(p.Instance)
		task++
	}
	return e, step
}

// TestSteadyStateAllocatesNothing checks decisions and the rows that they make. Only a refusal may
// allocate, for its explanation.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		e, step := churn(t, w)
		for range 2 * w.Live {
			step()
		}
		const most = 2000
		var before, after runtime.MemStats
		allocations, placed := uint64(0), 0
		for range most {
			runtime.ReadMemStats(&before)
			step()
			if runtime.ReadMemStats(&after); len(e.placed) > 0 {
				allocations, placed = allocations+after.Mallocs-before.Mallocs, placed+1
			}
		}
		// From time to time a table grows.
		if placed < most*9/10 || allocations > most/20 {
			t.Errorf("%d allocations for %d placements", allocations, placed)
		}
	})
}

// TestPlacementLooksAtFewInstances shows that the index finds the best instance without looking at
// every one.
func TestPlacementLooksAtFewInstances(t *testing.T) {
	const instances, steps = 4000, 4000
	for _, name := range workload.Names {
		t.Run(name, func(t *testing.T) {
			w, err := workload.Make(name, instances, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range w.Services { // some tasks are refused because of these, and a refusal looks at all instances
				w.Services[i].HostPort, w.Services[i].GPUs = 0, 0
			}
			e, step := churn(t, w)
			for range steps {
				step()
			}
			from := e.placer.InstanceVisits()
			for range steps {
				step()
			}
			if looks := (e.placer.InstanceVisits() - from) / steps; looks == 0 || looks > instances/4 {
				t.Errorf("%d looks for a placement among %d instances", looks, instances)
			}
		})
	}
}
