package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/placement"
	"berth/shared/state"
)

// The sizes of services and instances in the clusters that events are measured in.
const (
	tasksPerService  = 50
	tasksPerInstance = 10
)

// warmCluster is a steady cluster of RUNNING tasks, with a placement environment whose snapshot is
// warm.
type warmCluster struct {
	t         testing.TB
	store     *embedded.Store
	placement *placement.Handler
	now       time.Time
	records   []state.Record
	live      []*cluster.Task
	next      int
	cpu       int64 // of an instance, in units
}

func (s *warmCluster) Now() time.Time                                    { return s.now }
func (s *warmCluster) Sleep(context.Context, time.Duration) error        { return nil }
func (s *warmCluster) Send(context.Context, []byte, time.Duration) error { return nil }

func newWarmCluster(t testing.TB, n int) *warmCluster {
	t.Helper()
	s := newClusterOnInstances(t, n, n/tasksPerInstance)
	s.replaceOneTask() // reads the cluster
	return s
}

// newClusterOnInstances makes a cluster of n RUNNING tasks whose instances have room for as many
// again.
func newClusterOnInstances(t testing.TB, n, instances int) *warmCluster {
	t.Helper()
	return newClusterOfSize(t, n, instances, 2048)
}

// newClusterWithBlockedServices makes a full cluster of n RUNNING tasks, in which half as many
// services again wait for room.
func newClusterWithBlockedServices(t testing.TB, n int) *warmCluster {
	t.Helper()
	s := newClusterOfSize(t, n, n/tasksPerInstance, 100*tasksPerInstance)
	for i := range n / tasksPerService / 2 {
		name := fmt.Sprintf("waiting-%04d", i)
		short := cluster.ShortKey(clusterName, name, s.now)
		s.putRow(&cluster.Service{
			Head:            cluster.Head{Cluster: clusterName},
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: short, CreatedAt: s.now},
			ServiceSpec: cluster.ServiceSpec{
				Strategy: cluster.Replica, Desired: 1, MinHealthy: 100, MaxPercent: 200,
			},
			ServiceStatus: cluster.ServiceStatus{
				Status: cluster.ServiceActive, Blocked: &cluster.Diagnosis{Evaluated: 1, Unplaced: 1},
				Deployment: cluster.Deployment{
					Revision: cluster.Revision{ID: cluster.DeploymentID(short, s.now), CreatedAt: s.now,
						TaskDefinition: "web:1"}, State: cluster.RolloutInProgress, Desired: 1,
				},
			},
		})
	}
	s.replaceOneTask()
	return s
}

func newClusterOfSize(t testing.TB, n, instances int, cpu int64) *warmCluster {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := &warmCluster{t: t, store: store, cpu: cpu, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.placement = &placement.Handler{State: store, Clock: s, Wake: s, Settings: handler.DefaultSettings(),
		Environment: "bench"}
	s.putRow(&state.Meta{Head: cluster.Head{Cluster: clusterName}, Version: 1, CreatedAt: s.now,
		Short: cluster.ShortKey(clusterName, "", s.now)})
	def := &cluster.TaskDefinition{
		Head: cluster.Head{Cluster: clusterName}, Family: "web", Revision: 1,
		Needs: cluster.Resources{CPU: 100 * cluster.CPUUnit, Memory: 256}, Containers: []string{"app"},
	}
	s.putRow(def)
	for i := range instances {
		s.putRow(s.newInstance(i))
	}
	for i := range n / tasksPerService {
		s.addService(i, instances, def)
	}
	store.OnRecords(func(records []state.Record) { s.records = append(s.records, records...) })
	return s
}

func (s *warmCluster) putRow(row state.Row) {
	if _, err := s.store.Write(context.Background(), state.Write{Put: row, Any: true}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *warmCluster) newInstance(i int) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: clusterName}, ID: fmt.Sprintf("%032x", i), EC2InstanceID: fmt.Sprintf("i-%017x", i),
		Status:         cluster.InstanceActive,
		AgentConnected: true, Version: 1, RegisteredAt: cluster.At(s.now),
		Registered: cluster.Capacity{CPU: s.cpu * cluster.CPUUnit, Memory: 8192},
		Attributes: map[string]string{cluster.AttributeZone: fmt.Sprint("zone-", i%3)},
	}
}

