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

// emitMember emits the event that an instance has come into service in the group, or that it was
// terminated there. Its detail:
//
//	{
//	  "StatusCode": "InProgress", "AutoScalingGroupName": "workers",
//	  "ActivityId": "87654321-4321-4321-4321-210987654321",
//	  "RequestId": "87654321-4321-4321-4321-210987654321",
//	  "Description": "Launching a new EC2 instance: i-1234567890abcdef0",
//	  "EC2InstanceId": "i-1234567890abcdef0", "Details": {"Availability Zone": "us-east-1a"},
//	  "StatusMessage": "", "Cause": "", "Origin": "EC2", "Destination": "AutoScalingGroup"
//	}
func emitMember(e *scaler, g *group, m *member, launched bool, now time.Time) {
	kind, verb, from, to := "EC2 Instance Terminate Successful", "Terminating EC2 instance: ", "AutoScalingGroup", "EC2"
	if launched {
		kind, verb, from, to = "EC2 Instance Launch Successful", "Launching a new EC2 instance: ", to, from
	}
	n := e.kernel.NextNumber("Members")
	id := kernel.FormatUUID(e.kernel.ResourceID("member", n))
	detail, err := json.Marshal(map[string]any{
		"StatusCode": "InProgress", "AutoScalingGroupName": g.Name, "ActivityId": id, "RequestId": id,
		"Description": verb + m.EC2, "EC2InstanceId": m.EC2, "Details": map[string]string{"Availability Zone": m.Zone},
		"StatusMessage": "", "Cause": "", "Origin": from, "Destination": to,
	})
	if err == nil { // it never fails for strings
		e.kernel.EmitEvent(kernel.Event{
			Source: e.eventSource, DetailType: kind, ARN: e.groupARN(g.Name), Version: n, At: now,
		}, detail)
	}
}

// terminating is the one transition whose hooks are simulated.
const terminating = "autoscaling:EC2_INSTANCE_TERMINATING"

// actionToken returns the LifecycleActionToken of a termination, which names it in calls instead of
// the instance. It is derived, so that it need not be stored.
func actionToken(hook, ec2 string) string {
	return kernel.FormatUUID(cluster.Digest("lifecycle", hook, ec2))
}
