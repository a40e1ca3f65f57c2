package decide

import (
	"time"

	service "berth/shared/service"
)

// KeepHistory is how long service deployments and revisions can be looked up (ECS Developer Guide,
// "Service deployments").
const KeepHistory = 90 * 24 * time.Hour

// Limits are the settings that bound what a decision about a service does.
func (s *Settings) Limits() service.Limits {
	return service.Limits{BackoffLadder: s.Ladder, StabilizeFor: s.SettleHealthy, RestartGap: s.RestartGap,
		ReplacePercent: s.Wave, RetryRefused: s.Recheck, RetryRefusedMax: s.RecheckMax}
}

// Settings are the numbers that decisions about services, tasks and requests rest on.
type Settings struct {
	// KeepStopped is how long stopped tasks and gone instances stay visible.
	KeepStopped time.Duration
	// KeepRequests is how long a clientToken is remembered.
	KeepRequests time.Duration
	// ProvisioningLimit is the most tasks of one cluster with a capacity provider strategy that
	// wait for an instance, and the most without one (C4).
	ProvisioningLimit int
	// LostAfter is how long an instance's agent may stay disconnected before its tasks are replaced
	// elsewhere (S11).
	LostAfter time.Duration
	// UnhealthyShare is the percentage of the cluster's RUNNING tasks with a health check above
	// which none is replaced for being unhealthy: then the checks are more likely to be wrong (S6).
	UnhealthyShare int
	// PublishEvents sends service events to the event bus, too (S12); each costs money.
	PublishEvents bool
	// ProviderFallback is how long a task waits for its capacity provider before the next one may
	// have it (S14); 0: for ever.
	ProviderFallback time.Duration
	// Ladder is how long the starts of a revision are held back after the first, second ... attempt
	// in a row that failed (S7).
	Ladder []time.Duration
	// SettleHealthy is how long a task without a health check has to be RUNNING to count as
	// healthy.
	SettleHealthy time.Duration
	// RestartGap is how long after its predecessor started a task that takes its place may start
	// (S6).
	RestartGap time.Duration
	// Wave is how many percent of a service's tasks are replaced at once for being unhealthy (S6).
	Wave int
	// Recheck is how soon an instance that is not available, or on which ECS has refused a
	// service's task, is looked at again; it doubles up to RecheckMax.
	Recheck, RecheckMax time.Duration
}
