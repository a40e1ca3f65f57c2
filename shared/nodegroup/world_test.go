package nodegroup_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	step      = 20 * time.Second // of the virtual clock
	oldImage  = "ami-old"
	newImage  = "ami-new"
	groupName = "asg"
)

// failure says what is wrong with launches from the new template.
type failure struct {
	code  string // of EC2: none comes up
	zone  string // only here; empty: everywhere
	after int    // so many come up before
	state string // absent, unlabelled or disconnected: it comes up, and never gets Ready
}

// vm is an instance of the simulated Auto Scaling group.
type vm struct {
	nodegroup.Instance
	emptyAt         time.Time // when its last task left
	readyAt, goneAt time.Time
	image           string
	ours            bool          // the update has asked for its termination, or made it DRAINING
	drained         time.Duration // how long it has been DRAINING
}

// tester is a test, or one run of a property.
type tester interface {
	Helper()
	Fatal(...any)
	Error(...any)
}

// world has an Auto Scaling group, its instances and their tasks, and the rows of the updates.
type world struct {
	t          tester
	now        time.Time
	group      nodegroup.Group
	made       map[string]string // launch template versions by description
	vms        map[string]*vm
	launched   int
	registered int
	failing    *failure
	slow       time.Duration // from launch to Ready
	blocked    map[string]bool
	row        []byte // the update's, as it is stored
	node       *cluster.NodeGroup
	tasks      int
	log        []string
	checker    *checker
	plant      plant
	writes     int
	acts       int
	stopsFirst bool            // services let go of tasks that have nowhere to go
	domains    int             // upgrade domains that nodes are given
	stopNodes  map[string]bool // nodes that an EC2 termination never ends
	lostAt     time.Time       // when a call of the update was last not carried out
}

// newWorld makes a world with so many instances in each of n zones, each with a daemon's task and
// two of the service web.
func newWorld(t tester, n, nodes int, c cluster.UpdateConfig) *world {
	return newWorldOf(t, n, nodes, 0, c)
}

// newWorldOf also puts its instances in upgrade domains: ud8, ud9, ud10 and so on.
func newWorldOf(t tester, n, nodes, domains int, c cluster.UpdateConfig) *world {
	w := &world{
		t: t, now: noon, made: map[string]string{}, vms: map[string]*vm{}, blocked: map[string]bool{},
		slow: time.Minute, domains: domains, stopNodes: map[string]bool{},
		group: nodegroup.Group{Name: groupName, Template: "lt:1",
			Sizes: cluster.Sizes{Min: min(1, nodes), Max: n*nodes + 2, Desired: n * nodes}},
		node: &cluster.NodeGroup{Head: cluster.Head{Cluster: "c", Rev: 1}, Name: "g", Config: c,
			AutoScalingGroup: groupName},
	}
	for z := range n {
		w.group.Zones = append(w.group.Zones, fmt.Sprintf("zone-%c", 'a'+z))
	}
	for range n * nodes {
		w.launch()
	}
	for _, v := range w.sorted() {
		v.readyAt, v.image = noon, oldImage
		w.register(v)
		for range 2 {
			w.start(v, func(x *nodegroup.Task) { x.Task.Service = "web" })
		}
	}
	return w
}

