package console_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/console"
	"berth/shared/cluster"
	"berth/shared/state"
)

// broken is a service that finds no room, and the events that it has written.
func broken() []state.Row {
	s := newService("api", 2)
	s.Blocked, s.BlockedSince = &cluster.Diagnosis{Evaluated: 9, Unplaced: 2,
		Rejected: []cluster.Rejection{{Filter: cluster.FilterMemory, Count: 9, Need: 8000, Best: 3072}}},
		noon.Add(-time.Hour)
	return []state.Row{s, &cluster.ServiceEvent{Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: "e-1", Service: "api",
		CreatedAt: noon, Message: "(service api) says " + hostile}}
}

// stuck are the rows of a service whose deployment may neither start nor stop a task: both are of the
// earlier revision.
func stuck() []state.Row {
	s := newService("fixed", 2)
	earlier := s.Deployment
	earlier.Running, earlier.Healthy = 2, 2
	s.MinHealthy, s.MaxPercent, s.Older = 100, 100, []cluster.Deployment{earlier}
	s.Deployment.ID, s.Deployment.State = "ecs-svc/2", cluster.RolloutInProgress
	s.Running, s.EmittedKeys = 2, map[string]time.Time{"stuck": noon.Add(-time.Minute)}
	rows := []state.Row{s}
	for k := range 2 {
		t := newTask(fmt.Sprintf("f%031d", k), fmt.Sprintf("n-%d", k))
		t.Owner, t.Service, t.Group, t.Revision = "fixed", "fixed", "service:fixed", earlier.ID
		rows = append(rows, t)
	}
	return rows
}

// throttled are the rows of a service whose tasks keep exiting.
func throttled() []state.Row {
	return []state.Row{newService("crash", 3), &cluster.Throttle{Head: cluster.Head{Cluster: "prod", Rev: 1},
		Owner: "crash", Service: "crash", Revisions: map[string]cluster.Backoff{"ecs-svc/1": {Step: 3, Failures: 9,
			Since: noon.Add(-4 * time.Minute), NextAttemptAt: noon.Add(12 * time.Minute),
			Reason: "Essential container in task exited"}}}}
}

func TestPages(t *testing.T) {
	server, _ := site(t, newStore(t, 9, broken()...).source, "")
	task := "/console/task/" + strings.Repeat("0", 31) + "1"
	for path, want := range map[string][]string{
		"/": {"1. <a href=\"/console/service/api?cluster=prod\">Service api runs 0 of 2 tasks: no instance can take 2 more.</a>",
			"9 insufficient memory (needs 8000 MiB, best free 3072)", "since 2026-11-21T11:00:00Z (1h0m)",
			"<code>berth explain service api --cluster prod</code>"},
		"/?q=nothing+has+this": {"No problem contains these words."},
		"/console/map": {"us-east-1a", "spot", "<svg ", `path class="cpu"`,
			"/console/instance/n-0?cluster=prod", "1 to 9 of 9"},
		"/console/map?q=us-east-1b": {"1 to 3 of 3"},
		"/console/services": {`<span class="state wrong">blocked</span>`, "0 of 2",
			`<span class="state good">steady</span>`},
		"/console/service/api":     {"When placement last tried: 0/9: 9 insufficient memory", "PRIMARY 1", "None"},
		"/console/tasks":           {"1 to 18 of 18"},
		"/console/tasks?q=web+n-3": {"1 to 2 of 2"},
		task:                       {"Why here, why not there", "n-0"},
		"/console/instance/n-0":    {"512/2048 units (25 %)", "1 to 2 of 2", "Free: CPU 1536 of 2048"},
		"/console/capacity": {"The cluster has no capacity provider with a group.",
			"The cluster has no node group."},
		"/console/events": {"(service api) says &lt;script&gt;alert(1)&lt;/script&gt;"},
		"/console/events?service=no": {`service &#34;no&#34; is not in the cluster, expected one of: api, web`,
			`name="service" value="no"`},
	} {
		resp, page := get(t, server, path)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
		contains(t, page, want...)
		// The only script is the console's own, and nothing is inline.
		if strings.Count(page, "<script") != 1 || strings.Contains(page, "style=") ||
			strings.Contains(page, "onclick") {
			t.Errorf("%s has script or style of its own:\n%s", path, page)
		}
		contains(t, page, `<script src="/console/static/console.js" defer></script>`, `<html lang="en">`,
			`href="#main"`)
		if p := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; ") {
			t.Errorf("%s: policy %q", path, p)
		}
	}
	for path, want := range map[string]string{
		"/console/service/none": `service &#34;none&#34; is not in the cluster, expected one of: api, web`,
		"/console/task/none":    `task &#34;none&#34; is not in the cluster`,
		"/?cluster=other":       `there is no cluster &#34;other&#34;, expected one of: prod`,
	} {
		resp, page := get(t, server, path)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
		contains(t, page, want)
	}
	for path, kind := range map[string]string{"console.css": "text/css", "console.js": "text/javascript"} {
		if resp, body := get(t, server, "/console/static/"+path); !strings.HasPrefix(resp.Header.Get("Content-Type"),
			kind) ||
			body == "" {
			t.Errorf("%s: %s", path, resp.Header)
		}
	}
}

