package ec2

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// InstanceType returns what EC2 says of a type; false for one that is not simulated.
func InstanceType(name string) (cluster.InstanceType, bool) {
	m, ok := machines[name]
	return cluster.InstanceType{Name: name, VCPUs: int(m.vcpu), Memory: m.advertised, GPUs: m.gpus,
		Interfaces: m.interfaces, Architecture: Architecture(name)}, ok
}

// The processor architectures that are simulated.
const (
	archARM = "arm64"
	archX86 = "x86_64"
)

// Architecture returns the processor architecture of a type: of the known ones, only those with a
// Graviton processor are arm64.
func Architecture(name string) string {
	if strings.HasPrefix(name, "t4g.") || strings.HasPrefix(name, "m6g.") {
		return archARM
	}
	return archX86
}

// DescribeTypes returns the sizes of the types named.
func (e *Templates) DescribeTypes(_ context.Context, names []string) (out []cluster.InstanceType, err error) {
	err = e.kernel.CallView("DescribeInstanceTypes", strings.Join(names, ","), func(time.Time) error {
		out, err = describeTypes(names)
		return err
	})
	return out, err
}

// describeTypes fails if any of the types does not exist. Without names it describes all.
func describeTypes(names []string) (out []cluster.InstanceType, err error) {
	var unknown []string
	for _, name := range names {
		t, ok := InstanceType(name)
		if !ok {
			unknown = append(unknown, name)
		}
		out = append(out, t)
	}
	if len(unknown) > 0 {
		return nil, cluster.Errorf("InvalidInstanceType",
			"The following supplied instance types do not exist: [%.256s]",
			strings.Join(unknown, ", "))
	}
	if len(names) == 0 {
		return describeTypes(MachineTypes())
	}
	return out, nil
}

// MatchTypes returns the types that an attribute-based selection, as JSON, matches.
func (e *Templates) MatchTypes(_ context.Context, selection string) (names []string, err error) {
	var tree map[string]any
	if err := json.Unmarshal([]byte(selection), &tree); err != nil {
		return nil, cluster.Errorf("InvalidParameterValue", "The instance requirements are no JSON")
	}
	err = e.kernel.CallView("GetInstanceTypesFromInstanceRequirements", "", func(time.Time) error {
		names, err = matchTree(tree)
		return err
	})
	return names, err
}

// matchTree returns the types that a selection matches as launch template data has it, by size.
func matchTree(tree protocol.Tree) ([]string, error) {
	var wanted requirements
	if err := protocol.DecodeTree(tree, &wanted); err != nil {
		return nil, err
	}
	for name := range tree {
		if !slices.Contains(requirementMembers, name) {
			return nil, protocol.UnknownParameter("InstanceRequirements." + name)
		}
	}
	return wanted.match(nil), nil
}

// bounds are inclusive. Without a maximum there is no upper bound.
type bounds struct {
	Min int64
	Max *int64
}

func (b bounds) include(n int64) bool { return n >= b.Min && (b.Max == nil || n <= *b.Max) }

// requirements are the attributes of a selection that are simulated. The lists have a name in
// forms and another one in JSON.
type requirements struct {
	VCpuCount, MemoryMiB, AcceleratorCount      bounds
	AllowedInstanceType, AllowedInstanceTypes   []string
	ExcludedInstanceType, ExcludedInstanceTypes []string
	BurstablePerformance                        string
}

var requirementMembers = []string{"VCpuCount", "MemoryMiB", "AcceleratorCount", "AllowedInstanceType",
	"AllowedInstanceTypes", "ExcludedInstanceType", "ExcludedInstanceTypes", "BurstablePerformance"}

