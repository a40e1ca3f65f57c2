package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

// shipped returns the wiring of the template that is deployed.
func shipped(t *testing.T, parameters map[string]string) *embedded.Wiring {
	t.Helper()
	text, err := os.ReadFile("../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, err := embedded.LoadTemplate(text, parameters)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestShippedTemplateConnectsEveryFunction(t *testing.T) {
	w := shipped(t, nil)
	equal(t, "functions", slices.Sorted(maps.Keys(w.Functions)),
		[]string{"api", "dispatch", "health-check", "managed-scaling", "node-group-upgrade", "placement",
			"task-state-change", "throttling"})
	reads := map[string]string{}
	for name, f := range w.Functions {
		for _, s := range f.Queues {
			reads[s.Queue] = name
			if q := w.Queues[s.Queue]; q.DeadLetters == "" || !s.Partial {
				t.Errorf("%s reads %s without dead letters or without partial failures", name, s.Queue)
			}
		}
		for _, s := range f.Streams {
			if s.Retries < 0 || s.MaxAge == 0 || s.OnFailure == "" || !s.Partial || !s.Bisect {
				t.Errorf("a bad record would block %s for ever or be lost without a word", name)
			}
			if n := len(s.Filters); n < 1 || n > 5 {
				t.Errorf("%s has %d filters, and 5 are allowed without a raised quota", name, n)
			}
		}
	}
	equal(t, "readers", reads, map[string]string{
		"EventsQueue": "task-state-change", "WakeQueue": "dispatch", "HealthCheckQueue": "health-check",
		"ManagedScalingQueue": "managed-scaling", "ThrottlingQueue": "throttling",
		"NodeGroupUpgradeQueue": "node-group-upgrade",
	})
	equal(t, "managed-scaling's schedule", w.Functions["managed-scaling"].Schedules,
		[]embedded.ScheduleSource{{Every: time.Minute, Schedule: "scaling"}})
	equal(t, "node-group-upgrade's schedule", w.Functions["node-group-upgrade"].Schedules,
		[]embedded.ScheduleSource{{Every: time.Minute, Schedule: "node-groups"}})
	equal(t, "health-check's schedule", w.Functions["health-check"].Schedules,
		[]embedded.ScheduleSource{{Every: time.Minute, Schedule: "health"}})
	equal(t, "dispatch's schedule", w.Functions["dispatch"].Schedules,
		[]embedded.ScheduleSource{{Every: time.Minute, Schedule: "due"}})
	equal(t, "sweep", w.Functions["task-state-change"].Schedules,
		[]embedded.ScheduleSource{{Every: time.Hour, Schedule: "sweep"}})

	short := shipped(t, map[string]string{"BatchSize": "7", "BatchWindow": "0",
		"HealthCheckInterval": "rate(5 minutes)"})
	equal(t, "interval", short.Functions["health-check"].Schedules[0].Every, 5*time.Minute)
	shorter := shipped(t, map[string]string{"HealthCheckInterval": "rate(10 seconds)"})
	equal(t, "interval of berth up", shorter.Functions["health-check"].Schedules[0].Every, 10*time.Second)
	equal(t, "batching", short.Functions["placement"].Streams[0].Batching,
		embedded.Batching{BatchSize: 7, Partial: true})
}

func TestShippedFiltersPassWhatHandlersNeed(t *testing.T) {
	w := shipped(t, nil)
	head := func(stamp int64) cluster.Head { return cluster.Head{Cluster: "c", Rev: 2, Stamp: stamp} }
	task := func(edit func(*cluster.Task)) *cluster.Task {
		row := &cluster.Task{
			Head:           head(0),
			TaskSpec:       cluster.TaskSpec{ID: "t", Owner: "o"},
			TaskAssignment: cluster.TaskAssignment{Instance: "i", Desired: cluster.TaskRunning},
		}
		edit(row)
		return row
	}
	due := &state.Due{Head: head(0), At: epoch, Kind: state.DueOutbox}
	request := &state.Request{Head: head(0), ID: "r"}
	outbox := &state.Outbox{Head: head(0), ID: "o", Stops: []state.StopItem{{ID: "t"}}}
	target := &cluster.Target{Head: head(0), Task: "t", Owner: "o"}
	instance := &cluster.Instance{Head: head(0), ID: "i", Status: cluster.InstanceActive}
	for _, c := range []struct {
		name                string
		op                  state.Op
		row                 state.Row
		placement, dispatch bool
	}{
		{"ServiceCreatedByTheAPI", state.Insert, &cluster.Service{
			Head:            head(4),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
		}, true, false},
		{"ServiceChangedByTheAPI", state.Modify, &cluster.Service{
			Head:            head(4),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
		}, true, false},
		{"ServiceWrittenByPlacement", state.Modify, &cluster.Service{
			Head:            head(0),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
		}, false, false},
		{"ServicePurged", state.Remove, &cluster.Service{
			Head:            head(4),
			ServiceIdentity: cluster.ServiceIdentity{Name: "s"},
		}, false, false},
		{"InstanceNew", state.Insert, instance, true, true},
		{"InstanceChanged", state.Modify, instance, true, false},
		{"InstanceExpired", state.Remove, instance, false, false},
		{"TaskCommitted", state.Insert, task(func(*cluster.Task) {}), false, false},
		{"TaskClaimed", state.Modify, task(func(t *cluster.Task) { t.Attempt = 1 }), false, false},
		{"TaskRunning", state.Modify, task(func(t *cluster.Task) { t.Last = cluster.TaskRunning }), false, false},
		{"TaskForeign", state.Insert, task(func(t *cluster.Task) { t.Last = cluster.TaskPending; t.Stamp = 3 }), false,
			false},
		{"TaskStopped", state.Modify, task(func(t *cluster.Task) {
			t.Last, t.Desired = cluster.TaskStopped,
				cluster.TaskStopped
		}), false, false},
		{"TaskStoppedByAUser", state.Modify, task(func(t *cluster.Task) {
			t.Desired, t.StopCode = cluster.TaskStopped,
				cluster.StopUserInitiated
		}), false, false},
		{"TaskStoppedByPlacement", state.Modify, task(func(t *cluster.Task) {
			t.Desired,
				t.StopCode = cluster.TaskStopped, cluster.StopByScheduler
		}), false, false},
		{"RunningTaskStoppedByPlacement", state.Modify, task(func(t *cluster.Task) {
			t.Desired, t.StopCode, t.Last = cluster.TaskStopped, cluster.StopByScheduler, cluster.TaskRunning
		}), false, false},
		{"TaskExpired", state.Remove, task(func(t *cluster.Task) { t.Last = cluster.TaskStopped }), false, false},
		{"InboxNew", state.Insert, &state.Inbox{Head: head(0), ID: "i"}, true, false},
		{"InboxExpired", state.Remove, &state.Inbox{Head: head(0), ID: "i"}, false, false},
		{"RequestNew", state.Insert, request, true, false},
		{"RequestAnswered", state.Modify, request, false, false},
		{"RequestExpired", state.Remove, request, false, false},
		{"DueSet", state.Insert, due, true, false},
		{"DueMoved", state.Modify, due, false, false},
		{"DueGoneOff", state.Remove, due, true, false},
		{"OutboxNew", state.Insert, outbox, false, true},
		{"OutboxPartlyDone", state.Modify, outbox, false, false},
		{"OutboxDone", state.Remove, outbox, false, false},
		{"ProviderToBeChecked", state.Insert, &cluster.CapacityProvider{Name: "p", CheckPending: true}, false, true},
		{"ProviderToBeDeleted", state.Modify,
			&cluster.CapacityProvider{Name: "p", UpdateStatus: cluster.ProviderDeleting}, false, true},
		{"ProviderChecked", state.Modify,
			&cluster.CapacityProvider{Name: "p", UpdateStatus: cluster.ProviderCreated}, false, false},
		{"ProvidersToBeAttached", state.Modify,
			&cluster.ClusterProviders{Head: head(0), Status: cluster.AttachmentsInProgress}, false, true},
		{"ProvidersAttached", state.Modify,
			&cluster.ClusterProviders{Head: head(0), Status: cluster.AttachmentsComplete}, false, false},
		{"ProvidersOfADeletedCluster", state.Remove,
			&cluster.ClusterProviders{Head: head(0), Status: cluster.AttachmentsComplete}, false, true},
		{"TargetWantedByPlacement", state.Insert, target, false, false},
		{"TargetRegistered", state.Modify, target, true, false},
		{"TargetGone", state.Remove, target, true, false},
		{"Throttle", state.Insert, &cluster.Throttle{Head: head(0), Owner: "o"}, true, false},
		{"ThrottleExpired", state.Remove, &cluster.Throttle{Head: head(0), Owner: "o"}, true, false},
		{"AlarmWatch", state.Insert, &cluster.AlarmWatch{Head: head(0), Owner: "o"}, true, false},
		{"Protection", state.Insert, &cluster.Protection{Head: head(0), Owner: "o", Task: "t"}, true, false},
		{"Meta", state.Modify, &state.Meta{Head: head(4)}, false, false},
		{"Checkpoint", state.Modify, &state.Checkpoint{Head: head(0)}, false, false},
		{"Alias", state.Insert, &state.Alias{Head: head(0), Derived: "d"}, false, false},
		{"TaskDefinition", state.Insert, &cluster.TaskDefinition{Head: head(0), Family: "f"}, false, false},
		{"ServiceEvent", state.Insert, &cluster.ServiceEvent{Head: head(0), Service: "s"}, false, false},
		{"Entry", state.Insert, &state.Entry{Head: head(0), Name: "c"}, false, false},
		{"Bucket", state.Modify, &state.Bucket{Head: head(0), Name: "b"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := state.Record{Sequence: "1", Op: c.op, Key: state.KeyOf(c.row), Old: c.row, New: c.row}
			switch c.op {
			case state.Insert:
				r.Old = nil
			case state.Remove:
				r.New = nil
			}
			equal(t, "wakes placement", w.Functions["placement"].Streams[0].PassesFilters(&r), c.placement)
			equal(t, "wakes dispatch", w.Functions["dispatch"].Streams[0].PassesFilters(&r), c.dispatch)
		})
	}
}

func TestShippedRulesSendWhatHandlersNeed(t *testing.T) {
	type fields = map[string]any
	for _, c := range []struct {
		name, file string
		detail     fields
		want       int // messages
	}{
		{"TaskRunning", "task-state-change", nil, 1},
		{"TaskRunningToBeStopped", "task-state-change", fields{"desiredStatus": "STOPPED"}, 0},
		{"TaskPending", "task-state-change", fields{"lastStatus": "PENDING"}, 0},
		{"TaskProvisioning", "task-state-change", fields{"lastStatus": "PROVISIONING"}, 0},
		{"TaskActivating", "task-state-change", fields{"lastStatus": "ACTIVATING"}, 0},
		{"TaskDeprovisioning", "task-stopped", fields{"lastStatus": "DEPROVISIONING"}, 0},
		{"TaskStopped", "task-stopped", nil, 1},
		{"ForeignTaskPending", "task-state-change", fields{"lastStatus": "PENDING", "startedBy": "ecs-svc/123"}, 1},
		{"ForeignTaskPendingWithoutStartedBy", "task-state-change", fields{"lastStatus": "PENDING", "startedBy": nil},
			1},
		{"ForeignTaskRunning", "task-state-change", fields{"startedBy": nil}, 1},
		{"FargateTask", "task-stopped", fields{"containerInstanceArn": nil}, 0},
		{"InstanceBusy", "container-instance-state-change", nil, 0},
		{"InstanceIdle", "container-instance-state-change", fields{"runningTasksCount": 0}, 1},
		{"InstanceStartingItsFirstTask", "container-instance-state-change",
			fields{"runningTasksCount": 0, "pendingTasksCount": 1}, 0},
		{"InstanceDisconnected", "container-instance-state-change", fields{"agentConnected": false}, 1},
		{"IdleInstanceDisconnected", "container-instance-state-change",
			fields{"agentConnected": false, "runningTasksCount": 0}, 1},
		{"InstanceDraining", "container-instance-state-change", fields{"status": "DRAINING"}, 1},
		{"InstanceInactive", "container-instance-state-change",
			fields{"status": "INACTIVE", "agentConnected": false, "runningTasksCount": 0}, 1},
		{"FailedStart", "task-stopped", fields{"startedAt": nil, "startedBy": "berth/0123456789ab/1-0"}, 2},
		{"FailedStartOfSomebodyElse", "task-stopped", fields{"startedAt": nil, "startedBy": "ecs-svc/123"}, 1},
		{"AlarmFires", "alarm-state-change", fields{"state": fields{"value": "ALARM"}}, 1},
		{"AlarmOfManagedScaling", "alarm-state-change",
			fields{"alarmName": "berth-managed-scaling-1-low", "state": fields{"value": "ALARM"}}, 2},
		{"InstanceWaitsToTerminate", "instance-terminate-lifecycle", nil, 1},
		{"InstanceInService", "instance-launched", nil, 1},
		{"InstanceTerminated", "instance-terminated", nil, 1},
		{"AlarmIsOver", "alarm-state-change", fields{"state": fields{"value": "OK"}}, 0},
		{"Spot", "spot-interruption", nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "messages", sent(t, nil, edited(t, c.file, "", c.detail)), c.want)
		})
	}
	t.Run("NothingOfOtherAccountsAndRegions", func(t *testing.T) {
		failed := edited(t, "task-stopped", "", fields{"startedAt": nil, "startedBy": "berth/0123456789ab/1-0"})
		for _, event := range [][]byte{
			failed, edited(t, "container-instance-state-change", "", fields{"status": "DRAINING"}),
			edited(t, "alarm-state-change", "", fields{"alarmName": "berth-managed-scaling-1-low",
				"state": fields{"value": "ALARM"}}),
			edited(t, "instance-terminate-lifecycle", "", nil), edited(t, "spot-interruption", "", nil),
			edited(t, "instance-launched", "", nil), edited(t, "instance-terminated", "", nil),
		} {
			equal(t, "in another account", sentIn(t, "999999999999", "eu-central-1", nil, event), 0)
			equal(t, "in another Region", sentIn(t, "123456789012", "us-east-1", nil, event), 0)
		}
	})
	t.Run("LoadsOnlyOnTheirOwnBus", func(t *testing.T) {
		equal(t, "on the default bus", sent(t, nil, edited(t, "task-load-report", "", nil)), 0)
	})
	t.Run("SourcesAreAParameter", func(t *testing.T) {
		fleet := edited(t, "task-stopped", "berth.fleet", nil)
		equal(t, "by default", sent(t, nil, fleet), 0)
		equal(t, "named", sent(t, map[string]string{"EventSources": "aws.ecs,berth.fleet"}, fleet), 1)
		alarm := edited(t, "alarm-state-change", "berth.fleet", fields{"state": fields{"value": "ALARM"}})
		equal(t, "alarms by default", sent(t, nil, alarm), 0)
		equal(t, "alarms named", sent(t, map[string]string{"AlarmSources": "aws.cloudwatch,berth.fleet"}, alarm), 1)
		ending := edited(t, "instance-terminate-lifecycle", "berth.fleet", nil)
		equal(t, "terminations by default", sent(t, nil, ending), 0)
		equal(t, "terminations named", sent(t, map[string]string{"ScalingSources": "aws.autoscaling,berth.fleet"},
			ending), 1)
	})
}

