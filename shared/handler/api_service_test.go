package handler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/state"
)

func TestAPI_Clusters(t *testing.T) {
	t.Run("UnknownToECSIsNotFound", func(t *testing.T) {
		w := emptyWorld(t)
		_, _, err := w.api.Services.DescribeServices(ctx, prod, []string{"web"})
		wantCode(t, err, cluster.CodeClusterNotFound, "Cluster not found.")
		_, err = w.api.Tasks.SubmitRequest(ctx, complete(operation.SubmitTasks{}))
		wantCode(t, err, cluster.CodeClusterNotFound, "Cluster not found.")
	})
	t.Run("KnownToECSOnlyAreNotFoundAndStayUnmanaged", func(t *testing.T) {
		w := emptyWorld(t)
		w.ecs.clusters[prod] = true
		_, _, err := w.api.Services.DescribeServices(ctx, prod, []string{"web"})
		wantCode(t, err, cluster.CodeClusterNotFound, "Berth does not manage cluster prod")
		_, err = w.api.Tasks.SubmitRequest(ctx, complete(operation.SubmitTasks{}))
		wantCode(t, err, cluster.CodeClusterNotFound, "Berth does not manage cluster prod")
		wantCode(t, w.api.Clusters.CheckManaged(ctx, prod), cluster.CodeClusterNotFound, "")
		wantCount(t, "clusters", rows[*state.Meta](w, state.PrefixMeta), 0)
	})
	t.Run("KnownToECSAreAdoptedWithWhatTheyHave", func(t *testing.T) {
		w := emptyWorld(t)
		w.ecs.clusters[prod] = true
		w.ecs.define(definition("web", 1, 256, 512))
		w.instances("i", 2, 4096, 8192) // of which nobody takes notice
		wantCount(t, "instances", rows[*cluster.Instance](w, state.PrefixInstance), 0)
		w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1", Needs: cluster.Resources{CPU: 1}})
		if err := w.api.Clusters.ClusterCreated(ctx, prod); err != nil {
			t.Fatal(err)
		}
		w.create("web", "web", 1)
		wantCount(t, "instances", rows[*cluster.Instance](w, state.PrefixInstance), 2)
		w.pump()
		want(t, "running", w.service("web").Service.Running, 1)
		wantCount(t, "tasks", w.tasks(), 2)
		if err := w.api.Clusters.ClusterCreated(ctx, prod); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("AreNotDeletedWithServicesOrTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		wantCode(t, w.api.Clusters.CheckDeletable(ctx, prod), cluster.CodeContainsServices, "Services are active")
		r := w.run(t, operation.SubmitTasks{})
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.pump()
		wantCode(t, w.api.Clusters.CheckDeletable(ctx, prod), cluster.CodeContainsTasks, "Tasks are active")
		if _, err := w.api.Tasks.StopTask(ctx, prod, r.Tasks[0], ""); err != nil {
			t.Fatal(err)
		}
		w.pump()
		if err := w.api.Clusters.CheckDeletable(ctx, prod); err != nil {
			t.Fatal(err)
		}
		want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}, KeepInPlace: true}), nil)
		if err := w.api.Clusters.ClusterDeleted(ctx, prod); err != nil {
			t.Fatal(err)
		}
		wantCount(t, "configurations for another cluster of the name", rows[*cluster.Configuration](w, state.PrefixConfiguration), 0)
		delete(w.ecs.clusters, prod)
		_, _, err := w.api.Services.ListServices(ctx, operation.ListServices{Cluster: prod})
		wantCode(t, err, cluster.CodeClusterNotFound, "")
		if err := w.observer.RunSchedule(ctx, "sweep"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("RecordInstancesChangedThroughTheAPI", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.ecs.mute = true
		w.ecs.change("i000", func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		if err := w.api.Clusters.InstancesChanged(ctx, prod, []string{"i000"}); err != nil {
			t.Fatal(err)
		}
		want(t, "status", w.instance("i000").Status, cluster.InstanceDraining)
	})
	t.Run("MarkTaskDefinitionsThatWereDeregistered", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 0)
		if err := w.api.Clusters.TaskDefinitionChanged(ctx, "web:1"); err != nil {
			t.Fatal(err)
		}
		want(t, "inactive", rows[*cluster.TaskDefinition](w, state.PrefixDefinition)[0].Inactive, true)
	})
}

