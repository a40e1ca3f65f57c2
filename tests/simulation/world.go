// Package simulation runs a whole installation by the seed: the same handlers over the embedded tier, one goroutine at
// a time, on a virtual clock, with faults in every place where the real services have them. After every commit the
// design's invariants are checked; once the faults stop the cluster has to converge.
package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/kernel"
	"berth/shared/state"
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
	// Away has no function run for two hours, in a world without other faults.
	Away bool
	// Off are faults of the seed that do not strike.
	Off []Fault
	// Plant puts a bug in.
	Plant Bug
	// Plain has no actions beside those of the seed's history, see [extras].
	Plain bool
	// Upgrade has a node group updated. Pool is its shape, the seed's where nil.
	Upgrade bool
	Pool    *Pool
}

// Outcome is what became of a run.
type Outcome struct {
	Broken  []string // invariants, each with what broke it; empty if all held
	Actions []Action
	Faults  []string
	Notes   []string // what happened, oldest first
	Hash    string   // of the state's whole history
	Steps   int
	Coverage
}

// World is one run under way.
type World struct {
	Run
	*installation.Installation
	chaos    *Chaos
	checker  *checker
	rng      *rand.Rand
	running  *process
	alive    map[string]int // processes by name
	stubborn map[string]bool
	marks    map[Mark]int
	notes    []string
	client   *customer
	upgrades *upgrading // nil where no node group is updated
	steps    int
	outage   outage
	span     time.Duration
	// noImage is until when no task starts, whatever its image.
	noImage time.Time
	// off has no function run; well are the ECS tasks that nothing was wrong with when that ended.
	off  bool
	well []string
	// ARNs of the target groups and the Cloud Map service.
	byInstance, byAddress, registry string
}

// How long things happen to the cluster; what follows is calm. In the longer time rows expire, an hour after a task has
// stopped.
const (
	shortSpan = 20 * time.Minute
	longSpan  = 110 * time.Minute
)

// Simulate runs a seed to its end and tells what broke.
func Simulate(r Run) Outcome {
	w, err := newWorld(r)
	if err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer w.Close()
	switch {
	case w.Away:
		w.liveAway()
	case w.Upgrade:
		w.upgrades.live()
	default:
		w.live()
	}
	w.count()
	return Outcome{
		Broken: slices.Sorted(slices.Values(r.Plant.shown(w.checker.broken))), Actions: w.Actions, Faults: w.chaos.struck(), Notes: w.notes,
		Hash: w.Store.HistoryHash(), Steps: w.steps, Coverage: Coverage{Marks: w.marks, Hits: w.chaos.hits},
	}
}

