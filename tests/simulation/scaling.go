package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/kernel"
	"berth/shared/state"
)

// A run of another kind: managed scaling sizes the only group of a cluster whose load rises, falls and oscillates for a
// day, under the same faults and some of its own. Then the load stays, and everything has to come to rest where the
// arithmetic of C1 to C5 has it.

const (
	scaledGroup    = "group"
	scaledProvider = "provider"
	// heldByOne is how many tasks of the load fit on an instance, beside the daemon.
	heldByOne = 4
	// scaledDay is how long load and faults last.
	scaledDay = 24 * time.Hour
)

// ScaledRun is what to simulate of managed scaling.
type ScaledRun struct {
	Seed uint64
	// Plant puts a bug in, in a world of a shape in which it can show; Shape has that shape without the bug.
	Plant, Shape ScalingBug
}

// scaledShape is what a seed's group and its capacity provider are like.
type scaledShape struct {
	Min, Max, Target, MinStep, MaxStep           int
	Protection, Draining, Consolidating, Tracked bool
	UntilRegistered, Daemon                      bool
	// Replacing has instances replaced that never register. Without it they stay, and some register after they were given up.
	Replacing bool
}

func drawScaled(rng *rand.Rand) scaledShape {
	of := func(values ...int) int { return values[rng.IntN(len(values))] }
	s := scaledShape{
		Min: of(0, 0, 1, 3), Max: of(5, 12, 20), Target: of(100, 100, 80, 50), MinStep: of(1, 1, 2), MaxStep: of(2, 10000),
		Protection: of(0, 1, 1) > 0, Draining: of(0, 1) > 0, Consolidating: of(0, 1) > 0, Tracked: of(0, 0, 0, 0, 1) > 0,
		UntilRegistered: of(0, 1) > 0, Daemon: of(0, 1) > 0,
	}
	s.Consolidating = s.Consolidating && !s.Tracked
	return s
}

func (s scaledShape) tags() map[string]string {
	tags := map[string]string{}
	for tag, on := range map[string]bool{
		cluster.TagConsolidation: s.Consolidating, cluster.TagTargetTracking: s.Tracked, cluster.TagWarmupUntilRegistered: s.UntilRegistered,
		cluster.TagReplaceUnregistered: s.Replacing,
	} {
		if on {
			tags[tag] = "true"
		}
	}
	if s.Consolidating {
		tags[cluster.TagConsolidationPercent] = "20"
	}
	return tags
}

// most is how many tasks the group holds at its largest.
func (s scaledShape) most() int { return s.Max * heldByOne }

// scaled is such a run under way.
type scaled struct {
	*World
	shape scaledShape
	judge *scalingJudge
	bug   ScalingBug
	load  int // tasks wanted
	// draw decides on the load and on what befalls launches and calls of Auto Scaling, by rates of the seed.
	draw                         *rand.Rand
	fails, slow, silent, unclear float64
}

// SimulateScaling runs a seed to its end and tells what broke.
func SimulateScaling(r ScaledRun) Outcome {
	s, err := newScaled(r)
	if err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer s.Close()
	if err := s.furnish(); err != nil {
		s.checker.fail("making the group: %v", err)
	} else {
		s.live()
	}
	return Outcome{
		Broken: s.checker.broken, Faults: s.chaos.struck(), Notes: s.notes, Hash: s.Store.HistoryHash(), Steps: s.steps,
		Coverage: Coverage{Marks: s.marks, Hits: s.chaos.hits},
	}
}

func newScaled(r ScaledRun) (*scaled, error) {
	w := &World{
		Run: Run{Seed: r.Seed}, rng: rand.New(rand.NewPCG(r.Seed, 0x7363)), alive: map[string]int{}, stubborn: map[string]bool{},
		marks: map[Mark]int{}, chaos: newChaos(r.Seed, nil), span: scaledDay,
	}
	calm := r.Seed%4 == 3 // these find what happens without any fault
	if calm {
		w.chaos = newChaos(r.Seed, AllFaults)
	}
	s := &scaled{World: w, bug: r.Plant, draw: rand.New(rand.NewPCG(r.Seed, 0x6c6f6164))}
	s.shape = drawScaled(s.draw)
	s.shape.Replacing = rand.New(rand.NewPCG(r.Seed, 0x7265)).IntN(2) == 0 // beside the other draws, which stay as they were
	if s.shape = r.Shape.shape(r.Plant.shape(s.shape)); !calm {
		s.fails, s.slow, s.silent, s.unclear = 0.3*s.draw.Float64(), 0.3*s.draw.Float64(), 0.1*s.draw.Float64(), 0.1*s.draw.Float64()
	}
	w.client = &customer{world: w, stops: map[string]bool{}}
	w.outage = w.chaos.outage()
	loop := embedded.NewVirtualLoop(epoch)
	w.checker = newChecker(loop.Now, w.mark)
	if verbose {
		w.checker.tell = w.tell
	}
	s.judge = newScalingJudge(s)
	ids := 0
	var err error
	w.Installation, err = installation.Open(installation.Options{
		Loop: loop, Seed: r.Seed, Watch: w.checker.records, Log: slog.New(logbook{world: w}),
		NewID: func() string { ids++; return fmt.Sprintf("%032x", ids) },
		WrapState: func(function string, state state.Store) state.Store {
			return &faultyState{world: w, function: function, inner: r.Plant.state(function, state)}
		},
		WrapECS: func(function string, e handler.ECS) handler.ECS {
			return &judgedECS{ECS: &faultyECS{world: w, ECS: e}, judge: s.judge, function: function}
		},
		WrapGroups: func(function string, g installation.Groups) installation.Groups {
			return &judgedGroups{Groups: r.Plant.groups(function, &trackedGroups{Groups: g, judge: s.judge}), judge: s.judge, function: function}
		},
		WrapClock: func(string, handler.Clock) handler.Clock { return clock{w} },
		Runtime:   embedded.RuntimeOptions{Execute: w.execute, Faults: w.messageFaults()},
	})
	if err != nil {
		return nil, err
	}
	w.AWS.SetCallFaults(kernel.CallFaults{Call: s.groupFault})
	w.AWS.Machines.SetTaskBehaviour(w.behaviour)
	w.AWS.Groups.SetLaunchFaults(s.launchFault)
	return s, nil
}

