package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
)

func (v *virtual) RunSchedule(context.Context, string, string) error { return nil }

func (v *virtual) CallEKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := inlineClient{v.api}.Do(r)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(got.Body)
	return got.StatusCode, answer, err
}

func TestNodeGroupScenario(t *testing.T) {
	v := newVirtual(t)
	runNodeGroupScenario(&nodeGroupScenario{capacityScenario: newCapacityScenario(t, v, "yard"), strategy: "DEFAULT",
		failNext: func(s *capacityScenario, spoilt bool) string {
			s.failLaunches(spoilt)
			return "NodeCreationFailure"
		}})
}

// failLaunches lets EC2 run out of capacity, or ends that.
func (s *capacityScenario) failLaunches(yes bool) {
	s.t.Helper()
	tag := asgtypes.Tag{
		Key: aws.String("berth-fleet:launch-failure"), Value: aws.String("InsufficientInstanceCapacity"),
		ResourceId:   &s.group,
		ResourceType: aws.String("auto-scaling-group"), PropagateAtLaunch: aws.Bool(false),
	}
	if err := s.setGroupTag(tag, yes); err != nil {
		s.t.Fatal(err)
	}
}

// A nodeGroupScenario updates a node group.
type nodeGroupScenario struct {
	*capacityScenario
	strategy string
	// failNext lets the next update fail, or ends that, and returns the error code.
	failNext func(s *capacityScenario, spoilt bool) (code string)
}

// runNodeGroupScenario updates the nodes of a node group to another image while a service of four
// tasks runs on them. The first update fails with a code, the second is Successful.
func runNodeGroupScenario(n *nodeGroupScenario) {
	n.runSteps([]step{
		{"ANodeGroupOfTwoNodes", n.createNodeGroup},
		{"AnUpdateFailsWithItsCode", n.checkFailure},
		{"AnUpdateIsSuccessful", n.checkSuccess},
		{"ItsConfigurationIsChanged", n.changeConfiguration},
		{"Deleted", n.deleteNodeGroup},
	})
}

