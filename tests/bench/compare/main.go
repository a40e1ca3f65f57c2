// Command compare is the placement part of `make bench`. It runs Berth's engine and then its peers
// through the same workloads, on one thread, and prints how they compare. Run it from the project's
// root. With -quick it takes seconds and runs no peers. tests/bench/peers/README.md says what
// cannot be compared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/tests/bench/workload"
)

// options are the flags.
type options struct {
	workloads, starts, nodes, peers string
	seconds, peerSeconds            float64
	seed                            uint64
	quick, json, snapshot           bool
	profile, report                 string
}

func main() {
	o := options{}
	flag.StringVar(&o.workloads, "workload", strings.Join(workload.Names, ","), "workloads")
	flag.StringVar(&o.starts, "start", workload.Full+","+workload.Empty, "where runs start")
	flag.StringVar(&o.nodes, "nodes", "1000,5000,15000", "numbers of instances")
	flag.StringVar(&o.peers, "peer", "kube-scheduler,kube-scheduler-all,karpenter", "peers; empty for none")
	flag.Float64Var(&o.seconds, "seconds", 2, "limit of one of Berth's runs, without preparation")
	flag.Float64Var(&o.peerSeconds, "peer-seconds", 5, "limit of one of a peer's runs, without preparation")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the workloads")
	flag.BoolVar(&o.quick, "quick", false, "no peers, one size, short runs")
	flag.BoolVar(&o.snapshot, "snapshot", true, "build a snapshot of 15,000 instances and 300,000 tasks")
	flag.BoolVar(&o.json, "json", false, "print a line of JSON for each result, not tables")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a profile of Berth's runs to this file")
	flag.StringVar(&o.report, "report", "", "also draw the results, in this HTML file")
	flag.Parse()
	if o.quick {
		o.nodes, o.starts, o.peers, o.seconds = "5000", workload.Full, "", 0.5
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	err := o.run(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted: what is above is incomplete")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// run runs everything and prints the results, even if an error cut them short.
func (o options) run(ctx context.Context) error {
	b := &bench{options: o, progress: os.Stderr}
	err := b.runAll(ctx)
	if o.report != "" {
		err = errors.Join(err, b.writeReport(o.report))
	}
	if o.json {
		return errors.Join(err, b.printJSON(os.Stdout))
	}
	return errors.Join(err, b.printTables(os.Stdout))
}

// bench has the flags and the results so far.
type bench struct {
	options
	progress  io.Writer
	results   []workload.Result
	replicas  []replicasResult
	snapshots []snapshotResult
}

func (b *bench) runAll(ctx context.Context) error {
	sizes, err := parseNumbers(b.nodes)
	if err != nil {
		return err
	}
	if err := b.runOwn(ctx, sizes); err != nil || b.peers == "" {
		return err
	}
	return b.runPeers(ctx)
}

// runOwn runs Berth. Its goroutine and the garbage collector share one core.
func (b *bench) runOwn(ctx context.Context, sizes []int) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, name := range strings.Split(b.workloads, ",") {
		for _, n := range sizes {
			if err := b.oneWorkload(ctx, name, n); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil || !b.snapshot {
		return err
	}
	r, err := buildSnapshot(manyInstances, manyServices, tasksEach)
	if err != nil {
		return err
	}
	b.snapshots = append(b.snapshots, r)
	b.reportProgress("snapshot of %d instances and %d tasks: %.0f MB, built in %.2f s", r.Instances, r.Tasks,
		r.Bytes/1e6, r.Seconds)
	return nil
}

// oneWorkload runs Berth through one workload of one size, and asks it for a thousand tasks at
// once.
func (b *bench) oneWorkload(ctx context.Context, name string, nodes int) error {
	w, err := workload.Make(name, nodes, b.seed)
	if err != nil {
		return err
	}
	for _, start := range strings.Split(b.starts, ",") {
		e, err := newEngine(w)
		if err != nil {
			return err
		}
		if err := b.runOnce(ctx, w, berth, e, start); err != nil {
			return err
		}
		if name != workload.Mixed {
			continue
		}
		if err := b.runOnce(ctx, w, plainScan, newScanEngine(w), start); err != nil {
			return err
		}
		scan, err := newRowScanEngine(w)
		if err != nil {
			return err
		}
		if err := b.runOnce(ctx, w, rowScan, scan, start); err != nil {
			return err
		}
	}
	if nodes < 2*replicas {
		return nil // too few for a thousand tasks with an instance each
	}
	r, err := placeReplicas(w)
	if err != nil {
		return err
	}
	b.replicas = append(b.replicas, r)
	b.reportProgress("%-14s %6d instances: %d replicas in one request, p50 %.1f ms", name, nodes, replicas, r.P50)
	return nil
}

// runOnce runs one engine through one workload.
func (b *bench) runOnce(ctx context.Context, w *workload.Workload, who string, e workload.Engine, start string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := w.Run(who, e, workload.Span{Start: start, Time: time.Duration(b.seconds * float64(time.Second)),
		Tasks: 1 << 20})
	if err != nil {
		return err
	}
	b.addResult(r)
	return nil
}

// addResult keeps a result, Berth's or a peer's.
func (b *bench) addResult(r workload.Result) {
	b.results = append(b.results, r)
	b.reportProgress("%-14s %6d instances, from %-5s  %-19s %9.0f/s", r.Workload, r.Nodes, r.Start, r.Peer, r.PerSecond)
}

func (b *bench) reportProgress(format string, values ...any) {
	fmt.Fprintf(b.progress, format+"\n", values...)
}

// printJSON prints a line of JSON for each result.
func (b *bench) printJSON(out io.Writer) error {
	encoder, errs := json.NewEncoder(out), []error(nil)
	for _, r := range b.results {
		errs = append(errs, encoder.Encode(struct {
			Benchmark string `json:"benchmark"`
			workload.Result
		}{"workload", r}))
	}
	for _, r := range b.replicas {
		errs = append(errs, encoder.Encode(r))
	}
	for _, r := range b.snapshots {
		errs = append(errs, encoder.Encode(r))
	}
	return errors.Join(errs...)
}

func parseNumbers(s string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of numbers", s)
		}
		out = append(out, n)
	}
	return out, nil
}
