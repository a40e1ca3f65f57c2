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

// maxReadMemory is the most memory, in bytes, that `berth up` may have in use under any mix of reads.
const maxReadMemory = 1500 << 20

// A readOperation is an operation, and its body for a cluster.
type readOperation struct{ op, body string }

// readOperations are drawn in turn: a quarter are lists over the whole cluster.
var readOperations = []readOperation{
	{"ListTasks", `{"cluster":%q}`},
	{"DescribeServices", `{"cluster":%q,"services":["none"]}`},
	{"ListTasks", `{"cluster":%q,"containerInstance":"i-0042"}`},
	{"ListServices", `{"cluster":%q}`},
	{"ListTasks", `{"cluster":%q}`},
	{"ListTasks", `{"cluster":%q,"desiredStatus":"STOPPED"}`},
	{"DescribeTasks", `{"cluster":%q,"tasks":["00000000000000000000000000000042"]}`},
	{"ListTasks", `{"cluster":%q,"family":"rare"}`},
	{"DescribeClusters", `{"clusters":[%q]}`},
}

// clusterReads each need the whole cluster.
var clusterReads = []readOperation{
	{"ListContainerInstances", `{"cluster":%q,"filter":"task:group == service:web"}`},
}

// BenchmarkReads measures reads of a cluster of 50,000 tasks through the API of `berth up`: p99,
// calls that ended after the client's time-out or in an error, and the most memory that was in use.
// Of the reads that need the whole cluster it makes as many as are answered.
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
		reportReads(b, fmt.Sprintf("%d reads a second", readRate), readForAWhile(server))
		reportReads(b, "32 clients with filters about tasks", readTogether(server, 32, clusterReads))
	}
}

// A readResult is how long calls took, sorted, how many failed, and the most memory in use, in bytes.
type readResult struct {
	took   []time.Duration
	failed int
	memory uint64
}

// reportReads prints a result. It is an error if more memory was in use than may be.
func reportReads(b *testing.B, what string, r readResult) {
	p99 := r.took[len(r.took)*99/100]
	fmt.Printf("%s for %d s on %d tasks: p99 %s, %d of %d failed, %d MB in use at most\n", what, readSeconds, readTasks,
		p99.Round(time.Millisecond), r.failed, len(r.took), r.memory>>20)
	b.ReportMetric(float64(p99.Milliseconds()), "p99-ms")
	b.ReportMetric(float64(r.failed), "failed")
	b.ReportMetric(float64(r.memory>>20), "MB")
	if r.memory > maxReadMemory {
		b.Errorf("%s: %d MB in use, at most %d may be", what, r.memory>>20, maxReadMemory>>20)
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

// readForAWhile calls at a constant rate, and waits for no answer before the next call.
func readForAWhile(server *httptest.Server) (r readResult) {
	client := readClient(server)
	var mu sync.Mutex
	var calls sync.WaitGroup
	tick := time.NewTicker(time.Second / readRate)
	defer tick.Stop()
	for n := range readRate * readSeconds {
		<-tick.C
		if n%readRate == 0 {
			r.memory = max(r.memory, memoryInUse())
		}
		calls.Go(func() { r.add(&mu, client, server.URL, readOperations[n%len(readOperations)]) })
	}
	calls.Wait()
	slices.Sort(r.took)
	r.memory = max(r.memory, memoryInUse())
	return r
}

// readTogether calls from so many clients at once, of which each waits for its answer.
func readTogether(server *httptest.Server, clients int, operations []readOperation) (r readResult) {
	client := readClient(server)
	end := time.After(readSeconds * time.Second)
	ended := make(chan struct{})
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range clients {
		calls.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
					r.add(&mu, client, server.URL, operations[n%len(operations)])
				}
			}
		})
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.memory = max(r.memory, memoryInUse())
			continue
		case <-end:
		}
		break
	}
	close(ended)
	calls.Wait()
	slices.Sort(r.took)
	return r
}

func readClient(server *httptest.Server) *http.Client {
	client := server.Client()
	client.Timeout = readTimeout
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = readRate
	return client
}

// add makes a call, and adds its outcome.
func (r *readResult) add(mu *sync.Mutex, client *http.Client, url string, o readOperation) {
	begin := time.Now()
	ok := call(client, url, o.op, fmt.Sprintf(o.body, clusterName))
	mu.Lock()
	defer mu.Unlock()
	r.took = append(r.took, time.Since(begin))
	if !ok {
		r.failed++
	}
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
