package console

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/operation"
	"berth/shared/snapshot"
)

// ClientSource asks a running Berth, with the caller's credentials. A cluster is read again when a
// page asks for it and the last reading is older than Every; while no page is open nothing is read.
type ClientSource struct {
	API *client.Client
	// Every is the least time between two readings of a cluster. A cluster that takes long to read
	// is read less often, see [readShare].
	Every time.Duration
	// Callers says how commands reach the API.
	Callers problem.Callers
	// DeadLetters reads the dead-letter queues that have messages, given what Berth says of them. It is
	// called at most once in a minute; nil for none.
	DeadLetters func(context.Context, *whatif.Capacity) ([]operation.DeadLetters, error)
	// Clock is the machine's clock; nil for time.Now. Tests set it.
	Clock func() time.Time

	mu       sync.Mutex
	clusters map[string]*remoteCluster
	names    []string
	namesAt  time.Time

	letters    []operation.DeadLetters
	lettersErr error
	lettersAt  time.Time
}

// remoteCluster is a cluster as it was last read.
type remoteCluster struct {
	mu         sync.Mutex
	snapshot   *snapshot.Snapshot
	capacity   *whatif.Capacity
	report     *problem.Report
	balance    Balance
	events     allEvents
	eventReads int           // how often a page was told that there may be newer events
	generation string        // of the page
	readAt     time.Time     // the last look
	took       time.Duration // of the last look
	rowsAt     time.Time     // when the rows were read
	rowsTook   time.Duration // to read them
	rowsSum    uint64        // their digest
	stored     string        // the generation that Berth gave for them; empty if it is unknown
}

func (s *ClientSource) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// readShare bounds what reading costs: a cluster is read for at most one part in so many of the
// time.
const readShare = 20

// While Berth says that nothing has changed, the rows are read again after minUnchanged, or so many
// times as long as reading them takes: Berth does not see all changes at once.
const (
	minUnchanged   = 10 * time.Minute
	unchangedShare = 360
)

// refresh returns the cluster, locked, and reads it if the last reading is too old.
func (s *ClientSource) refresh(ctx context.Context, name string) (*remoteCluster, error) {
	s.mu.Lock()
	c := s.clusters[name]
	if c == nil {
		if s.clusters == nil {
			s.clusters = map[string]*remoteCluster{}
		}
		c = &remoteCluster{}
		s.clusters[name] = c
	}
	s.mu.Unlock()
	c.mu.Lock()
	if c.snapshot != nil && s.now().Sub(c.readAt) < max(s.Every, readShare*c.took) {
		return c, nil
	}
	if err := s.read(ctx, name, c); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	return c, nil
}

// read looks at the cluster. What its instances come from comes with a generation, and the rows are
// read only if that has changed, or after a while. If only its Auto Scaling groups cannot be read,
// the report says so.
func (s *ClientSource) read(ctx context.Context, name string, c *remoteCluster) error {
	begin := s.now()
	capacity, unread := whatif.ReadCapacity(ctx, s.API, name)
	if capacity == nil {
		return unread
	}
	isUnchanged := c.snapshot != nil && c.stored != "" && c.stored == capacity.Generation
	if isUnchanged && s.now().Sub(c.rowsAt) < max(minUnchanged, unchangedShare*c.rowsTook) {
		c.snapshot.DropExpired(capacity.Now(begin))
	} else if err := s.readRows(ctx, name, c); err != nil {
		return err
	} else {
		c.stored, c.rowsAt, c.rowsTook = capacity.Generation, begin, s.now().Sub(begin)
	}
	letters, err := s.readDeadLetters(ctx, capacity)
	unread = errors.Join(unread, err)
	c.capacity = capacity
	c.report = problem.NewReport(problem.Input{Cluster: name, Snapshot: c.snapshot, Capacity: c.capacity,
		DeadLetters: letters, Now: c.capacity.Now(begin), Callers: s.Callers})
	if unread != nil {
		c.report.Unread = strings.ReplaceAll(unread.Error(), "\n", "; ")
	}
	if c.events.endOutdated(s.now()) {
		c.eventReads++
	}
	sum := fnv.New64a()
	// A hash never fails.
	_, _ = fmt.Fprint(sum, c.rowsSum, len(c.report.Problems), c.eventReads, c.report.Unread)
	c.generation = strconv.FormatUint(sum.Sum64(), 36)
	c.readAt, c.took = s.now(), s.now().Sub(begin)
	return nil
}

