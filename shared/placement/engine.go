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
	changes     changeLog
	caches      engineCaches
	useCount    uint64
	visits      uint64
	overlay     overlay
	positions   positionArena
	subject     subject
	onChange    func(index int, owner string)
	changedRows []int // instances whose row changed, to be settled
	heldBack    []int // instances that this call gives no task
	observer    Observer
	// maxMemory and evictEvery are the constants of these names; tests make them small.
	maxMemory, evictEvery int
	evictAt               int // classes at which the size is looked at next
}

// engineCaches is what the engine keeps from one request to the next, by what it depends on.
type engineCaches struct {
	counts        map[ownerKey]*ownerCounts
	countsByOwner map[string][]*ownerCounts // by owner
	regionMaps    map[string]*regionMap
	constraints   map[string]*constraintColumn // by the expression's text
	masks         map[string]*staticMask
	choosers      map[chooserKey]*chooser
	scorers       map[string]scorer       // by name
	indexes       map[string]*sortedIndex // that classes share
	templates     map[string]*domainTemplate
	rejections    map[string]*rejectionReport // by shape
}

// New is an engine on the snapshot, which may go on changing between requests.
func New(s *snapshot.Snapshot) *Engine {
	e := &Engine{snap: s, caches: engineCaches{scorers: map[string]scorer{}}, maxMemory: maxMemory,
		evictEvery: evictEvery}
	e.onChange = e.applyChange
	e.resetAll()
	return e
}

// resetAll forgets everything and looks at all instances.
func (e *Engine) resetAll() {
	e.columns = columns{metrics: make([]metricColumns, len(e.snap.MetricNames()))}
	e.changes = changeLog{ring: make([]int32, logSize), end: e.changes.end,
		lastChange: make([]uint64, len(e.snap.InstancesByIndex()))}
	e.caches = engineCaches{
		counts: map[ownerKey]*ownerCounts{}, countsByOwner: map[string][]*ownerCounts{},
		regionMaps:  map[string]*regionMap{},
		constraints: map[string]*constraintColumn{},
		masks:       map[string]*staticMask{}, choosers: map[chooserKey]*chooser{}, scorers: e.caches.scorers,
		indexes:   map[string]*sortedIndex{},
		templates: map[string]*domainTemplate{}, rejections: map[string]*rejectionReport{},
	}
	e.seq, e.changedRows = e.snap.ChangeSeq(), e.changedRows[:0]
	if e.observer != nil {
		e.observer.Reset()
	}
	dense := e.snap.InstancesByIndex()
	e.columns.growColumns(len(dense))
	e.overlay.growTo(len(dense))
	for i, v := range dense {
		e.observeRow(i, v)
		if v != nil {
			e.observeUsage(i, v, 0)
		}
	}
}

// InstanceVisits is how many times an instance was looked at so far, to find the best or to say why none
// would do. It grows by far less than there are instances where tasks find a place: for benchmarks
// and tests.
func (e *Engine) InstanceVisits() uint64 { return e.visits }

// Observer follows the changes of instances that the engine takes in from the snapshot's journal.
type Observer interface {
	// InstanceChanged is called when one of the owner's tasks on the instance came, went or
	// changed; without an owner the instance's row did, or anything on it. freed reports that there
	// may be more room on it than before.
	InstanceChanged(index int, owner string, freed bool)
	// Reset is called when the engine has missed changes and looks at all instances again.
	Reset()
}

// SetObserver has the engine report changes from now on. An engine has one observer at most.
func (e *Engine) SetObserver(o Observer) { e.observer = o }

// Snapshot returns the snapshot that the engine answers on.
func (e *Engine) Snapshot() *snapshot.Snapshot { return e.snap }

// Sync takes in what happened to the snapshot since the last request. Requests do so themselves.
func (e *Engine) Sync() { e.sync() }

// sync takes in what happened to the snapshot since the last request.
func (e *Engine) sync() {
	if e.seq == e.snap.ChangeSeq() {
		return
	}
	if !e.snap.ChangedSince(e.seq, e.onChange) {
		e.resetAll()
	}
	e.seq = e.snap.ChangeSeq()
	for _, i := range e.changedRows {
		updateStatic(e, i)
	}
	e.changedRows = e.changedRows[:0]
}

