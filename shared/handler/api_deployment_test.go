package handler_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

var (
	group    = cluster.LoadBalancer{TargetGroup: "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/0a", Container: "app", Port: 80}
	registry = cluster.Registry{ARN: "arn:aws:servicediscovery:eu-west-1:123456789012:service/srv-1", Container: "app",
		ContainerPort: 80}
	subnet = &cluster.Network{Subnets: []string{"subnet-1"}}
)

// balanced creates a service api with everything that a revision can have, as if its deployment
// were completed.
func (w *world) balanced() *cluster.Service {
	w.t.Helper()
	def := definition("vpc", 1, 256, 512)
	def.Needs.ENIs = 1
	w.ecs.define(def)
	w.associate("spot")
	w.createAs(operation.CreateService{
		Cluster: prod, Name: "api", TaskDefinition: "vpc", Desired: new(4), Network: subnet,
		ServiceParameters: operation.ServiceParameters{
			LoadBalancers: &[]cluster.LoadBalancer{group}, Registries: &[]cluster.Registry{registry},
			Providers: &[]cluster.ProviderShare{{Provider: "spot", Weight: 1}},
		},
	})
	return w.decided("api", func(s *cluster.Service) {
		s.Deployment.State,
			s.Deployment.Running = cluster.RolloutCompleted, 4
	})
}

// decided changes a service's row, and that of its service deployment, as placement does.
func (w *world) decided(name string, change func(*cluster.Service)) *cluster.Service {
	w.t.Helper()
	s := *w.service(name).Service
	before := s.Release
	change(&s)
	s.Rev++
	writes := []state.Write{{Put: &s}}
	if r := s.Release; before != nil && r != nil && r.Status != before.Status {
		writes = append(writes, state.Write{Any: true, Put: &cluster.ServiceDeployment{
			Head: cluster.Head{Cluster: prod}, Service: s.Name, Short: s.Short, Release: *r,
		}})
	}
	for _, write := range writes {
		if _, err := w.store.Write(ctx, write); err != nil {
			w.t.Fatal(err)
		}
	}
	return &s
}

func (w *world) update(c operation.UpdateService) (*cluster.Service, error) {
	w.t.Helper()
	c.Cluster = prod
	d, err := w.api.Services.UpdateService(ctx, c)
	if err != nil {
		return nil, err
	}
	return d.Service, nil
}

// given returns parameters of UpdateService with one of them set.
func given(set func(*operation.ServiceParameters)) operation.UpdateService {
	var c operation.UpdateService
	set(&c.ServiceParameters)
	return c
}

