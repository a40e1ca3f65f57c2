//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// Four tasks run on one of two instances because the other one was drained. The command has Berth
// move two of them, and ends when no move is left. Asked again, there is nothing to do.
func TestRebalanceApply(t *testing.T) {
	endpoint := berthUp(t, "--nodes", "2", "--speed", "60")
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	listed, err := api.ListContainerInstances(t.Context(), &ecs.ListContainerInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	setStatus := func(status types.ContainerInstanceStatus) {
		t.Helper()
		if _, err := api.UpdateContainerInstancesState(t.Context(), &ecs.UpdateContainerInstancesStateInput{
			ContainerInstances: listed.ContainerInstanceArns[:1], Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	setStatus(types.ContainerInstanceStatusDraining)
	_, err = api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String("web"),
		TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(4),
		AvailabilityZoneRebalancing: types.AvailabilityZoneRebalancingDisabled})
	if err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, api, "web", 4)
	setStatus(types.ContainerInstanceStatusActive)
	awaitMoves(t, endpoint, 2)

	args := []string{"rebalance", "--apply", "--every", "50ms", "--json", "--endpoint", endpoint}
	code, out, errs := berth(args...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var plan struct{ Moves []any }
	var last balancingState
	if err := json.Unmarshal([]byte(lines[0]), &plan); code != 0 || err != nil || len(plan.Moves) != 2 {
		t.Fatalf("exit code %d, %v: %s%s, want 2 moves", code, err, out, errs)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last != (balancingState{}) {
		t.Errorf("%v: the last line is %s, want no task moving, no move left and distance 0", err,
			lines[len(lines)-1])
	}
	for _, line := range lines[1:] {
		if !strings.Contains(line, `"unsteadyCount":`) || strings.Contains(line, "unsteadyServices") {
			t.Errorf("a line after the plan is %s, want the number of services as unsteadyCount", line)
		}
	}
	tasks, err := api.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Tasks: taskARNs(t, api)})
	if err != nil {
		t.Fatal(err)
	}
	here := 0
	for _, task := range tasks.Tasks {
		if slices.Contains(listed.ContainerInstanceArns[:1], *task.ContainerInstanceArn) {
			here++
		}
	}
	if len(tasks.Tasks) != 4 || here != 2 {
		t.Errorf("%d of %d tasks run on the instance that was drained, want 2 of 4", here, len(tasks.Tasks))
	}
	if code, out, errs := berth("rebalance", "--apply", "--endpoint", endpoint); code != 0 || errs != "" ||
		!strings.HasSuffix(out, "No moves are worth it.\n") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// Lines for people have the time of the scheduler's clock, in UTC.
func TestBalancingTellsTheSchedulersTime(t *testing.T) {
	var out bytes.Buffer
	b := &balancing{command: &rebalanceCommand{}, streams: &streams{out: &out},
		at:   time.Date(2026, 11, 21, 14, 0, 1, 0, time.FixedZone("CET", 3600)),
		last: balancingState{Moving: 1, Left: 2}}
	if err := b.printState(); err != nil || out.String() != "13:00:01  1 task moving, 2 moves left, distance 0.0000\n" {
		t.Errorf("it prints %q, %v", out.String(), err)
	}
}

// awaitMoves waits until so many moves would balance the cluster: until the service is steady.
func awaitMoves(t *testing.T, endpoint string, n int) {
	t.Helper()
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for {
		code, out, errs := berth("rebalance", "--dry-run", "--json", "--endpoint", endpoint)
		var plan struct{ Moves []any }
		if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
		}
		if len(plan.Moves) == n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d moves are planned, want %d", len(plan.Moves), n)
		case <-pause.C:
		}
	}
}
