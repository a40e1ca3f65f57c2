//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// Ages are counted by the asked Berth's clock, which may run faster than this machine's or show
// another time.
func TestAgesByTheSchedulersClock(t *testing.T) {
	created := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := created.Add(45 * time.Second)
	head := cluster.Head{Cluster: "default", Rev: 1}
	rows := []state.Row{
		&cluster.Service{Head: head, ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "s-1", CreatedAt: created},
			ServiceSpec:   cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 1},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive}},
		&cluster.Task{Head: head, TaskSpec: cluster.TaskSpec{ID: "t-1", Service: "web", Owner: "s-1",
			CreatedAt: cluster.At(created)}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch target := r.Header.Get("X-Amz-Target"); {
		case strings.HasSuffix(target, ".ListClusterRows"):
			out := berthapi.RowsOutput{At: now}
			for _, row := range rows {
				data, err := state.EncodeRow(row)
				if err != nil {
					t.Error(err)
				}
				out.Rows = append(out.Rows, berthapi.Row{Sort: state.KeyOf(row).Sort, Row: data})
			}
			_ = json.NewEncoder(w).Encode(out)
		case strings.HasSuffix(target, ".DescribeCapacity"):
			_ = json.NewEncoder(w).Encode(berthapi.CapacityOutput{At: now})
		case strings.HasSuffix(target, ".DescribeServices"):
			_, _ = fmt.Fprintf(w, `{"services": [{"serviceName": "web", "events": [
				{"id": "e-1", "createdAt": %d, "message": "(service web) was made"}]}]}`, created.Unix())
		default:
			t.Errorf("unexpected call of %s", target)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		args string
		want bool
		text string
	}{
		{"service", true, " 45s\n"},
		{"task", true, " 45s\n"},
		{"events --service web --since 1m", true, "(service web) was made"},
		{"events --service web --since 30s", false, "(service web) was made"},
	} {
		code, out, errs := berth(append(strings.Fields(c.args), "--endpoint", server.URL)...)
		if code != 0 || errs != "" || strings.Contains(out, c.text) != c.want {
			t.Errorf("berth %s: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
}
