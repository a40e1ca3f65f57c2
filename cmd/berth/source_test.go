//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// An ARN of another cluster is refused, in the API's words: the same name may exist here too.
func TestARNsOfAnotherClusterAreRefused(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	web := fakeService("web", now)
	endpoint := (&fakeBerth{now: now, rows: []state.Row{web,
		&cluster.Task{Head: web.Head, TaskSpec: cluster.TaskSpec{ID: "t-1", Service: "web", Owner: web.Short,
			CreatedAt: cluster.At(now)}},
		&cluster.Instance{Head: web.Head, ID: "node-1", Status: cluster.InstanceActive, AgentConnected: true},
	}}).serve(t)
	for _, args := range []string{
		"explain service arn:aws:ecs:us-east-1:123456789012:service/CLUSTER/web",
		"explain task arn:aws:ecs:us-east-1:123456789012:task/CLUSTER/t-1",
		"explain instance arn:aws:ecs:us-east-1:123456789012:container-instance/CLUSTER/node-1",
		"service arn:aws:ecs:us-east-1:123456789012:service/CLUSTER/web",
		"task arn:aws:ecs:us-east-1:123456789012:task/CLUSTER/t-1",
		"task --service arn:aws:ecs:us-east-1:123456789012:service/CLUSTER/web",
		"task --instance arn:aws:ecs:us-east-1:123456789012:container-instance/CLUSTER/node-1",
		"instance arn:aws:ecs:us-east-1:123456789012:container-instance/CLUSTER/node-1",
		"whatif --cpu 1 --instance arn:aws:ecs:us-east-1:123456789012:container-instance/CLUSTER/node-1",
	} {
		ask := func(clusterName string) (code int, stdout, stderr string) {
			fields := strings.Fields(strings.ReplaceAll(args, "CLUSTER", clusterName))
			return berth(append(fields, "--endpoint", endpoint)...)
		}
		code, out, errs := ask("prod")
		if code != 1 || out != "" ||
			!strings.Contains(errs, "Invalid identifier: Identifier is for prod. Your cluster is default") {
			t.Errorf("berth %s of prod: exit code %d, %q, %q", args, code, out, errs)
		}
		if _, _, errs = ask("default"); strings.Contains(errs, "Identifier") {
			t.Errorf("berth %s of default: %s", args, errs)
		}
	}
}
