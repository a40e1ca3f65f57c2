package handler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// external creates a service web with the deployment controller EXTERNAL.
func (w *world) external(desired int) {
	w.t.Helper()
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", Desired: &desired,
		Controller: cluster.ExternalController})
}

// taskSet creates a task set of the service web and returns what names it.
func (w *world) taskSet(scale float64, change ...func(*operation.CreateTaskSet)) operation.TaskSetRef {
	w.t.Helper()
	spec := operation.CreateTaskSet{Cluster: prod, Service: "web", TaskDefinition: "web", Scale: scale}
	for _, f := range change {
		f(&spec)
	}
	w.clock.now = w.clock.now.Add(time.Second) // no two are of the same age
	d, err := w.api.TaskSets.CreateTaskSet(ctx, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return operation.TaskSetRef{Cluster: prod, Service: "web", ID: d.Deployment.ID}
}

// taskSets describes the task sets of the service web: RUNNING of desired, status, * if steady.
func (w *world) taskSets() (out []string) {
	w.t.Helper()
	found, missing, err := w.api.TaskSets.DescribeTaskSets(ctx, prod, "web", nil)
	if err != nil || len(missing) > 0 {
		w.t.Fatal(err, missing)
	}
	for _, d := range found {
		text := fmt.Sprintf("%d/%d", d.Deployment.Running, d.Deployment.Set.Count(d.Service.Desired))
		switch {
		case d.Deployment.Set.Draining:
			text += " DRAINING"
		case d.Deployment.ID == d.Service.Deployment.ID:
			text += " PRIMARY"
		}
		if d.Deployment.Set.Steady {
			text += "*"
		}
		out = append(out, text)
	}
	return out
}

func (w *world) wantSets(what string, wanted ...string) {
	w.t.Helper()
	if got := w.taskSets(); !slices.Equal(got, wanted) {
		w.t.Fatalf("%s: got %q, want %q", what, got, wanted)
	}
}

// With the deployment controller EXTERNAL the caller deploys: blue is replaced by green through
// scales, and nothing starts or stops but by them.
func TestAPI_TaskSetsBlueGreen(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 4, 4096, 8192)
	w.ecs.define(definition("green", 1, 256, 512))
	w.external(4)
	w.wantSets("no task set")
	blue := w.taskSet(100)
	w.wantSets("just created", "0/4")
	w.advance(2 * time.Minute)
	w.wantSets("blue runs", "4/4*")
	must(t)(w.api.TaskSets.MakePrimary(ctx, blue))
	w.wantSets("blue is primary", "4/4 PRIMARY*")
	want(t, "task definition", w.service("web").Deployment.TaskDefinition, "web:1")
	green := w.taskSet(0, func(c *operation.CreateTaskSet) { c.TaskDefinition, c.ExternalID = "green", "release-7" })
	w.advance(2 * time.Minute)
	w.wantSets("green has no tasks", "4/4 PRIMARY*", "0/0*")
	must(t)(w.api.TaskSets.UpdateTaskSet(ctx, green, 50))
	w.wantSets("just scaled", "4/4 PRIMARY*", "0/2")
	w.advance(2 * time.Minute)
	w.wantSets("half of green", "4/4 PRIMARY*", "2/2*")
	must(t)(w.api.TaskSets.MakePrimary(ctx, green))
	w.wantSets("green is primary", "4/4*", "2/2 PRIMARY*")
	_, err := w.api.TaskSets.DeleteTaskSet(ctx, blue, false)
	wantCode(t, err, cluster.CodeInvalidParameter, "scaled above 0")
	w.wantSets("nothing is deleted", "4/4*", "2/2 PRIMARY*")
	must(t)(w.api.TaskSets.DeleteTaskSet(ctx, blue, true))
	w.wantSets("being deleted", "4/0 DRAINING", "2/2 PRIMARY*")
	w.advance(2 * time.Minute)
	w.wantSets("deleted", "2/2 PRIMARY*")
	want(t, "steady without the deleted one", w.service("web").Steady, true)
	_, err = w.api.TaskSets.UpdateTaskSet(ctx, blue, 1)
	wantCode(t, err, cluster.CodeTaskSetNotFound, "")
	must(t)(w.api.TaskSets.UpdateTaskSet(ctx, green, 100))
	w.advance(2 * time.Minute)
	w.wantSets("all of green", "4/4 PRIMARY*")
	want(t, "service", w.service("web").Running, 4)
	want(t, "last event", w.service("web").EventLog[0].Message, "(service web) has reached a steady state.")
	for _, task := range w.with(cluster.TaskRunning) {
		want(t, "revision", task.Revision, green.ID)
	}
}

