package simulation

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
	"berth/shared/state"
)

// A kind of run in which callers create, relabel, taint, resize, update and delete node groups that
// Berth makes, some of them from a launch template of their own, while calls of IAM, EC2 and Auto
// Scaling are throttled, lose their answers or take effect late, and functions and messages have
// the usual faults. Afterwards each node group works or has failed with a reason, and when all are
// deleted nothing is left but what is somebody else's.

const (
	madeSpan = 40 * time.Minute // how long actions and faults last
	// madeRest is how long creating or deleting a node group may take once there are no faults: 15
	// minutes for nodes to join, or for tasks to leave, and as long for what the schedule does.
	madeRest = 30 * time.Minute
	madeRole = "arn:aws:iam::123456789012:role/node"
	// madePrefix begins the names of everything that Berth makes.
	madePrefix = "berth-" + installation.Name + "-"
)

// A MadeBug is a mistake that runs of made node groups must find.
type MadeBug string

// The bugs that can be planted.
const (
	// ForgetsCreation loses the time of the last creation, so that a call that takes effect late
	// leaves something behind.
	ForgetsCreation MadeBug = "it is not remembered when a creation began"
	// OldUserData leaves the group with the launch template version that it has, if only the user
	// data is another. An update to such a version never ends.
	OldUserData MadeBug = "nodes are launched with the labels of before"
	// LosesUserData makes versions of launch templates without what joins the cluster, where the
	// callers' template has user data of its own.
	LosesUserData MadeBug = "user data is not merged"
	// KeepsLabels never removes a label.
	KeepsLabels MadeBug = "labels that were removed stay"
	// ForgetsTemplate does not remember which launch template version the last change has set.
	ForgetsTemplate MadeBug = "a late call decides what nodes are launched with"
	// NoMadeNet switches the schedule of node groups off, so that nothing is tried again.
	NoMadeNet MadeBug = "the schedule of node groups is off"
)

// MadeBugs has the bugs with what finds each of them.
var MadeBugs = map[MadeBug]string{
	ForgetsCreation: "is left behind", OldUserData: "user data", LosesUserData: "user data",
	KeepsLabels: "has the label", ForgetsTemplate: "user data", NoMadeNet: "is still",
}

// A madeWorld is such a run in progress.
type madeWorld struct {
	*World
	random *rand.Rand
	// versions draws what nodes are made of: templates, releases, taints and updates.
	versions *rand.Rand
	// throttleRate, lostRate and lateRate are how often calls of AWS fail.
	throttleRate, lostRate, lateRate float64
	foreign                          []string // what is there and not Berth's
}

// SimulateMade executes a run to its end, or to the first failure. Every eighth seed has no faults.
func SimulateMade(seed uint64, plant MadeBug) Outcome {
	var off []Fault
	if plant != "" { // bugs are found to the second
		off = []Fault{ClockJump}
	}
	if seed%8 == 7 {
		off = AllFaults
	}
	faults := newFaultInjector(seed, off)
	w, options := newEmptyWorld(Run{Seed: seed}, 0x6d61, faults)
	w.historySpan = madeSpan
	m := &madeWorld{World: w, random: rand.New(rand.NewPCG(seed, 0x6d616465)),
		versions: rand.New(rand.NewPCG(seed, 0x76657273))}
	if seed%8 != 7 {
		m.throttleRate, m.lostRate = 0.2*m.random.Float64(), 0.2*m.random.Float64()
		m.lateRate = 0.2 * m.random.Float64()
	}
	options.Watch = w.checkCommit
	options.WrapState = func(function string, s state.Store) state.Store {
		return &faultyStore{world: w, function: function, inner: plant.wrapStore(s)}
	}
	options.WrapECS = func(function string, e handler.ECS) handler.ECS {
		return &faultyECS{world: w, function: function, ECS: e}
	}
	options.WrapGroups = func(function string, g installation.Groups) installation.Groups {
		return plant.wrapGroups(&faultyGroups{Groups: g, world: w, function: function})
	}
	skips := options.Runtime.Faults.Schedule
	options.Runtime.Faults.Schedule = func(function, name string) bool {
		return skips(function, name) || plant == NoMadeNet && function == upgrader
	}
	var err error
	if w.Installation, err = installation.Open(options); err != nil {
		return Outcome{Broken: []string{err.Error()}}
	}
	defer w.Close()
	m.run(plant != NoMadeNet)
	return Outcome{Broken: w.checker.Broken, Faults: w.faults.describeStrikes(), Log: w.lines,
		Hash: w.Store.HistoryHash(), Steps: w.steps, Coverage: Coverage{Hits: w.faults.hits}}
}

