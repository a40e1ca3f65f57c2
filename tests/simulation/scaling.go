package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
	"berth/shared/state"
)

// A kind of run in which managed scaling sizes the only group of a cluster. The load rises, falls
// and oscillates for a day, under the usual faults and some of Auto Scaling. Then the load stays
// constant, and the group must settle at the size that C1 to C5 give.

const (
	scaledGroup    = "group"
	scaledProvider = "provider"
	// tasksPerInstance is how many tasks of the load fit on an instance beside the daemon.
	tasksPerInstance = 4
	// scalingDay is how long load and faults last.
	scalingDay = 24 * time.Hour
)

// A ScalingRun describes one run of managed scaling.
type ScalingRun struct {
	Seed uint64
	// Plant is a bug to plant, in a group of a shape in which it can show. Shape gives the group
	// that shape without planting the bug.
	Plant, Shape ScalingBug
}

// A scalingShape is a seed's group and capacity provider.
type scalingShape struct {
	Min, Max, Target, MinStep, MaxStep           int
	Protection, Draining, Consolidating, Tracked bool
	UntilRegistered, Daemon                      bool
	// Replacing replaces instances that never register. Without it they stay, and some register
	// after managed scaling has given them up.
	Replacing bool
	// Immediate scales out as soon as tasks wait.
	Immediate bool
	// Oversized gives the group an instance type of EC2's, and the cluster a service whose task no
	// such instance can hold.
	Oversized bool
}

func drawScalingShape(rng *rand.Rand) scalingShape {
	of := func(values ...int) int { return values[rng.IntN(len(values))] }
	s := scalingShape{
		Min: of(0, 0, 1, 3), Max: of(5, 12, 20), Target: of(100, 100, 80, 50), MinStep: of(1, 1, 2),
		MaxStep:    of(2, 10000),
		Protection: of(0, 1, 1) > 0, Draining: of(0, 1) > 0, Consolidating: of(0, 1) > 0,
		Tracked:         of(0, 0, 0, 0, 1) > 0,
		UntilRegistered: of(0, 1) > 0, Daemon: of(0, 1) > 0,
	}
	s.Consolidating = s.Consolidating && !s.Tracked
	return s
}

func (s scalingShape) tags() map[string]string {
	tags := map[string]string{}
	for tag, on := range map[string]bool{
		cluster.TagConsolidation: s.Consolidating, cluster.TagTargetTracking: s.Tracked,
		cluster.TagWarmupUntilRegistered: s.UntilRegistered,
		cluster.TagReplaceUnregistered:   s.Replacing,
	} {
		if on {
			tags[tag] = "true"
		}
	}
	if s.Consolidating {
		tags[cluster.TagConsolidationPercent] = "20"
	}
	if s.Immediate {
		tags[cluster.TagScaleOut] = "immediate"
	}
	return tags
}

// maxTasks returns how many tasks the group holds at its maximum.
func (s scalingShape) maxTasks() int { return s.Max * tasksPerInstance }

// A scalingWorld is such a run in progress.
type scalingWorld struct {
	*World
	shape        scalingShape
	groupChecker *scalingChecker
	bug          ScalingBug
	load         int // tasks wanted
	faultless    bool
	wakeUps      *wakeUpFaults
	// random decides on the load and on the faults of launches and calls of Auto Scaling, whose
	// rates follow.
	random                                        *rand.Rand
	failRate, slowRate, silentRate, ambiguousRate float64
}

// SimulateScaling executes a run to its end, or to the first failure.
func SimulateScaling(r ScalingRun) Outcome {
	s, err := newScalingWorld(r)
	if err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer s.Close()
	if err := s.createScaledCluster(); err != nil {
		s.checker.Fail("making the group: %v", err)
	} else {
		s.runDayAndSettle()
	}
	return Outcome{
		Broken: s.checker.Broken, Faults: s.faults.describeStrikes(), Log: s.lines, Hash: s.Store.HistoryHash(),
		Steps:    s.steps,
		Coverage: Coverage{Points: s.covered, Hits: s.faults.hits},
	}
}

