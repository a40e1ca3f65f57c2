package handler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/placement"
	"berth/shared/operation"
	"berth/shared/state"
)

// checkChain checks what must be true of every chain: no commit too large, no row twice in one,
// consecutive versions, and each start and stop together with the outbox entry that makes dispatch
// carry it out.
func checkChain(t testing.TB, commits []state.Commit) {
	t.Helper()
	last := int64(-1)
	for n, c := range commits {
		if len(c.Writes) > state.MaxWrites {
			t.Fatalf("commit %d has %d writes", n, len(c.Writes))
		}
		seen := map[state.Key]bool{}
		intents, carried := map[string]bool{}, map[string]bool{}
		for _, write := range c.Writes {
			if seen[write.Key()] {
				t.Fatalf("commit %d writes %s twice", n, write.Key().Sort)
			}
			seen[write.Key()] = true
			collect(write, intents, carried)
		}
		for id := range intents {
			if !carried[id] {
				t.Fatalf("commit %d: %s is not in the outbox row of the same commit", n, id)
			}
		}
		want(t, "outbox items without an intent", len(carried)-len(intents), 0)
		if len(intents) > 0 && c.Version == state.NoVersion {
			t.Fatalf("commit %d starts or stops without a version", n)
		}
		if c.Version != state.NoVersion {
			if last >= 0 {
				want(t, fmt.Sprintf("version of commit %d", n), c.Version, last+1)
			}
			last = c.Version
		}
	}
}

// collect gathers the tasks that a write starts or stops, and those that outbox entries name.
func collect(w state.Write, intents, carried map[string]bool) {
	switch row := w.Put.(type) {
	case *cluster.Task:
		if row.Instance != "" && row.Desired == cluster.TaskRunning {
			intents["start "+row.ID] = true
		}
	case *state.Outbox:
		for _, s := range row.Starts {
			id := s.ID
			if id == "" {
				id = cluster.TaskID(row.Batch, s.Instance)
			}
			carried["start "+id] = true
		}
		for _, s := range row.Stops {
			carried["stop "+s.ID] = true
		}
	}
	if w.Stop != nil {
		intents["stop "+lastPart(w.Stop.Task.Sort)] = true
	}
}

func lastPart(sort string) string { return sort[len(sort)-32:] }

func TestPlacement_Chain(t *testing.T) {
	const many = 250
	start := func(t *testing.T) *world {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit, s.StartBurst = 1000, 1000 })
		w.instances("i", 50, 4096, 8192)
		return w
	}
	t.Run("StartsInCommitsThatHoldTogether", func(t *testing.T) {
		w := start(t)
		w.create("web", "web", many)
		w.state.commits = nil
		w.pump()
		checkChain(t, w.state.commits)
		wantCount(t, "ECS tasks", w.ecs.live(), many)
		want(t, "running", w.service("web").Service.Running, many)
	})
	t.Run("StopsInCommitsThatHoldTogether", func(t *testing.T) {
		w := start(t)
		w.create("web", "web", many)
		w.pump()
		w.state.commits = nil
		w.scale("web", 3)
		w.pump()
		checkChain(t, w.state.commits)
		want(t, "running", w.service("web").Service.Running, 3)
		wantCount(t, "ECS tasks", w.ecs.live(), 3)
	})
	t.Run("StartsWhatWaitedInCommitsThatHoldTogether", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit, s.StartBurst = 1000, 1000 })
		w.create("web", "web", many)
		w.pump()
		w.state.commits = nil
		w.observerAsleep = true
		w.instances("i", 50, 4096, 8192)
		w.observerAsleep = false
		w.pump()
		checkChain(t, w.state.commits)
		want(t, "running", w.service("web").Service.Running, many)
	})
	t.Run("OfManyServicesAndRequests", func(t *testing.T) {
		w := start(t)
		w.placementAsleep = true
		for n := range 20 {
			w.create(fmt.Sprint("s", n), "web", 7)
			w.submit(t, operation.SubmitTasks{Count: 10})
		}
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		w.placementAsleep = false
		w.state.commits = nil
		w.pump()
		checkChain(t, w.state.commits)
		wantCount(t, "ECS tasks", w.ecs.live(), 20*7+20*10+50)
	})
	for n := range 6 {
		broken, same := 1+n/2, n%2 == 0
		t.Run(fmt.Sprintf("IsSafeWhenItBreaksAtCommit%dAndTheSameGoesOn%t", broken, same), func(t *testing.T) {
			w := start(t)
			w.dispatchAsleep = true
			w.create("web", "web", many)
			n := 0
			w.state.beforeCommit = func(state.Commit) error {
				if n++; n == broken {
					return errStore
				}
				return nil
			}
			records := w.decide
			w.decide = nil
			from, err := w.placement.HandleRecords(ctx, records)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "delivered again from", from, records[0].Sequence)
			if s := w.service("web"); s.Service.Pending+s.Service.Running > len(w.tasks()) || s.Service.Steady {
				t.Fatalf("the service says %d pending, there are %d tasks", s.Service.Pending, len(w.tasks()))
			}
			wantCount(t, "events, one for each commit", w.events("web"), broken-1)
			w.state.beforeCommit = nil
			if !same {
				w.placement = w.newPlacement("env-2", w.placement.Settings)
			}
			w.decides(w.placement, records)
			w.dispatchAsleep = false
			w.pump()
			checkChain(t, w.state.commits)
			wantCount(t, "ECS tasks", w.ecs.live(), many)
			want(t, "running", w.service("web").Service.Running, many)
		})
	}
}

