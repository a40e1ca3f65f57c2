package awsevent

import (
	"encoding/json"

	"berth/shared/cluster"
)

// SourceLoad and DetailLoad mark the event by which a task, or the program that measures it,
// reports its load (P10). Its detail has taskArn, clusterArn unless the former names the cluster,
// and loads: a whole number per metric.
const (
	SourceLoad = "berth.load"
	DetailLoad = "Task Load Report"
)

// Load is the load that a task reports.
type Load struct {
	Cluster string
	cluster.LoadReport
}

// maxMetricName is the longest name of a metric, as in the API.
const maxMetricName = 128

// readLoad reads a load report. Loads are whole numbers: 1.5 is malformed.
func readLoad(e *envelope) (any, error) {
	var d struct {
		ClusterARN string                 `json:"clusterArn"`
		TaskARN    string                 `json:"taskArn"`
		Loads      map[string]json.Number `json:"loads"`
	}
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	if e.Time.IsZero() {
		return nil, malformed(e.DetailType, "time is missing")
	}
	in, task, err := parseARN(e, "taskArn", d.TaskARN, "task")
	if err != nil {
		return nil, err
	}
	if d.ClusterARN != "" {
		if _, in, err = parseARN(e, "clusterArn", d.ClusterARN, "cluster"); err != nil {
			return nil, err
		}
	}
	if in == "" {
		return nil, malformed(e.DetailType, "clusterArn is missing, and taskArn %.200q names no cluster", d.TaskARN)
	}
	if len(d.Loads) == 0 || len(d.Loads) > cluster.MaxMetrics {
		return nil, malformed(e.DetailType, "%d loads, expected 1 to %d", len(d.Loads), cluster.MaxMetrics)
	}
	out := &Load{Cluster: in, LoadReport: cluster.LoadReport{
		Task: task, Loads: make(map[string]int64, len(d.Loads)), At: e.Time,
	}}
	for name, text := range d.Loads {
		n, err := text.Int64()
		if err != nil || n < 0 || n > maxUnits || name == "" || len(name) > maxMetricName {
			return nil, malformed(e.DetailType, "load %.130q is %.40q", name, text)
		}
		out.Loads[name] = n
	}
	return out, nil
}
