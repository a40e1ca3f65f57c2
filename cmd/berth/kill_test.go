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

// kills is how often the process is killed, each time between a StartTask and the recording of its
// answer.
const kills = 20

// TestKilled kills berth up under load, again and again on the same data. Nothing that was
// acknowledged may be lost, no task may be adopted twice, and in the end everything must be as the
// clients asked for.
func TestKilled(t *testing.T) {
	w := &fileChecker{t: t, data: filepath.Join(t.TempDir(), "data"), adopted: map[state.Key]string{},
		ecs: map[string]state.Key{}}
	if err := os.Mkdir(w.data, 0o755); err != nil {
		t.Fatal(err)
	}
	wanted, hits := kills, 0
	if testing.Short() {
		wanted = 4
	}
	all := newClients()
	for n := range wanted {
		if w.killAt(all, 1+n*7%19) {
			hits++
		}
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
	}
	if hits != wanted {
		t.Errorf("%d of %d kills came between a StartTask and the recording of its answer", hits, wanted)
	}
	w.runUntilSettled(all)
	t.Logf("%d kills, %d of them between a StartTask and the recording of its answer, for %d tasks; %d services and %d tasks were acknowledged, %d tasks adopted",
		wanted, hits, w.caught, all.countServices(), all.countTasks(), len(w.adopted))
}

// runUntilKilled is the test binary in the role of the process that is killed. Its arguments are
// the data folder, which StartTask is the last (0 for none), and the file in which to record that
// StartTask.
func runUntilKilled(args []string) int {
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
	last := &startCounter{left: nth, file: args[2]}
	settings := killSettings()
	err = serveInstallation(ctx, installation.Options{
		Data: args[0], Settings: &settings, Parameters: map[string]string{"BatchWindow": "0"},
		AWS: sim.Options{MinStart: 20 * time.Millisecond, MaxStart: 200 * time.Millisecond},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		WrapECS: func(function string, e handler.ECS) handler.ECS {
			if function == "dispatch" || function == "schedule" {
				return killingECS{e, last}
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

// killSettings are for a fleet whose lists are never late, and throttle nothing.
func killSettings() handler.Settings {
	s := handler.DefaultSettings()
	s.Settle, s.RestartGap, s.RequestPoll = 200*time.Millisecond, 100*time.Millisecond, 5*time.Millisecond
	s.BackoffLadder, s.StabilizeFor = []time.Duration{100 * time.Millisecond}, 100*time.Millisecond
	s.StartRate, s.StartBurst = 1000, 1000
	return s
}

// startCounter counts StartTask calls, down to the one after which the process is killed.
type startCounter struct {
	mu   sync.Mutex
	left int
	file string
}

// lastStart is the StartTask that took effect just before the process was killed.
type lastStart struct {
	StartedBy string
	Instances []string
}

// killingECS is an ECS that kills the process before it returns the answer of the last StartTask.
type killingECS struct {
	handler.ECS
	last *startCounter
}

func (d killingECS) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	answer, err := d.ECS.StartTask(ctx, call)
	if err != nil || len(answer.Tasks) == 0 {
		return answer, err
	}
	d.last.mu.Lock()
	defer d.last.mu.Unlock()
	if d.last.left--; d.last.left != 0 {
		return answer, nil
	}
	final := lastStart{StartedBy: call.StartedBy}
	for _, t := range answer.Tasks {
		final.Instances = append(final.Instances, t.Instance)
	}
	text, err := json.Marshal(final)
	if err == nil {
		err = os.WriteFile(d.last.file, text, 0o600)
	}
	return answer, errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

// killAt starts the process, lets it be killed at its n-th StartTask, and checks the files that it
// left. It reports whether the kill came between a StartTask and the recording of its answer.
func (w *fileChecker) killAt(all *clients, nth int) bool {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "last-start")
	c := startChild(w.t, "killed", w.data, strconv.Itoa(nth), file)
	if at, served := c.endpointOrEnd(); served { // else the work that the last process left was enough for the kill
		all.callUntilKilled(w.t, at)
	}
	if code := c.waitForExit(); code != -1 {
		_, stderr := c.outputSoFar()
		w.t.Errorf("the process ended with %d instead of being killed: %s", code, stderr)
		return false
	}
	var last lastStart
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err != nil {
		w.t.Errorf("the process did not record its last StartTask: %v", err)
		return false
	}
	found := w.inspectFiles()
	all.checkAcknowledged(w.t, found)
	w.checkAdoptions(found)
	return w.diedBeforeRecording(found, last)
}

// runUntilSettled lets the installation finish its work and checks that everything is as the
// clients asked for.
func (w *fileChecker) runUntilSettled(all *clients) {
	w.t.Helper()
	found := w.runAndInspect(all)
	// The last outbox rows may remain for a while, with nothing left to do that a client would see.
	for range 20 {
		if len(found.outbox) == 0 {
			break
		}
		found = w.runAndInspect(all)
	}
	w.checkRunning(found)
}

// runAndInspect runs the process until the clients have all that they asked for, ends it, and
// checks its files.
func (w *fileChecker) runAndInspect(all *clients) *remains {
	w.t.Helper()
	c := startChild(w.t, "killed", w.data, "0", "")
	began := time.Now()
	all.waitUntilSettled(w.t, ecsClient(c.waitForEndpoint()))
	w.t.Logf("settled after %v", time.Since(began).Round(time.Millisecond))
	c.alive.Close()
	if code := c.waitForExit(); code != 0 {
		_, stderr := c.outputSoFar()
		w.t.Errorf("exit code %d: %s", code, stderr)
	}
	found := w.inspectFiles()
	all.checkAcknowledged(w.t, found)
	w.checkAdoptions(found)
	return found
}
