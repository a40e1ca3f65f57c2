package scaling_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

// demand returns the demand of the only group of tasks. The provider's group has one full instance
// of each given size.
func demand(t *testing.T, w *world, sizes ...[]size) scaling.Demand {
	t.Helper()
	if len(sizes) == 0 {
		sizes = [][]size{nil}
	}
	for n, s := range sizes {
		w.instance(n+1, 0, s...)
		i := w.rows[len(w.rows)-1].(*cluster.Instance)
		w.task("full"+i.ID, n+1, needing(cluster.Resources{CPU: i.Registered.CPU, Memory: i.Registered.Memory}))
	}
	d := w.decide()
	if len(d.Demands) != 1 {
		t.Fatalf("%d groups of tasks: %+v", len(d.Demands), d.Demands)
	}
	return d.Demands[0]
}

// Each parameter of C2 as the one that binds: 7 tasks wait.
func TestDemandIsBoundBy(t *testing.T) {
	http := cluster.Port{Number: 80, Protocol: cluster.TCP}
	devices := func(n int) size {
		return with(func(c *cluster.Capacity) { c.GPUs = strings.Split("G0 G1 G2 G3", " ")[:n] })
	}
	enis := func(n int) size { return with(func(c *cluster.Capacity) { c.ENIs = &n }) }
	for name, c := range map[string]struct {
		needs       cluster.Resources
		spec        func(*placement.Spec)
		sizes       []size
		perInstance int
		instances   int
		limit       string
	}{
		"VCPU": {needs: cluster.Resources{CPU: 700 * cluster.CPUUnit, Memory: 128}, perInstance: 2, instances: 4,
			limit: "insufficient CPU (needs 700 units, best free 648)"},
		"Memory": {needs: cluster.Resources{CPU: 128 * cluster.CPUUnit, Memory: 1300}, perInstance: 3,
			instances: 3, limit: "insufficient memory (needs 1300 MiB, best free 196)"},
		"ENI": {needs: cluster.Resources{CPU: 1, Memory: 1, ENIs: 1}, sizes: []size{enis(3)}, perInstance: 3,
			instances: 3, limit: "insufficient network interfaces (needs 1, best free 0)"},
		"Ports": {needs: small, spec: func(s *placement.Spec) { s.Ports = []cluster.Port{http} }, perInstance: 1,
			instances: 7, limit: "port in use (80/tcp)"},
		"GPU": {needs: cluster.Resources{CPU: 1, Memory: 1, GPUs: 1}, sizes: []size{devices(4)}, perInstance: 4,
			instances: 2, limit: "insufficient GPU (needs 1, best free 0)"},
		"SharesOfGPU": {needs: cluster.Resources{CPU: 1, Memory: 1, GPUs: 1, GPUMilli: 400}, sizes: []size{devices(2)},
			perInstance: 4, instances: 2, limit: "insufficient GPU (needs 0.4, best free 0.2)"},
		"Metric": {
			needs:       cluster.Resources{CPU: 1, Memory: 1},
			spec:        func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "disk", Load: 30}} },
			sizes:       []size{with(func(c *cluster.Capacity) { c.Metrics = map[string]int64{"disk": 100} })},
			perInstance: 3, instances: 3, limit: "insufficient metric capacity (disk: needs 30, best free 10)",
		},
		"DistinctInstance": {needs: small, spec: func(s *placement.Spec) { s.PerInstance = 1 }, perInstance: 1,
			instances: 7, limit: "already has one"},
		"DomainPolicy": {needs: small, spec: func(s *placement.Spec) { s.DomainPolicy = cluster.PolicyAdaptive },
			perInstance: 1, instances: 7, limit: "already has one"},
		"Nothing": {perInstance: 7, instances: 1},
	} {
		t.Run(name, func(t *testing.T) {
			spec := c.spec
			if spec == nil {
				spec = func(*placement.Spec) {}
			}
			got := demand(t, newWorld(waits(7, c.needs, spec)), c.sizes)
			expect(t, "fitting", got.Fitting, 0+b2i(name == "Nothing")*7)
			expect(t, "per instance", got.PerInstance, c.perInstance)
			expect(t, "instances", got.Instances, c.instances*b2i(name != "Nothing"))
			expect(t, "limit", got.Limit, c.limit)
		})
	}
}

