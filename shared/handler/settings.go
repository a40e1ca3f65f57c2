package handler

import (
	"io"
	"log/slog"
	"time"

	"berth/shared/cluster"
)

// DecisionSettings are the numbers that decisions about services, tasks and requests rest on.
type DecisionSettings struct {
	// KeepStopped is how long stopped tasks and gone instances stay visible.
	KeepStopped time.Duration
	// KeepRequests is how long a clientToken is remembered.
	KeepRequests time.Duration
	// ProvisioningLimit is the most tasks of one cluster with a capacity provider strategy that wait for an instance, and the most
	// without one (C4).
	ProvisioningLimit int
	// LostAfter is how long an instance's agent may stay disconnected before its tasks are replaced elsewhere (S11).
	LostAfter time.Duration
	// UnhealthyShare is the percentage of the cluster's RUNNING tasks with a health check above which none is replaced
	// for being unhealthy: then the checks are more likely to be wrong (S6).
	UnhealthyShare int
	// PublishEvents sends service events to the event bus, too (S12); each costs money.
	PublishEvents bool
	// ProviderFallback is how long a task waits for its capacity provider before the next one may have it (S14); 0: for ever.
	ProviderFallback time.Duration
	// Ladder is how long the starts of a revision are held back after the first, second ... attempt in a row that failed (S7).
	Ladder []time.Duration
	// SettleHealthy is how long a task without a health check has to be RUNNING to count as healthy.
	SettleHealthy time.Duration
	// RestartGap is how long after its predecessor started a task that takes its place may start (S6).
	RestartGap time.Duration
	// Wave is how many percent of a service's tasks are replaced at once for being unhealthy (S6).
	Wave int
	// Recheck is how soon an instance that is not available, or on which ECS has refused a service's task, is looked at again;
	// it doubles up to RecheckMax.
	Recheck, RecheckMax time.Duration
}

// Settings are the numbers that an installation may change; template.yaml has a parameter for each.
type Settings struct {
	DecisionSettings
	// Settle is how long after a StartTask of unknown outcome ECS's lists are believed.
	Settle time.Duration
	// ServiceLimit is the most services of one cluster (quota "Services per cluster" of ECS).
	ServiceLimit int
	// ProvisioningTimeout is how long a task of RunTask waits for a capacity provider to be scaled out (C4); 0: for ever.
	ProvisioningTimeout time.Duration
	// ScalingNamespace is where managed scaling publishes its metric (C1).
	ScalingNamespace string
	// RequestWait is how long RunTask waits for an answer; RequestPoll how often it looks.
	RequestWait, RequestPoll time.Duration
	// StartRate and StartBurst are the calls per second that StartTask and StopTask share in this account and Region.
	StartRate, StartBurst float64
	// UpgradeDomainWait is how long an update of nodes waits after each upgrade domain before it looks whether anything is
	// unhealthy and begins the next (N7).
	UpgradeDomainWait time.Duration
}

// DefaultSettings are those of template.yaml's defaults.
func DefaultSettings() Settings {
	return Settings{
		DecisionSettings: DecisionSettings{
			KeepStopped: time.Hour, KeepRequests: 24 * time.Hour, ProvisioningLimit: 100, LostAfter: 10 * time.Minute, UnhealthyShare: 50,
			Ladder:        []time.Duration{time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute},
			SettleHealthy: 40 * time.Second, RestartGap: 10 * time.Second, Wave: 20, Recheck: time.Minute, RecheckMax: 10 * time.Minute,
		},
		Settle: time.Minute, ServiceLimit: 5000, ProvisioningTimeout: 30 * time.Minute, ScalingNamespace: cluster.DefaultScalingSpace,
		RequestWait: 5 * time.Second, RequestPoll: 50 * time.Millisecond, StartRate: 40, StartBurst: 100, UpgradeDomainWait: 2 * time.Minute,
	}
}

// maxRaces bounds how often a lost race is run again before the event is left to redelivery.
const maxRaces = 20

// MaxWake is the longest delay of a queue's message.
const MaxWake = 900 * time.Second

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return l
}
