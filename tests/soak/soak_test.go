package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/tests/process"
)

// A size says how large the cluster is, how hard it is used, and what must hold afterwards.
type size struct {
	nodes, services, tasks int // tasks of all services
	readers                int
	readGap, changeGap     time.Duration // between two calls of one reader, between two changes
	lasts, starts          time.Duration // the load, the time for all tasks to run
	p99                    time.Duration // of reads; 0 for no bound
	growth                 float64       // of memory between the first and the last third; 0 for no bound
	memory                 float64       // MB, at any time; 0 for no bound
}

// A short run shows that every kind of call works. It is too short to judge memory, and the machine
// has other tests to run.
var short = size{nodes: 30, services: 10, tasks: 200, readers: 4, readGap: 20 * time.Millisecond,
	changeGap: 200 * time.Millisecond, lasts: 5 * time.Second, starts: 90 * time.Second}

func full(minutes int) size {
	return size{nodes: 5000, services: 500, tasks: 50_000, readers: 16, readGap: 100 * time.Millisecond,
		changeGap: time.Second, lasts: time.Duration(minutes) * time.Minute, starts: 30 * time.Minute,
		p99: 50 * time.Millisecond, growth: 1.1, memory: 1500}
}

func sizeOfRun(t *testing.T) size {
	text := os.Getenv("SOAK_MINUTES")
	if text == "" {
		return short
	}
	minutes, err := strconv.Atoi(text)
	if err != nil || minutes < 1 {
		t.Fatalf("SOAK_MINUTES is %q, want a number of minutes", text)
	}
	return full(minutes)
}

// TestSoak runs the load, prints what it has measured, and fails if a bound does not hold.
func TestSoak(t *testing.T) {
	s := sizeOfRun(t)
	binary := filepath.Join(t.TempDir(), "berth")
	build := exec.Command("go", "build", "-o", binary, "./cmd/berth")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building berth: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "up", "--listen", "127.0.0.1:0", "--nodes", strconv.Itoa(s.nodes), "--type", "m5.large",
		"--data", t.TempDir())
	c := &client{endpoint: process.StartServer(t, cmd), calls: map[string]int{}, taken: map[string][]time.Duration{}}
	c.prepare(t, s)
	ctx, stop := context.WithTimeout(t.Context(), s.lasts)
	defer stop()
	var all sync.WaitGroup
	for n := range s.readers {
		all.Go(func() { c.read(ctx, s, n) })
	}
	all.Go(func() { c.change(ctx, s) })
	memory := sampleMemory(ctx, t, cmd.Process.Pid)
	all.Wait()
	c.judge(t, s, memory)
	c.settle(t, s)
}

// settle waits until each service has its desired count of running tasks again.
func (c *client) settle(t *testing.T, s size) {
	t.Helper()
	begin := time.Now()
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for from := 0; from < s.services; {
		names := []string{}
		for n := from; n < min(from+10, s.services); n++ {
			names = append(names, fmt.Sprint("s", n))
		}
		body, _ := json.Marshal(map[string]any{"services": names}) // strings only
		answer, err := c.call(t.Context(), "DescribeServices", string(body))
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Services []struct{ DesiredCount, RunningCount int }
		}
		settled := json.Unmarshal([]byte(answer), &out) == nil && len(out.Services) == len(names)
		for _, service := range out.Services {
			settled = settled && service.DesiredCount == service.RunningCount
		}
		if settled {
			from += len(names)
			continue
		}
		if time.Since(begin) > s.starts {
			t.Fatalf("services %s have not their desired counts %s after the load: %s", names, s.starts, answer)
		}
		<-pause.C
	}
	t.Logf("all services have their desired counts %s after the load", time.Since(begin).Round(time.Second))
}

// prepare creates the services and waits until all their tasks run.
func (c *client) prepare(t *testing.T, s size) {
	t.Helper()
	mustCall := func(op, format string, args ...any) string {
		answer, err := c.call(t.Context(), op, fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	mustCall("RegisterTaskDefinition",
		`{"family":"web","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`)
	for n := range s.services {
		mustCall("CreateService", `{"serviceName":"s%d","taskDefinition":"web","desiredCount":%d}`, n,
			s.tasks/s.services)
	}
	begin := time.Now()
	for pause := time.NewTicker(time.Second); ; <-pause.C {
		running := runningTasks(mustCall("DescribeClusters", `{}`))
		if running == s.tasks {
			break
		}
		if time.Since(begin) > s.starts {
			t.Fatalf("%d of %d tasks run after %s", running, s.tasks, s.starts)
		}
	}
	t.Logf("%d tasks of %d services run on %d machines after %s", s.tasks, s.services, s.nodes,
		time.Since(begin).Round(time.Second))
	c.calls, c.taken = map[string]int{}, map[string][]time.Duration{}
}

// judge prints what was measured, and holds it to the bounds.
func (c *client) judge(t *testing.T, s size, memory []float64) {
	t.Helper()
	var reads []time.Duration
	for op, taken := range c.taken {
		slices.Sort(taken)
		t.Logf("%-26s %6d calls, median %s, 99 %% within %s", op, len(taken), share(taken, 0.5), share(taken, 0.99))
		if isRead(op) {
			reads = append(reads, taken...)
		}
	}
	for _, op := range append(slices.Clone(readOperations), "UpdateService", "UpdateContainerInstancesState",
		"DELETE instances", "POST instances") {
		if c.calls[op] == 0 {
			t.Errorf("%s was never called", op)
		}
	}
	if least := int(s.lasts/s.readGap) * s.readers / 2; s.p99 > 0 && len(reads) < least {
		t.Errorf("%d reads were answered, want %d at least", len(reads), least)
	}
	slices.Sort(reads)
	first, last := memory[:len(memory)/3], memory[len(memory)-len(memory)/3:]
	growth := mean(last) / mean(first)
	t.Logf("%s: %d reads, 99 %% within %s; %d calls throttled; memory %.0f MB in the first third, %.0f MB in the last, "+
		"at most %.0f MB",
		s.lasts, len(reads), share(reads, 0.99), c.throttled, mean(first), mean(last), slices.Max(memory))
	for _, err := range c.failures {
		t.Error(err)
	}
	if s.p99 > 0 && share(reads, 0.99) > s.p99 {
		t.Errorf("99 %% of reads took up to %s, want %s", share(reads, 0.99), s.p99)
	}
	if most := slices.Max(memory); s.memory > 0 && most > s.memory {
		t.Errorf("memory was up to %.0f MB, want %.0f at most", most, s.memory)
	}
	if s.growth > 0 && growth > s.growth {
		t.Errorf("memory grew by a factor of %.2f, want %.2f at most", growth, s.growth)
	}
}

// sampleMemory returns the memory of a process, in MB, once for each hundredth of the run.
func sampleMemory(ctx context.Context, t *testing.T, pid int) (all []float64) {
	t.Helper()
	deadline, _ := ctx.Deadline()
	tick := time.NewTicker(max(time.Until(deadline)/100, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
			if err != nil {
				t.Skipf("this system does not tell the memory of a process: %v", err)
			}
			pages, err := strconv.Atoi(strings.Fields(string(text))[1])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, float64(pages*os.Getpagesize())/1e6)
		}
	}
}

func share(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(part*float64(len(sorted)-1))].Round(10 * time.Microsecond)
}

func mean(all []float64) (sum float64) {
	for _, v := range all {
		sum += v / float64(len(all))
	}
	return sum
}
