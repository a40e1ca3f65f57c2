//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A goPackage is what the runner wants to know of a package from go list.
type goPackage struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	TestGoFiles, XTestGoFiles          []string
}

func (r *runner) goPackages(ctx context.Context) (all []goPackage, err error) {
	list, err := r.output(ctx, "go", "list",
		"-json=ImportPath,Dir,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	for in := json.NewDecoder(strings.NewReader(list)); in.More(); {
		var p goPackage
		if err := in.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Flags of go test.
const (
	parallelTests = "-parallel=8" // many wait for time to pass, so processors are no limit
	noCache       = "-count=1"
	timeout       = "-timeout=15m" // of one package
	fullTimeout   = "-timeout=30m" // of one in full: tests/e2e takes 8 to 15 minutes, by the machine
	longTimeout   = "-timeout=2h"
)

// The names of the steps that run tests.
const (
	shortTestStep = "go test -short"
	testStep      = "go test"
	clientStep    = "go test clients"
	releaseStep   = "go test release"
	raceStep      = "go test -race"
	mutateStep    = "mutate"
)

// shortTests runs the tests of all packages, without those that are left to `make check`.
func (r *runner) shortTests(ctx context.Context, log io.Writer) result {
	packages, err := r.goPackages(ctx)
	if err != nil {
		return failed(log, err)
	}
	return r.goTest(testRun{
		step: shortTestStep, packages: inTestOrder(packages),
		// One package more than there are processors, as the end-to-end tests mostly wait.
		flags: []string{"-short", parallelTests, timeout, fmt.Sprintf("-p=%d", runtime.NumCPU()+1)},
	})(ctx, log)
}

// fullTests runs the packages of which `make test` leaves tests out, in full: the others were whole
// there. The simulation and the real clients have steps of their own. Chance plays a part, so no
// result comes from the cache.
func (r *runner) fullTests(ctx context.Context, log io.Writer) result {
	packages, err := r.goPackages(ctx)
	if err != nil {
		return failed(log, err)
	}
	longer := []goPackage{}
	for _, p := range packages {
		if strings.HasSuffix(p.ImportPath, simulation) || strings.HasSuffix(p.ImportPath, clients) {
			continue
		}
		asks, err := p.asksForShort()
		if err != nil {
			return failed(log, err)
		}
		if asks {
			longer = append(longer, p)
		}
	}
	return r.goTest(testRun{
		step: testStep, flags: []string{noCache, parallelTests, fullTimeout}, packages: inTestOrder(longer),
	})(ctx, log)
}

// asksForShort reports whether a test of the package may be left out by -short.
func (p goPackage) asksForShort() (bool, error) {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil || strings.Contains(string(text), "testing.Short()") {
			return err == nil, err
		}
	}
	return false, nil
}

const (
	simulation = "/tests/simulation"
	clients    = "/tests/clients"
)

// clientTests runs the stories of real clients, while nothing else runs: Terraform alone keeps both
// processors of a small machine busy.
func (r *runner) clientTests(ctx context.Context, log io.Writer) result {
	return r.goTest(testRun{
		step: clientStep, flags: []string{noCache, parallelTests, timeout}, packages: []string{"." + clients},
	})(ctx, log)
}

// releaseTests builds releases and runs what is in them. The module tools/ holds the command for it,
// so that the libraries it needs are not the project's own.
func (r *runner) releaseTests(ctx context.Context, log io.Writer) result {
	return r.goTest(testRun{
		step: releaseStep, flags: []string{noCache, timeout}, packages: []string{"./dist"}, module: "tools",
	})(ctx, log)
}

// inTestOrder puts the packages in tests/ first: they wait more than they compute, and go test
// starts packages in the order given.
func inTestOrder(packages []goPackage) (paths []string) {
	for _, first := range []bool{true, false} {
		for _, p := range packages {
			if strings.Contains(p.ImportPath, "/tests/") == first {
				paths = append(paths, p.ImportPath)
			}
		}
	}
	return paths
}

func simulateStep(seeds int) string { return fmt.Sprintf("simulate %d seeds", seeds) }

// simulate runs whole clusters under faults, one for each seed. A seed that fails is printed.
func (r *runner) simulate(seeds int) action {
	return r.goTest(testRun{
		step: simulateStep(seeds), env: []string{"SEEDS=" + strconv.Itoa(seeds)},
		flags: []string{noCache, longTimeout}, packages: []string{"." + simulation},
	})
}

// raceTests runs the tests of the packages that use goroutines under the race detector, which needs
// a C compiler.
func (r *runner) raceTests(ctx context.Context, log io.Writer) result {
	compiler, err := r.output(ctx, "go", "env", "CC")
	if err != nil {
		return failed(log, err)
	}
	if _, err := r.output(ctx, compiler, "--version"); err != nil {
		return skipped("no C compiler (" + compiler + ")")
	}
	packages, err := r.goPackages(ctx)
	if err != nil {
		return failed(log, err)
	}
	return r.goTest(testRun{
		step: raceStep, prefix: "race: ", env: []string{"CGO_ENABLED=1"},
		flags: []string{"-race", "-short", noCache, parallelTests, timeout}, packages: concurrentPackages(packages),
	})(ctx, log)
}

// mutate makes a few changes of the core, one at a time, which its tests have to notice. It always
// draws the same ones, so that a failure comes from the commit.
func (r *runner) mutate() action {
	return r.command("go", "run", "./tests/mutate", "-seed", "1", "-count", "10", "-at-least", "70",
		"./shared/service", "./shared/placement", "./shared/scaling", "./shared/nodegroup")
}

// concurrentPackages returns the packages of the program that may run in several goroutines: those
// that use sync, or whose tests do, and all that share a folder of shared/ with one of these, as
// one package there may hold the lock of the others.
func concurrentPackages(packages []goPackage) (paths []string) {
	concurrent := map[string]bool{} // folders
	for _, p := range packages {
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		if slices.Contains(imports, "sync") || slices.Contains(imports, "sync/atomic") {
			concurrent[p.area()] = true
		}
	}
	for _, p := range packages {
		if concurrent[p.area()] && !strings.Contains(p.ImportPath, "/tests/") {
			paths = append(paths, p.ImportPath)
		}
	}
	return paths
}

// area returns the folder of shared/ that the package is in, or the package itself if it is
// elsewhere.
func (p goPackage) area() string {
	before, inside, isShared := strings.Cut(p.ImportPath, "/shared/")
	if !isShared {
		return p.ImportPath
	}
	folder, _, _ := strings.Cut(inside, "/")
	return before + "/shared/" + folder
}