func (s *warmCluster) addService(i, instances int, def *cluster.TaskDefinition) {
	name := fmt.Sprintf("service-%04d", i)
	short := cluster.ShortKey(clusterName, name, s.now)
	id := cluster.DeploymentID(short, s.now)
	s.putRow(&cluster.Service{
		Head:            cluster.Head{Cluster: clusterName},
		ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: short, CreatedAt: s.now},
		ServiceSpec: cluster.ServiceSpec{
			Strategy: cluster.Replica, Desired: tasksPerService, MinHealthy: 100, MaxPercent: 200,
			ZoneRebalancing: true,
		},
		ServiceStatus: cluster.ServiceStatus{
			Status: cluster.ServiceActive, Steady: true, Running: tasksPerService,
			Deployment: cluster.Deployment{
				Revision: cluster.Revision{ID: id, CreatedAt: s.now, TaskDefinition: def.Name()},
				State:    cluster.RolloutCompleted,
				Desired:  tasksPerService, Running: tasksPerService, Healthy: tasksPerService,
			},
		},
	})
	for k := range tasksPerService {
		at := (i*tasksPerService + k) % instances
		task := &cluster.Task{
			Head: cluster.Head{Cluster: clusterName},
			TaskSpec: cluster.TaskSpec{
				ID: fmt.Sprintf("%s%020x", short, k), Owner: short, Service: name, Group: "service:" + name,
				Revision: id, TaskDefinition: def.Name(), Needs: def.Needs, CreatedAt: cluster.At(s.now),
			},
			TaskAssignment: cluster.TaskAssignment{
				Instance: fmt.Sprintf("%032x", at), Batch: cluster.StartedBy(short, 1, k),
				Desired: cluster.TaskRunning,
			},
			TaskReport: cluster.TaskReport{
				Last: cluster.TaskRunning, Version: 1, ECSID: fmt.Sprintf("%016x%016x", i, k),
				Started: cluster.At(s.now),
			},
		}
		s.putRow(task)
		s.live = append(s.live, task)
	}
}

// replaceOneTask lets a task end, placement decide, the replacement start, and placement decide
// once more.
func (s *warmCluster) replaceOneTask() {
	s.now = s.now.Add(time.Minute)
	t := s.live[s.next%len(s.live)]
	s.observeTask(t, state.Observation{Version: 2, ECSID: t.ECSID, Last: cluster.TaskStopped, Stopped: s.now,
		Expires: s.now.Unix() + 3600})
	var began *cluster.Task
	for _, r := range s.records {
		if next, ok := r.New.(*cluster.Task); ok && r.Op == state.Insert {
			began = next
		}
	}
	if began == nil {
		s.t.Fatal("a task that ended was not replaced")
	}
	s.live[s.next%len(s.live)] = began
	s.next += 7919
	s.observeTask(began, state.Observation{Version: 1, ECSID: fmt.Sprintf("%032x", s.next), Last: cluster.TaskRunning,
		Started: s.now})
}

// observeTask reports on a task and lets placement decide what follows.
func (s *warmCluster) observeTask(t *cluster.Task, o state.Observation) {
	o.Task, s.records = state.KeyOf(t), nil
	if _, err := s.store.Write(context.Background(), state.Write{Observe: &o}); err != nil {
		s.t.Fatal(err)
	}
	records := s.records
	if from, err := s.placement.HandleRecords(context.Background(), records); err != nil || from != "" {
		s.t.Fatal(from, err)
	}
}

// sizes are the numbers of tasks for which the cost of an event is measured.
var sizes = []int{1000, 10_000, 50_000}

// BenchmarkEvent shows that one task's stop costs no more than a reconciliation of its service: the
// same in a cluster of 1,000 tasks and of 50,000, even if other services wait for room. It reports
// the ratio to the smallest cluster.
func BenchmarkEvent(b *testing.B) {
	for kind, settle := range map[string]func(testing.TB, int) *warmCluster{"Roomy": newWarmCluster,
		"Crowded": newClusterWithBlockedServices} {
		var smallest float64
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/%dTasks%dServices%dInstances", kind, n, n/tasksPerService, n/tasksPerInstance),
				func(b *testing.B) {
					s := settle(b, n)
					b.ReportAllocs()
					for b.Loop() {
						s.replaceOneTask()
					}
					each := float64(b.Elapsed()) / float64(b.N)
					if n == sizes[0] {
						smallest = each
					}
					b.ReportMetric(each/smallest, "x-of-smallest")
				})
		}
	}
}

// TestEventCostsItsServiceOnly counts allocations instead of time: they grow with everything that
// is looked at again.
func TestEventCostsItsServiceOnly(t *testing.T) {
	for kind, settle := range map[string]func(testing.TB, int) *warmCluster{"Roomy": newWarmCluster,
		"Crowded": newClusterWithBlockedServices} {
		t.Run(kind, func(t *testing.T) {
			cost := func(n int) float64 {
				s := settle(t, n)
				for range 50 {
					s.replaceOneTask()
				}
				return testing.AllocsPerRun(100, s.replaceOneTask)
			}
			small, large := cost(sizes[0]), cost(sizes[2])
			t.Logf("%.0f allocations at %d tasks, %.0f at %d", small, sizes[0], large, sizes[2])
			if large > 2*small {
				t.Errorf("an event takes %.0f allocations at %d tasks and %.0f at %d", small, sizes[0], large, sizes[2])
			}
		})
	}
}
