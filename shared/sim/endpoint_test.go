package sim_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/wire/shape"
	"berth/tests/servicemodel"
)

// call makes one call of the ECS protocol and returns the answer as a client would read it.
func (w *world) call(op, body string) (status int, answer map[string]any) {
	w.t.Helper()
	status, data := w.ECS.Endpoint().ServeOperation(ctx, op, []byte(body))
	for _, problem := range servicemodel.ForTests(w.t, "../..").CheckOperation(op, []byte(body), status, data) {
		w.t.Errorf("%s %.300s: %s\nanswer: %.500s", op, body, problem, data)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		w.t.Fatalf("%s answered %q: %v", op, data, err)
	}
	return status, answer
}

// dig follows keys and positions into an answer.
func dig(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			list, _ := v.([]any)
			if s >= len(list) {
				return nil
			}
			v = list[s]
		}
	}
	return v
}

func TestEndpointServesAWholeLife(t *testing.T) {
	w := emptyWorld(t, sim.Options{})
	ok := func(op, body string) map[string]any {
		t.Helper()
		status, answer := w.call(op, body)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", op, status, answer)
		}
		return answer
	}
	expect(t, "cluster", dig(ok("CreateCluster", `{"clusterName":"prod","tags":[{"key":"a","value":"b"}]}`), "cluster",
		"status"), any("ACTIVE"))
	registered := ok("RegisterTaskDefinition", `{"family":"web","containerDefinitions":[{"name":"app","image":"nginx","cpu":256,"memory":512,
		"portMappings":[{"containerPort":80,"hostPort":8080}],"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-group":"g"}}}]}`)
	expect(t, "revision", dig(registered, "taskDefinition", "revision"), any(1.0))
	expect(t, "log group", dig(registered, "taskDefinition", "containerDefinitions", 0, "logConfiguration", "options",
		"awslogs-group"), any("g"))
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]

	started := ok("StartTask",
		`{"cluster":"prod","taskDefinition":"web","containerInstances":["`+node+`"],"startedBy":"me","group":"mine"}`)
	expect(t, "status", dig(started, "tasks", 0, "lastStatus"), any("PENDING"))
	expect(t, "group", dig(started, "tasks", 0, "group"), any("mine"))
	arn, _ := dig(started, "tasks", 0, "taskArn").(string)
	w.clock.advance(5 * time.Second)
	described := ok("DescribeTasks", `{"cluster":"prod","tasks":["`+arn+`","none"]}`)
	expect(t, "status", dig(described, "tasks", 0, "lastStatus"), any("RUNNING"))
	expect(t, "host port", dig(described, "tasks", 0, "containers", 0, "networkBindings", 0, "hostPort"), any(8080.0))
	expect(t, "failure", dig(described, "failures", 0, "reason"), any("MISSING"))
	if at, number := dig(described, "tasks", 0, "startedAt").(float64); !number ||
		time.Unix(int64(at), 0).Sub(w.clock.now).Abs() > time.Minute {
		t.Errorf("startedAt is %v", dig(described, "tasks", 0, "startedAt"))
	}
	expect(t, "listed", dig(ok("ListTasks", `{"cluster":"prod","family":"web"}`), "taskArns", 0), any(arn))
	expect(t, "instance", dig(ok("DescribeContainerInstances", `{"cluster":"prod","containerInstances":["`+node+`"]}`),
		"containerInstances", 0, "runningTasksCount"), any(1.0))
	stopping := ok("StopTask", `{"cluster":"prod","task":"`+cluster.LastPart(arn)+`","reason":"done"}`)
	expect(t, "desired", dig(stopping, "task", "desiredStatus"), any("STOPPED"))
	expect(t, "tag", dig(ok("ListTagsForResource", `{"resourceArn":"`+account.ARN("cluster", "prod")+`"}`), "tags", 0,
		"value"), any("b"))
}

