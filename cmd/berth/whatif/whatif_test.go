package whatif_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/trace"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

const units = cluster.CPUUnit

// rows returns a cluster of two instances in zone a, one in b, and one that is draining. Service
// web has two tasks in a and one in b; service big has room for one of two.
func rows() []state.Row {
	out := []state.Row{
		definition("web", cluster.Resources{CPU: 256 * units, Memory: 512}),
		definition("big", cluster.Resources{CPU: 512 * units, Memory: 3000}),
		instance("i-1", "a", nil), instance("i-2", "a", nil), instance("i-3", "b", nil), instance("i-4", "b", nil),
		service("web", 3, cluster.Rules{}), service("big", 2, cluster.Rules{}),
		task("web", 1, "i-1"), task("web", 2, "i-2"), task("web", 3, "i-3"), task("big", 4, "i-1"),
	}
	out[5].(*cluster.Instance).Status = cluster.InstanceDraining
	out[7].(*cluster.Service).Blocked = &cluster.Diagnosis{
		Evaluated: 4, Unplaced: 1, Rejected: []cluster.Rejection{{Filter: cluster.FilterMemory, Count: 4, Need: 3000,
			Best: 2500}},
	}
	return out
}

func head() cluster.Head { return cluster.Head{Cluster: "c", Rev: 1} }

func definition(family string, needs cluster.Resources) *cluster.TaskDefinition {
	return &cluster.TaskDefinition{Head: head(), Family: family, Revision: 1, Needs: needs}
}

func instance(id, zone string, metrics map[string]int64) *cluster.Instance {
	return &cluster.Instance{
		Head: head(), ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Attributes: map[string]string{cluster.AttributeZone: zone},
		Registered: cluster.Capacity{CPU: 2048 * units, Memory: 4200, Metrics: metrics},
	}
}

func service(name string, desired int, rules cluster.Rules) *cluster.Service {
	return &cluster.Service{
		Head:            head(),
		ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name + "-short"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica, Desired: desired, Rules: rules},
		ServiceStatus: cluster.ServiceStatus{
			Status:     cluster.ServiceActive,
			Deployment: cluster.Deployment{Revision: cluster.Revision{TaskDefinition: name + ":1"}},
		},
	}
}

func task(of string, n int, on string) *cluster.Task {
	needs := cluster.Resources{CPU: 256 * units, Memory: 512}
	if of == "big" {
		needs = cluster.Resources{CPU: 512 * units, Memory: 3000}
	}
	return &cluster.Task{
		Head: head(),
		TaskSpec: cluster.TaskSpec{
			ID: fmt.Sprintf("t-%d", n), Owner: of + "-short", Service: of, Group: "service:" + of,
			TaskDefinition: of + ":1", Needs: needs,
		},
		TaskAssignment: cluster.TaskAssignment{Instance: on, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning, ECSID: fmt.Sprintf("ecs-%d", n)},
	}
}

func snapshotOf(t *testing.T, rows []state.Row) *snapshot.Snapshot {
	t.Helper()
	var saved []berthapi.Row
	for _, r := range rows {
		data, err := state.EncodeRow(r)
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, berthapi.Row{Sort: state.KeyOf(r).Sort, Row: data})
	}
	var file bytes.Buffer
	if err := (&whatif.Saved{Cluster: "prod", At: noon, Rows: saved}).Save(&file); err != nil {
		t.Fatal(err)
	}
	again, err := whatif.ReadSaved(&file, func(int) {})
	if err != nil || again.Cluster != "prod" || !again.At.Equal(noon) {
		t.Fatalf("cluster %+v, %v", again, err)
	}
	s, err := whatif.BuildSnapshot(again.Rows)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hash covers everything in a snapshot.
