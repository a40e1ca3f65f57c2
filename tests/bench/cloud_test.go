package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/tests/cloud"
	"berth/tests/lambda"
	"berth/tests/ministack"
)

const (
	// stopToStart bounds a replacement on the emulator, from the report of a stop to StartTask.
	stopToStart = 2 * time.Second
	// coldStart bounds the time from a binary's start to its first answer.
	coldStart = 150 * time.Millisecond
)

// emulatedTier is Berth on an emulator of AWS, with the tasks of one service.
type emulatedTier struct {
	*cloud.Cloud
	b   *testing.B
	api *ecs.Client

	mu    sync.Mutex
	calls []cloud.Call
	log   strings.Builder
}

func (e *emulatedTier) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.Write(p)
}

func newEmulatedTier(b *testing.B, instances int) *emulatedTier {
	b.Helper()
	if why := ministack.WhyUnavailable(); why != "" {
		b.Skip(why)
	}
	ctx := b.Context()
	root, err := ministack.ProjectRoot()
	if err != nil {
		b.Fatal(err)
	}
	o, err := cloud.BuildAll(ctx, filepath.Join(root, ".cache", "e2e"), cloud.AsDeployed)
	if err != nil {
		b.Fatal(err)
	}
	e := &emulatedTier{b: b}
	o.Log = e
	o.FleetArguments = []string{"--nodes", fmt.Sprint(instances), "--speed", "20"}
	o.Tap = &cloud.Tap{After: func(c cloud.Call) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls = append(e.calls, c)
	}}
	if e.Cloud, err = cloud.Start(ctx, o); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	e.api = e.Client()
	e.prepareService(ctx)
	return e
}

func (e *emulatedTier) prepareService(ctx context.Context) {
	e.b.Helper()
	if _, err := e.api.CreateCluster(ctx, &ecs.CreateClusterInput{}); err != nil {
		e.b.Fatal(err)
	}
	_, err := e.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("web"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("web"), Image: aws.String("busybox"), Cpu: 256, Memory: aws.Int32(256), // as in newBurst
		}},
	})
	if err != nil {
		e.b.Fatal(err)
	}
	_, err = e.api.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(0),
	})
	if err != nil {
		e.b.Fatal(err)
	}
}

// scaleTo scales the service and waits until n tasks run.
func (e *emulatedTier) scaleTo(ctx context.Context, n int32) {
	e.b.Helper()
	if _, err := e.api.UpdateService(ctx, &ecs.UpdateServiceInput{Service: aws.String("web"),
		DesiredCount: &n}); err != nil {
		e.b.Fatal(err)
	}
	e.waitFor(ctx, func() bool {
		out, err := e.api.DescribeServices(ctx, &ecs.DescribeServicesInput{Services: []string{"web"}})
		return err == nil && out.Services[0].RunningCount == n && out.Services[0].PendingCount == 0
	})
}

func (e *emulatedTier) waitFor(ctx context.Context, done func() bool) {
	e.b.Helper()
	late := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			e.b.Fatal("waited too long")
		case <-ctx.Done():
			e.b.Fatal(ctx.Err())
		}
	}
}

// waitUntilQuiet waits until five seconds have passed without a call. A task takes less to stop
// here, so nothing is left to be done then.
func (e *emulatedTier) waitUntilQuiet(ctx context.Context) {
	calls, since := 0, time.Now()
	e.waitFor(ctx, func() bool {
		if n := len(e.callsSince(0)); n != calls {
			calls, since = n, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
}

func (e *emulatedTier) callsSince(n int) []cloud.Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls[n:])
}

// BenchmarkCloudStopToStart crashes tasks of a service, one after the other. It measures the time
// from the report of each stop to the StartTask of the replacement.
func BenchmarkCloudStopToStart(b *testing.B) {
	ctx := b.Context()
	e := newEmulatedTier(b, 6)
	e.scaleTo(ctx, 6)
	var took []time.Duration
	for b.Loop() {
		listed, err := e.SimulatedECS().ListTasks(ctx, &ecs.ListTasksInput{})
		if err != nil || len(listed.TaskArns) == 0 {
			b.Fatalf("%v, %v", listed, err)
		}
		before := len(e.callsSince(0))
		id := listed.TaskArns[0][strings.LastIndexByte(listed.TaskArns[0], '/')+1:]
		if err := e.CrashTask(id, 1); err != nil {
			b.Fatal(err)
		}
		var reported, started time.Time
		e.waitFor(ctx, func() bool {
			for _, c := range e.callsSince(before) {
				switch {
				case c.Operation == "PutEvents" && reported.IsZero() &&
					strings.Contains(string(c.Request), `\"lastStatus\":\"STOPPED\"`):
					reported = c.At
				case c.Operation == "StartTask" && started.IsZero():
					started = c.At
				}
			}
			return !started.IsZero()
		})
		took = append(took, started.Sub(reported))
		e.scaleTo(ctx, 6)
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(len(took)-1, int(q*float64(len(took))))] }
	b.ReportMetric(float64(at(0.5).Milliseconds()), "p50-ms")
	b.ReportMetric(float64(at(0.99).Milliseconds()), "p99-ms")
	b.ReportMetric(0, "ns/op")
	fmt.Printf("stop event to StartTask on the emulator: p50 %s, p99 %s of %d (p99 at most %s)\n", at(0.5), at(0.99),
		len(took), stopToStart)
	if at(0.99) > stopToStart {
		b.Errorf("p99 %s, at most %s", at(0.99), stopToStart)
	}
}

