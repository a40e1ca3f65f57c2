package autoscaling

import (
	"encoding/json"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// activity is a scaling activity of a group. Failed launches are found here only: a group has no
// other record of them.
type activity struct {
	ID, Zone    string
	Start, End  time.Time // End is zero while it is in progress
	Status      string
	Description string
	Cause       string `json:",omitempty"`
	Message     string `json:",omitempty"` // of a failure, in EC2's words
}

// The statuses of activities, and how many are kept of a group.
const (
	activityRuns   = "InProgress"
	activityDone   = "Successful"
	activityFailed = "Failed"
	keptActivities = 100
)

// recordActivity gives the activity its id, which it returns, and forgets the oldest one beyond
// those kept.
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

// emitTermination emits an event for each hook that holds a termination up, sorted by name. The
// program that drains the instance completes the lifecycle action that the event names. Its detail:
//
//	{
//	  "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
//	  "AutoScalingGroupName": "workers", "LifecycleHookName": "ecs-managed-draining-termination-hook",
//	  "EC2InstanceId": "i-1234567890abcdef0",
//	  "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
//	  "Origin": "AutoScalingGroup", "Destination": "EC2"
//	}
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

// terminating is the one transition whose hooks are simulated.
const terminating = "autoscaling:EC2_INSTANCE_TERMINATING"

// actionToken returns the LifecycleActionToken of a termination, which names it in calls instead of
// the instance. It is derived, so that it need not be stored.
func actionToken(hook, ec2 string) string {
	return kernel.FormatUUID(cluster.Digest("lifecycle", hook, ec2))
}