// Of several instance types the largest value of each parameter counts, whichever type has it,
// because the demand is a lower bound (C2).
func TestDemandUsesTheLargestOfEachParameter(t *testing.T) {
	cpu := []size{kind("c5"), with(func(c *cluster.Capacity) { c.CPU, c.Memory = 8*cluster.VCPU, 4096 })}
	memory := []size{kind("r5"), with(func(c *cluster.Capacity) { c.CPU, c.Memory = 2*cluster.VCPU, 16384 })}
	got := demand(t, newWorld(waits(9, cluster.Resources{CPU: 2 * cluster.VCPU, Memory: 4096})), cpu, memory)
	expect(t, "per instance", got.PerInstance, 4)
	expect(t, "instances", got.Instances, 3)
}

// Whatever the parameter and whichever type comes first: the larger binds how many fit, the smaller
// whether any does.
func TestDemandOfTwoTypes(t *testing.T) {
	http := cluster.Port{Number: 80, Protocol: cluster.TCP}
	for name, c := range map[string]struct {
		needs        cluster.Resources
		spec         func(*placement.Spec)
		large, small func(*cluster.Capacity)
		perInstance  int
		tooMuch      func(*placement.Spec)
	}{
		"VCPU": {
			needs: cluster.Resources{CPU: cluster.VCPU}, large: func(c *cluster.Capacity) { c.CPU = 5 * cluster.VCPU },
			perInstance: 5, tooMuch: func(s *placement.Spec) { s.Needs.CPU = 3 * cluster.VCPU },
		},
		"Memory": {
			needs: cluster.Resources{Memory: 2048}, large: func(c *cluster.Capacity) { c.Memory = 8192 },
			perInstance: 4, tooMuch: func(s *placement.Spec) { s.Needs.Memory = 4097 },
		},
		"GPU": {
			needs: cluster.Resources{GPUs: 1}, large: func(c *cluster.Capacity) { c.GPUs = make([]string, 3) },
			small:       func(c *cluster.Capacity) { c.GPUs = make([]string, 1) },
			perInstance: 3, tooMuch: func(s *placement.Spec) { s.Needs.GPUs = 2 },
		},
		"ENI": {
			needs: cluster.Resources{ENIs: 1}, large: func(c *cluster.Capacity) { c.ENIs = new(4) },
			small:       func(c *cluster.Capacity) { c.ENIs = new(2) },
			perInstance: 4,
		},
		"ENIsUnlimited": {needs: cluster.Resources{ENIs: 1}, small: func(c *cluster.Capacity) { c.ENIs = new(2) },
			perInstance: 9},
		"NoENI": {
			large: func(c *cluster.Capacity) { c.ENIs = new(4) }, small: func(c *cluster.Capacity) { c.ENIs = new(0) },
			perInstance: 9, tooMuch: func(s *placement.Spec) { s.Needs.ENIs = 1 },
		},
		"Ports": {
			small: func(c *cluster.Capacity) { c.Ports = []cluster.Port{http} }, perInstance: 9,
			tooMuch: func(s *placement.Spec) { s.Ports = []cluster.Port{http} },
		},
		"Metric": {
			spec:        func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "disk", Load: 10}} },
			large:       func(c *cluster.Capacity) { c.Metrics = map[string]int64{"disk": 60} },
			small:       func(c *cluster.Capacity) { c.Metrics = map[string]int64{"disk": 20} },
			perInstance: 6, tooMuch: func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "disk", Load: 21}} },
		},
		"MetricUnlimited": {
			spec:  func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "disk", Load: 10}} },
			small: func(c *cluster.Capacity) { c.Metrics = map[string]int64{"disk": 20} }, perInstance: 9,
			tooMuch: func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "disk", Load: 21}} },
		},
	} {
		for order, swapped := range map[string]bool{"LargeFirst": false, "SmallFirst": true} {
			sizes := [][]size{{kind("large"), changed(c.large)}, {kind("small"), changed(c.small)}}
			if swapped {
				slices.Reverse(sizes)
			}
			t.Run(name+order, func(t *testing.T) {
				spec := c.spec
				if spec == nil {
					spec = func(*placement.Spec) {}
				}
				got := demand(t, newWorld(waits(9, c.needs, spec)), sizes...)
				expect(t, "left out", got.ExcludedBecause, "")
				expect(t, "per instance", got.PerInstance, c.perInstance)
				if c.tooMuch != nil {
					got := demand(t, newWorld(waits(9, c.needs, spec, c.tooMuch)), sizes...)
					expect(t, "left out", got.ExcludedBecause != "", true)
				}
			})
		}
	}
}