func TestAPI_CreateService(t *testing.T) {
	spec := operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2), Token: "t", Params: "p", Tags: map[string]string{"a": "b"},
		CreatedBy: "me",
	}
	t.Run("WritesTheServiceAndMovesTheVersion", func(t *testing.T) {
		w := newWorld(t)
		version := w.version()
		s := w.createAs(spec)
		want(t, "version", w.version(), version+1)
		want(t, "stored stamp", w.service("web").Service.Stamp, version+1)
		want(t, "task definition", s.Deployment.TaskDefinition, "web:1")
		want(t, "status", s.Status, cluster.ServiceActive)
		want(t, "strategy", s.Strategy, cluster.Replica)
		want(t, "percentages", fmt.Sprint(s.MinHealthy, s.MaxPercent), "100 200")
		want(t, "created", s.CreatedAt, epoch)
		want(t, "tag", s.Tags["a"], "b")
		want(t, "cached", rows[*cluster.TaskDefinition](w, state.PrefixDefinition)[0].Needs.Memory, 512)
	})
	t.Run("OfADaemonHasOtherPercentages", func(t *testing.T) {
		w := newWorld(t)
		s := w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		want(t, "percentages", fmt.Sprint(s.MinHealthy, s.MaxPercent), "0 100")
	})
	t.Run("TwiceWithTheSameTokenIsTheSameService", func(t *testing.T) {
		w := newWorld(t)
		first := w.createAs(spec)
		version := w.version()
		second := w.createAs(spec)
		want(t, "short key", second.Short, first.Short)
		want(t, "version", w.version(), version)
	})
	t.Run("TwiceOtherwiseIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.createAs(spec)
		other, tokenless := spec, spec
		other.Params, tokenless.Token = "q", ""
		for _, s := range []operation.CreateService{other, tokenless} {
			_, err := w.api.Services.CreateService(ctx, s)
			wantCode(t, err, cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
		}
	})
	t.Run("OfADrainingOneIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.createAs(spec)
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		other := spec
		other.Token = "u"
		_, err := w.api.Services.CreateService(ctx, other)
		wantCode(t, err, cluster.CodeInvalidParameter, "Unable to Start a service that is still Draining.")
	})
	t.Run("TwoAtOnceMakeOne", func(t *testing.T) {
		w := newWorld(t)
		spy := &spyState{Store: w.store}
		other := another(w.api.Dependencies)
		spy.beforeCommit = func(state.Commit) error {
			spy.beforeCommit = nil
			_, err := other.Services.CreateService(ctx, spec)
			return err
		}
		w.api.State = spy
		late := spec
		late.Token = "u"
		_, err := w.api.Services.CreateService(ctx, late)
		wantCode(t, err, cluster.CodeInvalidParameter, "not idempotent")
		want(t, "token", w.service("web").Service.Token, "t")
	})
	t.Run("OfAnUnknownTaskDefinitionIsRefused", func(t *testing.T) {
		w := newWorld(t)
		bad := spec
		bad.TaskDefinition = "nothing"
		_, err := w.api.Services.CreateService(ctx, bad)
		wantCode(t, err, cluster.CodeClient, "Unable to describe task definition.")
	})
	t.Run("OfAMisspelledFamilyNamesTheNearest", func(t *testing.T) {
		w := newWorld(t)
		for name, want := range map[string]string{
			"wbe": `Unable to describe task definition. The nearest family is "web".`,
			"arn:aws:ecs:eu-central-1:123456789012:task-definition/wbe:3": `Unable to describe task definition. The ` +
				`nearest family is "web".`,
			"web:99":     "Unable to describe task definition.", // the family exists
			"analytics2": "Unable to describe task definition.",
		} {
			bad := spec
			bad.TaskDefinition = name
			_, err := w.api.Services.CreateService(ctx, bad)
			if refused := new(cluster.Error); !errors.As(err, &refused) || refused.Message != want {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
	})
	t.Run("OfAnInactiveTaskDefinitionIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.ecs.definitions["web"].Inactive = true
		_, err := w.api.Services.CreateService(ctx, spec)
		wantCode(t, err, cluster.CodeClient, "TaskDefinition is inactive")
	})
}

