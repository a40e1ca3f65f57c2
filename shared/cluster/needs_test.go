package cluster_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// plain is a definition whose containers' sizes count. sized has a size of its own.
func plain() *cluster.TaskDefinition {
	return &cluster.TaskDefinition{
		Needs:      cluster.Resources{CPU: 384 * cluster.CPUUnit, Memory: 640, GPUs: 1},
		Containers: []string{"app", "side"},
		Sizes:      []cluster.ContainerSize{{CPU: 256, Memory: 1024, Reservation: 512}, {CPU: 128, Memory: 128}},
	}
}

func sized() *cluster.TaskDefinition {
	return &cluster.TaskDefinition{
		Needs: cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 2048}, Containers: []string{"app", "side"},
		OwnCPU: true, OwnMemory: true,
	}
}

func half() *cluster.TaskDefinition {
	d := plain()
	d.OwnMemory, d.Needs.Memory = true, 4096
	return d
}

// fixedCPU has its own CPU, and memory by container.
func fixedCPU() *cluster.TaskDefinition {
	d := plain()
	d.OwnCPU, d.Needs.CPU = true, 1024*cluster.CPUUnit
	return d
}

func containers(c ...cluster.ContainerOverride) *cluster.Overrides {
	return &cluster.Overrides{Containers: c}
}

func TestNeeds(t *testing.T) {
	units := func(cpu, memory int64, gpus int) cluster.Resources {
		return cluster.Resources{CPU: cpu * cluster.CPUUnit, Memory: memory, GPUs: gpus}
	}
	n := func(v int32) *int32 { return &v }
	for name, c := range map[string]struct {
		def  *cluster.TaskDefinition
		o    *cluster.Overrides
		want cluster.Resources
	}{
		"NoOverrides":   {plain(), nil, units(384, 640, 1)},
		"NothingOfSize": {plain(), &cluster.Overrides{TaskRole: "arn"}, units(384, 640, 1)},
		"TaskUnits":     {plain(), &cluster.Overrides{CPU: "512", Memory: "2048"}, units(512, 2048, 1)},
		"TaskVCPU":      {sized(), &cluster.Overrides{CPU: ".5 vCPU", Memory: "1 GB"}, units(512, 1024, 0)},
		"TaskVCPUClose": {sized(), &cluster.Overrides{CPU: "2VCPU", Memory: "0.5gb"}, units(2048, 512, 0)},
		"TaskCPUOnly":   {sized(), &cluster.Overrides{CPU: "256"}, units(256, 2048, 0)},
		"ContainerCPU": {plain(), containers(cluster.ContainerOverride{Name: "app", CPU: n(512)}),
			units(640, 640, 1)},
		"ContainerCPUZero": {plain(), containers(cluster.ContainerOverride{Name: "app", CPU: n(0)}),
			units(128, 640, 1)},
		"LimitBehindReservation": {plain(), containers(cluster.ContainerOverride{Name: "app", Memory: n(2048)}),
			units(384, 640, 1)},
		"Reservation": {plain(), containers(cluster.ContainerOverride{Name: "app", Reservation: n(700)}),
			units(384, 828, 1)},
		"Limit": {plain(), containers(cluster.ContainerOverride{Name: "side", Memory: n(256)}),
			units(384, 768, 1)},
		"ReservationUnderLimit": {plain(), containers(cluster.ContainerOverride{Name: "side", Reservation: n(64)}),
			units(384, 576, 1)},
		"TwoContainers": {plain(), containers(cluster.ContainerOverride{Name: "app", CPU: n(257)},
			cluster.ContainerOverride{Name: "side", CPU: n(129)}), units(386, 640, 1)},
		"TaskBeatsContainer": {plain(), &cluster.Overrides{
			CPU: "64", Containers: []cluster.ContainerOverride{{Name: "app", CPU: n(512)}},
		}, units(64, 640, 1)},
		"OwnSizeStays": {sized(), containers(cluster.ContainerOverride{Name: "side", CPU: n(64), Memory: n(64)}),
			units(1024, 2048, 0)},
		"OwnMemoryStays": {half(), containers(cluster.ContainerOverride{Name: "side", CPU: n(64), Memory: n(64)}),
			units(320, 4096, 1)},
		"OwnCPUStays": {fixedCPU(), containers(cluster.ContainerOverride{Name: "side", CPU: n(64),
			Memory: n(64)}), units(1024, 576, 1)},
		"ContainerUnchanged": {plain(), containers(cluster.ContainerOverride{Name: "side", Command: []string{"x"}}),
			units(384, 640, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.def.Needs
			got, err := cluster.TaskNeeds(c.def, c.o)
			if err != nil || got != c.want {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
			if c.def.Needs != before {
				t.Error("the definition was changed")
			}
		})
	}
}

func TestNeedsRejectsInvalidOverrides(t *testing.T) {
	n := func(v int32) *int32 { return &v }
	for name, c := range map[string]struct {
		o     *cluster.Overrides
		names string
	}{
		"UnknownContainer":    {containers(cluster.ContainerOverride{Name: "db"}), "container named db"},
		"NegativeCPU":         {containers(cluster.ContainerOverride{Name: "app", CPU: n(-1)}), "app"},
		"NegativeMemory":      {containers(cluster.ContainerOverride{Name: "app", Memory: n(-1)}), "app"},
		"NegativeReservation": {containers(cluster.ContainerOverride{Name: "app", Reservation: n(-1)}), "app"},
		"Words":               {&cluster.Overrides{CPU: "much"}, "cpu"},
		"NoUnits":             {&cluster.Overrides{CPU: "0"}, "cpu"},
		"Negative":            {&cluster.Overrides{Memory: "-512"}, "memory"},
		"Signed":              {&cluster.Overrides{Memory: "+512"}, "memory"},
		"PartOfAUnit":         {&cluster.Overrides{CPU: "0.3 vCPU"}, "cpu"},
		"Exponent":            {&cluster.Overrides{CPU: "1e3"}, "cpu"},
		"Hexadecimal":         {&cluster.Overrides{CPU: "0x1p8"}, "cpu"},
		"Infinite":            {&cluster.Overrides{Memory: "Inf"}, "memory"},
		"NoNumber":            {&cluster.Overrides{Memory: "NaN GB"}, "memory"},
		"UnitOfTheOther":      {&cluster.Overrides{CPU: "1 GB"}, "cpu"},
		"Huge":                {&cluster.Overrides{Memory: "9999999 GB"}, "memory"},
		"UnitAlone":           {&cluster.Overrides{CPU: " vCPU"}, "cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.TaskNeeds(plain(), c.o)
			if cluster.ErrorCode(err) != cluster.CodeInvalidParameter || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, want InvalidParameterException with %q", err, c.names)
			}
		})
	}
}