// changed applies f to a size; nil changes nothing.
func changed(f func(*cluster.Capacity)) size {
	if f == nil {
		return func(*cluster.Instance) {}
	}
	return with(f)
}

// A cordoned instance is a sample of new ones, except for its mark.
func TestDemandOfACordonedGroup(t *testing.T) {
	got := demand(t, newWorld(waits(4, small)),
		[]size{func(i *cluster.Instance) { i.Attributes[cluster.AttributeUnschedulable] = "" }})
	expect(t, "left out", got.ExcludedBecause, "")
	expect(t, "instances", got.Instances, 1)
}

// An instance that has registered without the provider's name is a sample of new ones, too.
func TestDemandOfAnInstanceWithoutProvider(t *testing.T) {
	ofTheProvider := func(s *placement.Spec) { s.Attributes = []string{cluster.AttributeProvider + "=spot"} }
	got := demand(t, newWorld(waits(4, small, ofTheProvider)))
	expect(t, "left out", got.ExcludedBecause, "")
	expect(t, "instances", got.Instances, 1)
}

func TestDemandIgnoresTasksThatFitNoSmallestInstance(t *testing.T) {
	large := []size{kind("m5.2xlarge"), with(func(c *cluster.Capacity) { c.CPU, c.Memory = 8*cluster.VCPU, 32768 })}
	tiny := []size{kind("t3.small"), with(func(c *cluster.Capacity) { c.Memory = 1024 })}
	t.Run("OneParameterIsEnough", func(t *testing.T) {
		w := newWorld(waits(3, cluster.Resources{CPU: 512 * cluster.CPUUnit, Memory: 2048}))
		got := demand(t, w, large, tiny)
		contains(t, "why", got.ExcludedBecause, "insufficient memory (needs 2048 MiB, best free 1024)")
		expect(t, "instances", got.Instances, 0)
		contains(t, "event", messages(w.decide()),
			"service w0: (service w0) tasks are ignored when capacity provider spot scales out: a task does not fit")
	})
	t.Run("OtherTasksCount", func(t *testing.T) {
		w := newWorld(waits(3, cluster.Resources{Memory: 2048}), waits(3, cluster.Resources{Memory: 1024}))
		w.instance(1, 0, tiny...)
		w.task("full", 1, needing(cluster.Resources{Memory: 1024}))
		d := w.decide()
		expect(t, "groups", len(d.Demands), 2)
		expect(t, "M", d.Needed, 4)
		expect(t, "events of what is left out", strings.Count(messages(d), "ignored when"), 1)
	})
	t.Run("DaemonsReduceTheRoom", func(t *testing.T) {
		daemon := &placement.Spec{Needs: cluster.Resources{Memory: 600}, Owner: "log", Group: "service:log",
			PerInstance: 1}
		w := newWorld(waits(3, cluster.Resources{Memory: 512}),
			func(w *world) { w.daemons = []*placement.Spec{daemon} })
		contains(t, "why", demand(t, w, tiny).ExcludedBecause, "insufficient memory (needs 512 MiB, best free 424)")
	})
	t.Run("ConstraintsThatNoSampleMeets", func(t *testing.T) {
		rules := &cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
			Expression: "attribute:ecs.instance-type == p3.2xlarge"}}}
		spec, err := placement.NewSpec(&cluster.TaskDefinition{Needs: small}, "w0", "", rules)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(waits(3, small, func(s *placement.Spec) { *s = *spec }))
		contains(t, "why", demand(t, w, large).ExcludedBecause, "constraint not met")
	})
	t.Run("PortsOfTheAgent", func(t *testing.T) {
		ssh := cluster.Port{Number: 22, Protocol: cluster.TCP}
		w := newWorld(waits(3, small, func(s *placement.Spec) { s.Ports = []cluster.Port{ssh} }))
		reserved := with(func(c *cluster.Capacity) { c.Ports = []cluster.Port{ssh} })
		contains(t, "why", demand(t, w, large, []size{reserved}).ExcludedBecause, "port in use (22/tcp)")
	})
}

