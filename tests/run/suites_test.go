//go:build unix

package main

import (
	"slices"
	"testing"
)

func TestConcurrentPackages(t *testing.T) {
	got := concurrentPackages([]goPackage{
		{ImportPath: "m/shared/locks", Imports: []string{"context", "sync"}},
		{ImportPath: "m/shared/pure", Imports: []string{"context"}},
		{ImportPath: "m/shared/sim/ecs", Imports: []string{"m/shared/sim/kernel"}},
		{ImportPath: "m/shared/sim/kernel", Imports: []string{"sync"}},
		{ImportPath: "m/cmd/berth", Imports: []string{"sync"}},
		{ImportPath: "m/cmd/berth/replay", Imports: []string{"time"}},
		{ImportPath: "m/shared/tested", XTestImports: []string{"sync/atomic"}},
		{ImportPath: "m/tests/e2e", TestImports: []string{"sync"}},
	})
	if want := []string{"m/shared/locks", "m/shared/sim/ecs", "m/shared/sim/kernel", "m/cmd/berth", "m/shared/tested"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInTestOrder(t *testing.T) {
	got := inTestOrder([]goPackage{{ImportPath: "m/cmd"}, {ImportPath: "m/tests/e2e"}, {ImportPath: "m/tests/house"}})
	if want := []string{"m/tests/e2e", "m/tests/house", "m/cmd"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
