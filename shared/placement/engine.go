package placement

import (
	"slices"

	"berth/shared/snapshot"
)

// Engine answers requests on one snapshot. It keeps what it worked out from one request to the
// next, and brings it up to date from the snapshot's journal: a placement costs by what has
// changed, not by how many instances there are. Its answers are those of a look at every instance.
// It is for one goroutine.
type Engine struct {
	snap *snapshot.Snapshot
	seq  uint64 // of the snapshot's journal, as far as the columns go
	columns
	log      log
	kept     caches
	uses     uint64
	looks    uint64
	placed   overlay
	devices  arena
	subject  subject
	note     func(index int, owner string)
	recast   []int // instances whose row changed, to be settled
	held     []int // instances that this call gives no task
	observer Observer
	// maxMemory and evictEvery are the constants of these names; tests make them small.
	maxMemory, evictEvery int
	evictAt               int // classes at which the size is looked at next
}

// caches is what the engine keeps from one request to the next, by what it depends on.
type caches struct {
	tallies     map[tallyKey]*tally
	owned       map[string][]*tally // by owner
	layouts     map[string]*layout
	rules       map[string]*rule // by the expression's text
	masks       map[string]*mask
	classes     map[classKey]*class
	scorers     map[string]scorer       // by name
	indexes     map[string]*sortedIndex // that classes share
	territories map[string]*territory
	audits      map[string]*audit // by shape
}

// New is an engine on the snapshot, which may go on changing between requests.
func New(s *snapshot.Snapshot) *Engine {
	e := &Engine{snap: s, kept: caches{scorers: map[string]scorer{}}, maxMemory: maxMemory, evictEvery: evictEvery}
	e.note = e.changed
	e.reset()
	return e
}

// reset forgets everything and looks at all instances.
func (e *Engine) reset() {
	e.columns = columns{metrics: make([]metric, len(e.snap.MetricNames()))}
	e.log = log{ring: make([]int32, logSize), end: e.log.end, latest: make([]uint64, len(e.snap.InstancesByIndex()))}
	e.kept = caches{
		tallies: map[tallyKey]*tally{}, owned: map[string][]*tally{}, layouts: map[string]*layout{},
		rules: map[string]*rule{},
		masks: map[string]*mask{}, classes: map[classKey]*class{}, scorers: e.kept.scorers,
		indexes:     map[string]*sortedIndex{},
		territories: map[string]*territory{}, audits: map[string]*audit{},
	}
	e.seq, e.recast = e.snap.ChangeSeq(), e.recast[:0]
	if e.observer != nil {
		e.observer.Reset()
	}
	dense := e.snap.InstancesByIndex()
	e.columns.grow(len(dense))
	e.placed.grow(len(dense))
	for i, v := range dense {
		e.identify(i, v)
		if v != nil {
			e.measure(i, v, 0)
		}
	}
}

// Looks is how many times an instance was looked at so far, to find the best or to say why none
// would do. It grows by far less than there are instances where tasks find a place: for benchmarks
// and tests.
func (e *Engine) Looks() uint64 { return e.looks }

// Observer follows the changes of instances that the engine takes in from the snapshot's journal.
type Observer interface {
	// InstanceChanged is called when one of the owner's tasks on the instance came, went or
	// changed; without an owner the instance's row did, or anything on it. freed reports that there
	// may be more room on it than before.
	InstanceChanged(index int, owner string, freed bool)
	// Reset is called when the engine has missed changes and looks at all instances again.
	Reset()
}

// Observe has the engine report changes from now on. An engine has one observer at most.
func (e *Engine) Observe(o Observer) { e.observer = o }

// Snapshot returns the snapshot that the engine answers on.
func (e *Engine) Snapshot() *snapshot.Snapshot { return e.snap }

// Sync takes in what happened to the snapshot since the last request. Requests do so themselves.
func (e *Engine) Sync() { e.sync() }

// sync takes in what happened to the snapshot since the last request.
func (e *Engine) sync() {
	if e.seq == e.snap.ChangeSeq() {
		return
	}
	if !e.snap.ChangedSince(e.seq, e.note) {
		e.reset()
	}
	e.seq = e.snap.ChangeSeq()
	for _, i := range e.recast {
		settleInstance(e, i)
	}
	e.recast = e.recast[:0]
}