// What starts a deployment and what does not, by the notes on each field of ECS's UpdateService.
// Cases have the names of the fields.
var updates = []struct {
	field    string
	change   operation.UpdateService
	deploys  bool
	refusal  string // instead
	happened func(*cluster.Service) bool
}{
	{"TaskDefinition", operation.UpdateService{TaskDefinition: "vpc2"}, true, "",
		func(s *cluster.Service) bool { return s.Deployment.TaskDefinition == "vpc2:1" }},
	{"TaskDefinition", operation.UpdateService{TaskDefinition: "vpc:1"}, false, "", nil},
	{"Force", operation.UpdateService{Force: true}, true, "", nil},
	{"Network", operation.UpdateService{Network: &cluster.Network{Subnets: []string{"subnet-2"}}}, true, "",
		func(s *cluster.Service) bool { return s.Deployment.Network.Subnets[0] == "subnet-2" }},
	{"Network", operation.UpdateService{Network: &cluster.Network{Subnets: []string{"subnet-1"}}}, false, "", nil},
	{"Network", operation.UpdateService{Network: &cluster.Network{}}, false, "Network Configuration must be provided",
		nil},
	{"Network", operation.UpdateService{TaskDefinition: "web"}, false, "Network Configuration is not valid", nil},
	{"Network", operation.UpdateService{TaskDefinition: "web", Network: &cluster.Network{}}, true, "",
		func(s *cluster.Service) bool { return s.Deployment.Network == nil }},
	{"LoadBalancers", given(func(p *operation.ServiceParameters) { p.LoadBalancers = &[]cluster.LoadBalancer{} }), true,
		"", func(s *cluster.Service) bool { return len(s.Deployment.LoadBalancers) == 0 }},
	{"LoadBalancers", given(func(p *operation.ServiceParameters) { p.LoadBalancers = &[]cluster.LoadBalancer{group} }),
		false, "", nil},
	{"Registries", given(func(p *operation.ServiceParameters) { p.Registries = &[]cluster.Registry{} }), true, "",
		func(s *cluster.Service) bool { return len(s.Deployment.Registries) == 0 }},
	{"Registries", given(func(p *operation.ServiceParameters) { p.Registries = &[]cluster.Registry{registry} }), false,
		"", nil},
	{"Volumes", given(func(p *operation.ServiceParameters) { p.Volumes = &[]cluster.Volume{dataVolume} }), true, "",
		func(s *cluster.Service) bool {
			return cluster.EqualVolumes(s.Deployment.Volumes,
				[]cluster.Volume{dataVolume})
		}},
	{"Volumes", given(func(p *operation.ServiceParameters) { p.Volumes = &[]cluster.Volume{} }), false, "", nil},
	{"Providers", given(func(p *operation.ServiceParameters) { p.Providers = &[]cluster.ProviderShare{} }), false,
		"needs forceNewDeployment", nil},
	{"Providers", given(func(p *operation.ServiceParameters) {
		p.Providers = &[]cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	}), false, "", nil},
	{"Providers", func() operation.UpdateService {
		c := given(func(p *operation.ServiceParameters) { p.Providers = &[]cluster.ProviderShare{} })
		c.Force = true
		return c
	}(), true, "", func(s *cluster.Service) bool { return len(s.Providers) == 0 }},
	{"Desired", operation.UpdateService{Desired: new(7)}, false, "",
		func(s *cluster.Service) bool { return s.Desired == 7 }},
	{"Desired", operation.UpdateService{Desired: new(1001)}, false, "serviceRegistries has at most 1000", nil},
	{"MinHealthy", operation.UpdateService{MinHealthy: new(50)}, false, "",
		func(s *cluster.Service) bool { return s.MinHealthy == 50 }},
	{"MaxPercent", operation.UpdateService{MaxPercent: new(150)}, false, "",
		func(s *cluster.Service) bool { return s.MaxPercent == 150 }},
	{"MaxPercent", operation.UpdateService{MinHealthy: new(50), MaxPercent: new(100)}, false,
		"rebalancing does not support a maximumPercent of 100", nil},
	{"Constraints", operation.UpdateService{Constraints: &[]cluster.PlacementConstraint{{Type: "distinctInstance"}}},
		false, "", func(s *cluster.Service) bool { return len(s.Rules.Constraints) == 1 }},
	{"Strategies", operation.UpdateService{Strategies: &[]cluster.PlacementStrategy{{Type: "spread",
		Field: "attribute:ecs.availability-zone"}}}, false, "",
		func(s *cluster.Service) bool { return len(s.Rules.Strategies) == 1 }},
	{"Strategies", operation.UpdateService{Strategies: &[]cluster.PlacementStrategy{{Type: "random"}}}, false,
		"first placement strategy", nil},
	{"PropagateTags", operation.UpdateService{PropagateTags: "SERVICE"}, false, "",
		func(s *cluster.Service) bool { return s.PropagateTags == "SERVICE" }},
	{"Breaker", given(func(p *operation.ServiceParameters) { p.Breaker = &cluster.CircuitBreaker{Enable: true} }),
		false, "", func(s *cluster.Service) bool { return s.Breaker.Enable }},
	{"Alarms", given(func(p *operation.ServiceParameters) {
		p.Alarms = &cluster.DeploymentAlarms{Enable: true, Names: []string{"a"}}
	}), false, "", func(s *cluster.Service) bool { return s.Alarms.Enable }},
	{"Early", given(func(p *operation.ServiceParameters) {
		p.Early = &cluster.EarlySuccess{Enable: true,
			Percent: 100}
	}), false, "", func(s *cluster.Service) bool { return s.Early.Enable }},
	{"Early", given(func(p *operation.ServiceParameters) {
		p.Early = &cluster.EarlySuccess{Enable: true,
			Percent: 99}
	}), false, "must be at least minimumHealthyPercent, which is 100", nil},
	{"Controller", operation.UpdateService{Controller: new(cluster.DeploymentController(""))}, false, "", nil},
	{"Grace", given(func(p *operation.ServiceParameters) { p.Grace = new(30) }), false, "",
		func(s *cluster.Service) bool { return s.Grace == 30 }},
	{"ZoneRebalancing", given(func(p *operation.ServiceParameters) { p.ZoneRebalancing = new(false) }), false, "",
		func(s *cluster.Service) bool { return !s.ZoneRebalancing }},
	{"ManagedTags", given(func(p *operation.ServiceParameters) { p.ManagedTags = new(true) }), false, "",
		func(s *cluster.Service) bool { return s.Options.ManagedTags }},
	{"ExecuteCommand", given(func(p *operation.ServiceParameters) { p.ExecuteCommand = new(true) }), false, "",
		func(s *cluster.Service) bool { return s.Options.ExecuteCommand }},
}

