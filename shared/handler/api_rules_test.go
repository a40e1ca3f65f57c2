package handler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// ruled creates a service of n tasks under the rules.
func (w *world) ruled(n int, rules cluster.Rules) (*operation.ServiceDetail, error) {
	return w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n, Rules: rules})
}

func (w *world) attribute(id, name, value string) {
	w.ecs.change(id, func(i *cluster.Instance) { i.Attributes[name] = value })
	w.pump()
}

func TestAPI_RulesAreChecked(t *testing.T) {
	expressions := func(n int, text string) (out []cluster.PlacementConstraint) {
		for range n {
			out = append(out, cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: text})
		}
		return out
	}
	for name, c := range map[string]struct {
		rules cluster.Rules
		has   string
	}{
		"Query":       {cluster.Rules{Constraints: expressions(1, "attribute:disk = ssd")}, "Placement constraint expression is not valid: column 16"},
		"Long":        {cluster.Rules{Constraints: expressions(1, "attribute:disk == "+strings.Repeat("ä", 1983))}, "at most 2000 characters"},
		"TooMany":     {cluster.Rules{Constraints: expressions(11, "attribute:disk == ssd")}, "at most 10"},
		"Syntax":      {cluster.Rules{NodeConstraint: "a =="}, "Constraint is not valid"},
		"NoProperty":  {cluster.Rules{NodeConstraint: "Colour == red"}, "Colour"},
		"OneOfTwo":    {cluster.Rules{NodeConstraint: "Tier == 1 || Colour == red"}, "Colour"},
		"MetricTwice": {cluster.Rules{Metrics: []cluster.Metric{{Name: "m", Load: 1}, {Name: "m", Load: 2}}}, "named twice"},
		"Scoring":     {cluster.Rules{Scoring: "prettiest"}, "prettiest"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.instances("i", 2, 4096, 8192)
			w.attribute(ids[0], "berth.property.Tier", "1")
			_, err := w.ruled(1, c.rules)
			wantCode(t, err, cluster.CodeInvalidParameter, c.has)
			wantCount(t, "services", rows[*cluster.Service](w, state.PrefixService), 0)
		})
	}
	t.Run("ExpressionsAreBoundedInCharacters", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		if _, err := w.ruled(1, cluster.Rules{Constraints: expressions(1, "attribute:disk == "+strings.Repeat("ä", 1982))}); err != nil {
			t.Error(err)
		}
	})
	t.Run("DaemonsHaveNoDomains", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "a", TaskDefinition: "web", Strategy: cluster.Daemon, Rules: cluster.Rules{DomainPolicy: cluster.PolicyQuorum},
		})
		wantCode(t, err, cluster.CodeInvalidParameter, "domain policy quorum-safe")
		_, err = w.api.Services.CreateService(ctx, operation.CreateService{
			Cluster: prod, Name: "a", TaskDefinition: "web", Strategy: cluster.Daemon, Rules: cluster.Rules{NodeConstraint: "FDPolicy ~ Nonpacking"},
		})
		wantCode(t, err, cluster.CodeInvalidParameter, "FDPolicy")
	})
	t.Run("APropertyThatIsGoneHindersNoOtherChange", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.attribute("i000", "berth.property.Disk", "ssd")
		w.governed(1, cluster.Rules{NodeConstraint: "Disk == ssd"})
		w.ecs.change("i000", func(i *cluster.Instance) { delete(i.Attributes, "berth.property.Disk") })
		w.pump()
		w.scale("web", 0)
		_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "Disk == nvme"})
		wantCode(t, err, cluster.CodeInvalidParameter, "Disk")
	})
	t.Run("OfAnInactiveServiceStay", func(t *testing.T) {
		w := newWorld(t)
		w.create("web", "web", 0)
		_, err := w.api.Services.DeleteService(ctx, prod, "web", false)
		want(t, "error", err, nil)
		w.pump()
		_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:move-cost": "High"})
		wantCode(t, err, cluster.CodeServiceNotActive, "not ACTIVE")
	})
	t.Run("WithoutInstancesNothingIsKnown", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.ruled(0, cluster.Rules{NodeConstraint: "Colour == red"})
		want(t, "error", err, nil)
	})
	t.Run("RunTask", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.api.Tasks.SubmitRequest(ctx, operation.SubmitTasks{
			Kind: cluster.RunTask, Cluster: prod, TaskDefinition: "web", Count: 1, Rules: cluster.Rules{Constraints: expressions(1, "attribute:")},
		})
		wantCode(t, err, cluster.CodeInvalidParameter, "not valid")
	})
}

