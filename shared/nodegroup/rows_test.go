package nodegroup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

func nodeRow(id, ec2 string, change ...func(*cluster.Instance)) *cluster.Instance {
	i := &cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, EC2InstanceID: ec2,
		Status: cluster.InstanceActive, AgentConnected: true, Attributes: map[string]string{}}
	for _, c := range change {
		c(i)
	}
	return i
}

func taskRow(id, on, service string, change ...func(*cluster.Task)) *cluster.Task {
	t := &cluster.Task{
		TaskSpec:       cluster.TaskSpec{ID: id, Service: service, Owner: service},
		TaskAssignment: cluster.TaskAssignment{Instance: on, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}
	for _, c := range change {
		c(t)
	}
	return t
}

func serviceRow(name string, strategy cluster.SchedulingStrategy, change ...func(*cluster.Service)) *cluster.Service {
	s := &cluster.Service{
		ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
		ServiceSpec:     cluster.ServiceSpec{Strategy: strategy, Desired: 4, MinHealthy: 50, MaxPercent: 200},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive, Running: 4,
			Deployment: cluster.Deployment{Running: 4, Healthy: 4}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// The members of a group are its instances with the container instances that they registered as and
// the tasks that hold capacity there.
func TestMembersOfAGroup(t *testing.T) {
	rows := []state.Row{
		nodeRow("c-1", "i-1"), nodeRow("c-x", ""), nodeRow("c-9", "i-9"),
		serviceRow("web", cluster.Replica), serviceRow("log", cluster.Daemon),
		taskRow("a", "c-1", "web"), taskRow("b", "c-1", "log"), taskRow("d", "c-1", ""), taskRow("e", "c-9", "web"),
		taskRow("ended", "c-1", "web", func(t *cluster.Task) { t.Last = cluster.TaskStopped }),
		taskRow("waiting", "", "web"),
		&cluster.Protection{Owner: "web", Task: "a", Until: noon.Add(time.Second)},
		&cluster.Protection{Owner: "log", Task: "b", Until: noon},
		&cluster.Protection{Owner: "web", Task: "d", Until: noon.Add(75 * time.Hour)}, // a clock had jumped
	}
	members := nodegroup.NodesOf(&cluster.AutoScalingGroup{Instances: []cluster.GroupInstance{
		{ID: "i-1", Zone: "a", Template: "lt:1", Lifecycle: "InService"},
		{ID: "i-2", Zone: "b", Lifecycle: "Pending:Wait"},
		{ID: "i-3", Lifecycle: "Standby"}, {ID: "i-4", Lifecycle: "Terminating:Proceed"},
	}}, slices.Values(rows), noon)
	if len(members) != 4 {
		t.Fatalf("%d members", len(members))
	}
	m := members[0]
	if m.ID != "i-1" || m.Zone != "a" || m.Template != "lt:1" || m.Row == nil || m.Row.ID != "c-1" {
		t.Errorf("got %+v", m)
	}
	var tasks []string
	for _, x := range m.Tasks {
		text := x.Task.ID
		if x.Daemon {
			text += " daemon"
		}
		if x.Protected {
			text += " protected"
		}
		tasks = append(tasks, text+x.BlockedReason)
	}
	if got, want := strings.Join(tasks, ", "), "a protected, b daemon, d"; got != want {
		t.Errorf("tasks are %s, want %s", got, want)
	}
	if members[1].Row != nil || len(members[1].Tasks) > 0 {
		t.Errorf("an instance that has not registered: %+v", members[1])
	}
	want := []nodegroup.Lifecycle{nodegroup.InService, nodegroup.Pending, nodegroup.Terminating, nodegroup.Terminating}
	for k, m := range members {
		if m.Lifecycle != want[k] {
			t.Errorf("%s is %d, want %d", m.ID, m.Lifecycle, want[k])
		}
	}
}

// Of two container instances of an EC2 instance the later one counts.
func TestTheLaterRegistrationCounts(t *testing.T) {
	for _, first := range []bool{true, false} {
		r := nodegroup.NewRows()
		rows := []state.Row{
			nodeRow("c-old", "i-1", func(i *cluster.Instance) { i.RegisteredAt = cluster.At(noon) }),
			nodeRow("c-new", "i-1", func(i *cluster.Instance) { i.RegisteredAt = cluster.At(noon.Add(time.Hour)) }),
		}
		if !first {
			slices.Reverse(rows)
		}
		r.AddAll(rows, noon)
		if i := r.Instance("i-1"); i == nil || i.ID != "c-new" {
			t.Errorf("got %+v", i)
		}
		if r.Instance("i-2") != nil || !r.HasInstance("c-new") || r.HasInstance("c-old") || r.HasInstance("i-1") {
			t.Error("it has another instance")
		}
	}
}

// A service keeps its tasks if a replacement finds no room, or if its percentages allow neither one
// task more nor one less (N4).
func TestWhyTasksAreBlocked(t *testing.T) {
	reason := func(s *cluster.Service) string {
		r := nodegroup.NewRows()
		r.Add(s, noon)
		r.Add(nodeRow("c-1", "i-1"), noon)
		r.Add(taskRow("a", "c-1", s.Short), noon)
		return r.Members(&cluster.AutoScalingGroup{Instances: []cluster.GroupInstance{{ID: "i-1"}}})[0].Tasks[0].BlockedReason
	}
	percentages := func(least, most, running int) func(*cluster.Service) {
		return func(s *cluster.Service) { s.MinHealthy, s.MaxPercent, s.Running = least, most, running }
	}
	for name, c := range map[string]struct {
		service *cluster.Service
		want    string
	}{
		"Free": {serviceRow("web", cluster.Replica), ""},
		"NoneMayGo": {serviceRow("web", cluster.Replica, percentages(100, 100, 4)),
			"service web must keep 4 of its tasks RUNNING and may have at most 4"},
		"OneMayStart":     {serviceRow("web", cluster.Replica, percentages(100, 125, 4)), ""},
		"OneMayStop":      {serviceRow("web", cluster.Replica, percentages(75, 100, 4)), ""},
		"OneMayStartMore": {serviceRow("web", cluster.Replica, percentages(100, 100, 3)), ""},
		"Daemon":          {serviceRow("log", cluster.Daemon, percentages(100, 100, 4)), ""},
		"NoRoom": {serviceRow("web", cluster.Replica,
			func(s *cluster.Service) { s.Blocked = &cluster.Diagnosis{Evaluated: 2} }),
			"no room for a replacement: 0/2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reason(c.service); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Only an ACTIVE service with fewer healthy tasks than desired is unhealthy (N7).
func TestUnhealthyServices(t *testing.T) {
	healthy := func(n int) func(*cluster.Service) {
		return func(s *cluster.Service) { s.Deployment.Healthy = n }
	}
	r := nodegroup.NewRows()
	r.Add(serviceRow("all", cluster.Replica), noon)
	r.Add(serviceRow("more", cluster.Replica, healthy(5)), noon)
	r.Add(serviceRow("fewer", cluster.Replica, healthy(3)), noon)
	r.Add(serviceRow("deleted", cluster.Replica, healthy(0),
		func(s *cluster.Service) { s.Status = cluster.ServiceDraining }), noon)
	if got := r.Unhealthy(); len(got) != 1 || got["fewer"] != "service fewer has 3 of 4 tasks healthy" {
		t.Errorf("got %v", got)
	}
}

// Managed scaling is growing the group within a minute of its last scale-out, and during the
// scale-down after any scale-out since that began (N5).
func TestIsGrowing(t *testing.T) {
	for name, c := range map[string]struct {
		scalingDown bool
		since, out  time.Duration // before now
		want        bool
	}{
		"JustNow": {false, 0, 59 * time.Second, true}, "AMinuteAgo": {false, 0, time.Minute, false},
		"AnHourAhead":             {false, 0, -time.Hour, false},
		"SinceTheScaleDownBegan":  {true, time.Hour, 59 * time.Minute, true},
		"WhenItBegan":             {true, time.Hour, time.Hour, false},
		"BeforeItBegan":           {true, time.Minute, 2 * time.Minute, false},
		"JustBeforeItBegan":       {true, 10 * time.Second, 20 * time.Second, true},
		"AheadDuringTheScaleDown": {true, time.Hour, -time.Hour, false},
		"ALittleAheadDuringIt":    {true, time.Hour, -time.Minute, true},
		"NotScalingDown":          {false, time.Hour, 59 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := &cluster.Update{}
			if u.ScaleDownSince = noon.Add(-c.since); c.scalingDown {
				u.DesiredFloor = new(3)
			}
			if got := nodegroup.IsGrowing(u, noon.Add(-c.out), noon); got != c.want {
				t.Errorf("got %v", got)
			}
			if nodegroup.IsGrowing(u, time.Time{}, noon) {
				t.Error("it grows, though it never scaled out")
			}
		})
	}
}

// A node's labels say what it is made of: the target of the update that made its template version,
// or else the image of that version; and the launch template that the group's target names, if the
// node is made from it.
func TestLabels(t *testing.T) {
	group := &cluster.NodeGroup{Name: "g", NodeLabels: cluster.NodeLabels{Labels: map[string]string{"team": "a"}},
		Target: cluster.UpdateTarget{Image: "ami-9", SourceTemplate: "lt-u", SourceVersion: "7"}}
	last := &cluster.Update{UpdateSpec: cluster.UpdateSpec{
		Target: cluster.UpdateTarget{Image: "ami-2", SourceTemplate: "lt-v", SourceVersion: "3"}}}
	last.Template = "lt:2"
	for name, c := range map[string]struct {
		last     *cluster.Update
		template string
		want     []string // image, source template, version
	}{
		"OfTheUpdate":     {last, "lt:2", []string{"ami-2", "lt-v", "3"}},
		"OfAnother":       {last, "lt:1", []string{"ami-1", "", ""}},
		"WithoutAnUpdate": {nil, "lt:2", []string{"ami-1", "", ""}},
		"OfTheUsersOwn":   {last, "lt-u:7", []string{"ami-1", "lt-u", "7"}},
		"OfItsOther":      {last, "lt-u:8", []string{"ami-1", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodegroup.LabelsOfTemplate(group, c.last, c.template, "ami-1")
			if got[nodegroup.LabelImage] != c.want[0] || got[nodegroup.LabelSourceTemplate] != c.want[1] ||
				got[nodegroup.LabelSourceVersion] != c.want[2] || got[nodegroup.LabelNodeGroup] != "g" {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	node := func(attributes ...string) *cluster.Instance {
		return nodeRow("c-1", "i-1", func(i *cluster.Instance) {
			for k := 0; k < len(attributes); k += 2 {
				i.Attributes[attributes[k]] = attributes[k+1]
			}
		})
	}
	for name, c := range map[string]struct {
		node  *cluster.Instance
		lacks bool
	}{
		"All":        {node("team", "a", nodegroup.LabelNodeGroup, "g", nodegroup.LabelImage, "ami-1"), false},
		"NoImage":    {node("team", "a", nodegroup.LabelNodeGroup, "g"), true},
		"OtherTeam":  {node("team", "b", nodegroup.LabelNodeGroup, "g", nodegroup.LabelImage, "ami-1"), true},
		"OtherGroup": {node("team", "a", nodegroup.LabelNodeGroup, "h", nodegroup.LabelImage, "ami-1"), true},
		"NoTeam":     {node(nodegroup.LabelNodeGroup, "g", nodegroup.LabelImage, "ami-1"), true},
	} {
		if nodegroup.LacksLabels(group, c.node) != c.lacks {
			t.Errorf("%s: lacks is %v", name, !c.lacks)
		}
	}
	if nodegroup.HasAttributes(node(), map[string]string{"empty": ""}) ||
		!nodegroup.HasAttributes(node("empty", ""), map[string]string{"empty": ""}) {
		t.Error("an empty value is an attribute, its absence is not")
	}
}
