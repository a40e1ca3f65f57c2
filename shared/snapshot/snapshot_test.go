package snapshot_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

func instance(id, zone string, rev int64) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: rev}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: 2 * cluster.VCPU, Memory: 4096, GPUs: []string{"g0", "g1"},
			Ports: []cluster.Port{ssh}},
		Attributes: map[string]string{cluster.AttributeZone: zone},
	}
}

func running(id, instance string, rev int64) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: rev},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: "web", Group: "service:web",
			Needs: cluster.Resources{CPU: cluster.VCPU, Memory: 1024},
		},
		TaskAssignment: cluster.TaskAssignment{Instance: instance, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}
}

var (
	ssh  = cluster.Port{Number: 22, Protocol: cluster.TCP}
	http = cluster.Port{Number: 80, Protocol: cluster.TCP}
)

func TestSnapshotDerivesWhatIsFree(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(instance("i-1", "a", 1))
	v := s.Instances["i-1"]
	free := func() string {
		return fmt.Sprint(v.CPU/cluster.VCPU, v.Memory, v.GPUs, v.Unpinned, len(v.Ports), len(v.Tasks))
	}
	expect(t, "empty", free(), "2 4096 [1000 1000] 0 1 0")

	held := running("t", "i-1", 1)
	held.Needs.GPUs, held.Needs.GPUMilli, held.GPUs, held.Ports = 1, 400, []int{1}, []cluster.Port{http}
	s.Put(held)
	expect(t, "held", free(), "1 3072 [1000 600] 0 2 1")

	foreign := running("f", "i-1", 1)
	foreign.Needs, foreign.Foreign = cluster.Resources{GPUs: 1}, true
	s.Put(foreign)
	expect(t, "unpinned", free(), "1 3072 [1000 600] 1 2 2")

	stopping := *held
	stopping.Rev, stopping.Desired = 2, cluster.TaskStopped
	s.Put(&stopping)
	expect(t, "stopping still holds", free(), "1 3072 [1000 600] 1 2 2")

	smaller := *instance("i-1", "a", 2)
	smaller.Registered = cluster.Capacity{CPU: cluster.VCPU, Memory: 512, GPUs: []string{"g0"}}
	s.Put(&smaller)
	expect(t, "smaller", free(), "0 -512 [1000] 1 1 2")

	stopped := stopping
	stopped.Rev, stopped.Last = 3, cluster.TaskStopped
	s.Put(&stopped)
	expect(t, "stopped", free(), "1 512 [1000] 1 0 1")
	expect(t, "is still known", len(s.TasksOf("web")), 2)
}

func TestSnapshotAddsInstancesForTheirTasks(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(running("t", "i-1", 1))
	v := s.Instances["i-1"]
	if v == nil || v.Instance != nil || v.Zone() != "" || len(s.Zones()) != 0 {
		t.Fatalf("view %+v, zones %v", v, s.Zones())
	}
	s.Put(instance("i-1", "a", 1))
	expect(t, "zone", s.SpreadOf("web", "").Zones()["a"], 1)
	expect(t, "free", v.Memory, 3072)
	s.ApplyRecord(state.Record{Op: state.Remove, Old: instance("i-1", "a", 1)})
	expect(t, "instances while a task is there", len(s.Instances), 1)
	expect(t, "zones", len(s.SpreadOf("web", "").Zones()), 0)
	s.ApplyRecord(state.Record{Op: state.Remove, Old: running("t", "i-1", 1)})
	expect(t, "instances", len(s.Instances), 0)
	s.Put(instance("i-2", "a", 1))
	s.ApplyRecord(state.Record{Op: state.Remove, Old: instance("i-2", "a", 1)})
	expect(t, "instances without tasks", len(s.Instances), 0)
}

func TestSnapshotFollowsThePlacementVersion(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(&state.Meta{Head: cluster.Head{Cluster: "c", Rev: 9}, Version: 7})
	see := func(stamp int64) int64 {
		i := instance("i-1", "a", stamp)
		i.Stamp = stamp
		s.ApplyRecord(state.Record{Op: state.Modify, New: i})
		return s.Meta.Version
	}
	expect(t, "next", see(8), 8)
	expect(t, "one left out", see(10), 8)
	expect(t, "none", see(0), 8)
	expect(t, "seen again", see(8), 8)
	expect(t, "older meta", s.Put(&state.Meta{Version: 6}), false)
	expect(t, "version", s.Meta.Version, 8)
}

