package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/tests/bench/workload"
)

// The labels and extended resources that stand for what Kubernetes has no name for.
const (
	labelApp           = "app"
	labelRack          = "berth.test/rack"
	labelDataCentre    = "berth.test/data-centre"
	labelFaultDomain   = "berth.test/fault-domain"
	labelUpgradeDomain = "berth.test/upgrade-domain"
	prefixAttribute    = "berth.test/"
	prefixMetric       = "metrics.berth.test/"
	resourceGPU        = "nvidia.com/gpu"
)

// unlimited is the capacity of a metric where the instance names none.
const unlimited = 1 << 40

// metrics are those that any instance of the workloads has a capacity for.
var metrics = []string{"connections", "iops"}

// node is an instance as Kubernetes has it.
func node(n *workload.Instance) *corev1.Node {
	capacity := size(n.CPU, n.Memory)
	capacity[corev1.ResourcePods] = resource.MustParse("110")
	capacity[resourceGPU] = *resource.NewQuantity(n.GPUs, resource.DecimalSI)
	for _, name := range metrics {
		capacity[corev1.ResourceName(prefixMetric+name)] = *resource.NewQuantity(unlimited, resource.DecimalSI)
	}
	for _, c := range n.Capacities {
		capacity[corev1.ResourceName(prefixMetric+c.Name)] = *resource.NewQuantity(c.Amount, resource.DecimalSI)
	}
	fault := strings.Split(strings.TrimPrefix(n.FaultDomain, "fd:/"), "/")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.ID, Labels: map[string]string{
			corev1.LabelHostname: n.ID, corev1.LabelTopologyZone: n.Zone, labelRack: n.Rack,
			labelDataCentre: fault[0], labelFaultDomain: strings.Join(fault, "-"), labelUpgradeDomain: n.UpgradeDomain,
			prefixAttribute + "disk": n.Disk, prefixAttribute + "generation": n.Generation,
		}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

// size is CPU units and MiB as Kubernetes has them: 1024 units are 1000 millicores.
func size(cpu, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu*1000/1024, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}
}

// pod is a task of the service, without a name.
func pod(s *workload.Service) *corev1.Pod {
	needs := size(s.CPU, s.Memory)
	if s.GPUs > 0 {
		needs[resourceGPU] = *resource.NewQuantity(s.GPUs, resource.DecimalSI)
	}
	for _, l := range s.Loads {
		needs[corev1.ResourceName(prefixMetric+l.Name)] = *resource.NewQuantity(l.Amount, resource.DecimalSI)
	}
	container := corev1.Container{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: needs, Limits: needs}}
	if s.HostPort > 0 {
		port := int32(s.HostPort)
		container.Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Labels: map[string]string{labelApp: s.Name}},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{container},
			Affinity: affinity(s), TopologySpreadConstraints: spread(s),
		},
	}
}

func affinity(s *workload.Service) *corev1.Affinity {
	var out corev1.Affinity
	var terms []corev1.NodeSelectorRequirement
	for _, m := range s.Where {
		terms = append(terms, corev1.NodeSelectorRequirement{Key: prefixAttribute + m.Attribute, Operator: corev1.NodeSelectorOpIn, Values: m.Values})
	}
	if terms != nil {
		out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: terms}},
		}}
	}
	if s.Alone() {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: own(s), TopologyKey: corev1.LabelHostname},
		}}
	}
	return &out
}

// spread is the zone rule, which gives way, or the maximum difference of the domain policy, which does not.
func spread(s *workload.Service) []corev1.TopologySpreadConstraint {
	var out []corev1.TopologySpreadConstraint
	add := func(key string, otherwise corev1.UnsatisfiableConstraintAction) {
		out = append(out, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: otherwise, LabelSelector: own(s)})
	}
	if s.Spread {
		add(corev1.LabelTopologyZone, corev1.ScheduleAnyway)
	}
	if s.Adaptive {
		add(labelDataCentre, corev1.DoNotSchedule)
		add(labelFaultDomain, corev1.DoNotSchedule)
		add(labelUpgradeDomain, corev1.DoNotSchedule)
	}
	return out
}

// own selects the service's own pods.
func own(s *workload.Service) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{labelApp: s.Name}}
}
