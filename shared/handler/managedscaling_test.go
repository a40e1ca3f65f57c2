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
	"berth/shared/handler/managedscaling"
	"berth/shared/operation"
	"berth/shared/state"
)

// scaled is a world with the Auto Scaling group "g" and the capacity provider "p" on it.
type scaled struct {
	*world
	*fakeGroups
	function *managedscaling.Handler
}

// newScaled returns a world with the capacity provider p. Placement writes change sets, as in a large
// cluster.
func newScaled(t *testing.T, change func(*cluster.CapacityProvider)) *scaled {
	t.Helper()
	return newScaledIn(newWorld(t, func(s *handler.Settings) { s.ChangeSetsFrom = 0 }), change)
}

func newScaledIn(w *world, change func(*cluster.CapacityProvider)) *scaled {
	t := w.t
	t.Helper()
	f := newGroups(w)
	f.groups["g"] = &cluster.AutoScalingGroup{Name: "g", Max: 10, Protects: true}
	w.dispatch.Groups = f
	s := &scaled{world: w, fakeGroups: f, function: &managedscaling.Handler{
		State: w.store, ECS: w.ecs, Hosts: f, Groups: f, Metrics: f, Clock: w.clock,
		Settings: handler.DefaultSettings(),
	}}
	p := providerRow("p", "g")
	if change != nil {
		change(p)
	}
	if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, p); err != nil {
		t.Fatal(err)
	}
	s.attach(t, "p")
	return s
}

func providerRow(name, group string) *cluster.CapacityProvider {
	p := &cluster.CapacityProvider{Name: name, Group: group, Protection: true, Draining: true,
		Scaling: cluster.DefaultScaling}
	p.Scaling.Enabled = true
	return p
}

func (s *scaled) attach(t testing.TB, names ...string) {
	t.Helper()
	var strategy []cluster.ProviderShare
	if len(names) > 0 {
		strategy = []cluster.ProviderShare{{Provider: names[0], Weight: 1}}
	}
	if _, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, names, strategy); err != nil {
		t.Fatal(err)
	}
}

func (s *scaled) status(t *testing.T) cluster.AttachmentStatus {
	t.Helper()
	a, err := s.api.ClusterProviders.ClusterAttachments(ctx, prod)
	if err != nil {
		t.Fatal(err)
	}
	return a.Attached.Status
}

func (s *scaled) reservation() float64 { return s.points[len(s.points)-1].Percent }

