package handler

import (
	"io"
	"log/slog"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
)

// Settings are the values that an installation may change. template.yaml has a parameter for each.
type Settings struct {
	decide.Settings
	// Settle is how long after a StartTask with an unknown outcome ECS's lists can be trusted.
	Settle time.Duration
	// ServiceLimit is how many services a cluster can have (ECS quota "Services per cluster").
	ServiceLimit int
	// ProvisioningTimeout is how long a task of RunTask waits for its capacity provider to scale
	// out (C4); 0 means without limit.
	ProvisioningTimeout time.Duration
	// ScalingNamespace is where managed scaling publishes its metric (C1).
	ScalingNamespace string
	// RequestWait is how long RunTask waits for placement's answer, RequestPoll the pause between
	// two reads.
	RequestWait, RequestPoll time.Duration
	// StartRate and StartBurst size the token bucket of StartTask and StopTask calls in this
	// account and Region: tokens per second, and the most that it holds.
	StartRate, StartBurst float64
	// Installation names this installation of Berth: the stack, or "berth" on the embedded tier. It
	// is the value of [OwnerTag] on the Auto Scaling groups that it may change.
	Installation string
	// UpgradeDomainWait is how long an update of nodes waits after each upgrade domain before it
	// checks health and begins the next (N7).
	UpgradeDomainWait time.Duration
	// ChangeSetsFrom is how many instances and tasks a cluster with capacity providers has when
	// placement begins to write change sets. To read a smaller one anew costs less than the sets.
	ChangeSetsFrom int
}

// DefaultSettings returns the defaults of template.yaml.
func DefaultSettings() Settings {
	return Settings{
		Settings: decide.Settings{
			KeepStopped: time.Hour, KeepRequests: 24 * time.Hour, ProvisioningLimit: 100,
			DisconnectTimeout: 10 * time.Minute, MaxUnhealthyPercent: 50,
			BackoffLadder: []time.Duration{time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute},
			StabilizeFor:  40 * time.Second, RestartGap: 10 * time.Second, ReplacePercent: 20,
			RetryInterval: time.Minute, RetryIntervalMax: 10 * time.Minute,
		},
		Settle: time.Minute, ServiceLimit: 5000, ProvisioningTimeout: 30 * time.Minute,
		ScalingNamespace: cluster.DefaultScalingSpace, RequestWait: 5 * time.Second,
		RequestPoll: 50 * time.Millisecond, StartRate: 40, StartBurst: 100, UpgradeDomainWait: 2 * time.Minute,
		ChangeSetsFrom: 200,
	}
}

// MaxWake is the longest delay of a message in SQS.
const MaxWake = 900 * time.Second

// Logger returns l, or a logger that discards everything where l is nil.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return l
}
