// Package simulation runs a whole installation by the seed: the same handlers over the embedded tier, one goroutine at
// a time, on a virtual clock, with faults in every place where the real services have them. After every commit the
// design's invariants are checked; once the faults stop the cluster has to converge.
package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/fleet"
	"berth/shared/handler"
)

const clusterName = "sim"

// epoch is when every run begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Run is what to simulate.
type Run struct {
	Seed uint64
	// Actions is the history; nil draws the seed's.
	Actions []Action
	// LoseEvents drops every event and every message: only the sweep is left to find out what happens.
	LoseEvents bool
	// Calm has no faults but the history.
	Calm bool
	// Plant puts a bug in.
	Plant Bug
}

// Outcome is what became of a run.
type Outcome struct {
	Broken  []string // invariants, each with what broke it; empty if all held
	Actions []Action
	Notes   []string // what happened, oldest first
	Hash    string   // of the state's whole history
	Steps   int
	Starts  int
	Doubts  int
}

// World is one run under way.
type World struct {
	Run
	*installation.Installation
	chaos   *Chaos
	checker *checker
	rng     *rand.Rand
	running *process
	notes   []string
	client  *customer
	steps   int
}

// span is how long things happen to the cluster; what follows is calm.
const span = 20 * time.Minute

// Simulate runs a seed to its end and tells what broke.
func Simulate(r Run) Outcome {
	w, err := newWorld(r)
	if err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer w.Close()
	w.live()
	return Outcome{
		Broken: w.checker.broken, Actions: w.Actions, Notes: w.notes, Hash: w.Store.Hash(), Steps: w.steps,
		Starts: len(w.checker.starts),
	}
}

func newWorld(r Run) (*World, error) {
	rng := rand.New(rand.NewPCG(r.Seed, 0x62657274))
	faults := rand.New(rand.NewPCG(r.Seed, 0x68))
	w := &World{Run: r, rng: rand.New(rand.NewPCG(r.Seed, 0x77))}
	if w.Actions == nil {
		w.Actions = draw(rng, 8+rng.IntN(25), span)
	}
	w.chaos = newChaos(faults)
	w.chaos.active = !r.Calm
	loop := embedded.NewVirtualLoop(epoch)
	w.checker = newChecker(loop.Now)
	ids := 0
	settings := handler.DefaultSettings()
	var err error
	w.Installation, err = installation.Open(installation.Options{
		Loop: loop, Seed: r.Seed, Settings: &settings, Watch: w.checker.records,
		NewID:     func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: w.wrapState, WrapECS: w.wrapECS,
		WrapClock: func(string, handler.Clock) handler.Clock { return clock{w} },
		Runtime:   embedded.RuntimeOptions{Execute: w.execute, Faults: w.messageFaults()},
	})
	if err != nil {
		return nil, err
	}
	w.Fleet.SetCallFaults(w.callFaults())
	w.Fleet.SetBehaviour(w.behaviour)
	w.client = &customer{world: w}
	return w, nil
}

func (w *World) wrapState(function string, s handler.State) handler.State {
	return &faultyState{world: w, inner: w.Plant.state(w, function, s)}
}

func (w *World) wrapECS(function string, e handler.ECS) handler.ECS {
	return &faultyECS{world: w, ECS: e}
}

func (w *World) execute(name string, run func(ctx context.Context), done func(crashed bool)) {
	w.spawn(name, function, run, done)
}

func (w *World) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%9.3f ", w.Loop.Now().Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

// live is the whole life of the world: quiet beginning, the history with its faults, and the calm in which everything
// must come to rest.
func (w *World) live() {
	calm := *w.chaos
	w.chaos.active = false
	if _, err := w.Cluster(context.Background(), clusterName, 3+w.rng.IntN(4), machine); err != nil {
		w.checker.fail("making the cluster: %v", err)
		return
	}
	w.chaos.active = calm.active
	w.Runtime.Start()
	w.register()
	for n, a := range w.Actions {
		w.Loop.After(a.At, func() {
			w.note("action %d: %s", n, a)
			w.act(a)
		})
	}
	w.until(epoch.Add(span))
	w.heal()
	w.settle()
}

// until steps the loop as long as nothing is broken.
func (w *World) until(t time.Time) {
	for len(w.checker.broken) == 0 {
		next, ok := w.Loop.NextAt()
		if !ok || next.After(t) {
			w.Loop.RunUntil(t)
			return
		}
		w.Loop.Step()
		w.steps++
	}
}

// machine is small, so that what fits is often a question.
var machine = fleet.Machine{
	Type: "sim.small", CPU: 2000, Memory: 2048, GPUs: 1, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"},
}

// heal ends all faults: agents are connected again, every call works.
func (w *World) heal() {
	w.chaos.active = false
	w.LoseEvents = false
	w.Fleet.SetCallFaults(fleet.CallFaults{})
	w.Fleet.SetBehaviour(nil)
	for _, i := range w.instances() {
		if !i.AgentConnected {
			_ = w.Fleet.Reconnect(i.ID) // one that has gone meanwhile needs no reconnection
		}
	}
	w.calmHealth()
	w.Loop.After(3*time.Minute, w.calmHealth) // of those that were being started
	w.note("faults end")
}

// calmHealth ends the flapping of tasks, which otherwise never come to rest.
func (w *World) calmHealth() {
	for _, t := range w.Fleet.Truth(clusterName) {
		if t.Alive && t.Last == cluster.TaskRunning {
			_ = w.Fleet.SetHealth(t.ID, true) // most have no health check
		}
	}
}

// patience is how long convergence may take: two sweeps, the settling of doubts, and what follows from each.
const patience = 3*time.Hour + 30*time.Minute

// settle lets the world come to rest, checks that it did, and that nothing more happens then.
func (w *World) settle() {
	w.until(epoch.Add(span + patience))
	// Tasks whose health flaps go on reporting it: look between two reports.
	for n := 0; n < 600 && !w.Runtime.Idle(); n++ {
		w.until(w.Loop.Now().Add(100 * time.Millisecond))
	}
	if len(w.checker.broken) > 0 {
		return
	}
	w.converged()
	if len(w.checker.broken) > 0 {
		return
	}
	starts, calls := len(w.checker.starts), w.checker.calls
	w.until(w.Loop.Now().Add(2 * time.Hour))
	if len(w.checker.starts) != starts || w.checker.calls != calls {
		w.checker.fail("invariant 8: at rest, and still %d StartTask and StopTask calls in two hours", w.checker.calls-calls)
	}
}

func (w *World) instances() []*cluster.Instance {
	ids, err := w.Fleet.ListInstances(context.Background(), clusterName)
	if err != nil {
		w.checker.fail("listing instances: %v", err)
		return nil
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	got, err := w.Fleet.DescribeInstances(context.Background(), clusterName, ids)
	if err != nil {
		w.checker.fail("describing instances: %v", err)
	}
	return got
}
