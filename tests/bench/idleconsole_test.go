package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/console"
	"berth/shared/cluster"
	"berth/shared/state"
)

const (
	egressGB      = 0.09                   // dollars per GB that leaves AWS
	rowsPageTakes = 300 * time.Millisecond // assumed of a page of rows over the internet
	consoleEvery  = 5 * time.Second        // berth console's default
)

// countedCalls counts what calls of the API use, and how large its answers are. The clock goes on
// while rows are read.
type countedCalls struct {
	*idleClusters
	use   FunctionDay
	bytes int
	rows  int // pages
	now   time.Time
}

func (c *countedCalls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListClusterRows") {
		c.now, c.rows = c.now.Add(rowsPageTakes), c.rows+1
	}
	before, answer := c.Store.Usage(), httptest.NewRecorder()
	c.serve(answer, r)
	after := c.Store.Usage()
	c.use.Invocations++
	c.use.ReadUnits += after.ReadUnits - before.ReadUnits
	c.use.Requests += after.Requests - before.Requests
	c.bytes += answer.Body.Len()
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// serve answers a call while the loop runs what is due: the loop is virtual, and some calls wait for it.
func (c *countedCalls) serve(w http.ResponseWriter, r *http.Request) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.Server.ServeHTTP(w, r)
	}()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-answered:
			return
		case <-pause.C:
			c.Loop.RunUntil(c.Loop.Now())
		}
	}
}

// dollars is the price of all calls since the last time.
func (c *countedCalls) dollars() float64 {
	c.use.Memory = c.day.Functions["api"].Memory
	sum := c.use.Dollars() + float64(c.bytes)/1e9*egressGB
	c.use, c.bytes, c.rows = FunctionDay{}, 0, 0
	return sum
}

// A console with an open page costs AWS at most 10 cents a day while nothing happens in a cluster of
// 5,000 instances and 50,000 tasks, and nothing while no page is open.
func TestIdleConsole(t *testing.T) {
	if testing.Short() {
		t.Skip("the cluster is large")
	}
	calls := &countedCalls{idleClusters: newIdleClusters(t, 0, 0), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	for _, r := range append(consoleRows(), &state.Checkpoint{Head: cluster.Head{Cluster: "c", Rev: 1},
		Environment: "here", Batch: 1}) {
		if _, err := calls.Store.Write(t.Context(), state.Write{Put: r, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	calls.Loop.RunUntil(calls.Loop.Now()) // what the rows woke has ended before anything is counted
	server := httptest.NewServer(calls)
	defer server.Close()
	api, err := client.New(t.Context(), client.Endpoint{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	source := &console.ClientSource{API: api, Every: consoleEvery, Clock: func() time.Time { return calls.now }}
	look := func() {
		t.Helper()
		if _, err := source.Generation(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
	}
	look()
	pages := calls.rows
	reading := time.Duration(pages) * rowsPageTakes
	full := calls.dollars()
	if calls.now = calls.now.Add(20*reading - time.Second); calls.use.Invocations != 0 {
		t.Fatal("not counted")
	}
	if look(); calls.use.Invocations != 0 {
		t.Errorf("%d calls within 20 times as long as the last look took", calls.use.Invocations)
	}
	const looks = 5
	for range looks {
		calls.now = calls.now.Add(consoleEvery)
		look()
	}
	if calls.rows > 0 || calls.use.Invocations != looks {
		t.Errorf("%d calls, %d of them for rows, while nothing changes: want %d and none", calls.use.Invocations, calls.rows, looks)
	}
	idle := calls.dollars() / looks
	calls.now = calls.now.Add(360 * reading)
	if look(); calls.rows != pages {
		t.Errorf("%d pages of rows after a long time, want %d", calls.rows, pages)
	}
	calls.dollars()
	calls.now = calls.now.Add(20 * reading)
	if _, err := calls.Store.Write(t.Context(), state.Write{Any: true, Put: &state.Checkpoint{
		Head: cluster.Head{Cluster: "c", Rev: 2}, Environment: "here", Batch: 2}}); err != nil {
		t.Fatal(err)
	}
	if look(); calls.rows != pages {
		t.Errorf("%d pages of rows after placement's next batch, want %d", calls.rows, pages)
	}
	day := idle*float64(24*time.Hour/consoleEvery) + full*float64(24*time.Hour)/float64(360*reading)
	t.Logf("a look without changes $%.2g, one with %d pages of rows $%.2g: $%.4f a day", idle, pages, full, day)
	if day > 0.10 {
		t.Errorf("an idle console costs $%.4f a day", day)
	}
}
