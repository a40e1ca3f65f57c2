//go:build unix

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Ages are counted by the asked Berth's clock, which may run faster than this machine's or show
// another time.
func TestAgesByTheSchedulersClock(t *testing.T) {
	created := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	web := fakeService("web", created)
	fake := &fakeBerth{now: created.Add(45 * time.Second), rows: []state.Row{web,
		&cluster.Task{Head: web.Head, TaskSpec: cluster.TaskSpec{ID: "t-1", Service: "web", Owner: web.Short,
			CreatedAt: cluster.At(created)}},
	}}
	fake.answer = func(w http.ResponseWriter, operation string) bool {
		if operation != "DescribeServices" {
			return false
		}
		_, _ = fmt.Fprintf(w, `{"services": [{"serviceName": "web", "events": [
			{"id": "e-1", "createdAt": %d, "message": "(service web) was made"}]}]}`, created.Unix())
		return true
	}
	endpoint := fake.serve(t)
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
		code, out, errs := berth(append(strings.Fields(c.args), "--endpoint", endpoint)...)
		if code != 0 || errs != "" || strings.Contains(out, c.text) != c.want {
			t.Errorf("berth %s: exit code %d, %q, %q", c.args, code, out, errs)
		}
	}
}