func TestAPI_WhatStartsADeployment(t *testing.T) {
	tested := []string{"Cluster", "Name", "ServiceParameters"}
	for n, c := range updates {
		tested = append(tested, c.field)
		t.Run(fmt.Sprint(n, c.field), func(t *testing.T) {
			w := newWorld(t)
			w.balanced()
			other := definition("vpc2", 1, 256, 512)
			other.Needs.ENIs = 1
			w.ecs.define(other)
			before := w.service("api").Service
			c.change.Name = "api"
			_, err := w.update(c.change)
			after := w.service("api").Service
			if c.refusal != "" {
				wantCode(t, err, cluster.CodeInvalidParameter, c.refusal)
				want(t, "writes", after.Rev, before.Rev)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want(t, "deploys", after.Deployment.ID != before.Deployment.ID, c.deploys)
			want(t, "is another service deployment", after.Release.ID != before.Release.ID, c.deploys)
			wantCount(t, "service deployments", rows[*cluster.ServiceDeployment](w, state.PrefixDeployment),
				map[bool]int{false: 1, true: 2}[c.deploys])
			if c.happened != nil && !c.happened(after) {
				t.Errorf("nothing happened: %s", show(after))
			}
		})
	}
	for _, of := range []reflect.Type{reflect.TypeFor[operation.UpdateService](),
		reflect.TypeFor[operation.ServiceParameters]()} {
		for n := range of.NumField() {
			if name := of.Field(n).Name; !slices.Contains(tested, name) {
				t.Errorf("nothing says whether %s starts a deployment", name)
			}
		}
	}
}

func TestAPI_Deployment(t *testing.T) {
	t.Run("OfANewServiceIsInProgress", func(t *testing.T) {
		w := newWorld(t)
		s := w.create("web", "web", 2)
		d := s.Deployment
		want(t, "reason", d.Reason, "ECS deployment "+d.ID+" in progress.")
		want(t, "state", d.State, cluster.RolloutInProgress)
		want(t, "service deployment", fmt.Sprint(s.Release.Status, " ", s.Release.Target == d.ID,
			s.Release.CreatedAt.Equal(epoch)), "PENDING true true")
		wantCount(t, "sources", s.Release.Sources, 0)
		row := rows[*cluster.ServiceDeployment](w, state.PrefixDeployment)[0]
		want(t, "row", row.ID, s.Release.ID)
		want(t, "kept", row.Expires, epoch.Add(90*24*time.Hour).Unix())
		want(t, "revision", rows[*cluster.ServiceRevision](w, state.PrefixRevision)[0].ID, d.ID)
		want(t, "rebalances zones", s.ZoneRebalancing, true)
	})
	t.Run("KeepsTheOldOneAsActiveAndToRollBackTo", func(t *testing.T) {
		w := newWorld(t)
		old := w.balanced()
		version := w.version()
		w.clock.now = w.clock.now.Add(time.Minute)
		s, err := w.update(operation.UpdateService{Name: "api", Force: true, Desired: new(6)})
		want(t, "error", err, nil)
		want(t, "version", w.version(), version+1)
		wantCount(t, "older", s.Older, 1)
		want(t, "the older one", s.Older[0].ID, old.Deployment.ID)
		want(t, "still to have", s.Older[0].Desired, 4)
		want(t, "way back", s.Last.ID, old.Deployment.ID)
		want(t, "asked for", s.Release.Requested, 6)
		want(t, "source", strings.Join(s.Release.Sources, " "), old.Deployment.ID)
		want(t, "created", s.Deployment.CreatedAt, epoch.Add(time.Minute))
		want(t, "counts", s.Deployment.Running, 0)
		wantCount(t, "revisions", rows[*cluster.ServiceRevision](w, state.PrefixRevision), 2)
		history := rows[*cluster.ServiceDeployment](w, state.PrefixDeployment)
		wantCount(t, "service deployments", history, 2)
		want(t, "newest first", history[0].ID, s.Release.ID)
		want(t, "end of the one before", fmt.Sprint(history[1].Status, " ",
			history[1].FinishedAt.Equal(epoch.Add(time.Minute))), "STOPPED true")
	})
	t.Run("OfAnIncompleteOneIsNothingToRollBackTo", func(t *testing.T) {
		w := newWorld(t)
		good := w.balanced()
		bad, err := w.update(operation.UpdateService{Name: "api", Force: true})
		want(t, "error", err, nil)
		w.decided("api", func(s *cluster.Service) {
			s.Deployment.Running, s.Deployment.Pending, s.Older[0].Desired, s.Older[0].Running = 1, 1, 2, 2
		})
		s, err := w.update(operation.UpdateService{Name: "api", Force: true})
		want(t, "error", err, nil)
		want(t, "way back", s.Last.ID, good.Deployment.ID)
		wantCount(t, "older", s.Older, 2)
		want(t, "newest of them", s.Older[0].ID, bad.Deployment.ID)
		want(t, "still to have", fmt.Sprint(s.Older[0].Desired, s.Older[1].Desired), "2 2")
		ids := map[string]bool{s.Deployment.ID: true, s.Older[0].ID: true, s.Older[1].ID: true}
		want(t, "ids of the same instant", len(ids), 3)
		want(t, "sources", strings.Join(s.Release.Sources, " "), bad.Deployment.ID+" "+good.Deployment.ID)
	})
	t.Run("OfOneWithoutTasksLeavesNothing", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 3)
		for range 30 {
			s, err := w.update(operation.UpdateService{Name: "web", Force: true})
			want(t, "error", err, nil)
			wantCount(t, "older", s.Older, 0)
		}
	})
	t.Run("IsRefusedWhileTooManyAreInProgress", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 100)
		force := func() error {
			w.decided("web", func(s *cluster.Service) { s.Deployment.Running = 1 })
			_, err := w.update(operation.UpdateService{Name: "web", Force: true})
			return err
		}
		for range cluster.MaxOlder {
			want(t, "error", force(), nil)
		}
		wantCode(t, force(), cluster.CodeClient, "tasks of 11 deployments")
	})
	t.Run("UsesTheConstraintsOfNow", func(t *testing.T) {
		w := newWorld(t)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web",
			Strategy: cluster.Daemon})
		ssd := []cluster.PlacementConstraint{{Type: "memberOf", Expression: "attribute:disk == ssd"}}
		s, err := w.update(operation.UpdateService{Name: "agent", Constraints: &ssd})
		want(t, "error", err, nil)
		wantCount(t, "constraints of the deployment", s.Deployment.Constraints, 0)
		s, err = w.update(operation.UpdateService{Name: "agent", Force: true})
		want(t, "error", err, nil)
		want(t, "constraint of the deployment", s.Deployment.Constraints[0], ssd[0])
		want(t, "rebalances zones", s.ZoneRebalancing, false)
	})
	t.Run("OfAnInactiveTaskDefinitionIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 1)
		w.ecs.definitions["big"].Inactive = true
		_, err := w.update(operation.UpdateService{Name: "web", TaskDefinition: "big"})
		wantCode(t, err, cluster.CodeClient, "TaskDefinition is inactive")
	})
	t.Run("OfAServiceThatIsBeingDeletedIsRefused", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		_, err := w.api.Services.DeleteService(ctx, prod, "web", true)
		want(t, "error", err, nil)
		for range 2 { // DRAINING, then INACTIVE
			_, err = w.update(operation.UpdateService{Name: "web", Force: true})
			wantCode(t, err, cluster.CodeServiceNotActive, "Service was not ACTIVE.")
			w.pump()
		}
		d := rows[*cluster.ServiceDeployment](w, state.PrefixDeployment)[0]
		want(t, "its deployment has ended", d.Status.HasEnded(), true)
	})
	t.Run("ThatIsActiveKeepsAServiceFromBeingDeletedUnforced", func(t *testing.T) {
		w := newWorld(t)
		w.balanced()
		_, err := w.update(operation.UpdateService{Name: "api", Force: true, Desired: new(0)})
		want(t, "error", err, nil)
		_, err = w.api.Services.DeleteService(ctx, prod, "api", false)
		wantCode(t, err, cluster.CodeInvalidParameter, "The service cannot be stopped while deployments are active.")
		_, err = w.api.Services.DeleteService(ctx, prod, "api", true)
		want(t, "error", err, nil)
	})
}

