package snapshot_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A cluster of the size that Berth is made for: 15,000 instances, 300,000 tasks of 1,000 services.
const (
	manyInstances = 15_000
	manyTasks     = 300_000
	manyServices  = 1_000
	budget        = 200e6 // bytes of heap, the rows themselves included
)

// raced is set if the race detector is on.
var raced bool

var began = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

// own copies s, because decoding allocates every string of every row.
func own[S ~string](s S) S { return S(strings.Clone(string(s))) }

func hexID(n int, digits int) string {
	sum := sha256.Sum256(fmt.Append(nil, n))
	return hex.EncodeToString(sum[:(digits+1)/2])[:digits]
}

// largeRows are rows as if decoded, each kind in the order in which stores list it.
func largeRows() []state.Row {
	rows := make([]state.Row, 0, manyInstances+manyTasks+manyServices)
	instances := make([]string, manyInstances)
	for n := range instances {
		instances[n] = hexID(n, 32)
		rows = append(rows, largeInstance(n, instances[n]))
	}
	for n := range manyServices {
		rows = append(rows, largeService(n))
	}
	for n := range manyServices {
		ids := make([]string, manyTasks/manyServices)
		for i := range ids {
			ids[i] = hexID(n*len(ids)+i, 20)
		}
		slices.Sort(ids)
		like := largeTask(n)
		for i, id := range ids {
			t := decoded(like)
			t.ID, t.ECSID = t.Owner+id, hexID(-n*len(ids)-i, 32)
			t.Instance = own(instances[(n*len(ids)+i)%len(instances)])
			t.Batch = cluster.StartedBy(t.Owner, 123456, i%3)
			rows = append(rows, t)
		}
	}
	return rows
}

func largeInstance(n int, id string) *cluster.Instance {
	attributes := map[string]string{
		own(cluster.AttributeZone):         fmt.Sprintf("eu-west-1%c", 'a'+n%3),
		own(cluster.AttributeInstanceType): own("m7i.4xlarge"),
		own("ecs.ami-id"):                  own("ami-0123456789abcdef0"), own("ecs.os-type"): own("linux"),
		own("ecs.cpu-architecture"): own("x86_64"),
		own("ecs.vpc-id"):           own("vpc-0123456789abcdef0"), own("ecs.subnet-id"): fmt.Sprintf("subnet-%d", n%3),
		own(cluster.AttributeFaultDomain): fmt.Sprintf("fd:/dc%d/rack%02d", n%3, n%40),
		own(cluster.AttributeUpgrade):     fmt.Sprintf("ud%d", n%10),
	}
	for c := range 20 {
		attributes[fmt.Sprintf("ecs.capability.docker-remote-api.1.%d", c)] = ""
	}
	ports := make([]cluster.Port, 0, 5)
	for _, p := range []int{22, 2375, 2376, 51678, 51679} {
		ports = append(ports, cluster.Port{Number: p, Protocol: own(cluster.TCP)})
	}
	return &cluster.Instance{
		Head: cluster.Head{Cluster: own("production"), Rev: 3}, ID: own(id), EC2InstanceID: "i-" + hexID(n, 17),
		Status: own(cluster.InstanceActive), AgentConnected: true, AgentVersion: own("1.97.1"), Version: 12,
		RegisteredAt: cluster.At(began), Registered: cluster.Capacity{CPU: 16 * cluster.VCPU, Memory: 65536,
			Ports: ports},
		Attributes: attributes,
	}
}

func largeService(n int) *cluster.Service {
	t := decoded(largeTask(n))
	return &cluster.Service{
		Head:            t.Head,
		ServiceIdentity: cluster.ServiceIdentity{Name: t.Service, Short: t.Owner, CreatedAt: began},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 300},
		ServiceStatus: cluster.ServiceStatus{
			Status:     cluster.ServiceActive,
			Deployment: cluster.Deployment{Revision: cluster.Revision{TaskDefinition: t.TaskDefinition}},
		},
	}
}

// largeTask has what the tasks of the n-th service have in common. Each tenth service has a port.
func largeTask(n int) *cluster.Task {
	name := fmt.Sprintf("service-%04d", n)
	t := &cluster.Task{
		Head: cluster.Head{Cluster: "production", Rev: 4},
		TaskSpec: cluster.TaskSpec{
			Owner: hexID(-n-1, 12), Service: name, Group: "service:" + name,
			Revision: fmt.Sprintf("ecs-svc/%019d", n), TaskDefinition: name + ":12",
			Needs: cluster.Resources{CPU: cluster.VCPU / 2, Memory: 1024}, CreatedAt: cluster.At(began),
		},
		TaskAssignment: cluster.TaskAssignment{
			Desired: cluster.TaskRunning, ClaimedAt: cluster.At(began),
		},
		TaskReport: cluster.TaskReport{
			Last: cluster.TaskRunning, Version: 3, Attempt: 1, Health: cluster.Healthy,
			Started: cluster.At(began.Add(time.Minute)),
		},
	}
	if n%10 == 0 {
		t.Ports = []cluster.Port{{Number: 8000 + n, Protocol: cluster.TCP}}
	}
	return t
}

// decoded copies t so that the copy shares no memory with it.
func decoded(t *cluster.Task) *cluster.Task {
	next := *t
	next.Cluster, next.Owner, next.Service, next.Group = own(t.Cluster), own(t.Owner), own(t.Service), own(t.Group)
	next.Revision, next.TaskDefinition = own(t.Revision), own(t.TaskDefinition)
	next.Desired, next.Last = own(t.Desired), own(t.Last)
	next.Ports = slices.Clone(t.Ports)
	for i, p := range next.Ports {
		next.Ports[i].Protocol = own(p.Protocol)
	}
	return &next
}

func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one only swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// Decoded rows need more than the budget. The snapshot makes them share memory.
func TestSnapshotOfALargeClusterFitsItsBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector makes everything larger")
	}
	before := heap()
	rows := largeRows()
	raw := heap() - before
	s := snapshot.NewSnapshot()
	for i, r := range rows {
		s.Put(r)
		rows[i] = nil
	}
	rows = nil
	used := heap() - before
	t.Logf("%.1f MB, as decoded %.1f MB; %.0f bytes a task", used/1e6, raw/1e6, used/float64(s.TaskCount()))
	if used > budget {
		t.Errorf("the snapshot of %d instances and %d tasks takes %.1f MB, the budget is %.1f", len(s.Instances),
			s.TaskCount(), used/1e6, budget/1e6)
	}
	runtime.KeepAlive(s)
}

func BenchmarkSnapshotBuild(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		rows := largeRows()
		runtime.GC()
		b.StartTimer()
		s := snapshot.NewSnapshot()
		for _, r := range rows {
			s.Put(r)
		}
	}
}