// run creates, changes and deletes node groups under faults, checks them, and deletes them all. A
// late call undoes changes of launch templates before they are checked, if lateCalls.
func (m *madeWorld) run(lateCalls bool) {
	m.faults.active = false
	if _, err := m.EnsureCluster(context.Background(), clusterName, 1, machine); err != nil {
		m.checker.Fail("making the cluster: %v", err)
		return
	}
	if err := m.createForeign(); err != nil {
		m.checker.Fail("making what is somebody else's: %v", err)
		return
	}
	m.Runtime.Start()
	m.faults.active = true
	m.AWS.SetCallFaults(kernel.CallFaults{Call: m.drawMadeFault})
	for n := range 3 {
		m.drawStory(fmt.Sprint("g", n))
	}
	m.runUntil(epoch.Add(madeSpan))
	m.endFaults()
	if lateCalls {
		m.setFirstTemplates()
	}
	m.runUntil(m.Loop.Now().Add(madeRest))
	m.checkMade()
	for _, g := range m.groups() {
		if _, err := m.API.NodeGroups.DeleteNodeGroup(context.Background(), clusterName, g.Name); err != nil {
			m.checker.Fail("deleting node group %s, which is %s: %v", g.Name, g.Status, err)
		}
	}
	m.runUntil(m.Loop.Now().Add(madeRest))
	m.checkNothingLeft()
}

// setFirstTemplates lets groups launch from their first launch template version again, as a call of
// an earlier change does that arrives last.
func (m *madeWorld) setFirstTemplates() {
	for _, g := range m.groups() {
		found, err := m.AWS.Groups.DescribeGroups(context.Background(), []string{g.AutoScalingGroup})
		if err != nil || len(found) == 0 || g.Status != cluster.NodeGroupActive {
			continue
		}
		first := nodegroup.ParseTemplate(found[0].Template)
		first.Version = "1"
		err = m.AWS.Groups.UseTemplate(context.Background(), g.AutoScalingGroup, first.ID+":"+first.Version)
		m.logf("a late call sets version 1 of %s, instead of %s: %v", first.ID, found[0].Template, err)
	}
}

// createForeign makes a group with a launch template that Berth must not touch.
func (m *madeWorld) createForeign() error {
	_, err := m.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: "theirs", Cluster: clusterName, Machine: machine,
		Max:   1,
		Image: firstImage})
	for version, userData := range ownUserData {
		if err == nil {
			_, err = m.AWS.Templates.AddTemplateWith(ownName(version), ec2.Data{"InstanceType": "m5.large",
				"UserData": base64.StdEncoding.EncodeToString([]byte(userData))})
		}
	}
	m.foreign = m.resources("")
	return err
}

// ownUserData is the user data of the callers' own launch templates: an archive, and none.
var ownUserData = []string{"Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/plain\n\n" +
	"mine\n--b--\n", ""}

func ownName(n int) string { return fmt.Sprint("own", n) }

// drawMachines draws what the first nodes of a node group are made of, and its taints.
func (m *madeWorld) drawMachines(spec *operation.CreateNodeGroup) {
	r := m.versions
	if r.IntN(2) == 0 {
		spec.ReleaseVersion = firstRelease
	}
	if r.IntN(3) == 0 {
		spec.Template, spec.Machines.InstanceTypes = &cluster.TemplateRef{Name: ownName(r.IntN(len(ownUserData)))}, nil
	}
	if r.IntN(3) == 0 {
		spec.Taints = []cluster.Taint{{Key: "first", Value: "1", Effect: cluster.NoSchedule}}
	}
}

