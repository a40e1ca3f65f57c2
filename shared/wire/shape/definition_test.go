package shape_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// definition returns web:3 with two containers, changed as the case needs.
func definition(change func(d *types.TaskDefinition, app *types.ContainerDefinition)) types.TaskDefinition {
	d := types.TaskDefinition{
		Family: new("web"), Revision: 3, Status: types.TaskDefinitionStatusActive,
		ContainerDefinitions: []types.ContainerDefinition{
			{Name: new("app"), Essential: new(true), Cpu: 256, Memory: new(int32(1024)), MemoryReservation: new(int32(512))},
			{Name: new("side"), Essential: new(false), Cpu: 128, Memory: new(int32(128))},
		},
	}
	change(&d, &d.ContainerDefinitions[0])
	return d
}

func asIs(*types.TaskDefinition, *types.ContainerDefinition) {}

func mappings(list ...types.PortMapping) func(*types.TaskDefinition, *types.ContainerDefinition) {
	return func(_ *types.TaskDefinition, app *types.ContainerDefinition) { app.PortMappings = list }
}

func mapping(container, host int32, protocol types.TransportProtocol) types.PortMapping {
	return types.PortMapping{ContainerPort: &container, HostPort: &host, Protocol: protocol}
}

func TestParseTaskDefinition(t *testing.T) {
	got, err := shape.ParseTaskDefinition(definition(func(d *types.TaskDefinition, app *types.ContainerDefinition) {
		d.TaskRoleArn, d.ExecutionRoleArn = new("arn:task"), new("arn:execution")
		d.RequiresAttributes = []types.Attribute{{Name: new("a")}, {Name: new("b"), Value: new("c")}, {Name: new("d"), Value: new("")}}
		app.PortMappings = []types.PortMapping{mapping(80, 8080, ""), mapping(81, 0, "")}
	}), nil)
	expect(t, "error", err, nil)
	expect(t, "definition", got, &cluster.TaskDefinition{
		Family: "web", Revision: 3, Needs: cluster.Resources{CPU: 384 * cluster.CPUUnit, Memory: 640},
		Ports: []cluster.Port{{Number: 8080, Protocol: cluster.TCP}}, Attributes: []string{"a", "b=c", "d"},
		Roles: []string{"arn:task", "arn:execution"}, Containers: []string{"app", "side"},
		Sizes: []cluster.ContainerSize{{CPU: 256, Memory: 1024, Reservation: 512}, {CPU: 128, Memory: 128}},
	})
}

func TestTaskDefinitionNeeds(t *testing.T) {
	units := func(cpu, memory int64) cluster.Resources {
		return cluster.Resources{CPU: cpu * cluster.CPUUnit, Memory: memory}
	}
	for name, c := range map[string]struct {
		change func(*types.TaskDefinition, *types.ContainerDefinition)
		tags   []types.Tag
		want   cluster.Resources
	}{
		"SumOfContainers": {asIs, nil, units(384, 640)},
		"OwnSize": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) {
			d.Cpu, d.Memory = new("1024"), new("2048")
		}, nil, units(1024, 2048)},
		"OwnSizeInWords": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) {
			d.Cpu, d.Memory = new(".5 vCPU"), new("1 GB")
		}, nil, units(512, 1024)},
		"OwnMemoryOnly": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) { d.Memory = new("2048") }, nil, units(384, 2048)},
		"LimitOnly":     {func(_ *types.TaskDefinition, app *types.ContainerDefinition) { app.MemoryReservation = nil }, nil, units(384, 1152)},
		"GPUs": {func(d *types.TaskDefinition, app *types.ContainerDefinition) {
			gpu := func(n string) []types.ResourceRequirement {
				return []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: &n}}
			}
			app.ResourceRequirements, d.ContainerDefinitions[1].ResourceRequirements = gpu("2"), gpu("1")
		}, nil, cluster.Resources{CPU: 384 * cluster.CPUUnit, Memory: 640, GPUs: 3}},
		"CPUMilli":     {asIs, shape.TagShapes(map[string]string{"berth:cpu-milli": "125"}), cluster.Resources{CPU: 128_000, Memory: 640}},
		"CPUMilliOne":  {asIs, shape.TagShapes(map[string]string{"berth:cpu-milli": "1"}), cluster.Resources{CPU: 1024, Memory: 640}},
		"CPUMilliNone": {asIs, shape.TagShapes(map[string]string{"berth:cpu-milli": "0"}), cluster.Resources{Memory: 640}},
		"CPUMilliBeatsOwnSize": {
			func(d *types.TaskDefinition, _ *types.ContainerDefinition) { d.Cpu = new("1024") },
			shape.TagShapes(map[string]string{"berth:cpu-milli": "333"}), cluster.Resources{CPU: 333 * cluster.MilliVCPU, Memory: 640},
		},
		"GPUMilli": {asIs, shape.TagShapes(map[string]string{"berth:gpu-milli": "999"}), cluster.Resources{CPU: 384_000, Memory: 640, GPUs: 1, GPUMilli: 999}},
		"OtherTag": {asIs, shape.TagShapes(map[string]string{"team": "x"}), units(384, 640)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shape.ParseTaskDefinition(definition(c.change), c.tags)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "needs", got.Needs, c.want)
			same, err := cluster.TaskNeeds(got, nil)
			expect(t, "error", err, nil)
			expect(t, "needs without overrides", same, c.want)
		})
	}
}

