package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
)

// A MoveWorld is a small cluster in which something may be broken, with owners whose tasks may
// move.
type MoveWorld struct {
	World
	Owners    map[string]moves.Owner
	Newcomers int  // tasks of owner o0 that have no instance
	spread    bool // mostly domain rules
}

// MoveCosts are the move costs that worlds are drawn with. Figures of plans are about worlds with
// these: with another list, the same draws would give other worlds.
var MoveCosts = []cluster.MoveCost{cluster.CostZero, cluster.CostLow, cluster.CostMedium, cluster.CostHigh}

// GenMoveWorld draws a world with up to so many instances and tasks.
func GenMoveWorld(t *rapid.T, instances, tasks int) *MoveWorld {
	w := &MoveWorld{World: World{Config: genMoveConfiguration(t)}, Owners: map[string]moves.Owner{}}
	w.spread = rapid.Bool().Draw(t, "spread")
	for i := range rapid.IntRange(1, instances).Draw(t, "instances") {
		w.Instances = append(w.Instances, w.genInstance(t, i))
	}
	for o := range rapid.IntRange(1, 3).Draw(t, "Owners") {
		name := fmt.Sprintf("o%d", o)
		w.Owners[name] = w.genOwner(t, name)
	}
	for n := range rapid.IntRange(0, tasks).Draw(t, "tasks") {
		w.genTask(t, n)
	}
	return w
}

func genMoveConfiguration(t *rapid.T) *cluster.Configuration {
	priority := rapid.SampledFrom([]cluster.Priority{0, 0, 0, 1, 2})
	c := &cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1}, NoSwitch: rapid.Bool().Draw(t, "no switch")}
	c.Priorities = cluster.Priorities{
		Placement: priority.Draw(t, "placement"), Capacity: priority.Draw(t, "capacity"),
		FaultDomain: priority.Draw(t, "fault"), UpgradeDomain: priority.Draw(t, "upgrade"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "buffer") {
	case 1:
		c.Buffer = map[string]float64{"a": 0.2}
	case 2:
		c.Overbooking = map[string]float64{"a": 0.3}
	case 3:
		c.Overbooking = map[string]float64{"a": -1}
	}
	return c
}

