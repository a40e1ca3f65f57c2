package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// A mistake is a request that must change nothing.
type mistake struct {
	name, operation, body string
	status                int
	code                  string
	says                  string // part of the message
}

const (
	badRequest = http.StatusBadRequest
	invalid    = "InvalidParameterException"
)

// TestBadInput sends invalid requests: each gets the documented error code, and nothing changes.
func TestBadInput(t *testing.T) {
	v := newVirtual(t)
	w := &inputTarget{virtual: v}
	w.prepare(t)
	before := w.fullState(t)
	for _, m := range w.mistakes() {
		t.Run(m.name, func(t *testing.T) {
			status, code, message := w.sendOperation(t, m.operation, m.body)
			if status != m.status || code != m.code || !strings.Contains(message, m.says) {
				t.Errorf("status %d, %s: %.300q, want %d, %s: %q", status, code, message, m.status, m.code, m.says)
			}
			if after := w.fullState(t); after != before {
				t.Errorf("it changed\n%s\nto\n%s", before, after)
			}
		})
	}
	t.Run("NothingComesOfThemLater", func(t *testing.T) {
		v.Await(func() bool { return false })
		if after := w.visibleState(t); after != w.settledState {
			t.Errorf("now there is\n%s\nand there was\n%s", after, w.settledState)
		}
	})
}

// An inputTarget is an installation with one service at rest.
type inputTarget struct {
	*virtual
	instance     string
	settledState string
}