func TestAPI_ZoneRebalancing(t *testing.T) {
	zone := "attribute:ecs.availability-zone"
	for _, c := range []struct {
		name    string
		spec    operation.CreateService
		refusal string // where it is asked for; by itself it is then off
	}{
		{"Plain", operation.CreateService{}, ""},
		{"SpreadOverZonesFirst",
			operation.CreateService{Rules: cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: "spread",
				Field: zone}, {Type: "binpack", Field: "CPU"}}}}, ""},
		{"BinpackFirst",
			operation.CreateService{Rules: cluster.Rules{Strategies: []cluster.PlacementStrategy{{Type: "binpack",
				Field: "CPU"}}}}, "binpack(CPU)"},
		{"Daemon", operation.CreateService{Strategy: cluster.Daemon}, "DAEMON"},
		{"NoRoomAbove", operation.CreateService{MinHealthy: new(50), MaxPercent: new(100)},
			"maximumPercent of 100"},
		{"BoundToAZone",
			operation.CreateService{Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: "memberOf",
				Expression: zone + " == a"}}}}, "placement constraints on " + zone},
		{"OtherConstraint",
			operation.CreateService{Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: "distinctInstance"}}}}, ""},
		{"DomainPolicy", operation.CreateService{Rules: cluster.Rules{DomainPolicy: cluster.PolicyAdaptive}},
			"domain policy adaptive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.spec.Cluster, c.spec.Name, c.spec.TaskDefinition = prod, "web", "web"
			want(t, "by itself", w.createAs(c.spec).ZoneRebalancing, c.refusal == "")
			_, err := w.update(operation.UpdateService{Name: "web",
				ServiceParameters: operation.ServiceParameters{ZoneRebalancing: new(true)}})
			c.spec.Name, c.spec.ZoneRebalancing = "asked", new(true)
			_, created := w.api.Services.CreateService(ctx, c.spec)
			if c.refusal == "" {
				want(t, "updated", err, nil)
				want(t, "created", created, nil)
				return
			}
			wantCode(t, err, cluster.CodeInvalidParameter, c.refusal)
			wantCode(t, created, cluster.CodeInvalidParameter, c.refusal)
		})
	}
	t.Run("EndsWithADomainPolicy", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 1)
		d, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{cluster.TagDomainPolicy: "adaptive"})
		want(t, "error", err, nil)
		want(t, "rebalances", d.Service.ZoneRebalancing, false)
	})
}