func newWorld(r Run) (*World, error) {
	history := rand.New(rand.NewPCG(r.Seed, 0x62657274))
	w := &World{
		Run: r, rng: rand.New(rand.NewPCG(r.Seed, 0x77)), alive: map[string]int{}, stubborn: map[string]bool{},
		marks: map[Mark]int{}, chaos: newChaos(r.Seed, r.Off), span: shortSpan,
	}
	calm := r.Seed%8 == 7 && !r.LoseEvents
	if calm {
		w.chaos = newChaos(r.Seed, AllFaults)
	}
	if w.chaos.rates[LongRun] > 0.5 {
		w.chaos.hits[LongRun]++
		w.span = longSpan
	}
	if r.Upgrade {
		w.span = upgradeSpan
	}
	switch {
	case w.Actions != nil:
	case r.Upgrade:
		w.Actions = drawUpgrade(history)
	default:
		w.Actions = draw(history, 8+history.IntN(25), w.span)
		if calm && r.Seed%16 == 7 {
			w.Actions = append(w.Actions, storm...)
		}
		if more := extras(r.Seed, w.span); !r.Plain && !r.Away {
			w.Actions = append(w.Actions, more...)
		}
	}
	w.client = &customer{world: w, stops: map[string]bool{}}
	w.outage = w.chaos.outage()
	loop := embedded.NewVirtualLoop(epoch)
	w.checker = newChecker(loop.Now, w.mark)
	if calm {
		w.checker.tolerance = soon
	}
	if w.chaos.rates[Skew] > 0 {
		w.checker.skew = time.Minute
	}
	w.checker.fallback = w.fallsBack()
	if verbose {
		w.checker.tell = w.tell
	}
	ids := 0
	settings := w.Plant.settings()
	if w.fallsBack() {
		settings.ProviderFallback = 5 * time.Minute
	}
	var err error
	w.Installation, err = installation.Open(installation.Options{
		Loop: loop, Seed: r.Seed, Settings: settings, Watch: w.watch, Log: slog.New(logbook{world: w}),
		NewID: func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: func(function string, s state.Store) state.Store {
			return &faultyState{world: w, function: function, inner: w.Plant.state(w, function, s)}
		},
		WrapECS: func(function string, e handler.ECS) handler.ECS {
			return w.Plant.upgradeECS(w, function, &faultyECS{world: w, function: function, ECS: e})
		},
		WrapGroups: func(function string, g installation.Groups) installation.Groups {
			return w.Plant.upgradeGroups(function, &faultyGroups{Groups: g, world: w, function: function})
		},
		WrapClock: func(string, handler.Clock) handler.Clock { return clock{w} },
		Runtime:   embedded.RuntimeOptions{Execute: w.execute, Faults: w.messageFaults()},
	})
	if err != nil {
		return nil, err
	}
	if r.Upgrade {
		w.upgrades = newUpgrades(w, w.shape())
	}
	w.AWS.SetCallFaults(w.callFaults())
	w.AWS.Machines.SetTaskBehaviour(w.behaviour)
	return w, nil
}

// watch sees every commit.
func (w *World) watch(records []state.Record) {
	w.checker.records(records)
	if w.upgrades != nil {
		w.upgrades.watch(records)
	}
}

func (w *World) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%9.3f ", w.Loop.Now().Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (w *World) mark(m Mark) { w.marks[m]++ }

// count marks what the runtime has counted.
func (w *World) count() {
	c := w.Runtime.Counters()
	for _, q := range c.Queues {
		w.marks[MarkDeadLetter] += q.DeadLettered
	}
	for _, f := range c.Functions {
		w.marks[MarkPoison] += f.Discarded
		w.marks[MarkTimeOut] += f.TimeOuts
	}
}

// live is the whole life of the world: quiet beginning, the history with its faults, and the calm in which everything
// must come to rest.
func (w *World) live() {
	w.chaos.active = false
	err := w.furnish()
	if err == nil && w.provided() {
		err = w.provide()
	}
	if err != nil {
		w.checker.fail("making the cluster: %v", err)
		return
	}
	w.register()
	w.chaos.active = true
	w.Runtime.Start()
	if w.checker.tolerance == soon {
		w.watchStarts()
	}
	for n, a := range w.Actions {
		w.Loop.After(a.At, func() {
			w.note("action %d: %s", n, a)
			w.act(a)
		})
	}
	w.until(epoch.Add(w.span))
	w.heal()
	w.settle()
}

