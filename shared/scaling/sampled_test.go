package scaling_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

// A new instance is like a registered one and is the provider's, also if that one has no
// attributes.
func TestSampleOfAnInstanceWithoutAttributes(t *testing.T) {
	w := newWorld(func(w *world) { w.instance(1, 0, func(i *cluster.Instance) { i.Attributes = nil }) })
	samples := w.decide().History.Samples
	if len(samples) != 1 || samples[0].Attributes[cluster.AttributeProvider] != "spot" {
		t.Errorf("samples are %+v", samples)
	}
}

// The cluster's overbooking counts on new instances, too: of tasks with a load of 60, three fit on
// an instance for 100 that may be overbooked by 100 %.
func TestNewInstancesMayBeOverbooked(t *testing.T) {
	loaded := func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "m", Load: 60}} }
	for overbooked, want := range map[bool]int{true: 3, false: 1} {
		w := newWorld(waits(7, cluster.Resources{}, loaded))
		w.instance(1, 0, with(func(c *cluster.Capacity) { c.Metrics = map[string]int64{"m": 100} }))
		w.task("t", 1, needing(cluster.Resources{}), func(t *cluster.Task) { t.Reported = map[string]int64{"m": 200} })
		if overbooked {
			w.rows = append(w.rows, &cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1},
				Overbooking: map[string]float64{"m": 1}})
		}
		d := w.decide()
		if len(d.Demands) != 1 || d.Demands[0].PerInstance != want {
			t.Errorf("overbooked %v: demands are %+v, expected %d tasks per instance", overbooked, d.Demands, want)
		}
	}
}

// A daemon that does not fit on a new instance takes no room there.
func TestDaemonsThatDoNotFitTakeNoRoom(t *testing.T) {
	w := newWorld(instances(2, 0), full, waits(4, half))
	before := w.decide().Desired
	w.daemons = []*placement.Spec{{Owner: "log", Needs: cluster.Resources{CPU: 8 * cluster.VCPU}}}
	expect(t, "desired", w.decide().Desired, before)
	if before <= 2 {
		t.Errorf("desired are %d, expected more than 2", before)
	}
}

// Tasks that keep coming are gathered for less than the longest time: then the group scales out.
func TestGatheringEnds(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 5, -time.Millisecond: 2} {
		var ago []time.Duration
		for d := cluster.ScaleOutMax + late; d > 0; d -= 900 * time.Millisecond {
			ago = append(ago, d)
		}
		w := newWorld(instances(2, 0), full, waits(5, half), immediate, beganAt(ago...))
		expect(t, fmt.Sprintf("desired, the first %s after the longest time", late), w.decideBetween().Desired, want)
	}
}

// A decision that terminates drained instances says so.
func TestWhyDrainedInstancesAreTerminated(t *testing.T) {
	w := newWorld(consolidating(100, time.Hour), web("web", 3, ""))
	w.instance(1, 3)
	w.instance(2, 0, status(cluster.InstanceDraining))
	w.history.Drains = []cluster.Drain{{Instance: "c-2", At: noon.Add(-time.Minute)}}
	d := w.decide()
	expect(t, "why", d.Why, "desired capacity from 2 to 1: drained instances are terminated")
	expect(t, "why the instance goes", why(d, "i-2"), "its tasks run elsewhere, so it is terminated")
}

// An instance that is to be emptied says so before it is DRAINING.
func TestWhyAnInstanceIsDrained(t *testing.T) {
	w := newWorld(consolidating(100, time.Hour), web("web", 3, ""))
	w.instance(1, 3)
	w.instance(2, 0)
	w.history.Drains = []cluster.Drain{{Instance: "c-2", At: noon.Add(-time.Second)}}
	d := w.decide()
	expect(t, "drain", fmt.Sprint(d.Drain), "[c-2]")
	expect(t, "why", why(d, "i-2"), "it is being drained")
}

// A decision changes nothing that it is given.
func TestDecideLeavesItsInputAsItIs(t *testing.T) {
	w := newWorld(instances(1, 0), waits(3, half))
	w.history = w.decide().History
	w.group.Instances, w.group.Desired, w.rows = nil, 0, nil
	w.history.DeferredUntil = map[string]time.Time{"c-1": noon.Add(-time.Hour)}
	w.history.Launches = cluster.LaunchTypes{Source: w.group.LaunchSource(), ReadAt: noon,
		Types: []cluster.InstanceType{{Name: "m5.xlarge", VCPUs: 4, Memory: 16384}}}
	scaling.Decide(w.input())
	expect(t, "deferred instances", len(w.history.DeferredUntil), 1)
	expect(t, "type of the sample", w.history.Samples[0].Attributes[cluster.AttributeInstanceType], "m5.large")
}

// A scale-out waits for a scale-in that was just made, and says so.
func TestScaleOutAfterAScaleInIsExplained(t *testing.T) {
	w := newWorld(instances(2, 0), full, waits(5, half), immediate)
	w.history.LastScaleIn = noon.Add(-20 * time.Second)
	contains(t, "why", w.decideBetween().Why, "5 instances are needed; the group was scaled in at 2026-11-21T11:59:40Z")
}

// Instances that are leaving the group are no candidates to be emptied. One that is DRAINING is
// none either, and the plan names its status.
func TestInstancesThatAreNotEmptied(t *testing.T) {
	w := newWorld(consolidating(100, time.Minute), web("web", 6, ""))
	w.instance(1, 3)
	w.instance(2, 1, status(cluster.InstanceDraining))
	w.instance(3, 1).Lifecycle = "Terminating:Wait"
	w.instance(4, 1, func(i *cluster.Instance) { i.AgentConnected = false })
	w.group.Desired--
	found := map[string]string{}
	for _, c := range w.decide().Consolidation {
		found[c.EC2InstanceID] = c.Why
	}
	if _, listed := found["i-3"]; listed {
		t.Errorf("an instance that leaves is a candidate: %q", found["i-3"])
	}
	expect(t, "why not i-2", found["i-2"], "it cannot receive tasks: it is DRAINING")
	w.movers = nil
	expect(t, "why not i-1", w.decide().Consolidation[0].Why, "service web does not allow its tasks to move")
	expect(t, "why not i-4", found["i-4"], "it cannot receive tasks: it is disconnected")
}