func TestEndpointRefusesUnknownOperationsAndBadInput(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	for _, c := range []struct{ name, op, body, code string }{
		{"GroupOfServices", "StartTask",
			`{"cluster":"prod","taskDefinition":"web","containerInstances":["` + node + `"],"group":"service:x"}`,
			"InvalidParameterException"},
		{"UnknownTask", "StopTask", `{"cluster":"prod","task":"x"}`, "InvalidParameterException"},
		{"StartedByWithFamily", "ListTasks", `{"cluster":"prod","startedBy":"x","family":"web"}`,
			"InvalidParameterException"},
		{"UnknownCluster", "ListTasks", `{"cluster":"none"}`, "ClusterNotFoundException"},
		{"UnknownDefinition", "DescribeTaskDefinition", `{"taskDefinition":"none"}`, "ClientException"},
		{"TooManyTasks", "DescribeTasks", `{"cluster":"prod","tasks":[` + strings.TrimSuffix(strings.Repeat(`"x",`,
			101), ",") + `]}`, "InvalidParameterException"},
		{"NotServed", "RunTask", `{"cluster":"prod","taskDefinition":"web"}`, "UnsupportedFeatureException"},
		{"Unknown", "Nonsense", `{}`, "UnknownOperationException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := w.call(c.op, c.body)
			expect(t, "status", status, http.StatusBadRequest)
			if code, _ := answer["__type"].(string); !strings.HasSuffix(code, c.code) {
				t.Errorf("answer %v, want %s", answer, c.code)
			}
		})
	}
}

func TestEndpointAndServiceAnswerTheSame(t *testing.T) {
	w, nodes := mixedWorld(t, 6)
	random := rand.New(rand.NewPCG(6, 6))
	for range 100 {
		w.act(random.IntN, nodes)
		out := must(t, w.ECS.Instances.DescribeContainerInstances,
			&ecs.DescribeContainerInstancesInput{Cluster: new("prod"), ContainerInstances: nodes})
		for _, i := range out.ContainerInstances {
			own := shape.ParseInstance("prod", i)
			if diff := cmp.Diff(w.instance(own.ID), own, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		}
		for _, task := range w.Machines.TaskTruths("prod") {
			own := w.wireTask(task.ID)
			if diff := cmp.Diff(task.ECSTask, own, cmpopts.EquateEmpty(),
				cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
				t.Fatal(diff)
			}
		}
	}
	for _, name := range []string{"web", "edge", "train", "checked", "big"} {
		d, err := w.ECS.DescribeTaskDefinition(ctx, name)
		check(t, err)
		for _, task := range w.Machines.TaskTruths("prod") {
			if task.TaskDefinition == d.Name() {
				expect(t, "needs of "+name, task.Needs, d.Needs)
			}
		}
	}
}

// wireTask is a task as a client of the protocol sees it, with times in seconds since 1970.
func (w *world) wireTask(id string) cluster.ECSTask {
	w.t.Helper()
	_, answer := w.call("DescribeTasks", `{"cluster":"prod","tasks":["`+id+`"]}`)
	described := dig(answer, "tasks", 0).(map[string]any)
	for key, v := range described {
		if seconds, ok := v.(float64); ok && strings.HasSuffix(key, "At") {
			described[key] = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
		}
	}
	data, err := json.Marshal(described)
	check(w.t, err)
	var task types.Task
	check(w.t, json.Unmarshal(data, &task)) // which does not tell ClusterArn from clusterArn
	return shape.ParseTask(task)
}

func TestTaskDefinitionReachesTheSchedulerWithBerthsTags(t *testing.T) {
	w := newWorld(t, sim.Options{})
	edge := container("app", 128, 256)
	edge.PortMappings = []types.PortMapping{{ContainerPort: new(int32(80)), HostPort: new(int32(8080))}}
	edge.HealthCheck = &types.HealthCheck{Command: []string{"CMD", "true"}}
	must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{
		Family: new("edge"), ContainerDefinitions: []types.ContainerDefinition{edge},
		Tags: []types.Tag{{Key: new("berth:cpu-milli"), Value: new("125")},
			{Key: new("berth:gpu-milli"), Value: new("300")}},
	})
	d, err := w.ECS.DescribeTaskDefinition(ctx, "edge")
	check(t, err)
	expect(t, "name", d.Name(), "edge:1")
	expect(t, "needs", d.Needs, cluster.Resources{CPU: 125 * cluster.MilliVCPU, Memory: 256, GPUs: 1, GPUMilli: 300})
	expectAll(t, "ports", d.Ports, cluster.Port{Number: 8080, Protocol: cluster.TCP})
	expect(t, "health-checked", d.HealthChecked, true)
	_, err = w.ECS.DescribeTaskDefinition(ctx, "none")
	wantCode(t, err, cluster.CodeClient)
	// ECS counts whole CPU units and GPUs, and knows nothing of Berth's tags: to ECS the task fits
	// an instance without GPUs.
	started := w.start("edge", w.add(1, ec2.Machine{Type: "m5.large"})...)[0]
	expect(t, "accounted", started.Needs, cluster.Resources{CPU: 128 * cluster.CPUUnit, Memory: 256})
	must(t, w.ECS.Definitions.DeregisterTaskDefinition,
		&ecs.DeregisterTaskDefinitionInput{TaskDefinition: new("edge:1")})
	d, err = w.ECS.DescribeTaskDefinition(ctx, "edge:1")
	check(t, err)
	expect(t, "inactive", d.Inactive, true)
}

