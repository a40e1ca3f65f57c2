package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/dispatch"
	"berth/shared/state"
)

// Handler is the health-check function: its ports, its settings, and what an execution environment
// remembers.
type Handler struct {
	State         state.Store
	ECS           handler.ECS
	LoadBalancers handler.LoadBalancers
	Registries    handler.Registries
	Alarms        handler.Alarms
	Clock         handler.Clock
	Settings      handler.Settings
	Decoder       awsevent.Decoder
	Log           *slog.Logger
	// Parallel makes calls of ECS at the same time; nil makes one after the other.
	Parallel handler.Parallel
	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry

	rotation    handler.Rotation
	watched     map[string]*watchList // by cluster
	definitions handler.CheckedDefinitions
	retriedAt   map[string]time.Time // when registrations that failed were last tried again, by cluster and ARN
}

// RunSchedule checks every cluster until the invocation's time ends. name must be "health".
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != "health" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected health", name)}
	}
	names, err := state.ClusterNames(ctx, h.State)
	if err != nil {
		return err
	}
	maps.DeleteFunc(h.watched, func(name string, _ *watchList) bool { return !slices.Contains(names, name) })
	return h.rotation.ForEachOf(ctx, names, h.Clock.Now, h.Log, func(name string) error {
		failed := h.checkTargets(ctx, name)
		list, err := h.readWatchList(ctx, name)
		if err != nil || list == nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, h.checkAlarms(ctx, name, list, nil))
		return errors.Join(failed, h.checkContainers(ctx, name, list))
	})
}

// HandleMessages handles questions for the first health of tasks, and events of alarms that changed state. It
// returns the ids of messages to deliver again. An event makes the deployments that watch the alarm be checked at
// once. It also counts by itself: an alarm that fired and is OK again when CloudWatch is asked was in ALARM all
// the same.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	fired := map[string]*awsevent.Alarm{}
	var taken []string
	var waits healthWaits
	for _, m := range messages {
		if w, ok := handler.ParseHealthWait(m.Body); ok {
			waits.add(m, w)
			continue
		}
		alarm, err := h.decodeAlarm(m.Body)
		if err != nil {
			h.Telemetry.CountDropped(handler.DropKind(err.Reason))
			handler.Logger(h.Log).Warn("dropped event", "message", m.ID, "reason", err.Reason)
			continue
		}
		taken = append(taken, m.ID)
		if old := fired[alarm.Name]; alarm.State == alarmState && (old == nil || old.At.Before(alarm.At)) {
			fired[alarm.Name] = alarm
		}
	}
	if err := h.checkFired(ctx, fired); err != nil {
		handler.Logger(h.Log).Error("looking at alarms", "error", err)
		retry = taken
	}
	return append(retry, waits.answer(ctx, h)...)
}

// checkFired looks at the deployments that watch one of the alarms.
func (h *Handler) checkFired(ctx context.Context, fired map[string]*awsevent.Alarm) error {
	if len(fired) == 0 {
		return nil
	}
	return state.ForEachCluster(ctx, h.State, func(name string) error {
		list, err := h.readWatchList(ctx, name)
		if err != nil || list == nil {
			return err
		}
		return h.checkAlarms(ctx, name, list, fired)
	})
}

// alarmState is the state of an alarm that fails deployments.
const alarmState = "ALARM"

// decodeAlarm returns the alarm that an event is about, or why the event is dropped.
func (h *Handler) decodeAlarm(body []byte) (*awsevent.Alarm, *cluster.Drop) {
	e, err := h.Decoder.Decode(body)
	if err != nil {
		var drop *cluster.Drop
		if errors.As(err, &drop) {
			return nil, drop
		}
		return nil, &cluster.Drop{Reason: err.Error()}
	}
	if a, ok := e.Detail.(*awsevent.Alarm); ok {
		return a, nil
	}
	return nil, &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
}

// checkTargets records the health of everything that a cluster's tasks are registered with, by one
// call for each target group and Cloud Map service. Registrations that failed are retried where the
// group or registry exists again.
func (h *Handler) checkTargets(ctx context.Context, name string) error {
	rows, err := h.State.List(ctx, state.Prefix(name, state.PrefixTarget))
	if err != nil {
		return fmt.Errorf("listing registrations: %w", err)
	}
	groups, registry, again := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		if t, ok := row.(*cluster.Target); ok {
			for _, g := range t.Registrations {
				failed := g.State == cluster.RegistrationFailed && (again[g.ARN] || h.shouldRetry(name, g.ARN))
				switch again[g.ARN] = failed || again[g.ARN]; {
				case g.State != cluster.Registered && !failed:
				case g.Registry:
					registry[g.ARN] = true
				default:
					groups[g.ARN] = true
				}
			}
		}
	}
	seen := reportedHealth{groups: map[string]map[cluster.Address]cluster.TargetHealth{},
		registries: map[string]map[string]cluster.TargetHealth{}}
	var failed []error
	for _, arn := range slices.Sorted(maps.Keys(groups)) {
		seen.groups[arn], err = h.LoadBalancers.TargetHealth(ctx, arn)
		failed = append(failed, seen.noteError(arn, err))
	}
	for _, arn := range slices.Sorted(maps.Keys(registry)) {
		seen.registries[arn], err = h.Registries.InstancesHealth(ctx, arn)
		failed = append(failed, seen.noteError(arn, err))
	}
	for _, row := range rows {
		if t, ok := row.(*cluster.Target); ok {
			failed = append(failed, h.recordHealth(ctx, t, &seen))
		}
	}
	return errors.Join(append(failed, h.retryRegistrations(ctx, name, rows,
		func(arn string) bool { return again[arn] && seen.hasAnswered(arn) }))...)
}

