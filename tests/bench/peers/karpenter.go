package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"berth/tests/bench/workload"
)

const (
	karpenterModule  = "sigs.k8s.io/karpenter"
	karpenterVersion = "v1.14.0"
	karpenterPackage = "./pkg/controllers/provisioning/scheduling"
)

// runKarpenter builds Karpenter's own scheduling benchmark, as its own module asks for it, into dir and runs it on one
// thread: for each number of pods, of five kinds, it decides which new nodes to buy and which pods go on them.
func runKarpenter(ctx context.Context, dir string, sizes []int) ([]workload.Result, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "karpenter-"+karpenterVersion+".test")
	if _, err := os.Stat(binary); err != nil {
		if err := buildKarpenter(ctx, binary); err != nil {
			return nil, fmt.Errorf("building Karpenter's benchmark: %w", err)
		}
	}
	var names []string
	for _, n := range sizes {
		names = append(names, strconv.Itoa(n))
	}
	run := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.benchtime=1x", "-test.cpu=1",
		"-test.bench=^BenchmarkScheduling("+strings.Join(names, "|")+")$")
	run.Dir, run.Stderr = dir, os.Stderr
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("running Karpenter's benchmark: %w\n%s", err, out)
	}
	return parseKarpenter(string(out))
}

func buildKarpenter(ctx context.Context, binary string) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", karpenterModule+"@"+karpenterVersion)
	download.Dir, download.Stderr = os.TempDir(), os.Stderr // outside of any module
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w", karpenterModule, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("reading where %s is: %w", karpenterModule, err)
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-p=1", "-tags=test_performance", "-o", binary, karpenterPackage)
	build.Dir, build.Stdout, build.Stderr = module.Dir, io.Discard, os.Stderr
	return build.Run()
}

// figures are the values of a benchmark's line, each before its unit.
var (
	benchmarkLine = regexp.MustCompile(`(?m)^BenchmarkScheduling(\d+)\s+\d+\s+(.*)$`)
	figure        = regexp.MustCompile(`([0-9.e+]+) (ns/op|nodes|pods|pods/sec)(?:\s|$)`)
)

// parseKarpenter reads the lines of Go's benchmarks. Nodes are those it decided to buy; it says how long all pods of a
// run took, not each.
func parseKarpenter(out string) ([]workload.Result, error) {
	var results []workload.Result
	for _, line := range benchmarkLine.FindAllStringSubmatch(out, -1) {
		values := map[string]float64{}
		for _, f := range figure.FindAllStringSubmatch(line[2], -1) {
			v, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", line[0], err)
			}
			values[f[2]] = v
		}
		if len(values) != 4 {
			return nil, fmt.Errorf("reading %q: a figure is missing", line[0])
		}
		results = append(results, workload.Result{
			Peer: "karpenter", Workload: "karpenter-" + line[1], Nodes: int(values["nodes"]), Start: workload.Empty,
			Placed: int(values["pods"]), Seconds: values["ns/op"] / 1e9, PerSecond: values["pods/sec"],
		})
	}
	if results == nil {
		return nil, fmt.Errorf("no benchmark in %q", out)
	}
	return results, nil
}