// firstRelease is published and not the newest.
const firstRelease = "al2023-ami-ecs-hvm-2023.0.20260901-kernel-6.1-x86_64"

// drawUpdates schedules changes of taints and updates to the newest release, some of them at the
// same time as what else callers do: then one is refused.
func (m *madeWorld) drawUpdates(name string, created time.Duration) {
	for n := range m.versions.IntN(3) {
		at, taints := created+time.Duration(180+m.versions.IntN(1000))*time.Second, m.versions.IntN(2) == 0
		m.Loop.After(at, func() {
			var err error
			if taints {
				_, err = m.API.NodeGroups.UpdateNodeGroupConfig(context.Background(), operation.UpdateNodeGroupConfig{
					Cluster: clusterName, NodeGroup: name, Params: fmt.Sprint("taints", n),
					Labels: &cluster.LabelsChange{
						SetTaints:    []cluster.Taint{{Key: "next", Value: fmt.Sprint(n), Effect: cluster.NoExecute}},
						RemoveTaints: []cluster.Taint{{Key: "first", Value: "1", Effect: cluster.NoSchedule}}}})
			} else {
				_, err = m.API.NodeGroups.UpdateNodeGroupVersion(context.Background(), operation.UpdateNodeGroupVersion{
					Cluster: clusterName, NodeGroup: name, Params: fmt.Sprint("version", n)})
			}
			m.logf("update %s (taints: %v): %v", name, taints, err)
		})
	}
}

// drawStory schedules what callers do with one node group.
func (m *madeWorld) drawStory(name string) {
	r, at := m.random, time.Duration(m.random.IntN(600))*time.Second
	do := func(what string, act func(ctx context.Context) error) {
		m.Loop.After(at, func() { m.logf("%s %s: %v", what, name, act(context.Background())) })
	}
	size, labels := 1+r.IntN(2), map[string]string{"old": "1", "stays": name}
	spec := operation.CreateNodeGroup{Cluster: clusterName, Name: name,
		Machines: &cluster.Machines{InstanceTypes: []string{"m5.large"}}, Role: madeRole, Params: "p",
		Subnets: []string{"subnet-1"}, Labels: labels, Sizes: &cluster.Sizes{Max: 4, Desired: size}}
	m.drawMachines(&spec)
	do("create", func(ctx context.Context) error {
		_, err := m.API.NodeGroups.CreateNodeGroup(ctx, spec)
		return err
	})
	m.drawUpdates(name, at)
	changes, patience := r.IntN(4), 900
	if r.IntN(3) == 0 { // deleted while it is made
		changes, patience = 0, 90
	}
	for n := range changes {
		at += time.Duration(30+r.IntN(600)) * time.Second
		change := operation.UpdateNodeGroupConfig{Cluster: clusterName, NodeGroup: name, Params: fmt.Sprint(n)}
		if r.IntN(3) == 0 {
			change.Sizes = &cluster.SizesChange{Desired: new(r.IntN(4))}
		} else {
			change.Labels = &cluster.LabelsChange{Set: map[string]string{"stays": fmt.Sprint(n)},
				Remove: []string{"old"}}
		}
		do("change", func(ctx context.Context) error {
			_, err := m.API.NodeGroups.UpdateNodeGroupConfig(ctx, change)
			return err
		})
	}
	if changes == 0 || r.IntN(2) == 0 {
		at += time.Duration(r.IntN(patience)) * time.Second
		do("delete", func(ctx context.Context) error {
			_, err := m.API.NodeGroups.DeleteNodeGroup(ctx, clusterName, name)
			return err
		})
	}
}

// drawMadeFault draws the fault of a call of AWS. A late call has its effect within 80 seconds: two
// minutes is how long Berth waits for one, and it begins none more than half a minute later.
func (m *madeWorld) drawMadeFault(operation, subject string) kernel.CallFault {
	if m.current == nil || !m.faults.active {
		return kernel.CallFault{}
	}
	x := m.random.Float64()
	if x < m.throttleRate {
		return kernel.CallFault{Throttled: true}
	}
	isChange := !strings.HasPrefix(operation, "Describe") && !strings.HasPrefix(operation, "List") &&
		!strings.HasPrefix(operation, "Get")
	switch x -= m.throttleRate; {
	case !isChange:
		return m.drawCallFault(operation, subject)
	case x < m.lostRate:
		return kernel.CallFault{Ambiguous: true, Applied: m.random.IntN(2) == 0}
	case x < m.lostRate+m.lateRate:
		return kernel.CallFault{Ambiguous: true, Applied: true, Late: time.Duration(m.random.IntN(80)) * time.Second}
	}
	return m.drawCallFault(operation, subject)
}