// The capacities of an instance's node type are shown as those that it registered.
func TestCapacitiesOfANodeType(t *testing.T) {
	typed := newInstance(1)
	typed.Attributes[cluster.AttributeNodeType], typed.Registered.Metrics = "big", map[string]int64{"disk": 5}
	typed.Rev = 2
	server, _ := site(t, newStore(t, 2, typed, &cluster.Configuration{Head: cluster.Head{Cluster: "prod", Rev: 1},
		NodeTypes: map[string]cluster.NodeType{"big": {Capacities: map[string]int64{"rps": 70, "disk": 9}}}}).source, "")
	_, page := get(t, server, "/console/instance/n-1")
	contains(t, page, "<dt>Load of rps</dt><dd>0/70 (0 %)</dd>", "<dt>Load of disk</dt><dd>0/5 (0 %)</dd>",
		", disk 5 of 5, rps 70 of 70.")
	_, page = get(t, server, "/console/map")
	contains(t, page, ", disk 0/5, rps 0/70")
}

// A cluster without anything says so, and what to do.
func TestEmpty(t *testing.T) {
	server, _ := site(t, newStore(t, 0).source, "")
	_, page := get(t, server, "/")
	contains(t, page, "Nothing is wrong.", "Nothing is wrong in cluster prod (0 instances, 0 services, 0 tasks).")
	gone := newService("web", 0)
	gone.Status = cluster.ServiceInactive
	server, _ = site(t, newStore(t, 0, gone).source, "")
	_, page = get(t, server, "/")
	contains(t, page, "There is no service yet.", "aws ecs create-service --cluster prod --service-name web")
	_, page = get(t, server, "/console/map")
	contains(t, page, "No instance has joined cluster prod yet.", "ECS_CLUSTER=prod")
	_, page = get(t, server, "/console/map?q=spot")
	contains(t, page, "No instance matches.")
}

// Only a browser on this machine sees pages, and no page of another origin does.
func TestForeignRequests(t *testing.T) {
	server, _ := site(t, newStore(t, 1).source, "")
	for name, change := range map[string]func(*http.Request){
		"Host":   func(r *http.Request) { r.Host = "evil.example:80" },
		"Origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"Null":   func(r *http.Request) { r.Header.Set("Origin", "null") },
	} {
		for _, path := range []string{"/", "/console/map", "/console/live?cluster=prod", "/console/static/console.js"} {
			if resp, page := get(t, server, path, change); resp.StatusCode != http.StatusForbidden ||
				strings.Contains(page, "n-0") {
				t.Errorf("%s, %s: %s", name, path, resp.Status)
			}
		}
	}
	// What is no page goes to the API behind it.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("a POST got %s", resp.Status)
	}
}

