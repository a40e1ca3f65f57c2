package scaling_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

var (
	t3Small  = cluster.InstanceType{Name: "t3.small", VCPUs: 2, Memory: 2048, Interfaces: 3, Architecture: "x86_64"}
	m5Large  = cluster.InstanceType{Name: "m5.large", VCPUs: 2, Memory: 8192, Interfaces: 3, Architecture: "x86_64"}
	m54XL    = cluster.InstanceType{Name: "m5.4xlarge", VCPUs: 16, Memory: 65536, Interfaces: 8, Architecture: "x86_64"}
	m6gLarge = cluster.InstanceType{Name: "m6g.large", VCPUs: 2, Memory: 8192, Interfaces: 3, Architecture: "arm64"}
	g4dnXL   = cluster.InstanceType{Name: "g4dn.xlarge", VCPUs: 4, Memory: 16384, GPUs: 1, Interfaces: 3}
)

// launching makes the group launch these types.
func launching(types ...cluster.InstanceType) option {
	return func(w *world) {
		for _, t := range types {
			w.group.Types = append(w.group.Types, t.Name)
		}
		w.history.Launches = cluster.LaunchTypes{Types: types, Source: w.group.LaunchSource(), ReadAt: noon}
	}
}

func vcpus(n int64, memory int64) cluster.Resources {
	return cluster.Resources{CPU: n * cluster.VCPU, Memory: memory}
}

// From zero instances nothing is launched for a task that does not fit the group's types, and the
// reason has the parameter and the type (C2).
func TestFromZeroTheTypesDecide(t *testing.T) {
	for name, c := range map[string]struct {
		types   []cluster.InstanceType
		needs   cluster.Resources
		desired int
		why     string
	}{
		"Fits":             {[]cluster.InstanceType{m5Large}, vcpus(1, 4096), 2, ""},
		"TheWholeInstance": {[]cluster.InstanceType{m5Large}, vcpus(2, 8069), 2, ""},
		"MoreMemoryThanTheKernelLeaves": {[]cluster.InstanceType{m5Large}, vcpus(1, 8100), 0,
			"not even the largest, m5.large: insufficient memory (needs 8100 MiB, best free 8069)"},
		"TooManyVCPUs": {[]cluster.InstanceType{t3Small, m5Large}, vcpus(3, 512), 0,
			"insufficient CPU (needs 3072 units, best free 2048)"},
		"NoGPU": {[]cluster.InstanceType{m5Large}, cluster.Resources{Memory: 512, GPUs: 1}, 0,
			"not even the largest, m5.large: insufficient GPU (needs 1, best free 0)"},
		"AGPU": {[]cluster.InstanceType{g4dnXL}, cluster.Resources{Memory: 512, GPUs: 1}, 2, ""},
		"MoreThanTheLargest": {[]cluster.InstanceType{t3Small, m5Large, m54XL}, vcpus(1, 70000), 0,
			"not even the largest, m5.4xlarge: insufficient memory (needs 70000 MiB, best free 64552)"},
		"OnlyTheLargerTypes": {[]cluster.InstanceType{m54XL, t3Small, m5Large}, vcpus(1, 4096), 0,
			"the group's smallest type, t3.small: insufficient memory (needs 4096 MiB, best free 2017)"},
		"MoreInterfacesThanTypesHave": {[]cluster.InstanceType{m5Large}, cluster.Resources{Memory: 512, ENIs: 3}, 0,
			"not even the largest: insufficient network interfaces (needs 3, best free 2)"},
		"NetworkInterface": {[]cluster.InstanceType{m5Large}, cluster.Resources{Memory: 512, ENIs: 1}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(launching(c.types...), waits(1, c.needs))
			d := w.decide()
			expect(t, "desired", d.Desired, c.desired)
			expect(t, "left out", d.Demands[0].ExcludedBecause != "", c.why != "")
			contains(t, "why", d.Demands[0].ExcludedBecause, c.why)
			if c.why != "" {
				expect(t, "metric", d.Reservation, 100)
				contains(t, "event", messages(d), "service w0: (service w0) tasks are ignored when capacity provider "+
					"spot scales out: "+d.Demands[0].ExcludedBecause)
			}
		})
	}
}