func TestSnapshotIgnoresOlderRows(t *testing.T) {
	for name, row := range map[string]func(rev int64) state.Row{
		"Instance": func(rev int64) state.Row { return instance("i-1", "a", rev) },
		"Task":     func(rev int64) state.Row { return running("t", "i-1", rev) },
		"Service": func(rev int64) state.Row {
			return &cluster.Service{
				Head:            cluster.Head{Rev: rev},
				ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
			}
		},
		"Request": func(rev int64) state.Row { return &state.Request{Head: cluster.Head{Rev: rev}, ID: "r"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot.NewSnapshot()
			expect(t, "first", s.Put(row(3)), true)
			expect(t, "same", s.Put(row(3)), false)
			expect(t, "older", s.Put(row(2)), false)
			expect(t, "newer", s.Put(row(4)), true)
			expect(t, "removal", s.ApplyRecord(state.Record{Op: state.Remove, Old: row(5)}), true)
			expect(t, "again", s.Put(row(1)), true)
		})
	}
	t.Run("OlderRemoval", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		s.Put(running("t", "i-1", 3))
		expect(t, "removal", s.ApplyRecord(state.Record{Op: state.Remove, Old: running("t", "i-1", 2)}), false)
		expect(t, "tasks", s.TaskCount(), 1)
	})
	// A stop does not read the row, so the snapshot's Rev of it may be lower than that of an
	// earlier report.
	t.Run("EarlierReportOfAStoppingTask", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		stopping := running("t", "i-1", 3)
		stopping.Desired, stopping.StopCode = cluster.TaskStopped, cluster.StopByScheduler
		s.Put(stopping)
		reported := running("t", "i-1", 4)
		reported.Health = cluster.Healthy
		expect(t, "report", s.Put(reported), true)
		got := s.Task("web", "t")
		expect(t, "health", got.Health, cluster.Healthy)
		expect(t, "desired", got.Desired, cluster.TaskStopped)
		expect(t, "code", got.StopCode, cluster.StopByScheduler)
		expect(t, "given", reported.Desired, cluster.TaskRunning)
	})
	t.Run("Definition", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		s.Put(&cluster.TaskDefinition{Head: cluster.Head{Rev: 2}, Family: "f", Revision: 1, Inactive: true})
		expect(t, "older", s.Put(&cluster.TaskDefinition{Head: cluster.Head{Rev: 1}, Family: "f", Revision: 1}), false)
		expect(t, "inactive", s.Definitions["f:1"].Inactive, true)
	})
	t.Run("NoOtherRows", func(t *testing.T) {
		expect(t, "outbox", snapshot.NewSnapshot().Put(&state.Outbox{ID: "o"}), false)
	})
}

func TestSnapshotKeepsUnansweredRequestsOnly(t *testing.T) {
	s := snapshot.NewSnapshot()
	r := &state.Request{Head: cluster.Head{Rev: 1}, ID: "r"}
	s.Put(r)
	expect(t, "asked", len(s.Requests), 1)
	done := *r
	done.Rev, done.Answered = 2, true
	s.Put(&done)
	expect(t, "answered", len(s.Requests), 0)
}

func TestSnapshotIndexesServices(t *testing.T) {
	s := snapshot.NewSnapshot()
	blocked := &cluster.Service{
		Head:            cluster.Head{Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "b"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Daemon},
		ServiceStatus:   cluster.ServiceStatus{Blocked: &cluster.Diagnosis{}},
	}
	s.Put(blocked)
	s.Put(&cluster.Service{
		Head:            cluster.Head{Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "r"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica},
	})
	expect(t, "blocked", fmt.Sprint(len(s.BlockedServices()), len(s.DaemonServices())), "1 1")
	free := *blocked
	free.Rev, free.Blocked = 2, nil
	s.Put(&free)
	expect(t, "freed", fmt.Sprint(len(s.BlockedServices()), len(s.DaemonServices())), "0 1")
	s.ApplyRecord(state.Record{Op: state.Remove, Old: &free})
	expect(t, "removed", fmt.Sprint(len(s.Services), len(s.DaemonServices())), "1 0")
}