// callEKS calls the EKS API, which must answer with status 200, and returns a member of the answer.
func (n *nodeGroupScenario) callEKS(method, path, body, member string) map[string]any {
	n.t.Helper()
	status, answer, err := n.tier.CallEKS(n.t.Context(), method, "/clusters/"+n.cluster+"/"+path, body)
	if err != nil || status != http.StatusOK {
		n.t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	var out map[string]json.RawMessage
	var inner map[string]any
	if err := json.Unmarshal(answer, &out); err != nil {
		n.t.Fatal(err)
	}
	if err := json.Unmarshal(out[member], &inner); err != nil {
		n.t.Fatalf("%s: %v", answer, err)
	}
	return inner
}

func (n *nodeGroupScenario) nodeGroupStatus() string {
	n.t.Helper()
	g := n.callEKS(http.MethodGet, "node-groups/nodes", "", "nodegroup")
	if g["status"] == "CREATE_FAILED" {
		n.t.Fatalf("the node group is %v", g)
	}
	status, _ := g["status"].(string)
	return status
}

func (n *nodeGroupScenario) createNodeGroup() {
	n.createGroup(2)
	n.registerFamily(n.cluster, 512, 512)
	if err := n.tier.AddInstances(n.cluster, 2, "t3.medium", zones); err != nil { // outside the group
		n.t.Fatal(err)
	}
	n.await("four instances", func() bool { return len(n.instances()) == 4 })
	mustSucceed(n.api.CreateService(n.t.Context(), &ecs.CreateServiceInput{
		Cluster: &n.cluster, ServiceName: aws.String("web"), TaskDefinition: &n.cluster, DesiredCount: aws.Int32(4),
		DeploymentConfiguration: deploymentLimits(200, 50),
	}))(&n.scenario)
	n.awaitSteady("web", 4)
	made := n.callEKS(http.MethodPost, "node-groups", `{"nodegroupName": "nodes", "subnets": ["subnet-1"], "nodeRole": "arn:aws:iam::123456789012:role/nodes",
		"updateConfig": {"maxUnavailable": 2, "updateStrategy": "`+n.strategy+`"}, "tags": {"`+cluster.AutoScalingTag+`": "`+n.group+`"}}`, "nodegroup")
	if made["status"] != "CREATING" {
		n.t.Errorf("the node group is %v", made)
	}
	n.awaitUpgrade("an ACTIVE node group", func() bool { return n.nodeGroupStatus() == "ACTIVE" })
}

// awaitUpgrade waits while node-group-upgrade runs by its schedule.
func (n *nodeGroupScenario) awaitUpgrade(what string, done func() bool) {
	n.t.Helper()
	n.awaitSchedule("node-group-upgrade", "node-groups", what, done)
}

// runUpdate updates to an image and returns the update when it has ended.
func (n *nodeGroupScenario) runUpdate(image string) map[string]any {
	n.t.Helper()
	started := n.callEKS(http.MethodPost, "node-groups/nodes/update-version",
		`{"releaseVersion": "`+image+`", "clientRequestToken": "`+image+n.t.Name()+`"}`, "update")
	id, _ := started["id"].(string)
	if started["status"] != "InProgress" || id == "" {
		n.t.Fatalf("the update is %v", started)
	}
	var now map[string]any
	healthy := 4
	n.awaitUpgrade("an end of the update", func() bool {
		now = n.callEKS(http.MethodGet, "updates/"+id+"?nodegroupName=nodes", "", "update")
		healthy = min(healthy, len(n.runningTasks("web")))
		return now["status"] != "InProgress"
	})
	if healthy < 2 {
		n.t.Errorf("only %d tasks ran meanwhile", healthy)
	}
	n.awaitUpgrade("an ACTIVE node group", func() bool { return n.nodeGroupStatus() == "ACTIVE" })
	return now
}

func (n *nodeGroupScenario) checkFailure() {
	code := n.failNext(n.capacityScenario, true)
	before := n.nodesByImage()
	got := n.runUpdate("ami-2")
	n.failNext(n.capacityScenario, false)
	list, _ := got["errors"].([]any)
	if got["status"] != "Failed" || len(list) == 0 || list[0].(map[string]any)["errorCode"] != code {
		n.t.Errorf("the update is %v, want %s", got, code)
	}
	// The group is as it was, and accepts tasks.
	n.await("the sizes from before", func() bool {
		g := n.describeGroup()
		return *g.DesiredCapacity == 2 && *g.MaxSize == 6 && len(g.Instances) == 2
	})
	n.awaitSteady("web", 4)
	if after := n.nodesByImage(); after["ami-1"] != before["ami-1"] {
		n.t.Errorf("the nodes were %v and are %v", before, after)
	}
	for _, i := range n.instances() {
		if aws.ToString(i.Status) != "INACTIVE" && isCordoned(i.Attributes) {
			n.t.Errorf("node %s is still cordoned", *i.Ec2InstanceId)
		}
	}
}

// secondImage is the id of the simulated image berth-ecs-2.
const secondImage = "ami-0be47000000000002"

// nodesByImage counts the nodes by image.
func (n *nodeGroupScenario) nodesByImage() map[string]int {
	n.t.Helper()
	count := map[string]int{}
	for _, i := range n.instances() {
		for _, a := range i.Attributes {
			if *a.Name == "ecs.ami-id" && *i.Status == "ACTIVE" {
				count[*a.Value]++
			}
		}
	}
	return count
}

func (n *nodeGroupScenario) checkSuccess() {
	if got := n.runUpdate("berth-ecs-2"); got["status"] != "Successful" {
		n.t.Fatalf("the update is %v", got)
	}
	n.await("the sizes from before", func() bool {
		g := n.describeGroup()
		return *g.DesiredCapacity == 2 && *g.MaxSize == 6 && len(g.Instances) == 2
	})
	if now := n.nodesByImage(); now[secondImage] != 2 || now["ami-1"] != 0 {
		n.t.Errorf("the nodes are %v", now)
	}
	n.awaitSteady("web", 4)
	if g := n.callEKS(http.MethodGet, "node-groups/nodes", "", "nodegroup"); g["releaseVersion"] != "berth-ecs-2" {
		n.t.Errorf("the node group is %v", g)
	}
}

func (n *nodeGroupScenario) changeConfiguration() {
	n.callEKS(http.MethodPost, "node-groups/nodes/update-config",
		`{"scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 3}}`, "update")
	n.awaitUpgrade("the new sizes", func() bool {
		g := n.describeGroup()
		return *g.MinSize == 1 && *g.MaxSize == 4 && *g.DesiredCapacity == 3 && n.nodeGroupStatus() == "ACTIVE"
	})
	n.await("a third node", func() bool { return n.nodesByImage()[secondImage] == 3 })
}

func (n *nodeGroupScenario) deleteNodeGroup() {
	if g := n.callEKS(http.MethodDelete, "node-groups/nodes", "", "nodegroup"); g["status"] != "DELETING" {
		n.t.Errorf("the node group is %v", g)
	}
	n.awaitUpgrade("its end", func() bool {
		status, _, err := n.tier.CallEKS(n.t.Context(), http.MethodGet, "/clusters/"+n.cluster+"/node-groups/nodes", "")
		return err == nil && status == http.StatusNotFound
	})
}
