package porttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

func instanceIDs(rows []state.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.(*cluster.Instance).ID)
	}
	return out
}

// testListReadsRange: a range includes its start, excludes its end, is ordered by the bytes of the
// sort key, and never crosses clusters.
func testListReadsRange(t *testing.T, s state.Store) {
	name, other := uniqueCluster(), uniqueCluster()
	// Stored in another order than listed. The other cluster's rows lie between these by key.
	for _, id := range []string{"c", "a", "b", "B", "ab", "ü", "a b"} {
		mustPut(t, s, instanceRow(name, id, 1), instanceRow(other, id+"x", 1))
	}
	mustPut(t, s, metaRow(name, 0), taskRow(name, "t"))
	in := func(from, to string, limit int) state.Range {
		return state.Range{Cluster: name, From: state.PrefixInstance + from, To: state.PrefixInstance + to,
			Limit: limit}
	}
	all := []string{"B", "a", "a b", "ab", "b", "c", "ü"}
	withLimit := state.Prefix(name, state.PrefixInstance)
	withLimit.Limit = 3
	for _, c := range []struct {
		name string
		r    state.Range
		want []string
	}{
		{"Prefix", state.Prefix(name, state.PrefixInstance), all},
		{"PrefixWithLimit", withLimit, all[:3]},
		{"FromIsIncluded", in("a", "b", 0), []string{"a", "a b", "ab"}},
		{"ToIsExcluded", in("", "a", 0), []string{"B"}},
		{"BetweenRows", in("aa", "bb", 0), []string{"ab", "b"}},
		{"Limit", in("a", "c", 2), []string{"a", "a b"}},
		{"LimitOfOne", in("b", "z", 1), []string{"b"}},
		{"LimitThatIsNotReached", in("a", "c", 100), []string{"a", "a b", "ab", "b"}},
		{"LimitThatIsJustReached", in("a", "c", 4), []string{"a", "a b", "ab", "b"}},
		{"NothingThere", in("d", "e", 0), nil},
		{"Empty", in("a", "a", 0), nil},
		{"Backwards", in("b", "a", 0), nil},
		{"PrefixOfOneKey", state.Prefix(name, state.PrefixInstance+"a"), []string{"a", "a b", "ab"}},
		{"UnknownCluster", state.Prefix(uniqueCluster(), state.PrefixInstance), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, instanceIDs(mustList(t, s, c.r))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// The snapshot is read like this: all rows of a cluster, in order.
	t.Run("WholeCluster", func(t *testing.T) {
		rows := mustList(t, s, state.Prefix(name, ""))
		if len(rows) != len(all)+2 || !slices.IsSortedFunc(rows, compareSortKeys) {
			t.Errorf("%d rows, want %d, in order", len(rows), len(all)+2)
		}
	})
	t.Run("SeesChangesAtOnce", func(t *testing.T) { testListSeesChangesAtOnce(t, s) })
	t.Run("MoreThanAPage", func(t *testing.T) { testListReadsAllPages(t, s) })
}

// testListSeesChangesAtOnce: lists are strongly consistent, unlike DynamoDB's default.
func testListSeesChangesAtOnce(t *testing.T, s state.Store) {
	name := uniqueCluster()
	for rev := int64(1); rev <= 3; rev++ {
		mustPut(t, s, instanceRow(name, "i", rev))
		rows := mustList(t, s, state.Prefix(name, ""))
		if len(rows) != 1 || rows[0].Header().Rev != rev {
			t.Fatalf("%v, want one row of revision %d", rows, rev)
		}
	}
	key := state.InstanceKey(name, "i")
	mustWrite(t, s, state.Write{Delete: &key})
	if rows := mustList(t, s, state.Prefix(name, "")); len(rows) != 0 {
		t.Errorf("%v after the deletion", rows)
	}
}

// testListReadsAllPages lists more than DynamoDB returns in one page, with limits below, at and
// above a page's end.
func testListReadsAllPages(t *testing.T, s state.Store) {
	name := uniqueCluster()
	// DynamoDB's pages have 1 MB: eleven rows of this size.
	const n, size = 30, 90 << 10
	for i := range n {
		mustPut(t, s, taskRow(name, fmt.Sprintf("%02d", i),
			func(t *cluster.Task) { t.Reason = strings.Repeat("x", size) }))
	}
	for _, limit := range []int{0, 1, 11, 12, 25, n, n + 1} {
		r := state.Prefix(name, state.PrefixTask)
		r.Limit = limit
		want := n
		if limit > 0 {
			want = min(n, limit)
		}
		rows := mustList(t, s, r)
		if len(rows) != want {
			t.Fatalf("%d rows with limit %d, want %d", len(rows), limit, want)
		}
		for i, row := range rows {
			if got := row.(*cluster.Task).ID; got != fmt.Sprintf("%02d", i) {
				t.Fatalf("row %d is %s", i, got)
			}
		}
	}
}

// testDueByReadsDueRows: due rows are found by time alone. Their sort keys must order as the times
// do, down to microseconds and in any zone.
func testDueByReadsDueRows(t *testing.T, s state.Store) {
	name := uniqueCluster()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	offsets := []time.Duration{-24 * time.Hour, -time.Second, -time.Microsecond, 0, time.Microsecond, time.Second,
		24 * time.Hour}
	for i := range offsets {
		i := (i + 3) % len(offsets) // not stored in order
		mustPut(t, s, &state.Due{Head: rowHead(name, 1), At: at.Add(offsets[i]), Kind: state.DueService, Subject: "s"})
	}
	// Two of one time, and a row on either side of all due rows.
	mustPut(t, s, &state.Due{Head: rowHead(name, 1), At: at, Kind: state.DueOutbox}, metaRow(name, 0),
		&state.Checkpoint{Head: rowHead(name, 1)}, &cluster.ServiceEvent{Head: rowHead(name, 1), Service: "s"})
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{-48 * time.Hour, 0}, {-time.Hour, 1}, {-time.Microsecond, 3}, {0, 5}, {time.Microsecond, 6}, {time.Hour, 7},
		{48 * time.Hour, 8}} {
		rows := mustList(t, s, state.DueBy(name, at.Add(c.after).In(time.FixedZone("", 3600))))
		if len(rows) != c.want {
			t.Errorf("%d rows due by %v, want %d", len(rows), c.after, c.want)
		}
		for i, row := range rows {
			due, ok := row.(*state.Due)
			if !ok {
				t.Fatalf("%T among the due rows", row)
			}
			if i > 0 && due.At.Before(rows[i-1].(*state.Due).At) {
				t.Errorf("due rows are not in order of time")
			}
		}
	}
}

// testRowsSurviveRoundTrip draws every field of every kind of row and reads the row back in each
// way that a store returns rows.
func testRowsSurviveRoundTrip(t *testing.T, s state.Store) {
	for kindName, kind := range emptyRowsByKind() {
		t.Run(kindName, func(t *testing.T) {
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				row := drawRow(rt, kind, uniqueCluster(), n)
				key := state.KeyOf(row)
				mustPut(rt, s, asStored(row)) // a copy, because a store may set the row's revision
				read := map[string]state.Row{"Get": mustGet(rt, s, key)}
				if rows := mustList(rt, s, state.Prefix(key.Cluster, key.Sort)); len(rows) == 1 {
					read["List"] = rows[0]
				}
				read["conflict"] = readFromConflict(s, row)
				for how, got := range read {
					if diff := cmp.Diff(row, got); diff != "" {
						rt.Fatalf("%s (-want +got):\n%s", how, diff)
					}
				}
			})
		})
	}
	// What a row cannot keep is the same in every store: zones, monotonic readings, and whether an
	// empty collection was nil.
	t.Run("TimesAndEmptyCollections", func(t *testing.T) {
		name := uniqueCluster()
		at := time.Now().In(time.FixedZone("", -7*3600)) // with a zone and a monotonic reading
		row := taskRow(name, "a", func(t *cluster.Task) {
			t.Tags, t.GPUs, t.Overrides = map[string]string{}, []int{}, &cluster.Overrides{}
		})
		mustPut(t, s, row)
		got := mustGet(t, s, state.KeyOf(row)).(*cluster.Task)
		if len(got.Tags) != 0 || len(got.GPUs) != 0 || got.Overrides == nil {
			t.Errorf("row %+v, want no tags, no GPUs, and overrides that say nothing", got)
		}
		dated := &state.Outbox{Head: cluster.Head{Cluster: name, Rev: 1}, ID: "o", CreatedAt: at}
		mustPut(t, s, dated)
		if got := mustGet(t, s, state.KeyOf(dated)).(*state.Outbox); !got.CreatedAt.Equal(at) ||
			got.CreatedAt.Location() != time.UTC {
			t.Errorf("time %v, want %v in UTC", got.CreatedAt, at.UTC())
		}
		deep := &cluster.Service{
			Head:            cluster.Head{Cluster: name, Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
			ServiceStatus: cluster.ServiceStatus{
				Older:       []cluster.Deployment{{UpdatedAt: at}},
				Last:        &cluster.Revision{TaskDefinition: "web:1", CreatedAt: at},
				EmittedKeys: map[string]time.Time{"x": at},
			},
		}
		mustPut(t, s, deep)
		read := mustGet(t, s, state.KeyOf(deep)).(*cluster.Service)
		for where, got := range map[string]time.Time{
			"a list": read.Older[0].UpdatedAt, "a pointer": read.Last.CreatedAt, "a map": read.EmittedKeys["x"],
		} {
			if !got.Equal(at) || got.Location() != time.UTC {
				t.Errorf("time in %s %v, want %v in UTC", where, got, at.UTC())
			}
		}
	})
}