// changed takes in one change of an instance: a task of the owner came, went or changed; without an
// owner its row did, or anything on it.
func (e *Engine) changed(i int, owner string) {
	dense := e.snap.InstancesByIndex()
	if i >= len(e.views) {
		growEngine(e, len(dense))
	}
	v := dense[i]
	moved := e.views[i] != v
	if moved || v != nil && e.static[i] != v.StaticRev {
		e.identify(i, v)
		e.recast = append(e.recast, i) // what looks at others has to wait until these are up to date
	}
	freed := e.observer != nil && (moved || freesRoom(e, i, v))
	if v != nil {
		e.measure(i, v, 0)
	}
	if moved || owner == "" {
		for _, t := range e.kept.tallies {
			t.recount(e.snap, i, v)
		}
	} else {
		for _, t := range e.kept.owned[owner] {
			t.recount(e.snap, i, v)
		}
	}
	e.log.add(i)
	if e.observer != nil {
		e.observer.InstanceChanged(i, owner, freed)
	}
}

// freesRoom reports whether the change of an instance, not yet measured, makes room there.
func freesRoom(e *Engine, i int, v *snapshot.InstanceView) bool {
	if v == nil || v.CPU > e.cpu[i] || v.Memory > e.memory[i] || v.ENIs > e.enis[i] ||
		int64(len(v.Tasks)) < e.columns.tasks[i] {
		return true
	}
	if entire, share, _ := devices(v); int32(entire) > e.entire[i] || int32(share) > e.share[i] {
		return true
	}
	ports := uint64(0)
	for _, p := range v.Ports {
		ports |= portBit(p)
	}
	if e.columns.ports[i]&^ports != 0 {
		return true
	}
	for m := range e.metrics {
		if v.Load(m) < e.metrics[m].load[i] {
			return true
		}
	}
	return false
}

func growEngine(e *Engine, n int) {
	e.columns.grow(n)
	e.placed.grow(n)
	lengthen(&e.log.latest, n)
	for _, t := range e.kept.tallies {
		t.grow(n)
		t.domains = nil // they know of no such instance; the territories are made anew
	}
	for _, m := range e.kept.masks {
		lengthen(&m.passes, n)
	}
	for _, r := range e.kept.rules {
		lengthen(&r.matches, n)
	}
	for _, l := range e.kept.layouts {
		l.grow(n)
	}
}

// settleInstance has everything that rests on the instance's row look at it again.
func settleInstance(e *Engine, i int) {
	for _, r := range e.kept.rules {
		if !r.dynamic {
			r.evaluate(e, i)
		}
	}
	for _, m := range e.kept.masks {
		m.follow(e, i)
	}
	for _, l := range e.kept.layouts {
		l.follow(i, &e.columns)
	}
	for _, t := range e.kept.territories {
		t.stale = true
	}
}

// metricColumn is the index of the metric, its columns filled.
func metricColumn(e *Engine, name string) int {
	m := e.snap.MetricIndex(name)
	e.sync()
	for len(e.metrics) <= m {
		e.metrics = append(e.metrics, metric{})
		column := &e.metrics[len(e.metrics)-1]
		column.grow(len(e.views))
		for i, v := range e.views {
			if v != nil {
				column.measure(i, len(e.metrics)-1, v)
			}
		}
	}
	return m
}

// now is the instance as this call has left it so far.
func (e *Engine) now(i int) *snapshot.InstanceView {
	if v := e.placed.views[i]; v != nil {
		return v
	}
	return e.views[i]
}

// hold has the instances get no task until [Engine.release]. Whatever keeps an order looks at them
// again, twice.
func (e *Engine) hold(instances []string) {
	for _, id := range instances {
		if v := e.snap.Instances[id]; v != nil && !slices.Contains(e.held, v.Index) {
			e.held = append(e.held, v.Index)
			e.log.add(v.Index)
		}
	}
}

func (e *Engine) release() {
	for _, i := range e.held {
		e.log.add(i)
	}
	e.held = e.held[:0]
}

func (e *Engine) holds(i int) bool { return len(e.held) > 0 && slices.Contains(e.held, i) }

// logSize is how many changes the engine remembers for classes that were not used meanwhile.
const logSize = 1 << 14

// log is the instances that changed, one after the other.
type log struct {
	ring   []int32
	end    uint64
	latest []uint64 // per instance, the position after its last change
}

func (l *log) add(i int) {
	l.ring[l.end%logSize] = int32(i)
	l.end++
	l.latest[i] = l.end
}

// get is the instance at a position; not the last where it changed again later.
func (l *log) get(at uint64) (i int32, last bool) {
	i = l.ring[at%logSize]
	return i, l.latest[i] == at+1
}

// since reports whether the changes since then are still known, and fewer than the instances.
func (l *log) since(at uint64, instances int) bool {
	return l.end-at <= logSize && l.end-at <= uint64(instances)
}
