package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/tests/simulation/coverage"
)

// serveAPI sends a request to Berth's ECS API over its protocol.
func (w *World) serveAPI(ctx context.Context, op string, body []byte) (status int, answer []byte) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	if !strings.Contains(op, ".") {
		op = "AmazonEC2ContainerServiceV20141113." + op
	}
	r.Header.Set("X-Amz-Target", op)
	to := httptest.NewRecorder()
	w.Server.ServeHTTP(to, r)
	return to.Code, to.Body.Bytes()
}

// malformedRequests must be refused whatever the state of the cluster.
var malformedRequests = []struct{ op, body string }{
	{"RunTask", `{"cluster":"nowhere","taskDefinition":"small"}`},
	{"RunTask", `{"cluster":"sim"}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"no-such-family"}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"small","count":-1}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"small","count":1000000000}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"small","count":"three"}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"small","overrides":{"cpu":"-5"}}`},
	{"RunTask", `{"cluster":"arn:aws:ecs:::","taskDefinition":"small"}`},
	{"RunTask", `{"cluster":"sim","taskDefinition":"` + strings.Repeat("x", 1<<19) + `"}`},
	{"StartTask", `{"cluster":"sim","taskDefinition":"small","containerInstances":[]}`},
	{"StartTask", `{"cluster":"sim","taskDefinition":"small","containerInstances":[` + strings.Repeat(`"a",`,
		20) + `"b"]}`},
	{"CreateService", `{"cluster":"sim","taskDefinition":"small","desiredCount":1}`},
	{"CreateService", `{"cluster":"sim","serviceName":"no good name!","taskDefinition":"small","desiredCount":1}`},
	{"CreateService", `{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":-1}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":99999999999999999999}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":1,"deploymentConfiguration":{"maximumPercent":-1}}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","schedulingStrategy":"DAEMON","desiredCount":1}`},
	{"UpdateService", `{"cluster":"sim","service":"no-such-service","desiredCount":3}`},
	{"DeleteService", `{"cluster":"sim","service":"no-such-service","force":true}`},
	{"StopTask", `{"cluster":"sim","task":"00000000000000000000000000000000"}`},
	{"StopTask", `{"cluster":"sim"}`},
	{"PutAttributes", `{"cluster":"sim","attributes":[` + strings.Repeat(`{"name":"a","targetId":"b"},`,
		9999) + `{"name":"a","targetId":"b"}]}`},
	{"UpdateContainerInstancesState", `{"cluster":"sim","containerInstances":[],"status":"DRAINING"}`},
	{"DropTables", `{}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":1,"placementConstraints":[{"type":"memberOf","expression":"attribute:a =="}]}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":1,"placementStrategy":[{"type":"spread","field":"moon"}]}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":1,"tags":[{"key":"berth:constraint","value":"a == "}]}`},
	{"CreateService",
		`{"cluster":"sim","serviceName":"bad","taskDefinition":"small","desiredCount":1,"tags":[{"key":"berth:domain-policy","value":"anyhow"}]}`},
	{"Berth_20261121.PutClusterConfiguration",
		`{"cluster":"sim","configuration":{"nodeBufferPercentage":{"c":0.2},"nodeOverbookingPercentage":{"c":0.2}}}`},
	{"Berth_20261121.UpdateServiceRules", `{"cluster":"sim","service":"no-such-service","moveCost":"High"}`},
	{"Berth_20261121.ReportLoad", `{"cluster":"sim","reports":[],"all":true}`},
	{"RunTask", `{"cluster":"sim",`},
	{"RunTask", `[]`},
	{"CreateService", `"\u0000"`},
	{"CreateService", strings.Repeat("[", 100_000)},
	{"CreateService", `{"cluster":"sim","serviceName":"` + strings.Repeat("x", 2<<20) + `"}`},
}

