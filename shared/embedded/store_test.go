package embedded_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"berth/shared/embedded"
	"berth/shared/porttest"
	"berth/shared/state"
)

func openStore(t testing.TB, path string, consumers ...string) *embedded.Store {
	t.Helper()
	s, err := embedded.OpenStore(embedded.StoreOptions{Path: path, Consumers: consumers})
	if err != nil {
		t.Fatalf("OpenStore: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func tempPath(t testing.TB) string { return filepath.Join(t.TempDir(), "berth.db") }

func TestStorePassesTheSuite(t *testing.T) {
	t.Run("Ephemeral", func(t *testing.T) {
		porttest.TestStore(t, func(t *testing.T) state.Store { return openStore(t, "") })
	})
	t.Run("File", func(t *testing.T) {
		porttest.TestStore(t, func(t *testing.T) state.Store { return openStore(t, tempPath(t), "one") })
	})
}

// listened is a store with all its stream records.
type listened struct {
	*embedded.Store
	mu      sync.Mutex
	records []state.Record
}

func listen(s *embedded.Store) *listened {
	l := &listened{Store: s}
	s.OnRecords(func(records []state.Record) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.records = append(l.records, records...)
	})
	return l
}

func (l *listened) Records(t *testing.T, name string, n int) []state.Record {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	return firstOf(t, l.records, name, n)
}

func firstOf(t *testing.T, records []state.Record, name string, n int) []state.Record {
	t.Helper()
	var out []state.Record
	for _, r := range records {
		if r.Key.Cluster == name && len(out) < n {
			out = append(out, r)
		}
	}
	if len(out) < n {
		t.Fatalf("%d records, want %d", len(out), n)
	}
	return out
}

func (l *listened) Expire(_ *testing.T, now time.Time) bool {
	l.Store.ExpireRows(now)
	return true
}

// pending is a store whose records are those that it keeps for a consumer, read from the file again
// if reopened is true.
type pending struct {
	*embedded.Store
	path     string
	reopened bool
}

func (p *pending) Records(t *testing.T, name string, n int) []state.Record {
	t.Helper()
	if p.reopened {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p.Store = openStore(t, p.path, "one", "two")
	}
	return firstOf(t, p.PendingRecords("two"), name, n)
}

func (p *pending) Expire(_ *testing.T, now time.Time) bool {
	p.Store.ExpireRows(now)
	return true
}

func TestStreamPassesTheSuite(t *testing.T) {
	t.Run("Ephemeral", func(t *testing.T) {
		porttest.TestStream(t, func(t *testing.T) porttest.StreamState { return listen(openStore(t, "")) })
	})
	t.Run("File", func(t *testing.T) {
		porttest.TestStream(t, func(t *testing.T) porttest.StreamState { return listen(openStore(t, tempPath(t))) })
	})
	for name, reopened := range map[string]bool{"Kept": false, "KeptOverARestart": true} {
		t.Run(name, func(t *testing.T) {
			porttest.TestStream(t, func(t *testing.T) porttest.StreamState {
				path := tempPath(t)
				return &pending{Store: openStore(t, path, "one", "two"), path: path, reopened: reopened}
			})
		})
	}
}
