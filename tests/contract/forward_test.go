package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
	"berth/tests/cloud"
	"berth/tests/ministack"
)

// A recorder sends requests and records which operations succeeded.
type recorder struct {
	mu     sync.Mutex
	called map[string]bool
}

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(request)
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	if err == nil && resp.StatusCode == http.StatusOK {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.called == nil {
			r.called = map[string]bool{}
		}
		r.called[operation] = true
	}
	return resp, err
}

// withoutClause are the operations that no clause calls. Moto does not have them; shared/sim has
// tests of the fleet's.
var withoutClause = map[string]bool{"UpdateClusterSettings": true, "UpdateContainerAgent": true}

// checkEveryOperation fails for each ECS action that template.yaml grants to a function and that
// the suite never called.
func (r *recorder) checkEveryOperation(t *testing.T) {
	root, err := ministack.ProjectRoot()
	if err != nil {
		t.Fatal(err)
	}
	functions, err := cloud.FunctionFolders(root)
	if err != nil || len(functions) == 0 {
		t.Fatalf("functions %v, %v", functions, err)
	}
	for _, function := range functions {
		granted, err := cloud.GrantedActions(root, function)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range granted {
			if operation, is := strings.CutPrefix(action, "ecs:"); is && !r.called[operation] &&
				!withoutClause[operation] {
				t.Errorf("%s may call %s, which has no clause", function, operation)
			}
		}
	}
}

// forwardAndDecode forwards an operation and decodes its answer.
func forwardAndDecode[T any](s *ecsSuite, operation, format string, args ...any) (out T, err error) {
	text, err := s.forwardOperation(operation, format, args...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &out)
	}
	return out, err
}

type namedCluster struct{ ClusterName, ClusterArn, Status string }

type oneCluster struct{ Cluster namedCluster }