// readFromConflict provokes a conflict, and returns the row that the store reports in it.
func readFromConflict(s state.Store, row state.Row) state.Row {
	again := asStored(row)
	again.Header().Rev = 7
	_, err := s.Write(context.Background(), state.Write{Put: again})
	return rowInConflict(err)
}

// testUnusualKeys: rows are named by what users write. Any text within DynamoDB's 1,024 bytes of a
// sort key works; keys that differ in case, spaces or separators are different keys; keys of
// unknown kinds are read as absent.
func testUnusualKeys(t *testing.T, s state.Store) {
	name := uniqueCluster()
	for _, key := range []state.Key{
		{Cluster: name, Sort: state.PrefixMeta}, {Cluster: name, Sort: "nothing"},
		{Cluster: name, Sort: state.PrefixInstance},
		{Cluster: uniqueCluster(), Sort: "nothing#" + strings.Repeat("ü", 500)},
	} {
		if row := mustGet(t, s, key); row != nil {
			t.Errorf("Get(%v) = %v, want nothing", key, row)
		}
		if row, err := s.Peek(context.Background(), key); row != nil || err != nil {
			t.Errorf("Peek(%v) = %v, %v, want nothing", key, row, err)
		}
		if got := mustWrite(t, s, state.Write{Delete: &key}); got != nil {
			t.Errorf("deleting %v returns %v", key, got)
		}
	}
	for _, key := range []state.Key{{}, {Cluster: name}, {Sort: "meta"}} {
		_, err := s.Get(context.Background(), key)
		expectInvalid(t, err)
	}
	// The longest key that DynamoDB takes; one more byte is too many.
	long := strings.Repeat("x", 1024-len(state.PrefixInstance))
	expectInvalid(t, tryPut(s, instanceRow(name, long+"x", 1)))
	for _, id := range append(slices.Clone(keyWords), long, "a#", "a##", "A", "#a", " ", "日") {
		row := instanceRow(name, id, 1)
		mustPut(t, s, row)
		expectSameRow(t, id, row, mustGet(t, s, state.KeyOf(row)))
		if row, err := s.Peek(context.Background(), state.KeyOf(row)); err != nil || row != nil &&
			row.Header().Rev != 1 {
			t.Errorf("Peek = %v, %v", row, err)
		}
	}
	if rows := mustList(t, s, state.Prefix(name, "")); len(rows) != len(keyWords)+7 {
		t.Errorf("%d rows, want %d", len(rows), len(keyWords)+7)
	}
}
