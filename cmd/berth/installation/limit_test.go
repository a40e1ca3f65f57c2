package installation_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/cmd/berth/installation"
	"berth/shared/state"
)

// heldLists are rows whose lists wait, once holds is set, until release is closed.
type heldLists struct {
	state.Store
	holds   *atomic.Bool
	release chan struct{}
}

func (s *heldLists) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if s.holds.Load() {
		<-s.release
	}
	return s.Store.List(ctx, r)
}

// An installation answers 32 reads at once. One more waits for two seconds, and is throttled then.
func TestReadsOfAnInstallationAreLimited(t *testing.T) {
	held := &heldLists{holds: &atomic.Bool{}, release: make(chan struct{})}
	i, end := runFolder(t, installation.Options{
		WrapState: func(function string, s state.Store) state.Store {
			if function != "api" {
				return s
			}
			return &heldLists{Store: s, holds: held.holds, release: held.release}
		},
	})
	defer end()
	held.holds.Store(true)
	const calls = 33
	var ended sync.WaitGroup
	refused := make(chan string, calls)
	for range calls {
		ended.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(`{"cluster":"home"}`))
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListTasks")
			answer := httptest.NewRecorder()
			i.Server.ServeHTTP(answer, r)
			if answer.Code != http.StatusOK {
				refused <- answer.Body.String()
			}
		})
	}
	if answer := <-refused; !strings.Contains(answer, "ThrottlingException") {
		t.Errorf("the call beyond the limit got %s", answer)
	}
	close(held.release)
	ended.Wait()
	if n := len(refused); n > 0 {
		t.Errorf("%d calls within the limit were refused: %s", n, <-refused)
	}
}