func TestAPI_UpdateRules(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1), Tags: map[string]string{"berth:move-cost": "High", "team": "a"},
		Rules: cluster.Rules{MoveCost: cluster.CostHigh},
	})
	want(t, "error", err, nil)
	before := w.version()
	d, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:move-cost": "Low", "berth:metrics": "m=4", "berth:constraint": "NodeName == i000"})
	want(t, "error", err, nil)
	want(t, "rules", fmt.Sprint(d.Service.Rules), fmt.Sprint(cluster.Rules{MoveCost: cluster.CostLow, NodeConstraint: "NodeName == i000", Metrics: []cluster.Metric{{Name: "m", Load: 4}}}))
	want(t, "tags that say otherwise go", fmt.Sprint(d.Service.Tags), "map[team:a]")
	want(t, "placement version moves", w.version() > before, true)
	_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "Nowhere == 1"})
	wantCode(t, err, cluster.CodeInvalidParameter, "Nowhere")
	want(t, "constraint stays", w.service("web").Service.Rules.NodeConstraint, "NodeName == i000")
	_, err = w.api.Services.UpdateRules(ctx, prod, "nobody", map[string]string{})
	wantCode(t, err, cluster.CodeServiceNotFound, "")

	t.Run("ByTag", func(t *testing.T) {
		of := cluster.ResourceARN{Kind: "service", Cluster: prod, Name: "web"}
		want(t, "error", w.api.Tags.TagResource(ctx, of, map[string]string{"berth:domain-policy": "quorum-safe", "x": "y"}, nil), nil)
		want(t, "policy", w.service("web").Service.Rules.DomainPolicy, cluster.PolicyQuorum)
		want(t, "error", w.api.Tags.TagResource(ctx, of, nil, []string{"berth:domain-policy"}), nil)
		want(t, "policy", w.service("web").Service.Rules.DomainPolicy, "")
		want(t, "tags", fmt.Sprint(w.service("web").Service.Tags), "map[team:a x:y]")
		err := w.api.Tags.TagResource(ctx, of, map[string]string{"berth:constraint": "Nowhere == 1"}, nil)
		wantCode(t, err, cluster.CodeInvalidParameter, "Nowhere")
		want(t, "tags", fmt.Sprint(w.service("web").Service.Tags), "map[team:a x:y]")
	})
	t.Run("ByUpdateService", func(t *testing.T) {
		constraints := []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Constraints: &constraints})
		want(t, "error", err, nil)
		wantCount(t, "constraints", w.service("web").Service.Rules.Constraints, 1)
		_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(2)})
		want(t, "error", err, nil)
		wantCount(t, "constraints are left", w.service("web").Service.Rules.Constraints, 1)
		_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Constraints: &[]cluster.PlacementConstraint{}})
		want(t, "error", err, nil)
		wantCount(t, "constraints are gone", w.service("web").Service.Rules.Constraints, 0)
	})
}

func TestAPI_Configuration(t *testing.T) {
	w := newWorld(t)
	c, err := w.api.Configurations.ClusterConfiguration(ctx, prod)
	want(t, "error", err, nil)
	want(t, "none set", c.Rev, 0)
	before := w.version()
	for n := range 2 {
		err := w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}, Buffer: map[string]float64{"m": float64(n) / 10}})
		want(t, "error", err, nil)
	}
	c, err = w.api.Configurations.ClusterConfiguration(ctx, prod)
	want(t, "error", err, nil)
	want(t, "buffer", c.Buffer["m"], 0.1)
	want(t, "placement versions", w.version()-before, 2)
	next := *c
	next.Rev++
	want(t, "error of the revision that was read", w.api.Configurations.PutConfiguration(ctx, &next), nil)
	wantCode(t, w.api.Configurations.PutConfiguration(ctx, &next), cluster.CodeConflict, "is at revision 3, not 2")
	_, err = w.api.Configurations.ClusterConfiguration(ctx, "nowhere")
	wantCode(t, err, cluster.CodeClusterNotFound, "")
}

