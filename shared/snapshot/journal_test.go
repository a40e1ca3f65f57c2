package snapshot_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// changes returns what the journal has since seq, as "index owner", each once.
func changes(s *snapshot.Snapshot, seq uint64) map[string]bool {
	out := map[string]bool{}
	s.ChangedSince(seq, func(index int, owner *snapshot.Owner) {
		name := ""
		if owner != nil {
			name = owner.Name()
		}
		out[fmt.Sprint(index, " ", name)] = true
	})
	return out
}

// face returns all that placement reads of the instance at an index.
func face(s *snapshot.Snapshot, index int) string {
	if index >= len(s.InstancesByIndex()) || s.InstancesByIndex()[index] == nil {
		return "nothing"
	}
	v := s.InstancesByIndex()[index]
	var groups []string
	v.Facts().Groups(func(g string) bool { groups = append(groups, g); return true })
	slices.Sort(groups)
	web := s.SpreadOf("web", "")
	loads := metricPicture(s)
	maps.DeleteFunc(loads, func(key, _ string) bool { return key[:len(v.ID)] != v.ID })
	return fmt.Sprint(v.ID, v.Instance != nil, v.StaticRev, v.CPU, v.Memory, v.GPUs, v.Unpinned, v.ENIs,
		sorted(v.Ports), len(v.Tasks), v.Zone(),
		groups, v.Facts().RunningTasks(), web.TasksOn(v), s.SpreadOf("web", "g").TasksOn(v), loads)
}

func faces(s *snapshot.Snapshot) []string {
	out := make([]string, 16)
	for i := range out {
		out[i] = face(s, i)
	}
	return out
}

// genChange draws a newer version of a row, or the removal of one.
func genChange(t *rapid.T, rev int64) state.Record {
	var row state.Row
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0, 1:
		i := capable(fmt.Sprintf("i-%d", rapid.IntRange(0, 3).Draw(t, "instance")), rev, genAmounts(t))
		i.Status = rapid.SampledFrom([]cluster.InstanceStatus{cluster.InstanceActive, cluster.InstanceInactive}).Draw(t,
			"status")
		row = i
	case 2:
		row = web(rev, genMetrics(t)...)
	case 3:
		row = configured(rev, func(c *cluster.Configuration) {
			c.NodeTypes["big"] = cluster.NodeType{Capacities: genAmounts(t)}
			c.Buffer = map[string]float64{"m0": rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "buffer")}
		})
	default:
		x := genTask(t, fmt.Sprintf("t-%d", rapid.IntRange(0, 5).Draw(t, "task")), rev)
		x.Desired, x.Needs.ENIs = cluster.TaskRunning, rapid.Int32Range(0, 1).Draw(t, "interfaces")
		if rapid.Bool().Draw(t, "of the service") {
			x.Service, x.Reported = "web", genAmounts(t)
		}
		row = x
	}
	if rapid.IntRange(0, 4).Draw(t, "removed") == 0 {
		return state.Record{Op: state.Remove, Old: row}
	}
	return state.Record{Op: state.Modify, New: row}
}

// A reader of the journal misses no change of an instance, whatever rows come in.
func TestJournalHasEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot.NewSnapshot()
		for n := range rapid.IntRange(1, 30).Draw(t, "records") {
			before, seq := faces(s), s.ChangeSeq()
			s.ApplyRecord(genChange(t, int64(n+1)))
			told := map[int]bool{}
			if !s.ChangedSince(seq, func(index int, _ *snapshot.Owner) { told[index] = true }) {
				t.Fatal("the journal forgot at once")
			}
			for i, after := range faces(s) {
				if after != before[i] && !told[i] {
					t.Fatalf("instance %d was\n%s\nand is\n%s\nwhich the journal does not tell", i, before[i], after)
				}
			}
		}
	})
}

