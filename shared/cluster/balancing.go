package cluster

import "time"

// Address is where a target group or Cloud Map finds a task: an EC2 instance id or an IP address,
// and a port there. Cloud Map allows port 0 for none, and a Classic Load Balancer has no others.
type Address struct {
	Host string
	Port int
	// ExternalID is the externalId of the task's task set, which only Cloud Map is given.
	ExternalID string
}

// TargetHealth is what a load balancer or Cloud Map says about a task's address, and why, in its
// own words. The health is unknown while a target is checked for the first time, is being
// deregistered, or is not checked.
type TargetHealth struct {
	Health Health
	Reason string
}

// Binding is a host port that leads to a container's port.
type Binding struct {
	Container     string
	ContainerPort int
	HostPort      int
	Protocol      Protocol
}

// Alarm is a CloudWatch alarm.
type Alarm struct {
	Name    string
	InAlarm bool
	// Since is when the alarm entered its state, zero if unknown.
	Since time.Time
	// Window is how long the alarm takes to fire: period × evaluation periods. It is 0 for a
	// composite alarm.
	Window time.Duration
}
