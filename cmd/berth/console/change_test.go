package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"berth/cmd/berth/console"
	"berth/shared/cluster"
	"berth/shared/state"
)

// fakeAPI remembers the calls of a console. If it refuses, its caller may only read.
type fakeAPI struct {
	mu      sync.Mutex
	refuses bool
	calls   []string
}

func (f *fakeAPI) CallECS(_ context.Context, op string, in, out any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	input := in.(map[string]any)
	switch {
	case op == "StopTask" && f.refuses:
		return cluster.Errorf(cluster.CodeAccessDenied, "You may not.")
	case op == "StopTask" && input["task"] == "":
		return cluster.Errorf(cluster.CodeInvalidParameter, "Task is missing.")
	case op == "DescribeServices":
		found := out.(*struct {
			Services []struct {
				Deployment string `json:"currentServiceDeployment"`
			} `json:"services"`
		})
		found.Services = append(found.Services, struct {
			Deployment string `json:"currentServiceDeployment"`
		}{"arn:d/1"})
		return nil
	}
	f.calls = append(f.calls, fmt.Sprint(op, input))
	return nil
}

func (f *fakeAPI) CallBerth(_ context.Context, op string, in, _ any) error {
	return f.CallECS(context.Background(), op, in, nil)
}

// changingSite serves a console whose caller may write, unless the API refuses.
func changingSite(t testing.TB, api *fakeAPI, also ...state.Row) *httptest.Server {
	t.Helper()
	return changingConsole(t, newStore(t, 9, also...), api)
}

func changingConsole(t testing.TB, s *testStore, api *fakeAPI) *httptest.Server {
	t.Helper()
	c := console.New(console.Options{Source: s.source, Cluster: "prod", API: api})
	server := httptest.NewServer(c.Handler(http.NotFoundHandler()))
	t.Cleanup(func() { c.Close(); server.Close() })
	return server
}

// post sends a form, and returns what a browser would see without following a redirect.
func post(
	t testing.TB, server *httptest.Server, path, token string, change ...func(*http.Request),
) (*http.Response, string) {
	t.Helper()
	form := url.Values{"token": {token}}.Encode()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, f := range change {
		f(r)
	}
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// formToken returns the token in a page that asks.
func formToken(t testing.TB, page string) string {
	t.Helper()
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no token in\n%s", page)
	}
	return m[1]
}

// deploying is a service whose deployment is in progress.
func deploying() *cluster.Service {
	s := newService("front", 2)
	s.Release = &cluster.Release{ID: "d-1", Status: cluster.DeploymentInProgress, CreatedAt: noon}
	return s
}

// Each change asks first and shows the command that does the same. Then it is one call of the API.
func TestChanges(t *testing.T) {
	task := strings.Repeat("0", 31) + "1"
	for path, want := range map[string]struct{ from, command, call, back string }{
		"drain?cluster=prod&of=n-0": {"instance/n-0",
			"aws ecs update-container-instances-state --cluster prod --container-instances n-0 --status DRAINING",
			"UpdateContainerInstancesStatemap[cluster:prod containerInstances:[n-0] status:DRAINING]",
			"/console/instance/n-0?cluster=prod"},
		"activate?cluster=prod&of=n-7": {"instance/n-7",
			"aws ecs update-container-instances-state --cluster prod --container-instances n-7 --status ACTIVE",
			"UpdateContainerInstancesStatemap[cluster:prod containerInstances:[n-7] status:ACTIVE]",
			"/console/instance/n-7?cluster=prod"},
		"stop-task?cluster=prod&of=" + task: {"task/" + task,
			"aws ecs stop-task --cluster prod --task " + task + ` --reason &#39;Stopped in Berth&#39;\&#39;&#39;s console&#39;`,
			"StopTaskmap[cluster:prod reason:Stopped in Berth's console task:" + task + "]",
			"/console/task/" + task + "?cluster=prod"},
		"redeploy?cluster=prod&of=web": {"service/web",
			"aws ecs update-service --cluster prod --service web --force-new-deployment",
			"UpdateServicemap[cluster:prod forceNewDeployment:true service:web]", "/console/service/web?cluster=prod"},
		"stop-deployment?cluster=prod&of=front": {"service/front",
			"aws ecs stop-service-deployment --service-deployment-arn arn:d/1 --stop-type ROLLBACK",
			"StopServiceDeploymentmap[serviceDeploymentArn:arn:d/1 stopType:ROLLBACK]",
			"/console/service/front?cluster=prod"},
	} {
		api := &fakeAPI{}
		server := changingSite(t, api, deploying())
		_, offered := get(t, server, "/console/"+want.from)
		contains(t, offered, strings.ReplaceAll("/console/change/"+path, "&", "&amp;"))
		resp, page := get(t, server, "/console/change/"+path)
		if contains(t, page, want.command); resp.StatusCode != http.StatusOK || len(api.calls) > 0 {
			t.Errorf("%s: %s, and the calls %q", path, resp.Status, api.calls)
		}
		resp, page = post(t, server, "/console/change/"+path, formToken(t, page))
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != want.back {
			t.Errorf("%s: %s to %q\n%s", path, resp.Status, resp.Header.Get("Location"), page)
		}
		if len(api.calls) != 1 || api.calls[0] != want.call {
			t.Errorf("%s: calls %q, want %q", path, api.calls, want.call)
		}
	}
}

