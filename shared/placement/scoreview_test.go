package placement_test

import (
	"slices"
	"testing"

	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/gpurows"
	"berth/tests/oracle"
)

// A score is that of the view that is given: a placement's own view, with devices already taken,
// has another one than the instance in the snapshot, and does not change that one's. An explanation
// has the snapshot's.
func TestScoreIsOfTheGivenView(t *testing.T) {
	s := gpurows.AddWaiting(oracle.SnapshotOf(gpurows.Instance("a", 16, 4, "T4"), gpurows.Instance("b", 64, 4, "T4"),
		gpurows.Task("t", "a", gpurows.Needs(1, 1000), 0)), gpurows.Needs(4, 1000), gpurows.Needs(2, 500))
	needs := gpurows.Needs(2, 500)
	v := s.Instances["a"]
	taken := *v
	taken.GPUs = slices.Clone(v.GPUs)
	taken.GPUs[1], taken.GPUs[2] = 0, 400
	first, second := placement.New(s).Packing(), placement.New(s).Packing()
	first.Epoch() // learns the mix
	second.Epoch()
	inSnapshot, own := first.Score(v, &needs), second.Score(&taken, &needs)
	if inSnapshot == own || first.Score(&taken, &needs) != own || second.Score(v, &needs) != inSnapshot {
		t.Errorf("the instance has %g and then %g, the view %g and then %g", inSnapshot, second.Score(v, &needs), own,
			first.Score(&taken, &needs))
	}
	x := placement.New(s).Explain(placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o", Needs: needs,
		Scoring: placement.LeastFragmentation}})
	found := false
	for _, c := range []*placement.Candidate{x.Best, x.RunnerUp} {
		for _, k := range c.Key {
			found = found || k.Value == first.Score(s.Instances[c.Instance], &needs)
		}
	}
	if !found {
		t.Errorf("no score is in %+v", x.Best.Key)
	}
}

// An instance that has left the cluster, with its place in the snapshot free, has no part in
// scores.
func TestScoresWithoutAnInstanceThatLeft(t *testing.T) {
	left := gpurows.Instance("c", 8, 4, "T4")
	s := gpurows.AddWaiting(oracle.SnapshotOf(gpurows.Instance("a", 16, 4, "T4"), left), gpurows.Needs(4, 1000))
	s.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(left), Old: left})
	got := placement.New(s).Place(placement.Request{Count: 1,
		Spec: &placement.Spec{Owner: "o", Needs: gpurows.Needs(4, 1000),
			Scoring: placement.LeastFragmentation}})
	if len(got.Placed) != 1 || got.Placed[0].Instance != "a" {
		t.Errorf("placed %v", got.Placed)
	}
}