func (s *ecsSuite) clusterClauses() []clause {
	return []clause{
		{"AClusterIsMadeShownAndDeleted", func() error {
			made, err := forwardAndDecode[oneCluster](s, "CreateCluster", `{"clusterName": "passing"}`)
			shown, err2 := forwardAndDecode[struct{ Clusters []namedCluster }](s, "DescribeClusters",
				`{"clusters": ["passing"]}`)
			listed, err3 := forwardAndDecode[struct{ ClusterArns []string }](s, "ListClusters", `{}`)
			deleted, err4 := forwardAndDecode[oneCluster](s, "DeleteCluster", `{"cluster": "passing"}`)
			if err := errors.Join(err, err2, err3, err4); err != nil {
				return err
			}
			if len(shown.Clusters) != 1 || shown.Clusters[0] != made.Cluster || made.Cluster.Status != "ACTIVE" {
				return fmt.Errorf("made %+v, shown %+v", made, shown)
			}
			return errors.Join(checkEqual("its being listed",
				slices.Contains(listed.ClusterArns, made.Cluster.ClusterArn), true),
				checkEqual("the one deleted", deleted.Cluster.ClusterName, "passing"))
		}},
		{"AClusterThatIsNotThereIsAFailure", func() error {
			shown, err := forwardAndDecode[struct{ Failures []struct{ Reason string } }](s, "DescribeClusters",
				`{"clusters": ["nowhere"]}`)
			if err != nil || len(shown.Failures) != 1 || shown.Failures[0].Reason != "MISSING" {
				return fmt.Errorf("%+v, %w", shown, err)
			}
			return nil
		}},
		{"AnAgentFindsItsEndpoint", func() error {
			got, err := forwardAndDecode[struct{ Endpoint, TelemetryEndpoint string }](s, "DiscoverPollEndpoint",
				`{"cluster": %q}`, home)
			if err != nil || got.Endpoint == "" || got.TelemetryEndpoint == "" {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
		{"AClustersSettingsChange", func() error {
			type settings struct {
				Cluster struct {
					Settings []struct{ Name, Value string }
				}
			}
			got, err := forwardAndDecode[settings](s, "UpdateCluster",
				`{"cluster": %q, "settings": [{"name": "containerInsights", "value": "enabled"}]}`, home)
			if err != nil || len(got.Cluster.Settings) != 1 || got.Cluster.Settings[0].Value != "enabled" {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
	}
}

type oneDefinition struct {
	TaskDefinition struct {
		TaskDefinitionArn, Family, Status string
		Revision                          int
	}
}

func (s *ecsSuite) definitionClauses() []clause {
	const body = `{"family": "passing", "containerDefinitions": [{"name": "app", "image": "nginx", "memory": 64, "cpu": 64}]}`
	return []clause{
		{"RevisionsAreCounted", func() error {
			for want := 1; want <= 2; want++ {
				got, err := forwardAndDecode[oneDefinition](s, "RegisterTaskDefinition", body)
				if err != nil || got.TaskDefinition.Revision != want || got.TaskDefinition.Status != "ACTIVE" {
					return fmt.Errorf("%+v, %w", got, err)
				}
			}
			families, err := forwardAndDecode[struct{ Families []string }](s, "ListTaskDefinitionFamilies",
				`{"familyPrefix": "pass"}`)
			listed, err2 := forwardAndDecode[struct{ TaskDefinitionArns []string }](s, "ListTaskDefinitions",
				`{"familyPrefix": "passing"}`)
			return errors.Join(err, err2, checkEqual("the families", fmt.Sprint(families.Families), "[passing]"),
				checkEqual("how many revisions are listed", len(listed.TaskDefinitionArns), 2))
		}},
		{"ADeregisteredRevisionIsInactive", func() error {
			got, err := forwardAndDecode[oneDefinition](s, "DeregisterTaskDefinition",
				`{"taskDefinition": "passing:1"}`)
			if err != nil {
				return err
			}
			d, err := s.adapter.DescribeTaskDefinition(s.ctx, "passing:1")
			if err != nil {
				return err
			}
			return errors.Join(checkEqual("its status", got.TaskDefinition.Status, "INACTIVE"),
				checkEqual("its being inactive", d.Inactive, true))
		}},
		{"OnlyAnInactiveRevisionIsDeleted", func() error {
			type deleted struct {
				TaskDefinitions []struct{ TaskDefinitionArn, Status string }
				Failures        []struct{ Reason string }
			}
			got, err := forwardAndDecode[deleted](s, "DeleteTaskDefinitions",
				`{"taskDefinitions": ["passing:1", "passing:2"]}`)
			if err != nil || len(got.TaskDefinitions) != 1 || len(got.Failures) != 1 ||
				!strings.HasSuffix(got.TaskDefinitions[0].TaskDefinitionArn, "passing:1") {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
	}
}

type arnLists struct{ ContainerInstanceArns, TaskArns []string }

type attributes struct {
	Attributes []struct{ Name, Value, TargetID string }
}

func (s *ecsSuite) instanceClauses() []clause {
	return []clause{
		{"InstancesAreListedByStatus", func() error {
			got, err := forwardAndDecode[arnLists](s, "ListContainerInstances", `{"cluster": %q, "status": "ACTIVE"}`,
				home)
			all, err2 := s.adapter.ListInstances(s.ctx, home)
			draining, err3 := forwardAndDecode[arnLists](s, "ListContainerInstances",
				`{"cluster": %q, "status": "DRAINING"}`, home)
			return errors.Join(err, err2, err3,
				checkEqual("the sum", len(got.ContainerInstanceArns)+len(draining.ContainerInstanceArns), len(all)))
		}},
		{"AttributesAreDeleted", func() error {
			_, err := s.forwardOperation("PutAttributes", `{"cluster": %q, "attributes": [{"name": "rack", "value": "r1",
				"targetType": "container-instance", "targetId": %q}]}`, home, s.instances[1])
			before, err2 := s.adapter.DescribeInstances(s.ctx, home, s.instances[1:2])
			_, err3 := s.forwardOperation("DeleteAttributes", `{"cluster": %q, "attributes": [{"name": "rack", "value": "r1",
				"targetType": "container-instance", "targetId": %q}]}`, home, s.instances[1])
			after, err4 := s.adapter.DescribeInstances(s.ctx, home, s.instances[1:2])
			if err := errors.Join(err, err2, err3, err4); err != nil || len(before) != 1 || len(after) != 1 {
				return fmt.Errorf("%d and %d instances, %w", len(before), len(after), err)
			}
			return errors.Join(checkEqual("the attribute", before[0].Attributes["rack"], "r1"),
				checkEqual("the attribute afterwards", after[0].Attributes["rack"], ""))
		}},
		{"AttributesAreListedByName", func() error {
			_, err := s.forwardOperation("PutAttributes", `{"cluster": %q, "attributes": [{"name": "row", "value": "7",
				"targetType": "container-instance", "targetId": %q}]}`, home, s.instances[1])
			got, err2 := forwardAndDecode[attributes](s, "ListAttributes",
				`{"cluster": %q, "targetType": "container-instance", "attributeName": "row"}`, home)
			if err := errors.Join(err, err2); err != nil || len(got.Attributes) != 1 ||
				got.Attributes[0].Value != "7" ||
				!strings.HasSuffix(got.Attributes[0].TargetID, s.instances[1]) {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
		{"ATagIsTakenOff", func() error {
			arn := "arn:aws:ecs:" + region + ":123456789012:cluster/" + home
			_, err := s.forwardOperation("TagResource", `{"resourceArn": %q, "tags": [{"key": "short", "value": "x"}]}`,
				arn)
			_, err2 := s.forwardOperation("UntagResource", `{"resourceArn": %q, "tagKeys": ["short"]}`, arn)
			tags, err3 := s.forwardOperation("ListTagsForResource", `{"resourceArn": %q}`, arn)
			return errors.Join(err, err2, err3, checkEqual("the tag's being there", strings.Contains(tags, `"short"`),
				false))
		}},
		{"AnInstanceIsRegisteredByItsMachineAndDeregistered", func() error {
			name := "coming-and-going"
			if _, err := s.client.CreateCluster(s.ctx, &ecs.CreateClusterInput{ClusterName: &name}); err != nil {
				return err
			}
			document, err := s.machine()
			if err != nil {
				return err
			}
			type registered struct {
				ContainerInstance struct{ ContainerInstanceArn, Status string }
			}
			got, err := forwardAndDecode[registered](s, "RegisterContainerInstance", `{"cluster": %q, "instanceIdentityDocument": %q,
				"totalResources": [{"name": "CPU", "type": "INTEGER", "integerValue": 2048},
					{"name": "MEMORY", "type": "INTEGER", "integerValue": 4096}]}`, name, document)
			if err != nil || got.ContainerInstance.Status != "ACTIVE" {
				return fmt.Errorf("%+v, %w", got, err)
			}
			id := cluster.LastPart(got.ContainerInstance.ContainerInstanceArn)
			shown, err := forwardAndDecode[struct{ ContainerInstances []struct{ Status string } }](s,
				"DescribeContainerInstances",
				`{"cluster": %q, "containerInstances": [%q]}`, name, id)
			_, err2 := s.client.DeregisterContainerInstance(s.ctx, &ecs.DeregisterContainerInstanceInput{
				Cluster: &name, ContainerInstance: &id, Force: aws.Bool(true),
			})
			left, err3 := s.adapter.ListInstances(s.ctx, name)
			return errors.Join(err, err2, err3, checkEqual("how many were described", len(shown.ContainerInstances), 1),
				checkEqual("how many are left", len(left), 0))
		}},
		{"TasksAreListedByInstanceAndFamily", func() error {
			id, err := s.startedTask()
			if err != nil {
				return err
			}
			byInstance, err := forwardAndDecode[arnLists](s, "ListTasks", `{"cluster": %q, "containerInstance": %q}`,
				home, s.instances[1])
			byFamily, err2 := forwardAndDecode[arnLists](s, "ListTasks", `{"cluster": %q, "family": "web"}`, home)
			none, err3 := forwardAndDecode[arnLists](s, "ListTasks", `{"cluster": %q, "family": "passing"}`, home)
			has := func(arn string) bool { return strings.HasSuffix(arn, id) }
			return errors.Join(err, err2, err3, checkEqual("its being on its instance",
				slices.ContainsFunc(byInstance.TaskArns, has), true),
				checkEqual("its being of its family", slices.ContainsFunc(byFamily.TaskArns, has), true),
				checkEqual("how many another family has", len(none.TaskArns), 0))
		}},
		{"DescribeTasksNamesWhatIsMissing", func() error {
			got, err := forwardAndDecode[struct{ Failures []struct{ Reason string } }](s, "DescribeTasks",
				`{"cluster": %q, "tasks": [%q]}`,
				home, strings.Repeat("0", 32))
			if err != nil || len(got.Failures) != 1 || got.Failures[0].Reason != "MISSING" {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
	}
}