func hash(t *testing.T, s *snapshot.Snapshot) string {
	t.Helper()
	var out []string
	add := func(r state.Row) {
		data, err := state.EncodeRow(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	for _, v := range s.Instances {
		add(v.Instance)
		var on []string
		for _, t := range v.Tasks {
			on = append(on, t.ID)
		}
		slices.Sort(on)
		out = append(out, fmt.Sprint(v.ID, v.CPU, v.Memory, v.GPUs, v.ENIs, len(v.Ports), on))
	}
	for task := range s.Tasks() {
		add(task)
	}
	for _, x := range s.Services {
		add(x)
		out = append(out, fmt.Sprint(s.SpreadOf(x.Short, "").InstanceCount(), s.SpreadOf(x.Short, "").Zones()))
	}
	slices.Sort(out)
	return fmt.Sprintf("%x %v", sha256.Sum256([]byte(strings.Join(out, "\n"))), s.Meta)
}

// asked returns the answer in words, and checks that the cluster is unchanged.
func asked(t *testing.T, s *snapshot.Snapshot, q whatif.Question) string {
	t.Helper()
	before := hash(t, s)
	a, err := whatif.Ask(s, &q)
	if err != nil {
		t.Fatal(err)
	}
	if hash(t, s) != before {
		t.Error("the question changed the cluster")
	}
	return text(t, a.Print)
}

func text(t *testing.T, printText func(io.Writer) error) string {
	t.Helper()
	var out strings.Builder
	if err := printText(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func golden(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("other words:\n%s", diff)
	}
}

func TestAsk(t *testing.T) {
	distinct := cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}}
	for _, c := range []struct {
		name string
		ask  whatif.Question
		want string
	}{
		{"OneOfAService", whatif.Question{Service: "web", Count: 1}, `
A task of service web would go to i-3.
  4 instances: 1 not active (DRAINING); of the 3 that can run it, i-3 has the fewest tasks of the service in its zone (1, runner-up i-1: 2)
`},
		{"MoreThanOne", whatif.Question{Service: "web", Count: 3}, `
3 tasks of service web would go to i-3 (2), i-1 (1).
  The first: 4 instances: 1 not active (DRAINING); of the 3 that can run it, i-3 has the fewest tasks of the service in its zone (1, runner-up i-1: 2)
`},
		{"SomeOfThem", whatif.Question{Service: "big", Count: 3}, `
2 of 3 tasks of service big would find an instance: i-3, i-2.
  The first: 4 instances: 1 insufficient memory (needs 3000 MiB, best free 688), 1 not active (DRAINING); of the 2 that can run it, i-3 has the fewest tasks of the service in its zone (0, runner-up i-2: 1)
  The other 1: 0/4: 3 insufficient memory (needs 3000 MiB, best free 688), 1 not active (DRAINING)
`},
		{"NoneOfADefinition", whatif.Question{Definition: "web", Count: 1, Rules: cluster.Rules{NodeConstraint: "NodeName == i-9"}}, `
A task of web:1 would find no instance.
  4 instances: 3 constraint not met (NodeName == i-9), 1 not active (DRAINING); none can run it, closest is i-1 (constraint not met)
`},
		{"ASize", whatif.Question{Needs: cluster.Resources{CPU: 1500 * units, Memory: 3400}, Count: 2, Rules: distinct, Instance: "i-1"}, `
2 tasks with 1500 CPU units, 3400 MiB would go to i-2, i-3.
  The first: 4 instances: 1 insufficient CPU (needs 1500 units, best free 1280), 1 not active (DRAINING); of the 2 that can run it, i-2 comes first by its ID; everything else is equal (runner-up i-3)
  i-1 cannot take it: insufficient CPU (needs 1500 units, best free 1280), insufficient memory (needs 3400 MiB, best free 688)
`},
		{"AnInstanceThatCould", whatif.Question{Service: "web", Count: 1, Instance: "i-2"}, `
A task of service web would go to i-3.
  4 instances: 1 not active (DRAINING); of the 3 that can run it, i-3 has the fewest tasks of the service in its zone (1, runner-up i-1: 2)
  i-2 could take it, but i-3 has the fewest tasks of the service in its zone (1, i-2: 2)
`},
		{"TheInstanceItIs", whatif.Question{Service: "web", Count: 1, Instance: "i-3", Rules: distinct}, `
A task of service web would find no instance.
  4 instances: 3 already have one, 1 not active (DRAINING); none can run it, closest is i-1 (already has one)
  i-3 cannot take it: already has one
`},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, asked(t, snapshotOf(t, rows()), c.ask), c.want) })
	}
}

