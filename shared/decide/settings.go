package decide

import (
	"time"

	"berth/shared/service"
)

// KeepHistory is how long service deployments and revisions are kept (ECS Developer Guide, "Service
// deployments").
const KeepHistory = 90 * 24 * time.Hour

// Limits returns the settings that bound what a decision about one service does.
func (s *Settings) Limits() service.Limits {
	return service.Limits{BackoffLadder: s.BackoffLadder, StabilizeFor: s.StabilizeFor, RestartGap: s.RestartGap,
		ReplacePercent: s.ReplacePercent, RetryRefused: s.RetryInterval, RetryRefusedMax: s.RetryIntervalMax}
}

// Settings are the installation's settings for decisions about services, tasks and requests.
// docs/settings.md has the parameters that set them, and their defaults.
type Settings struct {
	// KeepStopped is how long stopped tasks and deregistered instances stay visible.
	KeepStopped time.Duration
	// KeepRequests is how long a clientToken is remembered.
	KeepRequests time.Duration
	// ProvisioningLimit is how many tasks of a cluster may wait for an instance. Tasks with a
	// capacity provider strategy and tasks without are counted apart (C4).
	ProvisioningLimit int
	// DisconnectTimeout is how long an instance's agent may be disconnected before its tasks are
	// replaced elsewhere (S11).
	DisconnectTimeout time.Duration
	// MaxUnhealthyPercent is the percentage of unhealthy tasks, of all RUNNING ones with a health
	// check, above which the checks are distrusted and no task is replaced for them (S6).
	MaxUnhealthyPercent int
	// PublishEvents also sends service events to the event bus (S12). Each event costs money.
	PublishEvents bool
	// ProviderFallback is how long a task waits for its capacity provider before it may use another
	// one of its strategy (S14); 0: for ever.
	ProviderFallback time.Duration
	// BackoffLadder is how long starts of a revision are held back after the first, second, ...
	// failed attempt in a row (S7).
	BackoffLadder []time.Duration
	// StabilizeFor is how long a task without health checks must be RUNNING to count as healthy.
	StabilizeFor time.Duration
	// RestartGap is how long after a task started its replacement may start (S6).
	RestartGap time.Duration
	// ReplacePercent is how many percent of a service's tasks may be replaced at once for being
	// unhealthy (S6).
	ReplacePercent int
	// RetryInterval is how long after the first question ECS is asked again about an instance that is not
	// available, and how soon a service tries an instance again on which ECS refused its task. It doubles each
	// time, up to RetryIntervalMax.
	RetryInterval, RetryIntervalMax time.Duration
}