func (w *inputTarget) prepare(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if _, err := w.EnsureCluster(ctx, "default", 1, ec2.Machine{Type: "m5.large",
		Zones: []string{"us-east-1a"}}); err != nil {
		t.Fatal(err)
	}
	w.instance = w.instanceARN(t)
	_, err := w.client.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("web"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("web"), Image: aws.String("busybox"), Cpu: 64, Memory: aws.Int32(64),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.client.CreateService(ctx, &ecs.CreateServiceInput{
		ServiceName: aws.String("web"), TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	steady := w.Await(func() bool {
		out, err := w.client.DescribeServices(ctx, &ecs.DescribeServicesInput{Services: []string{"web"}})
		return err == nil && out.Services[0].RunningCount == 1 && len(out.Services[0].Events) == 3
	})
	if !steady {
		t.Fatal("the service does not come up")
	}
	w.settledState = w.visibleState(t)
}

func (w *inputTarget) instanceARN(t *testing.T) string {
	t.Helper()
	var arn string
	ok := w.Await(func() bool {
		out, err := w.client.ListContainerInstances(t.Context(), &ecs.ListContainerInstancesInput{})
		if err == nil && len(out.ContainerInstanceArns) == 1 {
			arn = out.ContainerInstanceArns[0]
		}
		return arn != ""
	})
	if !ok {
		t.Fatal("no instance")
	}
	return arn
}

// fullState returns all that a mistake could change: the hash of Berth's history, and what ECS
// keeps.
func (w *inputTarget) fullState(t *testing.T) string {
	t.Helper()
	return w.Store.HistoryHash() + "\n" + w.visibleState(t)
}

// visibleState returns what users see, without the history.
func (w *inputTarget) visibleState(t *testing.T) string {
	t.Helper()
	var all []string
	for operation, body := range map[string]string{
		"ListClusters": `{}`, "ListTaskDefinitions": `{}`, "ListServices": `{}`,
		"DescribeServices": `{"services": ["web"]}`,
		"ListTasks":        `{}`, "ListAttributes": `{"targetType": "container-instance"}`,
		"ListContainerInstances":     `{}`,
		"DescribeContainerInstances": fmt.Sprintf(`{"containerInstances": [%q]}`, w.instance),
	} {
		status, answer := w.sendRequest(t, operation, body)
		if status != http.StatusOK {
			t.Fatalf("%s: %s", operation, answer)
		}
		all = append(all, fmt.Sprintf("%-27s %s", operation, answer))
	}
	return strings.Join(sortedLines(all), "\n")
}

func (w *inputTarget) sendRequest(t *testing.T, operation, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1/",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
	got, err := inlineClient{w.api}.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if _, err := all.ReadFrom(got.Body); err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, all.String()
}

func (w *inputTarget) sendOperation(t *testing.T, operation, body string) (status int, code, message string) {
	t.Helper()
	status, answer := w.sendRequest(t, operation, body)
	var e struct {
		Type    string `json:"__type"`
		Message string
	}
	if err := json.Unmarshal([]byte(answer), &e); err != nil {
		t.Fatalf("%v: %.200q", err, answer)
	}
	return status, e.Type, e.Message
}

// mistakes returns the requests, grouped by what is wrong with them.
func (w *inputTarget) mistakes() []mistake {
	attributes := func(n int) string {
		one := `{"name":"a%d","value":"v","targetId":"` + cluster.LastPart(w.instance) + `"}`
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(one, i)
		}
		return `{"attributes": [` + strings.Join(list, ",") + `]}`
	}
	create := func(members string) string {
		return `{"serviceName": "new", "taskDefinition": "web", ` + members + `}`
	}
	run := func(members string) string { return `{"taskDefinition": "web", ` + members + `}` }
	long := strings.Repeat("x", 2<<20)
	return []mistake{
		{"UnknownClusterCreateService", "CreateService", create(`"cluster": "nowhere", "desiredCount": 1`), badRequest,
			"ClusterNotFoundException", "Cluster not found"},
		{"UnknownClusterUpdateService", "UpdateService", `{"cluster": "nowhere", "service": "web", "desiredCount": 1}`,
			badRequest, "ClusterNotFoundException", "Cluster not found"},
		{"UnknownClusterDescribeServices", "DescribeServices", `{"cluster": "nowhere", "services": ["web"]}`,
			badRequest, "ClusterNotFoundException", "Cluster not found"},
		{"UnknownClusterRunTask", "RunTask", run(`"cluster": "nowhere"`), badRequest, "ClusterNotFoundException",
			"Cluster not found"},
		{"UnknownClusterListTasks", "ListTasks", `{"cluster": "nowhere"}`, badRequest, "ClusterNotFoundException",
			"Cluster not found"},
		{"UnknownClusterPutAttributes", "PutAttributes",
			strings.Replace(attributes(1), "{", `{"cluster": "nowhere", `, 1), badRequest, "ClusterNotFoundException",
			"Cluster not found"},
		{"UnknownService", "UpdateService", `{"service": "nothing", "desiredCount": 1}`, badRequest,
			"ServiceNotFoundException", "Service not found"},
		{"UnknownServiceDelete", "DeleteService", `{"service": "nothing", "force": true}`, badRequest,
			"ServiceNotFoundException", "Service not found"},
		{"UnknownTaskDefinition", "CreateService",
			`{"serviceName": "new", "taskDefinition": "nothing", "desiredCount": 1}`, badRequest, "ClientException",
			"TaskDefinition not found"},
		{"NoInstances", "StartTask", run(`"containerInstances": []`), badRequest, invalid, ""},

		{"NoServiceName", "CreateService", `{"taskDefinition": "web", "desiredCount": 1}`, badRequest, invalid,
			"serviceName"},
		{"NoTaskDefinition", "CreateService", `{"serviceName": "new", "desiredCount": 1}`, badRequest, invalid,
			"taskDefinition"},
		{"NoDesiredCount", "CreateService", `{"serviceName": "new", "taskDefinition": "web"}`, badRequest, invalid,
			"desiredCount"},
		{"NoService", "UpdateService", `{"desiredCount": 1}`, badRequest, invalid, "service"},
		{"NoServices", "DescribeServices", `{}`, badRequest, invalid, "services"},
		{"NoTask", "StopTask", `{}`, badRequest, invalid, "task"},
		{"NoFamily", "RegisterTaskDefinition", `{"containerDefinitions": [{"name": "x", "image": "x", "memory": 1}]}`,
			badRequest, "ClientException", "amily"},
		{"NoBody", "CreateService", ``, badRequest, invalid, "serviceName"},

		{"NumberForText", "CreateService", `{"serviceName": 5, "taskDefinition": "web", "desiredCount": 1}`, badRequest,
			"SerializationException", "serviceName"},
		{"TextForNumber", "CreateService", create(`"desiredCount": "one"`), badRequest, "SerializationException",
			"desiredCount"},
		{"FractionForNumber", "CreateService", create(`"desiredCount": 1.5`), badRequest, "SerializationException",
			"desiredCount"},
		{"TooLargeForItsType", "CreateService", create(`"desiredCount": 99999999999`), badRequest,
			"SerializationException", "desiredCount"},
		{"ListForMap", "RunTask", run(`"overrides": []`), badRequest, "SerializationException", "overrides"},
		{"MapForList", "DescribeServices", `{"services": {}}`, badRequest, "SerializationException", "services"},
		{"ListForAll", "CreateService", `[]`, badRequest, "SerializationException", "JSON object"},
		{"NoJSON", "CreateService", `{"serviceName": `, badRequest, "SerializationException", "JSON"},
		{"NoText", "CreateService", "\xff\xfe{}", badRequest, "SerializationException", "JSON"},
		{"NestedWithoutEnd", "CreateService", strings.Repeat(`{"deploymentConfiguration":`, 20_000), badRequest,
			"SerializationException", ""},
		{"TwoMegabytes", "CreateService", create(`"desiredCount": 1, "clientToken": "` + long + `"`),
			http.StatusRequestEntityTooLarge, "RequestEntityTooLargeException", "1048576"},

		{"NegativeDesiredCount", "CreateService", create(`"desiredCount": -1`), badRequest, invalid,
			"desiredCount is -1"},
		{"NegativeDesiredCountUpdate", "UpdateService", `{"service": "web", "desiredCount": -1}`, badRequest, invalid,
			"desiredCount is -1"},
		{"NegativeMinimumHealthyPercent", "UpdateService",
			`{"service": "web", "deploymentConfiguration": {"minimumHealthyPercent": -1}}`, badRequest, invalid,
			"minimumHealthyPercent is -1"},
		{"NegativeMaximumPercent", "CreateService",
			create(`"desiredCount": 1, "deploymentConfiguration": {"maximumPercent": -1}`), badRequest, invalid,
			"maximumPercent is -1"},
		{"TooMuchDesired", "UpdateService", `{"service": "web", "desiredCount": 5001}`, badRequest, invalid,
			"desiredCount is 5001"},
		{"NegativeCount", "RunTask", run(`"count": -1`), badRequest, invalid, "count is -1"},
		{"NoCount", "RunTask", run(`"count": 0`), badRequest, invalid, "count is 0"},
		{"ElevenTasks", "RunTask", run(`"count": 11`), badRequest, invalid, "count is 11"},
		{"NegativeOverride", "RunTask", run(`"overrides": {"containerOverrides": [{"name": "web", "cpu": -1}]}`),
			badRequest, invalid, "must not be negative"},
		{"NegativeMaxResults", "ListTasks", `{"maxResults": -1}`, badRequest, invalid, "maxResults is -1"},
		{"NegativeCPU", "RegisterTaskDefinition",
			`{"family": "new", "containerDefinitions": [{"name": "x", "image": "x", "memory": 1, "cpu": -1}]}`,
			badRequest, "ClientException", "ontainer"},

		{"TenThousandAttributes", "PutAttributes", attributes(10_000), badRequest, invalid, ""},
		{"ElevenAttributes", "PutAttributes", attributes(11), badRequest, invalid, ""},
		{"NameOf300", "CreateService",
			`{"serviceName": "` + long[:300] + `", "taskDefinition": "web", "desiredCount": 1}`, badRequest, invalid,
			"serviceName"},
		{"FiftyOneTags", "CreateService",
			create(`"desiredCount": 1, "tags": [` + strings.TrimSuffix(strings.Repeat(`{"key": "k", "value": "v"},`,
				51), ",") + `]`), badRequest, invalid, "51 tags"},
		{"TheSameTagTwice", "CreateService",
			create(`"desiredCount": 1, "tags": [{"key": "k", "value": "v"}, {"key": "k", "value": "w"}]`), badRequest,
			invalid, "Duplicate"},
		{"UnknownTagOfOurs", "RunTask", run(`"tags": [{"key": "berth:frob", "value": "1"}]`), badRequest, invalid,
			"berth:frob"},
		{"HundredAndOneTasks", "DescribeTasks", `{"tasks": ["` + strings.Repeat(`0123456789abcdef0123456789abcdef","`,
			100) + `0123456789abcdef0123456789abcdef"]}`, badRequest, invalid, "tasks"},

		{"NoARN", "DescribeServices", `{"services": ["arn:aws:ecs"]}`, badRequest, invalid, "Invalid identifier"},
		{"ARNOfAnotherService", "DescribeServices", `{"services": ["arn:aws:s3:::bucket"]}`, badRequest, invalid,
			"Invalid identifier"},
		{"ARNOfAnotherKind", "DescribeServices",
			`{"services": ["arn:aws:ecs:us-east-1:123456789012:task/default/0123456789abcdef0123456789abcdef"]}`,
			badRequest, invalid, "Invalid identifier"},
		{"ARNOfAnotherAccount", "UpdateService",
			`{"service": "arn:aws:ecs:us-east-1:210987654321:service/default/web", "desiredCount": 1}`, badRequest,
			invalid, "account"},
		{"ARNOfAnotherRegion", "RunTask", run(`"cluster": "arn:aws:ecs:mars-north-1:123456789012:cluster/default"`),
			badRequest, invalid, "region"},
		{"ARNOfAnotherCluster", "UpdateService",
			`{"service": "arn:aws:ecs:us-east-1:123456789012:service/other/web", "desiredCount": 1}`, badRequest,
			invalid, "cluster"},
		{"NoTaskID", "StopTask", `{"task": "../../etc/passwd"}`, badRequest, invalid, "taskId"},
		{"NoClusterName", "CreateCluster", `{"clusterName": "a b#"}`, badRequest, invalid, ""},
		{"ATokenOfNobody", "ListTasks", `{"nextToken": "AAAA"}`, badRequest, invalid, "token"},

		{"OperationNotServed", "CreateDaemon", `{}`, badRequest, "UnsupportedFeatureException", "CreateDaemon"},
		{"OperationThatIsNone", "MakeCoffee", `{}`, badRequest, "UnknownOperationException", "MakeCoffee"},
		{"MemberNotServed", "CreateService", create(`"desiredCount": 1, "monitoring": {}`),
			badRequest, "UnsupportedFeatureException", "monitoring"},
		{"LoadBalancerWithoutTargetGroup", "CreateService",
			create(`"desiredCount": 1, "loadBalancers": [{"containerName": "web"}]`), badRequest,
			"InvalidParameterException", "loadBalancers.targetGroupArn"},
	}
}

func sortedLines(lines []string) []string {
	slices.Sort(lines)
	return lines
}
