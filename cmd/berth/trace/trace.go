package trace

import (
	"bytes"
	_ "embed" // the default trace
	"fmt"
	"io"
	"strings"
	"time"
)

//go:embed openb_node_list_all_node.csv
var defaultNodes []byte

//go:embed openb_pod_list_default.csv
var defaultTasks []byte

// Node is one machine of the trace.
type Node struct {
	Name      string
	CPUMilli  int64 // thousandths of a vCPU
	MemoryMiB int64
	GPUs      int
	Model     string // of its GPUs; empty if it has none or the trace does not say
}

// Task is one task of the trace.
type Task struct {
	Name      string
	CPUMilli  int64 // thousandths of a vCPU
	MemoryMiB int64
	GPUs      int
	// GPUMilli is the share of each GPU in thousandths: 1000 for whole GPUs, 0 without GPUs.
	GPUMilli int
	Models   []string // the GPU models it accepts; empty for any
	QoS      string
	Phase    string
	// Created, Deleted and Scheduled are times since the start of the trace, or nil if unknown.
	Created, Deleted, Scheduled *time.Duration
}

// The bounds of a trace. Files beyond them are refused.
const (
	MaxRows    = 1_000_000
	maxBytes   = 512 << 20
	maxAmount  = 1_000_000_000 // thousandths of a vCPU, MiB
	maxGPUs    = 1024
	maxSeconds = 1_000_000_000
)

// DefaultNodes returns the nodes of the trace that comes with Berth.
func DefaultNodes() ([]Node, error) { return ReadNodes(bytes.NewReader(defaultNodes)) }

// DefaultTasks returns the tasks of the trace that comes with Berth, in the file's order.
func DefaultTasks() ([]Task, error) { return ReadTasks(bytes.NewReader(defaultTasks)) }

// ReadNodes reads a list of nodes. The first line names the columns, in any order: sn, cpu_milli,
// memory_mib and gpu are required, model is optional, and others are ignored. A bad value is a
// [*ValueError].
func ReadNodes(r io.Reader) ([]Node, error) {
	t, err := newTableReader(r, "sn", "cpu_milli", "memory_mib", "gpu")
	if err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	var nodes []Node
	for t.nextRow() {
		nodes = append(nodes, Node{
			Name: t.uniqueName("sn"), CPUMilli: t.columnNumber("cpu_milli", maxAmount),
			MemoryMiB: t.columnNumber("memory_mib", maxAmount),
			GPUs:      int(t.columnNumber("gpu", maxGPUs)), Model: t.columnText("model"),
		})
	}
	if t.err != nil {
		return nil, fmt.Errorf("reading nodes: %w", t.err)
	}
	return nodes, nil
}

// ReadTasks reads a list of tasks. The first line names the columns, in any order: name, cpu_milli,
// memory_mib, num_gpu and gpu_milli are required; gpu_spec, qos, pod_phase, creation_time,
// deletion_time and scheduled_time are optional. A bad value is a [*ValueError].
func ReadTasks(r io.Reader) ([]Task, error) {
	t, err := newTableReader(r, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, fmt.Errorf("reading tasks: %w", err)
	}
	var pods []Task
	for t.nextRow() {
		pods = append(pods, readTaskRow(t))
	}
	if t.err != nil {
		return nil, fmt.Errorf("reading tasks: %w", t.err)
	}
	return pods, nil
}

// readTaskRow reads a row. Only a single GPU can be shared.
func readTaskRow(t *table) Task {
	p := Task{
		Name: t.uniqueName("name"), CPUMilli: t.columnNumber("cpu_milli", maxAmount),
		MemoryMiB: t.columnNumber("memory_mib", maxAmount),
		GPUs:      int(t.columnNumber("num_gpu", maxGPUs)), GPUMilli: int(t.columnNumber("gpu_milli", 1000)),
		QoS: t.columnText("qos"), Phase: t.columnText("pod_phase"),
		Created: t.columnSeconds("creation_time"), Deleted: t.columnSeconds("deletion_time"),
		Scheduled: t.columnSeconds("scheduled_time"),
	}
	for m := range strings.SplitSeq(t.columnText("gpu_spec"), "|") {
		if m = strings.TrimSpace(m); m != "" {
			p.Models = append(p.Models, m)
		}
	}
	switch {
	case p.GPUs == 0 && p.GPUMilli != 0:
		t.rejectValue("gpu_milli", "0, as num_gpu is 0")
	case p.GPUs > 0 && p.GPUMilli == 0:
		t.rejectValue("gpu_milli", "1 to 1000, as num_gpu is not 0")
	case p.GPUs > 1 && p.GPUMilli != 1000:
		t.rejectValue("gpu_milli", "1000, as num_gpu is above 1: only one GPU can be shared")
	case isBefore(p.Deleted, p.Created):
		t.rejectValue("deletion_time", "no earlier than creation_time")
	case isBefore(p.Scheduled, p.Created):
		t.rejectValue("scheduled_time", "no earlier than creation_time")
	}
	return p
}

// isBefore reports whether both times are known and a is earlier.
func isBefore(a, b *time.Duration) bool { return a != nil && b != nil && *a < *b }