// The question about a drain says what becomes of the tasks of services, and of standalone ones.
func TestDrainSaysWhatBecomesOfTheTasks(t *testing.T) {
	alone := func(id, on string) *cluster.Task {
		out := newTask(id, on)
		out.Service, out.Group, out.Owner = "", "family:web", ""
		return out
	}
	moved := newTask(strings.Repeat("0", 31)+"1", "n-1")
	moved.Rev = 2
	server := changingSite(t, &fakeAPI{}, newInstance(9), moved, alone("a1", "n-0"), alone("a2", "n-1"), alone("a3", "n-1"))
	for path, want := range map[string]string{
		"n-0": "<p>It takes no new tasks. Its 1 task of a service moves to another instance, within the percentages of " +
			"the service. Its 1 standalone task stays until it ends.</p>",
		"n-1": "<p>It takes no new tasks. Its 3 tasks of services move to other instances, within the percentages of " +
			"their services. Its 2 standalone tasks stay until they end.</p>",
		"n-9": "<p>It takes no new tasks.</p>",
	} {
		_, page := get(t, server, "/console/change/drain?of="+path)
		contains(t, page, want)
	}
}

// A page of another origin cannot change anything: it does not know the token, and what browsers
// say about it gives it away.
func TestForeignForms(t *testing.T) {
	api := &fakeAPI{}
	server := changingSite(t, api)
	const path = "/console/change/drain?cluster=prod&of=n-0"
	_, page := get(t, server, path)
	token := formToken(t, page)
	other := changingSite(t, api)
	_, page = get(t, other, path)
	for name, c := range map[string]struct {
		token  string
		change func(*http.Request)
	}{
		"no token":               {"", func(*http.Request) {}},
		"the token of another":   {formToken(t, page), func(*http.Request) {}},
		"a foreign origin":       {token, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }},
		"an unknown origin":      {token, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"another host":           {token, func(r *http.Request) { r.Host = "evil.example" }},
		"another site":           {token, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }},
		"another port":           {token, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		"a token in the address": {"", func(r *http.Request) { r.URL.RawQuery += "&token=" + token }},
		"too much": {token,
			func(r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader("token=" + token + "&x=" + strings.Repeat("x", 5000)))
				r.ContentLength = -1
			}},
	} {
		if resp, body := post(t, server, path, c.token, c.change); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s\n%s", name, resp.Status, body)
		}
	}
	if len(api.calls) > 0 {
		t.Errorf("calls %q", api.calls)
	}
	if resp, _ := post(t, server, path, token, func(r *http.Request) {
		r.Header.Set("Origin",
			server.URL)
	}); resp.StatusCode !=
		http.StatusSeeOther || len(api.calls) != 1 {
		t.Errorf("the console's own form: %s, %q", resp.Status, api.calls)
	}
}

// A caller who may not write is offered nothing, and asks for nothing.
func TestReadOnlyCallers(t *testing.T) {
	refusing := &fakeAPI{refuses: true}
	for name, server := range map[string]*httptest.Server{"refused": changingSite(t, refusing, deploying()),
		"without an API": func() *httptest.Server {
			s,
				_ := site(t, newStore(t, 9, deploying()).source, "")
			return s
		}()} {
		for _, path := range []string{"instance/n-0", "instance/n-7", "service/front",
			"task/" + strings.Repeat("0", 31) + "1"} {
			_, page := get(t, server, "/console/"+path)
			if contains(t, page, "This console only reads."); strings.Contains(page, "/console/change/") {
				t.Errorf("%s: %s offers a change", name, path)
			}
		}
		if resp, page := get(t, server, "/console/change/drain?of=n-0"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: asking: %s\n%s", name, resp.Status, page)
		}
	}
	if len(refusing.calls) > 0 {
		t.Errorf("calls %q", refusing.calls)
	}
}

// A service that is not ACTIVE, or whose caller deploys it, is offered no deployment.
func TestServicesThatCannotBeDeployed(t *testing.T) {
	gone, external := newService("gone", 0), newService("external", 1)
	gone.Status, external.Controller = cluster.ServiceInactive, cluster.ExternalController
	server := changingSite(t, &fakeAPI{}, gone, external)
	for name, why := range map[string]string{"gone": "Service gone is INACTIVE.",
		"external": "Service external has the deployment controller EXTERNAL"} {
		resp, page := get(t, server, "/console/service/"+name)
		if resp.StatusCode != http.StatusOK || strings.Contains(page, "Deploy again") {
			t.Errorf("%s: %s\n%s", name, resp.Status, page)
		}
		resp, page = get(t, server, "/console/change/redeploy?of="+name)
		if contains(t, page, why); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}

// What cannot be changed says so.
func TestChangesOfNothing(t *testing.T) {
	server := changingSite(t, &fakeAPI{})
	for path, want := range map[string]string{"drain?of=none": `instance &#34;none&#34; is not in the cluster`,
		"stop-task?of=none":      `task &#34;none&#34; is not in the cluster`,
		"redeploy?of=none":       `service &#34;none&#34; is not in the cluster, expected one of: web`,
		"stop-deployment?of=non": `service &#34;non&#34; is not in the cluster`,
		"explode?of=web":         `there is no change &#34;explode&#34;`,
	} {
		resp, page := get(t, server, "/console/change/"+path)
		if contains(t, page, want); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
