package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/cmd/berth/chart/charttest"
	"berth/tests/bench/workload"
)

// The page of a comparison has the figures that are printed: Berth's own speed, and how many times as
// fast it is as each peer that ran the same workload.
func TestReport(t *testing.T) {
	run := func(peer, name string, nodes int, perSecond float64) workload.Result {
		return workload.Result{Peer: peer, Workload: name, Nodes: nodes, Start: workload.Empty, Placed: 4000,
			PerSecond: perSecond}
	}
	known := workload.Names[0]
	b := &bench{results: []workload.Result{run(berth, known, 1000, 50_000), run("nomad", known, 1000, 4000),
		run("kubernetes", known, 1000, 250), run(berth, known, 5000, 40_000), run("nomad", known, 5000, 1600),
		run("nomad", known, 9000, 1000)}} // Berth did not run the last one
	var printed strings.Builder
	if err := b.printTables(&printed); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bench.html")
	if err := b.writeReport(file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	charttest.CheckReport(t, page, printed.String())
	for label, figures := range map[string][]string{
		"Tasks that Berth places in a second; KNOWN, 1000, empty: 50000; KNOWN, 5000, empty: 40000":  {"50000", "40000"},
		"How many times as fast as nomad Berth is; KNOWN, 1000, empty: 12.5; KNOWN, 5000, empty: 25": {"12.5 x", "25 x"},
		"How many times as fast as kubernetes Berth is; KNOWN, 1000, empty: 200":                     {"200 x"},
	} {
		if label = strings.ReplaceAll(label, "KNOWN", known); !strings.Contains(string(page), `aria-label="`+label+`"`) {
			t.Errorf("%q is missing in\n%s", label, page)
		}
		for _, figure := range figures {
			if !strings.Contains(printed.String(), figure) {
				t.Errorf("%q was not printed:\n%s", figure, printed.String())
			}
		}
	}
}