func TestAPI_ServiceDeployments(t *testing.T) {
	w := newWorld(t)
	w.balanced()
	var ids []string
	for range 5 {
		w.clock.now = w.clock.now.Add(time.Minute)
		s, err := w.update(operation.UpdateService{Name: "api", Force: true})
		want(t, "error", err, nil)
		ids = append([]string{s.Release.ID}, ids...)
	}
	w.decided("api", func(s *cluster.Service) {
		r := *s.Release
		r.Status, r.Running = cluster.DeploymentInProgress, 3
		s.Release = &r
	})
	list := func(q operation.ListServiceDeployments) ([]string, bool) {
		t.Helper()
		q.Cluster, q.Service = prod, "api"
		found, more, err := w.api.Deployments.ListServiceDeployments(ctx, q)
		want(t, "error", err, nil)
		var out []string
		for _, d := range found {
			out = append(out, d.ID)
		}
		return out, more
	}
	t.Run("AreListedNewestFirstInPages", func(t *testing.T) {
		var got []string
		for after, more := "", true; more; {
			var page []string
			page, more = list(operation.ListServiceDeployments{After: after, Limit: 2})
			got, after = append(got, page...), page[len(page)-1]
		}
		wantCount(t, "deployments", got, 6)
		want(t, "order", strings.Join(got[:5], " "), strings.Join(ids, " "))
	})
	t.Run("AreFilteredByStatusAndTime", func(t *testing.T) {
		running,
			_ := list(operation.ListServiceDeployments{Statuses: []cluster.ServiceDeploymentStatus{cluster.DeploymentInProgress}, Limit: 10})
		want(t, "in progress", strings.Join(running, " "), ids[0])
		gone, _ := list(operation.ListServiceDeployments{Statuses: []cluster.ServiceDeploymentStatus{cluster.DeploymentStopped}, Limit: 10})
		wantCount(t, "stopped", gone, 5)
		late, _ := list(operation.ListServiceDeployments{From: epoch.Add(4 * time.Minute), Limit: 10})
		want(t, "late", strings.Join(late, " "), ids[0]+" "+ids[1])
		early, _ := list(operation.ListServiceDeployments{To: epoch, Limit: 10})
		wantCount(t, "early", early, 1)
	})
	t.Run("AreDescribedAsTheyAreNow", func(t *testing.T) {
		ref := func(id string) operation.RecordRef { return operation.RecordRef{Cluster: prod, Service: "api", ID: id} }
		found, failed, err := w.api.Deployments.DescribeServiceDeployments(ctx,
			[]operation.RecordRef{ref(ids[0]), ref("none"), ref(ids[4]), {Cluster: "nope", Service: "api", ID: ids[0]}})
		want(t, "error", err, nil)
		want(t, "running", found[0].Release.Running, 3)
		want(t, "older", found[1].Status, cluster.DeploymentStopped)
		want(t, "missing", fmt.Sprint(failed), "[{prod/api/none MISSING } {nope/api/"+ids[0]+" MISSING }]")
	})
	t.Run("HaveRevisionsThatCanBeLookedUp", func(t *testing.T) {
		var refs []operation.RecordRef
		for _, r := range rows[*cluster.ServiceRevision](w, state.PrefixRevision) {
			refs = append(refs, operation.RecordRef{Cluster: prod, Service: "api", ID: r.IDDigits()})
		}
		wantCount(t, "revisions", refs, 6)
		found, failed, err := w.api.Deployments.DescribeServiceRevisions(ctx,
			append(refs, operation.RecordRef{Cluster: prod, Service: "api", ID: "1"}))
		want(t, "error", err, nil)
		wantCount(t, "found", found, 6)
		want(t, "load balancer", found[0].LoadBalancers[0], group)
		wantCount(t, "missing", failed, 1)
	})
	t.Run("OfAnUnknownServiceAreNotFound", func(t *testing.T) {
		_, _, err := w.api.Deployments.ListServiceDeployments(ctx,
			operation.ListServiceDeployments{Cluster: prod, Service: "none"})
		wantCode(t, err, cluster.CodeServiceNotFound, "")
	})
}