func TestSnapshotDropsExpiredRows(t *testing.T) {
	s := snapshot.NewSnapshot()
	at := func(expires int64, id string) *cluster.Task {
		x := running(id, "i-1", 1)
		x.Last, x.Expires = cluster.TaskStopped, expires
		return x
	}
	s.Put(&state.Request{Head: cluster.Head{Rev: 2, Expires: 86400}, ID: "r",
		RequestAnswer: state.RequestAnswer{Answered: true}})
	s.Put(at(300, "late"))
	s.Put(at(100, "early"))
	s.Put(running("stays", "i-1", 1))
	left := func(now int64) int {
		s.DropExpired(time.Unix(now, 0))
		return s.TaskCount()
	}
	expect(t, "before any is due", left(99), 3)
	expect(t, "the earlier, though it came later", left(100), 2)
	revived := at(0, "late")
	revived.Rev = 2
	s.Put(revived)
	expect(t, "not one written since", left(1000), 2)
}

// world draws rows, several states of each, and the last state of each that is not removed.
func genHistory(t *rapid.T) (all []state.Row, last map[state.Key]state.Row) {
	last = map[state.Key]state.Row{}
	for n := range rapid.IntRange(0, 5).Draw(t, "instances") {
		for rev := range rapid.Int64Range(1, 3).Draw(t, "revs") {
			i := instance(fmt.Sprintf("i-%d", n), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"), rev+1)
			i.Registered.CPU = rapid.Int64Range(0, 3).Draw(t, "cpu") * cluster.VCPU
			i.Registered.GPUs = i.Registered.GPUs[:rapid.IntRange(0, 2).Draw(t, "gpus")]
			i.Status = rapid.SampledFrom([]cluster.InstanceStatus{cluster.InstanceActive,
				cluster.InstanceInactive}).Draw(t, "status")
			all = append(all, i)
			last[state.KeyOf(i)] = i
		}
	}
	for n := range rapid.IntRange(0, 8).Draw(t, "tasks") {
		stopped := false // a task is never wanted again
		for rev := range rapid.Int64Range(1, 3).Draw(t, "revs") {
			x := genTask(t, fmt.Sprintf("t-%d", n), rev+1)
			if stopped = stopped || x.Desired == cluster.TaskStopped; stopped {
				x.Desired = cluster.TaskStopped
			}
			all = append(all, x)
			last[state.KeyOf(x)] = x
		}
	}
	return all, last
}

func genTask(t *rapid.T, id string, rev int64) *cluster.Task {
	x := running(id, rapid.SampledFrom([]string{"", "i-0", "i-1", "i-2", "i-9"}).Draw(t, "on"), rev)
	x.Last = rapid.SampledFrom([]cluster.TaskStatus{"", cluster.TaskRunning, cluster.TaskStopping,
		cluster.TaskStopped}).Draw(t, "last")
	x.Desired = rapid.SampledFrom([]cluster.TaskStatus{cluster.TaskRunning, cluster.TaskStopped}).Draw(t, "desired")
	x.Group = rapid.SampledFrom([]string{"", "g"}).Draw(t, "group")
	x.Revision = rapid.SampledFrom([]string{"new", "old"}).Draw(t, "deployment")
	if rapid.Bool().Draw(t, "gpu") {
		x.Needs.GPUs = 1
		x.GPUs = rapid.SampledFrom([][]int{nil, {0}, {1}}).Draw(t, "device")
	}
	if rapid.Bool().Draw(t, "port") {
		x.Ports = []cluster.Port{http}
	}
	return x
}

// Versions of rows may come in any order, late, twice or not at all. In the end the snapshot is
// what a scan of the last versions gives.
func TestSnapshotFollowsTheLastRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, last := genHistory(t)
		s := snapshot.NewSnapshot()
		for _, row := range rapid.Permutation(append(all, all...)).Draw(t, "order") {
			s.Put(row)
		}
		for _, key := range slices.SortedFunc(maps.Keys(last),
			func(a, b state.Key) int { return cmpText(a.Sort, b.Sort) }) {
			if rapid.IntRange(0, 4).Draw(t, "removed") == 0 {
				s.ApplyRecord(state.Record{Op: state.Remove, Key: key, Old: last[key]})
				delete(last, key)
			}
		}
		if diff := cmp.Diff(scan(last), picture(s)); diff != "" {
			t.Fatalf("scan (-) and snapshot (+) differ:\n%s", diff)
		}
	})
}

