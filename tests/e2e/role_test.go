package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/tests/cloud"
)

// forwardOperations calls each operation that Berth forwards to ECS and that the service scenario
// does not use.
func forwardOperations(t *testing.T, l *local) {
	ctx := t.Context()
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "default"}
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{}))(s)
	if err := l.AddInstances("default", 1, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	s.registerFamily("tools", 64, 64)
	s.await("an instance", func() bool { return len(s.instances()) == 1 })
	id := *s.instances()[0].ContainerInstanceArn
	for _, c := range [][2]string{
		{"ListClusters", `{}`}, {"DiscoverPollEndpoint", `{"containerInstance": "` + id + `"}`},
		{"UpdateCluster", `{"cluster": "default", "settings": [{"name": "containerInsights", "value": "disabled"}]}`},
		{"UpdateClusterSettings",
			`{"cluster": "default", "settings": [{"name": "containerInsights", "value": "enabled"}]}`},
		{"ListTaskDefinitions", `{}`},
		{"ListTaskDefinitionFamilies", `{}`},
		{"PutAttributes", `{"attributes": [{"name": "a", "value": "b", "targetId": "` + id + `"}]}`},
		{"ListAttributes", `{"targetType": "container-instance"}`},
		{"DeleteAttributes", `{"attributes": [{"name": "a", "targetId": "` + id + `"}]}`},
		{"TagResource", `{"resourceArn": "` + id + `", "tags": [{"key": "k", "value": "v"}]}`},
		{"ListTagsForResource", `{"resourceArn": "` + id + `"}`},
		{"UntagResource", `{"resourceArn": "` + id + `", "tagKeys": ["k"]}`},
		{"RegisterContainerInstance", `{"totalResources": [{"name": "CPU", "type": "INTEGER", "integerValue": 2048},
			{"name": "MEMORY", "type": "INTEGER", "integerValue": 4096}]}`},
		{"UpdateContainerInstancesState", `{"containerInstances": ["` + id + `"], "status": "DRAINING"}`},
		{"RunTask", `{"taskDefinition": "tools"}`},
		// Of a revision that no cluster has used: the sweep deregisters others, and later than this test ends.
		{"RegisterTaskDefinition", `{"family": "spare", "containerDefinitions": [{"name": "a", "image": "busybox",
			"memory": 64}]}`},
		{"DeregisterTaskDefinition", `{"taskDefinition": "spare:1"}`},
		{"DeleteTaskDefinitions", `{"taskDefinitions": ["spare:1"]}`},
	} {
		if _, err := l.CallECS(ctx, c[0], c[1]); err != nil {
			t.Error(err)
		}
	}
	_, err := l.CallECS(ctx, "UpdateContainerAgent", `{"containerInstance": "`+id+`"}`)
	if err == nil || !strings.Contains(err.Error(), "NoUpdateAvailableException") {
		t.Errorf("UpdateContainerAgent: %v", err)
	}
	// A foreign task, which ECS's lists show and Berth's do not.
	mustSucceed(s.api.DescribeTasks(ctx,
		&ecs.DescribeTasksInput{Tasks: []string{"0123456789abcdef0123456789abcdef"}}))(s)
}

// lostAnswers are answers to be lost, once each, and whether events are lost.
type lostAnswers struct {
	mu         sync.Mutex
	operations []string
	events     bool
	refused    string // the operation that is denied next
	caller     func(accessKey string) string
}

// refuseOnce lets ECS deny an operation to node-group-upgrade once, as it would without the
// permission.
func (l *lostAnswers) refuseOnce(operation string, caller func(accessKey string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused, l.caller = operation, caller
}

func (l *lostAnswers) loseEvents(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = yes
}

// beforeCall drops the simulated events if they are to be lost, and denies the operation that is to
// be denied.
func (l *lostAnswers) beforeCall(call cloud.Call) (status int, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != "" && call.Operation == l.refused && l.caller(call.AccessKey) == "node-group-upgrade" {
		l.refused = ""
		return http.StatusBadRequest, `{"__type": "AccessDeniedException", "message": "it is not in the role"}`
	}
	if !l.events || call.Operation != "PutEvents" {
		return 0, ""
	}
	return http.StatusOK, `{"FailedEntryCount": 0, "Entries": []}`
}

func (l *lostAnswers) loseNext(operation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.operations = append(l.operations, operation)
}

func (l *lostAnswers) takeLoss(call cloud.Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.operations, call.Operation)
	if i >= 0 {
		l.operations = slices.Delete(l.operations, i, i+1)
	}
	return i >= 0
}

