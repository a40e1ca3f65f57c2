package replay

import (
	"context"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/state"
)

// meter measures a replay at the ports of the functions.
type meter struct {
	now      func() time.Time
	store    *embedded.Store
	apart    map[string]embedded.Usage // by function; what schedules, sweeps and the API use is no task's
	pods     map[string]*pod           // by name
	row      map[string]*pod           // by the ECS side's slot: startedBy and instance
	ended    int
	rooms    []time.Duration // arrival to the commit that gives the task room
	waits    []time.Duration // arrival to StartTask
	moved    int             // changes of the state, for Check
	seen     int
	last     time.Time // of the last arrival, start or end
	filled   time.Time // of the last arrival or start: what follows only empties the cluster
	levels   levels
	capacity used
}

// pod is one task of the trace on its way.
type pod struct {
	trace.Task
	arrived time.Time
	placed  bool
	started bool
	ended   bool
}

// used are the resources that tasks hold, or nodes have.
type used struct{ cpu, memory, gpu int64 }

func (u *used) add(p trace.Task, sign int64) {
	u.cpu += sign * p.CPUMilli
	u.memory += sign * p.MemoryMiB
	gpu := int64(p.GPUs) * 1000
	if p.GPUs == 1 && p.GPUMilli > 0 {
		gpu = int64(p.GPUMilli)
	}
	u.gpu += sign * gpu
}

func newMeter(o Options) *meter {
	m := &meter{apart: map[string]embedded.Usage{}, pods: map[string]*pod{}, row: map[string]*pod{}}
	for _, n := range o.Nodes {
		m.capacity.cpu += n.CPUMilli
		m.capacity.memory += n.MemoryMiB
		m.capacity.gpu += int64(n.GPUs) * 1000
	}
	return m
}

func (m *meter) begin(i *installation.Installation) {
	m.store = i.Store
	m.apart = map[string]embedded.Usage{}
	m.levels.at(m.now(), used{})
}

func (m *meter) arrived(p trace.Task) {
	m.pods[p.Name] = &pod{Task: p, arrived: m.now()}
	m.last, m.filled = m.now(), m.now()
}

func (m *meter) started(call cluster.StartCall, instance string) {
	p := m.row[call.StartedBy+"@"+instance]
	if p == nil || p.started {
		return
	}
	p.started = true
	m.last, m.filled = m.now(), m.now()
	m.waits = append(m.waits, m.now().Sub(p.arrived))
	m.levels.change(m.now(), p.Task, 1)
}

// placed notes how long the task waited for room; how long its start takes is another matter.
func (m *meter) placed(p *pod) {
	if p != nil && !p.placed {
		p.placed = true
		m.rooms = append(m.rooms, m.now().Sub(p.arrived))
	}
}

func (m *meter) stopped(t *cluster.Task) {
	p := m.pods[t.StartedByUser]
	if p == nil || p.ended {
		return
	}
	p.ended = true
	m.ended++
	m.last = m.now()
	if p.started {
		m.levels.change(m.now(), p.Task, -1)
	}
}

// idle reports whether nothing is to be expected any more: every task that was started has ended,
// and for long nothing else has happened.
func (m *meter) idle(now time.Time) bool {
	running := len(m.waits) - m.ended
	return m.ended == len(m.pods) || running <= 0 && now.Sub(m.last) > settled
}

// changed reports whether the state has changed since it was last asked.
func (m *meter) changed() bool {
	if m.seen == m.moved {
		return false
	}
	m.seen = m.moved
	return true
}

// state wraps a function's State.
func (m *meter) state(function string, s state.Store) state.Store {
	return &meteredState{Store: s, meter: m, function: function}
}

type meteredState struct {
	state.Store
	meter    *meter
	function string
}