// groupFault is what befalls a call of the fleet: those of Auto Scaling may time out, applied or not.
func (s *scaled) groupFault(operation, subject string) kernel.CallFault {
	switch {
	case s.running == nil || !s.chaos.active:
		return kernel.CallFault{}
	case strings.HasPrefix(operation, "Describe") || subject != scaledGroup || s.draw.Float64() >= s.unclear:
		return s.callFault(operation, subject)
	}
	s.note("%s times out", operation)
	return kernel.CallFault{Ambiguous: true, Applied: s.draw.IntN(2) == 0}
}

// launchFault is what befalls a launch.
func (s *scaled) launchFault(string, int64) (f autoscaling.LaunchFault) {
	if !s.chaos.active {
		return f
	}
	switch x := s.draw.Float64(); {
	case x < s.fails:
		f.Reason = "InsufficientInstanceCapacity"
	case x < s.fails+s.slow:
		n := s.draw.IntN(600)
		f.Slow = time.Duration(n) * time.Second
		if !s.shape.Replacing && n%2 == 0 { // in service at once, and given up by the time that it registers
			f.Slow, f.Late = 0, cluster.DefaultScaling.Warmup+time.Duration(n)*time.Second
		}
	case x < s.fails+s.slow+s.silent:
		f.Silent = true
	}
	return f
}

// scaledDefinitions are the load, of which an instance holds four, and what a daemon runs beside it.
var scaledDefinitions = []string{
	`{"family":"load","containerDefinitions":[{"name":"main","image":"i","cpu":450,"memory":400}]}`,
	`{"family":"log","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`,
}

// furnish makes the cluster, its group, the capacity provider, and the services.
func (s *scaled) furnish() error {
	s.chaos.active = false
	ctx := context.Background()
	if _, err := s.EnsureCluster(ctx, clusterName, 0, machine); err != nil {
		return err
	}
	for _, d := range scaledDefinitions {
		if status, answer := s.AWS.ECS.Endpoint().Serve(ctx, "RegisterTaskDefinition", []byte(d)); status != 200 {
			return fmt.Errorf("registering a task definition: %s", answer)
		}
	}
	arn, err := s.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: scaledGroup, Cluster: clusterName, Machine: machine, Min: s.shape.Min, Max: s.shape.Max, Desired: s.shape.Min, Protects: s.shape.Protection,
	})
	if err != nil {
		return err
	}
	p := &cluster.CapacityProvider{
		Name: scaledProvider, Group: scaledGroup, GroupARN: arn, Protection: s.shape.Protection, Draining: s.shape.Draining,
		Scaling: cluster.DefaultScaling, Tags: s.shape.tags(),
	}
	p.Scaling.Enabled, p.Scaling.Target = true, s.shape.Target
	p.Scaling.MinStep, p.Scaling.MaxStep = s.shape.MinStep, s.shape.MaxStep
	if _, err := s.API.CapacityProviders.CreateCapacityProvider(ctx, p); err != nil {
		return err
	}
	share := []cluster.ProviderShare{{Provider: scaledProvider, Weight: 1}}
	if _, err := s.API.ClusterProviders.PutClusterProviders(ctx, clusterName, []string{scaledProvider}, share); err != nil {
		return err
	}
	binpack := cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "memory"}}}
	if _, err := s.API.Services.CreateService(ctx, operation.CreateService{
		Cluster: clusterName, Name: "load", TaskDefinition: "load:1", Desired: new(0), Rules: binpack,
		ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(bool)},
	}); err != nil {
		return err
	}
	if s.shape.Daemon {
		if _, err := s.API.Services.CreateService(ctx, operation.CreateService{Cluster: clusterName, Name: "log", TaskDefinition: "log:1", Strategy: cluster.Daemon}); err != nil {
			return err
		}
	}
	s.note("shape %+v", s.shape)
	s.Runtime.Start()
	s.minutely()
	return nil
}

// minutely has the judge look each minute.
func (s *scaled) minutely() {
	s.Loop.After(time.Minute, func() {
		s.judge.minute()
		s.minutely()
	})
}

// wants has the service run so many tasks from now on.
func (s *scaled) wants(n int) {
	s.load = n
	s.note("load %d", n)
	s.client.call(fmt.Sprint("load ", n), func(ctx context.Context) error {
		if s.load != n {
			return nil // it has changed meanwhile
		}
		_, err := s.API.Services.UpdateService(ctx, operation.UpdateService{Cluster: clusterName, Name: "load", Desired: &n})
		return err
	}, func(err error) {
		if err != nil {
			s.checker.fail("changing the load says %v", err)
		}
	})
}