// If every container is overridden, the needs are those of a definition with these sizes.
func TestNeedsSumOverriddenContainers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Custom(func(t *rapid.T) cluster.ContainerSize {
			return cluster.ContainerSize{
				CPU: rapid.Int64Range(0, 4096).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 8192).Draw(t, "memory"),
				Reservation: rapid.Int64Range(0, 8192).Draw(t, "reservation"),
			}
		})
		var def cluster.TaskDefinition
		var o cluster.Overrides
		var want cluster.Resources
		for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
			name := string(rune('a' + i))
			was, is := size.Draw(t, "was"), size.Draw(t, "is")
			def.Containers, def.Sizes = append(def.Containers, name), append(def.Sizes, was)
			def.Needs.CPU, def.Needs.Memory = def.Needs.CPU+was.CPU*cluster.CPUUnit,
				def.Needs.Memory+was.ReservedMemory()
			cpu, memory, reservation := int32(is.CPU), int32(is.Memory), int32(is.Reservation)
			o.Containers = append(o.Containers, cluster.ContainerOverride{Name: name, CPU: &cpu, Memory: &memory,
				Reservation: &reservation})
			want.CPU, want.Memory = want.CPU+is.CPU*cluster.CPUUnit, want.Memory+is.ReservedMemory()
		}
		if got, err := cluster.TaskNeeds(&def, &o); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
}