// resolveUnknownStart loses the answer of a StartTask and its events, disconnects an agent for a
// while, and runs the hourly sweep. Dispatch and task-state-change then ask ECS what only they ask.
func resolveUnknownStart(t *testing.T, l *local, c *callLog, lost *lostAnswers) {
	ctx := t.Context()
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "default"}
	if err := l.AddInstances("default", 3, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	s.registerFamily("web", 64, 64)
	before := len(c.callsSince(0))
	lost.loseNext("StartTask")
	lost.loseEvents(true)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(3),
	}))(s)
	s.await("a look whether it was started", func() bool {
		_, seen := l.sampleCalls(c.callsSince(before))[grant{"dispatch", "ecs:DescribeTasks"}]
		return seen
	})
	lost.loseEvents(false)
	s.runRetries(l)
	s.awaitSteady("web", 3)
	away := cluster.LastPart(*s.runningTasks("web")[0].ContainerInstanceArn)
	if err := l.DisconnectAgent(away); err != nil {
		t.Fatal(err)
	}
	s.await("another look at the instance", func() bool {
		_, seen := l.sampleCalls(c.callsSince(0))[grant{"dispatch", "ecs:DescribeContainerInstances"}]
		return seen
	})
	if err := l.ReconnectAgent(away); err != nil {
		t.Fatal(err)
	}
	s.runRetries(l)
	s.awaitSteady("web", 3)
	if started := countStarts(c.callsSince(before)); started != 3 {
		t.Errorf("%d tasks were started for the 3 of the service", started)
	}
}