func TestAPI_ServiceNumbers(t *testing.T) {
	for _, c := range []struct {
		name                      string
		strategy                  cluster.SchedulingStrategy
		desired, minimum, maximum *int
		refusal                   string // empty: taken
	}{
		{"Defaults", "", nil, nil, nil, ""},
		{"Zero", "", new(0), new(0), new(100), ""},
		{"Most", "", new(cluster.MaxDesired), nil, nil, ""},
		{"TooMany", "", new(cluster.MaxDesired + 1), nil, nil, "at most 5000"},
		{"NegativeDesired", "", new(-1), nil, nil, "desiredCount is -1"},
		{"NegativeMinimum", "", nil, new(-5), nil, "minimumHealthyPercent is -5"},
		{"NegativeMaximum", "", nil, nil, new(-5), "maximumPercent is -5"},
		{"MaximumBelowMinimum", "", nil, new(100), new(99), "maximumPercent is 99"},
		{"MaximumOfZero", "", nil, new(0), new(0), "maximumPercent is 0"},
		{"DaemonWithCount", cluster.Daemon, new(1), nil, nil, "does not support a desired count"},
		{"DaemonWithMaximum", cluster.Daemon, nil, nil, new(200), "does not support values above 100"},
		{"DaemonWithLess", cluster.Daemon, nil, nil, new(50), "other than 100"},
		{"Blocked", "", nil, new(100), new(100), "cannot be 100 as this will block deployments"},
		{"BlockedByDefault", "", nil, nil, new(100), "cannot be 100 as this will block deployments"},
		{"BlockedDaemon", cluster.Daemon, nil, new(100), nil, "cannot be 100 as this will block deployments"},
		{"HardlyRoom", "", nil, new(100), new(101), ""},
		{"DaemonWithMinimum", cluster.Daemon, nil, new(50), new(100), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.api.Services.CreateService(ctx, operation.CreateService{
				Cluster: prod, Name: "web", TaskDefinition: "web", Strategy: c.strategy, Desired: c.desired, MinHealthy: c.minimum, MaxPercent: c.maximum,
			})
			if c.refusal != "" {
				wantCode(t, err, cluster.CodeInvalidParameter, c.refusal)
				wantCount(t, "services", rows[*cluster.Service](w, state.PrefixService), 0)
			} else if err != nil {
				t.Fatal(err)
			}
			w.createAs(operation.CreateService{
				Cluster: prod, Name: "there", TaskDefinition: "web", Strategy: c.strategy,
				ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(false)}, // it needs a maximum above 100
			})
			before := w.service("there").Service.Rev
			_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{
				Cluster: prod, Name: "there", Desired: c.desired, MinHealthy: c.minimum, MaxPercent: c.maximum,
			})
			if c.refusal != "" {
				wantCode(t, err, cluster.CodeInvalidParameter, c.refusal)
				want(t, "writes", w.service("there").Service.Rev, before)
			} else if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAPI_UpdateService(t *testing.T) {
	t.Run("ChangesWhatIsGivenAndNarrows", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 2)
		version := w.version()
		d, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", MinHealthy: new(50), TaskDefinition: "web:1"})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "desired", d.Service.Desired, 2)
		want(t, "minimum", d.Service.MinHealthy, 50)
		want(t, "maximum", d.Service.MaxPercent, 200)
		want(t, "version", w.version(), version+1)
	})
	t.Run("KeepsPercentagesThatAreRefusedNow", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 2)
		stored := *w.service("web").Service
		stored.Rev++
		stored.MinHealthy, stored.MaxPercent, stored.ZoneRebalancing = 100, 100, false
		if err := w.store.Commit(ctx, state.Commit{Cluster: prod, Version: state.NoVersion,
			Writes: []state.Write{{Put: &stored}}}); err != nil {
			t.Fatal(err)
		}
		d, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(3)})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "desired", d.Service.Desired, 3)
		want(t, "percentages", fmt.Sprint(d.Service.MinHealthy, d.Service.MaxPercent), "100 100")
		_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", MaxPercent: new(100)})
		wantCode(t, err, cluster.CodeInvalidParameter, "cannot be 100 as this will block deployments")
	})
	t.Run("WinsOverPlacementsOwnWrites", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 2)
		spy := &spyState{Store: w.store}
		spy.beforeCommit = func(state.Commit) error {
			spy.beforeCommit = nil
			w.pump()
			return nil
		}
		w.api.State = spy
		w.scale("web", 5)
		w.pump()
		want(t, "running", w.service("web").Service.Running, 5)
	})
	t.Run("OfAnUnknownResourceIsRefused", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web"})
		wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
		_, err = w.api.Services.DeleteService(ctx, prod, "web", true)
		wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
	})
}

