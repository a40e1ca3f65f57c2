package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/console"
	"berth/shared/cluster"
)

// A question's tasks are drawn on the map, at each density, and begin the table below it. The page
// has the command that asks the same.
func TestWhatifOnTheMap(t *testing.T) {
	for n, plus := range map[int]bool{9: true, 500: false, 1200: false} {
		server, _ := site(t, newStore(t, n).source, "")
		_, page := get(t, server, "/console/whatif?count=4&cpu=1500&memory=100&distinct=1&"+
			"expression=attribute:ecs.availability-zone+%3D%3D+us-east-1a")
		want := "4 would be placed"
		if n == 9 {
			want = "3 would be placed, 1 would find no instance" // of nine instances three are in the zone
		}
		contains(t, page, want, `path class="chosen"`, "would get tasks of the question",
			"<code>berth whatif --count 4 "+
				"--cpu 1500 --memory 100 --member-of &#39;attribute:ecs.availability-zone == us-east-1a&#39; --distinct "+
				"--cluster prod</code>")
		if strings.Contains(page, ">+1</text>") != plus {
			t.Errorf("%d instances: the number of tasks in a box: %v", n, !plus)
		}
		first := page[strings.LastIndex(page, "<tbody>"):]
		if zone := strings.Index(first, "us-east-1"); zone < 0 || !strings.HasPrefix(first[zone:], "us-east-1a") {
			t.Errorf("%d instances: the table does not begin with an instance that would get a task:\n%s", n, first)
		}
	}
}

// A map that is no answer has no outlines.
func TestMapWithoutAQuestion(t *testing.T) {
	server, _ := site(t, newStore(t, 9).source, "")
	if _, page := get(t, server, "/console/map"); strings.Contains(page, `"chosen"`) {
		t.Error("instances stand out on a map without a question")
	}
	if _, page := get(t, server, "/console/whatif"); strings.Contains(page, "<svg") ||
		strings.Contains(page, "refused") {
		t.Errorf("a form that was not sent has an answer:\n%s", page)
	}
}

// What cannot be asked is refused with the field's name, and names that no instance has are named.
func TestWhatifMistakes(t *testing.T) {
	server, _ := site(t, newStore(t, 9).source, "")
	for query, want := range map[string]string{
		"count=0&cpu=1":              "Tasks is &#34;0&#34;, expected a number up to 1000.",
		"count=1001&cpu=1":           "Tasks is &#34;1001&#34;",
		"count=1&cpu=-1":             "CPU units is &#34;-1&#34;",
		"count=1&memory=x":           "Memory is &#34;x&#34;",
		"count=1":                    "nothing is asked",
		"cpu=abc":                    "CPU units is &#34;abc&#34;, expected a number up to",
		"cpu=1&memory=x":             "Memory is &#34;x&#34;",
		"expression=(&gpus=1":        "the constraint is &#34;(&#34;, expected an expression",
		"distinct=1":                 "nothing is asked",
		"count=1&service=web&cpu=1":  "a service and a size are given",
		"count=1&service=wep":        "service &#34;wep&#34; is not in the cluster, expected one of: web",
		"count=1&cpu=1&expression=(": "the constraint is &#34;(&#34;, expected an expression",
		"count=1&cpu=1&expression=attribute:ecs.availability-zne+%3D%3D+x": "the nearest attribute is " +
			"&#34;ecs.availability-zone&#34;.",
	} {
		resp, page := get(t, server, "/console/whatif?"+query)
		if contains(t, page, want, `name="count"`); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", query, resp.Status)
		}
	}
}

// A link may leave out how many tasks: it asks about one.
func TestWhatifWithoutACount(t *testing.T) {
	server, _ := site(t, newStore(t, 9).source, "")
	_, page := get(t, server, "/console/whatif?cpu=100")
	contains(t, page, "1 would be placed", "berth whatif --count 1 --cpu 100")
}