// A group without any sample gets one instance, which becomes the sample.
func TestDemandWithoutSamples(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	all := func(s cluster.InstanceStatus) option {
		return func(w *world) {
			w.instance(1, 1, status(s))
			w.instance(2, 1, status(s))
		}
	}
	fresh := func(w *world) { w.group.Instances[0].LaunchedAt = w.now }
	for name, c := range map[string]struct {
		options []option
		needed  int
	}{
		"AllDrain":          {[]option{all(cluster.InstanceDraining)}, 3},
		"AllDrainByTheStep": {[]option{all(cluster.InstanceDraining), steps(4, 9)}, 6},
		"AllFailed":         {[]option{all(cluster.InstanceFailed)}, 3},
		"OneIsYetToRegister": {[]option{all(cluster.InstanceDraining),
			func(w *world) { w.machine(9, "InService").LaunchedAt = w.now }}, 3},
		"OneRegisters":        {[]option{all(cluster.InstanceRegistering), fresh}, 2},
		"OneRegistersTooLong": {[]option{all(cluster.InstanceRegistering)}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := newWorld(append(c.options, waits(5, half))...).decide()
			expect(t, "needed", d.Needed, c.needed)
		})
	}
	t.Run("GrowsByOne", func(t *testing.T) {
		w := newWorld(all(cluster.InstanceDraining), waits(5, half))
		d := w.decide()
		expect(t, "desired", d.Desired, 3)
		contains(t, "why", d.Why,
			"5 tasks of service w0 need 1 instance at least: no instance of the group is known yet")
		w.group.Desired = 3
		w.machine(9, "InService").LaunchedAt = noon
		w.group.Desired = 3
		w.now = noon.Add(time.Minute)
		expect(t, "desired while it comes", w.decide().Desired, 3)
	})
}

func TestDemandGroups(t *testing.T) {
	half := cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}
	alone := func(s *placement.Spec) { s.PerInstance = 1 }
	for name, c := range map[string]struct {
		options []option
		groups  int
		needed  int // beside the one that is full
	}{
		"TheSameNeedsOfTwoServices": {[]option{waits(3, half), waits(3, half)}, 1, 3}, // 6 tasks, 2 on each
		"OtherNeeds":                {[]option{waits(3, half), waits(3, small)}, 2, 2},
		"OtherPorts": {[]option{waits(3, half),
			waits(3, half, func(s *placement.Spec) { s.Ports = []cluster.Port{{Number: 1, Protocol: cluster.UDP}} })},
			2, 3},
		"DistinctOnesOfTwoServices": {[]option{waits(3, half, alone), waits(3, half, alone)}, 2, 3},
		"AllOrNothingIsNoHindrance": {[]option{waits(5, half, func(s *placement.Spec) { s.AllOrNothing = true })}, 1,
			3},
		"NoTasks": {[]option{waits(0, half)}, 0, 0},
		"AsManyAsNeedFewInAllOthers": {[]option{waits(4, half), waits(8, small),
			waits(4, cluster.Resources{Memory: 2048})}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append([]option{instances(1, 0), full}, c.options...)...)
			d := w.decide()
			expect(t, "groups", len(d.Demands), c.groups)
			expect(t, "M", d.Needed, 1+c.needed)
		})
	}
}

// Tasks that fit existing instances now are not counted. The same room is not given to two groups
// of tasks.
func TestDemandSubtractsExistingRoom(t *testing.T) {
	w := newWorld(instances(1, 0), waits(2, cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}),
		waits(2, small))
	d := w.decide() // 1,536 units are free: one task of the first, one of the second
	expect(t, "of the first", d.Demands[0].Fitting, 1)
	expect(t, "of the second", d.Demands[1].Fitting, 1)
	expect(t, "M", d.Needed, 2)
	contains(t, "why", d.Why,
		"desired capacity from 1 to 2. 1 task of service w0 needs 1 instance, 2 fit on one at most.")
}