// edited returns one of the example events with another source and other details. A nil detail is
// left out.
func edited(t *testing.T, file, source string, detail map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile("../../events/" + file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	if source != "" {
		e["source"] = source
	}
	for name, v := range detail {
		e["detail"].(map[string]any)[name] = v
		if v == nil {
			delete(e["detail"].(map[string]any), name)
		}
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(e); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sent returns how many messages the shipped rules send for an event on the default bus, in the
// account and Region of the example events.
func sent(t *testing.T, parameters map[string]string, event []byte) int {
	t.Helper()
	return sentIn(t, "123456789012", "eu-central-1", parameters, event)
}

func sentIn(t *testing.T, account, region string, parameters map[string]string, event []byte) int {
	t.Helper()
	given := map[string]string{"AWS::AccountId": account, "AWS::Region": region}
	maps.Copy(given, parameters)
	none := func(string) embedded.Function {
		return embedded.Function{Messages: func(context.Context, []state.Message) []string { return nil }}
	}
	loop := embedded.NewVirtualLoop(epoch)
	r, err := embedded.NewRuntime(loop, shipped(t, given), embedded.RuntimeOptions{
		Stream: &memoryStream{}, Functions: map[string]func(string) embedded.Function{
			"placement": none, "dispatch": none, "task-state-change": none, "health-check": none,
			"managed-scaling": none, "node-group-upgrade": none, "throttling": none,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	if err := r.PutEvent(event); err != nil {
		t.Fatal(err)
	}
	loop.RunUntil(epoch.Add(5 * time.Second))
	c := r.Counters()
	n := c.Functions["task-state-change"].Messages["EventsQueue"] + c.Functions["throttling"].Messages["ThrottlingQueue"] +
		c.Functions["health-check"].Messages["HealthCheckQueue"] + c.Functions["managed-scaling"].Messages["ManagedScalingQueue"] +
		c.Functions["node-group-upgrade"].Messages["NodeGroupUpgradeQueue"]
	if n != c.Events.Sent {
		t.Errorf("%d sent, %d delivered", c.Events.Sent, n)
	}
	return c.Events.Sent
}

// TestShippedTemplateNeedsNoOtherTool refuses what CloudFormation accepts only after another tool
// has rewritten it.
func TestShippedTemplateNeedsNoOtherTool(t *testing.T) {
	for _, file := range []string{"template.yaml", "infra/alarms.yaml"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if _, value, ok := strings.Cut(line, ": "); ok &&
				(strings.HasPrefix(value, "&") || strings.HasPrefix(value, "*")) {
				t.Errorf("%s:%d: anchors and aliases are refused", file, n+1)
			}
		}
	}
}
