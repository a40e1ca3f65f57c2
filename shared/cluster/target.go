package cluster

import (
	"slices"
	"time"
)

// Target is where a RUNNING task is registered: with target groups and in Cloud Map (S9). Placement
// writes the row to request the registrations, dispatch records their outcome, and health-check
// their health. The row is deleted once the task has ended and is deregistered.
type Target struct {
	Head
	Task          string         `json:"id"`
	Owner         string         `json:"o"`
	Service       string         `json:"sv"` // name
	Registrations []Registration `json:"rg"`
	// RegistrationEmitted is set once the service's events have reported the registration,
	// DrainEmitted once they have reported its end.
	RegistrationEmitted bool `json:"to,omitempty"`
	DrainEmitted        bool `json:"td,omitempty"`
}

// Registration is a task in one target group, Classic Load Balancer or Cloud Map service.
type Registration struct {
	// ARN names a target group, or a Cloud Map service if Registry is set. A Classic Load Balancer
	// is named by [ClassicBalancer].
	ARN      string `json:"ar"`
	Registry bool   `json:"rg,omitempty"`
	// Container and ContainerPort say which port of the task is meant. A Cloud Map service without
	// SRV records has none.
	Container     string `json:"cn,omitempty"`
	ContainerPort int    `json:"cp,omitempty"`
	// ExternalID is the externalId of the task's task set, for a Cloud Map service.
	ExternalID string `json:"xi,omitempty"`
	// Address is what was registered, an EC2 instance id or an IP address; Port is the port there.
	Address string            `json:"ad,omitempty"`
	Port    int               `json:"po,omitempty"`
	State   RegistrationState `json:"st,omitempty"`
	// Health is what the load balancer or Cloud Map last said, and Reason why. It is unknown at
	// first.
	Health Health `json:"he,omitempty"`
	Reason string `json:"rs,omitempty"`
	// DrainedAt is when the deregistration delay of a deregistered target is over.
	DrainedAt time.Time `json:"dr,omitzero"`
}

// RegistrationState says how far a registration is. It is empty until something was done about it.
type RegistrationState string

// The states of a registration.
const (
	Registered   RegistrationState = "REGISTERED"
	Deregistered RegistrationState = "DEREGISTERED"
	// RegistrationFailed means that the target group does not exist or refuses the task; Reason
	// says why. If the target group exists, it is tried again every few minutes.
	RegistrationFailed RegistrationState = "FAILED"
)

// WorstHealth returns the worst health of the task's registrations: Unhealthy if any is, Healthy
// only if all are.
func (t *Target) WorstHealth() Health {
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

// HasFailedRegistration reports whether a registration of the task was refused. A nil target has
// none.
func (t *Target) HasFailedRegistration() bool {
	return t != nil && slices.ContainsFunc(t.Registrations,
		func(r Registration) bool { return r.State == RegistrationFailed })
}

// HasOpenRegistration reports whether a registration is still outstanding.
func (t *Target) HasOpenRegistration() bool {
	return slices.ContainsFunc(t.Registrations, func(r Registration) bool { return r.State == "" })
}

// Protection keeps the scheduler from stopping a service's task until a time (UpdateTaskProtection
// of the ECS API).
type Protection struct {
	Head
	Task  string    `json:"id"`
	Owner string    `json:"o"`
	Until time.Time `json:"un"`
}

// MaxProtection is how long a protection may last (ECS API, UpdateTaskProtection: 2880 minutes).
const MaxProtection = 48 * time.Hour

// protectionMargin is how much longer a protection may seem to last: the present clock may be behind. A
// protection that lasts too long delays, one that ends too soon loses a task's work.
const protectionMargin = 24 * time.Hour

// IsActive reports whether the protection holds now; nil does not. One that would hold for much longer
// than any can was stored by a clock that had jumped, and is over.
func (p *Protection) IsActive(now time.Time) bool {
	return p != nil && RemainingWait(p.Until, now, MaxProtection+protectionMargin) > 0
}

// ActiveUntil returns when the protection ends; zero if it does not hold now.
func (p *Protection) ActiveUntil(now time.Time) time.Time {
	if !p.IsActive(now) {
		return time.Time{}
	}
	return p.Until
}

// Throttle says how the starts of a service's revisions are slowed down (S7). Only throttling
// writes it.
type Throttle struct {
	Head
	Owner     string             `json:"o"`
	Service   string             `json:"sv"` // name
	Revisions map[string]Backoff `json:"bo"` // by deployment id
}

// Backoff says how far up the ladder of delays a revision is.
type Backoff struct {
	// Step is how many attempts in a row have failed, Failures how many tasks.
	Step     int `json:"st"`
	Failures int `json:"fa,omitempty"`
	// Earlier counts the failures of tasks that stopped until Settled. Later ones are counted anew
	// each time, because reports may come late.
	Earlier int       `json:"fe,omitempty"`
	Settled time.Time `json:"fs,omitzero"`
	// Since is when the last failed attempt stopped, NextAttemptAt when the next may start.
	Since         time.Time `json:"si"`
	NextAttemptAt time.Time `json:"na"`
	// Reason is why the task stopped.
	Reason string `json:"rs,omitempty"`
}

// AlarmWatch is what health-check observed of a deployment's alarms. Only health-check writes it.
type AlarmWatch struct {
	Head
	Owner      string `json:"o"`
	Service    string `json:"sv"` // name
	Deployment string `json:"dp"` // id; observations of an earlier deployment do not count
	// Ignored is set if an alarm was in ALARM when the deployment began. Then no alarm can fail it
	// (S8).
	Ignored bool `json:"ig,omitempty"`
	// InAlarm are the alarms that are or were in ALARM during the deployment.
	InAlarm []string `json:"ia,omitempty"`
	// Since is when the first of InAlarm entered ALARM, zero if unknown.
	Since time.Time `json:"si,omitzero"`
	// Missing are the alarms that CloudWatch does not have. They protect nothing.
	Missing []string `json:"mi,omitempty"`
	// Bake is how long alarms are watched once all tasks of the deployment run: the longest period
	// × evaluation periods.
	Bake time.Duration `json:"bk,omitempty"`
}