// During an update, as in placement, only the new deployment's tasks count.
func TestAskDuringAnUpdate(t *testing.T) {
	begun := rows()
	for n, deployment := range []string{"old", "old", "new"} {
		begun[8+n].(*cluster.Task).Revision = deployment
	}
	web := begun[6].(*cluster.Service)
	web.Deployment.ID = "new"
	web.Older = []cluster.Deployment{{Revision: cluster.Revision{ID: "old", TaskDefinition: "web:1"}}}
	golden(t, asked(t, snapshotOf(t, begun), whatif.Question{Service: "web", Count: 1, Instance: "i-3"}), `
A task of service web would go to i-1.
  4 instances: 1 not active (DRAINING); of the 3 that can run it, i-1 is the tightest fit (1280 CPU units and 688 MiB free, runner-up i-2: 1792 CPU units and 3688 MiB free)
  i-3 could take it, but i-1 has the fewest tasks of the deployment in its zone (0, i-3: 1)
`)
}

// Tolerations of the question replace those of the service: each lets tasks on one tainted instance.
func TestAskWithTolerations(t *testing.T) {
	cluster4 := rows()
	for n, taint := range map[int]string{2: "dedicated:gpu:NO_SCHEDULE", 3: "dedicated:db:NO_EXECUTE",
		4: "old::NO_SCHEDULE"} {
		cluster4[n].(*cluster.Instance).Attributes[cluster.AttributeTaints] = taint
	}
	s := snapshotOf(t, append(cluster4, service("tolerant", 1, cluster.Rules{Tolerations: []cluster.Toleration{
		{Key: "old", AnyValue: true}}})))
	s.Services["tolerant"].Deployment.TaskDefinition = "web:1"
	for _, c := range []struct{ service, tolerations, want string }{
		{"web", "", "would find no instance"},
		{"web", "dedicated=gpu", "would go to i-1."},
		{"web", "dedicated:NO_EXECUTE", "would go to i-2."},
		{"tolerant", "", "would go to i-3."},
		{"tolerant", "dedicated=gpu", "would go to i-1."},
		{"", "dedicated=db", "would go to i-2."},
	} {
		tolerations, err := cluster.ReadTolerations(c.tolerations)
		if err != nil {
			t.Fatal(err)
		}
		q := whatif.Question{Service: c.service, Count: 1, Rules: cluster.Rules{Tolerations: tolerations}}
		if c.service == "" {
			q.Needs = cluster.Resources{CPU: units}
		}
		if got := asked(t, s, q); !strings.Contains(got, c.want) {
			t.Errorf("%q with %q: %s, want %s", c.service, c.tolerations, got, c.want)
		}
	}
}