// applyChange takes in one change of an instance: a task of the owner came, went or changed; without an
// owner its row did, or anything on it.
func (e *Engine) applyChange(i int, owner string) {
	dense := e.snap.InstancesByIndex()
	if i >= len(e.views) {
		growEngine(e, len(dense))
	}
	v := dense[i]
	moved := e.views[i] != v
	if moved || v != nil && e.staticRevision[i] != v.StaticRev {
		e.observeRow(i, v)
		e.changedRows = append(e.changedRows, i) // what looks at others has to wait until these are up to date
	}
	freed := e.observer != nil && (moved || freesRoom(e, i, v))
	if v != nil {
		e.observeUsage(i, v, 0)
	}
	if moved || owner == "" {
		for _, counts := range e.caches.counts {
			counts.recountInstance(e.snap, i, v)
		}
	} else {
		for _, counts := range e.caches.countsByOwner[owner] {
			counts.recountInstance(e.snap, i, v)
		}
	}
	e.changes.addChange(i)
	if e.observer != nil {
		e.observer.InstanceChanged(i, owner, freed)
	}
}

// freesRoom reports whether the change of an instance, not yet measured, makes room there.
func freesRoom(e *Engine, i int, v *snapshot.InstanceView) bool {
	if v == nil || v.CPU > e.cpu[i] || v.Memory > e.memory[i] || v.ENIs > e.enis[i] ||
		int64(len(v.Tasks)) < e.columns.taskCount[i] {
		return true
	}
	if entire, share, _ := summarizeDevices(v); int32(entire) > e.wholeGPUs[i] || int32(share) > e.largestShare[i] {
		return true
	}
	ports := uint64(0)
	for _, p := range v.Ports {
		ports |= portBit(p)
	}
	if e.columns.portBits[i]&^ports != 0 {
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
	e.columns.growColumns(n)
	e.overlay.growTo(n)
	growTo(&e.changes.lastChange, n)
	for _, counts := range e.caches.counts {
		counts.growTo(n)
		counts.domains = nil // they know of no such instance; the territories are made anew
	}
	for _, m := range e.caches.masks {
		growTo(&m.passes, n)
	}
	for _, column := range e.caches.constraints {
		growTo(&column.matches, n)
	}
	for _, regions := range e.caches.regionMaps {
		regions.growTo(n)
	}
}

// updateStatic has everything that rests on the instance's row look at it again.
func updateStatic(e *Engine, i int) {
	for _, column := range e.caches.constraints {
		if !column.dynamic {
			column.evaluateOn(e, i)
		}
	}
	for _, m := range e.caches.masks {
		m.updateInstance(e, i)
	}
	for _, regions := range e.caches.regionMaps {
		regions.updateInstance(i, &e.columns)
	}
	for _, t := range e.caches.templates {
		t.stale = true
	}
}

// ensureMetric is the index of the metric, its columns filled.
func ensureMetric(e *Engine, name string) int {
	m := e.snap.MetricIndex(name)
	e.sync()
	for len(e.metrics) <= m {
		e.metrics = append(e.metrics, metricColumns{})
		column := &e.metrics[len(e.metrics)-1]
		column.growColumns(len(e.views))
		for i, v := range e.views {
			if v != nil {
				column.observeUsage(i, len(e.metrics)-1, v)
			}
		}
	}
	return m
}

// currentView is the instance as this call has left it so far.
func (e *Engine) currentView(i int) *snapshot.InstanceView {
	if v := e.overlay.views[i]; v != nil {
		return v
	}
	return e.views[i]
}

// holdBack has the instances get no task until [Engine.release]. Whatever keeps an order looks at them
// again, twice.
func (e *Engine) holdBack(instances []string) {
	for _, id := range instances {
		if v := e.snap.Instances[id]; v != nil && !slices.Contains(e.heldBack, v.Index) {
			e.heldBack = append(e.heldBack, v.Index)
			e.changes.addChange(v.Index)
		}
	}
}

func (e *Engine) releaseHeldBack() {
	for _, i := range e.heldBack {
		e.changes.addChange(i)
	}
	e.heldBack = e.heldBack[:0]
}

func (e *Engine) isHeldBack(i int) bool { return len(e.heldBack) > 0 && slices.Contains(e.heldBack, i) }

// logSize is how many changes the engine remembers for classes that were not used meanwhile.
const logSize = 1 << 14

// changeLog is the instances that changed, one after the other.
type changeLog struct {
	ring       []int32
	end        uint64
	lastChange []uint64 // per instance, the position after its last change
}

func (l *changeLog) addChange(i int) {
	l.ring[l.end%logSize] = int32(i)
	l.end++
	l.lastChange[i] = l.end
}

// changeAt is the instance at a position; not the last where it changed again later.
func (l *changeLog) changeAt(at uint64) (i int32, last bool) {
	i = l.ring[at%logSize]
	return i, l.lastChange[i] == at+1
}

// coversSince reports whether the changes since then are still known, and fewer than the instances.
func (l *changeLog) coversSince(at uint64, instances int) bool {
	return l.end-at <= logSize && l.end-at <= uint64(instances)
}