// match returns the types that have the attributes and one of the architectures, the smallest
// first. Burstable types match only if they are asked for, as on EC2. No architecture is any.
func (r *requirements) match(architectures []string) (names []string) {
	allowed := slices.Concat(r.AllowedInstanceType, r.AllowedInstanceTypes)
	excluded := slices.Concat(r.ExcludedInstanceType, r.ExcludedInstanceTypes)
	for _, name := range MachineTypes() {
		m, isBurstable := machines[name], strings.HasPrefix(name, "t")
		switch {
		case !r.VCpuCount.include(m.vcpu) || !r.MemoryMiB.include(m.advertised) ||
			!r.AcceleratorCount.include(int64(m.gpus)):
		case len(allowed) > 0 && !slices.Contains(allowed, name) || slices.Contains(excluded, name):
		case isBurstable && !slices.Contains([]string{"included", "required"}, r.BurstablePerformance):
		case !isBurstable && r.BurstablePerformance == "required":
		case len(architectures) > 0 && !slices.Contains(architectures, Architecture(name)):
		default:
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(machines[a].vcpu, machines[b].vcpu),
			cmp.Compare(machines[a].advertised, machines[b].advertised))
	})
	return names
}

// SelectType returns the type that a launch template's attribute-based selection launches: the
// smallest that matches. It is empty if the template has no selection.
func (d Data) SelectType() (string, error) {
	tree, ok := d["InstanceRequirements"].(map[string]any)
	if !ok {
		return "", nil
	}
	names, err := matchTree(tree)
	if err == nil && len(names) == 0 {
		err = cluster.Errorf("InvalidParameterValue", "No instance type has the attributes of the launch template")
	}
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// The answers.
type (
	xmlGPU struct {
		Manufacturer string `xml:"manufacturer"`
		Count        int    `xml:"count"`
	}
	xmlInstanceType struct {
		Name         string   `xml:"instanceType"`
		VCPUs        int      `xml:"vCpuInfo>defaultVCpus"`
		Memory       int64    `xml:"memoryInfo>sizeInMiB"`
		Architecture []string `xml:"processorInfo>supportedArchitectures>item"`
		Interfaces   int      `xml:"networkInfo>maximumNetworkInterfaces"`
		GPUs         []xmlGPU `xml:"gpuInfo>gpus>item,omitempty"`
	}
)

// describeInstanceTypes answers with the types asked for, or with all.
func (a *api) describeInstanceTypes(_ context.Context, in *struct {
	InstanceType []string
	MaxResults   int `default:"100"`
	NextToken    string
}) (any, error) {
	if len(in.InstanceType) > 100 {
		return nil, cluster.Errorf("InvalidParameterValue", "The maximum number of instance types is 100")
	}
	var found []cluster.InstanceType
	err := a.kernel.CallView("DescribeInstanceTypes", strings.Join(in.InstanceType, ","), func(time.Time) (err error) {
		found, err = describeTypes(in.InstanceType)
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []xmlInstanceType
	for _, t := range found {
		x := xmlInstanceType{Name: t.Name, VCPUs: t.VCPUs, Memory: t.Memory, Architecture: []string{t.Architecture},
			Interfaces: t.Interfaces}
		if t.GPUs > 0 {
			x.GPUs = []xmlGPU{{"NVIDIA", t.GPUs}}
		}
		all = append(all, x)
	}
	var out struct {
		Types []xmlInstanceType `xml:"instanceTypeSet>item"`
		Next  string            `xml:"nextToken,omitempty"`
	}
	out.Types, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 100)
	return out, err
}

// getInstanceTypesFromInstanceRequirements refuses attributes that are not simulated.
func (a *api) getInstanceTypesFromInstanceRequirements(_ context.Context, in *struct {
	ArchitectureType, VirtualizationType []string
	InstanceRequirements                 *requirements `protocol:"strict"`
	MaxResults                           int           `default:"1000"`
	NextToken                            string
}) (any, error) {
	type item struct {
		Name string `xml:"instanceType"`
	}
	if in.InstanceRequirements == nil {
		return nil, cluster.Errorf("MissingParameter",
			"The request must contain the parameter InstanceRequirements")
	}
	var all []item
	err := a.kernel.CallView("GetInstanceTypesFromInstanceRequirements", "", func(time.Time) error {
		for _, name := range in.InstanceRequirements.match(in.ArchitectureType) {
			all = append(all, item{name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out struct {
		Types []item `xml:"instanceTypeSet>item"`
		Next  string `xml:"nextToken,omitempty"`
	}
	out.Types, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxResults, 1000)
	return out, err
}