func TestAskKnowsWhatIsThere(t *testing.T) {
	s := snapshotOf(t, rows())
	for _, c := range []struct {
		ask  whatif.Question
		want string
	}{
		{whatif.Question{Service: "api", Count: 1}, `service "api" is not in the cluster, expected one of: big, web`},
		{whatif.Question{Definition: "api:3", Count: 1},
			`task definition "api:3" is not in the cluster, expected one of: big:1, web:1`},
		{whatif.Question{Service: "web", Count: 1, Instance: "i-7"},
			`instance "i-7" is not in the cluster, expected one of: i-1, i-2, i-3, i-4; did you mean "i-1"?`},
	} {
		_, err := whatif.Ask(s, &c.ask)
		if missing := new(whatif.NotFound); !errors.As(err, &missing) || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	many := &whatif.NotFound{Kind: "task", Name: "x", Known: strings.Fields("a b c d e f g h i j k l")}
	if want := `task "x" is not in the cluster, expected one of: a, b, c, d, e, f, g, h, i, j, 2 more`; many.Error() != want {
		t.Errorf("got %s", many)
	}
	for name, want := range map[string]string{
		"aa":     `task "aa" is too short, expected at least 6 characters of an id`,
		"aabbcc": `task "aabbcc" is the beginning of 2 ids, expected more characters`,
	} {
		begun := &whatif.NotFound{Kind: "task", Name: name, Known: []string{"aabbcc00", "aabbcc11", "bb"}}
		if begun.Error() != want {
			t.Errorf("got %s", begun)
		}
	}
	none := &whatif.NotFound{Kind: "task", Name: "x"}
	if want := `task "x" is not in the cluster, which has none`; none.Error() != want {
		t.Errorf("got %s", none)
	}
}

// crowded returns two instances for 100 connections each, each with a task of 30. A task of 90 fits
// only after a move.
func crowded() []state.Row {
	capacity := map[string]int64{"connections": 100}
	return []state.Row{
		definition("web", cluster.Resources{CPU: 256 * units, Memory: 512}),
		definition("big", cluster.Resources{CPU: 256 * units, Memory: 512}),
		instance("i-1", "a", capacity), instance("i-2", "b", capacity),
		service("web", 2, cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 30}}}),
		service("big", 1, cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 90}}}),
		task("web", 1, "i-1"), task("web", 2, "i-2"),
	}
}

func TestMoves(t *testing.T) {
	t.Run("NothingToMove", func(t *testing.T) {
		golden(t, asked(t, snapshotOf(t, rows()), whatif.Question{Moves: true}),
			"No task has to move: no rule is broken.\n")
	})
	t.Run("MakeRoom", func(t *testing.T) {
		got := asked(t, snapshotOf(t, crowded()), whatif.Question{Service: "big", Count: 1, Moves: true})
		got, _, _ = strings.Cut(got, ", to make room") // who for is the plan's to say
		golden(t, got, `
A task of service big would find no instance.
  2 instances: 2 insufficient metric capacity (connections: needs 90, best free 70); none can run it, closest is i-1 (insufficient metric capacity)
No task has to move: no rule is broken.
With these moves, 1 of 1 tasks would find an instance: i-1. Berth makes these moves by itself.
  1. task t-1 of web: i-1 to i-2 (start first): connections on i-1 goes from 30 to 90 of 100`)
	})
	t.Run("MakeRoomNamesWhoFor", func(t *testing.T) {
		plain := append(crowded(), definition("plain", cluster.Resources{CPU: 2048 * units}),
			service("plain", 1, cluster.Rules{}))
		for _, c := range []struct {
			question whatif.Question
			want     string
		}{
			{whatif.Question{Service: "plain"}, "to make room for a task of service plain that has no instance yet"},
			{whatif.Question{Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 90}}}},
				"to make room for a task of this size that has no instance yet"},
		} {
			c.question.Count, c.question.Moves = 1, true
			if got := asked(t, snapshotOf(t, plain), c.question); !strings.Contains(got, c.want) {
				t.Errorf("%q is missing in\n%s", c.want, got)
			}
		}
	})
	t.Run("RepairWhatIsBroken", func(t *testing.T) {
		broken := crowded()
		broken[6].(*cluster.Task).Reported = map[string]int64{"connections": 60}
		broken[7].(*cluster.Task).Instance = "i-1"
		broken[7].(*cluster.Task).Reported = map[string]int64{"connections": 50}
		golden(t, asked(t, snapshotOf(t, broken), whatif.Question{Moves: true}), `
Moves that the cluster would make:
  1. task t-1 of web: i-1 to i-2 (start first): connections on i-1 goes from 110 to 50 of 100; connections on i-2 goes from 0 to 60 of 100
`)
	})
	t.Run("MakeNoRoom", func(t *testing.T) {
		got := asked(t, snapshotOf(t, rows()), whatif.Question{Service: "big", Count: 9, Moves: true})
		want := "\nNo moves were found that make room. Berth moves only tasks of services under domain or metric rules.\n"
		if !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want it to end with %q", got, want)
		}
	})
	t.Run("WhatNoneMends", func(t *testing.T) {
		broken := crowded()
		broken[4].(*cluster.Service).Rules.NodeConstraint = "NodeName == i-9"
		golden(t, asked(t, snapshotOf(t, broken), whatif.Question{Moves: true}), `
No set of moves fixes these violations.
  stays broken: web: task t-1 is on instance i-1, which its constraints no longer allow
  stays broken: web: task t-2 is on instance i-2, which its constraints no longer allow
`)
	})
	t.Run("UnderWay", func(t *testing.T) {
		next := task("web", 9, "i-2")
		next.Replaces = "t-1"
		golden(t, asked(t, snapshotOf(t, append(rows(), next)), whatif.Question{Moves: true}), `
Moves in progress; until they are over, none starts for their services and instances:
  task t-1 of web on i-1, by task t-9 on i-2
No task has to move: no rule is broken.
`)
	})
}

