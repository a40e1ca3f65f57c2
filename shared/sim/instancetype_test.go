package sim_test

import (
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
)

// Of every type ECS registers what EC2 advertises, but for memory: at least 1.5 % less, which is
// what managed scaling reckons with.
func TestTypesRegisterLessMemoryThanAdvertised(t *testing.T) {
	for _, name := range ec2.MachineTypes() {
		advertised, _ := ec2.InstanceType(name)
		cpu, memory, gpus, err := ec2.Machine{Type: name}.RegisteredSize()
		if err != nil || cpu != int64(advertised.VCPUs)*1024 || gpus != advertised.GPUs ||
			memory > advertised.Memory*985/1000 || memory < advertised.Memory*88/100 {
			t.Errorf("%s registers %d CPU units, %d MiB, %d GPUs (%v), EC2 says %+v", name, cpu, memory, gpus, err,
				advertised)
		}
	}
}

func TestTypesByAttributes(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	for selection, want := range map[string]string{
		`{"VCpuCount": {"Min": 16, "Max": 16}}`:                                                  "c5.4xlarge m5.4xlarge m6i.4xlarge",
		`{"VCpuCount": {"Min": 2}, "MemoryMiB": {"Max": 1024}}`:                                  "",
		`{"MemoryMiB": {"Max": 1024}, "BurstablePerformance": "included"}`:                       "t3.micro",
		`{"AcceleratorCount": {"Min": 8}}`:                                                       "p3.16xlarge",
		`{"VCpuCount": {"Min": 4, "Max": 4}, "AllowedInstanceTypes": ["m5.xlarge", "m5.large"]}`: "m5.xlarge",
		`{"MemoryMiB": {"Max": 4096}, "ExcludedInstanceTypes": ["c5.large"]}`:                    "",
	} {
		got, err := w.Templates.MatchTypes(t.Context(), selection)
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s matches %v, %v, want %s", selection, got, err, want)
		}
	}
	for _, bad := range []string{"[", `{"LocalStorage": "required"}`} {
		if got, err := w.Templates.MatchTypes(t.Context(), bad); err == nil {
			t.Errorf("%s matches %v", bad, got)
		}
	}
	if got, err := w.Templates.DescribeTypes(t.Context(), []string{"m5.large", "m5.none"}); cluster.ErrorCode(err) !=
		"InvalidInstanceType" {
		t.Error(got, err)
	}
}

// A group of a type of EC2 has the type in its launch template, as managed scaling reads it.
func TestGroupsHaveTheirTypeInTheTemplate(t *testing.T) {
	w := newGroupWorld(t, 0, nil)
	for name, machine := range map[string]ec2.Machine{"m5.large": {Type: "m5.large"}, "": {Type: "edge", CPU: 3500,
		Memory: 1024}} {
		if _, err := w.Groups.AddGroup(autoscaling.GroupSpec{Name: "of " + machine.Type, Cluster: "c",
			Machine: machine}); err != nil {
			t.Fatal(err)
		}
		got, err := w.Templates.LaunchTemplate(t.Context(), cluster.TemplateRef{Name: "berth/of " + machine.Type})
		if err != nil || got.Type != name {
			t.Error(got, err)
		}
	}
}