// groups returns the node groups, by name.
func (m *madeWorld) groups() (out []*cluster.NodeGroup) {
	for _, row := range m.checker.Rows {
		if g, ok := row.(*cluster.NodeGroup); ok {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// resources names the instance profiles, launch templates and groups whose names begin so.
func (m *madeWorld) resources(prefix string) (names []string) {
	for name := range m.AWS.Profiles.Rows {
		names = append(names, "profile "+name)
	}
	for _, t := range m.AWS.Templates.Rows {
		if strings.HasPrefix(t.Name, prefix) {
			names = append(names, "template "+t.Name)
		}
	}
	for _, name := range (autoscaling.Maker{Groups: m.AWS.Groups}).Names(prefix) {
		names = append(names, "group "+name)
	}
	slices.Sort(names)
	return names
}

// checkMade checks the node groups when they have had time to come to rest.
func (m *madeWorld) checkMade() {
	for _, g := range m.groups() {
		switch {
		case g.Status == cluster.NodeGroupCreateFailed && len(g.Issues) > 0:
		case g.Status == cluster.NodeGroupActive:
			m.checkActive(g)
		default:
			m.checker.Fail("node group %s is still %s, with issues %v", g.Name, g.Status, g.Issues)
		}
	}
}

// checkActive checks the group of an ACTIVE node group, its launch template and its nodes.
func (m *madeWorld) checkActive(g *cluster.NodeGroup) {
	found, err := m.AWS.Groups.DescribeGroups(context.Background(), []string{g.AutoScalingGroup})
	if err != nil || len(found) != 1 {
		m.checker.Fail("node group %s has the Auto Scaling groups %v: %v", g.Name, found, err)
		return
	}
	template, err := m.AWS.Templates.LaunchTemplate(context.Background(), nodegroup.ParseTemplate(found[0].Template))
	target := m.launchTarget(g, found[0].Template)
	if userData := m.expectedUserData(g, target); err != nil || template.UserData != userData ||
		template.Image != target.Image {
		m.checker.Fail("node group %s launches nodes with the user data %+v, %v, want %s with %q", g.Name, template, err,
			target.Image, userData)
		return
	}
	connected := 0
	for _, i := range m.instances() {
		member := slices.ContainsFunc(found[0].Instances,
			func(x cluster.GroupInstance) bool { return x.ID == i.EC2InstanceID })
		if !member || i.IsDeregistered() {
			continue
		}
		connected++
		if !nodegroup.HasAttributes(i, nodegroup.GroupLabels(g)) {
			m.checker.Fail("node %s of %s has %v, want %v", i.ID, g.Name, i.Attributes, g.Labels)
		}
		if image := i.Attributes[nodegroup.LabelImage]; image != g.Target.Image && image != target.Image {
			m.checker.Fail("node %s of %s has the image %s, want %s", i.ID, g.Name, image, target.Image)
		}
		if _, is := g.Labels["old"]; !is && i.Attributes["old"] != "" {
			m.checker.Fail("node %s of %s has the label that was removed", i.ID, g.Name)
		}
	}
	if connected != found[0].Desired {
		m.checker.Fail("node group %s has %d nodes, want %d", g.Name, connected, found[0].Desired)
	}
}

// launchTarget returns what new nodes of a node group are to be made of: its target, or that of an
// update that failed when nodes of it were Ready, whose launch template version stays.
func (m *madeWorld) launchTarget(g *cluster.NodeGroup, template string) cluster.UpdateTarget {
	u, err := m.API.NodeGroups.DescribeUpdate(context.Background(), clusterName, g.Name, g.Update)
	if err == nil && u.Status == cluster.UpdateFailed && nodegroup.IsMadeBy(u, template) && !u.RevertTemplate {
		return u.Target
	}
	return g.Target
}

// expectedUserData returns what nodes of a target are launched with: what joins the cluster, as the
// last part of an archive if the callers' template has one.
func (m *madeWorld) expectedUserData(g *cluster.NodeGroup, target cluster.UpdateTarget) string {
	join := nodegroup.UserData(g)
	if target.SourceName != ownName(0) {
		return join
	}
	return strings.TrimSuffix(ownUserData[0], "--b--\n") + "--b\nContent-Type: text/x-shellscript; " +
		"charset=\"us-ascii\"\n\n" + join + "--b--\n"
}

// checkNothingLeft checks that nothing is left of node groups that were deleted, and everything of
// what is not Berth's.
func (m *madeWorld) checkNothingLeft() {
	for _, g := range m.groups() {
		m.checker.Fail("node group %s is still %s", g.Name, g.Status)
	}
	for _, name := range m.resources(madePrefix) {
		if !slices.Contains(m.foreign, name) {
			m.checker.Fail("%s is left behind", name)
		}
	}
	if left := m.resources(""); len(m.checker.Broken) == 0 && !slices.Equal(left, m.foreign) {
		m.checker.Fail("there are %v, and %v were there before", left, m.foreign)
	}
}

// A madeStore forgets something of the node groups that Berth makes.
type madeStore struct {
	state.Store
	forget func(*cluster.Machines)
}

func (s madeStore) Write(ctx context.Context, w state.Write) (state.Row, error) {
	return s.Store.Write(ctx, s.forgetful(w))
}

func (s madeStore) Commit(ctx context.Context, c state.Commit) error {
	writes := make([]state.Write, 0, len(c.Writes))
	for _, w := range c.Writes {
		writes = append(writes, s.forgetful(w))
	}
	c.Writes = writes
	return s.Store.Commit(ctx, c)
}

func (s madeStore) forgetful(w state.Write) state.Write {
	if g, ok := w.Put.(*cluster.NodeGroup); ok && g.IsMade() {
		next, machines := *g, *g.Machines
		s.forget(&machines)
		next.Machines, w.Put = &machines, &next
	}
	return w
}

func (b MadeBug) wrapStore(s state.Store) state.Store {
	switch b {
	case ForgetsCreation:
		return madeStore{s, func(m *cluster.Machines) { m.CreatingSince = time.Time{} }}
	case ForgetsTemplate:
		return madeStore{s, func(m *cluster.Machines) { m.LaunchTemplate = "" }}
	}
	return s
}

// buggyMaker are groups with a planted bug.
type buggyMaker struct {
	installation.Groups
	bug MadeBug
}

func (g buggyMaker) UseTemplate(ctx context.Context, group, template string) error {
	if g.bug == OldUserData {
		found, err := g.DescribeGroups(ctx, []string{group})
		if err != nil || len(found) == 0 {
			return err
		}
		is, err := g.LaunchTemplate(ctx, nodegroup.ParseTemplate(found[0].Template))
		if err != nil {
			return err
		}
		wanted, err := g.LaunchTemplate(ctx, nodegroup.ParseTemplate(template))
		if err != nil || is.Image == wanted.Image && is.UserData != wanted.UserData {
			return err
		}
	}
	return g.Groups.UseTemplate(ctx, group, template)
}

func (g buggyMaker) CreateVersion(
	ctx context.Context, v cluster.NewTemplateVersion,
) (*cluster.LaunchTemplate, error) {
	if g.bug == LosesUserData && v.From.ID != v.Template {
		v.UserData = ""
	}
	return g.Groups.CreateVersion(ctx, v)
}

func (g buggyMaker) RemoveAttribute(ctx context.Context, clusterName, id, name string) error {
	if g.bug == KeepsLabels {
		return nil
	}
	return g.Groups.RemoveAttribute(ctx, clusterName, id, name)
}

func (b MadeBug) wrapGroups(g installation.Groups) installation.Groups {
	if b == "" {
		return g
	}
	return buggyMaker{g, b}
}