// newScalingWorld returns the world of a run. Every fourth seed has no faults.
func newScalingWorld(r ScalingRun) (*scalingWorld, error) {
	faultless := r.Seed%4 == 3 // these seeds find what happens without any fault
	var off []Fault
	if r.Plant != "" { // bugs are found to the second
		off = []Fault{ClockJump}
	}
	faults := newFaultInjector(r.Seed, off)
	if faultless {
		faults = newFaultInjector(r.Seed, AllFaults)
	}
	w, options := newEmptyWorld(Run{Seed: r.Seed}, 0x7363, faults)
	w.historySpan = scalingDay
	s := &scalingWorld{World: w, bug: r.Plant, faultless: faultless, wakeUps: drawWakeUpFaults(r.Seed), random: rand.New(rand.NewPCG(r.Seed, 0x6c6f6164))}
	s.shape = drawScalingShape(s.random)
	// A source of its own leaves the other draws of each seed as they were.
	s.shape.Replacing = rand.New(rand.NewPCG(r.Seed, 0x7265)).IntN(2) == 0
	s.shape.Immediate = rand.New(rand.NewPCG(r.Seed, 0x696d)).IntN(2) == 0
	s.wakeUps.netOff = r.Plant == SwitchNetOff
	s.strikeWakeUps(&options.Runtime.Faults)
	s.shape.Oversized = rand.New(rand.NewPCG(r.Seed, 0x747c)).IntN(3) == 0
	if s.shape = r.Shape.adjustShape(r.Plant.adjustShape(s.shape)); !faultless {
		s.failRate, s.slowRate = 0.3*s.random.Float64(), 0.3*s.random.Float64()
		s.silentRate, s.ambiguousRate = 0.1*s.random.Float64(), 0.1*s.random.Float64()
	}
	s.groupChecker = newScalingChecker(s)
	options.Settings = drawSettings(r.Seed)
	options.Watch = w.checker.CheckCommit
	options.WrapState = func(function string, inner state.Store) state.Store {
		return &faultyStore{world: w, function: function, inner: r.Plant.wrapStore(function, inner)}
	}
	options.WrapECS = func(function string, e handler.ECS) handler.ECS {
		return &checkedECS{ECS: &faultyECS{world: w, ECS: e}, checker: s.groupChecker, function: function}
	}
	options.WrapGroups = func(function string, g installation.Groups) installation.Groups {
		inner := r.Plant.wrapGroups(function, &observedGroups{Groups: g, checker: s.groupChecker})
		return &checkedGroups{Groups: inner, checker: s.groupChecker, function: function}
	}
	var err error
	if w.Installation, err = installation.Open(options); err != nil {
		return nil, err
	}
	w.AWS.SetCallFaults(kernel.CallFaults{Call: s.drawGroupFault})
	w.AWS.Machines.SetTaskBehaviour(w.taskBehaviour)
	w.AWS.Groups.SetLaunchFaults(s.drawLaunchFault)
	return s, nil
}

// drawGroupFault draws the fault of a call of AWS: calls of Auto Scaling may time out, applied or
// not.
func (s *scalingWorld) drawGroupFault(operation, subject string) kernel.CallFault {
	switch {
	case s.current == nil || !s.faults.active:
		return kernel.CallFault{}
	case strings.HasPrefix(operation, "Describe") || subject != scaledGroup || s.random.Float64() >= s.ambiguousRate:
		return s.drawCallFault(operation, subject)
	}
	s.logf("%s times out", operation)
	return kernel.CallFault{Ambiguous: true, Applied: s.random.IntN(2) == 0}
}

// drawLaunchFault draws the fault of a launch.
func (s *scalingWorld) drawLaunchFault(string, int64) (f autoscaling.LaunchFault) {
	if !s.faults.active {
		return f
	}
	switch x := s.random.Float64(); {
	case x < s.failRate:
		f.Reason = "InsufficientInstanceCapacity"
	case x < s.failRate+s.slowRate:
		n := s.random.IntN(600)
		f.Slow = time.Duration(n) * time.Second
		if !s.shape.Replacing && n%2 == 0 { // in service at once, and given up before it registers
			f.Slow, f.Late = 0, cluster.DefaultScaling.Warmup+time.Duration(n)*time.Second
		}
	case x < s.failRate+s.slowRate+s.silentRate:
		f.Silent = true
	}
	return f
}