func must(t *testing.T) func(*operation.TaskSetDetail, error) {
	return func(_ *operation.TaskSetDetail, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A task set's tasks go where it says: by its own launch type and capacity providers.
func TestPlacement_TaskSetLaunch(t *testing.T) {
	w := newWorld(t)
	w.associate("spot")
	w.instances("i", 2, 4096, 8192)
	outside, spot := zoned("x", "zone-a"), zoned("s", "zone-a")
	outside.Attributes[cluster.AttributeExternal] = ""
	spot.Attributes[cluster.AttributeProvider] = "spot"
	w.ecs.register(outside)
	w.ecs.register(spot)
	w.pump()
	w.external(2)
	anywhere := w.taskSet(50)
	external := w.taskSet(100, func(c *operation.CreateTaskSet) { c.Launched, c.External = true, true })
	provided := w.taskSet(100, func(c *operation.CreateTaskSet) {
		c.Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	})
	w.advance(2 * time.Minute)
	w.wantSets("all run", "1/1*", "2/2*", "2/2*")
	for _, task := range w.with(cluster.TaskRunning) {
		if on := map[string]string{external.ID: "x", provided.ID: "s"}[task.Revision]; on != "" {
			want(t, "instance", task.Instance, on)
		} else {
			want(t, "revision", task.Revision, anywhere.ID)
		}
	}
	launches, err := w.api.Tasks.TaskLaunches(ctx, w.tasks())
	want(t, "error", err, nil)
	for _, task := range w.tasks() {
		want(t, "external", launches[task.ID].External, task.Revision == external.ID)
		want(t, "provider", launches[task.ID].Provider != "", task.Revision == provided.ID)
	}
	want(t, "used providers", fmt.Sprint(w.service("web").UsedProviders()), "[{spot 0 1}]")
}

// What no task set may be, or have done to it, is refused and changes nothing.
func TestAPI_TaskSetRefusals(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.create("rolling", "web", 1)
	w.external(2)
	set := w.taskSet(0)
	create := operation.CreateTaskSet{Cluster: prod, Service: "web", TaskDefinition: "web"}
	for name, c := range map[string]struct {
		change func(*operation.CreateTaskSet)
		code   cluster.Code
		text   string
	}{
		"Cluster": {func(c *operation.CreateTaskSet) { c.Cluster = "no" }, cluster.CodeClusterNotFound,
			"Cluster not found."},
		"Service": {func(c *operation.CreateTaskSet) { c.Service = "no" }, cluster.CodeServiceNotFound,
			"Service not found."},
		"Controller": {func(c *operation.CreateTaskSet) { c.Service = "rolling" }, cluster.CodeInvalidParameter,
			"Amazon ECS only supports task set management on services configured to use external deployment controllers."},
		"Network": {func(c *operation.CreateTaskSet) { c.Network = subnet }, cluster.CodeInvalidParameter,
			"Network Configuration is not valid"},
		"Provider": {func(c *operation.CreateTaskSet) {
			c.Providers = []cluster.ProviderShare{{Provider: "no", Weight: 1}}
		}, cluster.CodeInvalidParameter, ""},
	} {
		spec := create
		c.change(&spec)
		_, err := w.api.TaskSets.CreateTaskSet(ctx, spec)
		if cluster.ErrorCode(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		wantCode(t, err, c.code, c.text)
	}
	w.wantSets("nothing is created", "0/0")
	_, err := w.api.TaskSets.MakePrimary(ctx, operation.TaskSetRef{Cluster: prod, Service: "web", ID: "ecs-svc/1"})
	wantCode(t, err, cluster.CodeTaskSetNotFound, "")
	must(t)(w.api.TaskSets.MakePrimary(ctx, set))
	_, err = w.api.TaskSets.DeleteTaskSet(ctx, set, false)
	wantCode(t, err, cluster.CodeInvalidParameter, "primary task set")
	must(t)(w.api.TaskSets.DeleteTaskSet(ctx, set, true))
	for _, what := range []func() (*operation.TaskSetDetail, error){
		func() (*operation.TaskSetDetail, error) { return w.api.TaskSets.UpdateTaskSet(ctx, set, 1) },
		func() (*operation.TaskSetDetail, error) { return w.api.TaskSets.MakePrimary(ctx, set) },
	} {
		_, err := what()
		wantCode(t, err, cluster.CodeInvalidParameter, "DRAINING")
	}
	must(t)(w.api.TaskSets.DeleteTaskSet(ctx, set, true))
	w.pump()
	w.wantSets("deleted")
	want(t, "primary", w.service("web").Deployment.ID, "")
	for range cluster.MaxTaskSets {
		w.taskSet(0)
	}
	_, err = w.api.TaskSets.CreateTaskSet(ctx, create)
	wantCode(t, err, cluster.CodeInvalidParameter,
		"5 deployments exist on the service. Unable to create new TaskSet since this exceeds the maximum limit.")
}

// The same clientToken creates one task set.
func TestAPI_TaskSetToken(t *testing.T) {
	w := newWorld(t)
	w.external(1)
	same := func(c *operation.CreateTaskSet) { c.Token, c.Params = "token", "digest" }
	want(t, "id", w.taskSet(100, same), w.taskSet(100, same))
	w.wantSets("one", "0/1")
	_, err := w.api.TaskSets.CreateTaskSet(ctx, operation.CreateTaskSet{Cluster: prod, Service: "web",
		TaskDefinition: "web", Token: "token", Params: "other"})
	wantCode(t, err, cluster.CodeInvalidParameter, "not idempotent")
	w.taskSet(100)
	w.taskSet(100)
	w.wantSets("without a token", "0/1", "0/1", "0/1")
}

// UpdateService changes the desired count of a service of task sets, and what its task sets do not
// say; DeleteService wants them deleted first.
func TestAPI_ExternalService(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 4, 4096, 8192)
	w.external(3)
	w.taskSet(50)
	w.advance(2 * time.Minute)
	w.wantSets("half of 3", "2/2*")
	w.scale("web", 6)
	w.wantSets("not steady at once", "2/3")
	w.advance(2 * time.Minute)
	w.wantSets("half of 6", "3/3*")
	for text, c := range map[string]operation.UpdateService{
		"Unable to update task definition on services with a EXTERNAL":    {TaskDefinition: "big"},
		"Unable to update network parameters on services with a EXTERNAL": {Network: subnet},
		"Cannot force a new deployment on services with a EXTERNAL":       {Force: true},
		"deploymentCircuitBreaker is not supported": given(func(p *operation.ServiceParameters) {
			p.Breaker = &cluster.CircuitBreaker{Enable: true}
		}),
		"availabilityZoneRebalancing is not supported": given(func(p *operation.ServiceParameters) { p.ZoneRebalancing = new(true) }),
	} {
		c.Name = "web"
		_, err := w.update(c)
		wantCode(t, err, cluster.CodeInvalidParameter, text)
	}
	_, err := w.update(operation.UpdateService{Name: "web", Controller: new(cluster.DeploymentController(""))})
	wantCode(t, err, cluster.CodeUnsupported, "deploymentController")
	_, err = w.update(operation.UpdateService{Name: "web", Controller: new(cluster.ExternalController),
		Constraints: &[]cluster.PlacementConstraint{{Type: "distinctInstance"}}, MaxPercent: new(150)})
	want(t, "error", err, nil)
	want(t, "constraints", len(w.service("web").Rules.Constraints), 1)
	_, err = w.api.Services.DeleteService(ctx, prod, "web", false)
	wantCode(t, err, cluster.CodeInvalidParameter, "scaled above 0")
	w.scale("web", 0)
	w.advance(2 * time.Minute)
	_, err = w.api.Services.DeleteService(ctx, prod, "web", false)
	wantCode(t, err, cluster.CodeInvalidParameter, "while deployments are active")
	w.scale("web", 2)
	w.advance(2 * time.Minute)
	if _, err = w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Minute)
	want(t, "status", w.service("web").Status, cluster.ServiceInactive)
	wantCount(t, "tasks", w.with(cluster.TaskRunning), 0)
	_, _, err = w.api.TaskSets.DescribeTaskSets(ctx, prod, "web", nil)
	wantCode(t, err, cluster.CodeServiceNotActive, "Service was not ACTIVE.")
	wantCount(t, "service revisions", rows[*cluster.ServiceRevision](w, state.PrefixRevision), 0)
}

// Protected tasks of one task set do not stand in the way of another one, so any may be protected.
func TestAPI_TaskSetProtection(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.external(2)
	must(t)(w.api.TaskSets.MakePrimary(ctx, w.taskSet(100)))
	w.taskSet(100)
	w.advance(2 * time.Minute)
	w.wantSets("both run", "2/2 PRIMARY*", "2/2*")
	for _, task := range w.with(cluster.TaskRunning) {
		_, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{task.ID}, time.Hour)
		want(t, "error", err, nil)
		want(t, "failures", len(failed), 0)
	}
}

