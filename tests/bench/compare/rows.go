package main

import (
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/tests/bench/workload"
)

const clusterName = "bench"

// began is when everything was created.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rowHead() cluster.Head { return cluster.Head{Cluster: clusterName, Rev: 1} }

func instanceRow(n *workload.Instance) *cluster.Instance {
	out := &cluster.Instance{
		Head: rowHead(), ID: n.ID, EC2InstanceID: "i-" + n.ID[len(n.ID)-17:], Status: cluster.InstanceActive,
		AgentConnected: true,
		AgentVersion:   "1.97.1", Version: 1, RegisteredAt: cluster.At(began),
		Registered: cluster.Capacity{CPU: n.CPU * cluster.CPUUnit, Memory: n.Memory, Metrics: map[string]int64{}},
		Attributes: map[string]string{
			cluster.AttributeZone: n.Zone, cluster.AttributeInstanceType: "m7.xlarge",
			cluster.AttributeFaultDomain: n.FaultDomain,
			cluster.AttributeUpgrade:     n.UpgradeDomain, "rack": n.Rack, "disk": n.Disk, "generation": n.Generation,
		},
	}
	for device := range n.GPUs {
		out.Registered.GPUs = append(out.Registered.GPUs, fmt.Sprintf("GPU-%d", device))
	}
	for _, m := range n.Capacities {
		out.Registered.Metrics[m.Name] = m.Amount
	}
	return out
}

func definitionRow(s *workload.Service) *cluster.TaskDefinition {
	out := &cluster.TaskDefinition{
		Head: rowHead(), Family: s.Name, Revision: 1,
		Needs: cluster.Resources{CPU: s.CPU * cluster.CPUUnit, Memory: s.Memory, GPUs: int(s.GPUs)},
	}
	if s.HostPort > 0 {
		out.Ports = []cluster.Port{{Number: s.HostPort, Protocol: cluster.TCP}}
	}
	return out
}

// serviceRow returns the row of a service with its rules. Without a strategy it has ECS's default
// ones (S2).
func serviceRow(s *workload.Service) *cluster.Service {
	out := &cluster.Service{
		Head: rowHead(),
		ServiceIdentity: cluster.ServiceIdentity{
			Name: s.Name, Short: cluster.ShortKey(clusterName, s.Name, began), CreatedAt: began,
		},
		ServiceSpec: cluster.ServiceSpec{Strategy: cluster.Replica, Desired: s.Replicas},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive,
			Deployment: cluster.Deployment{Revision: cluster.Revision{TaskDefinition: cluster.TaskDefinitionName(s.Name,
				1)}},
		},
	}
	rules := &out.Rules
	if x := s.Expression(); x != "" {
		rules.Constraints = append(rules.Constraints,
			cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: x})
	}
	if s.Distinct {
		rules.Constraints = append(rules.Constraints, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	}
	if s.Adaptive {
		rules.DomainPolicy = cluster.PolicyAdaptive
	}
	if s.Spread {
		rules.Strategies = append(rules.Strategies, cluster.PlacementStrategy{
			Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone})
	}
	if s.Binpack {
		rules.Strategies = append(rules.Strategies, cluster.PlacementStrategy{Type: cluster.StrategyBinpack,
			Field: "MEMORY"})
	}
	for _, l := range s.Loads {
		rules.Metrics = append(rules.Metrics, cluster.Metric{Name: l.Name, Load: l.Amount})
	}
	return out
}

// taskRow returns what the rows of a service's tasks have in common when they are placed.
func taskRow(def *cluster.TaskDefinition, s *cluster.Service) cluster.Task {
	return cluster.Task{
		Head: rowHead(),
		TaskSpec: cluster.TaskSpec{
			Owner: s.Short, Service: s.Name, Group: "service:" + s.Name, Revision: "ecs-svc/" + s.Short,
			TaskDefinition: s.Deployment.TaskDefinition, Needs: def.Needs, Ports: def.Ports,
			CreatedAt: cluster.At(began),
		},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
}
