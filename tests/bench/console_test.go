package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"berth/cmd/berth/console"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/placement/rebalance"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/bench/workload"
)

// The cluster that the console's cost is measured on.
const (
	consoleInstances = 5000
	consoleTasksEach = 10
)

// BenchmarkConsole measures what a page costs with 5,000 instances and 50,000 tasks: the time to
// answer a request after a task has changed, and its bytes, as sent and compressed. Idle is what a
// commit pays for the console while no page is open.
func BenchmarkConsole(b *testing.B) {
	store := consoleStore(b)
	source := &console.StoreSource{Store: store, Clock: time.Now,
		CapacityRows: func(context.Context, string) ([]state.Row, error) { return nil, nil },
		Groups:       func(context.Context, []string) ([]*cluster.AutoScalingGroup, error) { return nil, nil }}
	records := make([]state.Record, 100)
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			source.Watch(records)
		}
	})
	snap := snapshot.NewSnapshot()
	for _, r := range consoleRows() {
		snap.Put(r)
	}
	b.Run("plan", func(b *testing.B) { // which a page of rebalancing shows for a while
		used := workload.CPU()
		for b.Loop() {
			if _, err := whatif.PlanBalance(snap, whatif.BalanceSearch{Seed: 1, Now: time.Now(),
				Budget: rebalance.Budget{Steps: 200_000}}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((workload.CPU()-used).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
	store.OnRecords(source.Watch)
	c := console.New(console.Options{Source: source, Cluster: "c"})
	defer c.Close()
	ask := func(path, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w
	}
	begin := time.Now()
	ask("/", "")
	b.Logf("the first page, which loads the cluster: %s", time.Since(begin))
	changed := 0
	for _, path := range []string{"/", "/console/map", "/console/services", "/console/service/s-1", "/console/tasks",
		"/console/instance/n-7", "/console/events", "/console/whatif?count=3&memory=100", "/console/rebalancing",
		"/console/rebalancing?plan=1"} {
		b.Run("page"+path, func(b *testing.B) {
			plain, packed := ask(path, "").Body.Len(), ask(path, "gzip").Body.Len()
			used := workload.CPU()
			for b.Loop() {
				changed++
				t := consoleTask(changed % consoleInstances)
				t.Health = []cluster.Health{cluster.Healthy, cluster.UnknownHealth}[changed/consoleInstances%2]
				if _, err := store.Write(b.Context(), state.Write{Put: t, Any: true}); err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, ask(path, "gzip").Body)
			}
			b.ReportMetric(float64((workload.CPU()-used).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(plain), "bytes")
			b.ReportMetric(float64(packed), "gzip-bytes")
		})
	}
}

// consoleStore has the cluster, with 50 services.
func consoleStore(b *testing.B) *embedded.Store {
	b.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	for _, r := range consoleRows() {
		if _, err := store.Write(b.Context(), state.Write{Put: r, Any: true}); err != nil {
			b.Fatal(err)
		}
	}
	return store
}

func consoleRows() []state.Row {
	head := cluster.Head{Cluster: "c", Rev: 1}
	rows := []state.Row{&state.Entry{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "c"},
		&state.Meta{Head: head, Version: 1, Short: "c"},
		&cluster.TaskDefinition{Head: head, Family: "f", Revision: 1, Needs: cluster.Resources{Memory: 128}}}
	for k := range 50 {
		name := fmt.Sprintf("s-%d", k)
		rows = append(rows, &cluster.Service{Head: head,
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 1001, MaxPercent: 200},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive,
				Deployment: cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/1", TaskDefinition: "f:1"}},
				Blocked: &cluster.Diagnosis{Evaluated: consoleInstances, Unplaced: 1, Rejected: []cluster.Rejection{
					{Filter: cluster.FilterMemory, Count: consoleInstances, Need: 128, Best: 100}}}}})
	}
	for k := range consoleInstances {
		rows = append(rows, &cluster.Instance{Head: head, ID: fmt.Sprintf("n-%d", k),
			EC2InstanceID: fmt.Sprintf("i-%017x", k), Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: 4096 * cluster.CPUUnit, Memory: 1500},
			Attributes: map[string]string{cluster.AttributeZone: fmt.Sprintf("us-east-1%c", 'a'+k%3),
				cluster.AttributeInstanceType: "m5.xlarge"}})
	}
	for k := range consoleInstances * consoleTasksEach {
		rows = append(rows, consoleTask(k))
	}
	return rows
}

func consoleTask(k int) *cluster.Task {
	service := fmt.Sprintf("s-%d", k%50)
	return &cluster.Task{Head: cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec: cluster.TaskSpec{ID: consoleTaskID(k), Owner: service, Service: service, TaskDefinition: "f:1",
			Group: "service:" + service, Needs: cluster.Resources{Memory: 128}},
		TaskAssignment: cluster.TaskAssignment{Instance: fmt.Sprintf("n-%d", k%consoleInstances),
			Desired: cluster.TaskRunning},
		TaskReport: cluster.TaskReport{Last: cluster.TaskRunning}}
}

// consoleTaskID returns an id as Berth makes them: the service's short key, then a digest.
func consoleTaskID(k int) string {
	digest := sha256.Sum256([]byte(strconv.Itoa(k)))
	return fmt.Sprintf("%012x%x", k%50, digest[:10])
}