func cmpText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// picture returns all that a snapshot says about instances and tasks, as text.
func picture(s *snapshot.Snapshot) map[string]string {
	out := map[string]string{}
	for id, v := range s.Instances {
		out[id] = fmt.Sprint(v.CPU, v.Memory, v.GPUs, v.Unpinned, sorted(v.Ports), len(v.Tasks), v.Zone())
	}
	for _, z := range s.Zones() {
		for _, v := range z.Instances {
			out["zone "+z.Name] += v.ID + " "
		}
	}
	out["waiting"], out["owned"], out["all"] = fmt.Sprint(len(s.ProvisioningTasks())),
		fmt.Sprint(len(s.TasksOf("web"))),
		fmt.Sprint(s.TaskCount())
	out["zones"] = fmt.Sprint(len(s.Zones()))
	deployed := map[string]int{}
	for id, v := range s.Instances {
		if n := s.Owner("web").DeploymentTasksOn(v, "new"); n != 0 {
			deployed[id] = n
		}
	}
	out["deployed"] = fmt.Sprint(deployed)
	for _, group := range []string{"", "g"} {
		c, on, ending := s.SpreadOf("web", group), map[string]int{}, map[string]int{}
		for id, v := range s.Instances {
			if n := c.TasksOn(v); n != 0 {
				on[id] = n
			}
			if n := c.EndingOn(v); n != 0 {
				ending[id] = n
			}
		}
		out["spread "+group] = fmt.Sprint(c.InstanceCount(), on, ending, c.Zones())
	}
	return out
}

// scan derives the same picture from the rows alone.
func scan(rows map[state.Key]state.Row) map[string]string {
	views := map[string]*snapshot.InstanceView{}
	view := func(id string) *snapshot.InstanceView {
		if views[id] == nil {
			views[id] = &snapshot.InstanceView{ID: id}
		}
		return views[id]
	}
	zones, zone := map[string][]string{}, map[string]string{}
	for _, row := range rows {
		if i, ok := row.(*cluster.Instance); ok {
			v := view(i.ID)
			v.Instance, v.CPU, v.Memory = i, i.Registered.CPU, i.Registered.Memory
			v.GPUs = slices.Repeat([]int{1000}, len(i.Registered.GPUs))
			v.Ports = append(v.Ports, ssh)
			if i.Status != cluster.InstanceInactive {
				zone[i.ID] = i.Attributes[cluster.AttributeZone]
				zones[zone[i.ID]] = append(zones[zone[i.ID]], i.ID)
			}
		}
	}
	waiting, tasks := 0, 0
	instances, ending := map[string]map[string]int{"": {}, "g": {}}, map[string]map[string]int{"": {}, "g": {}}
	byZone, deployed := map[string]map[string]int{"": {}, "g": {}}, map[string]int{}
	for _, row := range rows {
		x, ok := row.(*cluster.Task)
		if !ok {
			continue
		}
		tasks++
		if x.Instance == "" && x.Desired == cluster.TaskRunning && x.Last != cluster.TaskStopped {
			waiting++
		}
		if x.Instance == "" || x.Last == cluster.TaskStopped {
			continue
		}
		take(view(x.Instance), x)
		for group := range instances {
			switch {
			case group != "" && group != x.Group:
			case x.Desired != cluster.TaskRunning || x.Last == cluster.TaskStopping:
				ending[group][x.Instance]++
			default:
				instances[group][x.Instance]++
				if group == "" && x.Revision == "new" {
					deployed[x.Instance]++
				}
				if name, in := zone[x.Instance]; in {
					byZone[group][name]++
				}
			}
		}
	}
	out := map[string]string{"waiting": fmt.Sprint(waiting), "owned": fmt.Sprint(tasks), "all": fmt.Sprint(tasks),
		"zones": fmt.Sprint(len(zones)), "deployed": fmt.Sprint(deployed)}
	for id, v := range views {
		out[id] = fmt.Sprint(v.CPU, v.Memory, v.GPUs, v.Unpinned, sorted(v.Ports), len(v.Tasks), zone[id])
	}
	for name, ids := range zones {
		slices.Sort(ids)
		for _, id := range ids {
			out["zone "+name] += id + " "
		}
	}
	for group := range instances {
		out["spread "+group] = fmt.Sprint(len(instances[group]), instances[group], ending[group], byZone[group])
	}
	return out
}

func sorted(ports []cluster.Port) []cluster.Port {
	return slices.SortedFunc(slices.Values(ports), func(a, b cluster.Port) int { return a.Number - b.Number })
}