func TestJournal(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(instance("i-1", "a", 1))
	s.Put(instance("i-2", "a", 1))
	s.Put(web(1, cluster.Metric{Name: "rps", Load: 1}))
	one, two := s.Instances["i-1"].Index, s.Instances["i-2"].Index
	told := func(what string, row state.Row, want ...string) {
		t.Helper()
		seq := s.ChangeSeq()
		s.Put(row)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(changes(s, seq)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	told("a task", ofWeb("t", "i-1", 1), fmt.Sprint(one, " web"))
	told("one more report of it", ofWeb("t", "i-1", 2))
	reported := ofWeb("t", "i-1", 3)
	reported.Health, reported.ECSID, reported.Attempt = cluster.Unhealthy, "e", 3
	told("what placement does not look at", reported)
	told("elsewhere", ofWeb("t", "i-2", 4), fmt.Sprint(one, " web"), fmt.Sprint(two, " web"))
	told("the same instance again", instance("i-1", "a", 2))
	told("another zone", instance("i-1", "b", 3), fmt.Sprint(one, " "))
	told("a default load", web(2, cluster.Metric{Name: "rps", Load: 2}), fmt.Sprint(two, " "))

	for what, edit := range map[string]func(*cluster.Task){
		"Group":    func(x *cluster.Task) { x.Group = "family:job" },
		"Service":  func(x *cluster.Task) { x.Service = "" },
		"Needs":    func(x *cluster.Task) { x.Needs.Memory++ },
		"Ports":    func(x *cluster.Task) { x.Ports = []cluster.Port{http} },
		"Devices":  func(x *cluster.Task) { x.GPUs = []int{1} },
		"Loads":    func(x *cluster.Task) { x.Reported = map[string]int64{"rps": 2} },
		"Running":  func(x *cluster.Task) { x.Last = "" },
		"Stopping": func(x *cluster.Task) { x.Desired = cluster.TaskStopped },
		"Stopped":  func(x *cluster.Task) { x.Last = cluster.TaskStopped },
	} {
		t.Run("Records"+what, func(t *testing.T) {
			s := snapshot.NewSnapshot()
			s.Put(ofWeb("t", "i-1", 1))
			next, seq := ofWeb("t", "i-1", 2), s.ChangeSeq()
			edit(next)
			s.Put(next)
			if told := changes(s, seq); !told["0 web"] {
				t.Errorf("it told of %v", told)
			}
		})
	}
	t.Run("ForgetsOldChanges", func(t *testing.T) {
		seq := s.ChangeSeq()
		for rev := range int64(40_000) {
			s.Put(ofWeb("t", []string{"i-1", "i-2"}[rev%2], rev+10))
		}
		expect(t, "long ago", s.ChangedSince(seq, func(int, *snapshot.Owner) { t.Fatal("told of a change") }), false)
		n := 0
		expect(t, "recently", s.ChangedSince(s.ChangeSeq()-30_000, func(int, *snapshot.Owner) { n++ }), true)
		expect(t, "changes", n, 30_000)
		expect(t, "now", s.ChangedSince(s.ChangeSeq(), func(int, *snapshot.Owner) { t.Fatal("told of a change") }), true)
		expect(t, "of another snapshot", s.ChangedSince(s.ChangeSeq()+1, func(int, *snapshot.Owner) {}), false)
	})
}

// Tasks that come and go leave nothing behind.
func TestPlacingAndRemovingRestoresTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot.NewSnapshot()
		for n := range rapid.IntRange(0, 20).Draw(t, "records") {
			s.ApplyRecord(genChange(t, int64(n+1)))
		}
		before := whole(s)
		var placed []*cluster.Task
		for n := range rapid.IntRange(1, 6).Draw(t, "placed") {
			x := genTask(t, fmt.Sprintf("new-%d", n), 100)
			x.Owner = rapid.SampledFrom([]string{"web", "other"}).Draw(t, "owner")
			x.Service, x.Reported = "web", genAmounts(t)
			placed = append(placed, x)
			s.Put(x)
		}
		for _, x := range rapid.Permutation(placed).Draw(t, "order") {
			s.ApplyRecord(state.Record{Op: state.Remove, Old: x})
		}
		if diff := cmp.Diff(before, whole(s)); diff != "" {
			t.Fatalf("before (-) and after (+) differ:\n%s", diff)
		}
	})
}

// whole returns everything that a snapshot says, except positions.
func whole(s *snapshot.Snapshot) map[string]string {
	out := picture(s)
	maps.Copy(out, metricPicture(s))
	for id, v := range s.Instances {
		out["face "+id] = face(s, v.Index)
		var ids []string
		for _, x := range v.Tasks {
			ids = append(ids, x.ID)
		}
		slices.Sort(ids)
		out["tasks "+id] = fmt.Sprint(ids)
	}
	for x := range s.Tasks() {
		out["task "+x.Owner+x.ID] = fmt.Sprintf("%+v", *x)
	}
	out["other"] = fmt.Sprint(len(s.TasksOf("other")), s.SpreadOf("other", "").InstanceCount())
	return out
}

func TestInstanceIndexes(t *testing.T) {
	s := snapshot.NewSnapshot()
	for n := range 3 {
		s.Put(instance(fmt.Sprintf("i-%d", n), "a", 1))
	}
	at := s.Instances["i-1"].Index
	s.ApplyRecord(state.Record{Op: state.Remove, Old: instance("i-1", "a", 1)})
	if s.InstancesByIndex()[at] != nil || len(s.InstancesByIndex()) != 3 {
		t.Fatalf("position %d of %d has %v", at, len(s.InstancesByIndex()), s.InstancesByIndex()[at])
	}
	s.Put(running("t", "i-9", 1))
	expect(t, "taken again", s.Instances["i-9"].Index, at)
	s.Put(instance("i-9", "b", 1))
	expect(t, "kept", s.Instances["i-9"].Index, at)
	for i, v := range s.InstancesByIndex() {
		expect(t, "index", v.Index, i)
	}
}

