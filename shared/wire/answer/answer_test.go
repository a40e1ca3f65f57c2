package answer_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/operation"
	"berth/shared/wire/answer"
)

// edited returns the answer after edit, and fails if a second edit changes anything.
func edited(t *testing.T, body string, edit func(answer.Object)) string {
	t.Helper()
	once := func(body []byte) []byte {
		out, err := answer.Edit(body, func(o answer.Object) error { edit(o); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := once([]byte(body))
	if again := once(first); string(again) != string(first) {
		t.Errorf("edited again: %s, before %s", again, first)
	}
	return string(first)
}

// sameJSON compares two JSON texts by what they say.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestDefinition(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"Least": {
			`{"family":"f","registeredAt":1795370401.123,"containerDefinitions":[{"name":"a","image":"i"}],"unknown":{"n":1}}`,
			`{"family":"f","registeredAt":1795370401.123,"unknown":{"n":1},"volumes":[],"placementConstraints":[],
			"requiresAttributes":[],"compatibilities":["EXTERNAL","EC2"],"containerDefinitions":[{"name":"a","image":"i",
			"cpu":0,"essential":true,"environment":[],"mountPoints":[],"portMappings":[],"systemControls":[],
			"volumesFrom":[]}]}`,
		},
		"KeepsWhatECSSent": {
			`{"volumes":[{"name":"v","dockerVolumeConfiguration":{}},{"name":"w"}],"placementConstraints":[{"type":"memberOf"}],
			"requiresAttributes":[{"name":"x"}],"compatibilities":["EC2"],"containerDefinitions":[{"cpu":10,"essential":false,
			"environment":[{"name":"A","value":"1"}],"mountPoints":[],"systemControls":[],"volumesFrom":[],
			"portMappings":[{"containerPort":80,"hostPort":8080,"protocol":"udp"},{"containerPort":81},
			{"containerPortRange":"90-99"}]}]}`,
			`{"volumes":[{"name":"v","dockerVolumeConfiguration":{}},{"name":"w","host":{}}],
			"placementConstraints":[{"type":"memberOf"}],
			"requiresAttributes":[{"name":"x"}],"compatibilities":["EC2"],"containerDefinitions":[{"cpu":10,"essential":false,
			"environment":[{"name":"A","value":"1"}],"mountPoints":[],"systemControls":[],"volumesFrom":[],
			"portMappings":[{"containerPort":80,"hostPort":8080,"protocol":"udp"},
			{"containerPort":81,"hostPort":0,"protocol":"tcp"},{"containerPortRange":"90-99","protocol":"tcp"}]}]}`,
		},
		"PortsOfATaskWithItsOwnAddress": {
			`{"networkMode":"awsvpc","requiresCompatibilities":["FARGATE"],"volumes":[{"name":"e","efsVolumeConfiguration":{"fileSystemId":"fs-1"}}],
			"containerDefinitions":[{"portMappings":[{"containerPort":80}]}]}`,
			`{"networkMode":"awsvpc","requiresCompatibilities":["FARGATE"],"compatibilities":["EC2","FARGATE"],
			"volumes":[{"name":"e","efsVolumeConfiguration":{"fileSystemId":"fs-1","rootDirectory":"/"}}],"placementConstraints":[],
			"requiresAttributes":[],"containerDefinitions":[{"cpu":0,"essential":true,"environment":[],"mountPoints":[],
			"systemControls":[],"volumesFrom":[],"portMappings":[{"containerPort":80,"hostPort":80,"protocol":"tcp"}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) { sameJSON(t, edited(t, c.body, answer.Definition), c.want) })
	}
}

func TestCluster(t *testing.T) {
	counts := operation.ClusterCounts{
		EC2:      operation.LaunchTypeCounts{Running: 5, Pending: 2, ActiveServices: 2, DrainingServices: 1},
		External: operation.LaunchTypeCounts{Running: 1, ActiveServices: 1},
	}
	attached := answer.Object{"capacityProviders": []any{"spot"}, "attachments": []any{},
		"attachmentsStatus": "UPDATE_COMPLETE"}
	const ecs = `{"clusterName":"c","status":"ACTIVE","runningTasksCount":4,"registeredContainerInstancesCount":3,"configuration":{}}`
	t.Run("ListsAreEmptyUnlessAskedFor", func(t *testing.T) {
		view := &answer.ClusterView{Counts: counts, Attached: attached}
		sameJSON(t, edited(t, ecs, func(o answer.Object) { answer.Cluster(o, view) }),
			`{"clusterName":"c","status":"ACTIVE","runningTasksCount":6,"pendingTasksCount":2,"activeServicesCount":3,
			"registeredContainerInstancesCount":3,"configuration":{},"statistics":[],"settings":[],"tags":[],
			"capacityProviders":["spot"],"defaultCapacityProviderStrategy":[]}`)
	})
	t.Run("Everything", func(t *testing.T) {
		view := &answer.ClusterView{Counts: counts, Attached: attached,
			Include: []string{"SETTINGS", "STATISTICS", "TAGS", "ATTACHMENTS"}}
		sameJSON(t, edited(t, ecs, func(o answer.Object) { answer.Cluster(o, view); delete(o, "statistics") }),
			`{"clusterName":"c","status":"ACTIVE","runningTasksCount":6,"pendingTasksCount":2,"activeServicesCount":3,
			"registeredContainerInstancesCount":3,"configuration":{},"tags":[],
			"settings":[{"name":"containerInsights","value":"disabled"}],
			"capacityProviders":["spot"],"defaultCapacityProviderStrategy":[],"attachments":[],"attachmentsStatus":"UPDATE_COMPLETE"}`)
		o := answer.Object{}
		answer.Cluster(o, view)
		got := map[string]string{}
		for _, s := range o.Objects("statistics") {
			if s.Text("value") != "0" {
				got[s.Text("name")] = s.Text("value")
			}
		}
		want := map[string]string{"runningEC2TasksCount": "5", "pendingEC2TasksCount": "2",
			"runningExternalTasksCount": "1",
			"activeEC2ServiceCount":     "2", "drainingEC2ServiceCount": "1", "activeExternalServiceCount": "1"}
		if d := cmp.Diff(want, got); d != "" || len(o.Objects("statistics")) != 16 {
			t.Errorf("%d statistics (-want +got)\n%s", len(o.Objects("statistics")), d)
		}
	})
}

func TestEditRefusesWhatIsNoObject(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "{"} {
		if out, err := answer.Edit([]byte(body), func(answer.Object) error { return nil }); err == nil {
			t.Errorf("%q became %s", body, out)
		}
	}
}