// The event of a task that no type holds is emitted once, however long the task waits.
func TestTooLargeTasksAreEmittedOnce(t *testing.T) {
	w := newWorld(launching(m5Large), waits(1, vcpus(4, 512)))
	var emitted []string
	total := 0
	for range 30 {
		d := w.decide()
		expect(t, "desired", d.Desired, 0)
		var events []scaling.Event
		emitted, events = scaling.NewEvents(emitted, d.Events)
		total += len(events)
		w.now = w.now.Add(time.Minute)
	}
	expect(t, "events", total, 1)
}

// From zero the group starts exactly if some task fits on every one of its types: that is plain
// arithmetic, done here apart from placement.
func TestFromZeroExactlyWhatFits(t *testing.T) {
	all := []cluster.InstanceType{t3Small, m5Large, m54XL, m6gLarge, g4dnXL}
	r := rand.New(rand.NewPCG(17, 2))
	started := 0
	for n := range 3000 {
		types := slices.Clone(all)
		r.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
		types = types[:1+r.IntN(len(types))]
		options, fits := []option{launching(types...)}, false
		for range 1 + r.IntN(3) {
			needs := cluster.Resources{CPU: r.Int64N(5 * cluster.VCPU), Memory: 1 << r.IntN(17),
				GPUs: r.IntN(8) / 7}
			options = append(options, waits(1+r.IntN(20), needs))
			fits = fits || !slices.ContainsFunc(types, func(t cluster.InstanceType) bool {
				return needs.CPU > int64(t.VCPUs)*cluster.VCPU || needs.Memory > t.Memory*985/1000 ||
					int(needs.GPUs) > t.GPUs
			})
		}
		d := newWorld(options...).decide()
		if (d.Desired > 0) != fits {
			t.Fatalf("case %d: desired %d, and that a task fits is %v: %+v %+v", n, d.Desired, fits, types, d.Demands)
		}
		started += b2i(fits)
	}
	if started < 300 || started > 2700 {
		t.Errorf("%d of 3000 cases start the group", started)
	}
}

// The type of the launch template counts before an instance of it has registered: together with
// those that have.
func TestTypesThatHaveNotRegisteredCount(t *testing.T) {
	full := func(w *world) {
		w.instance(1, 0)
		w.task("full", 1, needing(cluster.Resources{CPU: 2 * cluster.VCPU, Memory: 4096}))
	}
	for name, c := range map[string]struct {
		types       []cluster.InstanceType
		needs       cluster.Resources
		perInstance int
		excluded    string
	}{
		"ALarger":  {[]cluster.InstanceType{m5Large, m54XL}, vcpus(1, 1024), 8, ""},
		"ASmaller": {[]cluster.InstanceType{m5Large, t3Small}, vcpus(1, 3000), 0, "smallest type, t3.small"},
		// the sample is an m5.large with 4,096 MiB, which is what counts, not what EC2 advertises
		"AsItRegistered": {[]cluster.InstanceType{m5Large}, vcpus(1, 5000), 0, "best free 4096"},
		// the group's instances are of a type that it launches no longer
		"ANewType": {[]cluster.InstanceType{m54XL}, vcpus(1, 5000), 8, ""},
		"NoTypes":  {nil, vcpus(1, 1024), 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(launching(c.types...), full, waits(8, c.needs)).decide()
			expect(t, "per instance", d.Demands[0].PerInstance, c.perInstance)
			contains(t, "why", d.Demands[0].ExcludedBecause, c.excluded)
			expect(t, "left out", d.Demands[0].ExcludedBecause != "", c.excluded != "")
		})
	}
}