// The page of rebalancing says how far the cluster is from balanced and, if asked, which moves
// bring it nearer. The change asks Berth to make them.
func TestRebalancingPage(t *testing.T) {
	s := newStore(t, 9)
	for k := range 6 { // all on one instance
		s.write(t, newTask(strings.Repeat("f", 31)+string(rune('0'+k)), "n-0"))
	}
	web := newService("web", 24)
	web.Steady = true
	web.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "instanceId"}}
	s.write(t, web)
	api := &fakeAPI{}
	server := changingConsole(t, s, api)
	const distance = "The distance from a balanced cluster is 0.2083." // 5 of 24 tasks
	_, page := get(t, server, "/console/rebalancing")
	contains(t, page, distance, "Balancing is switched off in this cluster.", "Plan moves", "too many on an instance",
		"<code>berth rebalance --dry-run --cluster prod</code>")
	if strings.Contains(page, "console/change/") {
		t.Error("moves are offered before they were shown")
	}
	_, page = get(t, server, "/console/rebalancing?plan=1")
	contains(t, page, distance, " moves at a cost of ", " nearer.", "too many on an instance, after", "Have Berth make the moves",
		"/console/instance/n-0")
	_, page = get(t, server, "/console/change/rebalance?of=")
	contains(t, page, "berth rebalance --apply --no-wait --cluster prod")
	post(t, server, "/console/change/rebalance", formToken(t, page))
	if len(api.calls) != 1 || api.calls[0] != "RebalanceClustermap[cluster:prod]" {
		t.Errorf("calls %q", api.calls)
	}
}

// One task that moves is no "1 tasks".
func TestRebalancingPageCountsMoves(t *testing.T) {
	moving := newTask(strings.Repeat("f", 32), "n-1")
	moving.Replaces = strings.Repeat("0", 32)
	server, _ := site(t, newStore(t, 2, moving).source, "")
	_, page := get(t, server, "/console/rebalancing")
	contains(t, page, "1 task moves now.")
}

// A page of a change that follows at once shows the plan that was made before, and says so; a later one
// plans again. While nothing changes, all pages of a plan show the same one.
func TestAPlanOfAnEarlierClusterSaysSo(t *testing.T) {
	s := newStore(t, 500)
	web := newService("web", 1006)
	web.Steady = true
	web.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "instanceId"}}
	s.write(t, web)
	server, _ := site(t, s.source, "")
	const address, old = "/console/rebalancing?plan=1", "The moves were planned at 2026-11-21 12:00:00 UTC"
	if _, page := get(t, server, address); strings.Contains(page, old) {
		t.Error("the first plan is said to be old")
	}
	if _, page := get(t, server, address); strings.Contains(page, old) {
		t.Error("a plan of the same cluster is said to be old")
	}
	distance := func(page string) string {
		_, text, _ := strings.Cut(page, "The distance from a balanced cluster is ")
		text, _, _ = strings.Cut(text, ".<")
		return text
	}
	changed := 0
	for said := false; !said; { // a busy machine may take longer to write than a plan is shown
		_, before := get(t, server, address)
		s.write(t, newTask(fmt.Sprintf("%032x", 1<<40+changed), "n-0")) // all on one instance
		_, after := get(t, server, address)
		if said = strings.Contains(after, old); said && distance(after) != distance(before) {
			t.Errorf("the plan that was made before shows %s, not %s", distance(after), distance(before))
		}
		if changed++; changed == 100 {
			t.Fatal("no page showed the plan that was made before the change")
		}
	}
	fresh, _ := site(t, &console.StoreSource{Store: s.Store, Clock: s.source.Clock,
		CapacityRows: s.source.CapacityRows, Groups: s.source.Groups}, "")
	_, page := get(t, fresh, address)
	want, end := distance(page), time.Now().Add(10*time.Second)
	for page = old; strings.Contains(page, old); {
		if _, page = get(t, server, address); time.Now().After(end) {
			t.Fatal("no new plan")
		}
	}
	if distance(page) != want {
		t.Errorf("the new plan shows %s, want %s", distance(page), want)
	}
}

