package installation_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/sim/ec2"
)

// 64 clients scale the 50 services of a cluster up and down, each as fast as it is answered. All of
// these calls move the same placement version. No call fails, and a new service has its task within
// five seconds while they go on.
func TestManyClientsChangeOneCluster(t *testing.T) {
	const clusterName, clients, services = "prod", 64, 50
	const lasts, within = 3 * time.Second, 5 * time.Second // the load at least, the start of the new service
	i, err := installation.Open(installation.Options{Data: t.TempDir(), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Loop.Run(ctx) }()
	defer func() { stop(); <-ended; _ = i.Close() }()
	if _, err := i.EnsureCluster(ctx, clusterName, 20, ec2.Machine{Type: "m5.4xlarge"}); err != nil {
		t.Fatal(err)
	}
	send := func(op, format string, args ...any) (int, string) {
		return call(t, i, http.MethodPost, "/", op, fmt.Sprintf(format, args...))
	}
	mustAnswer := func(op, format string, args ...any) {
		t.Helper()
		if status, answer := send(op, format, args...); status != http.StatusOK {
			t.Fatalf("%s: %d %s", op, status, answer)
		}
	}
	mustAnswer("RegisterTaskDefinition",
		`{"family":"web","containerDefinitions":[{"name":"main","image":"i","cpu":64,"memory":64}]}`)
	if err := i.Loop.Do(ctx, func() { err = i.Start(ctx) }); err != nil {
		t.Fatal(err)
	}
	for n := range services {
		mustAnswer("CreateService", `{"cluster":%q,"serviceName":"s%d","taskDefinition":"web","desiredCount":1}`,
			clusterName, n)
	}
	var calls, failed atomic.Int64
	var all sync.WaitGroup
	var loopsEnd atomic.Bool
	for c := range clients {
		all.Go(func() {
			for n := c; !loopsEnd.Load(); n++ {
				calls.Add(1)
				if status, answer := send("UpdateService", `{"cluster":%q,"service":"s%d","desiredCount":%d}`,
					clusterName,
					n%services, n%3); status != http.StatusOK && !strings.Contains(answer, "ThrottlingException") &&
					failed.Add(1) == 1 {
					t.Errorf("UpdateService: %d %s", status, answer)
				}
			}
		})
	}
	begin := time.Now()
	mustAnswer("CreateService", `{"cluster":%q,"serviceName":"new","taskDefinition":"web","desiredCount":1}`,
		clusterName)
	answered := time.Since(begin)
	placed := time.Duration(0)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for ; placed == 0 && time.Since(begin) < 6*within || time.Since(begin) < lasts; <-pause.C {
		_, answer := send("ListTasks", `{"cluster":%q,"serviceName":"new"}`, clusterName)
		if placed == 0 && strings.Contains(answer, "arn:") {
			placed = time.Since(begin)
		}
	}
	loopsEnd.Store(true)
	all.Wait()
	t.Logf("%d calls, %d failed; CreateService was answered after %s, its task was placed after %s",
		calls.Load(), failed.Load(), answered, placed)
	if placed == 0 || placed > within {
		t.Errorf("the new service had its task after %s, want within %s", placed, within)
	}
}
