package simulation

import (
	"fmt"
	"os"
	"testing"

	"berth/shared/cluster"
)

func TestNoop(t *testing.T) {
	if os.Getenv("NOOP") == "" {
		t.Skip()
	}
	serviceLies["noop"] = func(_ *World, rows []cluster.Row) []cluster.Row { return rows }
	for seed := range uint64(60) {
		out := Simulate(Run{Seed: seed, Plant: "noop"})
		if len(out.Broken) > 0 {
			fmt.Println(seed, out.Broken)
			for i, n := range out.Notes {
				if i > len(out.Notes)-12 {
					fmt.Println(n)
				}
			}
		}
	}
}