// Every row that placement decides on comes once and in order, over any number of pages, and none
// reveals what containers were given.
func TestAPI_Rows(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 30, 40960, 81920)
	want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}}), nil)
	w.create("web", "web", 1200)
	w.run(t, operation.SubmitTasks{Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "app", Command: []string{"secret"}}}}})
	w.advance(time.Minute)
	var sorts []string
	pages := 0
	for after, more := "", true; more; pages++ {
		var page []state.Row
		var err error
		page, more, err = w.api.Rows.ListRows(ctx, prod, after)
		want(t, "error", err, nil)
		for _, row := range page {
			if task, ok := row.(*cluster.Task); ok && task.Overrides != nil {
				t.Errorf("task %s shows its overrides", task.ID)
			}
			sorts = append(sorts, state.KeyOf(row).Sort)
		}
		after = sorts[len(sorts)-1]
	}
	want(t, "pages", pages, 2)
	want(t, "in order", slices.IsSorted(sorts), true)
	want(t, "each once", len(slices.Compact(slices.Clone(sorts))), len(sorts))
	want(t, "rows", len(sorts), 2+30+1+1+1201)
}

// A Lambda function answers with at most 6 MB, as text within which quotes are escaped. Pages of
// large rows end sooner, and leave none out.
func TestAPI_PagesOfLargeRowsFitALambdaAnswer(t *testing.T) {
	w := newWorld(t)
	tags := map[string]string{}
	for n := range 50 {
		tags[fmt.Sprintf("%0128d", n)] = strings.Repeat("\"", 256)
	}
	const definitions = 300
	for n := range definitions {
		row := &cluster.TaskDefinition{Head: cluster.Head{Cluster: prod}, Family: fmt.Sprintf("f%03d", n), Revision: 1,
			Tags: tags}
		if _, err := w.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	found, pages := 0, 0
	for after, more := "", true; more; pages++ {
		var page []state.Row
		var err error
		page, more, err = w.api.Rows.ListRows(ctx, prod, after)
		want(t, "error", err, nil)
		body, err := json.Marshal(page)
		want(t, "error", err, nil)
		answer, err := json.Marshal(string(body)) // what a function URL makes of it
		want(t, "error", err, nil)
		if len(answer) > 6<<20 {
			t.Errorf("a page of %d rows has %d bytes", len(page), len(answer))
		}
		for _, row := range page {
			if _, ok := row.(*cluster.TaskDefinition); ok {
				found++
			}
		}
		after = state.KeyOf(page[len(page)-1]).Sort
	}
	want(t, "task definitions", found, definitions)
	if pages < 3 {
		t.Errorf("%d pages, want as many as the rows need", pages)
	}
}

// A service for which the cluster has no capacity is refused with the numbers, when it is created
// and when it grows (P11).
func TestAPI_Admission(t *testing.T) {
	w := newWorld(t)
	rules := cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 40}}}
	create := func(name string, n int) error {
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: name, TaskDefinition: "web", Desired: &n, Rules: rules})
		return err
	}
	want(t, "in an empty cluster", create("early", 0), nil)
	for _, id := range w.instances("i", 2, 40960, 81920) {
		w.ecs.change(id, func(i *cluster.Instance) { i.Registered.Metrics = map[string]int64{"connections": 100} })
	}
	w.pump()
	want(t, "what just fits", create("web", 4), nil)
	w.advance(time.Minute)
	wantCode(t, create("more", 2), cluster.CodeInvalidParameter, "metric connections: 80 more required, 40 available (capacity 200, 200 without the buffer, load 160)")
	_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(6)})
	wantCode(t, err, cluster.CodeInvalidParameter, "80 more required")
	want(t, "desired", w.service("web").Service.Desired, 4)
	_, err = w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web", Desired: new(2)})
	want(t, "fewer", err, nil)
	_, err = w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:metrics": "connections=500"})
	wantCode(t, err, cluster.CodeInvalidParameter, "connections")
	want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}, Buffer: map[string]float64{"connections": 0.5}}), nil)
	w.advance(time.Minute)
	wantCode(t, create("buffered", 1), cluster.CodeInvalidParameter, "100 without the buffer")
}