func TestTaskDefinitionPorts(t *testing.T) {
	in := func(mode types.NetworkMode, list ...types.PortMapping) func(*types.TaskDefinition, *types.ContainerDefinition) {
		return func(d *types.TaskDefinition, app *types.ContainerDefinition) {
			d.NetworkMode, app.PortMappings = mode, list
		}
	}
	tcp, udp := types.TransportProtocolTcp, types.TransportProtocolUdp
	port := func(n int, p cluster.Protocol) cluster.Port { return cluster.Port{Number: n, Protocol: p} }
	for name, c := range map[string]struct {
		change func(*types.TaskDefinition, *types.ContainerDefinition)
		want   []cluster.Port
	}{
		"Static":      {mappings(mapping(80, 8080, tcp), mapping(53, 53, udp)), []cluster.Port{port(8080, cluster.TCP), port(53, cluster.UDP)}},
		"Dynamic":     {mappings(mapping(80, 0, tcp), types.PortMapping{ContainerPort: new(int32(81))}), nil},
		"SameTwice":   {mappings(mapping(80, 8080, tcp), mapping(81, 8080, "")), []cluster.Port{port(8080, cluster.TCP)}},
		"Bridge":      {in(types.NetworkModeBridge, mapping(80, 8080, tcp)), []cluster.Port{port(8080, cluster.TCP)}},
		"Host":        {in(types.NetworkModeHost, types.PortMapping{ContainerPort: new(int32(80))}), []cluster.Port{port(80, cluster.TCP)}},
		"OwnNetwork":  {in(types.NetworkModeAwsvpc, mapping(80, 80, tcp)), nil},
		"NoNetwork":   {in(types.NetworkModeNone, mapping(80, 80, tcp)), nil},
		"LastOfRange": {mappings(mapping(80, 65535, tcp)), []cluster.Port{port(65535, cluster.TCP)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shape.ParseTaskDefinition(definition(c.change), nil)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "ports", got.Ports, c.want)
		})
	}
}

func TestTaskDefinitionState(t *testing.T) {
	check := &types.HealthCheck{Command: []string{"CMD", "true"}}
	for name, c := range map[string]struct {
		change                  func(*types.TaskDefinition, *types.ContainerDefinition)
		healthChecked, inactive bool
	}{
		"Plain":            {asIs, false, false},
		"EssentialChecked": {func(_ *types.TaskDefinition, app *types.ContainerDefinition) { app.HealthCheck = check }, true, false},
		"EssentialByDefault": {func(_ *types.TaskDefinition, app *types.ContainerDefinition) {
			app.Essential, app.HealthCheck = nil, check
		}, true, false},
		"OtherChecked": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) {
			d.ContainerDefinitions[1].HealthCheck = check
		}, false, false},
		"Inactive": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) {
			d.Status = types.TaskDefinitionStatusInactive
		}, false, true},
		"BeingDeleted": {func(d *types.TaskDefinition, _ *types.ContainerDefinition) {
			d.Status = types.TaskDefinitionStatusDeleteInProgress
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shape.ParseTaskDefinition(definition(c.change), nil)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "health-checked", got.HealthChecked, c.healthChecked)
			expect(t, "inactive", got.Inactive, c.inactive)
		})
	}
}

func TestTaskDefinitionRefuses(t *testing.T) {
	tag := func(key, value string) []types.Tag { return []types.Tag{{Key: &key, Value: &value}} }
	gpu := func(n string) func(*types.TaskDefinition, *types.ContainerDefinition) {
		return func(_ *types.TaskDefinition, app *types.ContainerDefinition) {
			app.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: &n}}
		}
	}
	for name, c := range map[string]struct {
		change func(*types.TaskDefinition, *types.ContainerDefinition)
		tags   []types.Tag
		says   []string
	}{
		"CPUMilliWords":    {asIs, tag("berth:cpu-milli", "half"), []string{"berth:cpu-milli", `"half"`, "0 to 10000000"}},
		"CPUMilliNegative": {asIs, tag("berth:cpu-milli", "-1"), []string{"berth:cpu-milli", `"-1"`}},
		"CPUMilliSigned":   {asIs, tag("berth:cpu-milli", "+1"), []string{`"+1"`}},
		"CPUMilliFraction": {asIs, tag("berth:cpu-milli", "0.5"), []string{`"0.5"`}},
		"CPUMilliHuge":     {asIs, tag("berth:cpu-milli", "9223372036854775807"), []string{"0 to 10000000"}},
		"CPUMilliNoValue":  {asIs, []types.Tag{{Key: new("berth:cpu-milli")}}, []string{"berth:cpu-milli", `""`}},
		"GPUMilliNone":     {asIs, tag("berth:gpu-milli", "0"), []string{"berth:gpu-milli", `"0"`, "1 to 999"}},
		"GPUMilliWhole":    {asIs, tag("berth:gpu-milli", "1000"), []string{"1 to 999"}},
		"GPUMilliAndGPUs":  {gpu("1"), tag("berth:gpu-milli", "500"), []string{"berth:gpu-milli"}},
		"GPUsInWords":      {gpu("two"), nil, []string{"app", `"two"`}},
		"PortTooHigh":      {mappings(mapping(80, 65536, "")), nil, []string{"65536"}},
		"OwnCPUInWords":    {func(d *types.TaskDefinition, _ *types.ContainerDefinition) { d.Cpu = new("much") }, nil, []string{"cpu"}},
		"NegativeCPU":      {func(_ *types.TaskDefinition, app *types.ContainerDefinition) { app.Cpu = -1 }, nil, []string{"app"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shape.ParseTaskDefinition(definition(c.change), c.tags)
			if cluster.ErrorCode(err) != cluster.CodeInvalidParameter {
				t.Fatalf("error %v, want InvalidParameterException", err)
			}
			if got != nil {
				t.Error("a definition came with the error")
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %v does not say %s", err, s)
				}
			}
		})
	}
}