// A service's page draws how many tasks of each revision have run since its deployment began,
// against what its percentages allow; not once what ran then is not known any more.
func TestTimeline(t *testing.T) {
	s := newStore(t, 9)
	front := deploying()
	front.Deployment.ID, front.MinHealthy, front.Desired = "ecs-svc/2", 50, 4
	front.Release.CreatedAt = noon.Add(-10 * time.Minute)
	s.write(t, front)
	for k := range 4 {
		old := newTask(strings.Repeat("a", 31)+string(rune('0'+k)), "n-1")
		old.Owner, old.Service, old.Revision, old.Started = "front", "front", "ecs-svc/1",
			cluster.At(noon.Add(-time.Hour))
		old.Last, old.Stopped = cluster.TaskStopped, cluster.At(noon.Add(-time.Duration(k)*time.Minute))
		next := newTask(strings.Repeat("b", 31)+string(rune('0'+k)), "n-2")
		next.Owner, next.Service, next.Revision = "front", "front", "ecs-svc/2"
		next.Started = cluster.At(noon.Add(-time.Duration(2*k) * time.Minute))
		s.write(t, old)
		s.write(t, next)
	}
	server, _ := site(t, s.source, "")
	_, page := get(t, server, "/console/service/front")
	contains(t, page, "Tasks that run, by revision, since the deployment began", "at least healthy: 2", "at most: 8",
		"PRIMARY, web:1", "an earlier revision, web:1", "all: 4 at the end", "11:49:30")
	front.Release.CreatedAt = noon.Add(-2 * time.Hour)
	s.write(t, front)
	if _, page = get(t, server, "/console/service/front"); strings.Contains(page, "<figure") {
		t.Error("a deployment of two hours ago has a timeline")
	}
}

// Tasks that belong to no service of the cluster come first in the list.
func TestTasksWithoutAService(t *testing.T) {
	s := newStore(t, 3)
	alone := newTask(strings.Repeat("e", 32), "n-1")
	alone.Owner, alone.Service = "prod-short", ""
	s.write(t, alone)
	server, _ := site(t, s.source, "")
	_, page := get(t, server, "/console/tasks")
	contains(t, page, "1 to 7 of 7")
	if first := page[strings.Index(page, "<tbody>"):]; !strings.HasPrefix(first[strings.Index(first,
		"/console/task/"):],
		"/console/task/eeee") {
		t.Errorf("the first task is another one:\n%s", first)
	}
}

// The distance from a balanced cluster is remembered for a moment. A page that shows an older one is
// told of the change like any other, so it shows the new one soon.
func TestRebalancingPageAfterAChange(t *testing.T) {
	s := newStore(t, 500)
	web := newService("web", 1006)
	web.Steady = true
	web.Rules.Strategies = []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "instanceId"}}
	s.write(t, web)
	server, _ := site(t, s.source, "")
	const address = "/console/rebalancing"
	shown := func(page string) string {
		_, text, _ := strings.Cut(page, "The distance from a balanced cluster is ")
		text, _, _ = strings.Cut(text, ".<")
		return text
	}
	generation := func(page string) string {
		_, text, _ := strings.Cut(page, `data-generation="`)
		text, _, _ = strings.Cut(text, `"`)
		return text
	}
	_, page := get(t, server, address)
	for k := range 6 { // all on one instance; each page is of a further change
		s.write(t, newTask(strings.Repeat("f", 31)+string(rune('0'+k)), "n-0"))
		now, err := s.source.Generation(t.Context(), "prod")
		if err != nil {
			t.Fatal(err)
		}
		_, page = get(t, server, address)
		other, _ := site(t, &console.StoreSource{Store: s.Store, Clock: s.source.Clock,
			CapacityRows: s.source.CapacityRows, Groups: s.source.Groups}, "")
		if _, measured := get(t, other, address); generation(page) == now && shown(page) != shown(measured) {
			t.Errorf("the page of the last change shows %s, and it is %s", shown(page), shown(measured))
		}
	}
	const last = "0.0050" // 5 of 1,006 tasks
	for end := time.Now().Add(10 * time.Second); shown(page) != last && time.Now().Before(end); {
		_, page = get(t, server, address)
	}
	if got := shown(page); got != last {
		t.Errorf("in the end %s, want %s", got, last)
	}
}
