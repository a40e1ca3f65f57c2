package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

func TestUsageIsWhatDynamoDBBills(t *testing.T) {
	s := openStore(t, "")
	ctx := context.Background()
	sized := func(id string, rev int64, kb int) *cluster.Instance {
		i := instance(id, rev)
		i.EC2InstanceID = strings.Repeat("x", kb<<10)
		return i
	}
	put := func(rows ...state.Row) func() {
		return func() {
			for _, row := range rows {
				_, _ = s.Write(ctx, state.Write{Put: row})
			}
		}
	}
	commit := func(version int64, writes ...state.Write) func() {
		return func() { _ = s.Commit(ctx, state.Commit{Cluster: "c", Version: version, Writes: writes}) }
	}
	key := func(id string) state.Key { return state.KeyOf(instance(id, 0)) }
	small, big, absent := key("small"), key("big"), key("absent")
	expiring := sized("expiring", 1, 0)
	expiring.Expires = 1
	for _, step := range []struct {
		name string
		do   func()
		want embedded.Usage
	}{
		{"Put", put(sized("small", 1, 0)), embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"BigPut", put(sized("big", 1, 9)), embedded.Usage{WriteUnits: 10, Requests: 1}},
		{"RefusedPut", put(sized("small", 1, 5)), embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"RefusedBigPut", put(sized("big", 1, 0)), embedded.Usage{WriteUnits: 10, Requests: 1}},
		{"RefusedByAbsence", put(sized("absent", 2, 5)), embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"Get", func() { _, _ = s.Get(ctx, small) }, embedded.Usage{ReadUnits: 1, Requests: 1}},
		{"GetNothing", func() { _, _ = s.Get(ctx, absent) }, embedded.Usage{ReadUnits: 1, Requests: 1}},
		{"GetBig", func() { _, _ = s.Get(ctx, big) }, embedded.Usage{ReadUnits: 3, Requests: 1}},
		{"Peek", func() { _, _ = s.Peek(ctx, small) }, embedded.Usage{ReadUnits: 0.5, Requests: 1}},
		{"PeekBig", func() { _, _ = s.Peek(ctx, big) }, embedded.Usage{ReadUnits: 1.5, Requests: 1}},
		{"ListTogether", func() { _, _ = s.List(ctx, state.Range{Cluster: "c", From: "b", To: "task"}) },
			embedded.Usage{ReadUnits: 3, Requests: 1}},
		{"ListNothing", func() { _, _ = s.List(ctx, state.Prefix("d", state.PrefixService)) },
			embedded.Usage{ReadUnits: 1, Requests: 1}},
		// Tasks have several partition keys, each of which is read.
		{"ListNoTasks", func() { _, _ = s.List(ctx, state.Prefix("d", state.PrefixTask)) },
			embedded.Usage{ReadUnits: state.TaskPartitions, Requests: 1}},
		{"ShrinkingPut", put(sized("big", 2, 0)), embedded.Usage{WriteUnits: 10, Requests: 1}},
		{"GrowingPut", put(sized("big", 3, 2)), embedded.Usage{WriteUnits: 3, Requests: 1}},
		{"Delete", func() { _, _ = s.Write(ctx, state.Write{Delete: &big}) },
			embedded.Usage{WriteUnits: 3, Requests: 1}},
		{"DeleteNothing", func() { _, _ = s.Write(ctx, state.Write{Delete: &big}) },
			embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"Meta", put(&state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}}),
			embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"CommitOfOneRow", commit(-1, state.Write{Put: sized("small", 2, 0)}),
			embedded.Usage{WriteUnits: 1, Requests: 1}},
		{"CommitOfTwoRows", commit(-1, state.Write{Put: sized("small", 3, 0)}, state.Write{Delete: &absent}),
			embedded.Usage{WriteUnits: 4, Requests: 1}},
		{"CommitWithVersion", commit(0, state.Write{Put: sized("small", 4, 2)}),
			embedded.Usage{WriteUnits: 8, Requests: 1}},
		{"RefusedCommit", commit(0, state.Write{Put: sized("small", 5, 0)}),
			embedded.Usage{WriteUnits: 8, Requests: 1}},
		{"CommitOfNothing", commit(-1), embedded.Usage{}},
		{"BadCommit", commit(-1, state.Write{}), embedded.Usage{}},
		{"TooBig", put(sized("huge", 1, 500)), embedded.Usage{}},
		{"Expiry", func() {
			put(expiring)()
			s.ExpireRows(time.Unix(1, 0))
		}, embedded.Usage{WriteUnits: 1, Requests: 1}},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := s.Usage()
			step.do()
			got := s.Usage()
			got.ReadUnits -= before.ReadUnits
			got.WriteUnits -= before.WriteUnits
			got.Requests -= before.Requests
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func benchTask(i int, rev int64) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: rev},
		TaskSpec: cluster.TaskSpec{
			ID: fmt.Sprintf("0123456789ab%020d", i), Owner: "0123456789ab", Service: "web", Group: "service:web",
			Revision: "ecs-svc/1234567890123456789", TaskDefinition: "web:12",
			Needs:     cluster.Resources{CPU: 256_000, Memory: 512},
			CreatedAt: cluster.At(time.Unix(1_800_000_000, 0)),
		},
		TaskAssignment: cluster.TaskAssignment{
			Instance: "0123456789abcdef0123456789abcdef", Batch: "berth/0123456789ab/1z-0",
			Desired: cluster.TaskRunning,
		},
	}
}

