package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/state"
)

func TestScalingRowsSurviveEncoding(t *testing.T) {
	scaling := cluster.DefaultScaling
	scaling.ReplaceUnregistered, scaling.Immediate = true, true
	scaling.Enabled, scaling.UntilRegistered, scaling.TargetTracking, scaling.Consolidation.Enabled = true, true, true,
		true
	directory := cluster.Head{Cluster: state.Directory, Rev: 1, Stamp: 5, Expires: 9}
	for key, row := range map[string]state.Row{
		"# provider#spot": &cluster.CapacityProvider{Head: directory, Name: "spot", Group: "g", GroupARN: "arn",
			Protection: true, Draining: true, Scaling: scaling},
		"c scaling#spot": &cluster.ScalingHistory{
			Head: head, Provider: "spot", LowMinutes: 3, LastLowMinute: noon, LastScaleOut: noon, LastScaleIn: noon,
			LookAgainAt:       noon,
			UnregisteredSince: map[string]time.Time{"i-1": noon}, LaunchTimes: map[string]time.Time{"i-2": noon},
			Samples: []cluster.InstanceSample{{AgentVersion: "1.2.3",
				Registered: cluster.Capacity{CPU: 1, Memory: 2, ENIs: new(3)}, Attributes: map[string]string{"a": "b"},
				Template: "lt-1:2"}}, EmptySince: noon,
			ConsolidationHistory: cluster.ConsolidationHistory{
				Drains:        []cluster.Drain{{Instance: "i", At: noon, Cancelled: true, Finished: true}},
				DeferredUntil: map[string]time.Time{"i": noon}, Progress: cluster.ConsolidationEmptying,
				EmptyingUntil: noon,
			},
		},
	} {
		expect(t, "key", state.KeyOf(row).Cluster+" "+state.KeyOf(row).Sort, key)
		data, err := state.EncodeRow(row)
		if err != nil {
			t.Fatal(err)
		}
		got, err := state.DecodeRow(state.KeyOf(row).Sort, data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s:\n%s", key, diff)
		}
	}
}