func TestPlacement_Conflict(t *testing.T) {
	t.Run("DecidesAnewOnWhatIsThereThen", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		raced := false
		w.state.beforeCommit = func(state.Commit) error {
			if !raced {
				raced = true
				w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
				w.observe(w.ecs.events...)
				w.ecs.events = nil
			}
			return nil
		}
		w.create("web", "web", 4)
		w.pump()
		want(t, "raced", raced, true)
		want(t, "tasks on the draining instance", placed(w.tasks())["i000"], 0)
		want(t, "tasks on the other", placed(w.tasks())["i001"], 4)
	})
	t.Run("InTheMiddleOfAChain", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.StartBurst = 1000 })
		w.instances("i", 50, 4096, 8192)
		n := 0
		w.state.beforeCommit = func(state.Commit) error {
			if n++; n == 2 {
				w.scale("web", 120)
			}
			return nil
		}
		w.create("web", "web", 250)
		w.pump()
		want(t, "running", w.service("web").Service.Running, 120)
		wantCount(t, "ECS tasks", w.ecs.live(), 120)
	})
	t.Run("WithTheServicesRowAlone", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		raced := false
		w.state.beforeCommit = func(state.Commit) error {
			if !raced {
				raced = true
				return w.api.Tags.TagResource(ctx, cluster.ResourceARN{Kind: "service", Cluster: prod, Name: "web"}, map[string]string{"a": "b"}, nil)
			}
			return nil
		}
		w.create("web", "web", 2)
		w.pump()
		want(t, "tag", w.service("web").Service.Tags["a"], "b")
		want(t, "running", w.service("web").Service.Running, 2)
	})
	t.Run("GivesUpForRedeliveryWhenItIsAlwaysLost", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 2)
		w.state.beforeCommit = func(state.Commit) error {
			w.bump()
			return nil
		}
		from, err := w.placement.HandleRecords(ctx, w.decide)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "delivered again from", from, w.decide[0].Sequence)
		w.state.beforeCommit = nil
		w.pump()
		want(t, "running", w.service("web").Service.Running, 2)
	})
}

