package autoscaling

import (
	"encoding/json"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// activity is a scaling activity of a group.
type activity struct {
	ID, Zone    string
	Start, End  time.Time
	Status      string
	Description string
	Cause       string `json:",omitempty"`
	Message     string `json:",omitempty"`
}

// The statuses of activities, and how many are kept of a group.
const (
	activityRuns   = "InProgress"
	activityDone   = "Successful"
	activityFailed = "Failed"
	keptActivities = 100
)

func (e *scaler) recordActivity(g *group, a activity) (id string) {
	a.ID = kernel.FormatUUID(e.kernel.ResourceID("activity", e.kernel.NextNumber("Activities")))
	g.Activities = append(g.Activities, a)
	g.Activities = g.Activities[max(0, len(g.Activities)-keptActivities):]
	return a.ID
}

// completeActivity ends the activity of a launch, if it is in progress.
func (g *group) completeActivity(id string, now time.Time) {
	k := slices.IndexFunc(g.Activities, func(a activity) bool { return a.ID == id })
	if k >= 0 && g.Activities[k].Status == activityRuns {
		g.Activities[k].Status, g.Activities[k].End = activityDone, now
	}
}

// emitTermination emits an event for each hook that holds a termination up.
func (e *scaler) emitTermination(g *group, m *member, now time.Time) {
	hooks := make([]string, 0, len(m.Waits))
	for name := range m.Waits {
		hooks = append(hooks, name)
	}
	slices.Sort(hooks)
	for _, hook := range hooks {
		n := e.kernel.NextNumber("Activities")
		detail, err := json.Marshal(map[string]string{
			"LifecycleActionToken": actionToken(hook, m.EC2), "AutoScalingGroupName": g.Name, "LifecycleHookName": hook,
			"EC2InstanceId": m.EC2, "LifecycleTransition": terminating, "Origin": "AutoScalingGroup",
			"Destination": "EC2",
		})
		if err == nil { // it never fails for strings
			e.kernel.EmitEvent(kernel.Event{
				Source: e.eventSource, DetailType: "EC2 Instance-terminate Lifecycle Action", ARN: e.groupARN(g.Name),
				Version: n, At: now,
			}, detail)
		}
	}
}

const terminating = "autoscaling:EC2_INSTANCE_TERMINATING"

// actionToken returns the LifecycleActionToken of a termination.
func actionToken(hook, ec2 string) string {
	return kernel.FormatUUID(cluster.Digest("lifecycle", hook, ec2))
}