// lettersAge is how long the dead-letter queues are not read again.
const lettersAge = time.Minute

// readDeadLetters returns the dead-letter queues as they were read last, at most a minute ago.
func (s *ClientSource) readDeadLetters(ctx context.Context, k *whatif.Capacity) ([]operation.DeadLetters, error) {
	if s.DeadLetters == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lettersAt.IsZero() || s.now().Sub(s.lettersAt) >= lettersAge {
		s.letters, s.lettersErr = s.DeadLetters(ctx, k)
		s.lettersAt = s.now()
	}
	return s.letters, s.lettersErr
}

// readRows reads the rows that placement decides on.
func (s *ClientSource) readRows(ctx context.Context, name string, c *remoteCluster) error {
	rows, _, err := whatif.ReadRows(ctx, s.API, name, func(int) {})
	if err != nil {
		return err
	}
	snap, err := whatif.BuildSnapshot(rows)
	if err != nil {
		return err
	}
	sum := fnv.New64a()
	for _, r := range rows {
		_, _ = sum.Write(r.Row) // a hash never fails
	}
	c.snapshot, c.rowsSum = snap, sum.Sum64()
	return nil
}

// View shows the cluster as it was last read.
func (s *ClientSource) View(ctx context.Context, name string, show func(*World) error) error {
	names, err := s.ClusterNames(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return &whatif.NotFound{Kind: "cluster", Name: name, Known: names}
	}
	c, err := s.refresh(ctx, name)
	if err != nil {
		return err
	}
	defer c.mu.Unlock()
	return show(&World{Cluster: name, Snapshot: c.snapshot, Capacity: c.capacity, Report: c.report,
		Now:        c.capacity.Now(c.readAt).Add(s.now().Sub(c.readAt)),
		Generation: c.generation, Balance: &c.balance,
		Events: func(ctx context.Context, service string) ([]listing.Event, error) {
			return s.loadEvents(ctx, name, c, service)
		}})
}

// Generation returns a digest of the cluster's rows. It reads them if the last reading is too old.
func (s *ClientSource) Generation(ctx context.Context, name string) (string, error) {
	c, err := s.refresh(ctx, name)
	if err != nil {
		return "", err
	}
	defer c.mu.Unlock()
	return c.generation, nil
}

// ClusterNames lists the clusters of the account that Berth answers for, at most once in a minute.
func (s *ClientSource) ClusterNames(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names != nil && s.now().Sub(s.namesAt) < time.Minute {
		return s.names, nil
	}
	names, err := s.API.ClusterNames(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	s.names, s.namesAt = names, s.now()
	return names, nil
}

// loadEvents returns the events of a service, which one call reads, or those of all, which takes many.
func (s *ClientSource) loadEvents(
	ctx context.Context, name string, c *remoteCluster, service string,
) ([]listing.Event, error) {
	if service != "" {
		events, _, err := s.API.ServiceEvents(ctx, name, []string{service})
		return events, err
	}
	return c.events.load(c.generation, s.now, func() ([]listing.Event, error) {
		services, err := s.API.ServiceNames(ctx, name)
		if err != nil {
			return nil, err
		}
		events, _, err := s.API.ServiceEvents(ctx, name, services)
		return events, err
	})
}

// Expire has the cluster read again for the next page, because something in it was changed.
func (s *ClientSource) Expire(name string) {
	s.mu.Lock()
	c := s.clusters[name]
	s.mu.Unlock()
	if c != nil {
		c.mu.Lock()
		c.readAt, c.stored = time.Time{}, ""
		c.mu.Unlock()
	}
}