func take(v *snapshot.InstanceView, x *cluster.Task) {
	v.Tasks = append(v.Tasks, x)
	v.CPU -= x.Needs.CPU
	v.Memory -= x.Needs.Memory
	if x.GPUs == nil {
		v.Unpinned += x.Needs.GPUs
	}
	for _, g := range x.GPUs {
		if g < len(v.GPUs) {
			v.GPUs[g] -= 1000
		}
	}
	v.Ports = append(v.Ports, x.Ports...)
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSnapshotCountsHealth(t *testing.T) {
	s := snapshot.NewSnapshot()
	put := func(rev int64, change func(*cluster.Task)) {
		task := &cluster.Task{
			Head:           cluster.Head{Cluster: "c", Rev: rev},
			TaskSpec:       cluster.TaskSpec{ID: "t", Owner: "o", Service: "s"},
			TaskAssignment: cluster.TaskAssignment{Instance: "i", Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
		}
		change(task)
		s.Put(task)
	}
	check := func(what string, want snapshot.HealthCounts) {
		t.Helper()
		if got := s.HealthCounts(); got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	target := func(rev int64, h cluster.Health) *cluster.Target {
		return &cluster.Target{Head: cluster.Head{Cluster: "c", Rev: rev}, Task: "t", Owner: "o",
			Registrations: []cluster.Registration{{State: cluster.Registered, Health: h}}}
	}
	put(1, func(*cluster.Task) {})
	check("nothing known", snapshot.HealthCounts{})
	put(2, func(t *cluster.Task) { t.Health = cluster.Healthy })
	check("healthy", snapshot.HealthCounts{Checked: 1})
	s.Put(target(1, cluster.Unhealthy))
	check("unhealthy in a target group", snapshot.HealthCounts{Checked: 1, Unhealthy: 1})
	s.Put(target(2, cluster.Healthy))
	check("healthy again", snapshot.HealthCounts{Checked: 1})
	put(3, func(t *cluster.Task) { t.Health = cluster.Unhealthy })
	check("unhealthy", snapshot.HealthCounts{Checked: 1, Unhealthy: 1})
	put(4, func(t *cluster.Task) { t.Health, t.Desired = cluster.Unhealthy, cluster.TaskStopped })
	check("stopping", snapshot.HealthCounts{})
	s.ApplyRecord(state.Record{Op: state.Remove, Old: target(2, cluster.Healthy)})
	check("gone", snapshot.HealthCounts{})
}

func TestSnapshotCountsProvisioningTasks(t *testing.T) {
	s := snapshot.NewSnapshot()
	task := cluster.Task{
		Head:           cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec:       cluster.TaskSpec{ID: "t", Owner: "o"},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
	s.Put(new(task))
	if got := s.ProvisioningCount("o"); got != 1 {
		t.Errorf("%d wait, want 1", got)
	}
	task.Rev, task.Instance = 2, "i"
	s.Put(new(task))
	if got := s.ProvisioningCount("o"); got != 0 {
		t.Errorf("%d wait, want 0", got)
	}
	if got := s.ProvisioningCount("nobody"); got != 0 {
		t.Errorf("%d wait, want 0", got)
	}
}

func TestSnapshotReserves(t *testing.T) {
	s := snapshot.NewSnapshot()
	s.Put(&cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: "i", Status: cluster.InstanceActive,
		Registered: cluster.Capacity{CPU: 100, Memory: 100}})
	v := s.Instances["i"]
	need := cluster.Resources{CPU: 10, Memory: 20, ENIs: 1}
	s.Reserve("a", map[*snapshot.InstanceView]cluster.Resources{v: need})
	s.Reserve("b", map[*snapshot.InstanceView]cluster.Resources{v: {CPU: 5}})
	if want := (cluster.Resources{CPU: 15, Memory: 20, ENIs: 1}); v.ReservedCapacity() != want {
		t.Errorf("reserved %+v, want %+v", v.ReservedCapacity(), want)
	}
	seq := s.ChangeSeq()
	s.Reserve("a", map[*snapshot.InstanceView]cluster.Resources{v: need})
	if s.ChangeSeq() != seq {
		t.Error("the same again is a change")
	}
	s.Reserve("a", nil)
	if want := (cluster.Resources{CPU: 5}); v.ReservedCapacity() != want {
		t.Errorf("reserved %+v once one is released, want %+v", v.ReservedCapacity(), want)
	}
	s.Put(&cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "b", Short: "b"},
	})
	s.ApplyRecord(state.Record{Op: state.Remove, Old: &cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "b", Short: "b"},
	}})
	if v.ReservedCapacity() != (cluster.Resources{}) {
		t.Errorf("reserved %+v for a service that is gone", v.ReservedCapacity())
	}
}
