package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/wire/access"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/tests/cloud"
	"berth/tests/lambda"
)

// A visit is an operation that succeeds for those who have the right to it. In the body, {instance}
// stands for a container instance, {task} for a task and {deployment} for a service deployment, as
// they are when the operation is called.
type visit struct {
	operation string
	path      string // of the EKS API; else it is the ECS API's or Berth's own
	body      string
	subject   string // what the log names, if the operation changes something
	// refusal is the code of the answer to those who have the right, if the operation never
	// succeeds.
	refusal string
	// prepare runs before, until it returns true; nil is nothing to prepare.
	prepare func(*walk) bool
}

// A walk calls every operation as everyone, on the deployed api function.
type walk struct {
	*capacityScenario
	local *local
	ids   map[string]string
	users map[cloud.Caller]aws.Credentials
}

const secret = "hunter2"

var callers = []cloud.Caller{cloud.Stranger, cloud.Reader, cloud.Writer, cloud.Manager}

// visits are all operations, in an order in which each succeeds: the cluster is made first and
// deleted last.
var visits = []visit{
	{operation: "CreateCluster", body: `{"clusterName":"walk"}`, subject: "walk"},
	{operation: "RegisterTaskDefinition", subject: "walk-web", body: `{"family":"walk-web","containerDefinitions":[
		{"name":"web","image":"busybox","cpu":64,"memory":64,"environment":[{"name":"PASSWORD","value":"` + secret + `"}]}]}`},
	{operation: "RegisterContainerInstance", body: `{"cluster":"walk","totalResources":[
		{"name":"CPU","type":"INTEGER","integerValue":2048},{"name":"MEMORY","type":"INTEGER","integerValue":4096}]}`,
		subject: "walk"},
	{operation: "ListClusters", body: `{}`},
	{operation: "DescribeClusters", body: `{"clusters":["walk"]}`},
	{operation: "UpdateCluster",
		body:    `{"cluster":"walk","settings":[{"name":"containerInsights","value":"disabled"}]}`,
		subject: "walk"},
	{operation: "UpdateClusterSettings", subject: "walk",
		body: `{"cluster":"walk","settings":[{"name":"containerInsights","value":"disabled"}]}`},
	{operation: "PutAccountSetting", body: `{"name":"containerInsights","value":"disabled"}`,
		subject: "containerInsights"},
	{operation: "PutAccountSettingDefault", body: `{"name":"containerInsights","value":"disabled"}`,
		subject: "containerInsights"},
	{operation: "ListAccountSettings", body: `{}`},
	{operation: "DeleteAccountSetting", body: `{"name":"containerInsights"}`, subject: "containerInsights"},
	{operation: "ListContainerInstances", body: `{"cluster":"walk"}`, prepare: (*walk).hasInstance},
	{operation: "DescribeContainerInstances", body: `{"cluster":"walk","containerInstances":["{instance}"]}`},
	{operation: "DiscoverPollEndpoint", body: `{"cluster":"walk","containerInstance":"{instance}"}`,
		subject: "walk/{instance}"},
	{operation: "UpdateContainerAgent", body: `{"cluster":"walk","containerInstance":"{instance}"}`,
		refusal: "NoUpdateAvailableException"},
	{operation: "PutAttributes",
		body:    `{"cluster":"walk","attributes":[{"name":"a","value":"b","targetId":"{instance}"}]}`,
		subject: "walk"},
	{operation: "ListAttributes", body: `{"cluster":"walk","targetType":"container-instance"}`},
	{operation: "DeleteAttributes", body: `{"cluster":"walk","attributes":[{"name":"a","targetId":"{instance}"}]}`,
		subject: "walk"},
	{operation: "TagResource", body: `{"resourceArn":"{instance}","tags":[{"key":"k","value":"` + secret + `"}]}`,
		subject: "{instance}"},
	{operation: "ListTagsForResource", body: `{"resourceArn":"{instance}"}`},
	{operation: "UntagResource", body: `{"resourceArn":"{instance}","tagKeys":["k"]}`, subject: "{instance}"},
	{operation: "ListTaskDefinitions", body: `{}`}, {operation: "ListTaskDefinitionFamilies", body: `{}`},
	{operation: "DescribeTaskDefinition", body: `{"taskDefinition":"walk-web"}`},
	{operation: "CreateService",
		body:    `{"cluster":"walk","serviceName":"web","taskDefinition":"walk-web","desiredCount":1}`,
		subject: "walk/web/walk-web"},
	{operation: "ListServices", body: `{"cluster":"walk"}`},
	{operation: "DescribeServices", body: `{"cluster":"walk","services":["web"]}`},
	{operation: "ListServiceDeployments", body: `{"cluster":"walk","service":"web"}`},
	{operation: "DescribeServiceDeployments", body: `{"serviceDeploymentArns":["{deployment}"]}`,
		prepare: (*walk).hasDeployment},
	{operation: "DescribeServiceRevisions", body: `{"serviceRevisionArns":["{revision}"]}`},
	{operation: "StopServiceDeployment", body: `{"serviceDeploymentArn":"{deployment}","stopType":"ABORT"}`,
		subject: "{deployment}", prepare: (*walk).hasNewDeployment},
	{operation: "UpdateService", body: `{"cluster":"walk","service":"web","desiredCount":2}`, subject: "walk/web"},
	{operation: "CreateTaskSet", subject: "walk/sets/walk-web", prepare: (*walk).hasExternalService,
		body: `{"cluster":"walk","service":"sets","taskDefinition":"walk-web"}`},
	{operation: "DescribeTaskSets", body: `{"cluster":"walk","service":"sets"}`, prepare: (*walk).hasTaskSet},
	{operation: "UpdateTaskSet", body: `{"cluster":"walk","service":"sets","taskSet":"{set}","scale":{"value":1}}`,
		subject: "walk/sets/{set}"},
	{operation: "UpdateServicePrimaryTaskSet", subject: "walk/sets/{set}",
		body: `{"cluster":"walk","service":"sets","primaryTaskSet":"{set}"}`},
	{operation: "DeleteTaskSet", body: `{"cluster":"walk","service":"sets","taskSet":"{set}","force":true}`,
		subject: "walk/sets/{set}"},
	{operation: "RunTask", body: `{"cluster":"walk","taskDefinition":"walk-web"}`, subject: "walk/walk-web"},
	{operation: "StartTask", body: `{"cluster":"walk","taskDefinition":"walk-web","containerInstances":["{instance}"]}`,
		subject: "walk/walk-web/{instance}"},
	{operation: "ListTasks", body: `{"cluster":"walk"}`, prepare: (*walk).hasTask},
	{operation: "DescribeTasks", body: `{"cluster":"walk","tasks":["{task}"]}`},
	{operation: "UpdateTaskProtection", body: `{"cluster":"walk","tasks":["{task}"],"protectionEnabled":true}`,
		subject: "walk/{task}"},
	{operation: "GetTaskProtection", body: `{"cluster":"walk","tasks":["{task}"]}`},
	{operation: "StopTask", body: `{"cluster":"walk","task":"{task}"}`, subject: "walk/{task}"},
	{operation: awsjson.OwnTarget + "PutClusterConfiguration", body: `{"cluster":"walk","configuration":{}}`,
		subject: "walk"},
	{operation: awsjson.OwnTarget + "DescribeClusterConfiguration", body: `{"cluster":"walk"}`},
	{operation: awsjson.OwnTarget + "RebalanceCluster", body: `{"cluster":"walk"}`, subject: "walk"},
	{operation: awsjson.OwnTarget + "UpdateServiceRules", subject: "walk/web",
		body: `{"cluster":"walk","service":"web","metrics":[{"name":"m","load":1}]}`},
	{operation: awsjson.OwnTarget + "DescribeServiceRules", body: `{"cluster":"walk","service":"web"}`},
	{operation: awsjson.OwnTarget + "DescribeServiceThrottle", body: `{"cluster":"walk","service":"web"}`},
	{operation: awsjson.OwnTarget + "ReportLoad",
		body:    `{"cluster":"walk","reports":[{"task":"{task}","loads":{"m":2}}]}`,
		subject: "walk"},
	{operation: awsjson.OwnTarget + "ListClusterRows", body: `{"cluster":"walk"}`},
	{operation: awsjson.OwnTarget + "DescribeCapacity", body: `{"cluster":"walk"}`},
	{operation: "CreateCapacityProvider", subject: "walk-provider", body: `{"name":"walk-provider",
		"autoScalingGroupProvider":{"autoScalingGroupArn":"{group}","managedScaling":{"status":"DISABLED"}}}`},
	{operation: "DescribeCapacityProviders", body: `{"capacityProviders":["walk-provider"]}`},
	{operation: "UpdateCapacityProvider", subject: "walk-provider", prepare: (*walk).hasProvider,
		body: `{"name":"walk-provider","autoScalingGroupProvider":{"managedDraining":"DISABLED"}}`},
	{operation: "PutClusterCapacityProviders", subject: "walk", prepare: (*walk).hasProvider,
		body: `{"cluster":"walk","capacityProviders":[],"defaultCapacityProviderStrategy":[]}`},
	{operation: "DeleteCapacityProvider", body: `{"capacityProvider":"walk-provider"}`, subject: "walk-provider"},
	{operation: "CreateNodegroup", path: "POST /clusters/walk/node-groups", subject: "walk/nodes",
		body: `{"nodegroupName":"nodes","subnets":["subnet-1"],"nodeRole":"r",
		"scalingConfig":{"minSize":0,"maxSize":2,"desiredSize":0},"tags":{"berth:auto-scaling-group":"walk-group"}}`},
	{operation: "ListNodegroups", path: "GET /clusters/walk/node-groups"},
	{operation: "DescribeNodegroup", path: "GET /clusters/walk/node-groups/nodes"},
	{operation: "UpdateNodegroupConfig", path: "POST /clusters/walk/node-groups/nodes/update-config",
		subject: "walk/nodes", body: `{"scalingConfig":{"minSize":0,"maxSize":3,"desiredSize":0}}`,
		prepare: (*walk).hasNodes},
	{operation: awsjson.OwnTarget + "PlanNodegroupUpdate",
		body:    `{"cluster":"walk","nodegroupName":"nodes","releaseVersion":"ami-2"}`,
		prepare: (*walk).hasNodes},
	{operation: "UpdateNodegroupVersion", path: "POST /clusters/walk/node-groups/nodes/update-version",
		subject: "walk/nodes", body: `{"releaseVersion":"ami-2"}`, prepare: (*walk).hasNodes},
	{operation: "ListUpdates", path: "GET /clusters/walk/updates?nodegroupName=nodes"},
	{operation: "DescribeUpdate", path: "GET /clusters/walk/updates/{update}?nodegroupName=nodes",
		prepare: (*walk).hasUpdate},
	{operation: "DeleteNodegroup", path: "DELETE /clusters/walk/node-groups/nodes", subject: "walk/nodes",
		prepare: (*walk).hasNodes},
	{operation: "DeleteService", body: `{"cluster":"walk","service":"web","force":true}`, subject: "walk/web"},
	{operation: "UpdateContainerInstancesState", subject: "walk/{instance}",
		body: `{"cluster":"walk","containerInstances":["{instance}"],"status":"DRAINING"}`},
	{operation: "DeregisterTaskDefinition", body: `{"taskDefinition":"walk-web:1"}`, subject: "walk-web:1"},
	{operation: "DeleteTaskDefinitions", body: `{"taskDefinitions":["walk-web:1"]}`, subject: "walk-web:1"},
	{operation: "DeregisterContainerInstance", subject: "walk/{instance}",
		body: `{"cluster":"walk","containerInstance":"{instance}","force":true}`},
	{operation: "DeleteCluster", body: `{"cluster":"walk"}`, subject: "walk", prepare: (*walk).isEmpty},
}

