//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// gofmt finds Go files that are not formatted, folders that start with a dot apart.
func (r *runner) gofmt(_ context.Context, log io.Writer) result {
	res := passed
	err := filepath.WalkDir(r.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != r.root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if formatted, err := format.Source(src); err != nil || !bytes.Equal(src, formatted) {
			rel, _ := filepath.Rel(r.root, name)
			fmt.Fprintf(log, "%s: run gofmt -w\n", rel)
			res = result{failures: []string{""}}
		}
		return nil
	})
	if err != nil {
		return failed(log, err)
	}
	return res
}

// staticcheck is built from the versions in tools/go.mod.
func (r *runner) staticcheck(ctx context.Context, log io.Writer) result {
	bin := filepath.Join(r.cache, "bin", "staticcheck")
	err := r.exec(ctx, log, nil, "go", "build", "-C", "tools", "-o", bin, "honnef.co/go/tools/cmd/staticcheck")
	if err != nil {
		return failed(log, err)
	}
	return r.command(bin, "./...")(ctx, log)
}

// buildFunctions builds every function as Lambda runs it.
func (r *runner) buildFunctions(arch string) check {
	return func(ctx context.Context, log io.Writer) result {
		names, err := r.functions()
		if err != nil {
			return failed(log, err)
		}
		dir := filepath.Join(r.cache, "build", arch) + string(filepath.Separator)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return failed(log, err)
		}
		flags, err := r.lambdaFlags()
		if err != nil {
			return failed(log, err)
		}
		err = r.exec(ctx, log, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0", "GOFLAGS=" + flags},
			"go", "build", "-o", dir, "./functions/...")
		if err != nil {
			return failed(log, err)
		}
		return sizes(log, names, func(name string) string { return filepath.Join(dir, name) })
	}
}

// functions are the folders of functions/.
func (r *runner) functions() (names []string, err error) {
	mains, err := filepath.Glob(filepath.Join(r.root, "functions", "*", "main.go"))
	for _, main := range mains {
		names = append(names, filepath.Base(filepath.Dir(main)))
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no function in functions/")
	}
	return names, err
}

// mostBytes is how large a function's stripped binary may be: of those that answer users or stand in every task's way,
// and of all others.
const (
	mostBytes      = 12 << 20
	mostBytesOther = 20 << 20
)

var quickest = []string{"api", "dispatch", "placement", "task-state-change"}

// sizes holds the functions' binaries to their limits.
func sizes(log io.Writer, names []string, binary func(name string) string) result {
	res := result{passed: 1}
	for _, name := range names {
		info, err := os.Stat(binary(name))
		if err != nil {
			return failed(log, err)
		}
		most := int64(mostBytesOther)
		if slices.Contains(quickest, name) {
			most = mostBytes
		}
		res.note += fmt.Sprintf("%s %.1f MB  ", name, float64(info.Size())/(1<<20))
		if info.Size() > most {
			fmt.Fprintf(log, "%s has %d bytes, at most %d are allowed\n", name, info.Size(), most)
			res.failures = append(res.failures, "size of "+name)
		}
	}
	res.note = strings.TrimSpace(res.note)
	if len(res.failures) > 0 {
		res.passed = 0
	}
	return res
}

// tests runs the tests of all packages but the simulation's, which have a step of their own.
func (r *runner) tests(ctx context.Context, log io.Writer) result {
	list, err := r.output(ctx, "go", "list", "./...")
	if err != nil {
		return failed(log, err)
	}
	packages := slices.DeleteFunc(strings.Fields(list), func(name string) bool { return strings.HasSuffix(name, "/tests/simulation") })
	// Tests that run beside others wait for them or for time to pass, on however few cores.
	return r.goTest("all", nil, append([]string{"-parallel=8"}, packages...)...)(ctx, log)
}

// concurrent are the packages with goroutines of their own.
var concurrent = []string{"./shared/embedded/...", "./shared/sim/...", "./shared/wire/...", "./cmd/berth", "./cmd/berth/dataplane"}

// race runs the tests of the packages with goroutines under the race detector, which needs a C compiler.
func (r *runner) race(ctx context.Context, log io.Writer) result {
	cc, err := r.output(ctx, "go", "env", "CC")
	if err != nil {
		return failed(log, err)
	}
	if _, err := r.output(ctx, cc, "--version"); err != nil {
		return skipped("no C compiler (" + cc + ")")
	}
	return r.goTest("race", []string{"CGO_ENABLED=1"}, append([]string{"-race", "-short"}, concurrent...)...)(ctx, log)
}

// simulate runs whole clusters under faults, one seed each; a seed that fails is printed.
func (r *runner) simulate(seeds int) check {
	return r.goTest("simulation", []string{"SEEDS=" + strconv.Itoa(seeds)}, "./tests/simulation")
}