func fill(b *testing.B, s *embedded.Store, instances, tasks int) {
	b.Helper()
	for i := range instances {
		write(b, s, state.Write{Put: instance(fmt.Sprintf("%032d", i), 1)})
	}
	for i := range tasks {
		write(b, s, state.Write{Put: benchTask(i, 1)})
	}
}

func BenchmarkStore(b *testing.B) {
	ctx := context.Background()
	s := openStore(b, "")
	fill(b, s, 5000, 10000)
	version := int64(0)
	write(b, s, state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "c", Rev: 1}}})
	b.Run("Write", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := s.Write(ctx, state.Write{Put: benchTask(i%10000, 0), Any: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Observe", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o := &state.Observation{Task: state.KeyOf(benchTask(i%10000, 0)), Version: int64(i + 1),
				Last: cluster.TaskRunning}
			_, _ = s.Write(ctx, state.Write{Observe: o})
		}
	})
	b.Run("CommitOf50", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			writes := make([]state.Write, 50)
			for j := range writes {
				writes[j] = state.Write{Put: benchTask((i*50+j)%10000, 0), Any: true}
			}
			if err := s.Commit(ctx, state.Commit{Cluster: "c", Version: version, Writes: writes}); err != nil {
				b.Fatal(err)
			}
			version++
		}
	})
	b.Run("Get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, _ = s.Get(ctx, state.KeyOf(benchTask(i%10000, 0)))
		}
	})
	b.Run("ListAll", func(b *testing.B) {
		for b.Loop() {
			_, _ = s.List(ctx, state.Prefix("c", ""))
		}
	})
	b.Run("ExpireNothing", func(b *testing.B) {
		for b.Loop() {
			s.ExpireRows(time.Unix(1, 0))
		}
	})
}

func BenchmarkFile(b *testing.B) {
	path := tempPath(b)
	s := openStore(b, path, "one")
	s.OnRecords(func(records []state.Record) { s.AckRecords("one", records[len(records)-1].Sequence) })
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("Write%d", writers), func(b *testing.B) {
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := s.Write(context.Background(),
						state.Write{Put: benchTask(i%1000, 0), Any: true}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// TestKeysHaveDynamoDBsLimits writes the longest keys that DynamoDB takes, and some that are a byte
// longer.
func TestKeysHaveDynamoDBsLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("k", n) }
	row := func(clusterName, id string) *cluster.Instance {
		return &cluster.Instance{Head: cluster.Head{Cluster: clusterName, Rev: 1}, ID: id}
	}
	sort := len(state.KeyOf(row(long(1), long(1))).Sort) - 1
	for _, c := range []struct {
		partition, id int
		fits          bool
	}{
		{2048, 1, true}, {2049, 1, false}, {1, 1024 - sort, true}, {1, 1025 - sort, false},
	} {
		s := openStore(t, "")
		_, err := s.Write(t.Context(), state.Write{Put: row(long(c.partition), long(c.id))})
		if (err == nil) != c.fits {
			t.Errorf("a partition key of %d bytes and an id of %d: %v, want it to fit: %v", c.partition, c.id, err,
				c.fits)
		}
	}
}
