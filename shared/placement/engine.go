package placement

import (
	"slices"

	"berth/shared/snapshot"
)

// An Engine answers requests on one snapshot. It keeps what it computed between requests and
// updates it from the snapshot's journal: the time of a placement depends on what changed, not on
// the number of instances. It is not safe for concurrent use.
type Engine struct {
	snap *snapshot.Snapshot
	seq  uint64 // position in the snapshot's journal
	columns
	changes     changeLog
	caches      engineCaches
	useCount    uint64
	visits      uint64 // see InstanceVisits
	overlay     overlay
	positions   positionArena // allocates lists of GPU devices
	subject     subject
	onChange    func(index int, owner *snapshot.Owner)
	changedRows []int // instances whose rows changed during the current Sync
	heldBack    []int // instances that get no task in the current call
	observer    Observer
	// applications are those of the configuration; applicationsRevision is the snapshot's when they
	// were read.
	applications         []*application
	applicationsRevision int
	// maxMemory and evictEvery are the constants of these names; tests make them small.
	maxMemory, evictEvery int
	evictAt               int // number of choosers at which memory is checked next
}

// engineCaches hold what the engine keeps between requests, by what it depends on.
type engineCaches struct {
	counts        map[ownerKey]*ownerCounts
	countsByOwner map[string][]*ownerCounts // by owner
	// numberedCounts has countsByOwner once more, by the owner's number: each change of a task asks
	// for it. An owner that is not known there is looked up by its name.
	numberedCounts []numberedCounts
	regionMaps     map[string]*regionMap
	constraints    map[string]*constraintColumn // by the expression's text
	masks          map[string]*staticMask
	choosers       map[chooserKey]*chooser
	scorers        map[string]scorer       // by name
	indexes        map[string]*sortedIndex // shared by choosers
	templates      map[string]*domainTemplate
	rejections     map[string]*rejectionReport // by shape
}

// New returns an engine on the snapshot, which may change between requests.
func New(s *snapshot.Snapshot) *Engine {
	e := &Engine{snap: s, caches: engineCaches{scorers: map[string]scorer{}}, maxMemory: maxMemory,
		evictEvery: evictEvery}
	e.onChange = e.applyChange
	e.resetCaches()
	return e
}

// resetCaches drops all caches and reads every instance again.
func (e *Engine) resetCaches() {
	e.columns = columns{metrics: make([]metricColumn, len(e.snap.MetricNames()))}
	dense := e.snap.InstancesByIndex()
	e.changes = changeLog{ring: make([]int32, logSize), end: e.changes.end, lastChange: make([]uint64, len(dense))}
	e.caches = engineCaches{
		counts: map[ownerKey]*ownerCounts{}, countsByOwner: map[string][]*ownerCounts{},
		regionMaps: map[string]*regionMap{}, constraints: map[string]*constraintColumn{},
		masks: map[string]*staticMask{}, choosers: map[chooserKey]*chooser{}, scorers: e.caches.scorers,
		indexes: map[string]*sortedIndex{}, templates: map[string]*domainTemplate{},
		rejections: map[string]*rejectionReport{},
	}
	e.seq, e.changedRows = e.snap.ChangeSeq(), e.changedRows[:0]
	if e.observer != nil {
		e.observer.Reset()
	}
	e.columns.growColumns(len(dense))
	e.overlay.growOverlay(len(dense))
	for i, v := range dense {
		e.observeRow(i, v)
		if v != nil {
			e.observeUsage(i, v, 0)
		}
	}
	resetApplications(e)
}

// InstanceVisits returns how many times an instance was checked so far, to find the best one or to
// explain a refusal. It is for benchmarks and tests, which use it to show that a placement does not
// scan the cluster.
func (e *Engine) InstanceVisits() uint64 { return e.visits }

// An Observer is notified of the changes of instances that the engine reads from the snapshot's
// journal.
type Observer interface {
	// InstanceChanged is called after a task of the owner on the instance came, went or changed.
	// Without an owner, the row of the instance changed, or anything on it. freed reports that the
	// instance may have more room than before.
	InstanceChanged(index int, owner string, freed bool)
	// Reset is called when the engine has missed changes and reads all instances again.
	Reset()
}

// SetObserver makes the engine report changes from now on. An engine has at most one observer.
func (e *Engine) SetObserver(o Observer) { e.observer = o }

// Snapshot returns the snapshot that the engine answers on.
func (e *Engine) Snapshot() *snapshot.Snapshot { return e.snap }

// Sync applies what happened to the snapshot since the last request. Requests call it themselves.
func (e *Engine) Sync() {
	if e.applicationsRevision != e.snap.ApplicationsRevision() {
		e.resetCaches()
	}
	if e.seq == e.snap.ChangeSeq() {
		return
	}
	if !e.snap.ChangedSince(e.seq, e.onChange) {
		e.resetCaches()
	}
	e.seq = e.snap.ChangeSeq()
	for _, i := range e.changedRows {
		updateStatic(e, i)
	}
	e.changedRows = e.changedRows[:0]
}

