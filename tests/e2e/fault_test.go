package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/tests/cloud"
)

// TestLocalCloudUnderFaults changes desired counts while functions are killed, the table refuses
// calls or loses answers, answers of StartTask are lost, and events are lost or repeated. Afterward
// ECS has exactly the tasks that are wanted.
func TestLocalCloudUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "it waits for functions to be killed and calls to be lost")
	}
	f := &faultyCalls{random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // chance that can be repeated
	l := newLocal(t, func(o *cloud.Options) {
		o.Tap = &cloud.Tap{Before: f.beforeCall, Lose: f.loseAnswer, After: f.afterCall}
		o.Parameters["RecheckSeconds"] = "1"
	})
	f.cloud = l.Cloud
	// Like users' SDKs, it repeats a call that a killed function did not answer.
	patient := ecs.New(l.Client().Options(), func(o *ecs.Options) {
		o.Retryer, o.RetryMaxAttempts = retry.NewStandard(),
			10
	})
	s := &scenario{t: t, tier: l, api: patient, cluster: "shop"}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"ClusterOfSixInstancesInThreeZones", s.createCluster},
		{"NineReplicasAndADaemon", func() { s.startServices(l) }},
		{"CallsFailAndAreLost", func() { s.scaleUnderFaults(f, 3, 15, 4, 12) }},
		{"FunctionsAreKilled", func() { s.scaleWhileKilled(f, l) }},
		{"EventsAreLostAndDoubled", func() { s.scaleWithoutEvents(f, l) }},
		{"NothingIsLeftOver", func() { s.compareWithECS(l) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d calls refused, %d answers lost, %d reports of events lost, %d doubled, %d functions killed",
		f.refused.Load(), f.lost.Load(), f.dropped.Load(), f.doubled.Load(), f.killed.Load())
	if f.killed.Load() == 0 && runtime.GOOS == "linux" {
		t.Error("no function was killed")
	}
	for what, n := range map[string]int64{
		"refused": f.refused.Load(), "lost": f.lost.Load(), "dropped": f.dropped.Load(), "doubled": f.doubled.Load(),
	} {
		if n == 0 {
			t.Errorf("nothing was %s: the test tests less than it says", what)
		}
	}
}

// faultyCalls decides by chance what goes wrong.
type faultyCalls struct {
	cloud *cloud.Cloud

	mu     sync.Mutex
	random *rand.Rand

	calls, events                           atomic.Bool // which faults are on
	refused, lost, dropped, doubled, killed atomic.Int64
}

func (f *faultyCalls) strikes(percent int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(100) < percent
}

func (f *faultyCalls) beforeCall(call cloud.Call) (status int, answer string) {
	switch {
	case f.events.Load() && call.Operation == "PutEvents" && f.strikes(40):
		f.dropped.Add(1)
		return http.StatusOK, `{"FailedEntryCount": 0, "Entries": []}`
	case f.calls.Load() && call.Service == "dynamodb" && f.strikes(10):
		f.refused.Add(1)
		return http.StatusInternalServerError, `{"__type": "InternalServerError"}`
	}
	return 0, ""
}

func (f *faultyCalls) loseAnswer(call cloud.Call) bool {
	if !f.calls.Load() || call.Operation == "PutEvents" || !f.strikes(10) {
		return false
	}
	f.lost.Add(1)
	return true
}

func (f *faultyCalls) afterCall(call cloud.Call) {
	if f.events.Load() && call.Operation == "PutEvents" && f.strikes(50) {
		f.doubled.Add(1)
		_ = f.cloud.RepeatCall(context.Background(), call)
	}
}

func (s *scenario) startServices(l *local) {
	ctx := s.t.Context()
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("web"), TaskDefinition: aws.String("web"),
		DesiredCount: aws.Int32(9),
	}))(s)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("agent"), TaskDefinition: aws.String("agent"),
		SchedulingStrategy: types.SchedulingStrategyDaemon,
	}))(s)
	s.awaitStable(l, 9)
}

// setDesired repeats the request until the API accepts it: under faults, a call may fail.
func (s *scenario) setDesired(n int32) {
	s.t.Helper()
	var refused error
	defer func() {
		if refused != nil {
			s.t.Log(refused)
		}
	}()
	s.await("the desired count to be taken", func() bool {
		_, refused = s.api.UpdateService(s.t.Context(),
			&ecs.UpdateServiceInput{Cluster: &s.cluster, Service: aws.String("web"), DesiredCount: &n})
		return refused == nil
	})
}

func (s *scenario) scaleUnderFaults(f *faultyCalls, counts ...int32) {
	l := s.tier.(*local)
	f.calls.Store(true)
	for _, n := range counts {
		refused, lost := f.refused.Load(), f.lost.Load()
		s.setDesired(n)
		s.await("some calls to fail", func() bool { return f.refused.Load() > refused+2 && f.lost.Load() > lost+2 })
	}
	f.calls.Store(false)
	s.awaitStable(l, counts[len(counts)-1])
}

func (s *scenario) scaleWhileKilled(f *faultyCalls, l *local) {
	for _, n := range []int32{15, 6} {
		s.setDesired(n)
		for range 3 {
			s.await("functions to kill", func() bool {
				killed := l.KillFunctions()
				f.killed.Add(int64(killed))
				return killed > 0
			})
		}
		s.awaitStable(l, n)
	}
}

func (s *scenario) scaleWithoutEvents(f *faultyCalls, l *local) {
	f.events.Store(true)
	for round := 0; round < 10 && (round == 0 || f.dropped.Load() == 0 || f.doubled.Load() == 0); round++ {
		for _, n := range []int32{3, 15, 5, 12} {
			dropped, doubled := f.dropped.Load(), f.doubled.Load()
			s.setDesired(n)
			s.await("reports to fail", func() bool { return f.dropped.Load() > dropped || f.doubled.Load() > doubled })
		}
	}
	f.events.Store(false)
	s.awaitStable(l, 12)
}

// awaitStable waits for web's n tasks. It repeats what AWS does in time: schedules run, and
// messages become visible again.
func (s *scenario) awaitStable(l *local, n int32) {
	s.t.Helper()
	var last time.Time
	s.await("service web to be stable", func() bool {
		v := s.describeService("web")
		if v.DesiredCount == n && v.RunningCount == n && v.PendingCount == 0 && len(s.runningTasks("web")) == int(n) {
			return true
		}
		if time.Since(last) > 3*time.Second {
			if !last.IsZero() {
				s.runRetries(l)
			}
			last = time.Now()
		}
		return false
	})
}

// compareWithECS compares what Berth reports with what ECS runs.
func (s *scenario) compareWithECS(l *local) {
	s.runRetries(l)
	s.awaitStable(l, 12)
	s.await("ECS to have what is wanted", func() bool {
		listed, err := l.SimulatedECS().ListTasks(s.t.Context(), &ecs.ListTasksInput{Cluster: &s.cluster})
		return err == nil && len(listed.TaskArns) == 12+6
	})
	s.awaitSteady("agent", 6)
}
