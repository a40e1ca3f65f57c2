package handler

import (
	"encoding/json"
	"time"

	"berth/shared/state"
)

// A HealthWait asks health-check for the first health of tasks that have begun to run: ECS reports none by event.
// task-state-change sends it with each of [FirstHealthDelays].
type HealthWait struct {
	Cluster string `json:"cluster"`
	// Tasks, at most cluster.DescribeBatch, are named by owner and derived id, which leads to the row or to
	// its alias.
	Tasks []state.TaskRef `json:"tasks"`
}

// FirstHealthDelays are how long after their start ECS is asked for the first health of tasks. Most health checks
// pass after their interval, 30 s by default, and agents report health every 20 s. Afterwards tasks are asked
// about on health-check's schedule.
var FirstHealthDelays = []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second}

// ParseHealthWait reads a HealthWait; false for any other message. Events of EventBridge have a detail-type.
func ParseHealthWait(body []byte) (w HealthWait, ok bool) {
	var m struct {
		HealthWait
		DetailType string `json:"detail-type"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Cluster == "" || len(m.Tasks) == 0 || m.DetailType != "" {
		return HealthWait{}, false
	}
	return m.HealthWait, true
}