func TestManagedScaling(t *testing.T) {
	t.Run("AttachesAndDetaches", func(t *testing.T) {
		s := newScaled(t, nil)
		want(t, "status", s.status(t), cluster.AttachmentsInProgress)
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil)
		wantCode(t, err, cluster.CodeUpdateInProgress, "busy")
		s.minute(1)
		want(t, "status", s.status(t), cluster.AttachmentsComplete)
		low, high := cluster.ScalingAlarms(prod, "p")
		want(t, "datapoints of the low alarm", s.alarms[low].Times, 15)
		want(t, "datapoints of the high alarm", s.alarms[high].Times, 1)
		want(t, "hook", s.hooks["g"].Name, cluster.DrainingHook)
		want(t, "tag", s.groups["g"].Tags[cluster.ManagedTag], "true")
		want(t, "metric of nothing", s.reservation(), 100)
		s.attach(t)
		s.minute(1)
		want(t, "alarms, policies and hooks left", len(s.alarms)+len(s.policy)+len(s.hooks), 0)
		if _, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p"); err != nil {
			t.Fatal(err)
		}
		_, missing, err := s.api.CapacityProviders.DescribeCapacityProviders(ctx, []string{"q"})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "failures", missing, 1)
	})
	t.Run("ReleasesProvidersOfADeletedCluster", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		s.ecs.clusters[prod] = false
		if err := s.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		want(t, "alarms and hooks at first", len(s.alarms)+len(s.hooks), 3)
		s.look(t)
		want(t, "alarms and hooks left", len(s.alarms)+len(s.hooks), 0)
		wantCount(t, "clusters", s.described(t, "p").Clusters, 0)
		gone, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p")
		want(t, "error", err, nil)
		want(t, "deleted", gone.UpdateStatus, cluster.ProviderDeleted)
	})
	t.Run("PolicyInsteadOfAlarms", func(t *testing.T) {
		s := newScaled(t,
			func(p *cluster.CapacityProvider) { p.Tags = map[string]string{cluster.TagTargetTracking: "true"} })
		s.minute(1)
		want(t, "alarms", len(s.alarms), 0)
		want(t, "policies", len(s.policy), 1)
		if err := s.api.CapacityProviders.TagCapacityProvider(ctx, "p", nil,
			[]string{cluster.TagTargetTracking}); err != nil {
			t.Fatal(err)
		}
		s.minute(1)
		want(t, "alarms after the change", len(s.alarms), 2)
		want(t, "policies after the change", len(s.policy), 0)
	})
	t.Run("TasksWithoutAProviderTakeNoPlacesOfOthers", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		// no default strategy
		if _, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p"}, nil); err != nil {
			t.Fatal(err)
		}
		create := func(name string, n int, definition string, providers ...cluster.ProviderShare) {
			s.createAs(operation.CreateService{
				Cluster: prod, Name: name, TaskDefinition: definition, Desired: &n,
				ServiceParameters: operation.ServiceParameters{Providers: &providers},
			})
			s.pump()
		}
		count := func(status cluster.TaskStatus) map[string]int {
			out := map[string]int{}
			for _, task := range s.with(status) {
				out[task.Service]++
			}
			return out
		}
		create("plain", 120, "big")
		create("scaled", 4, "web", cluster.ProviderShare{Provider: "p", Weight: 1})
		want(t, "provisioning tasks", fmt.Sprint(count(cluster.TaskProvisioning)), "map[plain:100 scaled:4]")
		s.minute(1)
		want(t, "desired capacity", s.groups["g"].Desired, 2)
		create("more", 120, "big", cluster.ProviderShare{Provider: "p", Weight: 1})
		want(t, "provisioning tasks of a provider", count(cluster.TaskProvisioning)["more"], 96)
		s.minute(12)
		if n := count(cluster.TaskRunning)["scaled"]; n != 4 {
			t.Errorf("%d tasks of the service with a capacity provider run", n)
		}
	})
	t.Run("OutFromZeroAndInAgain", func(t *testing.T) {
		s := newScaled(t, nil)
		n := 10
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		wantCount(t, "provisioning tasks", s.with(cluster.TaskProvisioning), 10)
		s.minute(1)
		want(t, "metric from zero", s.reservation(), 200)
		want(t, "desired capacity from zero", s.groups["g"].Desired, 2)
		s.minute(12)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), 10)
		want(t, "desired capacity", s.groups["g"].Desired, 3)
		s.scale("web", 2)
		s.minute(40)
		wantCount(t, "running tasks after scaling in", s.with(cluster.TaskRunning), 2)
		busy := placed(s.with(cluster.TaskRunning))
		want(t, "desired capacity after scaling in", s.groups["g"].Desired, len(busy))
		for _, i := range s.groups["g"].Instances {
			want(t, "protection of "+i.ID, i.Protected, busy["h-"+i.ID] > 0)
		}
	})
	t.Run("ProtectsBeforeTheFirstStart", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(10)
		want(t, "protection of an empty instance", s.groups["g"].Instances[0].Protected, false)
		s.refuse = errors.New("no answer")
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		wantCount(t, "starts while protecting fails", s.with(cluster.TaskRunning), 0)
		s.advance(10 * time.Second)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), 1)
		want(t, "protection of the task's instance", s.groups["g"].Instances[0].Protected, true)
	})
	t.Run("ProtectsAgainWhereATaskCame", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(5)
		want(t, "protection once it is noted", s.groups["g"].Instances[0].Protected, true)
		come := false
		s.release = func() { // dispatch protects just before managed scaling lets go
			s.release, come = nil, true
			s.run(t, operation.SubmitTasks{Count: 1})
			wantCount(t, "running tasks", s.with(cluster.TaskRunning), 1)
		}
		s.minute(1)
		want(t, "a task came", come, true)
		want(t, "protection", s.groups["g"].Instances[0].Protected, true)
		s.ecs.exit(s.with(cluster.TaskRunning)[0].ECSID, 0)
		s.minute(3)
		want(t, "protection once it is gone", s.groups["g"].Instances[0].Protected, false)
	})
	t.Run("DrainsWhatIsTerminated", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 2, 2
		n := 2
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.minute(3)
		wantCount(t, "running tasks", s.with(cluster.TaskRunning), 2)
		gone := s.groups["g"].Instances[0].ID
		if err := s.TerminateInstance(ctx, gone, false); err != nil {
			t.Fatal(err)
		}
		s.minute(10)
		if !slices.Contains(s.calls, "complete "+gone) {
			t.Fatalf("the termination was never completed: %q", s.calls)
		}
		for _, task := range s.with(cluster.TaskRunning) {
			if task.Instance == "h-"+gone {
				t.Errorf("task %s runs on an instance that is gone", task.ID)
			}
		}
		wantCount(t, "running tasks after the drain", s.with(cluster.TaskRunning), 2)
	})
	t.Run("AsksECSBeforeItLetsAnInstanceGo", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(2)
		gone := s.groups["g"].Instances[0].ID
		s.ecs.mute = true
		late := s.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "h-" + gone, TaskDefinition: "web:1"})
		s.ecs.report(late.ID, func(t *cluster.ECSTask) { t.Last = cluster.TaskRunning })
		s.ecs.mute = false
		if err := s.TerminateInstance(ctx, gone, false); err != nil {
			t.Fatal(err)
		}
		s.minute(10)
		if slices.Contains(s.calls, "complete "+gone) {
			t.Fatal("the termination was completed, and a task that nobody told of was on the instance")
		}
		want(t, "row", s.task(late.ID).Instance, "h-"+gone)
		s.ecs.exit(late.ID, 0)
		s.minute(2)
		if !slices.Contains(s.calls, "complete "+gone) {
			t.Fatalf("the termination hangs: %q", s.calls)
		}
	})
	t.Run("AnInstanceStoppedByHandDoesNotHang", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(2)
		s.run(t, operation.SubmitTasks{Count: 1})
		gone := s.groups["g"].Instances[0].ID
		s.connect("h-"+gone, false)
		s.pump()
		if err := s.TerminateInstance(ctx, gone, false); err != nil {
			t.Fatal(err)
		}
		s.minute(5)
		if slices.Contains(s.calls, "complete "+gone) {
			t.Fatal("the termination was completed while the agent may come back")
		}
		s.minute(10)
		if !slices.Contains(s.calls, "complete "+gone) {
			t.Fatalf("the termination hangs: %q", s.calls)
		}
	})
	t.Run("EmitsOnceThatAServiceIsLeftOut", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(2)
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "big", TaskDefinition: "big", Desired: &n})
		s.minute(8)
		told := 0
		for _, m := range s.events("big") {
			if strings.Contains(m, "ignored when capacity provider p scales out") {
				told++
			}
		}
		want(t, "events", told, 1)
	})
	t.Run("EmitsOnceThatTheGroupIsFull", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Max = 1
		n := 9
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(20)
		told := 0
		for _, m := range s.events("web") {
			if strings.Contains(m, "(service web) tasks wait for capacity provider p: ") &&
				strings.Contains(m, "the group is at its maximum of 1.") {
				told++
			}
		}
		want(t, "events", told, 1)
	})
	t.Run("StandaloneTasksWaitForTheirTime", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Min, s.groups["g"].Desired = 1, 1
		s.minute(2)
		s.run(t, operation.SubmitTasks{Count: 1, Kind: cluster.RunTask, TaskDefinition: "big"})
		wantCount(t, "provisioning tasks", s.with(cluster.TaskProvisioning), 1)
		s.minute(31)
		wantCount(t, "provisioning tasks when the time is over", s.with(cluster.TaskProvisioning), 0)
	})
	t.Run("EventsMakeItCheckAtOnce", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		event := func(source, kind, detail string) state.Message {
			return state.Message{ID: kind, Body: []byte(fmt.Sprintf(
				`{"id":"e","source":%q,"detail-type":%q,"account":"1","region":"r","time":"2026-11-21T09:00:00Z","resources":[],"detail":%s}`, source, kind, detail))}
		}
		_, high := cluster.ScalingAlarms(prod, "p")
		alarm := event("aws.cloudwatch", "CloudWatch Alarm State Change", fmt.Sprintf(
			`{"alarmName":%q,"state":{"value":"ALARM","timestamp":"2026-11-21T09:00:00.000+0000"}}`, high))
		other := event("aws.cloudwatch", "CloudWatch Alarm State Change",
			`{"alarmName":"theirs","state":{"value":"ALARM","timestamp":"2026-11-21T09:00:00.000+0000"}}`)
		ending := event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", `{"LifecycleActionToken":"t","AutoScalingGroupName":"g",
			"LifecycleHookName":"ecs-managed-draining-termination-hook","EC2InstanceId":"i-1","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"}`)
		for n, c := range []struct {
			m    state.Message
			want int
		}{{other, 1}, {alarm, 2}, {ending, 3}} {
			s.advance(time.Second) // since the last look
			wantCount(t, "messages to deliver again", s.function.HandleMessages(ctx, []state.Message{c.m}), 0)
			want(t, fmt.Sprint("looks after event ", n), len(s.points), c.want)
		}
	})
	t.Run("UnknownSchedule", func(t *testing.T) {
		s := newScaled(t, nil)
		var drop *cluster.Drop
		if err := s.function.RunSchedule(ctx, "health"); !errors.As(err, &drop) {
			t.Fatalf("got %v, want a drop", err)
		}
	})
}

// described returns a capacity provider as the API has it.
func (s *scaled) described(t *testing.T, name string) *cluster.CapacityProvider {
	t.Helper()
	got, _, err := s.api.CapacityProviders.DescribeCapacityProviders(ctx, []string{name})
	if err != nil || len(got) != 1 {
		t.Fatalf("providers %v, %v", got, err)
	}
	return got[0]
}

func (s *scaled) look(t *testing.T) {
	t.Helper()
	if err := s.function.RunSchedule(ctx, "scaling"); err != nil {
		t.Fatal(err)
	}
}

// A provider whose group lacks the installation's tag names the installation until the tag is there.
func TestManagedScaling_NotesAMissingTag(t *testing.T) {
	s := newScaled(t, nil)
	s.groups["g"].Tags = map[string]string{handler.OwnerTag: "blue"}
	s.groups["free"] = &cluster.AutoScalingGroup{Name: "free", Max: 1, Protects: true}
	_, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "free"))
	want(t, "error", err, nil)
	s.function.Settings.Installation = "blue"
	s.look(t)
	got := s.described(t, "q")
	want(t, "status", got.UpdateStatus, cluster.ProviderCreateFailed)
	want(t, "installation", got.Untagged, "blue")
	s.groups["free"].Tags = map[string]string{handler.OwnerTag: "blue"}
	next, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{Name: "q"})
	want(t, "error", err, nil)
	want(t, "installation while it is checked", next.Untagged, "")
	s.look(t)
	got = s.described(t, "q")
	want(t, "status", got.UpdateStatus, cluster.ProviderUpdated)
	want(t, "installation", got.Untagged, "")
}

// Managed scaling finds groups that are not suitable, for providers with clusters and without.
func TestManagedScaling_ExaminesNewProviders(t *testing.T) {
	unprotected := func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Protects = false }
	const protection = "the Auto Scaling group must have instance protection from scale in enabled."
	for _, c := range []struct {
		name   string
		change func(*cluster.CapacityProvider, *cluster.AutoScalingGroup)
		refuse cluster.Code // of the tag
		text   string
	}{
		{name: "NoGroup", change: func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) { p.Group = "other" },
			text: "ARN is not valid"},
		{name: "Unprotected", change: unprotected, text: protection},
		{name: "Weights", change: func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Weighted = true },
			text: "weights"},
		{name: "MayNotTag", refuse: "AccessDenied", text: "AccessDenied: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScaled(t, nil)
			s.minute(1)
			g := &cluster.AutoScalingGroup{Name: "free", Max: 1, Protects: true}
			s.groups["free"] = g
			p := providerRow("q", "free")
			if c.change != nil {
				c.change(p, g)
			}
			made, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, p)
			want(t, "error", err, nil)
			want(t, "status", made.UpdateStatus, cluster.ProviderCreating)
			if c.refuse != "" {
				s.untaggable = cluster.Errorf(c.refuse, "no")
			}
			s.look(t) // no cluster has it
			got := s.described(t, "q")
			want(t, "status", got.UpdateStatus, cluster.ProviderCreateFailed)
			if !strings.Contains(got.UpdateReason, c.text) {
				t.Errorf("the reason %q lacks %q", got.UpdateReason, c.text)
			}
			_, err = s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p", "q"}, nil)
			wantCode(t, err, cluster.CodeInvalidParameter,
				"The specified capacity provider 'q' is not in an ACTIVE state. Specify a valid capacity provider and try "+
					"again. It could not be created. ")
			wantCode(t, err, cluster.CodeInvalidParameter, c.text)
			want(t, "attachments without it", s.status(t), cluster.AttachmentsComplete)
			gone, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "q")
			want(t, "error", err, nil)
			want(t, "deleted", gone.UpdateStatus, cluster.ProviderDeleted)
		})
	}
	t.Run("AGroupThatMayHaveNoInstancesIsFit", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Max = 0
		s.look(t)
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderCreated)
		want(t, "attachments", s.status(t), cluster.AttachmentsComplete)
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.pump()
		s.minute(1)
		want(t, "desired capacity", s.groups["g"].Desired, 0)
		wantEvent(t, s.events("web"),
			"tasks wait for capacity provider p: 2 instances are needed, but the group is at its maximum of 0.")
		s.groups["g"].Max = 1
		s.minute(2)
		wantCount(t, "running tasks once it may", s.with(cluster.TaskRunning), 1)
	})
	t.Run("WeightsThatAreGivenLaterEndTheScaling", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		s.groups["g"].Weighted = true
		s.pump()
		for range 2 {
			if err := s.function.RunSchedule(ctx, "scaling"); err == nil ||
				!strings.Contains(err.Error(), "instance weights") {
				t.Errorf("got %v, want the reason", err)
			}
		}
		want(t, "attachments", s.status(t), cluster.AttachmentsFailed)
		want(t, "desired capacity", s.groups["g"].Desired, 0)
		wantEvent(t, s.events("web"),
			"capacity provider p does not scale: The Auto Scaling group g has instance weights, "+
				"which managed scaling does not support.")
		s.groups["g"].Weighted = false
		s.minute(2)
		want(t, "attachments without weights", s.status(t), cluster.AttachmentsComplete)
		wantCount(t, "running tasks without weights", s.with(cluster.TaskRunning), 1)
	})
	t.Run("FailedInAClusterThatHasAnother", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "gone")); err != nil {
			t.Fatal(err)
		}
		s.attach(t, "p", "q") // before anybody has looked at its group
		_ = s.function.RunSchedule(ctx, "scaling")
		want(t, "attachments", s.status(t), cluster.AttachmentsFailed)
		a, err := s.api.ClusterProviders.ClusterAttachments(ctx, prod)
		want(t, "error", err, nil)
		want(t, "reasons", fmt.Sprint(a.Attached.AttachmentProblems),
			fmt.Sprintf("map[q:%s]", s.described(t, "q").UpdateReason))
		s.attach(t, "p", "q") // who changes something else need not take it away
		_ = s.function.RunSchedule(ctx, "scaling")
		s.attach(t, "p")
		s.look(t)
		want(t, "attachments without it", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("Complete", func(t *testing.T) {
		s := newScaled(t, nil)
		want(t, "status at first", s.described(t, "p").UpdateStatus, cluster.ProviderCreating)
		_, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx,
			operation.UpdateCapacityProvider{Name: "p", Draining: new(false)})
		wantCode(t, err, cluster.CodeUpdateInProgress, "busy")
		s.look(t)
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderCreated)
		want(t, "tag", s.groups["g"].Tags[cluster.ManagedTag], "true")
		want(t, "attachments", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("WaitsWhileAWSIsBusy", func(t *testing.T) {
		s := newScaled(t, nil)
		s.untaggable = cluster.Errorf("Throttling", "later")
		if s.function.RunSchedule(ctx, "scaling") == nil {
			t.Error("nothing is said of it")
		}
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderCreating)
		want(t, "attachments", s.status(t), cluster.AttachmentsInProgress)
		s.look(t)
		want(t, "status after it", s.described(t, "p").UpdateStatus, cluster.ProviderCreated)
		want(t, "attachments after it", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("AFailedOneIsLookedAtAgainWhenItIsUpdated", func(t *testing.T) {
		s := newScaled(t, nil)
		s.groups["g"].Protects = false
		_ = s.function.RunSchedule(ctx, "scaling")
		want(t, "status", s.described(t, "p").UpdateStatus, cluster.ProviderCreateFailed)
		if _, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p"); err != nil {
			t.Fatal(err)
		}
		want(t, "status of one that a cluster has", s.described(t, "p").UpdateStatus, cluster.ProviderDeleteFailed)
		update := func(c operation.UpdateCapacityProvider) {
			t.Helper()
			c.Name = "p"
			p, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, c)
			want(t, "error of an update", err, nil)
			want(t, "status at first", p.UpdateStatus, cluster.ProviderUpdating)
		}
		update(operation.UpdateCapacityProvider{Scaling: operation.ScalingChange{Target: new(50)}})
		_ = s.function.RunSchedule(ctx, "scaling")
		p := s.described(t, "p")
		want(t, "status if the group is as it was", p.UpdateStatus, cluster.ProviderUpdateFailed)
		want(t, "creation failed", p.HasFailedCreation(), true)
		want(t, "target", p.Scaling.Target, 50)
		update(operation.UpdateCapacityProvider{Protection: new(false)})
		s.look(t)
		want(t, "status after an update", s.described(t, "p").UpdateStatus, cluster.ProviderUpdated)
		want(t, "creation failed", s.described(t, "p").HasFailedCreation(), false)
		want(t, "attachments", s.status(t), cluster.AttachmentsComplete)
	})
	t.Run("AnUpdateThatDoesNotFitIsTakenBack", func(t *testing.T) {
		s := newScaled(t, func(p *cluster.CapacityProvider) { p.Protection = false })
		s.groups["g"].Protects = false
		s.look(t)
		next, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, operation.UpdateCapacityProvider{
			Name: "p", Protection: new(true), Draining: new(false), Scaling: operation.ScalingChange{Target: new(50)},
		})
		want(t, "error", err, nil)
		want(t, "status", next.UpdateStatus, cluster.ProviderUpdating)
		if err := s.api.CapacityProviders.TagCapacityProvider(ctx, "p",
			map[string]string{cluster.TagTargetTracking: "true"}, nil); err != nil {
			t.Fatal(err)
		}
		s.look(t)
		got := s.described(t, "p")
		want(t, "after it", fmt.Sprint(got.UpdateStatus, got.Protection, got.Draining, got.Scaling.Target,
			got.Scaling.TargetTracking), "UPDATE_FAILEDfalse true 100 true")
		if !strings.Contains(got.UpdateReason, protection) {
			t.Errorf("the reason is %q", got.UpdateReason)
		}
		want(t, "attachments", s.status(t), cluster.AttachmentsComplete)
		s.groups["g"].Protects = true
		if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx,
			operation.UpdateCapacityProvider{Name: "p", Protection: new(true)}); err != nil {
			t.Fatal(err)
		}
		s.look(t)
		got = s.described(t, "p")
		want(t, "with protection", fmt.Sprint(got.UpdateStatus, got.Protection, got.UpdateReason == ""),
			"UPDATE_COMPLETEtrue true")
	})
	t.Run("AnUpdateThatNeedsNoLookIsDoneAtOnce", func(t *testing.T) {
		s := newScaled(t, nil)
		s.look(t)
		next, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx,
			operation.UpdateCapacityProvider{Name: "p", Scaling: operation.ScalingChange{Target: new(50)}})
		want(t, "error", err, nil)
		want(t, "status", next.UpdateStatus, cluster.ProviderUpdated)
	})
}

func TestAPI_CapacityProviders(t *testing.T) {
	t.Run("Refuses", func(t *testing.T) {
		for _, c := range []struct {
			name   string
			change func(*cluster.CapacityProvider)
			code   cluster.Code
			text   string
		}{
			{"ProtectionAlone", func(p *cluster.CapacityProvider) { p.Scaling.Enabled = false },
				cluster.CodeInvalidParameter, "enable managed scaling"},
			{"ReservedName", func(p *cluster.CapacityProvider) { p.Name = "Fargate-like" }, cluster.CodeClient,
				"cannot be prefixed"},
			{"Taken", func(p *cluster.CapacityProvider) { p.Name = "p" }, cluster.CodeClient, "already exists"},
			{"GroupTaken", func(p *cluster.CapacityProvider) { p.Group = "g" }, cluster.CodeClient, "already in use"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newScaled(t, nil)
				p := providerRow("q", "free")
				c.change(p)
				_, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, p)
				wantCode(t, err, c.code, c.text)
			})
		}
	})
	t.Run("OneClusterWhileManagedScalingIsOn", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		s.ecs.clusters["other"] = true
		if err := s.api.Clusters.ClusterCreated(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, "other", []string{"p"}, nil)
		wantCode(t, err, cluster.CodeInvalidParameter, "cannot be associated with another")
		off := operation.UpdateCapacityProvider{Name: "p", Protection: new(false),
			Scaling: operation.ScalingChange{Enabled: new(false)}}
		if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx, off); err != nil {
			t.Fatal(err)
		}
		if _, err := s.api.ClusterProviders.PutClusterProviders(ctx, "other", []string{"p"}, nil); err != nil {
			t.Fatal(err)
		}
		_, err = s.api.CapacityProviders.UpdateCapacityProvider(ctx,
			operation.UpdateCapacityProvider{Name: "p", Protection: new(true)})
		wantCode(t, err, cluster.CodeInvalidParameter, "enable managed scaling")
		_, err = s.api.CapacityProviders.UpdateCapacityProvider(ctx,
			operation.UpdateCapacityProvider{Name: "p", Scaling: operation.ScalingChange{Enabled: new(true)}})
		wantCode(t, err, cluster.CodeInvalidParameter, "clusters prod, other")
	})
	t.Run("OfANewClusterAreCheckedBeforeItIsCreated", func(t *testing.T) {
		s := newScaled(t, nil)
		check := func(name string, providers []string, strategy ...cluster.ProviderShare) error {
			return s.api.ClusterProviders.CheckClusterProviders(ctx, name, providers, strategy)
		}
		wantCode(t, check("new", []string{"q"}), cluster.CodeInvalidParameter, "does not exist")
		wantCode(t, check("new", []string{"p"}), cluster.CodeInvalidParameter, "cannot be associated with another")
		wantCode(t, check("new", nil, cluster.ProviderShare{Provider: "p", Weight: 1}), cluster.CodeInvalidParameter,
			"cannot contain a capacity provider that is not associated with the cluster. Associate the capacity "+
				"provider with the cluster or specify a valid capacity provider and try again.")
		wantCode(t, check("new", []string{"p-1", "q-1"}, cluster.ProviderShare{Provider: "p1", Weight: 1}),
			cluster.CodeInvalidParameter, `try again. The nearest associated capacity provider is "p-1".`)
		want(t, "of the cluster that has them", check(prod, []string{"q"}), nil)
		if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("q", "free")); err != nil {
			t.Fatal(err)
		}
		want(t, "of one that is free", check("new", []string{"q"}, cluster.ProviderShare{Provider: "q", Weight: 1}),
			nil)
	})
	t.Run("InUse", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		n := 1
		s.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n})
		want(t, "provider of the default strategy", s.service("web").Service.Providers[0].Provider, "p")
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, nil, nil)
		wantCode(t, err, cluster.CodeResourceInUse, "in use")
		p, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "update status", p.UpdateStatus, cluster.ProviderDeleteFailed)
	})
	t.Run("DefaultWithoutWeights", func(t *testing.T) {
		s := newScaled(t, nil)
		s.minute(1)
		_, err := s.api.ClusterProviders.PutClusterProviders(ctx, prod, []string{"p"},
			[]cluster.ProviderShare{{Provider: "p", Base: 1}})
		want(t, "error of the cluster", err, nil)
		const words = "There are no capacity providers with a weight value greater than zero defined in the default " +
			"capacity provider strategy. At least one capacity provider must have a weight value greater than zero " +
			"specified. Update the cluster's default capacity provider strategy or specify a valid capacity provider " +
			"strategy and try again."
		create := func(name string, launched bool) error {
			_, err := s.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: name,
				TaskDefinition: "web", Desired: new(1), Launched: launched})
			return err
		}
		wantCode(t, create("web", false), cluster.CodeInvalidParameter, words)
		want(t, "error with a launch type", create("launched", true), nil)
		_, _, err = s.api.Tasks.SubmitTasks(ctx, operation.SubmitTasks{Cluster: prod, Kind: cluster.RunTask,
			TaskDefinition: "web", Count: 1})
		wantCode(t, err, cluster.CodeInvalidParameter, words)
	})
	t.Run("StrategyNamesWhatIsThere", func(t *testing.T) {
		s := newScaled(t, nil)
		n := 1
		for name, text := range map[string]string{"none": "does not exist"} {
			shares := []cluster.ProviderShare{{Provider: name, Weight: 1}}
			_, err := s.api.Services.CreateService(ctx, operation.CreateService{
				Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n,
				ServiceParameters: operation.ServiceParameters{Providers: &shares},
			})
			wantCode(t, err, cluster.CodeInvalidParameter, text)
		}
		d, err := s.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "ec2",
			TaskDefinition: "web", Desired: &n, Launched: true})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "providers of a service with a launch type", d.Service.Providers, 0)
	})
}
