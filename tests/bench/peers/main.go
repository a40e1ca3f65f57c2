// Command peers runs the placement workloads through other schedulers: kube-scheduler, as a library, and Karpenter's own
// benchmark. README.md says what of it can be compared with Berth's figures.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"berth/tests/bench/workload"
)

// The peers. kube-scheduler looks for so many feasible nodes as it thinks enough; kube-scheduler-all scores all of them.
const (
	peerKube      = "kube-scheduler"
	peerKubeAll   = "kube-scheduler-all"
	peerKarpenter = "karpenter"
)

// options are the flags.
type options struct {
	peers, workloads, starts string
	nodes, pods              string
	seconds                  float64
	seed                     uint64
	json                     bool
	dir                      string
}

func main() {
	var o options
	flag.StringVar(&o.peers, "peer", strings.Join([]string{peerKube, peerKubeAll, peerKarpenter}, ","), "peers to run")
	flag.StringVar(&o.workloads, "workload", strings.Join(workload.Names, ","), "workloads to run through kube-scheduler")
	flag.StringVar(&o.starts, "start", workload.Full+","+workload.Empty, "where runs start")
	flag.StringVar(&o.nodes, "nodes", "1000,5000,15000", "numbers of nodes")
	flag.StringVar(&o.pods, "pods", "500,1000,2000", "numbers of pods in Karpenter's benchmark, as it has them")
	flag.Float64Var(&o.seconds, "seconds", 5, "the most that one workload of one size takes, preparation aside")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the workloads")
	flag.BoolVar(&o.json, "json", false, "print a line of JSON for each result, not a table")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where Karpenter's benchmark is built, and kept for the next run")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	nodes, err := numbers(o.nodes)
	if err != nil {
		return err
	}
	pods, err := numbers(o.pods)
	if err != nil {
		return err
	}
	show := table
	if o.json {
		show = line
	}
	peers := strings.Split(o.peers, ",")
	for _, peer := range peers {
		if !slices.Contains([]string{peerKube, peerKubeAll, peerKarpenter}, peer) {
			return fmt.Errorf("there is no peer %q", peer)
		}
	}
	for _, name := range strings.Split(o.workloads, ",") {
		for _, n := range nodes {
			if err := o.each(ctx, name, n, func(r workload.Result) error { return show(out, r) }); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(peers, peerKarpenter) {
		return nil
	}
	results, err := runKarpenter(ctx, o.dir, pods)
	for _, r := range results {
		if err := show(out, r); err != nil {
			return err
		}
	}
	return err
}

// each runs one workload of one size through every kube-scheduler.
func (o options) each(ctx context.Context, name string, nodes int, show func(workload.Result) error) error {
	w, err := workload.Make(name, nodes, o.seed)
	if err != nil {
		return err
	}
	all := int32(100)
	for _, peer := range strings.Split(o.peers, ",") {
		if peer == peerKarpenter {
			continue
		}
		percentage := (*int32)(nil)
		if peer == peerKubeAll {
			percentage = &all
		}
		for _, start := range strings.Split(o.starts, ",") {
			if err := ctx.Err(); err != nil {
				return err
			}
			k, err := newKube(w, percentage)
			if err != nil {
				return err
			}
			r, err := w.Run(peer, k, workload.Span{Start: start, Time: time.Duration(o.seconds * float64(time.Second)), Tasks: 1 << 20})
			k.close()
			if err != nil {
				return err
			}
			if err := show(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func line(out io.Writer, r workload.Result) error { return json.NewEncoder(out).Encode(r) }

func table(out io.Writer, r workload.Result) error {
	_, err := fmt.Fprintf(out, "%-20s %-15s %6d nodes, from %-5s %9.0f/s  p50 %8.0f us  p99 %8.0f us  %6.0f considered  %d placed, %d refused, CPU %.1f of %.1f s\n",
		r.Peer, r.Workload, r.Nodes, r.Start, r.PerSecond, r.P50, r.P99, r.Considered, r.Placed, r.Refused, r.CPU, r.Seconds)
	return err
}

func numbers(s string) ([]int, error) {
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