func TestAPI_DeleteService(t *testing.T) {
	t.Run("NeedsForceAboveZero", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 1)
		_, err := w.api.Services.DeleteService(ctx, prod, "web", false)
		wantCode(t, err, cluster.CodeInvalidParameter, "The service cannot be stopped while it is scaled above 0.")
		d, err := w.api.Services.DeleteService(ctx, prod, "web", true)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "status", d.Service.Status, cluster.ServiceDraining)
		want(t, "desired", d.Service.Desired, 0)
	})
	t.Run("AtZeroNeedsNone", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 0)
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", false); err != nil {
			t.Fatal(err)
		}
		w.pump()
		want(t, "status", w.service("web").Service.Status, cluster.ServiceInactive)
	})
	t.Run("OfADaemonNeedsNone", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
		w.pump()
		if _, err := w.api.Services.DeleteService(ctx, prod, "agent", false); err != nil {
			t.Fatal(err)
		}
		w.pump()
		want(t, "status", w.service("agent").Service.Status, cluster.ServiceInactive)
		wantCount(t, "ECS tasks", w.ecs.live(), 0)
	})
	t.Run("IsOnceForAll", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 0)
		deleteAgain := func(expected cluster.ServiceLifecycle) {
			t.Helper()
			before := w.service("web").Rev
			d, err := w.api.Services.DeleteService(ctx, prod, "web", false)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "status", d.Service.Status, expected)
			want(t, "revision of the row", w.service("web").Rev, before)
		}
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", false); err != nil {
			t.Fatal(err)
		}
		deleteAgain(cluster.ServiceDraining)
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(1)})
		wantCode(t, err, cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		w.pump()
		deleteAgain(cluster.ServiceInactive)
		_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(1)})
		wantCode(t, err, cluster.CodeServiceNotActive, "Service was not ACTIVE.")
	})
}

func TestAPI_ListServices(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b", "a-1", "c", "a", "gone"} {
		w.create(name, "web", 0)
	}
	w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web", Strategy: cluster.Daemon})
	if _, err := w.api.Services.DeleteService(ctx, prod, "gone", false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		query operation.ListServices
		want  []string
		more  bool
	}{
		{"All", operation.ListServices{}, []string{"a", "a-1", "agent", "b", "c"}, false},
		{"FirstPage", operation.ListServices{Limit: 2}, []string{"a", "a-1"}, true},
		{"SecondPage", operation.ListServices{Limit: 2, After: "a-1"}, []string{"agent", "b"}, true},
		{"LastPage", operation.ListServices{Limit: 2, After: "b"}, []string{"c"}, false},
		{"ExactPage", operation.ListServices{Limit: 5}, []string{"a", "a-1", "agent", "b", "c"}, false},
		{"Daemons", operation.ListServices{Strategy: cluster.Daemon}, []string{"agent"}, false},
		{"ReplicasPaged", operation.ListServices{Strategy: cluster.Replica, Limit: 3}, []string{"a", "a-1", "b"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.query.Cluster = prod
			got, more, err := w.api.Services.ListServices(ctx, c.query)
			if err != nil || !slices.Equal(got, c.want) || more != c.more {
				t.Fatalf("got %v, %t, %v; want %v, %t", got, more, err, c.want, c.more)
			}
		})
	}
}

