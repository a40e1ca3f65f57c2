package cluster

import (
	"slices"
	"time"
)

// Target is where a RUNNING task is registered: with target groups and in Cloud Map (S9). Placement writes the row to
// have it registered, dispatch what came of that, health-check what is seen of its health. It is deleted when the task
// has ended.
type Target struct {
	Head
	Task          string         `json:"id"`
	Owner         string         `json:"o"`
	Service       string         `json:"sv"` // name
	Registrations []Registration `json:"rg"`
	// RegistrationEmitted reports that the service's events have the registration, DrainEmitted that they have its end.
	RegistrationEmitted bool `json:"to,omitempty"`
	DrainEmitted        bool `json:"td,omitempty"`
}

// Registration is a task in one target group or Cloud Map service.
type Registration struct {
	// ARN is the target group's or the Cloud Map service's; Registry tells which.
	ARN      string `json:"ar"`
	Registry bool   `json:"rg,omitempty"`
	// Container and ContainerPort say which port of the task; of a Cloud Map service without SRV records none.
	Container     string `json:"cn,omitempty"`
	ContainerPort int    `json:"cp,omitempty"`
	// Address is what was registered: an EC2 instance id, or an IP address; Port the port there.
	Address string            `json:"ad,omitempty"`
	Port    int               `json:"po,omitempty"`
	State   RegistrationState `json:"st,omitempty"`
	// Health is what the load balancer or Cloud Map last said of it, unknown before (initial), Reason why.
	Health Health `json:"he,omitempty"`
	Reason string `json:"rs,omitempty"`
	// DrainedAt is when the deregistration delay of a target that was taken out is over.
	DrainedAt time.Time `json:"dr,omitzero"`
}

// RegistrationState is how far a registration is; empty while it is wanted and nothing was done.
type RegistrationState string

// The states of a registration.
const (
	Registered   RegistrationState = "REGISTERED"
	Deregistered RegistrationState = "DEREGISTERED"
	// RegistrationFailed: the target group does not exist, or refuses the task. Reason says why. It is tried again every few
	// minutes while there is such a target group.
	RegistrationFailed RegistrationState = "FAILED"
)

// Health is the worst that is known of the task's registrations: Unhealthy where any is, Healthy where all are.
func (t *Target) Health() Health {
	worst := Healthy
	for _, r := range t.Registrations {
		switch {
		case r.Health == Unhealthy:
			return Unhealthy
		case r.Health != Healthy || r.State != Registered:
			worst = UnknownHealth
		}
	}
	return worst
}

// Failed reports whether a registration of the task was refused; false for a nil target.
func (t *Target) Failed() bool {
	return t != nil && slices.ContainsFunc(t.Registrations, func(r Registration) bool { return r.State == RegistrationFailed })
}

// Open reports whether a registration has yet to be made.
func (t *Target) Open() bool {
	return slices.ContainsFunc(t.Registrations, func(r Registration) bool { return r.State == "" })
}

// Key is the row's.

// TargetKey names the row of a task's registrations.

// Protection keeps a service's task from being stopped until a time (UpdateTaskProtection of the ECS API).
type Protection struct {
	Head
	Task  string    `json:"id"`
	Owner string    `json:"o"`
	Until time.Time `json:"un"`
}

// Key is the row's.

// ProtectionKey names the row of a task's protection.

// Throttle says how the starts of a service's revisions are slowed down (S7); written by throttling alone.
type Throttle struct {
	Head
	Owner     string             `json:"o"`
	Service   string             `json:"sv"` // name
	Revisions map[string]Backoff `json:"bo"` // by deployment id
}

// Backoff is how far up the ladder of delays a revision is.
type Backoff struct {
	// Step is the number of attempts in a row that failed, Failures that of the tasks.
	Step     int `json:"st"`
	Failures int `json:"fa,omitempty"`
	// Earlier are those of the failures that are counted for good: of tasks that stopped until Settled. Later ones are counted
	// anew each time, as reports come late.
	Earlier int       `json:"fe,omitempty"`
	Settled time.Time `json:"fs,omitzero"`
	// Since is when the attempt that failed last had STOPPED; NextAttemptAt is when the next may start.
	Since         time.Time `json:"si"`
	NextAttemptAt time.Time `json:"na"`
	// Reason is why the task stopped.
	Reason string `json:"rs,omitempty"`
}

// Key is the row's.

// ThrottleKey names the row of a service's throttle, by its short key.

// AlarmWatch is what health-check saw of a deployment's alarms; written by it alone.
type AlarmWatch struct {
	Head
	Owner      string `json:"o"`
	Service    string `json:"sv"` // name
	Deployment string `json:"dp"` // id: what was seen of an earlier one says nothing
	// Ignored reports that an alarm was in ALARM when the deployment began: then none counts for it (S8).
	Ignored bool     `json:"ig,omitempty"`
	InAlarm []string `json:"ia,omitempty"`
	// Missing are those that CloudWatch does not have: they protect nothing.
	Missing []string `json:"mi,omitempty"`
	// Bake is how long they are watched once the deployment is scaled out: the longest period × evaluation periods.
	Bake time.Duration `json:"bk,omitempty"`
}

// Key is the row's.

// AlarmWatchKey names the row of what was seen of a service's alarms, by its short key.
