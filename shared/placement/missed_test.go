package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// A recorder counts what an engine reports.
type recorder struct{ changes, resets int }

func (r *recorder) InstanceChanged(int, string, bool) { r.changes++ }
func (r *recorder) Reset()                            { r.resets++ }

// An engine that was not asked for longer than the snapshot's journal reaches back reads all
// instances again, and says so.
func TestEngineThatMissedChangesReadsAllInstances(t *testing.T) {
	s := memorySnapshot(12)
	e, seen := New(s), &recorder{}
	e.SetObserver(seen)
	spec := &Spec{Owner: "o"}
	e.Place(Request{Spec: spec, Count: 1})
	instance := func(n, rack int) {
		x := *s.Instances[fmt.Sprintf("i-%03d", n)].Instance
		x.Rev++
		x.Attributes = map[string]string{cluster.AttributeZone: fmt.Sprint(n % 2), "rack": fmt.Sprint(rack)}
		s.Put(&x)
	}
	instance(0, 7)
	putTask(s, "first", "o", "i-001")
	begin := s.ChangeSeq()
	for n := 0; reaches(s, begin); n++ {
		instance(2+n%9, n)
	}
	putTask(s, "last", "o", "i-011")
	e.Sync()
	if seen.resets != 1 || seen.changes != 0 {
		t.Errorf("%d resets and %d changes are reported, expected one reset", seen.resets, seen.changes)
	}
	if err := e.CheckKept(); err != nil {
		t.Error(err)
	}
	got, want := e.Place(Request{Spec: spec, Count: 9}), New(s).Place(Request{Spec: spec, Count: 9})
	if fmt.Sprint(got.Placed) != fmt.Sprint(want.Placed) {
		t.Errorf("placed %v, by a new engine %v", got.Placed, want.Placed)
	}
}

// A constraint that was not asked for longer than the log reaches back is evaluated again everywhere.
func TestConstraintsThatMissedChangesAreEvaluatedAgain(t *testing.T) {
	s := memorySnapshot(3)
	e, r := New(s), Request{Spec: &Spec{Owner: "o", Constraints: keptSpecs(t)["Dynamic"].Constraints}, Count: 1}
	e.Place(r)
	for n := range 50 { // as many as the constraint allows
		putTask(s, fmt.Sprint("first", n), "other", "i-000")
	}
	begin := e.changes.end
	for n := range logSize {
		next := *putTask(s, "second", "other", "i-001")
		next.Rev, next.Needs.CPU = int64(2+n), int64(2+n%2)
		s.Put(&next)
		e.Sync()
	}
	if e.changes.end-begin <= logSize {
		t.Fatalf("the log reaches back: there were %d changes", e.changes.end-begin)
	}
	putTask(s, "third", "o", "i-001")
	putTask(s, "fourth", "o", "i-002")
	if got := e.Place(r); len(got.Placed) != 1 || got.Placed[0].Instance == "i-000" {
		t.Errorf("placed %v, although i-000 has 50 tasks", got.Placed)
	}
}

// reaches reports whether the journal still has the changes after a position.
func reaches(s *snapshot.Snapshot, seq uint64) bool { return s.ChangeSeq()-seq <= 1<<15 }

// A chooser that is kept while others are forgotten still follows every change: of its owner's
// tasks, by group and by domain, and of what its constraints ask of instances.
func TestKeptChoosersFollowChangesAfterOthersAreForgotten(t *testing.T) {
	specs := keptSpecs(t)
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		t.Run(name, func(t *testing.T) {
			s, spec := memorySnapshot(40), specs[name]
			e := New(s)
			e.LimitMemory(1 << 30)
			for _, first := range []*Spec{otherSpec(t, 0), otherSpec(t, 1), spec} {
				e.Place(Request{Spec: first, Count: 1})
			}
			e.LimitMemory(1)
			kept := e.caches.choosers[chooserKey{spec, 0}]
			forgotten := false
			for n := 2; n < 8; n++ {
				before := len(e.caches.choosers)
				e.Place(Request{Spec: otherSpec(t, n), Count: 1})
				forgotten = forgotten || len(e.caches.choosers) <= before
				e.Place(Request{Spec: spec, Count: 1})
			}
			if !forgotten || e.caches.choosers[chooserKey{spec, 0}] != kept {
				t.Fatalf("the chooser is not kept, or all others are: %d", len(e.caches.choosers))
			}
			changeHalf(s, spec.Owner)
			request := Request{Spec: spec, Count: 30, Target: 30}
			got, want := e.Place(request), New(s).Place(request)
			if fmt.Sprint(got.Placed, got.Diagnosis) != fmt.Sprint(want.Placed, want.Diagnosis) {
				t.Errorf("placed %v, %v, by a new engine %v, %v", got.Placed, got.Diagnosis, want.Placed, want.Diagnosis)
			}
		})
	}
}

// changeHalf puts tasks of the owner on the instances of one zone, and half of all instances into
// another rack.
func changeHalf(s *snapshot.Snapshot, owner string) {
	for n := range 10 {
		putTask(s, fmt.Sprint("t", n), owner, fmt.Sprintf("i-%03d", 2*n))
	}
	for n := range 20 {
		x := *s.Instances[fmt.Sprintf("i-%03d", 2*n+1)].Instance
		x.Rev++
		x.Attributes = maps.Clone(x.Attributes)
		x.Attributes["rack"] = fmt.Sprint((n + 2) % 5) // other instances than before are in rack 1
		s.Put(&x)
	}
}
