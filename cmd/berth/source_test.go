//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
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

// A saved cluster is the one that it was, at the time of its scheduler, however it is asked about. A
// file of an earlier version has only rows.
func TestSavedClusterKnowsItsNameAndTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	web := fakeService("web", now.Add(-time.Minute))
	web.Blocked = &cluster.Diagnosis{Unplaced: 1}
	endpoint := (&fakeBerth{now: now, rows: []state.Row{web}}).serve(t)
	file := filepath.Join(t.TempDir(), "prod.rows")
	if code, _, errs := berth("whatif", "--save", file, "--cluster", "prod", "--endpoint", endpoint); code != 0 {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	var report problem.Report
	read := func() {
		t.Helper()
		_, out, errs := berth("status", "--snapshot", file, "--json")
		report = problem.Report{}
		if err := json.Unmarshal([]byte(out), &report); err != nil || errs != "" {
			t.Fatalf("%q, %s: %v", out, errs, err)
		}
	}
	if read(); report.Cluster != "prod" || !report.At.Equal(now) {
		t.Errorf("it is about cluster %s at %s", report.Cluster, report.At)
	}
	if code, _, errs := berth("explain", "service", "arn:aws:ecs:us-east-1:123456789012:service/default/web",
		"--snapshot", file); code != 1 || !strings.Contains(errs, "Your cluster is prod") {
		t.Errorf("an ARN of another cluster: exit code %d, %s", code, errs)
	}
	code, out, errs := berth("status", "--cluster", "other", "--snapshot", file)
	if code != 1 || out != "" || !strings.Contains(errs, `--cluster is "other", but `+file+" has cluster prod") {
		t.Errorf("status of another cluster: exit code %d, %q, %q", code, out, errs)
	}
	if code, _, errs := berth("status", "--cluster", "prod", "--snapshot", file, "--json"); errs != "" {
		t.Errorf("status of the same cluster: exit code %d, %q", code, errs)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(saved), "\n")
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, now, now); err != nil {
		t.Fatal(err)
	}
	if read(); report.Cluster != "default" || !report.At.Equal(now) || report.Services != 1 {
		t.Errorf("without its first line, it is about cluster %s at %s", report.Cluster, report.At)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := berth("status", "--snapshot", file); code != 1 || out != "" ||
		!strings.Contains(errs, file+": it has 0 of 1 rows") {
		t.Errorf("an empty file: exit code %d, %q, %s", code, out, errs)
	}
}
