//go:build unix

package main

import (
	"os"
	"path/filepath"
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

func TestAsksForShort(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"whole_test.go": "package p\n", "left_test.go": "package p_test\n\nvar isShort = testing.Short()\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		in   goPackage
		want bool
	}{
		{goPackage{Dir: dir}, false},
		{goPackage{Dir: dir, TestGoFiles: []string{"whole_test.go"}}, false},
		{goPackage{Dir: dir, TestGoFiles: []string{"whole_test.go"}, XTestGoFiles: []string{"left_test.go"}}, true},
	} {
		if got, err := c.in.asksForShort(); got != c.want || err != nil {
			t.Errorf("%v: %t, %v, want %t", c.in, got, err, c.want)
		}
	}
	if _, err := (goPackage{Dir: dir, TestGoFiles: []string{"missing_test.go"}}).asksForShort(); err == nil {
		t.Error("a file that is not there gives no error")
	}
}