func TestTraced(t *testing.T) {
	s := whatif.SnapshotOfNodes([]trace.Node{
		{Name: "n-1", CPUMilli: 1000, MemoryMiB: 2048, GPUs: 2, Model: "T4"},
		{Name: "n-2", CPUMilli: 1000, MemoryMiB: 2048, GPUs: 1, Model: "V100"},
	})
	golden(t, asked(t, s, whatif.Question{
		Needs: cluster.Resources{CPU: 1024 * units, GPUs: 1, GPUMilli: 500}, Count: 1, Instance: "n-2",
		Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
			Expression: "attribute:gpu-model == T4"}}},
	}), `
A task with 1024 CPU units, 0.5 of a GPU would go to n-1, GPU 0.
  2 instances: 1 constraint not met (attribute:gpu-model == T4); only n-1 can run it
  n-2 cannot take it: constraint not met (attribute:gpu-model == T4)
`)
}

func TestSavedRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"WhatIsNoRow": {"\n{\"sort\":\"meta\",\"row\":{}}\nhello\n", `line 3: "hello" is no row`},
		"WhatHasNone": {"{}\n", `line 1: "{}" is no row`},
		"ACutFile": {`{"cluster":"prod","at":"2026-11-21T12:00:00Z","rows":2}` + "\n" + `{"sort":"meta","row":{}}`,
			"it has 1 of 2 rows"},
		"NoRows":  {"\n", "it has 0 of 1 rows"},
		"TooLong": {strings.Repeat("x", 2<<20), "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := whatif.ReadSaved(strings.NewReader(c.file), func(int) {}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := whatif.BuildSnapshot([]berthapi.Row{{Sort: "nothing#1", Row: []byte("{}")}}); err == nil ||
		!strings.Contains(err.Error(), "nothing#1") {
		t.Errorf("a row of no kind: %v", err)
	}
}

// Room that is kept for a DAEMON service is free for its own task only, as it is for placement.
func TestRoomKeptForDaemons(t *testing.T) {
	daemon := service("big", 1, cluster.Rules{})
	daemon.Strategy = cluster.Daemon
	snap := snapshotOf(t, []state.Row{
		definition("web", cluster.Resources{CPU: 256 * units, Memory: 512}),
		definition("big", cluster.Resources{CPU: 512 * units, Memory: 3000}),
		instance("i-1", "a", nil), service("web", 3, cluster.Rules{}), daemon,
		task("web", 1, "i-1"), task("web", 2, "i-1"),
	})
	for name, placed := range map[string]int{"web": 0, "big": 1} {
		got, err := whatif.Ask(snap, &whatif.Question{Service: name, Count: 1})
		if err != nil || len(got.Placed) != placed {
			t.Errorf("%s: %+v, %v, want %d placed", name, got, err, placed)
		}
	}
	if text := whyService(t, snap, "web"); !strings.Contains(text, "A task of service web would find no instance.") {
		t.Errorf("explained:\n%s", text)
	}
	if text := whyService(t, snap, "big"); !strings.Contains(text, "A task of service big would go to i-1.") {
		t.Errorf("explained:\n%s", text)
	}
}
