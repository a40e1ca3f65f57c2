package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim"
	"berth/shared/sim/kernel"
	"berth/shared/state"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
)

const clusterName = "sim"

// epoch is the time at which every run begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A Run describes one run.
type Run struct {
	Seed uint64
	// Actions is the history. Nil means the one drawn from the seed.
	Actions []Action
	// LoseEvents drops every event and every message, so that only the sweep is left to notice
	// changes.
	LoseEvents bool
	// LongOutage stops all functions for two hours. There are no other faults.
	LongOutage bool
	// Balance switches balancing on in every configuration of the cluster, beginning with the first.
	Balance bool
	// DisabledFaults do not strike, although the seed has drawn them.
	DisabledFaults []Fault
	// PlantedBug is built into the installation.
	PlantedBug Bug
	// NoExtras leaves out the actions of [drawExtras], [drawTaskSets], [drawTaints] and
	// [drawApplications], NoTaints only those of the third, NoApplications those of the last.
	NoExtras, NoTaints, NoApplications bool
	// Upgrade updates a node group. NodePool is the shape of the group; nil means the seed's.
	Upgrade  bool
	NodePool *NodePool
	// LaunchAfter is how long launches take; zero means the simulated AWS's default.
	LaunchAfter time.Duration
}

// An Outcome is what a run found.
type Outcome struct {
	Broken  []string // the invariants that were violated, each with the circumstances; empty if all held
	Actions []Action
	Faults  []string
	Log     []string // what happened, oldest first
	Hash    string   // of all commits in their order
	Steps   int
	Coverage
}

// A World is one run in progress.
type World struct {
	Run
	*installation.Installation
	faults        *FaultInjector
	checker       *invariant.Checker
	rng           *rand.Rand
	current       *process
	runningByName map[string]int // processes by name
	ignoringStop  map[string]bool
	started       map[string]bool // the tasks that ECS has ever started, by startedBy and instance
	covered       map[coverage.Point]int
	lines         []string
	client        *apiClient
	upgrade       *upgradeWorld // nil if no node group is updated
	steps         int
	outage        functionOutage
	historySpan   time.Duration
	// imagesMissingUntil is when tasks start again after their images could not be pulled.
	imagesMissingUntil time.Time
	// functionsDown means that no function runs. healthyTasks are the ECS tasks that were healthy
	// when that ended.
	functionsDown bool
	healthyTasks  []string
	// The ARNs of the target groups and of the Cloud Map service.
	instanceTargets, addressTargets, registry string
}

// How long actions and faults last. In the longer time, rows of stopped tasks expire (after an
// hour).
const (
	shortHistory = 20 * time.Minute
	longHistory  = 110 * time.Minute
)

// Simulate executes a run to its end, or to the first violated invariant.
func Simulate(r Run) Outcome {
	w, err := newWorld(r)
	if err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer w.Close()
	switch {
	case w.LongOutage:
		w.runLongOutage()
	case w.Upgrade:
		w.upgrade.runUpgrades()
	default:
		w.runHistory()
	}
	w.coverCounters()
	return Outcome{
		Broken: slices.Sorted(slices.Values(r.PlantedBug.matchingFailures(w.checker.Broken))), Actions: w.Actions,
		Faults: w.faults.describeStrikes(), Log: w.lines,
		Hash: w.Store.HistoryHash(), Steps: w.steps, Coverage: Coverage{Points: w.covered, Hits: w.faults.hits},
	}
}