// Tags of a task set are changed like those of other resources.
func TestAPI_TaskSetTags(t *testing.T) {
	w := newWorld(t)
	w.external(0)
	set := w.taskSet(0, func(c *operation.CreateTaskSet) { c.Tags = map[string]string{"a": "1", "b": "2"} })
	arn := cluster.ResourceARN{Kind: "task-set", Cluster: prod, Name: "web/" + set.ID}
	if err := w.api.Tags.TagResource(ctx, arn, map[string]string{"c": "3"}, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	got, err := w.api.Tags.ResourceTags(ctx, arn)
	want(t, "error", err, nil)
	want(t, "tags", fmt.Sprint(got), "map[b:2 c:3]")
	arn.Name = "web/ecs-svc/1"
	_, err = w.api.Tags.ResourceTags(ctx, arn)
	wantCode(t, err, cluster.CodeTaskSetNotFound, "")
}

// Tasks of a task set are registered where it says, with its externalId in Cloud Map.
func TestPlacement_TaskSetRegistrations(t *testing.T) {
	w, elb := newWorld(t), newFakeBalancer()
	w.dispatch.LoadBalancers, w.dispatch.Registries = elb, elb
	w.instances("i", 2, 4096, 8192)
	def := definition("vpc", 1, 256, 512)
	def.Needs.ENIs = 1
	w.ecs.define(def)
	w.external(1)
	blue := w.taskSet(100, func(c *operation.CreateTaskSet) {
		c.TaskDefinition, c.Network, c.ExternalID = "vpc", subnet, "blue"
		c.LoadBalancers, c.Registries = []cluster.LoadBalancer{group}, []cluster.Registry{registry}
	})
	w.taskSet(100)
	w.advance(2 * time.Minute)
	targets := rows[*cluster.Target](w, state.PrefixTarget)
	wantCount(t, "tasks with registrations", targets, 1)
	want(t, "revision", w.task(targets[0].Task).Revision, blue.ID)
	want(t, "target group", targets[0].Registrations[0].ARN, group.TargetGroup)
	want(t, "external id there", targets[0].Registrations[0].ExternalID, "")
	want(t, "Cloud Map service", targets[0].Registrations[1].ARN, registry.ARN)
	want(t, "external id", targets[0].Registrations[1].ExternalID, "blue")
	w.wantSets("without health reports the first is not steady", "1/1", "1/1*")
}

// Domain rules are about the service: they count the tasks of all its task sets, and so does the
// number of tasks that they are computed from.
func TestPlacement_TaskSetsShareTheDomains(t *testing.T) {
	w := newWorld(t)
	for n, id := range w.instances("i", 6, 4096, 8192) {
		w.attribute(id, "berth.fault-domain", fmt.Sprintf("fd:/dc%d", n%3))
	}
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", Desired: new(3),
		Controller: cluster.ExternalController, Rules: cluster.Rules{DomainPolicy: cluster.PolicyQuorum}})
	w.taskSet(100)
	w.advance(2 * time.Minute)
	w.wantSets("one of each fault domain", "3/3*")
	w.taskSet(100)
	w.advance(2 * time.Minute)
	w.wantSets("quorum safety allows 2 of 6 in a fault domain", "3/3*", "3/3*")
	on := map[string]int{}
	for _, task := range w.with(cluster.TaskRunning) {
		on[w.instance(task.Instance).Attributes["berth.fault-domain"]]++
	}
	want(t, "fault domains", fmt.Sprint(on), "map[fd:/dc0:2 fd:/dc1:2 fd:/dc2:2]")
}

// Tasks of a task set that find no room wait, and start where room comes, each set for itself.
func TestPlacement_TaskSetsWithoutRoom(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 1024, 2048)
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", Desired: new(2), MaxPercent: new(100),
		Controller: cluster.ExternalController})
	w.taskSet(100)
	w.taskSet(100, func(c *operation.CreateTaskSet) { c.TaskDefinition = "big" })
	w.advance(2 * time.Minute)
	w.wantSets("no room for big", "2/2*", "0/2")
	wantEvent(t, w.events("web"), "was unable to place a task")
	w.instances("j", 2, 4096, 8192)
	w.advance(2 * time.Minute)
	w.wantSets("room", "2/2*", "2/2*")
}