// An empty group uses the samples of its last instances, as long as it may still launch such ones.
// If tasks did not fit these, the group must not stay empty for ever.
func TestDemandRemembersTheLastInstances(t *testing.T) {
	for name, c := range map[string]struct {
		was, is string // launch template version
		passed  time.Duration
		desired int
	}{
		"JustNow":                          {"lt-1:1", "lt-1:1", time.Minute, 0},
		"OfTheSameVersion":                 {"lt-1:1", "lt-1:1", 23 * time.Hour, 0},
		"NotForEverAsItsTypesMayChange":    {"lt-1:1", "lt-1:1", 25 * time.Hour, 2},
		"NotOfAnotherVersion":              {"lt-1:1", "lt-1:2", time.Minute, 2},
		"NotOfAnotherTemplate":             {"lt-1:1", "lt-2:1", time.Minute, 2},
		"OfTheLatestVersionForAWhile":      {"lt-1:1", "lt-1:$Latest", 59 * time.Minute, 0},
		"ThenThatMayBeAnother":             {"lt-1:1", "lt-1:$Latest", 61 * time.Minute, 2},
		"OfTheDefaultVersionForAWhile":     {"lt-1:1", "lt-1:$Default", 61 * time.Minute, 2},
		"WithoutALaunchTemplateForAWhile":  {"", "", 59 * time.Minute, 0},
		"WithoutALaunchTemplateNotForEver": {"", "", 61 * time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(instances(0, 1))
			w.group.Template, w.group.Instances[0].Template = c.was, c.was
			w.decide()
			w.rows, w.group.Instances, w.group.Desired = nil, nil, 0
			waits(3, cluster.Resources{Memory: 5000})(w)
			w.now = w.now.Add(time.Minute)
			d := w.decide()
			expect(t, "desired at first", d.Desired, 0)
			expect(t, "metric", d.Reservation, 100)
			contains(t, "why", d.Demands[0].ExcludedBecause, "insufficient memory (needs 5000 MiB, best free 4096)")
			w.group.Template, w.now = c.is, w.now.Add(c.passed)
			expect(t, "desired", w.decide().Desired, c.desired)
		})
	}
	t.Run("NotThoseOfAnEarlierTemplateVersion", func(t *testing.T) { // it changed while they were still there
		w := newWorld(instances(0, 1))
		w.group.Template, w.group.Instances[0].Template = "lt-1:2", "lt-1:1"
		waits(3, cluster.Resources{Memory: 5000})(w)
		expect(t, "desired with one", w.decide().Desired, 1)
		w.rows, w.group.Instances, w.group.Desired = nil, nil, 0
		expect(t, "desired", w.decide().Desired, 2)
	})
	t.Run("WhileTheLastInstancesAreDraining", func(t *testing.T) {
		w := newWorld(instances(1, 0), full)
		w.decide()
		w.rows[1].(*cluster.Instance).Status = cluster.InstanceDraining
		waits(1, small)(w)
		w.now = w.now.Add(48 * time.Hour)
		expect(t, "desired", w.decide().Desired, 2)
	})
}

// C4.
func TestAdmitWaiting(t *testing.T) {
	for _, c := range []struct{ waiting, asked, limit, admitted int }{
		{0, 100, 100, 100}, {0, 101, 100, 100}, {99, 1, 100, 1}, {99, 2, 100, 1}, {100, 1, 100, 0}, {120, 1, 100, 0},
		{120, 0, 100, 0}, {100, 1, 500, 1},
	} {
		n, err := scaling.AdmitWaiting(c.waiting, c.asked, c.limit)
		expect(t, "admitted", n, c.admitted)
		expect(t, "refused", err != nil, c.admitted < c.asked)
		if err != nil {
			expect(t, "error", err.Error(), "ClientException: The tasks provisioning capacity limit was exceeded.")
		}
	}
}

// New instances do not help against the limits of an application: none is launched for tasks that
// these hold back.
func TestDemandKeepsToApplications(t *testing.T) {
	ofShop := func(s *placement.Spec) {
		s.Application, s.PerInstance, s.Loads = "shop", 1, []cluster.Metric{{Name: "disk", Load: 10}}
	}
	for name, c := range map[string]struct {
		limits    cluster.Application
		instances int
	}{
		"MaximumNodes": {cluster.Application{MaximumNodes: 3}, 2},
		"Total": {cluster.Application{
			Metrics: map[string]cluster.ApplicationMetric{"disk": {TotalCapacity: 45}}}, 3},
		"MaximumNodesInUse": {cluster.Application{MaximumNodes: 1}, 0},
		"NoLimit":           {cluster.Application{}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(waits(7, small, ofShop))
			w.rows = append(w.rows, &cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1},
				Applications: map[string]cluster.Application{"shop": c.limits}},
				&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
					ServiceIdentity: cluster.ServiceIdentity{Name: "w0", Short: "w0"},
					ServiceSpec: cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop",
						Metrics: []cluster.Metric{{Name: "disk", Load: 10}}}}})
			w.instance(1, 0)
			i := w.rows[len(w.rows)-1].(*cluster.Instance)
			w.task("old", 1, needing(cluster.Resources{CPU: i.Registered.CPU, Memory: i.Registered.Memory}))
			old := w.rows[len(w.rows)-1].(*cluster.Task)
			old.Owner, old.Service = "w0", "w0"
			got, demands := 0, w.decide().Demands
			for _, d := range demands {
				got += d.Instances
			}
			expect(t, "instances", got, c.instances)
			expect(t, "whether instances are in demand", len(demands) > 0, c.instances > 0)
		})
	}
}
