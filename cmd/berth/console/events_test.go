package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/console"
	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// A countingAPI answers what a console asks about a cluster of n services, each with one event that
// says how many events were asked for. Each description of services takes a second of its clock.
type countingAPI struct {
	services  int
	rows      []state.Row
	changes   int // of the cluster
	described []string
	now       time.Time
}

func (a *countingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct{ Services []string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := map[string]any{}
	switch operation {
	case "ListClusters":
		out["clusterArns"] = []string{"prod"}
	case "DescribeClusterCapacity":
		out["rows"], out["at"], out["generation"] = []any{}, a.now, fmt.Sprint(a.changes)
	case "ListClusterRows":
		var rows []berthapi.Row
		for _, row := range a.rows {
			data, _ := state.EncodeRow(row)
			rows = append(rows, berthapi.Row{Sort: state.KeyOf(row).Sort, Row: data})
		}
		out["rows"] = rows
	case "ListServices":
		var names []string
		for k := range a.services {
			names = append(names, fmt.Sprintf("s%d", k))
		}
		out["serviceArns"] = names
	case "DescribeServices":
		a.now = a.now.Add(time.Second)
		a.described = append(a.described, strings.Join(in.Services, " "))
		var services []any
		for _, name := range in.Services {
			services = append(services, map[string]any{"serviceName": name, "events": []any{map[string]any{
				"id": name, "createdAt": 1.0, "message": fmt.Sprintf("(%s) %d", name, len(a.described))}}})
		}
		out["services"] = services
	}
	_ = json.NewEncoder(w).Encode(out)
}

// change changes the cluster's rows, as placement does.
func (a *countingAPI) change() {
	a.changes++
	a.rows = []state.Row{&state.Meta{Head: cluster.Head{Cluster: "prod", Rev: 1}, Version: int64(a.changes)}}
	for k := range a.services {
		a.rows = append(a.rows, newService(fmt.Sprintf("s%d", k), a.changes))
	}
}

// The page of a service asks for its events alone. Those of all services are read for a twentieth of
// the time at most, and a page that shows older ones learns when there may be newer ones.
func TestEventsAreReadSparingly(t *testing.T) {
	a := &countingAPI{services: 25, now: noon}
	a.change()
	behind := httptest.NewServer(a)
	defer behind.Close()
	api, err := client.New(t.Context(), client.Endpoint{Endpoint: behind.URL})
	if err != nil {
		t.Fatal(err)
	}
	source := &console.ClientSource{API: api, Every: time.Second, Clock: func() time.Time { return a.now }}
	server, _ := site(t, source, "")
	asked := func(path, text string, want ...string) {
		t.Helper()
		a.described = nil
		_, page := get(t, server, path)
		contains(t, page, text)
		if fmt.Sprint(a.described) != fmt.Sprint(want) {
			t.Errorf("%s asks for %q, want %q", path, a.described, want)
		}
	}
	asked("/console/service/s7", "(s7) 1", "s7")
	asked("/console/events?service=s7", "(s7) 1", "s7")
	tens := []string{"s0 s1 s2 s3 s4 s5 s6 s7 s8 s9", "s10 s11 s12 s13 s14 s15 s16 s17 s18 s19", "s20 s21 s22 s23 s24"}
	asked("/console/events", "(s24) 3", tens...)
	generation := func() string {
		t.Helper()
		now, err := source.Generation(t.Context(), "prod")
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	before := generation()
	a.change()
	a.now = a.now.Add(50 * time.Second)
	after := generation()
	if after == before {
		t.Fatal("the change is not seen")
	}
	asked("/console/events", "(s24) 3")
	a.now = a.now.Add(11 * time.Second) // 20 times the three seconds have passed
	if generation() == after {
		t.Error("an open page does not learn that there may be newer events")
	}
	asked("/console/events", "(s24) 3", tens...)
	a.now = a.now.Add(time.Hour)
	before = generation()
	a.now = a.now.Add(time.Hour)
	if generation() != before {
		t.Error("a page that has the newest events is read again")
	}
}

// So it is with a store in the same process, of which only the events of the service are read.
func TestEventsOfOneService(t *testing.T) {
	s := newStore(t, 1, broken()...)
	s.write(t, &cluster.ServiceEvent{Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: "e-2", Service: "web",
		CreatedAt: noon, Message: "(service web) has started 2 tasks"})
	server, _ := site(t, s.source, "")
	for path, want := range map[string][2]string{
		"/console/events?service=web": {"has started 2 tasks", "(service api) says"},
		"/console/service/api":        {"(service api) says", "has started 2 tasks"},
	} {
		_, page := get(t, server, path)
		contains(t, page, want[0])
		if strings.Contains(page, want[1]) {
			t.Errorf("%s has %q", path, want[1])
		}
	}
}