// noEvent is an event that a function with a queue drops at once; firstEvents are for the other
// functions.
const noEvent = `{"Records":[{"messageId":"1","eventSource":"aws:sqs","body":"no event"}]}`

var firstEvents = map[string]string{
	"api":       `{"version":"2.0","rawPath":"/","headers":{},"requestContext":{"http":{"method":"GET","path":"/"}}}`,
	"placement": `{"Records":[{"eventSource":"aws:dynamodb","eventName":"INSERT","dynamodb":{"NewImage":{"pk":{"S":"c"},"sk":{"S":"future#1"}}}}]}`,
}

// BenchmarkColdStart starts each function's binary and lets it handle an event.
func BenchmarkColdStart(b *testing.B) {
	e := newEmulatedTier(b, 0)
	root, err := ministack.ProjectRoot()
	if err != nil {
		b.Fatal(err)
	}
	functions, err := cloud.FunctionFolders(root)
	if err != nil {
		b.Fatal(err)
	}
	for _, function := range functions {
		event := cmp.Or(firstEvents[function], noEvent)
		b.Run(function, func(b *testing.B) {
			f, err := e.DeployedFunction(b.Context(), function)
			if err != nil {
				b.Fatal(err)
			}
			best := time.Hour
			for b.Loop() {
				started := time.Now()
				r, err := lambda.Start(f)
				if err != nil {
					b.Fatal(err)
				}
				_, err = r.Invoke(b.Context(), []byte(event))
				best = min(best, time.Since(started))
				if closing := r.Close(); err != nil || closing != nil {
					b.Fatal(err, closing)
				}
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
			fmt.Printf("cold start of %s to its first answer: %s at best (at most %s)\n", function, best, coldStart)
			if best > coldStart {
				b.Errorf("the quickest start took %s, at most %s", best, coldStart)
			}
		})
	}
}

var handled = regexp.MustCompile(`ESM: Lambda \S+ processed (\d+) (SQS messages|DynamoDB stream records)`)

// countHandled sums what the emulator's log says about event source mappings. Each batch is one
// invocation, each message was sent once, and one SQS request receives or deletes at most ten.
func (e *emulatedTier) countHandled() (sum measured) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range handled.FindAllStringSubmatch(e.log.String(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			e.b.Fatal(err)
		}
		sum.Invocations++
		sum.Deliveries += float64(n)
		if m[2] == "SQS messages" {
			sum.QueueRequests += float64(n + 2*((n+9)/10))
		}
	}
	return sum
}

// BenchmarkCloudTaskCost scales a service up and to zero again, on the emulator and on the embedded
// tier, and compares the cost of a task with the budget. It fails if the tiers differ without a
// known reason.
func BenchmarkCloudTaskCost(b *testing.B) {
	ctx := b.Context()
	const instances, n = 60, 400
	e := newEmulatedTier(b, instances)
	e.waitUntilQuiet(ctx)
	for b.Loop() {
		calls, before := len(e.callsSince(0)), e.countHandled()
		e.scaleTo(ctx, n)
		e.scaleTo(ctx, 0)
		e.waitUntilQuiet(ctx)
		after := e.countHandled()
		c := measured{perTask(before.Cost, after.Cost, n), (after.Deliveries - before.Deliveries) / n}
		c.WriteUnits, c.ReadUnits = e.countUnits(e.callsSince(calls))
		c.WriteUnits, c.ReadUnits = c.WriteUnits/n, c.ReadUnits/n
		table, unexplained := compareTiers(c, measureScaleUpAndDown(b, instances, n), Stopped, emulatorDifferences)
		fmt.Printf("%d tasks that are stopped, each:\n%s", n, table)
		if len(unexplained) > 0 {
			b.Errorf("nothing explains why these differ: %s", strings.Join(unexplained, ", "))
		}
		b.ReportMetric(c.WriteUnits, "write-units/task")
	}
}

// countUnits sums the capacity that the functions of the budget consumed, according to DynamoDB.
func (e *emulatedTier) countUnits(calls []cloud.Call) (write, read float64) {
	for _, call := range calls {
		function := e.Caller(call.AccessKey)
		if function == "" || function == "api" || call.Service != "dynamodb" {
			continue
		}
		for _, units := range consumedUnits(call.Answer) {
			if strings.HasPrefix(call.Operation, "Get") || call.Operation == "Query" {
				read += units
			} else {
				write += units
			}
		}
	}
	return write, read
}

// consumedUnits returns the units in an answer: of one table, or of each table of a transaction.
func consumedUnits(answer []byte) (units []float64) {
	type capacity struct{ CapacityUnits float64 }
	var one struct{ ConsumedCapacity capacity }
	var many struct{ ConsumedCapacity []capacity }
	if json.Unmarshal(answer, &one) == nil {
		return []float64{one.ConsumedCapacity.CapacityUnits}
	}
	if json.Unmarshal(answer, &many) == nil {
		for _, c := range many.ConsumedCapacity {
			units = append(units, c.CapacityUnits)
		}
	}
	return units
}