// furnish makes the cluster: in half of the runs of instances that have their places in fault and upgrade domains, few of
// them without limits to what tasks load them with.
func (w *World) furnish() error {
	if err := w.balance(); err != nil {
		return err
	}
	n := 2 + w.rng.IntN(3)
	if w.rng.IntN(2) == 0 {
		if _, err := w.EnsureCluster(context.Background(), clusterName, n, machine); err != nil {
			return err
		}
		_, err := w.EnsureCluster(context.Background(), clusterName, n+w.rng.IntN(3), diskMachine)
		return err
	}
	if _, err := w.EnsureCluster(context.Background(), clusterName, 1, domained(w.rng)); err != nil {
		return err
	}
	for range n + w.rng.IntN(6) {
		if _, err := w.AWS.Machines.AddInstances(clusterName, 1, domained(w.rng)); err != nil {
			return err
		}
	}
	if err := w.API.Clusters.ClusterCreated(context.Background(), clusterName); err != nil || w.rng.IntN(3) == 0 {
		return err
	}
	w.client.config = drawConfiguration(w.rng)
	return w.API.Configurations.PutConfiguration(context.Background(), w.client.config)
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

// heal ends all faults: agents are connected again, every call works.
func (w *World) heal() {
	w.chaos.active = false
	w.AWS.SetCallFaults(kernel.CallFaults{})
	for _, i := range w.instances() {
		if !i.AgentConnected {
			_ = w.AWS.Machines.ReconnectAgent(i.ID) // one that has gone meanwhile needs no reconnection
		}
	}
	w.calmHealth()
	w.calmTargets()
	w.Loop.After(3*time.Minute, w.calmHealth) // of those that were being started
	w.Loop.After(5*time.Minute, w.client.mend)
	w.Loop.After(15*time.Minute, w.prompt)
	w.redrive()
	w.note("faults end")
}

// redrive puts dead letters back, in most runs.
func (w *World) redrive() {
	if w.Seed%4 == 0 {
		return
	}
	for _, name := range []string{"Events", "Wake"} {
		for _, m := range w.Runtime.VisibleMessages(name + "DeadLetters") {
			if w.Runtime.Queue(name+"Queue").Send(context.Background(), m.Body, 0) == nil {
				w.mark(MarkRedriven)
			}
		}
	}
}

// Convergence may take two sweeps, the settling of doubts, and what follows from each; it is looked for after each
// sweep, which comes on the hour.
const (
	afterSweep = 35*time.Minute + 30*time.Second
	quiet      = 75 * time.Minute
)

// settle lets the world come to rest, checks that it did, and that nothing more happens then.
func (w *World) settle() {
	sweep := epoch.Add(w.span.Truncate(time.Hour))
	looks := 3
	if w.LoseEvents {
		looks = 16 // each step of a deployment takes a sweep
	}
	forgotten := 0
	for look := range looks {
		forgotten = w.checker.forgottenFailures
		sweep = sweep.Add(time.Hour)
		if w.until(sweep.Add(afterSweep)); len(w.checker.broken) > 0 {
			return
		}
		w.converged()
		if len(w.checker.broken) == 0 {
			break
		}
		if look < looks-1 {
			w.note("not yet at rest: %q", w.checker.broken)
			w.checker.broken = nil
		}
	}
	if len(w.checker.broken) > 0 {
		return
	}
	w.LoseEvents = false // what follows has to be quick
	w.probe()
	w.undisturbed(forgotten)
	w.converged()
}

// undisturbed checks that nothing happens. What is known of failed starts expires after an hour, and what it held back may
// happen at the next sweep, where it has expired since so many had: once that is over, nothing.
func (w *World) undisturbed(forgotten int) {
	for last := false; ; last = true {
		calls, changes := w.checker.calls, w.checker.changes
		w.until(w.Loop.Now().Add(quiet))
		if w.checker.calls == calls && w.checker.changes == changes {
			return
		}
		if last || w.checker.forgottenFailures == forgotten || len(w.checker.broken) > 0 {
			w.checker.fail("invariant 8: at rest, and still %d StartTask and StopTask calls and %d changes of rows in %s, the last of %s",
				w.checker.calls-calls, w.checker.changes-changes, quiet, w.checker.latest.Sort)
			return
		}
		forgotten = w.checker.forgottenFailures
	}
}

// probe fills the cluster that is at rest, stops what it started, and fills it again: whoever decides then has to know
// what happened while others decided.
func (w *World) probe() {
	spec := operation.SubmitTasks{Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "big", Count: 10}
	for n := range 2 {
		spec.Token = fmt.Sprint("probe", n)
		spec.Params = spec.Token
		var ids []string
		w.client.submit(spec, func(got []string) { ids = got })
		w.until(w.Loop.Now().Add(lately))
		for _, id := range ids {
			w.client.stopOne(id)
		}
		w.until(w.Loop.Now().Add(lately + time.Minute))
	}
}
