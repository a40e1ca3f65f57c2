package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

const (
	shop     = "shop"    // the cluster of the installation
	yard     = "yard"    // a cluster with a node group that is being updated
	maxSteps = 1_000_000 // steps of the loop until a condition holds
)

// writtenAt is when the stored installation was created.
var writtenAt = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// A world is an installation on a virtual clock, which is called as users call it.
type world struct {
	*testing.T
	*installation.Installation
	folder string
	front  []string // the instances with attributes
	logged *errorLog
}

// openWorld opens an installation with its files in a folder.
func openWorld(t *testing.T, folder string, at time.Time) *world {
	t.Helper()
	w := &world{T: t, folder: folder, logged: &errorLog{}}
	loop, n := embedded.NewVirtualLoop(at), 0
	var err error
	w.Installation, err = installation.Open(installation.Options{
		Loop: loop, Seed: 1, Data: folder, Log: slog.New(w.logged),
		NewID:     func() string { n++; return fmt.Sprintf("%032x", at.Unix()<<16+int64(n)) },
		WrapClock: func(string, handler.Clock) handler.Clock { return steppingClock{loop} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// An errorLog keeps what is logged as an error.
type errorLog struct {
	slog.Handler
	lines []string
}

func (l *errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *errorLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.lines = append(l.lines, line)
	return nil
}

// A steppingClock advances the virtual clock when a call sleeps: nothing else would.
type steppingClock struct{ *embedded.Loop }

func (c steppingClock) Sleep(_ context.Context, d time.Duration) error {
	c.RunUntil(c.Now().Add(d))
	return nil
}

func (w *world) passTime(d time.Duration) { w.Loop.RunUntil(w.Loop.Now().Add(d)) }

// sendRequest sends a request and returns the body of the answer, which must have status 200.
func (w *world) sendRequest(method, path, target, body string) []byte {
	w.Helper()
	contentType := "application/json"
	switch {
	case target != "":
		contentType = "application/x-amz-json-1.1"
	case strings.HasPrefix(body, "Action="):
		contentType = "application/x-www-form-urlencoded"
	}
	r := httptest.NewRequestWithContext(w.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/ecs/aws4_request, SignedHeaders=host, Signature=any")
	r.Header.Set("Content-Type", contentType)
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
	}
	answer := httptest.NewRecorder()
	w.Server.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		w.Fatalf("%s %s %s %s: %d %s", method, path, target, body, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}

// callECS calls the ECS API, callBerth Berth's own operations, callEKS the EKS API.
func (w *world) callECS(operation, body string) []byte {
	w.Helper()
	return w.sendRequest(http.MethodPost, "/", "AmazonEC2ContainerServiceV20141113."+operation, body)
}

func (w *world) callBerth(operation, body string) []byte {
	w.Helper()
	return w.sendRequest(http.MethodPost, "/", "Berth_20261121."+operation, body)
}

func (w *world) callEKS(method, path, body string) []byte {
	w.Helper()
	return w.sendRequest(method, "/clusters/"+yard+"/"+path, "", body)
}

func mustSucceed[T any](v T, err error) func(w *world) T {
	return func(w *world) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return v
	}
}

func (w *world) checkError(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// arnsIn returns the list of ARNs or names that is the answer's only member beside a token.
func (w *world) arnsIn(answer []byte) (found []string) {
	w.Helper()
	var members map[string]json.RawMessage
	w.checkError(json.Unmarshal(answer, &members))
	for _, m := range members {
		if json.Unmarshal(m, &found) == nil {
			return found
		}
	}
	return nil
}

// rowsOf returns all rows of the clusters and of the directory.
func (w *world) rowsOf(names ...string) (rows []state.Row) {
	w.Helper()
	for _, name := range names {
		rows = append(rows, mustSucceed(w.Store.List(context.Background(), state.Prefix(name, "")))(w)...)
	}
	return rows
}

// buildWorld builds the installation whose folder is stored. It is left, as if killed, while as
// much as possible is in progress.
func buildWorld(t *testing.T, folder string) *world {
	w := openWorld(t, folder, writtenAt)
	w.checkError(w.Start(w.Context()))
	w.addMachines()
	w.registerDefinitions()
	w.createServices()
	w.passTime(10 * time.Minute)
	w.startDeployments()
	w.createNodeGroup()
	w.passTime(8 * time.Minute)
	w.startTasks()
	w.disturbInstances()
	w.stopHalfWay()
	return w
}

func (w *world) addMachines() {
	for _, name := range []string{shop, yard} {
		w.callECS("CreateCluster", `{"clusterName":"`+name+`","tags":[{"key":"team","value":"harbour"}]}`)
	}
	for n, domain := range []string{"fd:/dc1/r0", "fd:/dc1/r1", "fd:/dc2/r0", "fd:/dc2/r1"} {
		w.front = append(w.front, mustSucceed(w.AWS.Machines.AddInstances(shop, 2, ec2.Machine{
			Type: "m5.xlarge", Zones: []string{"us-east-1" + string(rune('a'+n%3))}, ENIs: 4,
			Metrics: map[string]int64{"connections": 1000},
			Attributes: map[string]string{
				"berth.fault-domain": domain, "berth.upgrade-domain": fmt.Sprint("ud", n), "berth.node-type": "front",
				"berth.property.disk": "ssd", "rack": fmt.Sprint("r", n),
			},
		}))(w)...)
	}
	mustSucceed(w.AWS.Machines.AddInstances(shop, 1, ec2.Machine{Type: "g4dn.xlarge"}))(w)
	w.callBerth("PutClusterConfiguration", `{"cluster":"shop","configuration":{
		"nodeTypes":{"front":{"capacities":{"sessions":500},"placementProperties":{"tier":"1"}}},"nodeBufferPercentage":{"connections":0.1},
		"nodeOverbookingPercentage":{"sessions":0.2},"metricBalancingThresholds":{"connections":3},"metricActivityThresholds":{"connections":100},
		"constraintPriorities":{"placementConstraint":0,"capacity":0,"faultDomain":1,"upgradeDomain":1}}}`)
	scaled := mustSucceed(w.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: "spot-group", Cluster: shop, Machine: ec2.Machine{Type: "m5.large"}, Min: 1, Max: 6, Desired: 3,
		Protects: true, Tags: map[string]string{handler.OwnerTag: installation.Name},
	}))(w)
	w.callECS("CreateCapacityProvider", `{"name":"spot","autoScalingGroupProvider":{"autoScalingGroupArn":"`+scaled+`",
		"managedScaling":{"status":"ENABLED","targetCapacity":90,"instanceWarmupPeriod":60},"managedTerminationProtection":"ENABLED","managedDraining":"ENABLED"},
		"tags":[{"key":"berth:consolidation","value":"true"}]}`)
	w.callECS("PutClusterCapacityProviders",
		`{"cluster":"shop","capacityProviders":["spot"],"defaultCapacityProviderStrategy":[]}`)
	mustSucceed(w.AWS.Groups.AddGroup(autoscaling.GroupSpec{
		Name: "yard-group", Cluster: yard, Machine: ec2.Machine{Type: "m5.large"}, Max: 8, Desired: 3,
		Tags: map[string]string{handler.OwnerTag: installation.Name},
	}))(w)
	w.passTime(2 * time.Minute)
}

// registerDefinitions registers task definitions. Their environment tells the simulated AWS what
// the tasks do.
func (w *world) registerDefinitions() {
	container := func(family, member string) {
		w.callECS("RegisterTaskDefinition", `{"family":"`+family+`","containerDefinitions":[{"name":"app","image":"app","cpu":256,"memory":256,"memoryReservation":128,
			"essential":true,"portMappings":[{"containerPort":80}]`+member+`}],"tags":[{"key":"of","value":"definition"}]}`)
	}
	container("web", `,"healthCheck":{"command":["CMD","true"]}`)
	container("agent", `,"environment":[{"name":"A","value":"B"}]`)
	container("bad", `,"environment":[{"name":"BERTH_FLEET_FAIL","value":"start"}]`)
	container("short",
		`,"environment":[{"name":"BERTH_FLEET_RUN_SECONDS","value":"20"},{"name":"BERTH_FLEET_EXIT_CODE","value":"3"}]`)
	w.callECS("RegisterTaskDefinition", `{"family":"port","taskRoleArn":"arn:aws:iam::123456789012:role/task","executionRoleArn":"arn:aws:iam::123456789012:role/start",
		"cpu":"512","memory":"512","placementConstraints":[{"type":"memberOf","expression":"attribute:rack exists"}],
		"containerDefinitions":[{"name":"app","image":"app","portMappings":[{"containerPort":80,"hostPort":8080,"protocol":"tcp"}]}]}`)
	w.callECS("RegisterTaskDefinition",
		`{"family":"vpc","networkMode":"awsvpc","containerDefinitions":[{"name":"app","image":"app","cpu":128,"memory":128,"portMappings":[{"containerPort":80}]}]}`)
	w.callECS("RegisterTaskDefinition",
		`{"family":"gpu","containerDefinitions":[{"name":"app","image":"app","cpu":128,"memory":128,"resourceRequirements":[{"type":"GPU","value":"1"}]}]}`)
	w.callECS("RegisterTaskDefinition",
		`{"family":"huge","containerDefinitions":[{"name":"app","image":"app","cpu":4096,"memory":60000}]}`)
	w.callECS("RegisterTaskDefinition",
		`{"family":"half","containerDefinitions":[{"name":"app","image":"app","cpu":1024,"memory":1024}]}`)
}

func (w *world) createServices() {
	group := mustSucceed(w.AWS.TargetGroups.CreateTargetGroup("web", "instance", 30*time.Second))(w)
	registry := mustSucceed(w.AWS.Registries.CreateRegistry("vpc", true))(w)
	w.checkError(w.AWS.CloudWatch.PutAlarm("errors", time.Minute, 2))
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"web","taskDefinition":"web","desiredCount":6,"clientToken":"web-1",
		"loadBalancers":[{"targetGroupArn":"`+group+`","containerName":"app","containerPort":80}],"healthCheckGracePeriodSeconds":30,
		"deploymentConfiguration":{"maximumPercent":150,"minimumHealthyPercent":50,"deploymentCircuitBreaker":{"enable":true,"rollback":true},
			"alarms":{"alarmNames":["errors"],"enable":true,"rollback":true}},
		"placementStrategy":[{"type":"spread","field":"attribute:ecs.availability-zone"},{"type":"binpack","field":"MEMORY"}],
		"placementConstraints":[{"type":"memberOf","expression":"attribute:rack =~ r.*"}],
		"enableECSManagedTags":true,"propagateTags":"SERVICE","enableExecuteCommand":true,
		"tags":[{"key":"berth:metrics","value":"connections=10:High,sessions=5"},{"key":"berth:move-cost","value":"High"},{"key":"owner","value":"you"}]}`)
	w.callECS("CreateService",
		`{"cluster":"shop","serviceName":"agent","taskDefinition":"agent","schedulingStrategy":"DAEMON"}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"vpc","taskDefinition":"vpc","desiredCount":3,"availabilityZoneRebalancing":"ENABLED",
		"networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-1"],"securityGroups":["sg-1"]}},
		"serviceRegistries":[{"registryArn":"`+registry+`"}]}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"quorum","taskDefinition":"half","desiredCount":4,
		"tags":[{"key":"berth:domain-policy","value":"adaptive"},{"key":"berth:constraint","value":"NodeType == front"}]}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"spotted","taskDefinition":"half","desiredCount":5,
		"capacityProviderStrategy":[{"capacityProvider":"spot","base":1,"weight":1}]}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"huge","taskDefinition":"huge","desiredCount":2}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"gone","taskDefinition":"agent","desiredCount":1}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"broken","taskDefinition":"agent","desiredCount":4,
		"deploymentConfiguration":{"maximumPercent":150,"minimumHealthyPercent":50}}`)
	w.callECS("CreateService", `{"cluster":"shop","serviceName":"returned","taskDefinition":"agent","desiredCount":3,
		"deploymentConfiguration":{"maximumPercent":200,"minimumHealthyPercent":100,"deploymentCircuitBreaker":{"enable":true,"rollback":true,
			"thresholdConfiguration":{"type":"COUNT","value":2}}}}`)
	w.callECS("CreateService",
		`{"cluster":"yard","serviceName":"yard","taskDefinition":"half","desiredCount":4,"deploymentConfiguration":{"minimumHealthyPercent":50}}`)
}

// startDeployments leaves one service with an older deployment and failed starts, and one rolled
// back.
func (w *world) startDeployments() {
	w.callECS("DeleteService", `{"cluster":"shop","service":"gone","force":true}`)
	w.callECS("UpdateService", `{"cluster":"shop","service":"returned","taskDefinition":"bad"}`)
	w.passTime(12 * time.Minute)
	w.callECS("UpdateService", `{"cluster":"shop","service":"broken","taskDefinition":"bad"}`)
}

func (w *world) createNodeGroup() {
	w.callEKS(http.MethodPost, "node-groups", `{"nodegroupName":"nodes","subnets":["subnet-1"],"nodeRole":"arn:aws:iam::123456789012:role/nodes","labels":{"a":"b"},
		"clientRequestToken":"nodes-1","updateConfig":{"maxUnavailable":1},"tags":{"berth:auto-scaling-group":"yard-group"}}`)
	w.passTime(3 * time.Minute)
	w.callEKS(http.MethodPost, "node-groups/nodes/update-config",
		`{"scalingConfig":{"minSize":1,"maxSize":7,"desiredSize":3}}`)
	w.passTime(3 * time.Minute)
	w.callEKS(http.MethodPost, "node-groups/nodes/update-version",
		`{"releaseVersion":"berth-ecs-2","clientRequestToken":"nodes-2"}`)
}

// startTasks starts standalone tasks.
func (w *world) startTasks() {
	w.callECS("RunTask",
		`{"cluster":"shop","taskDefinition":"short","count":2,"startedBy":"cron","clientToken":"short-1","tags":[{"key":"k","value":"v"}]}`)
	w.callECS("RunTask", `{"cluster":"shop","taskDefinition":"gpu","group":"learning"}`)
	w.callECS("RunTask", `{"cluster":"shop","taskDefinition":"port","count":2,"overrides":{"cpu":"256","taskRoleArn":"arn:aws:iam::123456789012:role/task",
		"containerOverrides":[{"name":"app","command":["serve"],"environment":[{"name":"A","value":"B"}],"cpu":100,"memory":400,"memoryReservation":200}]}}`)
	w.callECS("RunTask",
		`{"cluster":"shop","taskDefinition":"vpc","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-2"]}}}`)
	w.callECS("RunTask", `{"cluster":"shop","taskDefinition":"huge","tags":[{"key":"berth:wait","value":"forever"}]}`)
	w.callECS("RunTask",
		`{"cluster":"shop","taskDefinition":"gpu","count":2,"capacityProviderStrategy":[{"capacityProvider":"spot","weight":1}]}`)
	w.callECS("RunTask",
		`{"cluster":"shop","taskDefinition":"half","count":10,"capacityProviderStrategy":[{"capacityProvider":"spot","weight":1}]}`)
	instances := w.arnsIn(w.callECS("ListContainerInstances", `{"cluster":"shop"}`))
	w.callECS("StartTask",
		`{"cluster":"shop","taskDefinition":"agent","containerInstances":["`+instances[0]+`"],"group":"hand"}`)
	mustSucceed(w.AWS.ECS.StartTask(w.Context(), cluster.StartCall{
		Cluster: shop, TaskDefinition: "agent", Instances: []string{w.front[2], w.front[5]}, StartedBy: "someone-else",
	}))(w)
	w.passTime(time.Minute)
	running := w.arnsIn(w.callECS("ListTasks", `{"cluster":"shop","serviceName":"web"}`))
	w.callECS("UpdateTaskProtection",
		`{"cluster":"shop","tasks":["`+running[0]+`"],"protectionEnabled":true,"expiresInMinutes":60}`)
	w.callECS("StopTask", `{"cluster":"shop","task":"`+running[1]+`","reason":"by hand"}`)
	w.passTime(10 * time.Second)
}

// disturbInstances drains an instance, terminates another and disconnects a third.
func (w *world) disturbInstances() {
	w.checkError(w.AWS.Machines.DisconnectAgent(w.front[0]))
	w.checkError(w.AWS.Machines.KillInstance(w.front[2]))
	w.checkError(w.AWS.Machines.ResizeInstance(w.front[4], 4096, 12000))
	w.callECS("UpdateContainerInstancesState",
		`{"cluster":"shop","containerInstances":["`+w.front[6]+`"],"status":"DRAINING"}`)
	w.passTime(30 * time.Second)
	w.callECS("UpdateService", `{"cluster":"shop","service":"web","taskDefinition":"agent","forceNewDeployment":true}`)
	w.passTime(5 * time.Second)
}

// stopHalfWay stops at a step of the loop at which there are rows of every kind and unacknowledged
// records of the stream.
func (w *world) stopHalfWay() {
	w.callBerth("ReportLoad",
		`{"cluster":"shop","reports":[{"task":"`+w.reportingTask()+`","loads":{"connections":40}}]}`)
	_, err := w.API.Tasks.SubmitRequest(w.Context(), operation.SubmitTasks{Kind: cluster.RunTask, Cluster: shop,
		TaskDefinition: "short", Count: 1})
	w.checkError(err)
	w.callECS("UpdateService", `{"cluster":"shop","service":"quorum","desiredCount":5}`)
	for range maxSteps {
		if len(w.missingKinds()) == 0 && len(w.Store.PendingRecords("dispatch")) > 0 &&
			len(w.Store.PendingRecords("placement")) > 0 {
			return
		}
		if !w.Loop.Step() {
			break
		}
	}
	w.Fatalf("at no time were there rows of the kinds %q", w.missingKinds())
}

// reportingTask returns a task of the service web, whose metrics it may report.
func (w *world) reportingTask() string {
	for _, arn := range w.arnsIn(w.callECS("ListTasks", `{"cluster":"shop","serviceName":"web"}`)) {
		return cluster.LastPart(arn)
	}
	w.Fatal("the service web has no task")
	return ""
}

// missingKinds returns the kinds of rows that there are none of. Account settings may be missing:
// they are one row with one key, which is among the rows in which every field has a value.
func (w *world) missingKinds() []string {
	left := slices.DeleteFunc(slices.Clone(rowPrefixes), func(p string) bool { return p == "settings" })
	for _, r := range w.rowsOf(state.Directory, shop, yard) {
		left = slices.DeleteFunc(left, func(p string) bool { return p == kindOf(state.KeyOf(r).Sort) })
	}
	return left
}

// recordAnswers returns what the APIs answer about the opened installation, each call by its name
// and body.
func (w *world) recordAnswers() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	ask := func(operation, body string) []byte {
		answer := w.callECS(operation, body)
		out[operation+" "+body] = answer
		return answer
	}
	quoted := func(list []string) string { return string(mustSucceed(json.Marshal(list))(w)) }
	for _, name := range []string{shop, yard} {
		in := `"cluster":"` + name + `"`
		ask("DescribeClusters", `{"clusters":["`+name+`"],"include":["TAGS"]}`)
		ask("DescribeContainerInstances", `{`+in+`,"containerInstances":`+quoted(w.arnsIn(ask("ListContainerInstances",
			`{`+in+`}`)))+`}`)
		for _, status := range []string{"RUNNING", "STOPPED"} {
			listed := w.arnsIn(ask("ListTasks", `{`+in+`,"desiredStatus":"`+status+`"}`))
			ask("DescribeTasks", `{`+in+`,"tasks":`+quoted(listed)+`,"include":["TAGS"]}`)
		}
		services := w.arnsIn(ask("ListServices", `{`+in+`,"maxResults":10}`))
		ask("DescribeServices", `{`+in+`,"services":`+quoted(services)+`,"include":["TAGS"]}`)
		for _, arn := range services {
			service := `{` + in + `,"service":"` + cluster.LastPart(arn) + `"}`
			if listed := w.deploymentsIn(ask("ListServiceDeployments", service)); len(listed) > 0 {
				ask("DescribeServiceDeployments", `{"serviceDeploymentArns":`+quoted(listed)+`}`)
			}
			out["DescribeServiceThrottle "+service] = w.callBerth("DescribeServiceThrottle", service)
		}
		out["DescribeClusterConfiguration {"+in+"}"] = w.callBerth("DescribeClusterConfiguration", `{`+in+`}`)
	}
	ask("GetTaskProtection", `{"cluster":"shop","tasks":`+quoted(w.arnsIn(w.callECS("ListTasks",
		`{"cluster":"shop","serviceName":"web"}`)))+`}`)
	ask("DescribeCapacityProviders", `{"include":["TAGS"]}`)
	for _, arn := range w.arnsIn(ask("ListTaskDefinitions", `{}`)) {
		ask("DescribeTaskDefinition", `{"taskDefinition":"`+arn+`","include":["TAGS"]}`)
	}
	out["DescribeNodegroup"] = w.callEKS(http.MethodGet, "node-groups/nodes", "")
	updates := w.callEKS(http.MethodGet, "updates?nodegroupName=nodes", "")
	out["ListUpdates"] = updates
	for _, id := range w.arnsIn(updates) {
		out["DescribeUpdate "+id] = w.callEKS(http.MethodGet, "updates/"+id+"?nodegroupName=nodes", "")
	}
	for _, form := range []string{
		"Action=DescribeAutoScalingGroups&Version=2011-01-01", "Action=DescribeTargetGroups&Version=2015-12-01",
		"Action=DescribeLaunchTemplateVersions&Version=2016-11-15&LaunchTemplateName=berth%2Fyard-group",
	} {
		out[form] = mustSucceed(json.Marshal(string(w.sendRequest(http.MethodPost, "/", "", form))))(w)
	}
	return out
}

func (w *world) deploymentsIn(answer []byte) (found []string) {
	var list struct {
		ServiceDeployments []struct{ ServiceDeploymentArn string }
	}
	w.checkError(json.Unmarshal(answer, &list))
	for _, d := range list.ServiceDeployments {
		found = append(found, d.ServiceDeploymentArn)
	}
	return found
}
