package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/state"
)

// minBakeTime is the bake time of alarms that do not say how long they need to notice something. It
// lasts one round of this function.
const minBakeTime = time.Minute

// checkAlarms records the alarms of a cluster's deployments in progress. fired limits it to the
// deployments that watch one of these alarms; nil means all.
func (h *Handler) checkAlarms(
	ctx context.Context, name string, list *watchList, fired map[string]*awsevent.Alarm,
) error {
	services, err := h.deployingServices(ctx, name, list)
	if err != nil {
		return err
	}
	services = slices.DeleteFunc(services, func(s *cluster.Service) bool {
		return fired != nil && !slices.ContainsFunc(s.Alarms.Names, func(n string) bool { return fired[n] != nil })
	})
	var names []string
	for _, s := range services {
		names = append(names, s.Alarms.Names...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	got, err := h.Alarms.DescribeAlarms(ctx, slices.Compact(names))
	if err != nil {
		return fmt.Errorf("describing alarms: %w", err)
	}
	alarms := make(map[string]cluster.Alarm, len(got))
	for _, a := range got {
		alarms[a.Name] = a
	}
	var failed []error
	for _, s := range services {
		failed = append(failed, cluster.Wrap(h.recordAlarms(ctx, s, addFired(s, alarms, fired)),
			"watching the alarms of service %s", s.Name))
	}
	return errors.Join(failed...)
}

// addFired returns the alarms with those in ALARM that have fired since the service's deployment began, or were
// still firing then, though they may be OK again. Events come late and twice: one of an alarm that was OK again
// before says nothing about the deployment.
func addFired(
	s *cluster.Service, alarms map[string]cluster.Alarm, fired map[string]*awsevent.Alarm,
) map[string]cluster.Alarm {
	out := maps.Clone(alarms)
	for name, f := range fired {
		began := s.Deployment.CreatedAt
		if a, here := out[name]; here && !a.InAlarm && (f.At.After(began) || a.Since.After(began)) {
			a.InAlarm, a.Since = true, f.At
			out[name] = a
		}
	}
	return out
}

// deployingServices returns the services with alarms whose deployment is in progress.
func (h *Handler) deployingServices(ctx context.Context, name string, list *watchList) ([]*cluster.Service, error) {
	var out []*cluster.Service
	for _, service := range list.alarmed {
		s, err := state.ReadRow[*cluster.Service](ctx, h.State, state.ServiceKey(name, service), "service "+service)
		if err != nil {
			return nil, err
		}
		if s != nil && isDeploying(s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// isDeploying reports whether alarms can still fail the service's deployment: until it is
// completed, which includes the bake time.
func isDeploying(s *cluster.Service) bool {
	return s.Status == cluster.ServiceActive && s.Alarms.Enable && len(s.Alarms.Names) > 0 &&
		(s.Deployment.State == "" || s.Deployment.State == cluster.RolloutInProgress)
}

// recordAlarms writes what is seen of a deployment's alarms, if it has changed.
func (h *Handler) recordAlarms(ctx context.Context, s *cluster.Service, alarms map[string]cluster.Alarm) error {
	return state.RetryRaces(ctx, h.Clock, "writing the alarm watch of service "+s.Name, func() error {
		old, err := state.ReadRow[*cluster.AlarmWatch](
			ctx, h.State, state.AlarmWatchKey(s.Cluster, s.Short), "the alarm watch")
		if err != nil {
			return err
		}
		next := assessAlarms(s, old, alarms)
		if old != nil {
			if equalWatch(old, next) {
				return nil
			}
			next.Rev = old.Rev
		}
		next.Rev++
		_, err = h.State.Write(ctx, state.Write{Put: next})
		return cluster.Wrap(err, "writing the alarm watch")
	})
}

func equalWatch(a, b *cluster.AlarmWatch) bool {
	return a.Deployment == b.Deployment && a.Ignored == b.Ignored && a.Bake == b.Bake && a.Expires == b.Expires &&
		slices.Equal(a.InAlarm, b.InAlarm) && slices.Equal(a.Missing, b.Missing)
}

// assessAlarms returns what is known of a deployment's alarms.
//
// An alarm that was in ALARM when the deployment began makes all of them ignored, as with ECS (S8):
// they cannot tell whether this deployment is at fault. An alarm that fires later counts for the
// rest of the deployment, even if it is OK again. InAlarm has both.
func assessAlarms(s *cluster.Service, old *cluster.AlarmWatch, alarms map[string]cluster.Alarm) *cluster.AlarmWatch {
	next := &cluster.AlarmWatch{
		Head: cluster.Head{Cluster: s.Cluster}, Owner: s.Short, Service: s.Name, Deployment: s.Deployment.ID,
		Bake: minBakeTime,
	}
	first := old == nil || old.Deployment != s.Deployment.ID
	if !first {
		next.Ignored, next.InAlarm, next.Since = old.Ignored, slices.Clone(old.InAlarm), old.Since
	}
	for _, name := range s.Alarms.Names {
		a, here := alarms[name]
		if !here {
			next.Missing = append(next.Missing, name)
			continue
		}
		next.Bake = max(next.Bake, a.Window)
		if !a.InAlarm {
			continue
		}
		// The first check may come a minute after the deployment began: long enough for an alarm to
		// fire because of it, so its own time decides.
		switch before := !a.Since.After(s.Deployment.CreatedAt); {
		case before && first:
			next.Ignored = true
		case before && !a.Since.IsZero():
			continue // it was OK when the deployment was first looked at
		}
		if !slices.Contains(next.InAlarm, name) {
			next.InAlarm = append(next.InAlarm, name)
			if !a.Since.IsZero() && (next.Since.IsZero() || a.Since.Before(next.Since)) {
				next.Since = a.Since
			}
		}
	}
	slices.Sort(next.InAlarm)
	slices.Sort(next.Missing)
	return next
}
