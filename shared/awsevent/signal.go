package awsevent

import (
	"time"

	"berth/shared/cluster"
)

// Alarm is a CloudWatch alarm that changed its state: OK, ALARM or INSUFFICIENT_DATA.
type Alarm struct {
	Name     string
	State    string
	Previous string
	Reason   string
	At       time.Time
}

// Lifecycle is a lifecycle action: an Auto Scaling group waits, because of a hook, before it puts
// an instance into service or terminates it.
type Lifecycle struct {
	Group         string
	Hook          string
	EC2InstanceID string
	Token         string
	Transition    string // autoscaling:EC2_INSTANCE_LAUNCHING or autoscaling:EC2_INSTANCE_TERMINATING
	Metadata      string
	Origin        string
	Destination   string
}

// IsTerminating reports whether the instance is leaving the group, rather than entering it.
func (l *Lifecycle) IsTerminating() bool { return l.Transition == terminating }

const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// GroupMember is an instance that has come into service in an Auto Scaling group, or was terminated
// there.
type GroupMember struct {
	Group         string
	EC2InstanceID string
}

// SpotWarning is EC2's notice that it interrupts a Spot instance in two minutes, or that an
// interruption has become more likely (a rebalance recommendation).
type SpotWarning struct {
	EC2InstanceID string
	Action        string // terminate, stop or hibernate; empty for a recommendation
}

// Schedule is a schedule that fired, by the name in {"schedule": NAME} or that of its rule.
type Schedule struct{ Name string }

// readAlarm reads an alarm's state (CloudWatch User Guide, "Alarm events and EventBridge").
func readAlarm(e *envelope) (any, error) {
	type state struct {
		Value     string `json:"value"`
		Reason    string `json:"reason"`
		Timestamp string `json:"timestamp"`
	}
	var d struct {
		Name     string `json:"alarmName"`
		State    state  `json:"state"`
		Previous state  `json:"previousState"`
	}
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	switch d.State.Value {
	case "OK", "ALARM", "INSUFFICIENT_DATA":
	default:
		return nil, malformed(e.DetailType, "state.value %.40q", d.State.Value)
	}
	if d.Name == "" {
		return nil, malformed(e.DetailType, "alarmName is missing")
	}
	// CloudWatch writes +0000 without a colon, unlike RFC 3339
	at, err := time.Parse("2006-01-02T15:04:05.999Z0700", d.State.Timestamp)
	if err != nil {
		if at, err = time.Parse(time.RFC3339Nano, d.State.Timestamp); err != nil {
			return nil, malformed(e.DetailType, "state.timestamp %.40q", d.State.Timestamp)
		}
	}
	return &Alarm{
		Name: d.Name, State: d.State.Value, Previous: d.Previous.Value, Reason: d.State.Reason, At: at.UTC(),
	}, nil
}

// readLifecycle reads a lifecycle action (Auto Scaling User Guide, "Create EventBridge rules").
// Token, group, hook and instance are needed to complete it.
func readLifecycle(e *envelope) (any, error) {
	var d struct {
		Token       string `json:"LifecycleActionToken"`
		Group       string `json:"AutoScalingGroupName"`
		Hook        string `json:"LifecycleHookName"`
		Instance    string `json:"EC2InstanceId"`
		Transition  string `json:"LifecycleTransition"`
		Metadata    string `json:"NotificationMetadata"`
		Origin      string `json:"Origin"`
		Destination string `json:"Destination"`
	}
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value string }{
		{"LifecycleActionToken", d.Token}, {"AutoScalingGroupName", d.Group}, {"LifecycleHookName", d.Hook},
		{"EC2InstanceId", d.Instance},
	} {
		if f.value == "" {
			return nil, malformed(e.DetailType, "%s is missing", f.name)
		}
	}
	if d.Transition != launching && d.Transition != terminating {
		return nil, malformed(e.DetailType, "LifecycleTransition %.80q", d.Transition)
	}
	return &Lifecycle{
		Group: d.Group, Hook: d.Hook, EC2InstanceID: d.Instance, Token: d.Token, Transition: d.Transition,
		Metadata: d.Metadata, Origin: d.Origin, Destination: d.Destination,
	}, nil
}

// readGroupMember reads a launch or a termination that has succeeded (Auto Scaling User Guide,
// "Amazon EC2 Auto Scaling event reference").
func readGroupMember(e *envelope) (any, error) {
	var d struct {
		Group    string `json:"AutoScalingGroupName"`
		Instance string `json:"EC2InstanceId"`
	}
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	switch {
	case d.Group == "":
		return nil, malformed(e.DetailType, "AutoScalingGroupName is missing")
	case d.Instance == "":
		return nil, malformed(e.DetailType, "EC2InstanceId is missing")
	}
	return &GroupMember{Group: d.Group, EC2InstanceID: d.Instance}, nil
}

// readSpotWarning reads both notices that EC2 sends about a Spot instance; a rebalance
// recommendation has no action.
func readSpotWarning(e *envelope) (any, error) {
	var d struct {
		Instance string `json:"instance-id"`
		Action   string `json:"instance-action"`
	}
	if err := e.readDetail(&d); err != nil {
		return nil, err
	}
	if d.Instance == "" {
		return nil, malformed(e.DetailType, "instance-id is missing")
	}
	return &SpotWarning{EC2InstanceID: d.Instance, Action: d.Action}, nil
}

// readSchedule reads an event of a rule with a schedule expression. Its only resource is the rule's
// ARN.
func readSchedule(e *envelope) (any, error) {
	if len(e.Resources) == 0 {
		return nil, malformed(e.DetailType, "resources is empty")
	}
	return &Schedule{Name: cluster.LastPart(e.Resources[0])}, nil
}
