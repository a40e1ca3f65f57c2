package healthcheck

import (
	"context"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A watchList is what the function remembers of a cluster: what it has to ask about, as of a placement version.
// A deployment that begins moves the version, which makes the list stale.
type watchList struct {
	short   string // of the cluster: one that is created again may have the same name and version
	version int64
	alarmed []string                   // names of services that watch alarms
	checked map[string]*checkedService // by short name
	// lookedAt is when this environment last asked about the tasks, next the one to begin with.
	lookedAt time.Time
	next     string
}

// forgetTasks makes all tasks be read again.
func (l *watchList) forgetTasks() {
	for _, s := range l.checked {
		s.isComplete = false
	}
}

// update replaces the rows of tasks by those that were written, and makes the tasks of services with stale rows be
// read again.
func (l *watchList) update(written, stale []*cluster.Task) {
	for _, t := range written {
		l.checked[t.Owner].tasks[t.ECSID] = t
	}
	for _, t := range stale {
		l.checked[t.Owner].isComplete = false
	}
}

// readWatchList returns the list of a cluster, nil if there is no cluster of the name. It lists all services only
// if the cluster's placement version has moved since the last time.
func (h *Handler) readWatchList(ctx context.Context, name string) (*watchList, error) {
	row, err := h.State.Peek(ctx, state.Key{Cluster: name, Sort: state.PrefixMeta})
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	meta, ok := row.(*state.Meta)
	if !ok || meta == nil {
		return nil, nil
	}
	before := h.watched[name]
	if before == nil || before.short != meta.Short {
		before = &watchList{short: meta.Short, version: -1}
	}
	if before.version == meta.Version {
		return before, nil
	}
	list, err := h.newWatchList(ctx, name, meta.Version, before)
	if err != nil {
		return nil, err
	}
	if h.watched == nil {
		h.watched = map[string]*watchList{}
	}
	h.watched[name] = list
	return list, nil
}

// newWatchList lists all services, and lets the alarm watches of those without alarms expire. What the list before
// has of services whose rows have not changed since is still true.
func (h *Handler) newWatchList(
	ctx context.Context, name string, version int64, before *watchList,
) (*watchList, error) {
	services, err := state.ListRows[*cluster.Service](ctx, h.State, state.Prefix(name, state.PrefixService), "services")
	if err != nil {
		return nil, err
	}
	list, alarmed := &watchList{short: before.short, version: version, checked: map[string]*checkedService{},
		lookedAt: before.lookedAt, next: before.next}, map[string]bool{}
	for _, s := range services {
		if s.Status == cluster.ServiceInactive {
			continue
		}
		if s.Alarms.Enable && len(s.Alarms.Names) > 0 {
			alarmed[s.Short] = true
			list.alarmed = append(list.alarmed, s.Name)
		}
		checked, err := h.hasHealthCheck(ctx, s)
		if err != nil {
			return nil, err
		}
		if checked {
			known := before.checked[s.Short]
			if known == nil || known.rev != s.Rev {
				known = &checkedService{rev: s.Rev}
			}
			list.checked[s.Short] = known
		}
	}
	return list, h.expireWatches(ctx, name, alarmed)
}

// hasHealthCheck reports whether a task definition of the service's deployments or task sets has a health check.
func (h *Handler) hasHealthCheck(ctx context.Context, s *cluster.Service) (bool, error) {
	for _, revision := range s.Revisions() {
		if revision.TaskDefinition == "" {
			continue
		}
		checked, err := h.definitions.IsChecked(ctx, h.State, s.Cluster, revision.TaskDefinition)
		if checked || err != nil {
			return checked, err
		}
	}
	return false, nil
}

// expireWatches lets the alarm watches of services without alarms expire.
func (h *Handler) expireWatches(ctx context.Context, name string, alarmed map[string]bool) error {
	watches, err := state.ListRows[*cluster.AlarmWatch](
		ctx, h.State, state.Prefix(name, state.PrefixAlarms), "alarm watches")
	if err != nil {
		return err
	}
	for _, w := range watches {
		if !alarmed[w.Owner] && w.Expires == 0 {
			next := *w
			next.Rev++
			next.Expires = h.Clock.Now().Add(h.Settings.KeepStopped).Unix()
			if _, err := h.State.Write(ctx, state.Write{Put: &next}); state.IgnoreConflict(err) != nil {
				return fmt.Errorf("expiring an alarm watch: %w", err)
			}
		}
	}
	return nil
}