// TestEveryOperationIsVisited holds that no operation is missing among the visits, but for those
// that nobody may call with success.
func TestEveryOperationIsVisited(t *testing.T) {
	want := map[string]bool{}
	for name := range ecsapi.Operations(ecsapi.Options{}) {
		want[name] = true
	}
	for name := range berthapi.Operations(cluster.Account{}, berthapi.Resources{}, (*api.NodeGroups)(nil)) {
		want[name] = true
	}
	for name := range ecsapi.RefusedOperations() {
		delete(want, name)
	}
	for _, v := range visits {
		if v.path == "" && !want[v.operation] {
			t.Errorf("%s is visited twice, or is no operation", v.operation)
		}
		delete(want, v.operation)
	}
	if len(want) > 0 {
		t.Errorf("nobody visits %q", slices.Sorted(maps.Keys(want)))
	}
}

// walkOperations calls every operation with its right: everyone without it is refused and leaves
// nothing in the log but the refusal. Who has it succeeds. Each change leaves one line that names
// who, what and on what, and no secret.
func walkOperations(t *testing.T, l *local) {
	w := &walk{capacityScenario: newCapacityScenario(t, l, "walk"), local: l, ids: map[string]string{},
		users: map[cloud.Caller]aws.Credentials{}}
	for _, u := range callers {
		as, err := l.CreateCaller(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		w.users[u] = as
	}
	for i, v := range visits {
		if i == 1 {
			w.createGroup(0) // which also asks for the cluster, so that it must come after the first visit
			w.ids["{group}"] = *w.describeGroup().AutoScalingGroupARN
			if err := l.AddInstances("walk", 1, "t3.medium", zones); err != nil {
				t.Fatal(err)
			}
		}
		if v.prepare != nil {
			w.await("what "+v.operation+" needs", func() bool { return v.prepare(w) })
		}
		w.visitAsEveryone(v)
		if t.Failed() {
			return
		}
	}
	for name := range ecsapi.RefusedOperations() {
		w.visitAsEveryone(visit{operation: name, body: "{}", refusal: "UnsupportedFeatureException"})
	}
}

func (w *walk) visitAsEveryone(v visit) {
	name := strings.TrimPrefix(v.operation, awsjson.OwnTarget)
	holders := map[access.Right][]cloud.Caller{
		access.Read: {cloud.Reader, cloud.Writer, cloud.Manager}, access.Write: {cloud.Writer},
		access.ManageNodeGroups: {cloud.Manager},
	}[access.RightFor(name)]
	for _, u := range callers {
		if slices.Contains(holders, u) {
			continue
		}
		status, answer, log := w.callAs(v, u)
		want := "is not authorized to perform: " + name
		if u == cloud.Stranger { // IAM itself refuses
			want = "lambda:InvokeFunctionUrl"
		}
		if status == http.StatusOK || !strings.Contains(answer, want) || len(changeLines(log)) != 0 {
			w.t.Errorf("%s as %s: %d %s, log %s, want it refused with %q", name, u, status, answer, log, want)
		}
	}
	for _, u := range holders {
		status, answer, log := w.callAs(v, u)
		if (status == http.StatusOK) != (v.refusal == "") || !strings.Contains(answer, v.refusal) {
			w.t.Errorf("%s as %s: %d %s", name, u, status, answer)
			continue
		}
		if strings.Contains(log, secret) {
			w.t.Errorf("%s as %s logs a secret: %s", name, u, log)
		}
		lines := changeLines(log)
		if v.subject == "" {
			if len(lines) != 0 {
				w.t.Errorf("%s, which changes nothing, is logged: %s", name, lines)
			}
			continue
		}
		want := changeLine{Message: "changed through the API", Operation: name, Principal: u.ARN(),
			Subject: w.fill(v.subject)}
		if len(lines) != 1 || lines[0] != want {
			w.t.Errorf("%s is logged as %+v, want %+v", name, lines, want)
		}
	}
}

// callAs calls an operation through the function URL, signed by a user. It also returns what was
// logged meanwhile: the emulator collects lines after the function has answered, so it waits for
// the line of a change that succeeded.
func (w *walk) callAs(v visit, u cloud.Caller) (status int, answer, log string) {
	w.t.Helper()
	began := time.Now().Add(time.Millisecond) // the log's times are in whole milliseconds
	method, path, _ := strings.Cut(w.fill(v.path), " ")
	status, answer, err := w.local.CallAs(w.t.Context(), w.users[u], cloud.Request{
		Method: cmp.Or(method, http.MethodPost), Path: path, Target: targetOf(v.operation), Body: w.fill(v.body)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.local.Await(func() bool {
		log = w.functionLog(began)
		return v.subject == "" || status != http.StatusOK || len(changeLines(log)) > 0
	})
	return status, answer, log
}

// functionLog returns what the api function has logged since a time.
func (w *walk) functionLog(since time.Time) string {
	w.t.Helper()
	log, err := w.local.FunctionLog(w.t.Context(), "api", since)
	if err != nil {
		w.t.Fatal(err)
	}
	return log
}

// targetOf is the header that names an operation of the ECS API or of Berth's own.
func targetOf(operation string) string {
	if strings.HasPrefix(operation, awsjson.OwnTarget) {
		return operation
	}
	return "AmazonEC2ContainerServiceV20141113." + operation
}

// A changeLine is a line of the audit log.
type changeLine struct {
	Message   string `json:"msg"`
	Operation string `json:"operation"`
	Principal string `json:"principal"`
	Subject   string `json:"subject"`
}

// changeLines returns the lines about changes by one of the walk's principals. Others work with the
// same function at the same time.
func changeLines(log string) (lines []changeLine) {
	for _, text := range strings.Split(log, "\n") {
		var line changeLine
		start := strings.IndexByte(text, '{')
		if start < 0 || json.Unmarshal([]byte(text[start:]), &line) != nil ||
			line.Message != "changed through the API" ||
			!slices.ContainsFunc(callers, func(u cloud.Caller) bool { return u.ARN() == line.Principal }) {
			continue
		}
		lines = append(lines, line)
	}
	return lines
}

// fill puts the ids in the place of their names.
func (w *walk) fill(text string) string {
	for name, id := range w.ids {
		text = strings.ReplaceAll(text, name, id)
	}
	return text
}

func (w *walk) hasInstance() bool {
	for _, i := range w.instances() {
		if i.Ec2InstanceId != nil && i.AgentConnected {
			w.ids["{instance}"] = *i.ContainerInstanceArn
			return true
		}
	}
	return false
}

func (w *walk) hasDeployment() bool {
	out := mustSucceed(w.api.ListServiceDeployments(w.t.Context(),
		&ecs.ListServiceDeploymentsInput{Cluster: &w.cluster, Service: aws.String("web")}))(&w.scenario)
	if len(out.ServiceDeployments) == 0 {
		return false
	}
	last := out.ServiceDeployments[0]
	w.ids["{deployment}"], w.ids["{revision}"] = *last.ServiceDeploymentArn, *last.TargetServiceRevisionArn
	return true
}

// hasNewDeployment begins a deployment that can be stopped.
func (w *walk) hasNewDeployment() bool {
	before := w.ids["{deployment}"]
	if w.describeService("web").RunningCount != 1 {
		return false
	}
	mustSucceed(w.api.UpdateService(w.t.Context(), &ecs.UpdateServiceInput{Cluster: &w.cluster,
		Service: aws.String("web"), ForceNewDeployment: true}))(&w.scenario)
	return w.hasDeployment() && w.ids["{deployment}"] != before
}

// hasExternalService creates a service for task sets, unless it is there.
func (w *walk) hasExternalService() bool {
	_, _ = w.api.CreateService(w.t.Context(), &ecs.CreateServiceInput{Cluster: &w.cluster,
		ServiceName:          aws.String("sets"),
		DeploymentController: &types.DeploymentController{Type: types.DeploymentControllerTypeExternal}})
	return *w.describeService("sets").Status == "ACTIVE"
}

func (w *walk) hasTaskSet() bool {
	out := mustSucceed(w.api.DescribeTaskSets(w.t.Context(),
		&ecs.DescribeTaskSetsInput{Cluster: &w.cluster, Service: aws.String("sets")}))(&w.scenario)
	if len(out.TaskSets) == 0 {
		return false
	}
	w.ids["{set}"] = *out.TaskSets[0].TaskSetArn
	return true
}

func (w *walk) hasTask() bool {
	running := w.runningTasks("web")
	if len(running) == 0 {
		return false
	}
	w.ids["{task}"] = ecsID(w.t, running[0])
	return true
}

// hasProvider reports whether the capacity provider is not being changed.
func (w *walk) hasProvider() bool {
	if err := w.local.RunSchedule(w.t.Context(), "managed-scaling", "scaling"); err != nil {
		return false
	}
	out := mustSucceed(w.api.DescribeCapacityProviders(w.t.Context(),
		&ecs.DescribeCapacityProvidersInput{CapacityProviders: []string{"walk-provider"}}))(&w.scenario)
	return len(out.CapacityProviders) == 1 &&
		strings.HasSuffix(string(out.CapacityProviders[0].UpdateStatus), "_COMPLETE")
}

// hasNodes waits until the node group is at rest.
func (w *walk) hasNodes() bool {
	if err := w.local.RunSchedule(w.t.Context(), "node-group-upgrade", "node-groups"); err != nil {
		return false
	}
	_, answer, err := w.local.CallEKS(w.t.Context(), http.MethodGet, "/clusters/walk/node-groups/nodes", "")
	return err == nil && strings.Contains(string(answer), `"status":"ACTIVE"`)
}

func (w *walk) hasUpdate() bool {
	_, answer, err := w.local.CallEKS(w.t.Context(), http.MethodGet, "/clusters/walk/updates?nodegroupName=nodes", "")
	var out struct{ UpdateIds []string }
	if err != nil || json.Unmarshal(answer, &out) != nil || len(out.UpdateIds) == 0 {
		return false
	}
	w.ids["{update}"] = out.UpdateIds[0]
	return true
}

// isEmpty takes everything out of the cluster that would keep it.
func (w *walk) isEmpty() bool {
	ctx := w.t.Context()
	_ = w.local.RunSchedule(ctx, "node-group-upgrade", "node-groups")
	for _, i := range w.instances() {
		_, _ = w.api.DeregisterContainerInstance(ctx, &ecs.DeregisterContainerInstanceInput{Cluster: &w.cluster,
			ContainerInstance: i.ContainerInstanceArn, Force: aws.Bool(true)})
	}
	_, _ = w.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &w.cluster, Service: aws.String("sets"),
		Force: aws.Bool(true)})
	tasks := mustSucceed(w.api.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &w.cluster}))(&w.scenario)
	for _, task := range tasks.TaskArns {
		_, _ = w.api.StopTask(ctx, &ecs.StopTaskInput{Cluster: &w.cluster, Task: &task})
	}
	status, _, err := w.local.CallEKS(ctx, http.MethodGet, "/clusters/walk/node-groups/nodes", "")
	return err == nil && status == http.StatusNotFound && len(w.instances()) == 0 && len(tasks.TaskArns) == 0
}