// deleteClusterAtECS deletes a cluster at ECS without Berth. The next sweep forgets it.
func deleteClusterAtECS(t *testing.T, l *local) {
	ctx := t.Context()
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "left"}
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(s)
	if _, err := l.SimulatedECS().DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: &s.cluster}); err != nil {
		t.Fatal(err)
	}
	s.await("it to be forgotten", func() bool { // the sweep takes a while
		s.runRetries(l)
		n, err := l.RowCount(ctx, s.cluster)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// countStarts counts the tasks that StartTask started.
func countStarts(calls []cloud.Call) (n int) {
	for _, call := range calls {
		var out struct{ Tasks []struct{} }
		if call.Operation == "StartTask" && json.Unmarshal(call.Answer, &out) == nil {
			n += len(out.Tasks)
		}
	}
	return n
}

// unusedGrants are the grants that no function's SDK uses, or none in these scenarios, and what
// needs them.
var unusedGrants = map[string]string{
	"logs:CreateLogStream":              "Lambda writes the log",
	"logs:PutLogEvents":                 "Lambda writes the log",
	"sqs:DeleteMessage":                 "the event source mapping takes messages",
	"sqs:GetQueueAttributes":            "the event source mapping takes messages",
	"sqs:ReceiveMessage":                "the event source mapping takes messages",
	"dynamodb:DescribeStream":           "the event source mapping reads the stream",
	"dynamodb:GetRecords":               "the event source mapping reads the stream",
	"dynamodb:GetShardIterator":         "the event source mapping reads the stream",
	"dynamodb:ListStreams":              "the event source mapping reads the stream",
	"kms:Decrypt":                       "table and queues with a key of the user's own (KmsKeyArn)",
	"kms:GenerateDataKey":               "table and queues with a key of the user's own (KmsKeyArn)",
	"ecs:UpdateContainerInstancesState": "task-state-change drains Spot instances, of which EC2 alone warns",
	"events:PutEvents":                  "service events are published only where PublishEvents says so",

	"route53:ChangeResourceRecordSets": "Cloud Map makes records of what is registered",
	"route53:CreateHealthCheck":        "Cloud Map's services with health checks of Route 53",
	"route53:DeleteHealthCheck":        "Cloud Map's services with health checks of Route 53",
	"route53:GetHealthCheck":           "Cloud Map's services with health checks of Route 53",
	"route53:GetHostedZone":            "Cloud Map's services in DNS namespaces",
	"route53:ListHostedZonesByName":    "Cloud Map's services in DNS namespaces",
	"route53:UpdateHealthCheck":        "Cloud Map's services with health checks of Route 53",

	"iam:PassRole": "tasks and task definitions with roles (PassableRoleArns), launch templates with them (NodeRoleArns)",
	"autoscaling:RecordLifecycleActionHeartbeat": "a drain that takes half an hour",
	"ecs:ListContainerInstances":                 "instances of a group that never register, or of whose registration nobody told",

	"ec2:CreateTags":         "Auto Scaling asks it of who has a group launch by a template with tags",
	"iam:TagInstanceProfile": "IAM asks it of who makes an instance profile with tags",
	"ec2:RunInstances":       "Auto Scaling asks it of who has a group launch by a template",
	"sqs:SendMessage":        "the event source mapping reports records that it gave up",

	"task-state-change ecs:DeleteTaskDefinitions":    "the sweep deletes only what was deregistered minutes ago",
	"task-state-change ecs:DeregisterTaskDefinition": "the sweep deregisters only what was deregistered minutes ago",

	"dispatch ecs:TagResource":                      "ECS asks it of who starts tasks with tags",
	"managed-scaling ecs:DescribeTasks":             "a terminating instance has a task that nobody has told of",
	"node-group-upgrade ecs:DescribeTasks":          "an update by force stops a task that somebody else started, or a node has one that nobody has told of",
	"node-group-upgrade ecs:ListContainerInstances": "a node is in service before its event has come",
}

// checkGrantsAreUsed compares the roles of template.yaml with the calls that were made. What is
// granted is used, or is in unusedGrants with its reason. What is used is granted, even if the
// simulated AWS, which enforces no roles, took the call.
func checkGrantsAreUsed(t *testing.T, used map[grant]cloud.Call) {
	folders, err := cloud.FunctionFolders(root)
	if err != nil || len(folders) == 0 {
		t.Fatalf("functions %v, %v", folders, err)
	}
	for _, function := range folders {
		granted, err := cloud.GrantedActions(root, function)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range granted {
			if _, seen := used[grant{function, action}]; !seen &&
				unusedGrants[action]+unusedGrants[function+" "+action] == "" {
				t.Errorf("%s is granted %s and never calls it", function, action)
			}
		}
		for g := range used {
			if g.function == function && !slices.Contains(granted, g.action) {
				t.Errorf("%s calls %s and is not granted it", function, g.action)
			}
		}
	}
}

// checkGrantsAreEnforced removes each action from its role. A call is then refused, and allowed
// again with the action restored. A call to the emulator is sent again for that. One to the
// simulated AWS, where the tap enforces the roles, is only judged again.
func checkGrantsAreEnforced(t *testing.T, l *local, used map[grant]cloud.Call) {
	ctx := t.Context()
	toEmulator := 0
	for _, g := range sortedGrants(used) {
		repeat := func() error { return l.RepeatCall(ctx, used[g]) }
		if service, _, _ := strings.Cut(g.action, ":"); cloud.IsSimulated(service) {
			repeat = func() error {
				if why := l.Authorize(ctx, used[g]); why != "" {
					return errors.New("AccessDenied: " + why)
				}
				return nil
			}
		} else {
			toEmulator++
		}
		restore, err := l.RevokeAction(ctx, g.function, g.action)
		if err != nil {
			t.Fatal(err)
		}
		if err := repeat(); !isDenied(err) {
			t.Errorf("%s without %s: %v, want AccessDenied", g.function, g.action, err)
		}
		if err := restore(ctx); err != nil {
			t.Fatal(err)
		}
		if err := repeat(); isDenied(err) && !changesGroup(used[g]) {
			t.Errorf("%s with %s: %v", g.function, g.action, err)
		}
	}
	if toEmulator == 0 || toEmulator == len(used) {
		t.Errorf("%d of %d calls went to the emulator, want some, and some to the simulated AWS", toEmulator, len(used))
	}
}

// changesGroup reports whether a call changes an Auto Scaling group. The group may be gone when the
// call is judged again, and its tag with it.
func changesGroup(call cloud.Call) bool {
	return call.Service == "autoscaling" && !strings.HasPrefix(call.Operation, "Describe")
}

// checkConditionsOnGroups judges, for every function and every call that changes an Auto Scaling
// group, the same call for a group with Berth's tag and for one without: its role allows the one,
// and not the other.
func checkConditionsOnGroups(t *testing.T, l *local, used map[grant]cloud.Call) {
	ctx := t.Context()
	s := newCapacityScenario(t, l, "owned")
	s.createGroup(1)
	s.await("the group's instance", func() bool { return len(s.describeGroup().Instances) == 1 })
	own := s.describeGroup()
	theirs := mustSucceed(s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{foreignGroup}}))(&s.scenario).AutoScalingGroups[0]
	functions := map[string]bool{}
	for _, g := range sortedGrants(used) {
		if !changesGroup(used[g]) || used[g].Operation == "CreateAutoScalingGroup" {
			continue
		}
		functions[g.function] = true
		for _, group := range []asgtypes.AutoScalingGroup{own, theirs} {
			call := used[g]
			form, err := url.ParseQuery(string(call.Request))
			if err != nil {
				t.Fatal(err)
			}
			for member, value := range map[string]string{
				"AutoScalingGroupName": *group.AutoScalingGroupName, "InstanceId": *group.Instances[0].InstanceId,
				"Tags.member.1.ResourceId": *group.AutoScalingGroupName,
			} {
				if form.Has(member) {
					form.Set(member, value)
				}
			}
			call.Request = []byte(form.Encode())
			if why := l.Authorize(ctx, call); (why == "") != (group.AutoScalingGroupName == own.AutoScalingGroupName) {
				t.Errorf("%s calls %s on %s: %q, want it allowed on the group with the tag alone", g.function, g.action,
					*group.AutoScalingGroupName, why)
			}
		}
	}
	if len(functions) < 2 {
		t.Errorf("only %v changed groups", functions)
	}
	setOwner := used[grant{"managed-scaling", "autoscaling:CreateOrUpdateTags"}]
	setOwner.Request = bytes.ReplaceAll(setOwner.Request, []byte("AmazonECSManaged"),
		[]byte(url.QueryEscape(handler.OwnerTag)))
	if why := l.Authorize(ctx, setOwner); why == "" || len(setOwner.Request) == 0 {
		t.Errorf("managed-scaling may set the tag of ownership: %s", setOwner.Request)
	}
}