// With a token, one browser gets in, once.
func TestToken(t *testing.T) {
	token := console.NewToken()
	server, c := site(t, newStore(t, 1).source, token)
	if got := c.Address("http://127.0.0.1:1"); got != "http://127.0.0.1:1/?token="+token {
		t.Errorf("address %s", got)
	}
	for _, path := range []string{"/", "/?token=wrong", "/console/map", "/console/live?cluster=prod"} {
		if resp, page := get(t, server, path); resp.StatusCode != http.StatusForbidden ||
			strings.Contains(page, "<main") {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	resp, _ := get(t, server, "/?token="+token)
	cookies := resp.Cookies()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" || len(cookies) != 1 ||
		!cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("%s to %s, %v", resp.Status, resp.Header.Get("Location"), cookies)
	}
	with := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: value}) }
	}
	if resp, _ := get(t, server, "/", with(cookies[0].Value)); resp.StatusCode != http.StatusOK {
		t.Errorf("the browser that gave the token: %s", resp.Status)
	}
	for name, value := range map[string]string{"Guessed": "guess", "Empty": "", "Token": token} {
		if resp, _ := get(t, server, "/", with(value)); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	if resp, _ := get(t, server, "/?token="+token); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the token a second time: %s", resp.Status)
	}
}

// An open page is told of a change, and nothing is followed once no page is open.
func TestLive(t *testing.T) {
	s := newStore(t, 1)
	s.source.Idle = time.Millisecond
	server, c := site(t, s.source, "")
	if got := s.source.Followed(); len(got) > 0 {
		t.Errorf("%v is followed before a page is open", got)
	}
	_, page := get(t, server, "/console/map")
	contains(t, page, "1 to 1 of 1")
	_, generation, _ := strings.Cut(page, `data-generation="`)
	generation, _, _ = strings.Cut(generation, `"`)
	s.source.Idle = 0
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		server.URL+"/console/live?cluster=prod&generation="+generation, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, newInstance(1))
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "event: change" {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
	_, page = get(t, server, "/console/map")
	contains(t, page, "1 to 2 of 2")
	c.Close()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
	s.source.Idle = time.Nanosecond
	s.write(t, newInstance(2))
	if got := s.source.Followed(); len(got) > 0 {
		t.Errorf("%v is followed although no page is open", got)
	}
	_, page = get(t, server, "/console/map")
	contains(t, page, "1 to 3 of 3")
}

// A map that has not changed is not sent again.
func TestUnchangedMap(t *testing.T) {
	s := newStore(t, 3)
	server, _ := site(t, s.source, "")
	resp, _ := get(t, server, "/console/map")
	tag := resp.Header.Get("ETag")
	again := func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	if resp, body := get(t, server, "/console/map", again); tag == "" || resp.StatusCode != http.StatusNotModified ||
		body != "" {
		t.Errorf("%q: %s", tag, resp.Status)
	}
	s.write(t, newInstance(7))
	if resp, _ := get(t, server, "/console/map", again); resp.StatusCode != http.StatusOK {
		t.Errorf("after a change: %s", resp.Status)
	}
}

// To 200 instances each has a name, to 1,000 two bars, above one fill. However many there are, each
// cell has one path per state and resource, and a page stays below 300 kB.
func TestMapDensities(t *testing.T) {
	for n, c := range map[int]struct{ has, lacks string }{
		9:    {`<text x="`, `class="fill"`},
		500:  {`path class="memory"`, `<text x="`},
		5000: {`path class="fill"`, `path class="memory"`},
	} {
		if n > 500 && testing.Short() {
			continue
		}
		server, _ := site(t, newStore(t, n).source, "")
		_, page := get(t, server, "/console/map")
		drawn, _, _ := strings.Cut(page[strings.Index(page, `<table class="map">`):], "</table>")
		contains(t, drawn, c.has)
		if strings.Contains(drawn, c.lacks) {
			t.Errorf("%d instances: the map has %s", n, c.lacks)
		}
		if cells := 6; n > 200 && strings.Count(drawn, "<path") > cells*4 {
			t.Errorf("%d instances: %d paths", n, strings.Count(drawn, "<path"))
		}
		if len(page) > 300_000 {
			t.Errorf("%d instances: the page has %d bytes", n, len(page))
		}
	}
}
