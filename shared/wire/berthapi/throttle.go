package berthapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// ThrottleOutput is how the starts of a service's revisions are slowed down (S7). Revisions that
// are not are left out.
type ThrottleOutput struct {
	Service   string     `json:"service"`
	Revisions []Throttle `json:"revisions"`
}

// A Throttle is one revision's backoff: Step attempts in a row have failed, with Failures tasks
// that never ran. The next attempt is not made before NextAttemptAt.
type Throttle struct {
	Deployment     string    `json:"deploymentId"`
	Status         string    `json:"status"` // PRIMARY or ACTIVE
	TaskDefinition string    `json:"taskDefinition"`
	Step           int       `json:"step"`
	Failures       int       `json:"failures"`
	Since          time.Time `json:"since"`
	NextAttemptAt  time.Time `json:"nextAttemptAt"`
	Reason         string    `json:"reason,omitempty"`
}

func (s *server) describeThrottle(ctx context.Context, in *ServiceInput) (*ThrottleOutput, error) {
	clusterName, name, err := s.ReadService(&in.Cluster, &in.Service)
	if err != nil {
		return nil, err
	}
	v, t, err := s.Services.ServiceThrottle(ctx, clusterName, name)
	if err != nil {
		return nil, err
	}
	return ThrottleOf(v, t), nil
}

// ThrottleOf returns a service's throttle for callers, the PRIMARY deployment first. Backoffs of
// deployments that no longer exist are left out.
func ThrottleOf(v *cluster.Service, t *cluster.Throttle) *ThrottleOutput {
	out := &ThrottleOutput{Service: v.Name, Revisions: []Throttle{}}
	if t == nil {
		return out
	}
	for n, d := range slices.Concat([]cluster.Deployment{v.Deployment}, v.Older) {
		b, ok := t.Revisions[d.ID]
		if !ok || b.Step == 0 {
			continue
		}
		status := "ACTIVE"
		if n == 0 {
			status = "PRIMARY"
		}
		out.Revisions = append(out.Revisions, Throttle{
			Deployment: d.ID, Status: status, TaskDefinition: d.TaskDefinition, Step: b.Step, Failures: b.Failures,
			Since: b.Since.UTC(), NextAttemptAt: b.NextAttemptAt.UTC(), Reason: strings.TrimSpace(b.Reason),
		})
	}
	return out
}