// A page costs as many rows as it has services, and one more, however many the cluster has.
func TestAPI_ListServicesReadsWhatAPageNeeds(t *testing.T) {
	w := newWorld(t)
	const count = 57
	for n := range count {
		w.create(fmt.Sprintf("s%02d", n), "web", 0)
	}
	counted := &countingStore{Store: w.store}
	services := &api.Services{Dependencies: &api.Dependencies{State: counted, Clock: w.clock}}
	var seen []string
	for q := (operation.ListServices{Cluster: prod, Limit: 10}); ; {
		counted.rows = 0
		names, more, err := services.ListServices(ctx, q)
		if err != nil || counted.rows > q.Limit+1 {
			t.Fatalf("a page of %d services reads %d rows, %v", q.Limit, counted.rows, err)
		}
		if seen = append(seen, names...); !more {
			break
		}
		q.After = names[len(names)-1]
	}
	want(t, "services on all pages", len(seen), count)
	want(t, "in order and once", slices.IsSorted(seen) && len(slices.Compact(seen)) == count, true)
}

func TestAPI_DescribeServices(t *testing.T) {
	w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 1000 })
	w.instances("i", 1, 40960, 81920)
	w.create("web", "web", 1)
	w.pump()
	t.Run("NamesWhatIsMissing", func(t *testing.T) {
		got, missing, err := w.api.Services.DescribeServices(ctx, prod, []string{"nothing", "web", "never"})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "services", got, 1)
		wantCount(t, "missing", missing, 2)
		want(t, "missing", missing[0], cluster.Failure{ARN: "nothing", Reason: "MISSING"})
	})
	t.Run("KeepsTheNewestHundredEvents", func(t *testing.T) {
		for n := range 80 {
			w.advance(time.Second)
			w.scale("web", 2-n%2)
			w.pump()
		}
		s := w.service("web")
		wantCount(t, "events", s.EventLog, cluster.EventRing)
		want(t, "newest", s.EventLog[0].Number, s.Service.Events-1)
		for n, e := range s.EventLog {
			want(t, "number", e.Number, s.Service.Events-1-n)
		}
		ids := map[string]bool{}
		for _, e := range s.EventLog {
			ids[e.ID] = true
		}
		want(t, "ids", len(ids), cluster.EventRing)
	})
}

func resource(kind, name string) cluster.ResourceARN {
	return cluster.ResourceARN{Kind: kind, Cluster: prod, Name: name}
}

func TestAPI_ServiceTags(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.create("web", "web", 1)
	if err := w.api.Tags.TagResource(ctx, resource("service", "web"), map[string]string{"a": "0"}, nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, "records for placement", w.decide, 1)
	w.pump()
	batches := w.batches
	tag := func(set map[string]string, remove ...string) error {
		return w.api.Tags.TagResource(ctx, resource("service", "web"), set, remove)
	}
	if err := tag(map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := tag(map[string]string{"b": "3"}, "a", "never"); err != nil {
		t.Fatal(err)
	}
	got, err := w.api.Tags.ResourceTags(ctx, resource("service", "web"))
	if err != nil || len(got) != 1 || got["b"] != "3" {
		t.Fatalf("tags %v, %v", got, err)
	}
	w.pump()
	want(t, "batches", w.batches, batches)
	many := map[string]string{}
	for n := range api.MaxTags {
		many[fmt.Sprint("t", n)] = "x"
	}
	wantCode(t, tag(many), cluster.CodeInvalidParameter, "51 tags")
	wantCode(t, w.api.Tags.TagResource(ctx, resource("service", "none"), many, nil), cluster.CodeServiceNotFound, "")
	w.scale("web", 2)
	w.pump()
	want(t, "running", w.service("web").Service.Running, 2)
	want(t, "tag", w.service("web").Service.Tags["b"], "3")
}
