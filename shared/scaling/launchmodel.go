package scaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// What an instance registers with ECS of its type's memory: never more than this share, because the
// kernel keeps at least the rest. ECS's documentation has 7,985 MiB for an m4.large with 8,192. The
// agent itself keeps nothing unless ECS_RESERVED_MEMORY is set.
const mostRegisteredPerMille = 985

// agentPorts are the TCP ports that ECS's agent reserves on every instance.
var agentPorts = []int{22, 2375, 2376, 51678, 51679}

// attributeTrunk is the attribute of instances whose tasks get their network interfaces from a
// trunk (account setting awsvpcTrunking).
const attributeTrunk = "ecs.awsvpc-trunk-id"

const attributeArchitecture = "ecs.cpu-architecture"

// How long the types of a group are used before they are read again. A version of a launch template
// never changes, unlike $Latest and $Default.
const (
	launchTypesLifetime       = 10 * time.Minute
	pinnedLaunchTypesLifetime = 24 * time.Hour
)

// AreLaunchTypesDue reports whether what the group launches must be read (again).
func AreLaunchTypesDue(g *cluster.AutoScalingGroup, known cluster.LaunchTypes, now time.Time) bool {
	lifetime := launchTypesLifetime
	if isPinned(g.Template) && len(known.Types) > 0 {
		lifetime = pinnedLaunchTypesLifetime
	}
	return known.Source != g.LaunchSource() || cluster.RemainingWait(known.ReadAt.Add(lifetime), now, lifetime) == 0
}

// isPinned reports whether a launch template version, ID:VERSION, is a number.
func isPinned(template string) bool { return template != "" && !strings.Contains(template, ":$") }

// ExtremeTypes returns those types that have the least or the most of a parameter. For the first
// and the last step of C2 they stand for all.
func ExtremeTypes(types []cluster.InstanceType) (extremes []cluster.InstanceType) {
	if len(types) == 0 {
		return nil
	}
	parameters := []func(a, b cluster.InstanceType) int{
		func(a, b cluster.InstanceType) int { return a.VCPUs - b.VCPUs },
		func(a, b cluster.InstanceType) int { return int(a.Memory - b.Memory) },
		func(a, b cluster.InstanceType) int { return a.GPUs - b.GPUs },
		func(a, b cluster.InstanceType) int { return a.Interfaces - b.Interfaces },
	}
	found := map[string]cluster.InstanceType{}
	for _, compare := range parameters {
		least, most := slices.MinFunc(types, compare), slices.MaxFunc(types, compare)
		found[least.Name], found[most.Name] = least, most
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		extremes = append(extremes, found[name])
	}
	return extremes
}

// registeredSize returns the most that an instance of the type registers. Without a trunk a task
// may have any network interface but the instance's own. How many a trunk adds EC2 does not say.
func registeredSize(t cluster.InstanceType, hasTrunk bool) cluster.Capacity {
	size := cluster.Capacity{
		CPU: int64(t.VCPUs) * cluster.VCPU, Memory: t.Memory * mostRegisteredPerMille / 1000,
	}
	for n := range t.GPUs {
		size.GPUs = append(size.GPUs, fmt.Sprintf("GPU-%d", n))
	}
	for _, port := range agentPorts {
		size.Ports = append(size.Ports, cluster.Port{Number: port, Protocol: cluster.TCP})
	}
	if t.Interfaces > 0 && !hasTrunk {
		size.ENIs = new(t.Interfaces - 1)
	}
	return size
}

// launchModel is what the group's next instances are like: one sample for each kind.
type launchModel struct {
	samples []cluster.InstanceSample
	// sizesOnly reports that no instance has registered yet. Then only the size of the types is
	// known, and attributes and constraints of tasks are left for later.
	sizesOnly bool
}

