//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// kills is how often the process dies, each time between a StartTask and the recording of its answer.
const kills = 20

// TestKilled kills berth up under load, again and again on the same data. Nothing that was acknowledged may be lost, no
// task adopted twice, and in the end all must be as the client wanted it.
func TestKilled(t *testing.T) {
	w := &witness{t: t, data: filepath.Join(t.TempDir(), "data"), adopted: map[state.Key]string{},
		ecs: map[string]state.Key{}}
	if err := os.Mkdir(w.data, 0o755); err != nil {
		t.Fatal(err)
	}
	wanted, hits := kills, 0
	if testing.Short() {
		wanted = 4
	}
	customers := newCustomers()
	for n := range wanted {
		if w.die(customers, 1+n*7%19) {
			hits++
		}
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	if hits != wanted {
		t.Errorf("%d of %d kills came between a StartTask and the recording of its answer", hits, wanted)
	}
	w.converge(customers)
	t.Logf("%d kills, %d of them between a StartTask and the recording of its answer, for %d tasks; %d services and %d tasks were acknowledged, %d tasks adopted",
		wanted, hits, w.caught, customers.services(), customers.tasks(), len(w.adopted))
}

// victim is what the test binary is when it serves to be killed: the data folder, which StartTask is the last (0 for
// none), and the file that says which it was.
func victim(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	nth, err := strconv.Atoi(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	last := &lastWords{left: nth, file: args[2]}
	settings := quick()
	err = serveInstallation(ctx, installation.Options{
		Data: args[0], Settings: &settings, Parameters: map[string]string{"BatchWindow": "0"},
		AWS: sim.Options{MinStart: 20 * time.Millisecond, MaxStart: 200 * time.Millisecond},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		WrapECS: func(function string, e handler.ECS) handler.ECS {
			if function == "dispatch" || function == "schedule" {
				return dying{e, last}
			}
			return e
		},
	}, servingOptions{
		Listen: "127.0.0.1:0", Cluster: "default", Nodes: 6,
		Machine: ec2.Machine{Type: "m5.large", Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
		Ready:   func(endpoint string, _ int) { fmt.Println(endpoint) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// quick are settings for a fleet whose lists are never late, and that throttles nobody.
func quick() handler.Settings {
	s := handler.DefaultSettings()
	s.Settle, s.RestartGap, s.RequestPoll = 200*time.Millisecond, 100*time.Millisecond, 5*time.Millisecond
	s.BackoffLadder, s.StabilizeFor = []time.Duration{100 * time.Millisecond}, 100*time.Millisecond
	s.StartRate, s.StartBurst = 1000, 1000
	return s
}

// lastWords counts StartTasks, and has the process die after one of them.
type lastWords struct {
	mu   sync.Mutex
	left int
	file string
}

// start is a StartTask that took effect just before the process died.
type start struct {
	StartedBy string
	Instances []string
}

// dying is an ECS after whose answer the process may die: what called it never learns what the answer was.
type dying struct {
	handler.ECS
	last *lastWords
}

func (d dying) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	answer, err := d.ECS.StartTask(ctx, call)
	if err != nil || len(answer.Tasks) == 0 {
		return answer, err
	}
	d.last.mu.Lock()
	defer d.last.mu.Unlock()
	if d.last.left--; d.last.left != 0 {
		return answer, nil
	}
	words := start{StartedBy: call.StartedBy}
	for _, t := range answer.Tasks {
		words.Instances = append(words.Instances, t.Instance)
	}
	text, err := json.Marshal(words)
	if err == nil {
		err = os.WriteFile(d.last.file, text, 0o600)
	}
	return answer, errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

// die starts the process, has it die at its n-th StartTask, and looks at what it left. It reports whether it died
// between a StartTask and the recording of its answer.
func (w *witness) die(all *customers, nth int) bool {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "last-words")
	c := startChild(w.t, "victim", w.data, strconv.Itoa(nth), file)
	if at, served := c.serves(); served { // what the last one left to do may be enough for it to die
		all.run(w.t, at)
	}
	if code := c.wait(); code != -1 {
		_, stderr := c.said()
		w.t.Errorf("it should have been killed, and ended with %d: %s", code, stderr)
		return false
	}
	var words start
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &words)
	}
	if err != nil {
		w.t.Errorf("it was killed by something else: %v", err)
		return false
	}
	left := w.look()
	all.check(w.t, left)
	w.adoptions(left)
	return w.between(left, words)
}

// converge lets the installation come to rest and checks that everything is as the client wants it.
func (w *witness) converge(all *customers) {
	w.t.Helper()
	left := w.calm(all)
	// The last outbox rows may have waited to be settled, with nothing left to do that a client would see.
	for range 20 {
		if len(left.outbox) == 0 {
			break
		}
		left = w.calm(all)
	}
	w.truth(left)
}

// calm lets it run until a client has all that it wanted, ends it, and looks at what it left.
func (w *witness) calm(all *customers) *left {
	w.t.Helper()
	c := startChild(w.t, "victim", w.data, "0", "")
	began := time.Now()
	all.settled(w.t, ecsClient(c.endpoint()))
	w.t.Logf("at rest after %v", time.Since(began).Round(time.Millisecond))
	c.alive.Close()
	if code := c.wait(); code != 0 {
		_, stderr := c.said()
		w.t.Errorf("exit code %d: %s", code, stderr)
	}
	left := w.look()
	all.check(w.t, left)
	w.adoptions(left)
	return left
}