func (w *world) sorted() []*vm {
	return slices.SortedFunc(maps.Values(w.vms), func(a, b *vm) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
}

func (w *world) start(v *vm, change func(*nodegroup.Task)) *nodegroup.Task {
	w.tasks++
	x := nodegroup.Task{Task: &cluster.Task{
		TaskSpec: cluster.TaskSpec{
			ID: fmt.Sprintf("t-%04d", w.tasks), CreatedAt: cluster.At(w.now), TaskDefinition: "d:1",
		},
		TaskAssignment: cluster.TaskAssignment{Instance: v.Row.ID, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}}
	change(&x)
	v.Tasks = append(v.Tasks, x)
	return &v.Tasks[len(v.Tasks)-1]
}

// launch adds an instance in the zone with the fewest that has capacity.
func (w *world) launch() {
	count := map[string]int{}
	for _, v := range w.vms {
		if v.Lifecycle != nodegroup.Terminating {
			count[v.Zone]++
		}
	}
	zones := slices.Clone(w.group.Zones)
	slices.SortStableFunc(zones, func(a, b string) int { return count[a] - count[b] })
	zone, f := zones[0], w.failing
	if f != nil && f.code != "" && w.group.Template != "lt:1" && (f.zone == "" || f.zone == zone) &&
		w.launched >= f.after {
		w.group.Failures = append(w.group.Failures, nodegroup.LaunchFailure{Zone: zone,
			Code: strings.TrimPrefix(f.code, "-"), Message: "Launching a new EC2 instance failed."})
		return
	}
	w.launched++
	v := &vm{readyAt: w.now.Add(w.slow), image: oldImage, Instance: nodegroup.Instance{
		ID: fmt.Sprintf("i-%04d", w.launched), Zone: zone, Template: w.group.Template, Lifecycle: nodegroup.Pending,
	}}
	if w.group.Template != "lt:1" {
		v.image = newImage
	}
	w.vms[v.ID] = v
}

func (w *world) register(v *vm) {
	v.Lifecycle = nodegroup.InService
	row := &cluster.Instance{ID: "ci-" + v.ID, EC2InstanceID: v.ID, Status: cluster.InstanceActive,
		AgentConnected: true}
	row.Attributes = map[string]string{cluster.AttributeZone: v.Zone, nodegroup.LabelImage: v.image,
		nodegroup.LabelNodeGroup: "g"}
	if f := w.failing; f != nil && v.image == newImage && (f.zone == "" || f.zone == v.Zone) {
		switch f.state {
		case "absent":
			return
		case "unlabelled":
			delete(row.Attributes, nodegroup.LabelImage)
		case "disconnected":
			row.AgentConnected = false
		}
	}
	v.Row = row
	if w.domains > 0 {
		w.registered++
		row.Attributes[cluster.AttributeUpgrade] = fmt.Sprintf("ud%d", 8+w.registered%w.domains)
	}
	w.start(v, func(x *nodegroup.Task) { x.Task.Service, x.Daemon = "log", true })
}

// tick runs the world for one step.
func (w *world) tick() {
	w.now = w.now.Add(step)
	members := 0
	for _, v := range w.sorted() {
		if len(v.Tasks) > 0 {
			v.emptyAt = w.now
		}
		switch {
		case v.Lifecycle == nodegroup.Terminating && !w.now.Before(v.goneAt) && !w.stopNodes[v.ID]:
			delete(w.vms, v.ID)
			continue
		case v.Lifecycle == nodegroup.Pending && !w.now.Before(v.readyAt):
			w.register(v)
		}
		if v.Lifecycle != nodegroup.Terminating {
			members++
		}
		w.label(v)
		w.move(v)
	}
	for ; members < w.group.Desired; members++ {
		w.launch()
	}
	if members > w.group.Desired {
		w.checker.fail("the group has %d instances and wants %d: it chooses by itself which go", members,
			w.group.Desired)
	}
}

// label gives a new node the label that it lacks once faults have ended, as the function does each
// time.
func (w *world) label(v *vm) {
	if w.failing != nil || v.image != newImage || v.Row == nil || v.Row.Attributes[nodegroup.LabelImage] != "" {
		return
	}
	row := *v.Row
	row.Attributes = maps.Clone(row.Attributes)
	row.Attributes[nodegroup.LabelImage] = newImage
	v.Row = &row
}

// move lets tasks leave DRAINING instances: one of a service at a time, to an instance that accepts
// tasks, its daemon last. Tasks that are being stopped end.
func (w *world) move(v *vm) {
	v.Tasks = slices.DeleteFunc(v.Tasks, func(x nodegroup.Task) bool { return x.Task.Desired == cluster.TaskStopped })
	if v.Row == nil || v.Row.Status != cluster.InstanceDraining {
		return
	}
	for k, x := range v.Tasks {
		switch {
		case x.Task.Service == "" || x.Protected || w.blocked[x.Task.Service] || x.Daemon && len(v.Tasks) > 1:
			continue
		case !x.Daemon:
			if to := w.room(); to != nil {
				w.start(to, func(n *nodegroup.Task) { n.Task.Service = x.Task.Service })
			} else if !w.stopsFirst {
				continue
			}
		}
		v.Tasks = slices.Delete(v.Tasks, k, k+1)
		return
	}
}

// room returns the instance with the fewest tasks of those that accept new ones.
func (w *world) room() (best *vm) {
	for _, v := range w.sorted() {
		if v.Lifecycle != nodegroup.InService || v.Row == nil || !v.Row.IsAvailable() {
			continue
		}
		if _, marked := v.Row.Attributes[cluster.AttributeUnschedulable]; !marked &&
			(best == nil || len(v.Tasks) < len(best.Tasks)) {
			best = v
		}
	}
	return best
}

// do carries out an action. A repeated action does nothing more.
func (w *world) do(a nodegroup.Action, u *cluster.Update) {
	w.acts++
	w.log = append(w.log, a.String())
	w.checker.before(w, u, a)
	v := w.vms[a.Instance]
	switch a.Kind {
	case nodegroup.CreateTemplate:
		if name := nodegroup.TemplateDescription(u, u.OriginalTemplate); w.made[name] == "" {
			w.made[name] = fmt.Sprintf("lt:%d", len(w.made)+2)
		}
	case nodegroup.UseTemplate:
		w.group.Template = a.Template
	case nodegroup.Resize:
		w.group.Max, w.group.Desired = a.Max, a.Desired
		if w.plant.resize != nil {
			w.plant.resize(&w.group.Sizes)
		}
	case nodegroup.Terminate:
		if v != nil && v.Lifecycle != nodegroup.Terminating {
			v.Lifecycle, v.goneAt, v.ours = nodegroup.Terminating, w.now.Add(time.Minute), true
			if a.Decrement {
				w.group.Desired--
			}
		}
	}
	if v == nil || v.Row == nil {
		return
	}
	row := *v.Row
	row.Attributes = maps.Clone(row.Attributes)
	switch a.Kind {
	case nodegroup.Cordon:
		row.Attributes[cluster.AttributeUnschedulable] = u.ID
	case nodegroup.Uncordon:
		delete(row.Attributes, cluster.AttributeUnschedulable)
	case nodegroup.Drain:
		row.Status, v.ours = cluster.InstanceDraining, true
	case nodegroup.Activate:
		row.Status, v.ours = cluster.InstanceActive, false
	case nodegroup.StopTasks:
		w.stop(v, a.Tasks)
	}
	v.Row = &row
}

func (w *world) stop(v *vm, ids []string) {
	for k, x := range v.Tasks {
		if slices.Contains(ids, x.Task.ID) {
			stopped := *x.Task
			stopped.Desired = cluster.TaskStopped
			v.Tasks[k].Task = &stopped
		}
	}
}

// view returns what an update is decided from.
func (w *world) see(u *cluster.Update) (nodegroup.Group, []nodegroup.Instance) {
	g := w.group
	g.PreparedTemplate = w.made[nodegroup.TemplateDescription(u, cmp.Or(u.OriginalTemplate, w.group.Template))]
	var out []nodegroup.Instance
	for _, v := range w.sorted() {
		i := v.Instance
		i.Tasks = slices.Clone(v.Tasks)
		out = append(out, i)
	}
	if w.plant.see != nil {
		w.plant.see(u, out)
	}
	return g, out
}

// update returns the row as it comes from the store.
func (w *world) update() *cluster.Update {
	if w.row == nil {
		return nil
	}
	r, err := state.DecodeRow(state.PrefixUpdate, w.row)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.(*cluster.Update)
}

func (w *world) store(u *cluster.Update) {
	data, err := state.EncodeRow(u)
	if err != nil {
		w.t.Fatal(err)
	}
	w.row = data
	w.writes++
}

// begin starts an update to the new image.
func (w *world) begin(change ...func(*nodegroup.Request)) *cluster.Update {
	w.t.Helper()
	r := nodegroup.Request{ID: fmt.Sprintf("update-%d", w.writes),
		Target: cluster.UpdateTarget{Image: newImage, Version: "1.31"}, Seed: 7}
	for _, c := range change {
		c(&r)
	}
	u, err := nodegroup.StartUpdate(w.node, r, w.update(), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store(u)
	w.checker = newChecker(w, u)
	return u
}

// look reconciles the update once: it decides, stores, and acts.
func (w *world) look(act func([]nodegroup.Action) []nodegroup.Action) *cluster.Update {
	u := w.update()
	g, instances := w.see(u)
	next, actions := nodegroup.Next(u, g, instances, w.now)
	if w.plant.row != nil && !u.HasEnded() {
		next = w.plant.row(next)
	}
	if next != u {
		w.store(next)
	}
	if w.plant.act != nil {
		actions = w.plant.act(w, next, actions)
	}
	w.checker.plan(u, instances, actions)
	carriedOut := act(actions)
	for _, a := range carriedOut {
		w.do(a, next)
	}
	done := text(carriedOut)
	if slices.ContainsFunc(text(actions), func(a string) bool { return !slices.Contains(done, a) }) {
		w.lostAt = w.now
	}
	w.checker.after(w, next)
	return next
}

func everything(a []nodegroup.Action) []nodegroup.Action { return a }

// run reconciles the update at every step until it has ended.
func (w *world) run() *cluster.Update {
	w.t.Helper()
	return w.until(func(u *cluster.Update) bool { return u.HasEnded() })
}

func (w *world) until(is func(*cluster.Update) bool) *cluster.Update {
	w.t.Helper()
	for range 30_000 {
		u := w.look(everything)
		if is(u) {
			return u
		}
		if w.checker.failed() && w.plant.name != "" || u.HasEnded() {
			return u
		}
		w.tick()
	}
	w.checker.fail("the update has not ended: %s, waits for %s", w.update().Phase, w.update().WaitingFor)
	return w.update()
}
