package bench

import (
	"context"
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/managedscaling"
	"berth/shared/state"
)

const scaledProvider = "provider"

// sizedGroup is an Auto Scaling group with all instances of a cluster in service, and CloudWatch.
// Methods that it does not have must not be called for a steady group.
type sizedGroup struct {
	handler.AutoScaling
	group       cluster.AutoScalingGroup
	sizeChanges int // calls for another desired capacity
}

func (g *sizedGroup) DescribeGroups(context.Context, []string) ([]*cluster.AutoScalingGroup, error) {
	return []*cluster.AutoScalingGroup{&g.group}, nil
}

func (g *sizedGroup) SetDesired(context.Context, string,
	int) error {
	g.sizeChanges++
	return nil
}
func (g *sizedGroup) SetInstanceProtection(context.Context, string, []string, bool) error { return nil }
func (g *sizedGroup) PutScalingMetrics(context.Context, []cluster.Datapoint) error        { return nil }
func (g *sizedGroup) PutMetricAlarm(context.Context, cluster.MetricAlarm) error           { return nil }
func (g *sizedGroup) DeletePolicy(context.Context, string, string) error                  { return nil }
func (g *sizedGroup) DeleteAlarms(context.Context, []string) error                        { return nil }

// drainingECS is ECS with the only calls that consolidation makes. They change nothing.
type drainingECS struct {
	handler.ECS
	*sizedGroup
}

func (d drainingECS) DrainInstance(context.Context, string, string) error { return nil }

func (d drainingECS) DescribeInstances(context.Context, string, []string) ([]*cluster.Instance, error) {
	return nil, nil
}

// newScalingMinute returns a minute of managed scaling in a cluster whose instances have two tasks
// each, while further tasks wait.
func newScalingMinute(t testing.TB, instances, waiting int, consolidate bool) func() {
	t.Helper()
	s := newClusterOnInstances(t, 2*instances, instances)
	g := &sizedGroup{group: cluster.AutoScalingGroup{Name: "group", Max: instances, Desired: instances, Protects: true,
		Tags: map[string]string{cluster.ManagedTag: "true"}}}
	p := &cluster.CapacityProvider{Name: scaledProvider, Group: "group", Protection: true,
		Clusters: []string{clusterName}, Scaling: cluster.DefaultScaling}
	p.Scaling.Enabled, p.Scaling.Consolidation.Enabled = true, consolidate
	p.Cluster = state.Directory
	s.putRow(p)
	s.putRow(&state.Entry{Head: cluster.Head{Cluster: state.Directory}, Name: clusterName})
	s.putRow(&cluster.ClusterProviders{Head: cluster.Head{Cluster: clusterName}, Providers: []string{scaledProvider},
		Status: cluster.AttachmentsComplete})
	for i := range instances {
		row := s.newInstance(i)
		row.Attributes[cluster.AttributeProvider] = scaledProvider
		s.putRow(row)
		g.group.Instances = append(g.group.Instances, cluster.GroupInstance{
			ID: row.EC2InstanceID, Type: "m5.large", Zone: row.Zone(), Lifecycle: "InService", Protected: true,
			LaunchedAt: s.now.AddDate(0, 0, -1),
		})
	}
	s.addWaitingTasks(waiting)
	h := &managedscaling.Handler{
		State: s.store, ECS: drainingECS{sizedGroup: g}, Groups: g, Metrics: g, Clock: s,
		Settings: handler.DefaultSettings(),
	}
	return func() {
		if err := h.RunSchedule(context.Background(), "scaling"); err != nil {
			t.Fatal(err)
		}
	}
}

// addWaitingTasks adds n tasks of one service that wait for an instance of the provider.
func (s *warmCluster) addWaitingTasks(n int) {
	if n == 0 {
		return
	}
	const name = "waiting"
	short := cluster.ShortKey(clusterName, name, s.now)
	id := cluster.DeploymentID(short, s.now)
	def := &cluster.TaskDefinition{Head: cluster.Head{Cluster: clusterName}, Family: name, Revision: 1,
		Needs: cluster.Resources{CPU: 2000 * cluster.CPUUnit, Memory: 7000}}
	s.putRow(def)
	s.putRow(&cluster.Service{
		Head:            cluster.Head{Cluster: clusterName},
		ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: short, CreatedAt: s.now},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, Desired: n, MinHealthy: 100, MaxPercent: 200,
			Providers: []cluster.ProviderShare{{Provider: scaledProvider, Weight: 1}},
		},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive,
			Deployment: cluster.Deployment{Revision: cluster.Revision{ID: id, CreatedAt: s.now,
				TaskDefinition: def.Name()}, Desired: n},
		},
	})
	for k := range n {
		s.putRow(&cluster.Task{
			Head: cluster.Head{Cluster: clusterName},
			TaskSpec: cluster.TaskSpec{
				ID: fmt.Sprintf("%s%020x", short, k), Owner: short, Service: name, Group: "service:" + name,
				Revision: id, TaskDefinition: def.Name(), Needs: def.Needs, CreatedAt: cluster.At(s.now),
			},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
		})
	}
}

// scaledMinutes are the clusters in which a minute of managed scaling is measured.
var scaledMinutes = []struct {
	name        string
	waiting     int
	consolidate bool
}{{"Quiet", 0, false}, {"500Waiting", 500, false}, {"Consolidating", 0, true}}

// BenchmarkManagedScaling measures a minute of managed scaling of a group, including the reading of
// its cluster.
func BenchmarkManagedScaling(b *testing.B) {
	for _, n := range []int{1250, 5000} {
		for _, m := range scaledMinutes {
			b.Run(fmt.Sprintf("%dInstances%dTasks/%s", n, 2*n, m.name), func(b *testing.B) {
				minute := newScalingMinute(b, n, m.waiting, m.consolidate)
				b.ReportAllocs()
				for b.Loop() {
					minute()
				}
			})
		}
	}
}

// TestManagedScalingIsLinear counts allocations instead of time: four times the cluster takes about
// four times as many.
func TestManagedScalingIsLinear(t *testing.T) {
	for _, m := range scaledMinutes {
		t.Run(m.name, func(t *testing.T) {
			cost := func(n int) float64 {
				return testing.AllocsPerRun(2, newScalingMinute(t, n, m.waiting*n/5000, m.consolidate))
			}
			small, large := cost(500), cost(2000)
			t.Logf("%.0f allocations at 500 instances, %.0f at 2,000", small, large)
			if large > 5*small {
				t.Errorf("a minute takes %.0f allocations at 500 instances and %.0f at 2,000", small, large)
			}
		})
	}
}