// A task definition can be registered as it was described. What no version of ECS has, and what a
// newer one may have, is not dropped.
func TestDescribedDefinitionsRegisterAgain(t *testing.T) {
	w := newWorld(t, sim.Options{})
	const described = `{"family":"again","containerDefinitions":[{"name":"a","image":"b","memory":64}],
		"taskDefinitionArn":"arn","revision":1,"status":"ACTIVE","requiresAttributes":[{"name":"x"}],
		"compatibilities":["EC2"],"registeredAt":1.5,"registeredBy":"me"`
	register := func(body string) (status int, answer string) {
		status, out := w.ECS.Endpoint().ServeOperation(ctx, "RegisterTaskDefinition", []byte(body))
		return status, string(out)
	}
	if status, answer := register(described + "}"); status != 200 || !strings.Contains(answer, "again:1") {
		t.Errorf("%d %s", status, answer)
	}
	for _, body := range []string{described + `,"quantum":1}`,
		strings.Replace(described, `"memory"`, `"quantum":1,"memory"`, 1) + "}"} {
		if status, answer := register(body); status != 400 || !strings.Contains(answer, "UnsupportedFeature") ||
			!strings.Contains(answer, "quantum") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// A token is good for the list that gave it, and for no other.
func TestPageTokensOfOtherListsAreRefused(t *testing.T) {
	w := newWorld(t, sim.Options{})
	must(t, w.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{ClusterName: new("more")})
	_, page := w.call("ListClusters", `{"maxResults":1}`)
	token, _ := page["nextToken"].(string)
	if status, answer := w.call("ListClusters", `{"nextToken":"`+token+`"}`); status != 200 || token == "" ||
		len(answer["clusterArns"].([]any)) != 1 {
		t.Errorf("the second page: %d %v", status, answer)
	}
	for op, body := range map[string]string{
		"ListClusters": `{"nextToken":"garbage"}`, "ListTaskDefinitions": `{"nextToken":"` + token + `"}`,
		"ListTaskDefinitionFamilies": `{"nextToken":"` + token + `"}`,
		"ListContainerInstances":     `{"cluster":"prod","nextToken":"` + token + `"}`,
		"ListTasks":                  `{"cluster":"prod","nextToken":"` + token + `"}`,
		"ListAttributes": `{"cluster":"prod","targetType":"container-instance","nextToken":"` + token +
			`"}`,
	} {
		if status, answer := w.call(op, body); status != 400 || answer["__type"] != "InvalidParameterException" {
			t.Errorf("%s %s: %d %v", op, body, status, answer)
		}
	}
}

// The health of a container instance is there if it is asked for.
func TestHealthOfInstances(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	for include, want := range map[string]any{`[]`: nil, `["TAGS"]`: nil, `["CONTAINER_INSTANCE_HEALTH"]`: "OK"} {
		_, answer := w.call("DescribeContainerInstances", `{"cluster":"prod","containerInstances":["`+id+
			`"],"include":`+include+`}`)
		expect(t, "status with "+include, dig(answer, "containerInstances", 0, "healthStatus", "overallStatus"), want)
	}
}
