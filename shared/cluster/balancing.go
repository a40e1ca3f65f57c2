package cluster

import "time"

// Address is where a target group or Cloud Map finds a task: an EC2 instance id or an IP address,
// and a port there; 0 is none, which only Cloud Map allows.
type Address struct {
	Host string
	Port int
}

// TargetHealth is what a load balancer or Cloud Map says of a task's address, and why, in its own
// words. What is being looked at for the first time, is being taken out, or that nobody looks at,
// is of unknown health.
type TargetHealth struct {
	Health Health
	Reason string
}

// Binding is a host port that a container's port can be reached at.
type Binding struct {
	Container     string
	ContainerPort int
	HostPort      int
	Protocol      Protocol
}

// Alarm is a CloudWatch alarm, as CloudWatch describes it.
type Alarm struct {
	Name    string
	InAlarm bool
	// Since is when it got into its state; zero where CloudWatch does not say.
	Since time.Time
	// Window is how long it takes it to see something: period × evaluation periods, 0 for a
	// composite alarm.
	Window time.Duration
}
