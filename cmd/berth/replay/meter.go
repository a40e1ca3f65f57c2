package replay

import (
	"context"
	"time"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/state"
)

// meter measures a replay at the ports of the functions: every access to the store and every
// StartTask goes through it.
type meter struct {
	now        func() time.Time
	store      *embedded.Store           // nil until measuring starts: what prepares the cluster costs nothing
	usage      map[string]embedded.Usage // by function; "schedule", "sweep" and "api" count apart
	tasks      map[string]*task          // by name
	assigned   map[string]*task          // tasks that have an instance, by startKey
	ended      int
	roomWaits  []time.Duration // from arrival to the commit that gives the task an instance
	startWaits []time.Duration // from arrival to StartTask
	writes     int             // changes of the state
	checked    int             // the value of writes when hasNewWrites was last asked
	last       time.Time       // of the last arrival, start or end
	lastStart  time.Time       // of the last arrival or start: after it the cluster only empties
	load       loadCurve
	capacity   resources
}

// task is one task of the trace and how far it is.
type task struct {
	trace.Task
	arrived                   time.Time
	placed, started, hasEnded bool
}

// newMeter returns a meter for the nodes of a replay. Its clock is set once the installation is
// open.
func newMeter(o Options) *meter {
	m := &meter{usage: map[string]embedded.Usage{}, tasks: map[string]*task{}, assigned: map[string]*task{}}
	for _, n := range o.Nodes {
		m.capacity.cpu += n.CPUMilli
		m.capacity.memory += n.MemoryMiB
		m.capacity.gpu += int64(n.GPUs) * 1000
	}
	return m
}

// startMeasuring begins to count what functions use.
func (m *meter) startMeasuring(s *embedded.Store) {
	m.store = s
	m.usage = map[string]embedded.Usage{}
	m.load.appendLevel(m.now(), resources{})
}

func (m *meter) recordArrival(t trace.Task) {
	m.tasks[t.Name] = &task{Task: t, arrived: m.now()}
	m.last, m.lastStart = m.now(), m.now()
}

// recordPlacement notes how long the task waited for room. How long its start takes after that
// depends on ECS's limits, not on the cluster.
func (m *meter) recordPlacement(row *cluster.Task) {
	t := m.tasks[row.StartedByUser]
	m.assigned[startKey(row.Batch, row.Instance)] = t
	if t != nil && !t.placed {
		t.placed = true
		m.roomWaits = append(m.roomWaits, m.now().Sub(t.arrived))
	}
}

// startKey identifies a task in a StartTask call, whose startedBy may be that of several tasks.
func startKey(startedBy, instance string) string { return startedBy + "@" + instance }

// recordStart notes a StartTask call. A retried call, or one whose outcome was unknown, counts
// once.
func (m *meter) recordStart(key string) {
	t := m.assigned[key]
	if t == nil || t.started {
		return
	}
	t.started = true
	m.last, m.lastStart = m.now(), m.now()
	m.startWaits = append(m.startWaits, m.now().Sub(t.arrived))
	m.load.changeByTask(m.now(), t.Task, 1)
}

// recordEnd notes that a task has STOPPED. Its row may be written several times after that.
func (m *meter) recordEnd(row *cluster.Task) {
	t := m.tasks[row.StartedByUser]
	if t == nil || t.hasEnded {
		return
	}
	t.hasEnded = true
	m.ended++
	m.last = m.now()
	if t.started {
		m.load.changeByTask(m.now(), t.Task, -1)
	}
}

// isQuiet reports whether nothing more is to be expected: every task has ended, or every task that
// was started has and nothing else has happened for the quiet period.
func (m *meter) isQuiet(now time.Time) bool {
	running := len(m.startWaits) - m.ended
	return m.ended == len(m.tasks) || running <= 0 && now.Sub(m.last) > quietPeriod
}

// hasNewWrites reports whether the state has changed since it was last asked.
func (m *meter) hasNewWrites() bool {
	hasNew := m.checked != m.writes
	m.checked = m.writes
	return hasNew
}

// wrapState returns a function's store, measured.
func (m *meter) wrapState(function string, s state.Store) state.Store {
	return &meteredState{Store: s, meter: m, function: function}
}

// meteredState is a store that counts what a function uses, and sees the tasks that it writes.
type meteredState struct {
	state.Store
	meter    *meter
	function string
}

// countUsage adds what access uses to the function's account. The loop runs one thing at a time, so
// what the store uses meanwhile belongs to access.
func (s *meteredState) countUsage(access func()) {
	if s.meter.store == nil {
		access()
		return
	}
	before := s.meter.store.Usage()
	access()
	after, sum := s.meter.store.Usage(), s.meter.usage[s.function]
	sum.ReadUnits += after.ReadUnits - before.ReadUnits
	sum.WriteUnits += after.WriteUnits - before.WriteUnits
	sum.Requests += after.Requests - before.Requests
	s.meter.usage[s.function] = sum
}

func (s *meteredState) Get(ctx context.Context, key state.Key) (row state.Row, err error) {
	s.countUsage(func() { row, err = s.Store.Get(ctx, key) })
	return row, err
}

func (s *meteredState) Peek(ctx context.Context, key state.Key) (row state.Row, err error) {
	s.countUsage(func() { row, err = s.Store.Peek(ctx, key) })
	return row, err
}

func (s *meteredState) List(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	s.countUsage(func() { rows, err = s.Store.List(ctx, r) })
	return rows, err
}

func (s *meteredState) Visit(ctx context.Context, r state.Range, visit func(state.Row) error) (err error) {
	s.countUsage(func() { err = s.Store.Visit(ctx, r, visit) })
	return err
}

func (s *meteredState) Write(ctx context.Context, w state.Write) (row state.Row, err error) {
	s.countUsage(func() { row, err = s.Store.Write(ctx, w) })
	s.meter.writes++
	if t, ok := row.(*cluster.Task); ok && err == nil && t != nil && t.Last == cluster.TaskStopped {
		s.meter.recordEnd(t)
	}
	return row, err
}

func (s *meteredState) Commit(ctx context.Context, c state.Commit) (err error) {
	s.countUsage(func() { err = s.Store.Commit(ctx, c) })
	s.meter.writes++
	if err != nil {
		return err
	}
	for _, w := range c.Writes {
		// A task row with a batch has been given an instance in this commit.
		if t, ok := w.Put.(*cluster.Task); ok && t.Batch != "" {
			s.meter.recordPlacement(t)
		}
	}
	return nil
}

// wrapECS returns a function's ECS, with the starts measured.
func (m *meter) wrapECS(_ string, e handler.ECS) handler.ECS { return &meteredECS{ECS: e, meter: m} }

// meteredECS is a port to ECS that sees which tasks it starts.
type meteredECS struct {
	handler.ECS
	meter *meter
}

func (e *meteredECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	answer, err := e.ECS.StartTask(ctx, call)
	for _, t := range answer.Tasks {
		e.meter.recordStart(startKey(call.StartedBy, t.Instance))
	}
	return answer, err
}
