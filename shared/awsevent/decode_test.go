package awsevent_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixtures are the events of EventBridge and of schedules in the repository's events folder.
func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../events/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("found %d fixtures: %v", len(files), err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if strings.HasSuffix(f, ".state.json") || strings.HasSuffix(f, ".effect.json") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Records        []any
			RequestContext any
		}
		if err := json.Unmarshal(data, &in); err != nil {
			t.Fatal(err)
		}
		if in.Records != nil || in.RequestContext != nil {
			continue // of a queue, the stream or the function URL
		}
		out[strings.TrimSuffix(filepath.Base(f), ".json")] = data
	}
	return out
}

func TestFixturesDecode(t *testing.T) {
	for name, data := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			event, err := awsevent.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if event.Detail == nil {
				t.Fatal("not in the decode table")
			}
			text, err := json.MarshalIndent(struct {
				Kind  string
				Event awsevent.Event
			}{fmt.Sprintf("%T", event.Detail), event}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// edited returns a fixture with the value at a path of keys replaced; nil deletes it.
func edited(t testing.TB, fixture string, value any, path ...string) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(fixtures(t)[fixture], &doc); err != nil {
		t.Fatal(err)
	}
	at := doc
	for _, key := range path[:len(path)-1] {
		at = at[key].(map[string]any)
	}
	if last := path[len(path)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decodeTask(t *testing.T, data []byte) *cluster.ECSTask {
	t.Helper()
	event, err := awsevent.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := event.Detail.(*cluster.ECSTask)
	if !ok {
		t.Fatalf("detail is %T", event.Detail)
	}
	return task
}

func TestTaskStatuses(t *testing.T) {
	for ecs, want := range map[string]cluster.TaskStatus{
		"PROVISIONING": "PENDING", "PENDING": "PENDING", "ACTIVATING": "PENDING", "RUNNING": "RUNNING",
		"DEACTIVATING": "STOPPING", "STOPPING": "STOPPING", "DEPROVISIONING": "STOPPING", "STOPPED": "STOPPED",
	} {
		t.Run(ecs, func(t *testing.T) {
			if got := decodeTask(t, edited(t, "task-state-change", ecs, "detail", "lastStatus")).Last; got != want {
				t.Errorf("Last = %s, want %s", got, want)
			}
		})
	}
}

func TestTaskWithoutSizeNeedsTheSumOfItsContainers(t *testing.T) {
	data := edited(t, "task-state-change", "", "detail", "cpu")
	task := decodeTask(t, data)
	if task.Needs.CPU != 640*cluster.CPUUnit || task.Needs.Memory != 896 {
		t.Errorf("needs %+v", task.Needs)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc["detail"].(map[string]any), "memory")
	data, _ = json.Marshal(doc)
	if task = decodeTask(t, data); task.Needs.Memory != 768+128 {
		t.Errorf("memory %d, want the first container's reservation and the second's limit", task.Needs.Memory)
	}
}

func TestConfiguredSources(t *testing.T) {
	data := edited(t, "task-state-change", "berth.fleet", "source")
	event, err := awsevent.Decode(data)
	if err != nil || event.Detail != nil {
		t.Errorf("unconfigured source: detail %v, error %v", event.Detail, err)
	}
	d := awsevent.Decoder{ECSSources: []string{"aws.ecs", "berth.fleet"}}
	for _, source := range d.ECSSources {
		event, err := d.Decode(edited(t, "task-state-change", source, "source"))
		if _, ok := event.Detail.(*cluster.ECSTask); !ok || err != nil {
			t.Errorf("source %s: detail %T, error %v", source, event.Detail, err)
		}
	}
	event, err = awsevent.Decode(edited(t, "task-state-change", "aws.cloudwatch", "source"))
	if err != nil || event.Detail != nil {
		t.Errorf("a task event of CloudWatch: detail %T, error %v", event.Detail, err)
	}
}

func TestUnknownKindsAreIgnored(t *testing.T) {
	event, err := awsevent.Decode(edited(t, "task-state-change", "ECS Service Action", "detail-type"))
	if err != nil || event.Detail != nil || event.DetailType != "ECS Service Action" {
		t.Errorf("event %+v, error %v", event, err)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	decodeTask(t, edited(t, "task-state-change", map[string]any{"new": 1}, "detail", "somethingNew"))
	decodeTask(t, edited(t, "task-state-change", "x", "another"))
}

func TestMalformedEventIsADropThatNamesTheField(t *testing.T) {
	const task, instance = "task-state-change", "container-instance-state-change"
	for _, c := range []struct {
		fixture string
		value   any
		path    string
		names   string
	}{
		{task, nil, "source", "source"},
		{task, 3, "detail-type", "detail-type"},
		{task, "LOST", "detail.lastStatus", "lastStatus"},
		{task, "MAYBE", "detail.desiredStatus", "desiredStatus"},
		{task, nil, "detail.version", "version"},
		{task, "3", "detail.version", "version"},
		{task, nil, "detail.taskArn", "taskArn"},
		{task, "arn:aws:ecs:r:1:service/a/b", "detail.taskArn", "taskArn"},
		{task, "arn:aws:ecs:r:1:task/prod/a#b", "detail.taskArn", "taskArn"},
		{task, "arn:aws:ecs:r:1:cluster/#", "detail.clusterArn", "clusterArn"},
		{task, "arn:aws:ecs:r:1:cluster/" + strings.Repeat("x", 256), "detail.clusterArn", "clusterArn"},
		{task, "prod", "detail.containerInstanceArn", "containerInstanceArn"},
		{task, "web:17", "detail.taskDefinitionArn", "taskDefinitionArn"},
		{task, "-1", "detail.cpu", "cpu"},
		{task, "1 vCPU", "detail.cpu", "cpu"},
		{task, "9223372036854775807", "detail.memory", "memory"},
		{task, "yesterday", "detail.startedAt", "parsing time"},
		{task, "x", "detail", "cannot unmarshal"},
		{task, nil, "detail", "unexpected end"},
		{instance, "GONE", "detail.status", "status"},
		{instance, 0, "detail.version", "version"},
		{instance, "i-1", "detail.containerInstanceArn", "containerInstanceArn"},
		{instance, []any{map[string]any{"name": "CPU", "integerValue": -1}}, "detail.registeredResources",
			"registeredResources"},
		{instance, []any{map[string]any{"name": "PORTS", "stringSetValue": []string{"99999"}}},
			"detail.registeredResources", "port"},
		{"alarm-state-change", nil, "detail.alarmName", "alarmName"},
		{"alarm-state-change", "BAD", "detail.state.value", "state.value"},
		{"alarm-state-change", "now", "detail.state.timestamp", "state.timestamp"},
		{"instance-launch-lifecycle", nil, "detail.EC2InstanceId", "EC2InstanceId"},
		{"instance-terminate-lifecycle", "x", "detail.LifecycleTransition", "LifecycleTransition"},
		{"instance-launched", nil, "detail.AutoScalingGroupName", "AutoScalingGroupName"},
		{"instance-terminated", nil, "detail.EC2InstanceId", "EC2InstanceId"},
		{"spot-interruption", nil, "detail.instance-id", "instance-id"},
		{"scheduled-event", []string{}, "resources", "resources"},
	} {
		t.Run(c.fixture+" "+c.path, func(t *testing.T) {
			_, err := awsevent.Decode(edited(t, c.fixture, c.value, strings.Split(c.path, ".")...))
			var drop *cluster.Drop
			if !errors.As(err, &drop) {
				t.Fatalf("error %v is no drop", err)
			}
			if !strings.Contains(drop.Reason, c.names) {
				t.Errorf("%q does not name %q", drop.Reason, c.names)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	large := append([]byte(`{"schedule":"`), make([]byte, awsevent.MaxSize)...)
	for name, data := range map[string][]byte{
		"TooLarge": large, "Empty": nil, "Null": []byte("null"), "Array": []byte("[]"), "Cut": []byte(`{"id":`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := awsevent.Decode(data)
			var drop *cluster.Drop
			if !errors.As(err, &drop) {
				t.Errorf("error %v is no drop", err)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the reason has %d bytes", len(err.Error()))
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, data := range fixtures(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		event, err := awsevent.Decode(data)
		var drop *cluster.Drop
		if err != nil && !errors.As(err, &drop) {
			t.Fatalf("error %v is no drop", err)
		}
		switch d := event.Detail.(type) {
		case *cluster.ECSTask:
			if d.ID == "" || d.Cluster == "" || d.Cluster == state.Directory || d.Version < 1 || d.Last == "" ||
				d.Desired == "" || d.Needs.CPU < 0 || d.Needs.Memory < 0 {
				t.Errorf("task %+v", d)
			}
		case *cluster.Instance:
			if d.ID == "" || d.Cluster == "" || d.Version < 1 || d.Status == "" || d.Registered.CPU < 0 {
				t.Errorf("instance %+v", d)
			}
		}
	})
}

// An event of another account or Region is dropped with the reason, whichever kind it is; so is one
// whose ARNs belong to another account than the event says.
func TestForeignEventsAreDropped(t *testing.T) {
	here := awsevent.Decoder{Account: "123456789012", Region: "eu-central-1"}
	elsewhere := map[string]struct{ from, to, reason string }{
		"Account": {`"account": "123456789012"`, `"account": "999999999999"`, "foreign"},
		"Region":  {`"region": "eu-central-1"`, `"region": "us-east-1"`, "foreign"},
		"Nowhere": {`"account": "123456789012",`, ``, "foreign"},
	}
	for name, data := range fixtures(t) {
		if _, err := here.Decode(data); err != nil {
			t.Errorf("%s, of this account and Region: %v", name, err)
		}
		if strings.HasPrefix(name, "schedule") && name != "scheduled-event" {
			continue // the input of a schedule names no account
		}
		for which, c := range elsewhere {
			changed := strings.Replace(string(data), c.from, c.to, 1)
			if changed == string(data) {
				t.Fatalf("%s has no %s", name, c.from)
			}
			dropped(t, name+" of another "+which, here, changed, c.reason)
		}
	}
	instance := string(fixtures(t)["container-instance-state-change"])
	dropped(t, "an instance's ARN of another account", here,
		strings.ReplaceAll(instance, "eu-central-1:123456789012:", "eu-central-1:999999999999:"),
		"not of the event's account")
}

func dropped(t *testing.T, what string, d awsevent.Decoder, event, reason string) {
	t.Helper()
	got, err := d.Decode([]byte(event))
	var drop *cluster.Drop
	if !errors.As(err, &drop) || !strings.Contains(drop.Reason, reason) {
		t.Errorf("%s: got %+v and %v, want it dropped as %q", what, got, err, reason)
	}
}
