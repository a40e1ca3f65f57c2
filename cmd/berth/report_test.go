//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/cmd/berth/chart/charttest"
	"berth/cmd/berth/pack"
)

// Three tasks arrive within two hours on two nodes.
const (
	replayNodeList = "sn,cpu_milli,memory_mib,gpu\na,4000,8000,0\nb,4000,8000,0\n"
	replayTaskList = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n" +
		"t1,1000,100,0,0,0,7200\nt2,2000,100,0,0,600,7200\nt3,4000,100,0,0,1200,7200\n"
)

// A file that cannot be created is found before the work, and one that cannot get its name does not keep
// the answer from being printed. Neither leaves a temporary file.
func TestFilesAreCreatedBeforeTheWork(t *testing.T) {
	folder := t.TempDir()
	taken := filepath.Join(folder, "taken")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(folder, "no", "file")
	search := []string{"rebalance", "--instance", writeTestFile(t, "model.txt", reassignModel), "--assignment",
		writeTestFile(t, "start.txt", reassignStart), "--steps", "5000"}
	list := []string{
		"--nodes", writeTestFile(t, "n.csv", packNodeList), "--tasks", writeTestFile(t, "t.csv", packTaskList),
	}
	for _, c := range []struct {
		args    []string
		flag    string
		printed bool
	}{
		{append(search[:7:7], "--out", nowhere), "--out: ", false},
		{append(search[:7:7], "--out", taken), "--out: ", true},
		{append(search[:7:7], "--out", filepath.Join(folder, "out"), "--report", nowhere), "--report: ", false},
		{append([]string{"pack", "--seeds", "1", "--report", nowhere}, list...), "--report: ", false},
		{append([]string{"pack", "--seeds", "1", "--report", taken}, list...), "--report: ", true},
	} {
		code, out, errs := berth(c.args...)
		if code != 1 || (out != "") != c.printed || !strings.Contains(errs, c.flag) {
			t.Errorf("berth %q: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A report is one file with the command line that made it, what the command prints, and figures.
func TestReports(t *testing.T) {
	nodes, tasks := writeTestFile(t, "n.csv", replayNodeList), writeTestFile(t, "t.csv", replayTaskList)
	replay := []string{"replay", "--nodes", nodes, "--tasks", tasks}
	saved := writeTestFile(t, "cluster.rows", savedRows(t, balanceRows()...))
	for name, c := range map[string]struct {
		args, want []string
	}{
		"replay": {replay, []string{"Allocated, in % of what the nodes have", "CPU: 0 % at the end",
			"memory: 0 % at the end",
			"3 tasks on 2 nodes", ">0s</text>"}},
		"scaled": {append(replay, "--scale", "both", "--days", "0.2"),
			[]string{"Instance-hours", "with consolidation: ",
				"ECS&#39;s rules: ", "original     ", "consolidate  "}},
		"pack": {[]string{"pack", "--nodes", writeTestFile(t, "pn.csv", packNodeList), "--tasks",
			writeTestFile(t, "pt.csv", packTaskList), "--seeds", "2"}, []string{
			"GPUs allocated, by how much of them tasks have asked for", "least-fragmentation, 130 %: ",
			"on 2 nodes with 8 GPUs"}},
		"rebalance": {[]string{"rebalance", "--dry-run", "--snapshot", saved}, []string{
			"too many on an instance, now: 66.67 %; too many on an instance, after: 0 %",
			"Distance from balanced after each move",
			"2 moves, cost 2."}},
		"reassign": {[]string{"rebalance", "--instance", writeTestFile(t, "model.txt", reassignModel), "--assignment",
			writeTestFile(t, "start.txt", reassignStart), "--steps", "5000", "--out", filepath.Join(t.TempDir(), "new.txt")},
			[]string{"Cost of the assignment; before: 60; after: 27", "Cost after each move of the plan; cost: 27 at the end",
				"cost          27, before 60"}},
	} {
		file := filepath.Join(t.TempDir(), "out.html")
		args := append(c.args[:len(c.args):len(c.args)], "--report", file)
		code, printed, errs := berth(args...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", name, code, errs)
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		charttest.CheckReport(t, page, printed)
		for _, text := range append(c.want, "<code>berth "+strings.Join(args, " ")+"</code>") {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s: %q is missing in\n%s", name, text, page)
			}
		}
		if strings.Contains(string(page), "published") {
			t.Errorf("%s: another cluster is compared with what was published", name)
		}
	}
	if code, _, errs := berth("rebalance", "--apply", "--report", "x.html"); code != 2 ||
		!strings.Contains(errs, "--report") {
		t.Errorf("a report of moves that are made: exit code %d, %s", code, errs)
	}
}

// The curve of a packing has the figures that it prints, and a report of a shipped list has what
// was published about it.
func TestPackFigures(t *testing.T) {
	known, ok := pack.PublishedFor("gpuspec33")
	if !ok || known.AllocAt100 != 87.84 {
		t.Fatalf("%+v, %v", known, ok)
	}
	if _, ok := pack.PublishedFor("my.csv"); ok {
		t.Error("something is published about any list")
	}
	r := pack.Result{Strategy: "best-fit", AllocAt100: 80, AllocAt130: 90, Curve: []float64{0, 1, 2}}
	all := ""
	for _, f := range r.Figures(known) {
		all += string(f)
	}
	for _, want := range []string{"FGD, published, at 100 %: 87.84 %", "FGD, published, 130 %: 94.55 %",
		"best-fit, 100 %: 80 %"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}
