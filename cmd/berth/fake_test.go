//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// fakeBerth answers the calls of commands that read, from rows that a test gives it.
type fakeBerth struct {
	rows []state.Row
	// now is the scheduler's clock.
	now time.Time
	// answer, if it is not nil, may answer a call itself: then it returns true.
	answer func(w http.ResponseWriter, operation string) bool
	mu     sync.Mutex
}

// serve returns where it answers.
func (f *fakeBerth) serve(t *testing.T) (endpoint string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		target := r.Header.Get("X-Amz-Target")
		operation := target[strings.LastIndexByte(target, '.')+1:]
		if f.answer != nil && f.answer(w, operation) {
			return
		}
		switch operation {
		case "ListClusterRows":
			out := berthapi.RowsOutput{At: f.now}
			for _, row := range f.rows {
				data, err := state.EncodeRow(row)
				if err != nil {
					t.Error(err)
				}
				out.Rows = append(out.Rows, berthapi.Row{Sort: state.KeyOf(row).Sort, Row: data})
			}
			_ = json.NewEncoder(w).Encode(out)
		case "DescribeCapacity":
			_ = json.NewEncoder(w).Encode(berthapi.CapacityOutput{At: f.now})
		default:
			t.Errorf("unexpected call of %s", target)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// change lets a test change what is answered while a command asks.
func (f *fakeBerth) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// fakeService returns the row of a service of cluster default that wants one task.
func fakeService(name string, created time.Time) *cluster.Service {
	return &cluster.Service{Head: cluster.Head{Cluster: "default", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: "s-" + name, CreatedAt: created},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 1},
		ServiceStatus:   cluster.ServiceStatus{Status: cluster.ServiceActive}}
}
