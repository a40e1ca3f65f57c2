package installation_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/installation"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/handler"
	"berth/shared/snapshot"
)

// The page and the command read the disconnect timeout that the installation has.
func TestDisconnectTimeoutIsRead(t *testing.T) {
	settings := handler.DefaultSettings()
	settings.DisconnectTimeout = 90 * time.Second
	i, end := runFolder(t, installation.Options{Data: t.TempDir(), Settings: &settings})
	defer end()
	server := httptest.NewServer(i.Server)
	defer server.Close()
	api, err := client.New(t.Context(), client.Endpoint{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	k, err := whatif.ReadCapacity(t.Context(), api, "home")
	if err != nil || k.DisconnectTimeout == nil || *k.DisconnectTimeout != settings.DisconnectTimeout {
		t.Errorf("%+v, %v", k, err)
	}
}

// What a function gave up is a problem of `berth status`, which reads it with the cluster's capacity.
func TestDeadLettersAreAProblem(t *testing.T) {
	i, end := runFolder(t, installation.Options{Data: t.TempDir()})
	defer end()
	server := httptest.NewServer(i.Server)
	defer server.Close()
	api, err := client.New(t.Context(), client.Endpoint{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	read := func() []problem.Problem {
		k, err := whatif.ReadCapacity(t.Context(), api, "home")
		if err != nil {
			t.Fatal(err)
		}
		return problem.Find(problem.Input{Cluster: "home", Snapshot: snapshot.NewSnapshot(), Capacity: k,
			DeadLetters: k.DeadLetters, Now: k.At})
	}
	if got := read(); len(got) > 0 {
		t.Errorf("%+v, want nothing", got)
	}
	sent := i.Loop.Now()
	if err := i.Runtime.Queue("EventsDeadLetters").Send(t.Context(), []byte("bad"), 0); err != nil {
		t.Fatal(err)
	}
	got := read()
	if len(got) != 1 || got[0].What != "Dead-letter queue EventsDeadLetters has 1 message." || got[0].Since == nil ||
		got[0].Since.Before(sent.Add(-time.Second)) {
		t.Errorf("%+v", got)
	}
	if letters, err := i.DeadLetters(t.Context()); err != nil || len(letters) != 1 { // as the console reads them
		t.Errorf("%+v, %v", letters, err)
	}
}
