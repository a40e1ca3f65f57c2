package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
)

func TestScalingRowsComeBackAsTheyWent(t *testing.T) {
	scaling := cluster.DefaultScaling
	scaling.ReplaceUnregistered = true
	scaling.Enabled, scaling.UntilRegistered, scaling.TargetTracking, scaling.Consolidation.Enabled = true, true, true, true
	directory := cluster.Head{Cluster: cluster.Directory, Rev: 1, Stamp: 5, Expires: 9}
	for key, row := range map[string]cluster.Row{
		"# provider#spot": &cluster.CapacityProvider{Head: directory, Name: "spot", Group: "g", GroupARN: "arn", Protection: true, Draining: true, Scaling: scaling},
		"c scaling#spot": &cluster.ScalingHistory{
			Head: head, Provider: "spot", Low: 3, Minute: noon, LastOut: noon, LastIn: noon, FirstSeen: map[string]time.Time{"i-1": noon}, Launched: map[string]time.Time{"i-2": noon},
			Samples: []cluster.InstanceSample{{AgentVersion: "1.2.3", Registered: cluster.Capacity{CPU: 1, Memory: 2, ENIs: new(3)}, Attributes: map[string]string{"a": "b"}, Template: "lt-1:2"}}, NoneSince: noon,
			Drains: []cluster.Drain{{Instance: "i", At: noon, Ended: true, Over: true}}, Spared: map[string]time.Time{"i": noon},
		},
	} {
		expect(t, "key", cluster.KeyOf(row).Cluster+" "+cluster.KeyOf(row).Sort, key)
		data, err := cluster.EncodeRow(row)
		if err != nil {
			t.Fatal(err)
		}
		got, err := cluster.DecodeRow(cluster.KeyOf(row).Sort, data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s:\n%s", key, diff)
		}
	}
}

func TestGroupInstanceLifecycle(t *testing.T) {
	for lifecycle, want := range map[string][2]bool{ // running, launching
		"InService": {true, false}, "Pending": {false, true}, "Pending:Wait": {false, true}, "Pending:Proceed": {false, true},
		"Terminating": {}, "Terminating:Wait": {}, "Terminated": {}, "Standby": {}, "EnteringStandby": {}, "Detaching": {},
		"Warmed:Pending": {}, "Warmed:Running": {}, "": {},
	} {
		i := cluster.GroupInstance{Lifecycle: lifecycle}
		expect(t, lifecycle, [2]bool{i.Running(), i.Launching()}, want)
	}
}
