// Package fleet is a simulated data plane: clusters, task definitions, container instances and tasks that behave as
// ECS and its agents do, and no more. It reports only by events of the real shape and answers only the calls that ECS
// has, as strictly. It schedules nothing: what runs where is what StartTask said.
//
// Time comes only from a [Clock] and randomness only from a seed, so that a run can be repeated.
package fleet

import (
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"berth/shared/cluster"
)

// Clock tells the time and calls back later. f runs at most once and never from inside After.
type Clock interface {
	Now() time.Time
	After(d time.Duration, f func())
}

// Options say where a fleet keeps itself and how fast its agents are.
type Options struct {
	Clock Clock
	// Emit gets every event, as EventBridge would deliver it, in order and outside of any lock; it may call the fleet.
	Emit    func(event []byte)
	Seed    uint64
	Account cluster.Account
	Source  string // of events: aws.ecs where empty
	Path    string // of its file; where empty the fleet lives in memory only

	// MinStart and MaxStart bound the time from StartTask to RUNNING: 1 to 3 s where both are zero.
	MinStart, MaxStart time.Duration
	// HealthyAfter is how long a target group looks at a target before it is healthy: 10 s where zero.
	HealthyAfter time.Duration
	// AlarmSource is the source of the events of alarms: aws.cloudwatch where empty.
	AlarmSource string
	// ScalingSource is the source of the events of Auto Scaling groups: aws.autoscaling where empty.
	ScalingSource string
	// LaunchAfter is how long a group's launch takes until the instance is in service: 40 s where zero. One that failed is
	// made again after half as long again.
	LaunchAfter time.Duration
	// KeepStopped is how long stopped tasks and gone instances stay visible: an hour where zero.
	KeepStopped time.Duration
}

// Fleet is the whole of it. Its methods may be called from any goroutine.
type Fleet struct {
	opt Options

	mu           sync.Mutex
	clusters     map[string]*ecsCluster
	families     map[string]*family
	instances    map[string]*instance
	tasks        map[string]*task
	targetGroups map[string]*targetGroup    // by ARN
	registries   map[string]*registry       // by id
	alarms       map[string]*alarm          // by name
	groups       map[string]*group          // by name
	templates    map[string]*launchTemplate // by id
	series       map[string]*series         // by metric
	launches     func(group string, n int64) LaunchFault
	gone         []purgeable // oldest first
	counters     counters
	behaviour    func(StartInfo) Behaviour
	faults       CallFaults
	out          [][]byte
	delivering   bool
	db           *bbolt.DB
	dirty        map[storedRow]bool // the value tells whether it is to be deleted
	flushQueued  bool
}

// counters name what the fleet makes; they are stored.
type counters struct{ Instances, Tasks, Launches, Templates, Activities int64 }

// purgeable is something that ended and is still visible for a while.
type purgeable struct {
	at    time.Time
	purge func()
}

// Open starts a fleet, empty or as its file says. A file that another process has open is an error. Tasks have gone on
// while the file was closed: the clock's next callbacks bring them up to date and emit what they would have sent.
func Open(o Options) (*Fleet, error) {
	if o.Source == "" {
		o.Source = "aws.ecs"
	}
	if o.MinStart == 0 && o.MaxStart == 0 {
		o.MinStart, o.MaxStart = time.Second, 3*time.Second
	}
	o.MaxStart = max(o.MinStart, o.MaxStart)
	if o.HealthyAfter == 0 {
		o.HealthyAfter = 10 * time.Second
	}
	if o.AlarmSource == "" {
		o.AlarmSource = "aws.cloudwatch"
	}
	if o.ScalingSource == "" {
		o.ScalingSource = "aws.autoscaling"
	}
	if o.LaunchAfter == 0 {
		o.LaunchAfter = 40 * time.Second
	}
	if o.KeepStopped == 0 {
		o.KeepStopped = time.Hour
	}
	if o.Emit == nil {
		o.Emit = func([]byte) {}
	}
	f := &Fleet{
		opt: o, clusters: map[string]*ecsCluster{}, families: map[string]*family{}, instances: map[string]*instance{},
		tasks: map[string]*task{}, dirty: map[storedRow]bool{},
		targetGroups: map[string]*targetGroup{}, registries: map[string]*registry{}, alarms: map[string]*alarm{},
		groups: map[string]*group{}, templates: map[string]*launchTemplate{}, series: map[string]*series{},
	}
	if o.Path == "" {
		return f, nil
	}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("opening the fleet's file %s: %w", o.Path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resume()
	return f, nil
}

// Close writes what is not yet written and gives the file up. Tasks of a stored fleet go on in their own time.
func (f *Fleet) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db == nil {
		return nil
	}
	err := f.flush()
	if closing := f.db.Close(); err == nil {
		err = closing
	}
	f.db = nil
	return err
}

// look runs what changes nothing.
func (f *Fleet) look(step func(now time.Time) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return step(f.now())
}

// change runs a step whose outcome is on disk before it returns; then its events go out. A step that fails must have
// changed nothing.
func (f *Fleet) change(step func(now time.Time) error) error {
	f.mu.Lock()
	err := step(f.now())
	if stored := f.flush(); stored != nil && err == nil {
		err = fmt.Errorf("writing the fleet's file: %w: %w", stored, cluster.ErrAmbiguous)
	}
	f.unlock()
	return err
}

// progress runs a step of an agent: it can be worked out again, so it is written later, together with others.
func (f *Fleet) progress(step func(now time.Time)) {
	f.mu.Lock()
	step(f.now())
	f.flushLater()
	f.unlock()
}

// now is the time, in the milliseconds that events have; what has been visible for long enough is forgotten.
func (f *Fleet) now() time.Time {
	now := f.opt.Clock.Now().UTC().Truncate(time.Millisecond)
	for len(f.gone) > 0 && !f.gone[0].at.After(now) {
		f.gone[0].purge()
		f.gone = f.gone[1:]
	}
	return now
}

// unlock lets the events out. Whoever finds somebody else at it leaves them its own, so that they keep their order.
func (f *Fleet) unlock() {
	if !f.delivering {
		f.delivering = true
		for len(f.out) > 0 {
			batch := f.out
			f.out = nil
			f.mu.Unlock()
			for _, event := range batch {
				f.opt.Emit(event)
			}
			f.mu.Lock()
		}
		f.delivering = false
	}
	f.mu.Unlock()
}

// cluster finds an ACTIVE cluster by name or ARN; empty is "default".
func (f *Fleet) cluster(nameOrARN string) (*ecsCluster, error) {
	c := f.clusters[clusterName(nameOrARN)]
	if c == nil || !c.active() {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	return c, nil
}

func clusterName(nameOrARN string) string {
	if nameOrARN == "" {
		return "default"
	}
	return cluster.LastPart(nameOrARN)
}

// invalid is the error that ECS answers most.
func invalid(format string, args ...any) error {
	return cluster.Errorf(cluster.CodeInvalidParameter, format, args...)
}