// newWorld returns the world of a run, with Berth installed and nothing else. The seed's remainder
// decides on more than its random numbers: of every eight seeds one (7) has no faults, and of every
// sixteen one (7) gets a storm of unhealthy tasks as well. redriveDeadLetters skips every fourth.
func newWorld(r Run) (*World, error) {
	faultless := r.Seed%8 == 7 && !r.LoseEvents
	if r.Balance || r.PlantedBug != "" { // these are judged to the second
		r.DisabledFaults = append(slices.Clone(r.DisabledFaults), ClockJump)
	}
	faults := newFaultInjector(r.Seed, r.DisabledFaults)
	if faultless {
		faults = newFaultInjector(r.Seed, AllFaults)
	}
	w, options := newEmptyWorld(r, 0x77, faults)
	w.historySpan = shortHistory
	if faults.rates[LongRun] > 0.5 {
		faults.hits[LongRun]++
		w.historySpan = longHistory
	}
	if r.Upgrade {
		w.historySpan = upgradeSpan
	}
	if w.Actions == nil {
		w.Actions = w.drawActions(faultless)
	}
	if faultless {
		w.checker.Staleness = invariant.CalmStaleness
	}
	w.checker.Fallback = w.allowsFallback()
	options.Settings = drawSettings(r.Seed)
	w.PlantedBug.adjustSettings(options.Settings)
	if w.allowsFallback() {
		options.Settings.ProviderFallback = 5 * time.Minute
	}
	options.Watch = w.checkCommit
	options.WrapState = func(function string, s state.Store) state.Store {
		return &faultyStore{world: w, function: function, inner: w.PlantedBug.wrapStore(w, function, s)}
	}
	options.WrapRecords = w.PlantedBug.wrapRecords(w)
	options.WrapECS = func(function string, e handler.ECS) handler.ECS {
		return w.PlantedBug.wrapUpgradeECS(w, function, &faultyECS{world: w, function: function, ECS: e})
	}
	options.WrapGroups = func(function string, g installation.Groups) installation.Groups {
		return w.PlantedBug.wrapUpgradeGroups(function, &faultyGroups{Groups: g, world: w, function: function})
	}
	var err error
	if w.Installation, err = installation.Open(options); err != nil {
		return nil, err
	}
	if r.Upgrade {
		w.upgrade = newUpgradeWorld(w, w.nodePool())
	}
	w.AWS.SetCallFaults(w.callFaults())
	w.AWS.Machines.SetTaskBehaviour(w.taskBehaviour)
	return w, nil
}

// drawSettings returns the settings of an installation. Simulated clusters are smaller than those for
// which change sets are written by default, so every other pair of seeds writes them.
func drawSettings(seed uint64) *handler.Settings {
	s := handler.DefaultSettings()
	if seed/2%2 == 0 {
		s.ChangeSetsFrom = 0
	}
	return &s
}

// newEmptyWorld returns a world into which nothing is installed yet, and the options that
// installations of every kind of run share. Stream keeps the random numbers of the kinds apart.
func newEmptyWorld(r Run, stream uint64, faults *FaultInjector) (*World, installation.Options) {
	w := &World{
		Run: r, rng: rand.New(rand.NewPCG(r.Seed, stream)), faults: faults, runningByName: map[string]int{},
		ignoringStop: map[string]bool{}, started: map[string]bool{}, covered: map[coverage.Point]int{},
		outage: faults.drawOutage(),
	}
	w.client = &apiClient{world: w, stoppedIDs: map[string]bool{}}
	loop := embedded.NewVirtualLoop(epoch)
	w.checker = invariant.NewChecker(clusterName, loop.Now, w.cover)
	switch {
	case faults.rates[ClockJump] > 0:
		w.checker.ClockSkew = clockJump
	case faults.rates[ClockSkew] > 0:
		w.checker.ClockSkew = time.Minute
	}
	if verbose {
		w.checker.LogRecords = w.logRecords
	}
	ids := 0
	return w, installation.Options{
		Loop: loop, Seed: r.Seed, Log: slog.New(logHandler{world: w}),
		AWS:       sim.Options{LaunchAfter: r.LaunchAfter},
		NewID:     func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapClock: func(string, handler.Clock) handler.Clock { return clock{w} },
		Runtime:   embedded.RuntimeOptions{Execute: w.runInvocation, Faults: w.messageFaults()},
	}
}

// drawActions draws the history of the run's seed.
func (w *World) drawActions(faultless bool) []Action {
	rng := rand.New(rand.NewPCG(w.Seed, 0x62657274))
	if w.Upgrade {
		return drawUpgradeHistory(rng)
	}
	actions := drawHistory(rng, 8+rng.IntN(25), w.historySpan)
	if faultless && w.Seed%16 == 7 {
		actions = append(actions, unhealthyStorm...)
	}
	if !w.NoExtras && !w.LongOutage {
		actions = append(actions, drawExtras(w.Seed, w.historySpan)...)
		actions = append(actions, drawTaskSets(w.Seed, w.historySpan)...)
		if !w.NoTaints {
			actions = append(actions, drawTaints(w.Seed, w.historySpan)...)
		}
		if !w.NoApplications {
			actions = append(actions, drawApplications(w.Seed, w.historySpan)...)
		}
	}
	return actions
}