// scalingDefinitions are the load's task definition, of which four tasks fit on an instance, a
// daemon's, and that of the oversized task.
var scalingDefinitions = []string{
	`{"family":"load","containerDefinitions":[{"name":"main","image":"i","cpu":450,"memory":400}]}`,
	`{"family":"log","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`,
	`{"family":"oversized","containerDefinitions":[{"name":"main","image":"i","cpu":450,"memory":3000}]}`,
}

// typedMachine is as large as [machine], with a type that EC2 describes.
var typedMachine = ec2.Machine{Type: "t3.small", Zones: machine.Zones}

// createScaledCluster creates the cluster, its group, the capacity provider and the services.
func (s *scalingWorld) createScaledCluster() error {
	s.faults.active = false
	ctx := context.Background()
	if _, err := s.EnsureCluster(ctx, clusterName, 0, machine); err != nil {
		return err
	}
	for _, d := range scalingDefinitions {
		s.registerDefinition(d)
	}
	groupMachine := machine
	if s.shape.Oversized {
		groupMachine = typedMachine
	}
	arn, err := s.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: scaledGroup, Cluster: clusterName, Machine: groupMachine, Min: s.shape.Min, Max: s.shape.Max,
		Desired: s.shape.Min, Protects: s.shape.Protection,
		Tags: map[string]string{handler.OwnerTag: installation.Name},
	})
	if err != nil {
		return err
	}
	p := &cluster.CapacityProvider{
		Name: scaledProvider, Group: scaledGroup, GroupARN: arn, Protection: s.shape.Protection,
		Draining: s.shape.Draining,
		Scaling:  cluster.DefaultScaling, Tags: s.shape.tags(),
	}
	p.Scaling.Enabled, p.Scaling.Target = true, s.shape.Target
	p.Scaling.MinStep, p.Scaling.MaxStep = s.shape.MinStep, s.shape.MaxStep
	if _, err := s.API.CapacityProviders.CreateCapacityProvider(ctx, p); err != nil {
		return err
	}
	share := []cluster.ProviderShare{{Provider: scaledProvider, Weight: 1}}
	if _, err := s.API.ClusterProviders.PutClusterProviders(ctx, clusterName, []string{scaledProvider},
		share); err != nil {
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
		if _, err := s.API.Services.CreateService(ctx,
			operation.CreateService{Cluster: clusterName, Name: "log", TaskDefinition: "log:1",
				Strategy: cluster.Daemon}); err != nil {
			return err
		}
	}
	if s.shape.Oversized {
		if _, err := s.API.Services.CreateService(ctx, operation.CreateService{Cluster: clusterName,
			Name: "oversized", TaskDefinition: "oversized:1", Desired: new(1)}); err != nil {
			return err
		}
	}
	s.logf("shape %+v", s.shape)
	s.Runtime.Start()
	s.checkEachMinute()
	return nil
}

// checkEachMinute checks the group's bounds each minute.
func (s *scalingWorld) checkEachMinute() {
	s.Loop.After(time.Minute, func() {
		s.groupChecker.checkBounds()
		s.checkEachMinute()
	})
}

// setLoad changes the desired count of the load's service.
func (s *scalingWorld) setLoad(n int) {
	s.load = n
	s.logf("load %d", n)
	s.client.callUntilAnswered(fmt.Sprint("load ", n), func(ctx context.Context) error {
		if s.load != n {
			return nil // the load has changed meanwhile
		}
		_, err := s.API.Services.UpdateService(ctx, operation.UpdateService{Cluster: clusterName, Name: "load",
			Desired: &n})
		return err
	}, func(err error) {
		if err != nil {
			s.checker.Fail("changing the load: %v", err)
		}
	})
}
