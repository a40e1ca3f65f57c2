//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	packNodeList = "sn,cpu_milli,memory_mib,gpu,model\na,32000,65536,4,T4\nb,32000,65536,4,A10\nc,32000,65536,0,\n"
	packTaskList = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nx,4000,4096,1,500,\ny,8000,8192,1,1000,T4|A10\nz,1000,1024,0,0,\n"
)

// writeTestFile writes a file with this content and returns its path.
func writeTestFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPack(t *testing.T) {
	nodes, tasks := writeTestFile(t, "nodes.csv", packNodeList), writeTestFile(t, "tasks.csv", packTaskList)
	t.Run("PrintsJSON", func(t *testing.T) {
		code, out, errs := berth("pack", "--nodes", nodes, "--tasks", tasks, "--seeds", "3", "--json")
		var got struct {
			Strategy                               string
			AllocAt100, AllocAt130, TasksPerSecond float64
			Nodes, GPUs                            int
			Seeds                                  []struct{ Placed int }
		}
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || errs != "" {
			t.Fatalf("exit code %d, %v, %q, %q", code, err, out, errs)
		}
		if got.Strategy != "least-fragmentation" || got.Nodes != 2 || got.GPUs != 8 || len(got.Seeds) != 3 ||
			got.AllocAt100 <= 50 || got.AllocAt130 < got.AllocAt100 || got.TasksPerSecond <= 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("PrintsForPeople", func(t *testing.T) {
		code, out, errs := berth("pack", "--nodes", nodes, "--tasks", tasks, "--seeds", "1", "--strategy", "best-fit")
		for _, want := range []string{"best-fit on 2 nodes with 8 GPUs, mean of 1 seeds", "GPUs allocated", "tasks/s"} {
			if code != 0 || errs != "" || !strings.Contains(out, want) {
				t.Errorf("exit code %d, %q, want %q in %q", code, errs, want, out)
			}
		}
	})
	t.Run("KnowsTheShippedLists", func(t *testing.T) {
		for _, list := range []string{"default", "gpuspec33", "multigpu50"} {
			if code, out, errs := berth("pack", "--nodes", nodes, "--tasks", list, "--seeds", "1",
				"--json"); code != 0 || !strings.Contains(out, `"gpus":8`) {
				t.Errorf("%s: exit code %d, %q, %q", list, code, out, errs)
			}
		}
	})
	t.Run("HelpSaysWhatThereIs", func(t *testing.T) {
		code, out, _ := berth("pack", "--help")
		out = strings.Join(strings.Fields(out), " ") // lines break anywhere
		for _, want := range []string{"Examples:", "--seeds=10", "default, gpuspec33, multigpu50",
			"least-fragmentation,", "130 %"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, want %q in:\n%s", code, want, out)
			}
		}
	})
}

func TestPackMistakes(t *testing.T) {
	nodes, tasks := writeTestFile(t, "nodes.csv", packNodeList), writeTestFile(t, "tasks.csv", packTaskList)
	badNodes := writeTestFile(t, "bad-nodes.csv", "sn,cpu_milli,memory_mib,gpu\na,32000,65536,some\n")
	badTasks := writeTestFile(t, "bad-tasks.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,4000,4096,2,500\n")
	noGPUs := writeTestFile(t, "cpu.csv", "sn,cpu_milli,memory_mib,gpu\na,32000,65536,0\n")
	for name, c := range map[string]struct {
		args string
		code int
		want []string
	}{
		"Seeds":    {"--seeds 0", 2, []string{"--seeds", "0", "1 to 10000"}},
		"Strategy": {"--strategy fastest", 2, []string{"--strategy", `"fastest"`, "least-fragmentation or best-fit"}},
		"NoNodes":  {"--nodes missing.csv", 2, []string{"--nodes", "missing.csv"}},
		"NoTasks": {"--tasks missing.csv", 1, []string{"--tasks", `"missing.csv"`,
			"expected a file or one of default, gpuspec33, multigpu50"}},
		"BadNodes": {"--nodes " + badNodes, 1, []string{"bad-nodes.csv", "line 2, column gpu", `"some"`,
			"a whole number from 0 to 1024"}},
		"BadTasks": {"--nodes " + nodes + " --tasks " + badTasks, 1,
			[]string{"bad-tasks.csv", "line 2, column gpu_milli", `"500"`, "only one GPU can be shared"}},
		"NothingFit": {"--nodes " + noGPUs + " --tasks " + tasks, 1, []string{"no node has GPUs", "expected"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := berth(append([]string{"pack"}, strings.Fields(c.args)...)...)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; printed %q", code, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("no %q in %q", want, errs)
				}
			}
		})
	}
}

func TestPackProgress(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	p := newProgress(&out, func() time.Time { return now })
	report := p.reportSeeds(10)
	for _, second := range []int{0, 1, 2, 3, 5} {
		now = time.Unix(int64(second), 0)
		report(3, 1000*second)
	}
	p.clearReport()
	if want := "seed 3 of 10, 2000 tasks so far, 1000/s\nseed 3 of 10, 5000 tasks so far, 1000/s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestReplayRefusesUnknownStrategies(t *testing.T) {
	code, out, errs := berth("replay", "--strategy", "fastest")
	if want := `--strategy is "fastest", expected least-fragmentation or best-fit`; code != 2 || out != "" ||
		!strings.Contains(errs, want) {
		t.Errorf("exit code %d, %q, %q, want 2 and %s", code, out, errs, want)
	}
}
