package placement_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
)

func TestScratchCases(t *testing.T) {
	path := os.Getenv("CASES")
	if path == "" {
		t.Skip()
	}
	raw, _ := os.ReadFile(path)
	var cases []struct {
		ID, Kind string
		Logic    string `json:"domain_logic"`
		Nodes    []struct {
			Name       string
			FD, UD     *string
			Capacities map[string]int64
			Properties map[string]string
			Up         *bool
			Deact      string `json:"deactivated"`
		}
		Service struct {
			Target     int
			Constraint string
			Blocked    []string `json:"blocked_nodes"`
			FDP        string   `json:"fd_policy"`
		}
		Existing []string
		Config   struct {
			FaultDomainConstraintPriority, CapacityConstraintPriority, PlacementConstraintPriority, UpgradeDomainConstraintPriority int
		}
		Replicas []struct {
			Partition  string
			Node       string
			Load       map[string]int64
			Blocked    []string `json:"blocked_nodes"`
			Cost       string   `json:"move_cost"`
			Constraint string
		}
		New []struct {
			Partition string
			Load      map[string]int64
		}
		Expected json.RawMessage
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		var want struct {
			Violation        *bool
			Moves, Min_moves *int
		}
		json.Unmarshal(c.Expected, &want)
		if want.Moves == nil && want.Violation == nil && want.Min_moves == nil {
			continue
		}
		s := cluster.NewSnapshot()
		pr := cluster.Priorities{FaultDomain: cluster.Priority(c.Config.FaultDomainConstraintPriority), Capacity: cluster.Priority(c.Config.CapacityConstraintPriority), Placement: cluster.Priority(c.Config.PlacementConstraintPriority), UpgradeDomain: cluster.Priority(c.Config.UpgradeDomainConstraintPriority)}
		s.Put(&cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1}, Priorities: pr, NoSwitch: c.Logic != "auto",
			QuorumFault: c.Logic == "quorum-fd" || c.Logic == "quorum-both", QuorumUpgrade: c.Logic == "quorum-ud" || c.Logic == "quorum-both"})
		for _, n := range c.Nodes {
			o := []option{cpu(1 << 20)}
			if n.FD != nil {
				o = append(o, attribute(cluster.AttributeFaultDomain, *n.FD))
			}
			if n.UD != nil {
				o = append(o, attribute(cluster.AttributeUpgrade, *n.UD))
			}
			for k, v := range n.Properties {
				o = append(o, attribute("berth.property."+k, v))
			}
			if n.Deact != "" {
				o = append(o, status(cluster.InstanceDraining))
			}
			i := instance(n.Name, o...)
			i.Registered.Metrics = n.Capacities
			s.Put(i)
		}
		owners := map[string]placement.Mover{}
		add := func(owner, constr string, blocked []string, target int, cost string) {
			if _, ok := owners[owner]; ok {
				return
			}
			pol := cluster.PolicyAdaptive
			if c.Service.FDP == "Nonpacking" {
				pol = cluster.PolicyNonpacking
			}
			spec := &placement.Spec{Owner: owner, DomainPolicy: pol, Avoid: blocked, MoveCost: cluster.MoveCost(cost)}
			if constr != "" {
				x, err := constraint.ParseProperties(constr)
				if err != nil {
					t.Fatal(err)
				}
				spec.Constraints = append(spec.Constraints, x)
			}
			owners[owner] = placement.Mover{Spec: spec, Target: target}
		}
		for n, e := range c.Existing {
			add("svc", c.Service.Constraint, c.Service.Blocked, c.Service.Target, "")
			s.Put(task(fmt.Sprintf("r%d", n), e, owner("svc"), needs(cluster.Resources{})))
		}
		for n, r := range c.Replicas {
			add(r.Partition, r.Constraint, r.Blocked, 0, r.Cost)
			x := task(fmt.Sprintf("r%d", n), r.Node, owner(r.Partition), needs(cluster.Resources{}))
			x.Reported = r.Load
			s.Put(x)
		}
		e := placement.New(s)
		var p *placement.Plan
		if len(c.New) > 0 {
			var loads []cluster.Metric
			for k, v := range c.New[0].Load {
				loads = append(loads, cluster.Metric{Name: k, Load: v})
			}
			sp := &placement.Spec{Owner: c.New[0].Partition, DomainPolicy: cluster.PolicyAdaptive, Loads: loads}
			p = e.MakeRoom(placement.Request{Spec: sp, Count: 1}, placement.Moves{Owners: owners})
		} else {
			p = e.PlanMoves(placement.Moves{Owners: owners})
		}
		ok := true
		if want.Violation != nil && *want.Violation != (len(p.Violations) > 0) {
			ok = false
		}
		if want.Min_moves != nil {
			want.Moves = want.Min_moves
		}
		if want.Moves != nil && *want.Moves != len(p.Moves) {
			ok = false
		}
		fmt.Println(ok, c.ID, string(c.Expected))
		if !ok || os.Getenv("V") != "" {
			fmt.Printf("   %+v\n   left %+v exact %v places %v\n", p.Violations, p.Unrepaired, p.Exact, p.Places)
			for _, m := range p.Moves {
				fmt.Printf("   %+v\n", m)
			}
		}
	}
}
