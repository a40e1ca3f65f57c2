package handler

import (
	"encoding/json"
	"time"
)

// A HealthWait asks health-check for the first health of tasks that have begun to run: ECS reports none by
// event. task-state-change sends it, and health-check sends it again for those that have none yet.
type HealthWait struct {
	Cluster string   `json:"cluster"`
	Tasks   []string `json:"tasks"`   // ids of ECS, at most cluster.DescribeBatch
	Attempt int      `json:"attempt"` // how often ECS was asked before
}

// FirstHealthInterval is how often ECS is asked for the first health of tasks, FirstHealthAttempts how many
// times. Afterwards they are asked about on health-check's schedule, as all others.
const (
	FirstHealthInterval = 10 * time.Second
	FirstHealthAttempts = 6
)

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
