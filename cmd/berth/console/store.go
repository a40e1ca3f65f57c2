package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// StoreSource reads an embedded Berth's store. It follows the changes of the clusters that pages
// show, so that a page does not load a cluster again. A cluster that no page asks for is dropped.
type StoreSource struct {
	Store state.Store
	// CapacityRows and Groups read what the cluster's instances come from.
	CapacityRows func(ctx context.Context, clusterName string) ([]state.Row, error)
	Groups       func(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error)
	// FailedLaunches reads why a group is smaller than desired.
	FailedLaunches whatif.LaunchReader
	// DeadLetters lists the dead-letter queues that have messages; nil for none.
	DeadLetters func(ctx context.Context) ([]operation.DeadLetters, error)
	Clock       func() time.Time
	// DisconnectTimeout is the installation's.
	DisconnectTimeout time.Duration
	// Idle is how long a cluster is followed after the last page asked for it; 0 is a minute.
	Idle time.Duration

	active   atomic.Bool // some cluster is followed
	mu       sync.Mutex
	followed map[string]*followedCluster
}

// followedCluster is a cluster that a page shows.
type followedCluster struct {
	mu       sync.Mutex // held while snapshot and report are used
	snapshot *snapshot.Snapshot
	capacity *whatif.Capacity
	report   *problem.Report
	balance  Balance
	events   allEvents
	reported uint64        // generation of the report
	madeAt   time.Time     // of the report, on the machine's clock
	took     time.Duration // to make it

	// The rest is guarded by the source's lock.
	changes    []state.Record // not applied to the snapshot yet
	generation uint64
	usedAt     time.Time // on the machine's clock
	staleUntil time.Time // when a page with an old report must be told; zero for never
}

const (
	idleFor = time.Minute
	// maxChanges is how many changes may wait for the next page. With more, the cluster is dropped
	// and loaded again.
	maxChanges = 100_000
	// minReportAge is how long a report is shown although the cluster has changed; longer if making
	// one takes long. The numbers of the page itself are always those of the last change.
	minReportAge = time.Second
	// maxReportAge is how long a report is shown while nothing changes: a wait becomes a problem by
	// lasting.
	maxReportAge = 10 * time.Second
)

// Watch sees the records of every commit. While no page is open it only reads a flag.
func (s *StoreSource) Watch(records []state.Record) {
	if !s.active.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		f := s.followed[records[i].Key.Cluster]
		if f == nil {
			continue
		}
		f.changes = append(f.changes, records[i])
		f.generation++
	}
	for name, f := range s.followed {
		if len(f.changes) > maxChanges || time.Since(f.usedAt) > cmp.Or(s.Idle, idleFor) {
			delete(s.followed, name)
		}
	}
	s.active.Store(len(s.followed) > 0)
}

// follow returns the cluster, loading it if it is not followed yet. Changes are collected from
// before it is loaded, and those that are loaded already change nothing.
func (s *StoreSource) follow(ctx context.Context, name string) (*followedCluster, error) {
	s.mu.Lock()
	f := s.followed[name]
	if f == nil {
		if s.followed == nil {
			s.followed = map[string]*followedCluster{}
		}
		f = &followedCluster{generation: uint64(time.Now().UnixNano())}
		s.followed[name] = f
		s.active.Store(true)
	}
	f.usedAt = time.Now()
	s.mu.Unlock()
	f.mu.Lock()
	if f.snapshot != nil {
		return f, nil
	}
	snap, err := snapshot.Load(ctx, s.Store, name)
	if err != nil {
		f.mu.Unlock()
		return nil, fmt.Errorf("loading cluster %s: %w", name, err)
	}
	f.snapshot = snap
	return f, nil
}

// View applies the changes since the last page, and shows the cluster.
func (s *StoreSource) View(ctx context.Context, name string, show func(*World) error) error {
	names, err := s.ClusterNames(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return &whatif.NotFound{Kind: "cluster", Name: name, Known: names}
	}
	f, err := s.follow(ctx, name)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	s.mu.Lock()
	changes, generation := f.changes, f.generation
	f.changes = nil
	s.mu.Unlock()
	for _, r := range changes {
		f.snapshot.ApplyRecord(r)
	}
	now := s.Clock()
	f.snapshot.DropExpired(now)
	age, least := time.Since(f.madeAt), max(minReportAge, 20*f.took)
	switch {
	case f.report == nil || f.reported != generation && age > least || age > max(maxReportAge, least):
		if err := s.makeReport(ctx, name, f, generation, now); err != nil {
			return err
		}
	case f.reported != generation:
		// The page shows an older report, so it must be told again once there may be a new one.
		s.mu.Lock()
		f.staleUntil = f.madeAt.Add(least)
		s.mu.Unlock()
	}
	w := &World{Cluster: name, Snapshot: f.snapshot, Capacity: f.capacity, Report: f.report, Now: now,
		Generation: strconv.FormatUint(generation, 36), Balance: &f.balance}
	w.Events = func(ctx context.Context, service string) ([]listing.Event, error) {
		return s.loadEvents(ctx, w, f, service)
	}
	return show(w)
}