// callWithoutIAM sends an event without an IAM authorizer to the function as it is configured on
// AWS.
func callWithoutIAM(t *testing.T, l *local) {
	f, err := l.DeployedFunction(t.Context(), "api")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	f.Log = &log
	f.Environment = append(slices.DeleteFunc(f.Environment,
		func(v string) bool { return strings.HasPrefix(v, "REQUIRE_IAM=") }), "REQUIRE_IAM=true")
	r, err := lambda.Start(f)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, v := range visits {
		answer, err := r.Invoke(t.Context(), urlEvent(t, "", v.operation, v.path, v.body))
		if err != nil || !strings.Contains(string(answer), `"statusCode":403`) {
			t.Errorf("%s by nobody: %s, %v, want status 403", v.operation, answer, err)
		}
	}
	answer, err := r.Invoke(t.Context(), urlEvent(t, cloud.Reader.ARN(), "ListClusters", "", `{}`))
	if err != nil || !strings.Contains(string(answer), `"statusCode":200`) {
		t.Errorf("ListClusters by a reader: %s, %v, want status 200", answer, err)
	}
}

// urlEvent is what the function URL sends for a call of an operation, which the path of the EKS API
// names, or else a header.
func urlEvent(t *testing.T, principal, operation, path, body string) []byte {
	t.Helper()
	in := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: "/", Body: body}
	in.RequestContext.HTTP.Method = http.MethodPost
	if path != "" {
		in.RequestContext.HTTP.Method, in.RawPath, _ = strings.Cut(path, " ")
		in.RawPath, in.RawQueryString, _ = strings.Cut(in.RawPath, "?")
	} else {
		in.Headers = map[string]string{"x-amz-target": targetOf(operation),
			"content-type": "application/x-amz-json-1.1"}
	}
	if principal != "" {
		in.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: principal},
		}
	}
	event, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return event
}