// newLaunchModel combines what the group's instances registered with the types that it launches.
//
// A type that has registered is as it registered. Another one is like the first sample, with the
// size of its type. Samples of types that the group launches no longer do not count. Where a group
// selects types by attributes, often hundreds match, and the largest of them says little: there the
// types count only until an instance has registered.
func newLaunchModel(v *view, samples []cluster.InstanceSample) launchModel {
	launches := v.History.Launches
	if len(launches.Types) == 0 || launches.Source != v.Group.LaunchSource() ||
		launches.ByAttributes && len(samples) > 0 {
		return launchModel{samples: samples}
	}
	if len(samples) == 0 {
		return launchModel{samples: samplesOfTypes(launches.Types, v.Provider.Name), sizesOnly: true}
	}
	var model launchModel
	registered := map[string]bool{}
	for _, s := range samples {
		name := s.Attributes[cluster.AttributeInstanceType]
		isLaunched := func(t cluster.InstanceType) bool { return t.Name == name }
		if registered[name] = true; name == "" || slices.ContainsFunc(launches.Types, isLaunched) {
			model.samples = append(model.samples, s)
		}
	}
	for _, t := range launches.Types {
		if !registered[t.Name] {
			model.samples = append(model.samples, sampleLike(samples[0], t))
		}
	}
	return model
}

// samplesOfTypes returns a sample for each type, of which nothing but the size is known.
func samplesOfTypes(types []cluster.InstanceType, provider string) (samples []cluster.InstanceSample) {
	for _, t := range types {
		samples = append(samples, cluster.InstanceSample{Registered: registeredSize(t, false),
			Attributes: map[string]string{cluster.AttributeInstanceType: t.Name, cluster.AttributeProvider: provider}})
	}
	return samples
}

// sampleLike returns a sample that differs from another one by its type.
func sampleLike(s cluster.InstanceSample, t cluster.InstanceType) cluster.InstanceSample {
	_, hasTrunk := s.Attributes[attributeTrunk]
	metrics := s.Registered.Metrics
	s.Registered = registeredSize(t, hasTrunk)
	s.Registered.Metrics = metrics
	s.Attributes = maps.Clone(s.Attributes)
	s.Attributes[cluster.AttributeInstanceType] = t.Name
	if _, ok := s.Attributes[attributeArchitecture]; ok && t.Architecture != "" {
		s.Attributes[attributeArchitecture] = t.Architecture
	}
	return s
}

// typeWith returns the type with the least of what a filter counts, or with the most; empty if the
// filter counts nothing that types differ in.
func (m launchModel) typeWith(filter cluster.Filter, most bool) string {
	var amount func(cluster.Capacity) int64
	switch filter {
	case cluster.FilterCPU:
		amount = func(c cluster.Capacity) int64 { return c.CPU }
	case cluster.FilterMemory:
		amount = func(c cluster.Capacity) int64 { return c.Memory }
	case cluster.FilterGPU:
		amount = func(c cluster.Capacity) int64 { return int64(len(c.GPUs)) }
	default:
		return ""
	}
	compare := func(a, b cluster.InstanceSample) int {
		return int(amount(a.Registered) - amount(b.Registered))
	}
	found := slices.MinFunc(m.samples, compare)
	if most {
		found = slices.MaxFunc(m.samples, compare)
	}
	return found.Attributes[cluster.AttributeInstanceType]
}

// knownNeeds returns the part of a spec that the model can answer.
func (m launchModel) knownNeeds(s *placement.Spec) *placement.Spec {
	if !m.sizesOnly {
		return s
	}
	known := *s
	known.Attributes, known.Constraints = nil, nil
	return &known
}

// describeTooLarge says why one task does not fit on the smallest size, and on which type.
func (m launchModel) describeTooLarge(
	one placement.Request, why *cluster.Diagnosis, largest *sampleCluster,
) string {
	text, most := "a task does not fit even on an empty instance of the group's smallest type", false
	if fits, whyLargest := largest.capacityFor(one); fits == 0 {
		text, why, most = "a task does not fit on any of the group's instance types, not even the largest", whyLargest,
			true
	}
	if why == nil {
		return text
	}
	if name := m.typeWith(why.Rejected[0].Filter, most); name != "" {
		text += ", " + name
	}
	return text + ": " + describeRejection(why)
}