// applyChange applies one change of an instance; for the arguments see [Observer].
func (e *Engine) applyChange(i int, by *snapshot.Owner) {
	dense := e.snap.InstancesByIndex()
	if i >= len(e.views) {
		growEngine(e, len(dense))
	}
	v := dense[i]
	moved := e.views[i] != v
	if moved || v != nil && e.staticRevision[i] != v.StaticRev {
		e.observeRow(i, v)
		e.changedRows = append(e.changedRows, i) // updated when all columns are
	}
	freed := e.observer != nil && (moved || freesRoom(e, i, v))
	if v != nil {
		e.observeUsage(i, v, 0)
	}
	countApplications(e, i, nil, 0)
	recountTasks(e, i, v, moved, by)
	e.changes.addChange(i)
	if e.observer != nil {
		owner := ""
		if by != nil {
			owner = by.Name()
		}
		e.observer.InstanceChanged(i, owner, freed)
	}
}

// recountTasks counts tasks on the instance again: those of the owner, or if all may have changed,
// those of every owner.
func recountTasks(e *Engine, i int, v *snapshot.InstanceView, all bool, by *snapshot.Owner) {
	switch {
	case all || by == nil:
		for _, counts := range e.caches.counts {
			counts.recountInstance(e.snap.Owner(counts.owner), i, v)
		}
	case by.Number() < 0:
		for _, counts := range e.caches.countsByOwner[by.Name()] {
			counts.recountInstance(e.snap.Owner(counts.owner), i, v)
		}
	default:
		for _, counts := range numberedCountsOf(e, by) {
			counts.recountInstance(by, i, v)
		}
	}
}

// freesRoom reports whether a change that is not applied yet makes room on the instance.
func freesRoom(e *Engine, i int, v *snapshot.InstanceView) bool {
	u := &e.usages[i]
	if v == nil || v.CPU > u.cpu || v.Memory > u.memory || v.ENIs > u.enis || int64(len(v.Tasks)) < u.taskCount {
		return true
	}
	if entire, share, _ := summarizeDevices(v); int32(entire) > u.wholeGPUs || int32(share) > u.largestShare {
		return true
	}
	if u.portBits&^portBitsOf(v.Ports) != 0 {
		return true
	}
	for m := range e.metrics {
		if v.Load(m) < e.metrics[m][i].load {
			return true
		}
	}
	return false
}

// growEngine makes room for n instances in everything indexed by instance.
func growEngine(e *Engine, n int) {
	e.columns.growColumns(n)
	e.overlay.growOverlay(n)
	growSlice(&e.changes.lastChange, n)
	for _, counts := range e.caches.counts {
		counts.growColumn(n)
		counts.domains = nil // they lack the new instances; their templates will be rebuilt
	}
	for _, m := range e.caches.masks {
		growSlice(&m.passes, n)
	}
	for _, column := range e.caches.constraints {
		growSlice(&column.matches, n)
	}
	for _, regions := range e.caches.regionMaps {
		regions.growRegions(n)
	}
}

// updateStatic updates everything that depends on the instance's row.
func updateStatic(e *Engine, i int) {
	for _, column := range e.caches.constraints {
		if !column.dynamic {
			column.evaluateInstance(e, i)
		}
	}
	for _, m := range e.caches.masks {
		m.updateInstance(e, i)
	}
	for _, regions := range e.caches.regionMaps {
		regions.updateInstance(i, &e.columns) // those by domain get another revision, which templates follow
	}
}

// ensureMetric returns the index of the metric and fills its columns if they are new.
func ensureMetric(e *Engine, name string) int {
	m := e.snap.MetricIndex(name)
	for len(e.metrics) <= m {
		column := make(metricColumn, len(e.views))
		e.metrics = append(e.metrics, column)
		e.indexRevision++
		for i, v := range e.views {
			if v != nil {
				column.observeUsage(i, len(e.metrics)-1, v)
				column[i].reserved = v.ReservedLoad(len(e.metrics) - 1)
			}
		}
	}
	return m
}

// currentView returns the instance with what this call has placed on it.
func (e *Engine) currentView(i int) *snapshot.InstanceView {
	if v := e.overlay.views[i]; v != nil {
		return v
	}
	return e.views[i]
}

// holdBackInstances keeps tasks off the instances until [Engine.releaseHeldBack]. Both add the
// instances to the change log, so that indexes check them again.
func (e *Engine) holdBackInstances(instances []string) {
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

// logSize is how many changes the log remembers. What was not used for longer is rebuilt.
const logSize = 1 << 14

// A changeLog lists the instances that changed, in order.
type changeLog struct {
	ring       []int32
	end        uint64
	lastChange []uint64 // per instance, the position after its latest change
}

func (l *changeLog) addChange(i int) {
	l.ring[l.end%logSize] = int32(i)
	l.end++
	l.lastChange[i] = l.end
}

// changedInstanceAt returns the instance at a position; last is false if it changed again later.
func (l *changeLog) changedInstanceAt(at uint64) (i int32, last bool) {
	i = l.ring[at%logSize]
	return i, l.lastChange[i] == at+1
}

// coversChangesSince reports whether replaying the log from a position is possible, and cheaper
// than a rebuild.
func (l *changeLog) coversChangesSince(at uint64, instances int) bool {
	return l.end-at <= logSize && l.end-at <= uint64(instances)
}