func TestAPI_StopServiceDeployment(t *testing.T) {
	deployed := func(t *testing.T) (*world, operation.RecordRef) {
		w := newWorld(t)
		w.balanced()
		s, err := w.update(operation.UpdateService{Name: "api", Force: true})
		want(t, "error", err, nil)
		return w, operation.RecordRef{Cluster: prod, Service: "api", ID: s.Release.ID}
	}
	for how, status := range map[cluster.StopType]cluster.ServiceDeploymentStatus{
		cluster.StopAbort: cluster.DeploymentStopRequested, cluster.StopRollback: cluster.DeploymentRollbackRequested,
	} {
		t.Run(string(how), func(t *testing.T) {
			w, ref := deployed(t)
			version := w.version()
			want(t, "error", w.api.Deployments.StopServiceDeployment(ctx, ref, how), nil)
			s := w.service("api")
			want(t, "asked for", s.Service.Release.Stop, how)
			want(t, "status", s.Service.Release.Status, status)
			want(t, "stamp", s.Service.Stamp, version+1)
			want(t, "again", w.api.Deployments.StopServiceDeployment(ctx, ref, how), nil)
			want(t, "version", w.version(), version+1)
			other := map[cluster.StopType]cluster.StopType{cluster.StopAbort: cluster.StopRollback,
				cluster.StopRollback: cluster.StopAbort}[how]
			wantCode(t, w.api.Deployments.StopServiceDeployment(ctx, ref, other), cluster.CodeConflict, string(status))
		})
	}
	t.Run("ThatHasEndedIsAConflict", func(t *testing.T) {
		w, ref := deployed(t)
		w.decided("api", func(s *cluster.Service) {
			r := *s.Release
			r.Status = cluster.DeploymentSuccessful
			s.Release = &r
		})
		wantCode(t, w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopAbort), cluster.CodeConflict,
			"SUCCESSFUL")
		_, err := w.update(operation.UpdateService{Name: "api", Force: true})
		want(t, "error", err, nil)
		wantCode(t, w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopAbort), cluster.CodeConflict,
			"SUCCESSFUL")
	})
	t.Run("WithNothingToRollBackToIsNotRolledBack", func(t *testing.T) {
		w := newWorld(t)
		ref := operation.RecordRef{Cluster: prod, Service: "web", ID: w.create("web", "web", 1).Release.ID}
		wantCode(t, w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopRollback),
			cluster.CodeInvalidParameter, "no deployment of the service was completed")
		want(t, "stop", w.service("web").Service.Release.Stop, "")
	})
	t.Run("UnknownIsNotFound", func(t *testing.T) {
		w, ref := deployed(t)
		for _, ref := range []operation.RecordRef{{Cluster: prod, Service: "api", ID: "x"},
			{Cluster: prod, Service: "x", ID: ref.ID}, {Cluster: "x", Service: "api", ID: ref.ID}} {
			wantCode(t, w.api.Deployments.StopServiceDeployment(ctx, ref, cluster.StopAbort),
				cluster.CodeDeploymentNotFound, "Service deployment not found.")
		}
	})
}