func (w *MoveWorld) genInstance(t *rapid.T, i int) *cluster.Instance {
	options := []Option{CPU(int64(rapid.SampledFrom([]int{1024, 4096}).Draw(t, "cpu")))}
	if d := rapid.IntRange(-1, 2).Draw(t, "fault domain"); d >= 0 || w.spread {
		d = max(d, 0)
		options = append(options, Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/%d", d)))
	}
	options = append(options, Attribute(cluster.AttributeUpgrade,
		fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "upgrade domain"))))
	if rapid.IntRange(0, 3).Draw(t, "fast") > 0 {
		options = append(options, Attribute("disk", "ssd"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "closed") {
	case 0:
		options = append(options, Attribute(cluster.AttributeUnschedulable, "true"))
	case 1:
		options = append(options, Status(cluster.InstanceDraining))
	}
	out := Instance(fmt.Sprintf("i%d", i), append(options, GPUs(rapid.IntRange(0, 1).Draw(t, "gpus")))...)
	out.Registered.Metrics = map[string]int64{}
	for _, m := range []string{"a", "b"} {
		if rapid.IntRange(0, 4).Draw(t, "has "+m) > 0 {
			out.Registered.Metrics[m] = int64(rapid.IntRange(0, 20).Draw(t, "capacity "+m))
		}
	}
	return out
}

func (w *MoveWorld) genOwner(t *rapid.T, name string) moves.Owner {
	spec := &placement.Spec{Owner: name, Needs: Small,
		MoveCost: rapid.SampledFrom(MoveCosts).Draw(t, "cost")}
	spec.Needs.Memory = 0
	if rapid.IntRange(0, 2).Draw(t, "constrained") == 0 {
		spec.Attributes = []string{"disk=ssd"}
	}
	if rapid.IntRange(0, 4).Draw(t, "distinct") == 0 {
		spec.PerInstance = 1
	}
	if w.spread || rapid.Bool().Draw(t, "governed") {
		spec.DomainPolicy = rapid.SampledFrom(cluster.DomainPolicies).Draw(t, "policy")
	}
	if rapid.IntRange(0, 4).Draw(t, "avoids") == 0 {
		spec.Avoid = []string{fmt.Sprintf("i%d", rapid.IntRange(0, len(w.Instances)-1).Draw(t, "avoided"))}
	}
	switch rapid.IntRange(0, 5).Draw(t, "extra") {
	case 0:
		spec.Ports = []cluster.Port{HTTP}
	case 1:
		spec.Needs.GPUs = 1
	}
	if w.spread {
		spec.Ports, spec.Needs.GPUs = nil, 0
	}
	spec.Loads = []cluster.Metric{{Name: "a", Load: int64(rapid.IntRange(0, 12).Draw(t, "default load"))}}
	return moves.Owner{Spec: spec, Target: rapid.IntRange(1, 6).Draw(t, "target"),
		Fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0}
}

// genTask puts a task anywhere. Ports and devices are free there; constraints and loads are
// ignored.
func (w *MoveWorld) genTask(t *rapid.T, n int) {
	on := rapid.SampledFrom(w.Instances).Draw(t, "on")
	if w.spread {
		on = w.Instances[n%len(w.Instances)]
	}
	m := w.Owners[rapid.SampledFrom(slices.Sorted(maps.Keys(w.Owners))).Draw(t, "owner")]
	x := Task(fmt.Sprintf("t%d", n), on.ID, Owner(m.Spec.Owner), Needs(m.Spec.Needs),
		Ports(m.Spec.Ports...))
	if x.Needs.GPUs > 0 {
		free := len(on.Registered.GPUs)
		for _, o := range w.Tasks {
			if o.Instance == on.ID {
				free -= o.Needs.GPUs
			}
		}
		if free <= 0 {
			return
		}
		x.GPUs = []int{0}
	}
	for _, o := range w.Tasks {
		if len(x.Ports) > 0 && len(o.Ports) > 0 && o.Instance == on.ID {
			return
		}
	}
	x.Reported = map[string]int64{"a": int64(rapid.IntRange(0, 15).Draw(t, "load a"))}
	if rapid.Bool().Draw(t, "reports b") {
		x.Reported["b"] = int64(rapid.IntRange(0, 15).Draw(t, "load b"))
	}
	if rapid.IntRange(0, 9).Draw(t, "ending") == 0 {
		Stopping(x)
	}
	w.Tasks = append(w.Tasks, x)
}

// GenAffinityWorld draws a world in which o1 has an affinity to o0, and often o2 as well.
func GenAffinityWorld(t *rapid.T, instances, tasks int) *MoveWorld {
	w := GenMoveWorld(t, instances, tasks)
	w.Config.Priorities.Affinity = rapid.SampledFrom([]cluster.Priority{0, 0, 0, 1, 2}).Draw(t, "affinity")
	for _, name := range []string{"o1", "o2"} {
		if o, drawn := w.Owners[name]; drawn && (name == "o1" || rapid.Bool().Draw(t, "o2 is attached")) {
			o.Spec.Affinity = "o0"
		}
	}
	return w
}

// Shop is the application of worlds with one.
const Shop = "shop"

// GenApplicationWorld draws a world in which services share the limits of an application.
func GenApplicationWorld(t *rapid.T, instances, tasks int) *MoveWorld {
	w := GenMoveWorld(t, instances, tasks)
	w.DrawApplication(t)
	return w
}

// DrawApplication draws an application, and which services belong to it.
func (w *MoveWorld) DrawApplication(t *rapid.T) {
	limits := cluster.Application{MaximumNodes: rapid.IntRange(0, 3).Draw(t, "most nodes")}
	m := cluster.ApplicationMetric{Reservation: int64(rapid.SampledFrom([]int{0, 0, 4, 8, 24}).Draw(t, "reserved"))}
	if rapid.Bool().Draw(t, "limited") {
		m.NodeCapacity = int64(rapid.IntRange(8, 20).Draw(t, "node capacity"))
	}
	if m != (cluster.ApplicationMetric{}) {
		limits.Metrics = map[string]cluster.ApplicationMetric{"a": m}
	}
	w.Config.Applications = map[string]cluster.Application{Shop: limits}
	for _, name := range slices.Sorted(maps.Keys(w.Owners)) {
		if rapid.IntRange(0, 3).Draw(t, name+" is a member") > 0 {
			w.Owners[name].Spec.Application = Shop
			w.Services = append(w.Services, &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
				ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
				ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: Shop}}})
		}
	}
}

// Describe returns the world as text.
func (w *MoveWorld) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", *w.Config)
	for _, i := range w.Instances {
		fmt.Fprintf(&b, "%s %+v %v\n", i.ID, i.Registered, i.Attributes)
	}
	for _, n := range slices.Sorted(maps.Keys(w.Owners)) {
		fmt.Fprintf(&b, "%s %d %+v\n", n, w.Owners[n].Target, *w.Owners[n].Spec)
	}
	for _, t := range w.Tasks {
		fmt.Fprintf(&b, "%s %s %s %v %s\n", t.ID, t.Owner, t.Instance, t.Reported, t.Desired)
	}
	return b.String()
}
