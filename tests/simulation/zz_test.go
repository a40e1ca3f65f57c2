package simulation

import "testing"

func TestZZ(t *testing.T) {
	for _, seed := range []uint64{31, 48} {
		a := Simulate(Run{Seed: seed})
		t.Logf("%d %v", seed, a.Broken)
	}
}
