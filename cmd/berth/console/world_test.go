package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/console"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hostile is a name that would be markup if it were not escaped.
const hostile = `<script>alert(1)</script>"'`

// testStore is an embedded store with a cluster of n instances, with two tasks of web on each.
type testStore struct {
	*embedded.Store
	source *console.StoreSource
}

func newStore(t testing.TB, n int, also ...state.Row) *testStore {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := &testStore{Store: store, source: &console.StoreSource{Store: store, Clock: func() time.Time { return noon },
		CapacityRows: func(context.Context, string) ([]state.Row, error) { return nil, nil },
		Groups:       func(context.Context, []string) ([]*cluster.AutoScalingGroup, error) { return nil, nil },
	}}
	store.OnRecords(s.source.Watch)
	s.write(t, &state.Entry{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "prod"})
	head := cluster.Head{Cluster: "prod", Rev: 1}
	s.write(t, &state.Meta{Head: head, Version: 1, Short: "prod-short"})
	s.write(t, &cluster.TaskDefinition{Head: head, Family: "web", Revision: 1,
		Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}})
	if n > 0 {
		s.write(t, newService("web", 2*n))
	}
	for k := range n {
		s.write(t, newInstance(k))
		for x := range 2 {
			s.write(t, newTask(fmt.Sprintf("%08x%024x", k, x), fmt.Sprintf("n-%d", k)))
		}
	}
	for _, r := range also {
		s.write(t, r)
	}
	return s
}

func (s *testStore) write(t testing.TB, row state.Row) {
	t.Helper()
	if _, err := s.Write(t.Context(), state.Write{Put: row, Any: true}); err != nil {
		t.Fatal(err)
	}
}

func newService(name string, desired int) *cluster.Service {
	return &cluster.Service{
		Head: cluster.Head{Cluster: "prod", Rev: 1}, ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
		ServiceSpec: cluster.ServiceSpec{Strategy: cluster.Replica, Desired: desired, MaxPercent: 200},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive, Deployment: cluster.Deployment{
			Revision: cluster.Revision{ID: "ecs-svc/1", TaskDefinition: "web:1"}, State: cluster.RolloutCompleted}},
	}
}

func newInstance(k int) *cluster.Instance {
	i := &cluster.Instance{
		Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: fmt.Sprintf("n-%d", k),
		EC2InstanceID: fmt.Sprintf("i-%017x", k),
		Status:        cluster.InstanceActive, AgentConnected: true, Provider: []string{"spot", "steady"}[k%2],
		Registered: cluster.Capacity{CPU: 2048 * cluster.CPUUnit, Memory: 4096},
		Attributes: map[string]string{cluster.AttributeZone: fmt.Sprintf("us-east-1%c", 'a'+k%3)},
	}
	if k%50 == 7 {
		i.Status = cluster.InstanceDraining
	}
	return i
}

func newTask(id, on string) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: "prod", Rev: 1},
		TaskSpec: cluster.TaskSpec{ID: id, Owner: "web", Service: "web", Group: "service:web", TaskDefinition: "web:1",
			Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}, CreatedAt: cluster.At(noon)},
		TaskAssignment: cluster.TaskAssignment{Instance: on, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}
}

// site serves a console.
func site(t testing.TB, source console.Source, token string) (*httptest.Server, *console.Console) {
	t.Helper()
	c := console.New(console.Options{Source: source, Cluster: "prod", Token: token})
	server := httptest.NewServer(c.Handler(http.NotFoundHandler()))
	t.Cleanup(func() { c.Close(); server.Close() })
	return server, c
}

// get reads a page.
func get(t testing.TB, server *httptest.Server, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
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

// contains checks that a page has each text.
func contains(t testing.TB, page string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("%q is missing in\n%s", text, page)
		}
	}
}