// reportedHealth is what load balancers and Cloud Map answered, by ARN. It has nothing for those
// that could not be asked.
type reportedHealth struct {
	groups     map[string]map[cluster.Address]cluster.TargetHealth
	registries map[string]map[string]cluster.TargetHealth
	gone       map[string]bool // these say that they do not exist
}

// noteError records the outcome of asking one group or registry. That it does not exist is an
// answer, not an error.
func (s *reportedHealth) noteError(arn string, err error) error {
	code := cluster.ErrorCode(err)
	gone := code == cluster.CodeTargetGroupNotFound || code == cluster.CodeBalancerNotFound ||
		code == cluster.CodeRegistryNotFound
	if err == nil || gone {
		if err != nil {
			if s.gone == nil {
				s.gone = map[string]bool{}
			}
			s.gone[arn] = true
		}
		return nil
	}
	delete(s.groups, arn)
	delete(s.registries, arn)
	return fmt.Errorf("asking about %s: %w", arn, err)
}

// hasAnswered reports whether the group or registry exists and could be asked.
func (s *reportedHealth) hasAnswered(arn string) bool {
	_, group := s.groups[arn]
	_, registry := s.registries[arn]
	return !s.gone[arn] && (group || registry)
}

// healthOf returns what was reported of a registration. known is false if it was not reported at
// all, here is false if the registration is missing. With a group that no longer exists the health
// is unknown, and the reason says why.
func (s *reportedHealth) healthOf(
	t *cluster.Target, g cluster.Registration,
) (health cluster.TargetHealth, here, known bool) {
	if s.gone[g.ARN] {
		return cluster.TargetHealth{Reason: "it does not exist any more"}, true, true
	}
	if g.Registry {
		of, known := s.registries[g.ARN]
		health, here := of[t.Task]
		// Cloud Map lists an instance some time after it was registered, and reports its health
		// later still, so a missing one is not known to be missing.
		return health, here, known && here
	}
	of, known := s.groups[g.ARN]
	health, here = of[dispatch.TargetAddress(g)]
	return health, here, known
}

// recordHealth writes a task's health if it has changed. A registration that somebody else has
// removed is made again.
func (h *Handler) recordHealth(ctx context.Context, t *cluster.Target, seen *reportedHealth) error {
	lost := false
	change := func(t *cluster.Target) (changed bool) {
		for n := range t.Registrations {
			g := &t.Registrations[n]
			health, here, known := seen.healthOf(t, *g)
			switch {
			case g.State != cluster.Registered || !known:
				continue
			case !here:
				lost = true
				continue
			case g.Health == health.Health && g.Reason == health.Reason:
				continue
			}
			g.Health, g.Reason, changed = health.Health, health.Reason, true
		}
		return changed
	}
	now, err := dispatch.UpdateTarget(ctx, h.State, h.Clock, t, change)
	if err != nil || now == nil || !lost {
		return err
	}
	return h.repairRegistration(ctx, now, seen)
}

// repairRegistration asks dispatch to make those of a task's registrations again that somebody else
// has removed. Both rows change in one commit: the registration counts as missing exactly as long
// as dispatch has it to do.
func (h *Handler) repairRegistration(ctx context.Context, t *cluster.Target, seen *reportedHealth) error {
	handler.Logger(h.Log).Warn("a task was deregistered by somebody else", "cluster", t.Cluster, "task", t.Task)
	next := *t
	next.Registrations = slices.Clone(t.Registrations)
	next.Rev++
	for n := range next.Registrations {
		g := &next.Registrations[n]
		if _, here, known := seen.healthOf(t, *g); g.State == cluster.Registered && known && !here {
			g.State, g.Health, g.Reason = "", cluster.UnknownHealth, "it was deregistered by someone else"
		}
	}
	o := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster, Rev: 1},
		ID:   fmt.Sprintf("%stargets-%s-%d", state.OutboxFirst, t.Task, next.Rev), CreatedAt: h.Clock.Now(),
		Targets: []state.TargetItem{{Owner: t.Owner, ID: t.Task}},
	}
	err := h.State.Commit(ctx, state.Commit{
		Cluster: t.Cluster, Version: state.NoVersion, Writes: []state.Write{{Put: &next}, {Put: o}},
	})
	// the next look is as good
	return cluster.Wrap(state.IgnoreConflict(err), "repairing the registrations of task %s", t.Task)
}