// A service deployment that has ended shows how it was configured, even if the service has changed since; one in
// progress shows the service's configuration.
func TestAPI_ConfigurationOfServiceDeployments(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 8192, 16384)
	first := w.create("web", "web", 2).Release.ID
	w.minutes(3)
	want(t, "status", w.service("web").Service.Release.Status, cluster.DeploymentSuccessful)
	change := func(u operation.UpdateService) string {
		u.Name = "web"
		s, err := w.update(u)
		want(t, "error", err, nil)
		return s.Release.ID
	}
	maximumOf := func(id string) int {
		found, _, err := w.api.Deployments.DescribeServiceDeployments(ctx,
			[]operation.RecordRef{{Cluster: prod, Service: "web", ID: id}})
		want(t, "error", err, nil)
		return found[0].Configuration.MaxPercent
	}
	change(operation.UpdateService{MaxPercent: new(150)})
	want(t, "maximumPercent of the last one", maximumOf(first), 200)
	second := change(operation.UpdateService{Force: true})
	want(t, "maximumPercent of the one in progress", maximumOf(second), 150)
	third := change(operation.UpdateService{Force: true, MaxPercent: new(175)})
	want(t, "maximumPercent of each", fmt.Sprint(maximumOf(first), maximumOf(second), maximumOf(third)), "200 150 175")
	w.minutes(3)
	change(operation.UpdateService{MaxPercent: new(190)})
	_, err := w.api.Services.DeleteService(ctx, prod, "web", true)
	want(t, "error", err, nil)
	want(t, "maximumPercent after the service ends", maximumOf(third), 175)
}