func TestPlacement_WarmSnapshot(t *testing.T) {
	settings := handler.DefaultSettings()
	next := func(w *world) []state.Record {
		records := w.decide
		w.decide = nil
		return records
	}
	t.Run("IsTrustedByTheOneThatHandledTheBatchBefore", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.create("a", "web", 1)
		w.pump()
		w.state.lists = 0
		w.create("b", "web", 1)
		w.pump()
		want(t, "listings", w.state.lists, 0)
		want(t, "running", w.service("b").Service.Running, 1)
	})
	t.Run("IsNotTrustedByAnother", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 512, 8192) // room for two
		w.ecs.frozen, w.dispatchAsleep = true, true
		one, two := w.placement, w.newPlacement("env-2", settings)
		for n, p := range []*placement.Handler{one, two, one, two} {
			w.create(fmt.Sprint("s", n), "web", 1)
			w.state.lists = 0
			w.decides(p, next(w))
			want(t, "listed", w.state.lists > 0, n > 0) // the first handled what was before
		}
		wantCount(t, "pending tasks", w.with(cluster.TaskPending), 2)
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 2)
	})
	t.Run("IsNotTrustedWhereTheOtherCommittedNothing", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 8192) // room for one
		first := w.run(t, operation.SubmitTasks{})
		w.placementAsleep = true
		w.ecs.exit(w.task(first.Tasks[0]).ECSID, 0)
		w.pump()
		version := w.version()
		w.decides(w.newPlacement("env-2", settings), next(w))
		want(t, "version", w.version(), version)
		w.placementAsleep = false
		second := w.run(t, operation.SubmitTasks{})
		wantCount(t, "failures", second.Failures, 0)
	})
	t.Run("IsLeftToTheOneThatClaimsTheCheckpoint", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		records := next(w)
		two := w.newPlacement("env-2", settings)
		raced := false
		w.state.beforeWrite = func(write state.Write) error {
			if c, ok := write.Put.(*state.Checkpoint); ok && !raced && c.Environment == "env-1" {
				raced = true
				w.decides(two, records)
			}
			return nil
		}
		from, err := w.placement.HandleRecords(ctx, records)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "delivered again from", from, records[0].Sequence)
		w.decides(w.placement, records)
		wantCount(t, "tasks", w.tasks(), 1)
	})
	t.Run("IsNotTrustedAfterABatchThatFailed", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 256, 8192) // room for one
		first := w.run(t, operation.SubmitTasks{})
		w.placementAsleep = true
		w.ecs.exit(w.task(first.Tasks[0]).ECSID, 0)
		w.pump()
		due := &state.Due{Head: cluster.Head{Cluster: prod}, At: w.clock.now, Kind: state.DueOutbox}
		w.wake.err = errStore
		from, err := w.placement.HandleRecords(ctx, append(next(w), state.Record{Sequence: "9", Op: state.Insert, Key: state.KeyOf(due), New: due}))
		if from == "" || err != nil {
			t.Fatalf("again from %q, %v", from, err)
		}
		w.wake.err, w.placementAsleep = nil, false // and the stream gives the batch up
		second := w.run(t, operation.SubmitTasks{})
		wantCount(t, "failures", second.Failures, 0)
	})
	t.Run("ForgetsWhatHasExpired", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.ecs.onStart = func(n int, _ cluster.StartCall) fault {
			if n == 1 {
				return fault{err: denied}
			}
			return fault{}
		}
		w.pump()
		w.advance(time.Minute)
		want(t, "failed", w.service("web").Service.Deployment.Failed, 1)
		w.advance(2 * time.Hour)
		w.store.ExpireRows(w.clock.now)
		w.scale("web", 2)
		w.pump()
		want(t, "failed", w.service("web").Service.Deployment.Failed, 0)
	})
}

func TestPlacement_Quiet(t *testing.T) {
	busy := func(t *testing.T) *world {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.create("web", "web", 10)
		w.create("big", "big", 2) // blocked
		w.run(t, operation.SubmitTasks{Count: 3})
		w.run(t, operation.SubmitTasks{TaskDefinition: "big", Wait: "1h"})
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		w.advance(2 * time.Second)
		return w
	}
	t.Run("ABatchWithoutWorkWritesTheCheckpointAlone", func(t *testing.T) {
		w := busy(t)
		records := slices.Clone(w.changed)
		for range 3 {
			w.changed = nil
			w.decides(w.placement, records)
			wantCount(t, "changes", w.changed, 1)
			want(t, "row", w.changed[0].Key.Sort, state.PrefixCheckpoint)
		}
	})
	t.Run("ItsOwnWritesDoNotWakeIt", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 3, 4096, 8192)
		w.batches = 0
		w.create("web", "web", 10)
		w.pump()
		if w.batches > 2 { // the service, then its running tasks
			t.Fatalf("%d batches", w.batches)
		}
	})
	t.Run("EvenIfItSeesEveryRecord", func(t *testing.T) {
		w := newWorld(t)
		w.unfiltered = true
		w.instances("i", 3, 4096, 8192)
		w.create("web", "web", 10)
		w.create("big", "big", 2)
		w.run(t, operation.SubmitTasks{TaskDefinition: "big", Wait: "1h"})
		w.batches = 0
		w.scale("web", 5)
		w.pump()
		if w.batches > 8 {
			t.Fatalf("%d batches", w.batches)
		}
	})
}

func TestPlacement_Records(t *testing.T) {
	t.Run("DropsUnknownClusters", func(t *testing.T) {
		w := newWorld(t)
		s := &cluster.Service{
			Head:            cluster.Head{Cluster: "other", Stamp: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "web"},
		}
		w.decides(w.placement, []state.Record{{Sequence: "1", Op: state.Insert, Key: state.KeyOf(s), New: s}})
	})
	t.Run("FailsForOneClusterAlone", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.clusters["other"] = true
		if err := w.api.Clusters.ClusterCreated(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		w.instances("i", 1, 4096, 8192)
		n := 1
		if _, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: "other", Name: "web", TaskDefinition: "web", Desired: &n}); err != nil {
			t.Fatal(err)
		}
		w.create("web", "web", 1)
		w.state.beforeCommit = func(c state.Commit) error {
			if c.Cluster == "other" {
				return errStore
			}
			return nil
		}
		records := w.decide
		slices.Reverse(records) // of prod first
		from, err := w.placement.HandleRecords(ctx, records)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "again from", from, records[1].Sequence)
		want(t, "cluster", records[1].Key.Cluster, "other")
		wantCount(t, "tasks", w.tasks(), 1)
	})
}