// checkCommit is called with the records of every commit.
func (w *World) checkCommit(records []state.Record) {
	w.checker.CheckCommit(records)
	if w.upgrade != nil {
		w.upgrade.checkNodeCommit(records)
	}
}

func (w *World) logf(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%9.3f ", w.Loop.Now().Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (w *World) cover(m coverage.Point) { w.covered[m]++ }

// coverCounters records what the runtime has counted itself.
func (w *World) coverCounters() {
	c := w.Runtime.Counters()
	for _, q := range c.Queues {
		w.covered[coverage.DeadLetter] += q.DeadLettered
	}
	for _, f := range c.Functions {
		w.covered[coverage.Poison] += f.Discarded
		w.covered[coverage.TimeOut] += f.TimeOuts
	}
}

// runHistory is the general kind of run: a cluster is created in quiet, the history happens under
// faults, and then everything must converge.
func (w *World) runHistory() {
	w.faults.active = false
	err := w.createCluster()
	if err == nil && w.usesProviders() {
		err = w.createProviders()
	}
	if err != nil {
		w.checker.Fail("making the cluster: %v", err)
		return
	}
	w.registerDefinitions()
	w.faults.active = true
	w.Runtime.Start()
	if w.checker.Staleness == invariant.CalmStaleness {
		w.checkStartsEachMinute()
	}
	for n, a := range w.Actions {
		w.Loop.After(a.At, func() {
			w.logf("action %d: %s", n, a)
			w.perform(a)
		})
	}
	w.runUntil(epoch.Add(w.historySpan))
	w.endFaults()
	w.checkConvergence()
}

// createCluster creates the cluster and its instances. In half of the runs the instances have fault
// and upgrade domains, and most of those have capacities of metrics.
func (w *World) createCluster() error {
	if err := w.createTargetGroups(); err != nil {
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
	if _, err := w.EnsureCluster(context.Background(), clusterName, 1, drawMachine(w.rng)); err != nil {
		return err
	}
	for range n + w.rng.IntN(6) {
		if _, err := w.AWS.Machines.AddInstances(clusterName, 1, drawMachine(w.rng)); err != nil {
			return err
		}
	}
	err := w.API.Clusters.ClusterCreated(context.Background(), clusterName)
	if err != nil || w.rng.IntN(3) == 0 && !w.Balance {
		return err
	}
	w.client.configuration = drawConfiguration(w.rng)
	w.switchBalancing(w.client.configuration, w.Seed)
	return w.API.Configurations.PutConfiguration(context.Background(), w.client.configuration)
}

// serviceRow returns the row of the service, if there is one.
func (w *World) serviceRow(name string) (*cluster.Service, bool) {
	row, ok := w.checker.Rows[state.ServiceKey(clusterName, name)].(*cluster.Service)
	return row, ok
}

// putEvent puts an event on the bus.
func (w *World) putEvent(source, kind, id string, detail any) error {
	return w.putOn("", busEvent{ownAccount, source, kind, id, detail})
}

// ownAccount is the installation's account.
const ownAccount = "123456789012"

// busEvent is an event as an account puts it on a bus.
type busEvent struct {
	account, source, kind, id string
	detail                    any
}

// putOn puts an event on a bus, the default one if that is empty.
func (w *World) putOn(bus string, e busEvent) error {
	event, err := json.Marshal(map[string]any{
		"source": e.source, "detail-type": e.kind, "detail": e.detail, "id": e.id, "time": w.Loop.Now(),
		"region": "us-east-1", "account": e.account,
	})
	if err != nil {
		return err
	}
	return w.Runtime.PutEventOn(bus, event)
}

// registerDefinition registers a task definition, given as the body of the request.
func (w *World) registerDefinition(body string) {
	status, answer := w.AWS.ECS.Endpoint().ServeOperation(context.Background(), "RegisterTaskDefinition", []byte(body))
	if status != http.StatusOK {
		w.checker.Fail("registering %s: %s", body, answer)
	}
}

// runUntil executes the loop up to a time, or until an invariant is violated.
func (w *World) runUntil(t time.Time) {
	for len(w.checker.Broken) == 0 {
		next, ok := w.Loop.NextAt()
		if !ok || next.After(t) {
			w.Loop.RunUntil(t)
			return
		}
		w.Loop.Step()
		w.steps++
	}
}

// endFaults ends all faults: agents reconnect, and every call succeeds.
func (w *World) endFaults() {
	w.faults.active = false
	w.AWS.SetCallFaults(kernel.CallFaults{})
	for _, i := range w.instances() {
		if !i.AgentConnected {
			_ = w.AWS.Machines.ReconnectAgent(i.ID) // it may have been deregistered meanwhile
		}
	}
	w.endUnhealthiness()
	w.endTargetFaults()
	w.Loop.After(3*time.Minute, w.endUnhealthiness) // tasks that were starting
	w.Loop.After(5*time.Minute, w.client.replaceBrokenRevisions)
	w.Loop.After(15*time.Minute, w.checkPromptStarts)
	w.Loop.After(promptEnd, w.checkNothingHeldUp)
	w.redriveDeadLetters()
	w.logf("faults end")
}

// redriveDeadLetters returns dead letters to their queues, in three of four runs.
func (w *World) redriveDeadLetters() {
	if w.Seed%4 == 0 {
		return
	}
	for _, name := range []string{"Events", "Wake", "NodeGroupUpgrade"} {
		for _, m := range w.Runtime.VisibleMessages(name + "DeadLetters") {
			if w.Runtime.Queue(name+"Queue").Send(context.Background(), m.Body, 0) == nil {
				w.cover(coverage.Redriven)
			}
		}
	}
}

// Convergence may take two sweeps, the resolution of unknown starts, and what follows from each. It
// is checked after each sweep, which runs on the hour.
const (
	afterSweep = 35*time.Minute + 30*time.Second
	quietTime  = 75 * time.Minute
)

// checkConvergence lets the cluster come to rest and checks that it has, and that nothing more
// happens then. The cluster has several sweeps to get there; the last one counts.
func (w *World) checkConvergence() {
	sweep := epoch.Add(w.historySpan.Truncate(time.Hour))
	attempts := 3
	if w.LoseEvents {
		// Each step of a deployment takes a sweep: where there is room for one task more, two a task.
		attempts = 16
		for _, s := range w.client.services {
			attempts = max(attempts, 6+2*s.desired)
		}
	}
	expired := 0
	for attempt := range attempts {
		expired = w.checker.ExpiredFailures
		sweep = sweep.Add(time.Hour)
		if w.runUntil(sweep.Add(afterSweep)); len(w.checker.Broken) > 0 {
			return
		}
		w.checkConverged()
		if len(w.checker.Broken) == 0 {
			break
		}
		if attempt < attempts-1 {
			w.logf("not yet at rest: %q", slices.Sorted(slices.Values(w.checker.Broken)))
			w.checker.Broken = nil
		}
	}
	if len(w.checker.Broken) > 0 {
		return
	}
	w.LoseEvents = false // what follows must not take a sweep per step
	w.probeCapacity()
	w.checkQuiet(expired)
	w.checkConverged()
}

// checkQuiet checks that nothing happens any more. Records of failed starts expire after an hour,
// and what they delayed may then happen at the next sweep; expiredBefore is how many had expired
// before the cluster was found at rest. After that, nothing may change.
func (w *World) checkQuiet(expiredBefore int) {
	for last := false; ; last = true {
		calls, changes := w.checker.CallCount, w.checker.ChangeCount
		w.runUntil(w.Loop.Now().Add(quietTime))
		if w.checker.CallCount == calls && w.checker.ChangeCount == changes {
			return
		}
		if last || w.checker.ExpiredFailures == expiredBefore || len(w.checker.Broken) > 0 {
			w.checker.Fail("invariant 8: at rest, and still %d StartTask and StopTask calls and %d changes of rows in %s, the last of %s",
				w.checker.CallCount-calls, w.checker.ChangeCount-changes, quietTime, w.checker.LatestChange.Sort)
			return
		}
		expiredBefore = w.checker.ExpiredFailures
	}
}

// probeCapacity fills the cluster at rest, stops the tasks, and fills it again. Any environment of
// placement that decides now must know what others decided before.
func (w *World) probeCapacity() {
	spec := operation.SubmitTasks{Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "big", Count: 10}
	for n := range 2 {
		spec.Token = fmt.Sprint("probe", n)
		spec.Params = spec.Token
		var ids []string
		w.client.submitTasks(spec, func(got []string) { ids = got })
		w.runUntil(w.Loop.Now().Add(invariant.MaxStaleness))
		for _, id := range ids {
			w.client.stopTaskByID(id)
		}
		w.runUntil(w.Loop.Now().Add(invariant.MaxStaleness + time.Minute))
	}
}
