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

func (v *virtual) Look(context.Context, string, string) error { return nil }

func (v *virtual) EKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := inline{v.Server}.Do(r)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(got.Body)
	return got.StatusCode, answer, err
}

func TestNodeGroupScenario(t *testing.T) {
	v := newVirtual(t)
	runNodeGroupScenario(&nodeGroup{capacity: newCapacity(t, v, "yard"), strategy: "DEFAULT", spoil: func(s *capacity, spoilt bool) string {
		s.launchesFail(spoilt)
		return "NodeCreationFailure"
	}})
}

// launchesFail has EC2 be out of capacity, or no longer.
func (s *capacity) launchesFail(yes bool) {
	s.t.Helper()
	tag := asgtypes.Tag{
		Key: aws.String("berth-fleet:launch-failure"), Value: aws.String("InsufficientInstanceCapacity"), ResourceId: &s.group,
		ResourceType: aws.String("auto-scaling-group"), PropagateAtLaunch: aws.Bool(false),
	}
	if err := s.setTag(tag, yes); err != nil {
		s.t.Fatal(err)
	}
}

// nodeGroup is a node group under update.
type nodeGroup struct {
	*capacity
	strategy string
	// spoil has the next update fail, or no longer, and gives the code.
	spoil func(s *capacity, spoilt bool) (code string)
}

// runNodeGroupScenario updates the nodes of a node group to another image while a service of four runs on them: at first it
// is spoilt, and fails with a code; then it is Successful.
func runNodeGroupScenario(n *nodeGroup) {
	n.steps([]step{
		{"ANodeGroupOfTwoNodes", n.create},
		{"AnUpdateFailsWithItsCode", n.fails},
		{"AnUpdateIsSuccessful", n.succeeds},
		{"ItsConfigurationIsChanged", n.configure},
		{"Deleted", n.remove},
	})
}