// Types of another configuration of the group, and those that attributes select once an instance
// has registered, do not count.
func TestTypesThatDoNotCount(t *testing.T) {
	waiting := waits(1, vcpus(8, 512))
	t.Run("OfAnEarlierTemplate", func(t *testing.T) {
		w := newWorld(launching(m5Large), waiting)
		w.group.Template = "lt-1:2"
		expect(t, "desired", w.decide().Desired, 2)
	})
	t.Run("ByAttributesBeforeAnInstance", func(t *testing.T) {
		w := newWorld(launching(m5Large, m54XL), waiting)
		w.history.Launches.ByAttributes = true
		expect(t, "desired", w.decide().Desired, 0)
	})
	t.Run("ByAttributesAfterAnInstance", func(t *testing.T) {
		w := newWorld(launching(m54XL), waits(3, vcpus(1, 512)))
		w.history.Launches.ByAttributes = true
		expect(t, "per instance", demand(t, w).PerInstance, 2)
	})
}

// What only a registered instance shows, attributes and constraints, keeps no task from starting an
// empty group.
func TestFromZeroAttributesAreLeftForLater(t *testing.T) {
	rules := &cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
		Expression: "attribute:stack == blue"}}}
	spec, err := placement.NewSpec(&cluster.TaskDefinition{Needs: small}, "w0", "", rules)
	if err != nil {
		t.Fatal(err)
	}
	spec.Attributes = append(spec.Attributes, "ecs.capability.x")
	w := newWorld(launching(m5Large), waits(3, small, func(s *placement.Spec) { *s = *spec }))
	expect(t, "desired", w.decide().Desired, 2)
}

// Tasks of DAEMON services take room on the first instance too, if they may run on any.
func TestFromZeroDaemonsTakeRoom(t *testing.T) {
	rules := &cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
		Expression: "attribute:stack == blue"}}}
	limited, err := placement.NewSpec(&cluster.TaskDefinition{Needs: vcpus(0, 4096)}, "log", "", rules)
	if err != nil {
		t.Fatal(err)
	}
	everywhere := &placement.Spec{Needs: vcpus(0, 4096), Owner: "log", PerInstance: 1}
	for _, c := range []struct {
		daemon  *placement.Spec
		desired int
	}{{everywhere, 0}, {limited, 2}} {
		w := newWorld(launching(m5Large), waits(1, vcpus(1, 6000)),
			func(w *world) { w.daemons = []*placement.Spec{c.daemon} })
		expect(t, "desired", w.decide().Desired, c.desired)
	}
}

// An instance of 3 network interfaces has 2 for tasks. With a trunk there is no known limit.
func TestNetworkInterfacesOfTypes(t *testing.T) {
	needs := cluster.Resources{CPU: 1, Memory: 1, ENIs: 1}
	for trunk, perInstance := range map[bool]int{false: 7, true: 9} {
		w := newWorld(launching(m5Large, m54XL), waits(9, needs))
		got := demand(t, w, []size{with(func(c *cluster.Capacity) { c.ENIs = new(2) }), func(i *cluster.Instance) {
			if trunk {
				i.Attributes["ecs.awsvpc-trunk-id"] = "eni-1"
			}
		}})
		expect(t, fmt.Sprintf("per instance, trunk %v", trunk), got.PerInstance, perInstance)
	}
}

// A type that has not registered has the architecture that EC2 says, not the sample's.
func TestArchitectureOfTypes(t *testing.T) {
	arm := func(s *placement.Spec) { s.Attributes = []string{"ecs.cpu-architecture=arm64"} }
	w := newWorld(launching(m5Large, m6gLarge), waits(2, small, arm))
	got := demand(t, w, []size{func(i *cluster.Instance) { i.Attributes["ecs.cpu-architecture"] = "x86_64" }})
	expect(t, "left out", got.ExcludedBecause, "")
}