// A chain of commits that is cut off after any of them leaves nothing unsaid, and counts nothing twice or for
// another deployment.
func TestPlacement_ChainIsCutOff(t *testing.T) {
	// cutOff ends a decision with an error before the first commit after one that isLast.
	cutOff := func(w *world, isLast func(*cluster.Service) bool) (happened func() bool) {
		last, cut := false, false
		w.state.beforeCommit = func(c state.Commit) error {
			if last {
				w.state.beforeCommit, cut = nil, true
				w.placement = w.newPlacement("env-2", w.placement.Settings)
				return errors.New("cut off")
			}
			for _, write := range c.Writes {
				s, ok := write.Put.(*cluster.Service)
				last = last || ok && isLast(s)
			}
			return nil
		}
		return func() bool { return cut }
	}
	// scaleAndCutOff has the service scaled to 200 tasks by a decision that is cut off after the first commit with
	// its row. Placement has been asleep until then.
	scaleAndCutOff := func(w *world) {
		w.t.Helper()
		w.scale("web", 200)
		w.pump()
		isCutOff := cutOff(w, func(*cluster.Service) bool { return true })
		w.placementAsleep = false
		w.pump()
		w.minutes(5)
		want(w.t, "cut off", isCutOff(), true)
	}
	said := func(w *world, text string) (n int) {
		for _, message := range w.events("web") {
			if strings.Contains(message, text) {
				n++
			}
		}
		return n
	}
	t.Run("WhileItCountsFailuresOfAnOlderRevision", func(t *testing.T) {
		w := newWorld(t)
		w.redelivers = true
		w.ecs.define(definition("web", 2, 256, 512))
		w.instances("i", 10, 16384, 32768)
		w.ecs.frozen = true // tasks stay PENDING
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web:1", Desired: new(130),
			ServiceParameters: operation.ServiceParameters{Breaker: &cluster.CircuitBreaker{Enable: true}},
		})
		w.pump()
		w.placementAsleep = true
		for _, id := range w.ecs.live() {
			w.ecs.report(id, func(t *cluster.ECSTask) {
				t.Last, t.Desired = cluster.TaskStopped, cluster.TaskStopped
				t.StopCode, t.Reason = cluster.StopFailedToStart, "CannotPullContainerError"
			})
		}
		w.pump()
		w.deploy("web", "web:2")
		w.pump()
		w.ecs.frozen = false
		commits, most := 0, 0
		isCutOff := cutOff(w, func(s *cluster.Service) bool {
			commits, most = commits+1, max(most, s.Deployment.Failed)
			return commits == 3
		})
		w.placementAsleep = false
		w.pump()
		w.advance(5 * time.Minute)
		want(t, "cut off", isCutOff(), true)
		want(t, "most failures counted for web:2", most, 0)
		want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
	})
	t.Run("AfterADeploymentHasCompleted", func(t *testing.T) {
		w := newWorld(t)
		w.redelivers = true
		w.instances("i", 10, 16384, 65536)
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(40), MinHealthy: new(10),
			ServiceParameters: operation.ServiceParameters{Early: &cluster.EarlySuccess{Enable: true, Percent: 10}},
		})
		w.dispatchAsleep = true
		w.pump()
		w.placementAsleep, w.dispatchAsleep = true, false
		w.pump()
		scaleAndCutOff(w)
		want(t, "times its completion was said", said(w, "deployment completed"), 1)
	})
	t.Run("AfterSomethingThatIsSaidOnce", func(t *testing.T) {
		w := newWorld(t)
		w.redelivers = true
		def := definition("checked", 1, 256, 512)
		def.HealthChecked = true
		w.ecs.define(def)
		w.instances("i", 10, 16384, 65536)
		w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "checked", Desired: new(12)})
		w.pump()
		all := w.ecs.live()
		for _, id := range all {
			w.ecs.turn(id, cluster.Healthy)
		}
		w.advance(time.Minute)
		w.placementAsleep = true
		for _, id := range all[:11] {
			w.ecs.turn(id, cluster.Unhealthy)
		}
		scaleAndCutOff(w)
		want(t, "times it was said", said(w, "is not replacing 11 unhealthy tasks"), 1)
	})
}