// sendMalformedRequest sends a request that must be refused and must change nothing.
func (w *World) sendMalformedRequest(a Action) {
	w.cover(coverage.Malformed)
	m := malformedRequests[a.Pick%uint64(len(malformedRequests))]
	w.spawn(fmt.Sprintf("%s %.60s", m.op, m.body), malformedClient, func(ctx context.Context) {
		status, answer := w.serveAPI(ctx, m.op, []byte(m.body))
		p := processOf(ctx)
		switch {
		case status < http.StatusBadRequest:
			w.checker.Fail("%s: answered %d: %.200s", p.name, status, answer)
		case status >= http.StatusInternalServerError && !p.hadFault && !w.mayBeThrottled():
			w.checker.Fail("%s: answered %d without a fault: %.200s", p.name, status, answer)
		}
	}, func(bool) {})
}

// mayBeThrottled reports whether ECS may have throttled a call, which is answered with
// ServerException too.
func (w *World) mayBeThrottled() bool { return w.faults.isEnabled(ECSThrottle) }

// malformedDetails are event details that no agent sends.
var malformedDetails = []string{
	`{}`, `{"lastStatus":"RUNNING","desiredStatus":"RUNNING","containerInstanceArn":5}`,
	`{"lastStatus":"STOPPED","containerInstanceArn":"","taskArn":"x","version":"a"}`,
	`{"lastStatus":"STOPPED","containerInstanceArn":"arn:aws:ecs:us-east-1:123456789012:container-instance/sim/x","version":-1}`,
	`{"lastStatus":"PENDING","desiredStatus":"RUNNING","startedBy":"somebody","version":1,
	  "clusterArn":"arn:aws:ecs:us-east-1:123456789012:cluster/nowhere","taskArn":"arn:aws:ecs:us-east-1:123456789012:task/nowhere/t",
	  "containerInstanceArn":"arn:aws:ecs:us-east-1:123456789012:container-instance/nowhere/i"}`,
	`{"lastStatus":"RUNNING","desiredStatus":"RUNNING","startedBy":"berth/aaaaaaaaaaaa/1-0","version":7,
	  "clusterArn":"arn:aws:ecs:us-east-1:123456789012:cluster/sim","taskArn":"arn:aws:ecs:us-east-1:123456789012:task/sim/t",
	  "containerInstanceArn":"arn:aws:ecs:us-east-1:123456789012:container-instance/sim/no-such-instance"}`,
	`{"status":"DRAINING","agentConnected":"no","clusterArn":7}`,
	`{"status":"REGISTERING","agentConnected":false,"version":1,"clusterArn":"arn:aws:ecs:us-east-1:123456789012:cluster/nowhere",
	  "containerInstanceArn":"arn:aws:ecs:us-east-1:123456789012:container-instance/nowhere/i"}`,
}

// sendMalformedEvent puts an event on the bus that must change nothing.
func (w *World) sendMalformedEvent(a Action) {
	kind := []string{"ECS Task State Change", "ECS Container Instance State Change"}[a.N%2]
	account := ownAccount
	if a.Pick/16%3 == 0 {
		account = "999999999999" // of somebody else
	}
	detail := json.RawMessage(malformedDetails[a.Pick%uint64(len(malformedDetails))])
	if w.putOn("", busEvent{account, "berth.fleet", kind, "bad", detail}) == nil {
		w.cover(coverage.BadEvent)
	}
}

// sendHugeRequest submits more than a row can hold, past the checks of the protocol. It must be
// refused as a whole.
func (c *apiClient) sendHugeRequest(a Action) {
	spec := operation.SubmitTasks{
		Kind: cluster.RunTask, Cluster: clusterName, TaskDefinition: "small:1", Count: 1,
		Token: fmt.Sprint("huge", a.Pick),
		Tags:  map[string]string{"k": strings.Repeat("v", 1<<19)},
	}
	c.world.spawn("huge", clientProcess, func(ctx context.Context) {
		if tasks, _, err := c.world.API.Tasks.SubmitTasks(ctx, spec); err == nil {
			c.world.checker.Fail("a task with half a MiB of tags was accepted: %d tasks", len(tasks))
		}
	}, func(bool) {})
}
