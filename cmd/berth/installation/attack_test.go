package installation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// theirs is a cluster that Berth does not manage, with an Auto Scaling group of three instances
// that does not carry its tag.
const theirs, theirGroup = "payments", "payments-asg"

func withNeighbour(t *testing.T) *installation.Installation {
	t.Helper()
	i := scaled(t, nil)
	if status, answer := i.AWS.ECS.Endpoint().ServeOperation(t.Context(), "CreateCluster",
		[]byte(`{"clusterName":"payments"}`)); status != 200 {
		t.Fatalf("CreateCluster: %s", answer)
	}
	if _, err := i.AWS.Groups.AddGroup(autoscaling.GroupSpec{Name: theirGroup, Cluster: theirs,
		Machine: ec2.Machine{Type: "m5.large"}, Max: 5, Desired: 3}); err != nil {
		t.Fatal(err)
	}
	run(i, 5*time.Minute)
	return i
}

// call sends a request to the API as a client does.
func call(t *testing.T, i *installation.Installation, method, path, target, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if target != "" {
		r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+target)
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	w := httptest.NewRecorder()
	i.Server.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func theirInstances(t *testing.T, i *installation.Installation) *cluster.AutoScalingGroup {
	t.Helper()
	got, err := i.AWS.Groups.DescribeGroups(t.Context(), []string{theirGroup})
	if err != nil || len(got) != 1 {
		t.Fatalf("groups %v, %v", got, err)
	}
	return got[0]
}

// The group of another cluster cannot be emptied by naming it in a node group or a capacity
// provider.
func TestAGroupOfOthersIsOutOfReach(t *testing.T) {
	intact := func(t *testing.T, i *installation.Installation) {
		t.Helper()
		g := theirInstances(t, i)
		if g.Min != 0 || g.Max != 5 || g.Desired != 3 || len(g.Instances) != 3 || len(g.Tags) != 0 {
			t.Errorf("the group of others is %+v, want it as it was: 3 instances, no tags", g)
		}
	}
	t.Run("AsANodeGroup", func(t *testing.T) {
		i := withNeighbour(t)
		status, answer := call(t, i, http.MethodPost, "/clusters/home/node-groups", "", `{"nodegroupName":"x","subnets":["subnet-1"],"nodeRole":"r",
			"scalingConfig":{"minSize":0,"maxSize":5,"desiredSize":0},"tags":{"berth:auto-scaling-group":"payments-asg"}}`)
		if status != 200 {
			t.Fatalf("CreateNodegroup: %d %s", status, answer)
		}
		run(i, 10*time.Minute)
		_, answer = call(t, i, http.MethodGet, "/clusters/home/node-groups/x", "", "")
		if !strings.Contains(answer, "CREATE_FAILED") ||
			!strings.Contains(answer, "create-or-update-tags --tags ResourceId=payments-asg") {
			t.Errorf("the node group is %s, want it CREATE_FAILED with the command that gives Berth the group", answer)
		}
		intact(t, i)
	})
	t.Run("AsACapacityProvider", func(t *testing.T) {
		i := withNeighbour(t)
		provider := &cluster.CapacityProvider{Name: "stolen", Group: theirGroup, GroupARN: theirInstances(t, i).ARN,
			Scaling: cluster.DefaultScaling}
		provider.Scaling.Enabled = true
		if _, err := i.API.CapacityProviders.CreateCapacityProvider(t.Context(), provider); err != nil {
			t.Fatal(err)
		}
		run(i, 40*time.Minute)
		got, _, err := i.API.CapacityProviders.DescribeCapacityProviders(t.Context(), []string{"stolen"})
		if err != nil || len(got) != 1 || got[0].UpdateStatus != cluster.ProviderCreateFailed ||
			!strings.Contains(got[0].UpdateReason, handler.OwnerTag) {
			t.Errorf("the provider is %+v, %v, want it failed for lack of the tag", got, err)
		}
		intact(t, i)
	})
	t.Run("OfAnotherClusterThoughItHasTheTag", func(t *testing.T) {
		i := withNeighbour(t)
		if err := i.AWS.Groups.TagGroup(t.Context(), theirGroup, handler.OwnerTag, installation.Name); err != nil {
			t.Fatal(err)
		}
		// now a cluster of Berth's, with the instances
		if err := i.API.Clusters.ClusterCreated(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		run(i, 5*time.Minute)
		call(t, i, http.MethodPost, "/clusters/home/node-groups", "", `{"nodegroupName":"x","subnets":["subnet-1"],"nodeRole":"r",
			"scalingConfig":{"minSize":0,"maxSize":5,"desiredSize":0},"tags":{"berth:auto-scaling-group":"payments-asg"}}`)
		run(i, 10*time.Minute)
		if _, answer := call(t, i, http.MethodGet, "/clusters/home/node-groups/x", "", ""); !strings.Contains(answer,
			"has registered with cluster payments") {
			t.Errorf("the node group is %s, want it failed for its instances", answer)
		}
		if g := theirInstances(t, i); g.Desired != 3 || len(g.Instances) != 3 {
			t.Errorf("the group of another cluster is %+v, want 3 instances", g)
		}
	})
}

// A group that was in use before it needed a tag is only read; an event says so, with the command,
// and nothing else changes.
func TestAGroupWithoutTheTagIsOnlyRead(t *testing.T) {
	i := scaled(t, nil)
	create(t, i, 8)
	run(i, 10*time.Minute)
	settled(t, i, 8, 2)
	if err := i.AWS.Groups.TagGroup(t.Context(), "group", handler.OwnerTag, "somebody-else"); err != nil {
		t.Fatal(err)
	}
	desired(t, i, 16)
	run(i, 30*time.Minute)
	settled(t, i, 8, 2)
	got, _, err := i.API.Services.DescribeServices(t.Context(), home, []string{"web"})
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, e := range got[0].EventLog {
		if strings.Contains(e.Message, "aws autoscaling create-or-update-tags --tags ResourceId=group,") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d events say that the group is only read, want 1", said)
	}
	if err := i.AWS.Groups.TagGroup(t.Context(), "group", handler.OwnerTag, installation.Name); err != nil {
		t.Fatal(err)
	}
	run(i, 20*time.Minute)
	settled(t, i, 16, 4)
}

// Nothing that another account reports becomes inventory.
func TestAnInstanceOfAnotherAccountIsNoInventory(t *testing.T) {
	i := scaled(t, nil)
	event := func(account, id string) []byte {
		return []byte(fmt.Sprintf(`{"source":"berth.fleet","detail-type":"ECS Container Instance State Change","id":"e","account":%q,"region":"eu-west-1",
			"time":"2026-11-21T09:00:00Z","detail":{"status":"ACTIVE","agentConnected":true,"version":9,"runningTasksCount":0,"pendingTasksCount":0,
			"clusterArn":"arn:aws:ecs:eu-west-1:%s:cluster/home","containerInstanceArn":"arn:aws:ecs:eu-west-1:%s:container-instance/home/%s",
			"registeredResources":[{"name":"CPU","type":"INTEGER","integerValue":99999},{"name":"MEMORY","type":"INTEGER","integerValue":99999}],
			"remainingResources":[]}}`, account, account, account, id))
	}
	for account, id := range map[string]string{"999999999999": "foreign", "123456789012": "own"} {
		if err := i.Runtime.PutEvent(event(account, id)); err != nil {
			t.Fatal(err)
		}
	}
	run(i, time.Minute)
	for id, known := range map[string]bool{"foreign": false, "own": true} {
		row, err := i.Store.Get(t.Context(), state.InstanceKey(home, id))
		if got, ok := row.(*cluster.Instance); err != nil || (ok && got != nil) != known {
			t.Errorf("instance %s: %+v, %v, want known %v", id, row, err, known)
		}
	}
}

// A load that comes on the default bus, where everyone in the account may put events, changes
// nothing.
func TestAForgedLoadReportChangesNothing(t *testing.T) {
	i := scaled(t, nil)
	one := 1
	if _, err := i.API.Services.CreateService(t.Context(), operation.CreateService{
		Cluster: home, Name: "web", TaskDefinition: "web", Desired: &one,
		Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: 1}}},
	}); err != nil {
		t.Fatal(err)
	}
	run(i, 10*time.Minute)
	page, err := i.API.Tasks.ListTasks(t.Context(), operation.ListTasks{Cluster: home, Limit: 10})
	ids := page.IDs
	if err != nil || len(ids) != 1 {
		t.Fatalf("tasks %v, %v", ids, err)
	}
	report := func(load int) []byte {
		return []byte(fmt.Sprintf(`{"source":"berth.load","detail-type":"Task Load Report","id":"e","account":"123456789012","region":"eu-west-1",
			"time":%q,"detail":{"taskArn":"arn:aws:ecs:eu-west-1:123456789012:task/home/%s","loads":{"connections":%d}}}`, i.Loop.Now().Format(time.RFC3339), ids[0], load))
	}
	reported := func() string {
		tasks, _, err := i.API.Tasks.DescribeTasks(t.Context(), home, ids)
		if err != nil || len(tasks) != 1 {
			t.Fatalf("tasks %v, %v", tasks, err)
		}
		text, err := json.Marshal(tasks[0].Reported)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := i.Runtime.PutEvent(report(1_000_000)); err != nil {
		t.Fatal(err)
	}
	run(i, time.Minute)
	if got := reported(); got != "null" {
		t.Errorf("after a report on the default bus: %s, want none", got)
	}
	if err := i.Runtime.PutEventOn("LoadBus", report(7)); err != nil {
		t.Fatal(err)
	}
	run(i, time.Minute)
	if got := reported(); got != `{"connections":7}` {
		t.Errorf("after a report on its bus: %s, want 7 connections", got)
	}
}

// An ECS cluster that Berth does not manage is out of reach of the operations that are forwarded.
func TestAClusterOfOthersCannotBeDrained(t *testing.T) {
	i := withNeighbour(t)
	ids, err := i.AWS.ECS.ListInstances(t.Context(), theirs)
	if err != nil || len(ids) != 3 {
		t.Fatalf("instances %v, %v", ids, err)
	}
	body := fmt.Sprintf(`{"cluster":"payments","containerInstances":[%q],"status":"DRAINING"}`, ids[0])
	status, answer := call(t, i, http.MethodPost, "/", "UpdateContainerInstancesState", body)
	if status != 400 || !strings.Contains(answer, "ClusterNotFoundException") {
		t.Errorf("draining an instance of others: %d %s, want a ClusterNotFoundException", status, answer)
	}
	all, err := i.AWS.ECS.DescribeInstances(t.Context(), theirs, ids)
	if err != nil || len(all) != 3 || all[0].Status != cluster.InstanceActive {
		t.Errorf("instances of others: %+v, %v, want all ACTIVE", all, err)
	}
}
