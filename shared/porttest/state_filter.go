package porttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/state"
)

// The values of the tasks, and filters, that [drawFilteredTask] and [drawFilter] draw. Some begin
// as another one does.
var (
	drawnStatuses  = []cluster.TaskStatus{cluster.TaskRunning, cluster.TaskStopped}
	drawnReports   = []cluster.TaskStatus{"", cluster.TaskRunning, cluster.TaskStopped}
	drawnFamilies  = []string{"web", "we", "web2"}
	drawnInstances = []string{"", "i-1", "i-12", "i-2"}
	drawnStarters  = []string{"", "me", "ecs-svc/1"}
)

// drawFilteredTask draws what a filter selects by. Two owners have rows of these ids.
func drawFilteredTask(rt *rapid.T, name string) *cluster.Task {
	from := rapid.SampledFrom[[]string, string]
	id := rapid.StringMatching(`[a-d][0-3]`).Draw(rt, "id")
	return taskRow(name, id, withRevision(0), func(t *cluster.Task) {
		t.Owner = from([]string{owner, owner + "2"}).Draw(rt, "owner")
		t.TaskDefinition = from(drawnFamilies).Draw(rt, "family") + ":1"
		t.Instance = from(drawnInstances).Draw(rt, "instance")
		t.Desired = rapid.SampledFrom(drawnStatuses).Draw(rt, "desired")
		t.Last = rapid.SampledFrom(drawnReports).Draw(rt, "last")
		t.StartedByUser, t.Revision = from(drawnStarters).Draw(rt, "starter"), from(drawnStarters).Draw(rt, "revision")
	})
}

func drawFilter(rt *rapid.T) *state.TaskFilter {
	from := rapid.SampledFrom[[]string, string]
	return &state.TaskFilter{
		Desired:   rapid.SampledFrom(append([]cluster.TaskStatus{""}, drawnStatuses...)).Draw(rt, "desired"),
		Family:    from(append([]string{""}, drawnFamilies...)).Draw(rt, "family"),
		Instance:  from(drawnInstances).Draw(rt, "instance"),
		StartedBy: from(drawnStarters).Draw(rt, "starter"),
	}
}

// testListSelectsTasks: a list with a filter has the rows of the whole list that the filter
// matches, from where it begins and as many as it wants, whatever happened to the rows before.
func testListSelectsTasks(t *testing.T, s state.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		name := uniqueCluster()
		mustPut(rt, s, metaRow(name, 0), instanceRow(name, "i-1", 1))
		for range rapid.IntRange(0, 20).Draw(rt, "changes") {
			row := drawFilteredTask(rt, name)
			mustWrite(rt, s, state.Write{Put: row, Any: true})
			if rapid.IntRange(0, 5).Draw(rt, "deleted") == 0 {
				key := state.KeyOf(row)
				mustWrite(rt, s, state.Write{Delete: &key})
			}
		}
		r := state.Prefix(name, "")
		if rapid.Bool().Draw(rt, "oneOwner") {
			r = state.Prefix(name, state.PrefixTask+owner+"#"+rapid.StringMatching(`[a-d]?`).Draw(rt, "prefix"))
		}
		all := mustList(rt, s, r)
		r.Tasks, r.Limit = drawFilter(rt), rapid.IntRange(0, 5).Draw(rt, "limit")
		var want []state.Row
		for _, row := range all {
			if r.Tasks.Matches(row) && (r.Limit == 0 || len(want) < r.Limit) {
				want = append(want, row)
			}
		}
		got := mustList(rt, s, r)
		if diff := cmp.Diff(keysOf(want), keysOf(got)); diff != "" {
			rt.Fatalf("filter %+v, limit %d (-want +got):\n%s", *r.Tasks, r.Limit, diff)
		}
	})
}

func keysOf(rows []state.Row) []string {
	out := []string{}
	for _, row := range rows {
		out = append(out, state.KeyOf(row).Sort)
	}
	return out
}

// testVisitReadsWhatListReads: with and without a limit, over several pages of every store. It ends
// where the visitor wants, with the visitor's error.
func testVisitReadsWhatListReads(t *testing.T, s state.Store) {
	name := uniqueCluster()
	const n = 600
	for i := range n {
		mustPut(t, s, taskRow(name, fmt.Sprintf("%03d", i)))
	}
	enough := errors.New("enough")
	for _, limit := range []int{0, 1, 255, 256, 257, n, n + 1} {
		r := state.Prefix(name, "")
		r.Limit = limit
		var got []state.Row
		err := s.Visit(t.Context(), r, func(row state.Row) error {
			got = append(got, row)
			return nil
		})
		if diff := cmp.Diff(keysOf(mustList(t, s, r)), keysOf(got)); err != nil || diff != "" {
			t.Fatalf("limit %d: %v (-want +got):\n%s", limit, err, diff)
		}
		seen := 0
		err = s.Visit(t.Context(), r, func(state.Row) error {
			seen++
			return enough
		})
		if !errors.Is(err, enough) || seen != 1 {
			t.Errorf("%v after %d rows, want the visitor's error after one", err, seen)
		}
	}
}