// makeReport reads what the instances come from, and finds the problems.
func (s *StoreSource) makeReport(
	ctx context.Context, name string, f *followedCluster, generation uint64, now time.Time,
) error {
	begin := time.Now()
	rows, err := s.CapacityRows(ctx, name)
	if err != nil {
		return err
	}
	k, groups := whatif.NewCapacity(rows)
	found, err := s.Groups(ctx, groups)
	if err != nil {
		return err
	}
	for _, g := range found {
		k.Groups[g.Name] = g
	}
	if err := k.ReadFailures(ctx, s.FailedLaunches, now); err != nil {
		return err
	}
	k.DisconnectTimeout = &s.DisconnectTimeout
	f.capacity = k
	if s.DeadLetters != nil {
		if k.DeadLetters, err = s.DeadLetters(ctx); err != nil {
			return err
		}
	}
	f.report = problem.NewReport(problem.Input{Cluster: name, Snapshot: f.snapshot, Capacity: k,
		DeadLetters: k.DeadLetters, Now: now})
	f.reported, f.madeAt, f.took = generation, time.Now(), time.Since(begin)
	return nil
}

// Generation returns the number of the cluster's last change.
func (s *StoreSource) Generation(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followed[name]
	if f == nil {
		return "", nil
	}
	f.usedAt = time.Now()
	if !f.staleUntil.IsZero() && f.usedAt.After(f.staleUntil) {
		f.generation, f.staleUntil = f.generation+1, time.Time{}
	}
	return strconv.FormatUint(f.generation, 36), nil
}

// ClusterNames lists the clusters of the store.
func (s *StoreSource) ClusterNames(ctx context.Context) ([]string, error) {
	names, err := state.ClusterNames(ctx, s.Store)
	slices.Sort(names)
	return names, err
}

// loadEvents returns the events of one service, or those of all.
func (s *StoreSource) loadEvents(
	ctx context.Context, w *World, f *followedCluster, service string,
) ([]listing.Event, error) {
	if service != "" {
		return s.readEvents(ctx, w, w.Snapshot.Services[service])
	}
	events, err := f.events.load(w.Generation, time.Now, func() ([]listing.Event, error) {
		return s.readEvents(ctx, w, nil)
	})
	if at := f.events.outdatedUntil; !at.IsZero() {
		f.events.outdatedUntil = time.Time{}
		s.mu.Lock()
		if f.staleUntil.IsZero() || at.Before(f.staleUntil) {
			f.staleUntil = at
		}
		s.mu.Unlock()
	}
	return events, err
}

// readEvents reads the events of a service, or of all services for nil.
func (s *StoreSource) readEvents(ctx context.Context, w *World, of *cluster.Service) ([]listing.Event, error) {
	names, prefix := map[string]string{}, state.PrefixEvent
	for _, v := range w.Snapshot.Services {
		names[v.Short] = v.Name
	}
	if of != nil {
		prefix += of.Short + "#"
	}
	rows, err := state.ListRows[*cluster.ServiceEvent](ctx, s.Store, state.Prefix(w.Cluster, prefix), "service events")
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(e *cluster.ServiceEvent) bool { return names[e.Service] == "" })
	slices.SortFunc(rows, func(a, b *cluster.ServiceEvent) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Service, b.Service),
			cmp.Compare(a.Number, b.Number))
	})
	out := make([]listing.Event, 0, len(rows))
	for _, e := range rows {
		out = append(out, listing.Event{ID: e.ID, At: e.CreatedAt.UTC(), Service: names[e.Service], Message: e.Message})
	}
	return out, nil
}

// Followed returns the names of the clusters that are followed, sorted. Tests use it.
func (s *StoreSource) Followed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.followed))
}
