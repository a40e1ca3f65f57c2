package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/bench/workload"
)

// The largest cluster that Berth is made for.
const (
	manyInstances = 15_000
	manyServices  = 1_000
	tasksEach     = 300
)

// snapshotResult is what a snapshot of a large cluster costs.
type snapshotResult struct {
	Benchmark string  `json:"benchmark"` // snapshot
	Instances int     `json:"instances"`
	Tasks     int     `json:"tasks"`
	Bytes     float64 `json:"bytes"`   // of heap, including the rows
	Seconds   float64 `json:"seconds"` // to build it from decoded rows
	CPU       float64 `json:"cpuSeconds"`
}

// buildSnapshot builds a snapshot of running tasks from rows as they are decoded. Decoding is not
// measured.
func buildSnapshot(instances, services, each int) (snapshotResult, error) {
	out := snapshotResult{Benchmark: "snapshot", Instances: instances, Tasks: services * each}
	w, err := workload.Make(workload.Mixed, instances, 1)
	if err != nil {
		return out, err
	}
	before, snap := heapBytes(), snapshot.NewSnapshot()
	var took, cpu time.Duration
	put := func(rows []state.Row) {
		from, begin := workload.CPU(), time.Now()
		for _, r := range rows {
			snap.Put(r)
		}
		took, cpu = took+time.Since(begin), cpu+workload.CPU()-from
	}
	var rows []state.Row
	for i := range w.Instances {
		r, err := decodeCopy(instanceRow(&w.Instances[i]))
		if err != nil {
			return out, err
		}
		rows = append(rows, r)
	}
	put(rows)
	for s := range services {
		rows, err := runningRows(w, s, each)
		if err != nil {
			return out, err
		}
		put(rows)
	}
	rows = nil
	out.Bytes, out.Seconds, out.CPU = heapBytes()-before, took.Seconds(), cpu.Seconds()
	if snap.TaskCount() != out.Tasks || len(snap.Instances) != instances {
		return out, fmt.Errorf("the snapshot has %d tasks on %d instances", snap.TaskCount(), len(snap.Instances))
	}
	runtime.KeepAlive(w)
	return out, nil
}

// runningRows returns the rows of a service, with a name of its own, and of its tasks, spread over
// the instances.
func runningRows(w *workload.Workload, n, each int) ([]state.Row, error) {
	service := w.Services[n%len(w.Services)]
	service.Name, service.Replicas = fmt.Sprintf("service-%04d", n), each
	def, row := definitionRow(&service), serviceRow(&service)
	kept, err := decodeCopy(row)
	if err != nil {
		return nil, err
	}
	rows := []state.Row{def, kept}
	for i := range each {
		t := taskRow(def, row)
		t.Instance = w.Instances[(n*each+i)%len(w.Instances)].ID
		t.Batch = cluster.StartedBy(row.Short, 123456, i%3)
		t.ID, t.ECSID = cluster.TaskID(t.Batch, t.Instance), fmt.Sprintf("%032x", n*each+i)
		t.Rev, t.Attempt, t.Version, t.Last, t.Health = 4, 1, 3, cluster.TaskRunning, cluster.Healthy
		t.ClaimedAt, t.Started = cluster.At(began), cluster.At(began.Add(time.Minute))
		kept, err := decodeCopy(&t)
		if err != nil {
			return nil, err
		}
		rows = append(rows, kept)
	}
	return rows, nil
}

// decodeCopy returns the row after encoding and decoding it, so that it shares no memory with
// another.
func decodeCopy[T any](row *T) (*T, error) {
	text, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(text, out)
}

func heapBytes() float64 {
	runtime.GC()
	runtime.GC() // frees what the first one only marked
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
