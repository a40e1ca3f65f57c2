package handler_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
)

// provide registers an instance of a capacity provider with room for n tasks of web.
func (w *world) provide(id, provider string, n int64) {
	w.t.Helper()
	i := zoned(id, "zone-a")
	i.Provider, i.Registered.CPU = provider, n*256*cluster.CPUUnit
	w.ecs.register(i)
	w.pump()
}

// associate gives the cluster capacity providers without managed scaling.
func (w *world) associate(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if _, err := w.api.CapacityProviders.CreateCapacityProvider(ctx, &cluster.CapacityProvider{Name: name, Group: name, Scaling: cluster.DefaultScaling}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.api.ClusterProviders.PutClusterProviders(ctx, prod, names, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestPlacement_Providers(t *testing.T) {
	mixed := []cluster.ProviderShare{{Provider: "spot", Weight: 3}, {Provider: "demand", Base: 2, Weight: 1}}
	service := func(n int) operation.CreateService {
		return operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n, ServiceParameters: operation.ServiceParameters{Providers: &mixed},
		}
	}
	on := func(w *world) string {
		at := placed(w.with(cluster.TaskRunning))
		return fmt.Sprint("spot ", at["s"], ", demand ", at["d"], ", other ", at["o"])
	}
	begin := func(t *testing.T, spot, demand int64, change ...func(*handler.Settings)) *world {
		w := newWorld(t, change...)
		w.associate("spot", "demand")
		w.provide("s", "spot", spot)
		w.provide("d", "demand", demand)
		w.provide("o", "", 20)
		return w
	}
	t.Run("BaseFirstThenByWeight", func(t *testing.T) {
		for _, c := range []struct {
			desired int
			want    string
		}{{1, "spot 0, demand 1, other 0"}, {2, "spot 0, demand 2, other 0"}, {6, "spot 3, demand 3, other 0"}, {10, "spot 6, demand 4, other 0"}} {
			w := begin(t, 20, 20)
			w.createAs(service(c.desired))
			w.pump()
			want(t, fmt.Sprint("of ", c.desired), on(w), c.want)
			w.advance(time.Minute)
			w.scale("web", 10)
			w.pump()
			want(t, fmt.Sprint("of ", c.desired, ", then 10"), on(w), "spot 6, demand 4, other 0")
		}
	})
	t.Run("ZonesAreBalancedByWhicheverHasRoomThere", func(t *testing.T) {
		for n, stays := range []string{"spot", "demand"} {
			goes := []string{"demand", "spot"}[n]
			even := []cluster.ProviderShare{{Provider: "spot", Weight: 1}, {Provider: "demand", Weight: 1}}
			w := begin(t, 20, 20)
			spec := service(4)
			spec.Providers = &even
			w.createAs(spec)
			w.advance(2 * time.Minute)
			i := zoned("b", "zone-b")
			i.Provider = goes
			w.ecs.register(i)
			w.advance(5 * time.Minute)
			at := placed(w.with(cluster.TaskRunning))
			want(t, "tasks in the new zone", at["b"], 2)
			want(t, "tasks of "+stays, at[stays[:1]], 2)
		}
	})
	t.Run("AreShownWithTheTasks", func(t *testing.T) {
		w := begin(t, 2, 20)
		w.createAs(service(3))
		w.pump()
		w.create("plain", "web", 1)
		w.run(t, operation.SubmitTasks{Count: 3, Rules: cluster.Rules{Providers: mixed[:1]}, Wait: api.WaitForever})
		tasks := w.tasks()
		got, err := w.api.Tasks.TaskLaunches(ctx, tasks)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			of := map[string]string{"s": "spot", "d": "demand"}[task.Instance]
			switch {
			case task.Service == "plain":
				of = ""
			case task.Instance == "":
				of = "spot" // the one that it waits for
			}
			want(t, "provider of "+task.ID, got[task.ID].Provider, of)
		}
		if len(w.with(cluster.TaskProvisioning)) == 0 {
			t.Error("no task waits")
		}
	})
	t.Run("AnEarlierRevisionHasItsOwnStrategy", func(t *testing.T) {
		w := begin(t, 20, 20)
		before, after := []cluster.ProviderShare{{Provider: "spot", Weight: 1}}, []cluster.ProviderShare{{Provider: "demand", Weight: 1}}
		w.createAs(operation.CreateService{
			Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(4), MinHealthy: new(50), MaxPercent: new(100),
			ServiceParameters: operation.ServiceParameters{Providers: &before, ZoneRebalancing: new(false)},
		})
		w.minutes(2)
		want(t, "state", w.service("web").Service.Deployment.State, cluster.RolloutCompleted)
		first := w.service("web").Service.Deployment.ID
		c := operation.UpdateService{Name: "web", Force: true, ServiceParameters: operation.ServiceParameters{Providers: &after}}
		if _, err := w.update(c); err != nil {
			t.Fatal(err)
		}
		s := w.service("web")
		want(t, "new strategy", s.Service.Providers[0].Provider, "demand")
		want(t, "of its revision", s.Service.Deployment.Providers[0].Provider, "demand")
		want(t, "of the earlier one", s.Service.Last.Providers[0].Provider, "spot")
		w.advance(10 * time.Second)
		want(t, "half way", on(w), "spot 2, demand 2, other 0")
		ref := operation.RecordRef{Cluster: prod, Service: "web", ID: s.Service.Release.ID}
		want(t, "error", w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopRollback), nil)
		w.minutes(5)
		s = w.service("web")
		want(t, "revision gone back to", s.Service.Deployment.ID, first)
		want(t, "its strategy", s.Service.Providers[0].Provider, "spot")
		want(t, "tasks", on(w), "spot 4, demand 0, other 0")
	})
	t.Run("MovesStayWithTheProvidersOfTheStrategy", func(t *testing.T) {
		w := newWorld(t)
		w.associate("spot", "demand", "other")
		for id, provider := range map[string]string{"s": "spot", "d": "demand", "o": "", "p": "other"} {
			w.provide(id, provider, 20)
			w.attribute(id, "berth.property.Disk", "ssd")
		}
		spec := service(4)
		spec.Rules = cluster.Rules{NodeConstraint: "Disk == ssd", DomainPolicy: cluster.PolicyNone}
		spec.Providers = &[]cluster.ProviderShare{{Provider: "spot", Weight: 1}, {Provider: "demand", Weight: 0}}
		w.createAs(spec)
		w.advance(2 * time.Minute)
		want(t, "tasks on spot", placed(w.with(cluster.TaskRunning))["s"], 4)
		w.attribute("s", "berth.property.Disk", "hdd")
		w.advance(20 * time.Minute)
		at := placed(w.with(cluster.TaskRunning))
		want(t, "tasks on demand", at["d"], 4)
		want(t, "tasks elsewhere", at["o"]+at["p"], 0)
	})
	t.Run("WaitsForItsProvider", func(t *testing.T) {
		w := begin(t, 1, 20)
		w.createAs(service(10))
		w.minutes(30)
		want(t, "running", on(w), "spot 1, demand 4, other 0")
		wantCount(t, "provisioning tasks", w.with(cluster.TaskProvisioning), 5)
		w.provide("s2", "spot", 20)
		wantCount(t, "running tasks", w.with(cluster.TaskRunning), 10)
	})
	t.Run("FallsBackAfterAWhile", func(t *testing.T) {
		w := begin(t, 1, 20, func(s *handler.Settings) { s.ProviderFallback = 5 * time.Minute })
		w.createAs(service(10))
		w.minutes(4)
		want(t, "running", on(w), "spot 1, demand 4, other 0")
		w.minutes(2)
		want(t, "running", on(w), "spot 1, demand 9, other 0")
	})
	t.Run("StandaloneTasks", func(t *testing.T) {
		w := begin(t, 2, 20)
		w.run(t, operation.SubmitTasks{Count: 6, Rules: cluster.Rules{Providers: mixed}, Wait: api.WaitForever})
		want(t, "running", on(w), "spot 2, demand 3, other 0")
		waiting := w.with(cluster.TaskProvisioning)
		wantCount(t, "provisioning tasks", waiting, 1)
		w.provide("d2", "demand", 20)
		wantCount(t, "provisioning tasks while only the other provider has room", w.with(cluster.TaskProvisioning), 1)
		w.provide("s2", "spot", 20)
		want(t, "where", w.task(waiting[0].ID).Instance, "s2")
	})
	t.Run("StandaloneTasksOfAnEmptyProviderFail", func(t *testing.T) {
		w := newWorld(t)
		w.associate("demand", "empty")
		w.provide("d", "demand", 20)
		r := w.run(t, operation.SubmitTasks{Count: 3, Rules: cluster.Rules{Providers: []cluster.ProviderShare{{Provider: "demand", Base: 1}, {Provider: "empty", Weight: 1}}}})
		wantCount(t, "tasks", r.Tasks, 1)
		wantCount(t, "failures", r.Failures, 2)
		want(t, "reason", r.Failures[0].Reason, "EMPTY CAPACITY PROVIDER")
		want(t, "instance", r.Failures[0].ARN, "")
	})
	t.Run("StandaloneTasksFallBack", func(t *testing.T) {
		w := begin(t, 0, 20, func(s *handler.Settings) { s.ProviderFallback = 5 * time.Minute })
		r := w.run(t, operation.SubmitTasks{Count: 3, Rules: cluster.Rules{Providers: mixed}, Wait: api.WaitForever})
		wantCount(t, "tasks", r.Tasks, 3)
		want(t, "running", on(w), "spot 0, demand 2, other 0")
		w.minutes(6)
		want(t, "running", on(w), "spot 0, demand 3, other 0")
	})
	t.Run("ByAttribute", func(t *testing.T) {
		w := newWorld(t)
		w.associate("spot")
		i := zoned("s", "zone-a")
		i.Attributes[cluster.AttributeProvider] = "spot"
		w.ecs.register(i)
		w.pump()
		w.run(t, operation.SubmitTasks{Rules: cluster.Rules{Providers: []cluster.ProviderShare{{Provider: "spot", Weight: 1}}}})
		want(t, "running", on(w), "spot 1, demand 0, other 0")
	})
	t.Run("IsKeptWhereAnEventDoesNotSay", func(t *testing.T) {
		w := begin(t, 20, 20)
		w.ecs.change("s", func(i *cluster.Instance) { i.Provider, i.AgentVersion = "", "2" })
		w.pump()
		want(t, "provider", w.instance("s").Provider, "spot")
		w.ecs.change("s", func(i *cluster.Instance) { i.Provider = "" })
		w.ecs.instances["s"].Provider = "other" // as the sweep finds it
		w.sweep()
		want(t, "provider", w.instance("s").Provider, "other")
	})
}

// A sweep finds room that an instance of any of a service's capacity providers has, if the wake-up was lost.
func TestPlacement_SweepLooksAtAllProviders(t *testing.T) {
	for _, provider := range []string{"spot", "demand"} {
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t)
			w.associate("spot", "demand")
			w.createAs(operation.CreateService{
				Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2),
				ServiceParameters: operation.ServiceParameters{Providers: &[]cluster.ProviderShare{
					{Provider: "spot", Weight: 1}, {Provider: "demand", Weight: 1},
				}},
			})
			w.advance(time.Minute)
			wantCount(t, "waiting", w.with(cluster.TaskProvisioning), 2)
			w.placementAsleep = true
			w.provide("x", provider, 20)
			w.pump()
			w.decide, w.placementAsleep = nil, false // the wake-up is lost
			w.placement = w.newPlacement("env-2", w.placement.Settings)
			w.sweep()
			w.minutes(5)
			wantCount(t, "running", w.with(cluster.TaskRunning), 1)
		})
	}
}