func isDenied(err error) bool { return err != nil && strings.Contains(err.Error(), "AccessDenied") }

func sortedGrants(used map[grant]cloud.Call) []grant {
	return slices.SortedFunc(maps.Keys(used), func(a, b grant) int {
		return strings.Compare(a.function+" "+a.action, b.function+" "+b.action)
	})
}

// checkWithoutGrant removes an action from a role and begins work that needs it. The work is not
// done until the action is restored and the failed function is invoked again.
func (s *scenario) checkWithoutGrant(l *local, c *callLog, g grant, begin func(), done func() bool) {
	s.t.Helper()
	ctx := s.t.Context()
	before := len(c.callsSince(0))
	restore, err := l.RevokeAction(ctx, g.function, g.action)
	if err != nil {
		s.t.Fatal(err)
	}
	begin()
	s.await("a refusal", func() bool {
		if done() {
			s.t.Fatal("it was done all the same")
		}
		return slices.ContainsFunc(c.callsSince(before), func(call cloud.Call) bool {
			return l.Caller(call.AccessKey) == g.function && slices.Contains(call.Actions(), g.action) &&
				isRefused(call)
		})
	})
	if done() {
		s.t.Error("it was done all the same")
	}
	if err := restore(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.runRetries(l)
	s.await("it to be done", done)
}

// checkWithoutGrants removes, in turn, the actions by which functions read and write.
func checkWithoutGrants(t *testing.T, l *local, c *callLog) {
	ctx := t.Context()
	s := &scenario{t: t, tier: l, api: l.Client(), cluster: "default"}
	count := s.describeService("web").DesiredCount
	for _, g := range []grant{
		{"placement", "dynamodb:UpdateItem"}, {"placement", "dynamodb:PutItem"}, {"dispatch", "dynamodb:Query"},
		{"dispatch", "dynamodb:UpdateItem"}, {"task-state-change", "dynamodb:UpdateItem"},
	} {
		t.Run(g.function+" "+g.action, func(t *testing.T) {
			s.t = t
			count++
			s.checkWithoutGrant(l, c, g, func() {
				mustSucceed(s.api.UpdateService(ctx, &ecs.UpdateServiceInput{Service: aws.String("web"),
					DesiredCount: &count}))(s)
			}, func() bool {
				return s.describeService("web").RunningCount == count && len(s.runningTasks("web")) == int(count)
			})
		})
	}
	t.Run("throttling dynamodb:PutItem", func(t *testing.T) {
		s.t = t
		g, start := grant{"throttling", "dynamodb:PutItem"}, len(c.callsSince(0))
		s.checkWithoutGrant(l, c, g, func() {
			s.createServing("broken", nil, types.KeyValuePair{Name: aws.String("BERTH_FLEET_FAIL"),
				Value: aws.String("start")})
			// the answers also follow from the rows of tasks, so they do not show whether the
			// function has written its own
		}, func() bool {
			return slices.ContainsFunc(c.callsSince(start), func(call cloud.Call) bool {
				return l.Caller(call.AccessKey) == g.function && slices.Contains(call.Actions(), g.action) &&
					!isRefused(call)
			})
		})
	})
	t.Run("health-check dynamodb:PutItem", func(t *testing.T) {
		s.t = t
		group := mustSucceed(elb.NewFromConfig(l.SimulatedConfig()).CreateTargetGroup(ctx,
			&elb.CreateTargetGroupInput{Name: aws.String("front")}))(s).TargetGroups[0]
		s.checkWithoutGrant(l, c, grant{"health-check", "dynamodb:PutItem"}, func() {
			s.createServing("front", []types.LoadBalancer{{TargetGroupArn: group.TargetGroupArn,
				ContainerName: aws.String("front"), ContainerPort: aws.Int32(80)}})
		}, func() bool {
			_ = l.CheckHealthNow() // it fails without the action
			return s.describeService("front").Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted
		})
	})
}

// createServing creates a service of one task.
func (s *scenario) createServing(name string, behind []types.LoadBalancer, environment ...types.KeyValuePair) {
	s.t.Helper()
	ctx := s.t.Context()
	mustSucceed(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: &name, NetworkMode: types.NetworkModeBridge, ContainerDefinitions: []types.ContainerDefinition{{
			Name: &name, Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64), Essential: aws.Bool(true),
			PortMappings: []types.PortMapping{{ContainerPort: aws.Int32(80)}}, Environment: environment,
		}},
	}))(s)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: &name, TaskDefinition: &name, DesiredCount: aws.Int32(1), LoadBalancers: behind,
	}))(s)
}

func isRefused(call cloud.Call) bool {
	return call.Status >= 400 && strings.Contains(string(call.Answer), "AccessDenied")
}

// runRetries does what AWS does in time: messages become visible again, and the schedules of each
// minute run.
func (s *scenario) runRetries(l *local) {
	s.t.Helper()
	for _, schedule := range [][2]string{{"task-state-change", "sweep"}, {"dispatch", "due"}} {
		if answer, err := l.InvokeSchedule(s.t.Context(), schedule[0], schedule[1]); err != nil || answer != "null" {
			s.t.Fatalf("%s answers %s, %v", schedule[1], answer, err)
		}
	}
}
