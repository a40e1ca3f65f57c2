package handler

import (
	"io"
	"log/slog"
	"time"
)

// Settings are the numbers that an installation may change; template.yaml has a parameter for each.
type Settings struct {
	// Settle is how long after a StartTask of unknown outcome ECS's lists are believed.
	Settle time.Duration
	// RestartDelay is how long a service waits after a task that never ran.
	RestartDelay time.Duration
	// KeepStopped is how long stopped tasks and gone instances stay visible.
	KeepStopped time.Duration
	// KeepRequests is how long a clientToken is remembered.
	KeepRequests time.Duration
	// ProvisioningLimit is the most tasks of one cluster that wait for an instance (C4).
	ProvisioningLimit int
	// RequestWait is how long RunTask waits for an answer; RequestPoll how often it looks.
	RequestWait, RequestPoll time.Duration
	// StartRate and StartBurst are the calls per second that StartTask and StopTask share in this account and Region.
	StartRate, StartBurst float64
	// Recheck is how soon an instance that is not available is looked at again; it doubles up to RecheckMax.
	Recheck, RecheckMax time.Duration
}

// DefaultSettings are those of template.yaml's defaults.
func DefaultSettings() Settings {
	return Settings{
		Settle: time.Minute, RestartDelay: 10 * time.Second, KeepStopped: time.Hour, KeepRequests: 24 * time.Hour,
		ProvisioningLimit: 100, RequestWait: 5 * time.Second, RequestPoll: 50 * time.Millisecond,
		StartRate: 40, StartBurst: 100, Recheck: time.Minute, RecheckMax: 10 * time.Minute,
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
