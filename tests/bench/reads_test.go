package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/state"
)

// How BenchmarkReads reads: what a second for how long, and when a client gives up.
const (
	readTasks   = 50_000
	readRate    = 200
	readSeconds = 20
	readTimeout = 5 * time.Second
)

// readOperations are drawn in turn: a quarter are lists over the whole cluster.
var readOperations = []struct{ op, body string }{
	{"ListTasks", `{"cluster":%q}`},
	{"DescribeServices", `{"cluster":%q,"services":["none"]}`},
	{"ListTasks", `{"cluster":%q,"containerInstance":"i-0042"}`},
	{"ListServices", `{"cluster":%q}`},
	{"ListTasks", `{"cluster":%q,"desiredStatus":"STOPPED"}`},
	{"DescribeTasks", `{"cluster":%q,"tasks":["00000000000000000000000000000000"]}`},
	{"ListTasks", `{"cluster":%q,"family":"rare"}`},
	{"DescribeClusters", `{"clusters":[%q]}`},
}

// BenchmarkReads measures reads of a cluster of 50,000 tasks through the API of `berth up`: p99,
// calls that ended after the client's time-out or in an error, and the most memory that was in use.
func BenchmarkReads(b *testing.B) {
	ctx := context.Background()
	i, err := installation.Open(installation.Options{Data: b.TempDir(), Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer i.Close()
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(running) }()
	defer func() { stop(); <-ended }()
	fillWithTasks(b, i)
	server := httptest.NewServer(i.Server)
	defer server.Close()
	for b.Loop() {
		took, failed, memory := readForAWhile(server)
		p99 := took[len(took)*99/100]
		fmt.Printf("%d reads a second for %d s on %d tasks: p99 %s, %d of %d failed, %d MB in use at most\n", readRate,
			readSeconds, readTasks, p99.Round(time.Millisecond), failed, len(took), memory>>20)
		b.ReportMetric(float64(p99.Milliseconds()), "p99-ms")
		b.ReportMetric(float64(failed), "failed")
		b.ReportMetric(float64(memory>>20), "MB")
	}
}

// fillWithTasks makes the cluster, and writes its tasks as they are stored: 100 for each of 500
// instances, 1 in 1,000 of the family "rare", none of them STOPPED.
func fillWithTasks(b *testing.B, i *installation.Installation) {
	b.Helper()
	ctx := context.Background()
	if err := ensureEmptyCluster(ctx, i); err != nil {
		b.Fatal(err)
	}
	var rows sync.WaitGroup
	at := make(chan int)
	for range 64 {
		rows.Go(func() {
			for n := range at {
				t := &cluster.Task{
					Head: cluster.Head{Cluster: clusterName},
					TaskSpec: cluster.TaskSpec{ID: fmt.Sprintf("%032x", n), Owner: fmt.Sprintf("%012x", n%50),
						TaskDefinition: "web:1"},
					TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning,
						Instance: fmt.Sprintf("i-%04d", n%500)},
					TaskReport: cluster.TaskReport{Last: cluster.TaskRunning, Version: 1},
				}
				if n%1000 == 0 {
					t.TaskDefinition = "rare:1"
				}
				if _, err := i.Store.Write(ctx, state.Write{Put: t, Any: true}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := range readTasks {
		at <- n
	}
	close(at)
	rows.Wait()
}

func ensureEmptyCluster(ctx context.Context, i *installation.Installation) error {
	status, answer := i.AWS.ECS.Endpoint().ServeOperation(ctx, "CreateCluster",
		fmt.Appendf(nil, `{"clusterName":%q}`, clusterName))
	if status != http.StatusOK {
		return fmt.Errorf("creating the cluster: %s", answer)
	}
	return i.API.Clusters.ClusterCreated(ctx, clusterName)
}

// readForAWhile calls at a constant rate, whatever the calls before do, and returns how long the
// calls took, sorted, how many failed, and the most memory in use.
func readForAWhile(server *httptest.Server) (took []time.Duration, failed int, memory uint64) {
	client := server.Client()
	client.Timeout = readTimeout
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = readRate
	var mu sync.Mutex
	var calls sync.WaitGroup
	tick := time.NewTicker(time.Second / readRate)
	defer tick.Stop()
	for n := range readRate * readSeconds {
		<-tick.C
		if n%readRate == 0 {
			memory = max(memory, memoryInUse())
		}
		o := readOperations[n%len(readOperations)]
		if n%4 == 0 {
			o = readOperations[0]
		}
		calls.Go(func() {
			begin := time.Now()
			ok := call(client, server.URL, o.op, fmt.Sprintf(o.body, clusterName))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(begin))
			if !ok {
				failed++
			}
		})
	}
	calls.Wait()
	slices.Sort(took)
	return took, failed, max(memory, memoryInUse())
}

// call reports whether an operation was answered in time and without an error.
func call(client *http.Client, url, op, body string) bool {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+op)
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}

// memoryInUse returns how much memory the process has from the machine.
func memoryInUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