// eks calls the EKS API, which has to answer with status 200, and gives a member of the answer.
func (n *nodeGroup) eks(method, path, body, member string) map[string]any {
	n.t.Helper()
	status, answer, err := n.tier.EKS(n.t.Context(), method, "/clusters/"+n.cluster+"/"+path, body)
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

func (n *nodeGroup) state() string {
	n.t.Helper()
	g := n.eks(http.MethodGet, "node-groups/nodes", "", "nodegroup")
	if g["status"] == "CREATE_FAILED" {
		n.t.Fatalf("the node group is %v", g)
	}
	status, _ := g["status"].(string)
	return status
}

func (n *nodeGroup) create() {
	n.machines(2)
	n.register(n.cluster, 512, 512)
	if err := n.tier.AddInstances(n.cluster, 2, "t3.medium", zones); err != nil { // which are in no group
		n.t.Fatal(err)
	}
	n.await("four instances", func() bool { return len(n.instances()) == 4 })
	must(n.api.CreateService(n.t.Context(), &ecs.CreateServiceInput{
		Cluster: &n.cluster, ServiceName: aws.String("web"), TaskDefinition: &n.cluster, DesiredCount: aws.Int32(4),
		DeploymentConfiguration: percentages(200, 50),
	}))(&n.story)
	n.steady("web", 4)
	made := n.eks(http.MethodPost, "node-groups", `{"nodegroupName": "nodes", "subnets": ["subnet-1"], "nodeRole": "arn:aws:iam::123456789012:role/nodes",
		"updateConfig": {"maxUnavailable": 2, "updateStrategy": "`+n.strategy+`"}, "tags": {"`+cluster.AutoScalingTag+`": "`+n.group+`"}}`, "nodegroup")
	if made["status"] != "CREATING" {
		n.t.Errorf("the node group is %v", made)
	}
	n.updated("an ACTIVE node group", func() bool { return n.state() == "ACTIVE" })
}

// updated waits while node-group-upgrade looks.
func (n *nodeGroup) updated(what string, done func() bool) {
	n.t.Helper()
	n.looking("node-group-upgrade", "node-groups", what, done)
}

// update updates to an image, and gives the update when it has ended.
func (n *nodeGroup) update(image string) map[string]any {
	n.t.Helper()
	started := n.eks(http.MethodPost, "node-groups/nodes/update-version", `{"releaseVersion": "`+image+`", "clientRequestToken": "`+image+n.t.Name()+`"}`, "update")
	id, _ := started["id"].(string)
	if started["status"] != "InProgress" || id == "" {
		n.t.Fatalf("the update is %v", started)
	}
	var now map[string]any
	healthy := 4
	n.updated("an end of the update", func() bool {
		now = n.eks(http.MethodGet, "updates/"+id+"?nodegroupName=nodes", "", "update")
		healthy = min(healthy, len(n.tasks("web")))
		return now["status"] != "InProgress"
	})
	if healthy < 2 {
		n.t.Errorf("only %d tasks ran meanwhile", healthy)
	}
	n.updated("an ACTIVE node group", func() bool { return n.state() == "ACTIVE" })
	return now
}

func (n *nodeGroup) fails() {
	code := n.spoil(n.capacity, true)
	before := n.nodes()
	got := n.update("ami-2")
	n.spoil(n.capacity, false)
	list, _ := got["errors"].([]any)
	if got["status"] != "Failed" || len(list) == 0 || list[0].(map[string]any)["errorCode"] != code {
		n.t.Errorf("the update is %v, want %s", got, code)
	}
	// The group is as it was, and takes tasks.
	n.await("the sizes from before", func() bool {
		g := n.asg()
		return *g.DesiredCapacity == 2 && *g.MaxSize == 6 && len(g.Instances) == 2
	})
	n.steady("web", 4)
	if after := n.nodes(); after["ami-1"] != before["ami-1"] {
		n.t.Errorf("the nodes were %v and are %v", before, after)
	}
	for _, i := range n.instances() {
		if aws.ToString(i.Status) != "INACTIVE" && hasMark(i.Attributes) {
			n.t.Errorf("node %s is still kept free of tasks", *i.Ec2InstanceId)
		}
	}
}

// secondImage is the id of the fleet's image berth-ecs-2.
const secondImage = "ami-0be47000000000002"

// nodes counts the nodes by image.
func (n *nodeGroup) nodes() map[string]int {
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

func (n *nodeGroup) succeeds() {
	if got := n.update("berth-ecs-2"); got["status"] != "Successful" {
		n.t.Fatalf("the update is %v", got)
	}
	n.await("the sizes from before", func() bool {
		g := n.asg()
		return *g.DesiredCapacity == 2 && *g.MaxSize == 6 && len(g.Instances) == 2
	})
	if now := n.nodes(); now[secondImage] != 2 || now["ami-1"] != 0 {
		n.t.Errorf("the nodes are %v", now)
	}
	n.steady("web", 4)
	if g := n.eks(http.MethodGet, "node-groups/nodes", "", "nodegroup"); g["releaseVersion"] != "berth-ecs-2" {
		n.t.Errorf("the node group is %v", g)
	}
}

func (n *nodeGroup) configure() {
	n.eks(http.MethodPost, "node-groups/nodes/update-config", `{"scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 3}}`, "update")
	n.updated("the new sizes", func() bool {
		g := n.asg()
		return *g.MinSize == 1 && *g.MaxSize == 4 && *g.DesiredCapacity == 3 && n.state() == "ACTIVE"
	})
	n.await("a third node", func() bool { return n.nodes()[secondImage] == 3 })
}

func (n *nodeGroup) remove() {
	if g := n.eks(http.MethodDelete, "node-groups/nodes", "", "nodegroup"); g["status"] != "DELETING" {
		n.t.Errorf("the node group is %v", g)
	}
	n.updated("its end", func() bool {
		status, _, err := n.tier.EKS(n.t.Context(), http.MethodGet, "/clusters/"+n.cluster+"/node-groups/nodes", "")
		return err == nil && status == http.StatusNotFound
	})
}
