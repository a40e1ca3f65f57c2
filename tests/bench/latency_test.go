package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// startWatch is ECS that notes when each StartTask is called.
type startWatch struct {
	handler.ECS
	calls chan time.Time
}

func (s *startWatch) StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error) {
	at := time.Now()
	answer, err := s.ECS.StartTask(ctx, call)
	select {
	case s.calls <- at:
	default:
	}
	return answer, err
}

// BenchmarkReplacement measures the wall time from the moment a machine reports a task STOPPED to
// the StartTask of the replacement: embedded, on disk, with 5,000 instances and 10,000 tasks, one
// task at a time.
func BenchmarkReplacement(b *testing.B) {
	watch := &startWatch{calls: make(chan time.Time, 1)}
	settings := handler.DefaultSettings()
	settings.StartRate, settings.StartBurst = 1e6, 1e6
	i, err := installation.Open(installation.Options{
		Loop: embedded.NewRealLoop(), Data: b.TempDir(), Seed: 1, Settings: &settings,
		Parameters: map[string]string{"BatchWindow": "0"},
		AWS:        sim.Options{MinStart: time.Millisecond, MaxStart: 2 * time.Millisecond},
		WrapECS: func(f string, e handler.ECS) handler.ECS {
			if f != "dispatch" {
				return e
			}
			watch.ECS = e
			return watch
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		<-ended
		if err := i.Close(); err != nil {
			b.Error(err)
		}
	})
	fillCluster(b, ctx, i)
	var took []time.Duration
	truth := i.AWS.Machines.TaskTruths(clusterName)
	b.ResetTimer()
	for n := range b.N {
		select { // a late call from filling the cluster
		case <-watch.calls:
		default:
		}
		at := time.Now()
		if err := i.AWS.Machines.CrashTask(truth[n%len(truth)].ID, 1); err != nil {
			b.Fatal(err)
		}
		select {
		case start := <-watch.calls:
			took = append(took, start.Sub(at))
		case <-time.After(30 * time.Second):
			b.Fatal("no replacement was started within 30 s")
		}
	}
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[min(len(took)-1, int(p*float64(len(took))))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	if b.N < 100 {
		return // too few for a percentile
	}
	fmt.Printf("task stop to StartTask, %d instances, %d tasks: p50 %.1f ms, p99 %.1f ms (target: p99 at most 50)\n",
		burstInstances, burstTasks, at(0.5), at(0.99))
}

// fillCluster makes the cluster and waits until all tasks run.
func fillCluster(b *testing.B, ctx context.Context, i *installation.Installation) {
	if _, err := i.EnsureCluster(ctx, clusterName, burstInstances, ec2.Machine{Type: "m5.large"}); err != nil {
		b.Fatal(err)
	}
	definition := `{"family":"web","containerDefinitions":[{"name":"main","image":"i","cpu":256,"memory":256}]}`
	if status, answer := i.AWS.ECS.Endpoint().ServeOperation(ctx, "RegisterTaskDefinition",
		[]byte(definition)); status != http.StatusOK {
		b.Fatal(string(answer))
	}
	var started error
	if err := i.Loop.Do(ctx, func() { started = i.Start(ctx) }); err != nil || started != nil {
		b.Fatal(err, started)
	}
	desired := 100
	for n := range burstTasks / desired {
		if _, err := i.API.Services.CreateService(ctx, operation.CreateService{
			Cluster: clusterName, Name: fmt.Sprint("s", n), TaskDefinition: "web", Desired: &desired,
		}); err != nil {
			b.Fatal(err)
		}
	}
	for end := time.Now().Add(3 * time.Minute); ; waitABit(b, i) {
		running := 0
		for _, t := range i.AWS.Machines.TaskTruths(clusterName) {
			if t.Last == cluster.TaskRunning {
				running++
			}
		}
		if running == burstTasks {
			break
		}
		if time.Now().After(end) {
			b.Fatalf("%d of %d tasks run after 3 minutes", running, burstTasks)
		}
	}
	for range 10 {
		waitABit(b, i)
	}
}

// waitABit lets the installation work for a while.
func waitABit(b *testing.B, i *installation.Installation) {
	if err := i.Loop.Sleep(context.Background(), 100*time.Millisecond); err != nil {
		b.Fatal(err)
	}
}