// What the group launches is read when its configuration changes and when it may have changed.
func TestLaunchTypesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		age      time.Duration
		change   func(*cluster.AutoScalingGroup, *cluster.LaunchTypes)
		due      bool
	}{
		"Never": {"lt-1:1", 0, func(_ *cluster.AutoScalingGroup,
			l *cluster.LaunchTypes) {
			*l = cluster.LaunchTypes{}
		}, true},
		"Now":          {"lt-1:$Latest", 0, nil, false},
		"Latest":       {"lt-1:$Latest", 10 * time.Minute, nil, true},
		"Default":      {"lt-1:$Default", 10 * time.Minute, nil, true},
		"AVersion":     {"lt-1:1", 10 * time.Minute, nil, false},
		"AVersionADay": {"lt-1:1", 24 * time.Hour, nil, true},
		"NoTypes": {"lt-1:1", 10 * time.Minute,
			func(_ *cluster.AutoScalingGroup, l *cluster.LaunchTypes) { l.Types = nil }, true},
		"ByAClockThatHadJumped": {"lt-1:$Latest", 0,
			func(_ *cluster.AutoScalingGroup, l *cluster.LaunchTypes) { l.ReadAt = noon.Add(24 * time.Hour) }, true},
		"OtherTemplate": {"lt-1:1", 0, func(g *cluster.AutoScalingGroup,
			_ *cluster.LaunchTypes) {
			g.Template = "lt-1:2"
		}, true},
		"OtherTypes": {"lt-1:1", 0, func(g *cluster.AutoScalingGroup,
			_ *cluster.LaunchTypes) {
			g.Types = []string{"a"}
		}, true},
		"Attributes": {"lt-1:1", 0, func(g *cluster.AutoScalingGroup, _ *cluster.LaunchTypes) {
			g.Requirements = []string{"{}"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &cluster.AutoScalingGroup{Template: c.template}
			known := cluster.LaunchTypes{Types: []cluster.InstanceType{m5Large}, Source: g.LaunchSource(), ReadAt: noon}
			if c.change != nil {
				c.change(g, &known)
			}
			expect(t, "due", scaling.AreLaunchTypesDue(g, known, noon.Add(c.age)), c.due)
		})
	}
}

// The extremes of many types decide as all of them do.
func TestExtremeTypesBoundAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var all []cluster.InstanceType
		for n := range 1 + r.IntN(40) {
			all = append(all, cluster.InstanceType{Name: fmt.Sprintf("t%d", n), VCPUs: 1 + r.IntN(64),
				Memory: 1024 * (1 + r.Int64N(256)), GPUs: r.IntN(3), Interfaces: 2 + r.IntN(8)})
		}
		few := scaling.ExtremeTypes(all)
		if len(few) > 8 {
			t.Fatalf("%d extremes", len(few))
		}
		needs := cluster.Resources{CPU: r.Int64N(8 * cluster.VCPU), Memory: r.Int64N(16384), ENIs: 1}
		a := newWorld(launching(all...), waits(9, needs)).decide().Demands[0]
		b := newWorld(launching(few...), waits(9, needs)).decide().Demands[0]
		expect(t, "left out", b.ExcludedBecause != "", a.ExcludedBecause != "")
		expect(t, "instances", b.Instances, a.Instances)
		expect(t, "per instance", b.PerInstance, a.PerInstance)
	}
	expect(t, "none", len(scaling.ExtremeTypes(nil)), 0)
}

// An instance on its way will show more than its type, so the group waits for it.
func TestFromZeroOneOnItsWayIsWaitedFor(t *testing.T) {
	w := newWorld(launching(m5Large), waits(3, vcpus(1, 512)))
	w.instance(1, 0, status(cluster.InstanceRegistering))
	w.group.Instances[0].LaunchedAt = w.now
	d := w.decide()
	expect(t, "desired", d.Desired, 1)
	expect(t, "needs named", strings.Contains(d.Demands[0].String(), "2 fit on one at most"), true)
}