func (s *meteredState) count(f func()) {
	if s.meter.store == nil {
		f()
		return
	}
	before := s.meter.store.Usage()
	f()
	after, sum := s.meter.store.Usage(), s.meter.apart[s.function]
	sum.ReadUnits += after.ReadUnits - before.ReadUnits
	sum.WriteUnits += after.WriteUnits - before.WriteUnits
	sum.Requests += after.Requests - before.Requests
	s.meter.apart[s.function] = sum
}

func (s *meteredState) Get(ctx context.Context, key state.Key) (row state.Row, err error) {
	s.count(func() { row, err = s.Store.Get(ctx, key) })
	return row, err
}

func (s *meteredState) Peek(ctx context.Context, key state.Key) (row state.Row, err error) {
	s.count(func() { row, err = s.Store.Peek(ctx, key) })
	return row, err
}

func (s *meteredState) List(ctx context.Context, r state.Range) (rows []state.Row, err error) {
	s.count(func() { rows, err = s.Store.List(ctx, r) })
	return rows, err
}

func (s *meteredState) Write(ctx context.Context, w state.Write) (row state.Row, err error) {
	s.count(func() { row, err = s.Store.Write(ctx, w) })
	s.meter.moved++
	if t, ok := row.(*cluster.Task); ok && err == nil && t != nil && t.Last == cluster.TaskStopped {
		s.meter.stopped(t)
	}
	return row, err
}

func (s *meteredState) Commit(ctx context.Context, c state.Commit) (err error) {
	s.count(func() { err = s.Store.Commit(ctx, c) })
	s.meter.moved++
	if err != nil {
		return err
	}
	for _, w := range c.Writes {
		if t, ok := w.Put.(*cluster.Task); ok && t.Batch != "" {
			p := s.meter.pods[t.StartedByUser]
			s.meter.row[t.Batch+"@"+t.Instance] = p
			s.meter.placed(p)
		}
	}
	return nil
}

// ecs wraps a function's ECS.
func (m *meter) ecs(_ string, e handler.ECS) handler.ECS { return &meteredECS{ECS: e, meter: m} }

type meteredECS struct {
	handler.ECS
	meter *meter
}

func (e *meteredECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	answer, err := e.ECS.StartTask(ctx, call)
	for _, t := range answer.Tasks {
		e.meter.started(call, t.Instance)
	}
	return answer, err
}

// levels is what was in use over time, as a step function.
type levels struct {
	steps []level
	now   used
}

type level struct {
	at time.Time
	used
}

func (l *levels) at(t time.Time, u used) { l.steps, l.now = append(l.steps, level{t, u}), u }

func (l *levels) change(t time.Time, p trace.Task, sign int64) {
	next := l.now
	next.add(p, sign)
	l.at(t, next)
}

// Share is a resource's use in % of what there is, over the time until the last task was started.
type Share struct {
	Mean float64 `json:"mean"`
	P95  float64 `json:"p95"`
	Peak float64 `json:"peak"`
}

// share weighs each level with how long it lasted, up to end.
func (l *levels) share(of func(used) int64, capacity int64, end time.Time) Share {
	type span struct {
		percent float64
		d       time.Duration
	}
	var spans []span
	var total time.Duration
	sum := 0.0
	for i, s := range l.steps {
		until := end
		if i+1 < len(l.steps) {
			until = l.steps[i+1].at
		}
		d := min(until.Sub(s.at), end.Sub(s.at))
		if d <= 0 || capacity == 0 {
			continue
		}
		p := 100 * float64(of(s.used)) / float64(capacity)
		spans = append(spans, span{p, d})
		total += d
		sum += p * d.Seconds()
	}
	if total == 0 {
		return Share{}
	}
	slices.SortFunc(spans, func(a, b span) int {
		if a.percent < b.percent {
			return -1
		}
		return 1
	})
	out := Share{Mean: sum / total.Seconds()}
	var passed time.Duration
	for _, s := range spans {
		if passed += s.d; passed.Seconds() >= 0.95*total.Seconds() {
			out.P95 = s.percent
			break
		}
	}
	out.Peak = spans[len(spans)-1].percent
	return out
}
