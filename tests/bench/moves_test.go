package bench

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// governedCluster is a cluster of services with a metric and 20 tasks on each instance. Every tenth
// service also has a node constraint, every twentieth a domain policy.
type governedCluster struct {
	snap   *snapshot.Snapshot
	engine *placement.Engine
	mover  *moves.Planner
	moves  moves.Request
	tasks  []*cluster.Task
}

const perInstance = 20

func newGovernedCluster(instances int) *governedCluster {
	g := &governedCluster{snap: snapshot.NewSnapshot(),
		moves: moves.Request{Owners: map[string]moves.Owner{}, Most: 20}}
	head := cluster.Head{Cluster: "c", Rev: 1}
	for n := range instances {
		g.snap.Put(&cluster.Instance{
			Head: head, ID: fmt.Sprintf("i-%05d", n), Status: cluster.InstanceActive, AgentConnected: true,
			RegisteredAt: cluster.At(time.Unix(1, 0)),
			Registered: cluster.Capacity{CPU: 64 * cluster.VCPU, Memory: 1 << 20,
				Metrics: map[string]int64{"io": 1000}},
			Attributes: map[string]string{"ecs.availability-zone": fmt.Sprint("zone-", n%3),
				"berth.property.Disk": "ssd"},
		})
	}
	services := instances / 10
	for n := range services {
		name := fmt.Sprintf("s%04d", n)
		spec := &placement.Spec{Owner: name, Needs: cluster.Resources{CPU: 1, Memory: 1},
			Loads: []cluster.Metric{{Name: "io", Load: 10}}}
		if n%10 == 0 {
			x, err := constraint.ParseProperties("Disk == ssd")
			if err != nil {
				panic(err)
			}
			spec.Constraints = []*constraint.Expression{x}
		}
		if n%20 == 0 {
			spec.DomainPolicy = cluster.PolicyDifference
		}
		g.snap.Put(&cluster.Service{
			Head:            head,
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec: cluster.ServiceSpec{
				Strategy: cluster.Replica, Desired: 10 * perInstance, Rules: cluster.Rules{Metrics: spec.Loads},
			},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
		})
		g.moves.Owners[name] = moves.Owner{Spec: spec, Target: 10 * perInstance}
	}
	g.engine = placement.New(g.snap)
	g.mover = moves.NewPlanner(g.engine)
	for n := range services {
		name := fmt.Sprintf("s%04d", n)
		m := g.moves.Owners[name]
		for at, p := range g.engine.Place(placement.Request{Spec: m.Spec, Count: m.Target, Target: m.Target}).Placed {
			t := &cluster.Task{
				Head: head,
				TaskSpec: cluster.TaskSpec{
					ID: fmt.Sprintf("t-%04d-%03d", n, at), Owner: name, Service: name,
					Needs: cluster.Resources{CPU: 1, Memory: 1},
				},
				TaskAssignment: cluster.TaskAssignment{Instance: p.Instance, Desired: cluster.TaskRunning},
				TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
			}
			g.snap.Put(t)
			g.tasks = append(g.tasks, t)
		}
	}
	return g
}

// changeOneLoad changes the load of one task a little, as a report does.
func (g *governedCluster) changeOneLoad(n int) {
	at := n * 13 % len(g.tasks)
	t := *g.tasks[at]
	t.Rev++
	t.Reported = map[string]int64{"io": int64(8 + n%3)}
	g.tasks[at] = &t
	g.snap.Put(&t)
}

// BenchmarkMovesPerEvent measures the search for moves after each event, without a broken rule. Its
// cost must not grow with the cluster.
func BenchmarkMovesPerEvent(b *testing.B) {
	for _, instances := range []int{1000, 5000, 15000} {
		g := newGovernedCluster(instances)
		if p := g.mover.PlanMoves(g.moves); len(p.Violations) > 0 {
			b.Fatalf("%d instances: %d rules are broken: %v", instances, len(p.Violations), p.Violations[0])
		}
		b.Run(fmt.Sprintf("sound-%d", instances), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				g.changeOneLoad(n)
				g.mover.PlanMoves(g.moves)
			}
		})
		big := *g.tasks[1]
		big.Rev++
		big.Reported = map[string]int64{"io": 5000}
		g.tasks[1] = &big
		g.snap.Put(&big)
		b.Run(fmt.Sprintf("broken-%d", instances), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				g.changeOneLoad(n + 2)
				if p := g.mover.PlanMoves(g.moves); len(p.Violations) == 0 {
					b.Fatal("nothing is broken")
				}
			}
		})
	}
}