func TestStaticRev(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(capable("i-1", 1, nil))
	s.Put(instance("i-2", "a", 1))
	other := s.Instances["i-2"].StaticRev
	changed := func(row state.Row) bool {
		was := s.Instances["i-1"].StaticRev
		s.Put(row)
		return s.Instances["i-1"].StaticRev != was
	}
	properties := func(rev int64, kind string) *cluster.Configuration {
		return configured(rev, func(c *cluster.Configuration) {
			c.NodeTypes[kind] = cluster.NodeType{Properties: map[string]string{"disk": "ssd"}}
		})
	}
	expect(t, "a task", changed(running("t", "i-1", 1)), false)
	expect(t, "the same row", changed(capable("i-1", 2, nil)), false)
	later := capable("i-1", 3, nil)
	later.RegisteredAt = cluster.At(time.Unix(5, 0))
	expect(t, "registered again", changed(later), true)
	expect(t, "another capacity", changed(capable("i-1", 4, map[string]int64{"rps": 1})), true)
	expect(t, "its node type", changed(properties(1, "big")), true)
	expect(t, "the same node type", changed(properties(2, "big")), false)
	expect(t, "another node type as well", changed(properties(3, "small")), true)
	if s.Instances["i-2"].StaticRev != other || other == s.Instances["i-1"].StaticRev {
		t.Error("the other instance's changed, or is the same as this one's")
	}
}

func TestPortsInUse(t *testing.T) {
	s := snapshot.NewSnapshot()
	for n, number := range []int{80, 81} {
		id := fmt.Sprintf("i-%d", n)
		i := instance(id, "a", 1)
		// with spare capacity behind it, in a slice that rows share
		i.Registered.Ports = append(make([]cluster.Port, 0, 8), ssh)
		s.Put(i)
		x := running("t"+id, id, 1)
		x.Ports = []cluster.Port{{Number: number, Protocol: cluster.TCP}}
		s.Put(x)
	}
	uses := func(id string) string {
		v := s.Instances[id]
		return fmt.Sprint(v.UsesPort(ssh), v.UsesPort(http),
			v.UsesPort(cluster.Port{Number: 81, Protocol: cluster.TCP}),
			v.UsesPort(cluster.Port{Number: 80, Protocol: cluster.UDP}))
	}
	expect(t, "i-0", uses("i-0"), "true true false false")
	expect(t, "i-1", uses("i-1"), "true false true false")
	s.ApplyRecord(state.Record{Op: state.Remove, Old: running("ti-0", "i-0", 1)})
	expect(t, "i-0 without its task", uses("i-0"), "true false false false")
	expect(t, "reserved", len(s.Instances["i-0"].Registered.Ports), 1)
}

func TestNetworkInterfaces(t *testing.T) {
	s := snapshot.NewSnapshot()
	awsvpc := func(id string) *cluster.Task {
		x := running(id, "i-1", 1)
		x.Needs.ENIs = 1
		return x
	}
	s.Put(awsvpc("t"))
	s.Put(instance("i-1", "a", 1))
	expect(t, "no limit", s.Instances["i-1"].ENIs, math.MaxInt)
	limited := instance("i-1", "a", 2)
	limited.Registered.ENIs = new(3)
	s.Put(limited)
	expect(t, "one taken", s.Instances["i-1"].ENIs, 2)
	s.Put(awsvpc("u"))
	expect(t, "two taken", s.Instances["i-1"].ENIs, 1)
	s.ApplyRecord(state.Record{Op: state.Remove, Old: awsvpc("t")})
	expect(t, "one given back", s.Instances["i-1"].ENIs, 2)
}

func TestFacts(t *testing.T) {
	s := snapshot.NewSnapshot()
	pending := running("p", "i-1", 1)
	pending.Last, pending.Group = "", "family:job"
	stopping := running("s", "i-1", 1)
	stopping.Desired, stopping.Group = cluster.TaskStopped, "family:gone"
	for _, row := range []state.Row{running("t", "i-1", 1), pending, stopping} {
		s.Put(row)
	}
	f := s.Instances["i-1"].Facts()
	if _, ok := f.Attribute(cluster.AttributeZone); ok || f.AgentConnected() || f.AgentVersion() != "" ||
		!f.RegisteredAt().IsZero() {
		t.Error("an instance of which only tasks are known has facts")
	}
	i := capable("i-1", 1, nil)
	i.EC2InstanceID, i.AgentVersion, i.RegisteredAt = "i-0abc", "1.97.1", cluster.At(time.Unix(5, 0))
	s.Put(i)
	s.Put(configured(1, func(c *cluster.Configuration) {
		c.NodeTypes["big"] = cluster.NodeType{Properties: map[string]string{"disk": "ssd"}}
	}))
	zone, _ := f.Attribute(cluster.AttributeZone)
	disk, _ := f.Property("disk")
	expect(t, "row", fmt.Sprint(zone, " ", disk, " ", f.AgentConnected(), " ", f.AgentVersion(), " ", f.EC2InstanceID(),
		" ", f.RegisteredAt().Unix()), "a ssd true 1.97.1 i-0abc 5")
	if _, ok := f.Attribute("none"); ok {
		t.Error("it has an attribute that nobody gave it")
	}
	expect(t, "running", f.RunningTasks(), 2)
	groups := slices.Sorted(f.Groups)
	expect(t, "groups", fmt.Sprint(groups), "[family:job service:web]")
}
