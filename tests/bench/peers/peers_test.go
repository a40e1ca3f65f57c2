package main

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth/tests/bench/workload"
)

// TestKubeKeepsTheRules: what kube-scheduler is given says what the workload says, for its answers pass the check
// that Run ends with, and most tasks are placed, though 100 nodes are few for 51 racks and 20 upgrade domains.
func TestKubeKeepsTheRules(t *testing.T) {
	for _, name := range workload.Names {
		for _, start := range []string{workload.Empty, workload.Full} {
			t.Run(name+"From"+start, func(t *testing.T) {
				w, err := workload.Make(name, workload.Fewest, 1)
				if err != nil {
					t.Fatal(err)
				}
				k, err := newKube(w, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer k.close()
				r, err := w.Run(peerKube, k, workload.Span{Start: start, Time: time.Hour, Tasks: w.Live})
				if err != nil {
					t.Fatal(err)
				}
				if r.Placed+r.Refused != w.Live || r.Placed*3 < w.Live*2 {
					t.Errorf("%+v of %d", r, w.Live)
				}
				if pods, err := k.sched.Cache.PodCount(); err != nil || pods != len(k.pods) {
					t.Errorf("%d pods in the cache, %d known, error %v", pods, len(k.pods), err)
				}
			})
		}
	}
}

func TestKubeScoresAllNodesIfAsked(t *testing.T) {
	w, err := workload.Make(workload.Mixed, 500, 1)
	if err != nil {
		t.Fatal(err)
	}
	considered := map[string]float64{}
	all := int32(100)
	for name, percentage := range map[string]*int32{peerKube: nil, peerKubeAll: &all} {
		k, err := newKube(w, percentage)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.Run(name, k, workload.Span{Start: workload.Empty, Time: time.Hour, Tasks: 20})
		k.close()
		if err != nil {
			t.Fatal(err)
		}
		considered[name] = r.Considered
	}
	if considered[peerKubeAll] != 500 || considered[peerKube] >= 500 {
		t.Errorf("considered %v of 500", considered)
	}
}

func TestPodSaysWhatTheServiceNeeds(t *testing.T) {
	s := &workload.Service{
		Name: "s", CPU: 384, Memory: 1024, GPUs: 2, HostPort: 8001, Loads: []workload.Metric{{Name: "iops", Amount: 40}},
		Where: []workload.Match{{Attribute: "disk", Values: []string{"ssd"}}}, Spread: true, Adaptive: true,
	}
	spec := pod(s).Spec
	requests := spec.Containers[0].Resources.Requests
	for name, want := range map[corev1.ResourceName]string{"cpu": "375m", "memory": "1Gi", resourceGPU: "2", prefixMetric + "iops": "40"} {
		if got := requests[name]; got.String() != want {
			t.Errorf("%s: %s, want %s", name, got.String(), want)
		}
	}
	if port := spec.Containers[0].Ports[0].HostPort; port != 8001 {
		t.Errorf("host port %d", port)
	}
	if spec.Affinity.NodeAffinity == nil || spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("affinity %+v", spec.Affinity)
	}
	var keys []string
	for _, c := range spec.TopologySpreadConstraints {
		keys = append(keys, c.TopologyKey+" "+string(c.WhenUnsatisfiable))
	}
	want := []string{
		corev1.LabelTopologyZone + " ScheduleAnyway", labelDataCentre + " DoNotSchedule",
		labelFaultDomain + " DoNotSchedule", labelUpgradeDomain + " DoNotSchedule",
	}
	if !reflect.DeepEqual(keys, want) {
		t.Errorf("spread over %v", keys)
	}
}

func TestReadsKarpentersFigures(t *testing.T) {
	got, err := parseKarpenter(`goos: linux
BenchmarkScheduling100  	       1	 245932974 ns/op	        20.00 nodes	       100.0 pods	       406.6 pods/sec
BenchmarkScheduling1000 	       1	3767569322 ns/op	       200.0 nodes	      1000 pods	       265.4 pods/sec
PASS
`)
	want := []workload.Result{
		{Peer: "karpenter", Workload: "karpenter-100", Nodes: 20, Start: "empty", Placed: 100, Seconds: 0.245932974, PerSecond: 406.6},
		{Peer: "karpenter", Workload: "karpenter-1000", Nodes: 200, Start: "empty", Placed: 1000, Seconds: 3.767569322, PerSecond: 265.4},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v", got, err)
	}
	for _, bad := range []string{"PASS\n", "BenchmarkScheduling100 \t 1\t 2 ns/op\n"} {
		if got, err := parseKarpenter(bad); err == nil {
			t.Errorf("%q read as %+v", bad, got)
		}
	}
}

func TestPrintsALineForEachResult(t *testing.T) {
	var out bytes.Buffer
	o := options{
		peers: peerKube + "," + peerKubeAll, workloads: "mixed,domains", starts: "full", nodes: "100,200", pods: "1", seconds: 0.01, json: true,
	}
	if err := run(context.Background(), o, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2*2*2 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var r workload.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Placed == 0 || r.P50 <= 0 || r.Peer == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	o.peers = "nobody"
	if err := run(context.Background(), o, &out); err == nil {
		t.Error("an unknown peer was accepted")
	}
}
