package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire"
)

// nodeGroups keeps node groups as the real API does, and updates nothing.
type nodeGroups struct {
	groups  map[string]*cluster.NodeGroup
	updates map[string]*cluster.Update
	made    operation.CreateNodeGroup
	changed operation.UpdateNodeGroupConfig
	version operation.UpdateNodeGroupVersion
	panics  bool
}

func (n *nodeGroups) CreateNodeGroup(_ context.Context, spec operation.CreateNodeGroup) (*cluster.NodeGroup, error) {
	n.made = spec
	g := &cluster.NodeGroup{
		Head: cluster.Head{Cluster: spec.Cluster}, Name: spec.Name, ID: "11111111-2222-3333-4444-555555555555",
		Status:    cluster.NodeGroupActive,
		CreatedAt: noon, ModifiedAt: noon, AutoScalingGroup: spec.AutoScalingGroup, Config: spec.Config,
		Tags: spec.Tags, NodeLabels: cluster.NodeLabels{Labels: spec.Labels, Taints: spec.Taints},
		Target: cluster.UpdateTarget{Image: "ami-1", ReleaseVersion: spec.ReleaseVersion}, Subnets: spec.Subnets,
		Role: spec.Role,
	}
	if spec.Sizes != nil {
		g.Sizes = *spec.Sizes
	}
	n.groups[spec.Name] = g
	return g, nil
}

func (n *nodeGroups) DescribeNodeGroup(_ context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	if n.panics {
		panic("no")
	}
	if clusterName == "busy" {
		return nil, cluster.Errorf(cluster.CodeThrottling, "Rate exceeded")
	}
	if clusterName != "prod" {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	if g := n.groups[name]; g != nil {
		return g, nil
	}
	return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No node group found for name: %s.", name)
}

func (n *nodeGroups) ListNodeGroups(_ context.Context, q operation.ListNodeGroups) ([]string, bool, error) {
	var names []string
	for name := range n.groups {
		names = append(names, name)
	}
	return page(names, q)
}

func page(names []string, q operation.ListNodeGroups) ([]string, bool, error) {
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool { return name <= q.After })
	return names[:min(len(names), q.Limit)], len(names) > q.Limit, nil
}

func (n *nodeGroups) UpdateNodeGroupConfig(
	ctx context.Context, c operation.UpdateNodeGroupConfig,
) (*cluster.Update, error) {
	n.changed = c
	return n.DescribeUpdate(ctx, c.Cluster, c.NodeGroup, updateID)
}

func (n *nodeGroups) UpdateNodeGroupVersion(
	_ context.Context, c operation.UpdateNodeGroupVersion,
) (*cluster.Update, error) {
	n.version = c
	if u := n.updates[updateID]; !u.HasEnded() {
		return nil, cluster.Errorf(cluster.CodeResourceInUse, "Nodegroup %s cannot be updated", c.NodeGroup)
	}
	return n.updates[updateID], nil
}

func (n *nodeGroups) DeleteNodeGroup(ctx context.Context, clusterName, name string) (*cluster.NodeGroup, error) {
	g, err := n.DescribeNodeGroup(ctx, clusterName, name)
	delete(n.groups, name)
	return g, err
}

func (n *nodeGroups) DescribeUpdate(_ context.Context, _, _, id string) (*cluster.Update, error) {
	if u := n.updates[id]; u != nil {
		return u, nil
	}
	return nil, cluster.Errorf(cluster.CodeResourceNotFound, "No update found for ID: %s", id)
}

func (n *nodeGroups) ListNodeGroupUpdates(_ context.Context, q operation.ListNodeGroups) ([]string, bool, error) {
	return page([]string{updateID}, q)
}

const updateID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

func newNodeGroups() *nodeGroups {
	return &nodeGroups{groups: map[string]*cluster.NodeGroup{}, updates: map[string]*cluster.Update{updateID: {
		ID: updateID, Status: cluster.UpdateFailed, Type: cluster.UpdateVersion, CreatedAt: noon,
		Params: []cluster.UpdateParam{{Type: "ReleaseVersion", Value: "ami-2"}},
		Errors: []cluster.UpdateError{{Code: cluster.PodEvictionFailure, Message: "stuck", Resources: []string{"i-1"}}},
	}}}
}

func (n *nodeGroups) TagNodeGroup(
	_ context.Context, of cluster.NodeGroupRef, set map[string]string, remove []string,
) error {
	g := n.groups[of.Name]
	maps.Copy(g.Tags, set)
	maps.DeleteFunc(g.Tags, func(key, _ string) bool { return slices.Contains(remove, key) })
	return nil
}

func (n *nodeGroups) ManagedClusters(context.Context) ([]string, error) {
	return []string{"test", "prod"}, nil
}

func (n *nodeGroups) DescribeCluster(_ context.Context, name string) (*operation.ClusterSummary, error) {
	if name != "prod" {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	return &operation.ClusterSummary{Name: name, CreatedAt: noon}, nil
}

// webARN is the ARN of the node group that createBody makes.
const webARN = "arn:aws:eks:eu-west-1:123456789012:nodegroup/prod/web/11111111-2222-3333-4444-555555555555"

// Clients send the ARN in the path escaped, and proxies may unescape it.
func TestEKS_Tags(t *testing.T) {
	b := newBerth(t, withNodeGroups(newNodeGroups()))
	call(t, b.mux, "POST", "/clusters/prod/node-groups", fmt.Sprintf(createBody, "t-1"))
	escaped := "/tags/" + url.PathEscape(webARN)
	expect(t, "set", call(t, b.mux, "POST", escaped, `{"tags":{"a":"1","b":"2"}}`).status, 200)
	expect(t, "removed", call(t, b.mux, "DELETE", "/tags/"+webARN+"?tagKeys=a&tagKeys=none", "").status, 200)
	expect(t, "tags", call(t, b.mux, "GET", escaped, "").body["tags"],
		any(map[string]any{"berth:auto-scaling-group": "asg", "b": "2"}))
}

func TestEKS_Clusters(t *testing.T) {
	b := newBerth(t, withNodeGroups(newNodeGroups()))
	expect(t, "cluster", call(t, b.mux, "GET", "/clusters/prod", "").body["cluster"], any(map[string]any{
		"name": "prod", "arn": "arn:aws:eks:eu-west-1:123456789012:cluster/prod", "status": "ACTIVE",
		"createdAt": float64(noon.UnixMilli()) / 1000, "health": map[string]any{"issues": []any{}},
	}))
	first := call(t, b.mux, "GET", "/clusters?maxResults=1", "").body
	expect(t, "first page", first["clusters"], any([]any{"prod"}))
	second := call(t, b.mux, "GET", "/clusters?maxResults=1&include=all&nextToken="+first["nextToken"].(string),
		"").body
	expect(t, "second page", second["clusters"], any([]any{"test"}))
	expect(t, "no third page", second["nextToken"], nil)
}

// An eksAnswer is the answer to one request.
type eksAnswer struct {
	status int
	kind   string // of an error
	body   map[string]any
}

func call(t *testing.T, h http.Handler, method, path, body string) eksAnswer {
	t.Helper()
	w := httptest.NewRecorder()
	models(t).Check(t, h).ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader([]byte(body))))
	out := eksAnswer{status: w.Code, kind: w.Header().Get("X-Amzn-ErrorType")}
	expect(t, "content type", w.Header().Get("Content-Type"), "application/json")
	if err := json.Unmarshal(w.Body.Bytes(), &out.body); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if out.kind != "" {
		expect(t, "code in the body", out.body["code"], any(out.kind))
	}
	return out
}

func withNodeGroups(n *nodeGroups) func(*wire.ServerOptions) {
	return func(o *wire.ServerOptions) { o.NodeGroups = n }
}

const createBody = `{"nodegroupName":"web","subnets":["subnet-1"],"nodeRole":"arn:aws:iam::123456789012:role/node","scalingConfig":{"minSize":0,"maxSize":5,"desiredSize":3},
	"updateConfig":{"maxUnavailablePercentage":50,"updateStrategy":"MINIMAL"},"labels":{"a":"b"},"releaseVersion":"ami-1",
	"tags":{"berth:auto-scaling-group":"asg"},"clientRequestToken":"%s"}`

func TestEKS_Nodegroup(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	got := call(t, b.mux, "POST", "/clusters/prod/node-groups", fmt.Sprintf(createBody, "t-1"))
	expect(t, "status", got.status, 200)
	params := n.made.Params
	n.made.Params = ""
	expect(t, "spec", n.made, operation.CreateNodeGroup{
		Cluster: "prod", Name: "web", AutoScalingGroup: "asg", Sizes: &cluster.Sizes{Max: 5, Desired: 3},
		ReleaseVersion: "ami-1",
		Config:         cluster.UpdateConfig{MaxUnavailablePercentage: 50, Strategy: cluster.UpdateMinimal},
		Subnets:        []string{"subnet-1"},
		Role:           "arn:aws:iam::123456789012:role/node", Labels: map[string]string{"a": "b"},
		Tags: map[string]string{"berth:auto-scaling-group": "asg"}, Token: "t-1",
	})
	got = call(t, b.mux, "POST", "/clusters/prod/node-groups", fmt.Sprintf(createBody, "t-2"))
	expect(t, "parameters without the token", n.made.Params, params)

	got = call(t, b.mux, "GET", "/clusters/prod/node-groups/web", "")
	group := got.body["nodegroup"].(map[string]any)
	expect(t, "arn", group["nodegroupArn"],
		any("arn:aws:eks:eu-west-1:123456789012:nodegroup/prod/web/11111111-2222-3333-4444-555555555555"))
	expect(t, "created", group["createdAt"], any(float64(noon.UnixMilli())/1000))
	expect(t, "sizes", group["scalingConfig"], any(map[string]any{"minSize": 0.0, "maxSize": 5.0, "desiredSize": 3.0}))
	expect(t, "update config", group["updateConfig"],
		any(map[string]any{"maxUnavailablePercentage": 50.0, "updateStrategy": "MINIMAL"}))
	expect(t, "groups", group["resources"],
		any(map[string]any{"autoScalingGroups": []any{map[string]any{"name": "asg"}}}))

	expect(t, "health", group["health"], any(map[string]any{"issues": []any{}}))

	failed := *n.groups["web"]
	failed.Status, failed.Target = cluster.NodeGroupCreateFailed, cluster.UpdateTarget{SourceName: "own"}
	failed.Issues = []cluster.NodeGroupIssue{{Code: cluster.IssueNoTemplate, Message: "none",
		Resources: []string{"own"}}}
	n.groups["zap"] = &failed
	group = call(t, b.mux, "GET", "/clusters/prod/node-groups/zap", "").body["nodegroup"].(map[string]any)
	expect(t, "status of one that failed", group["status"], any("CREATE_FAILED"))
	expect(t, "its launch template", group["launchTemplate"], any(map[string]any{"name": "own"}))
	expect(t, "its health", group["health"], any(map[string]any{"issues": []any{
		map[string]any{"code": "Ec2LaunchTemplateNotFound", "message": "none", "resourceIds": []any{"own"}},
	}}))

	got = call(t, b.mux, "GET", "/clusters/prod/node-groups?maxResults=1", "")
	expect(t, "first page", got.body["nodegroups"], any([]any{"web"}))
	next := got.body["nextToken"].(string)
	got = call(t, b.mux, "GET", "/clusters/prod/node-groups?nextToken="+next, "")
	expect(t, "second page", got.body, map[string]any{"nodegroups": []any{"zap"}})
	expect(t, "token of another list", call(t, b.mux, "GET", "/clusters/prod/updates?nodegroupName=web&nextToken="+next,
		"").status, 400)
	expect(t, "deleted", call(t, b.mux, "DELETE", "/clusters/prod/node-groups/web", "").status, 200)
	if n.groups["web"] != nil {
		t.Error("the node group is still there")
	}
}

func TestEKS_Update(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	got := call(t, b.mux, "POST", "/clusters/prod/node-groups/web/update-version",
		`{"launchTemplate":{"name":"own","version":"2"},"force":true,"clientRequestToken":"t"}`)
	expect(t, "status", got.status, 200)
	n.version.Params = ""
	expect(t, "change", n.version, operation.UpdateNodeGroupVersion{
		Cluster: "prod", NodeGroup: "web", Template: &cluster.TemplateRef{Name: "own", Version: "2"}, Force: true,
		Token: "t",
	})
	want := map[string]any{
		"id": updateID, "status": "Failed", "type": "VersionUpdate", "createdAt": float64(noon.UnixMilli()) / 1000,
		"params": []any{map[string]any{"type": "ReleaseVersion", "value": "ami-2"}},
		"errors": []any{map[string]any{"errorCode": "PodEvictionFailure", "errorMessage": "stuck",
			"resourceIds": []any{"i-1"}}},
	}
	expect(t, "update", got.body["update"], any(want))
	got = call(t, b.mux, "GET", "/clusters/prod/updates/"+updateID+"?nodegroupName=web", "")
	expect(t, "described", got.body["update"], any(want))
	expect(t, "listed", call(t, b.mux, "GET", "/clusters/prod/updates?nodegroupName=web", "").body,
		map[string]any{"updateIds": []any{updateID}})
	got = call(t, b.mux, "POST", "/clusters/prod/node-groups/web/update-config",
		`{"scalingConfig":{"maxSize":9},"updateConfig":{"maxUnavailable":2}}`)
	expect(t, "status", got.status, 200)
	n.changed.Params = ""
	expect(t, "change", n.changed, operation.UpdateNodeGroupConfig{
		Cluster: "prod", NodeGroup: "web", Sizes: &cluster.SizesChange{Max: new(9)},
		Config: &cluster.UpdateConfig{MaxUnavailable: 2},
	})
	got = call(t, b.mux, "POST", "/clusters/prod/node-groups/web/update-config",
		`{"labels":{"addOrUpdateLabels":{"team":"b"},"removeLabels":["old"]}}`)
	expect(t, "status", got.status, 200)
	n.changed.Params = ""
	expect(t, "change", n.changed, operation.UpdateNodeGroupConfig{Cluster: "prod", NodeGroup: "web",
		Labels: &cluster.LabelsChange{Set: map[string]string{"team": "b"}, Remove: []string{"old"}}})
}

// tainted returns the input of CreateNodegroup with taints.
func tainted(taints string) string {
	return `{"nodegroupName":"web","tags":{"berth:auto-scaling-group":"a"},"subnets":["subnet-1"],"nodeRole":"r","taints":` +
		taints + "}"
}

func TestEKS_Taints(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	want := []any{map[string]any{"key": "dedicated", "value": "gpu", "effect": "NO_SCHEDULE"},
		map[string]any{"key": "old", "effect": "NO_EXECUTE"}}
	got := call(t, b.mux, "POST", "/clusters/prod/node-groups", tainted(
		`[{"key":"dedicated","value":"gpu","effect":"NO_SCHEDULE"},{"key":"old","value":"","effect":"NO_EXECUTE"}]`))
	expect(t, "status", got.status, 200)
	taints := []cluster.Taint{{Key: "dedicated", Value: "gpu", Effect: cluster.NoSchedule},
		{Key: "old", Effect: cluster.NoExecute}}
	expect(t, "taints", n.made.Taints, taints)
	expect(t, "described", call(t, b.mux, "GET", "/clusters/prod/node-groups/web",
		"").body["nodegroup"].(map[string]any)["taints"],
		any(want))
	got = call(t, b.mux, "POST", "/clusters/prod/node-groups/web/update-config",
		`{"taints":{"addOrUpdateTaints":[{"key":"old","effect":"NO_EXECUTE"}],`+
			`"removeTaints":[{"key":"dedicated","value":"gpu","effect":"NO_SCHEDULE"}]}}`)
	expect(t, "status", got.status, 200)
	expect(t, "change", n.changed.Labels, &cluster.LabelsChange{SetTaints: taints[1:], RemoveTaints: taints[:1]})
}

func TestEKS_Errors(t *testing.T) {
	n := newNodeGroups()
	n.updates[updateID].Status = cluster.UpdateInProgress
	b := newBerth(t, withNodeGroups(n))
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		kind, text         string
	}{
		"NoCluster": {"GET", "/clusters/none/node-groups/web", "", 404, "ResourceNotFoundException",
			"No cluster found for name: none."},
		"Throttled": {"GET", "/clusters/busy/node-groups/web", "", 429, "ThrottlingException", "Rate exceeded"},
		"NoGroup": {"GET", "/clusters/prod/node-groups/web", "", 404, "ResourceNotFoundException",
			"No node group found for name: web."},
		"NoUpdate": {"GET", "/clusters/prod/updates/x?nodegroupName=web", "", 404, "ResourceNotFoundException",
			"No update found for ID: x"},
		"ClusterUpdate": {"GET", "/clusters/prod/updates/" + updateID, "", 404, "ResourceNotFoundException",
			"No update found"},
		"InUse": {"POST", "/clusters/prod/node-groups/web/update-version", "{}", 409, "ResourceInUseException",
			"cannot be updated"},
		"BadName": {"GET", "/clusters/prod/node-groups/" + strings.Repeat("x", 64), "", 400,
			"InvalidParameterException", "63"},
		"EscapedName": {"GET", "/clusters/prod/node-groups/a%2Fb", "", 400, "InvalidParameterException", "a/b"},
		"NoOperation": {"PUT", "/clusters/prod/node-groups/web", "", 403, "MissingAuthenticationTokenException",
			"Missing Authentication Token"},
		"Addons": {"GET", "/clusters/prod/addons", "", 400, "InvalidRequestException",
			"ListAddons is not supported"},
		"Unknown": {"GET", "/nothing", "", 403, "MissingAuthenticationTokenException",
			"Missing Authentication Token"},
		"MoreParts": {"GET", "/clusters/prod/node-groups/web/", "", 403, "MissingAuthenticationTokenException", ""},
		"Cancel": {"POST", "/clusters/prod/updates/" + updateID + "/cancel-update", "{}", 404,
			"ResourceNotFoundException", "No update found for ID"},
		"NoSuchCluster": {"GET", "/clusters/none", "", 404, "ResourceNotFoundException",
			"No cluster found for name: none."},
		"Include": {"GET", "/clusters?include=some", "", 400, "InvalidParameterException", "expected all"},
		"NoTags": {"POST", "/tags/" + webARN, `{"tags":{}}`, 400, "BadRequestException",
			"tags must not be empty"},
		"NoTagKeys": {"DELETE", "/tags/" + webARN, "", 400, "BadRequestException", "tagKeys"},
		"GroupTag": {"POST", "/tags/" + webARN, `{"tags":{"berth:auto-scaling-group":"b"}}`, 400,
			"BadRequestException", "cannot be changed"},
		"UntagGroup": {"DELETE", "/tags/" + webARN + "?tagKeys=berth:auto-scaling-group", "", 400,
			"BadRequestException", "cannot be removed"},
		"AWSTag": {"POST", "/tags/" + webARN, `{"tags":{"AWS:x":"b"}}`, 400, "BadRequestException", "aws:"},
		"UnknownTag": {"POST", "/tags/" + webARN, `{"tags":{"berth:x":"b"}}`, 400, "BadRequestException",
			"is not known here"},
		"ClusterTags": {"GET", "/tags/arn:aws:eks:eu-west-1:123456789012:cluster/prod", "", 400,
			"BadRequestException", "ECS API"},
		"ForeignTags": {"GET", "/tags/arn:aws:eks:eu-west-1:210987654321:nodegroup/prod/web/1", "", 400,
			"BadRequestException", "of this account"},
		"TagsOfNone": {"GET", "/tags/" + webARN, "", 404, "NotFoundException", "No node group found"},
		"AddonUpdates": {"GET", "/clusters/prod/updates?addonName=x", "", 400, "InvalidParameterException",
			"addonName"},
		"NoJSON": {"POST", "/clusters/prod/node-groups", "x", 400, "SerializationException", "JSON"},
		"UnknownMember": {"POST", "/clusters/prod/node-groups/web/update-config", `{"quantum":1}`, 400,
			"InvalidParameterException", "quantum is not supported"},
		"PageTooLarge": {"GET", "/clusters/prod/node-groups?maxResults=101", "", 400, "InvalidParameterException",
			"between 1 and 100"},
		"NothingToDo": {"POST", "/clusters/prod/node-groups/web/update-config", "{}", 400,
			"InvalidParameterException", "changes nothing"},
		"NoSizes": {"POST", "/clusters/prod/node-groups/web/update-config", `{"scalingConfig":{}}`, 400,
			"InvalidParameterException", "changes nothing"},
		"NoConfig": {"POST", "/clusters/prod/node-groups/web/update-config", `{"updateConfig":{},"scalingConfig":{}}`,
			400, "InvalidParameterException", "changes nothing"},
		"NoLabels": {"POST", "/clusters/prod/node-groups/web/update-config", `{"labels":{}}`,
			400, "InvalidParameterException", "changes nothing"},
		"LabelSetAndRemoved": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"labels":{"addOrUpdateLabels":{"a":"b"},"removeLabels":["a"]}}`,
			400, "InvalidParameterException", "in both addOrUpdateLabels and removeLabels"},
		"NamelessLabel": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"labels":{"removeLabels":[""]}}`, 400, "InvalidParameterException", "1 to 63 characters"},
		"LabelOfNoAttribute": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"labels":{"addOrUpdateLabels":{"a":"b,c"}}}`, 400, "InvalidParameterException", "cannot be an attribute"},
		"ReservedLabel": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"labels":{"addOrUpdateLabels":{"berth.unschedulable":"b"}}}`, 400, "InvalidParameterException",
			"reserved prefix"},
		"ZeroNodes": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"updateConfig":{"maxUnavailable":0}}`, 400, "InvalidParameterException", "at least 1"},
		"TwoTemplates": {"POST", "/clusters/prod/node-groups/web/update-version",
			`{"launchTemplate":{"id":"lt-1","name":"abc"}}`, 400, "InvalidParameterException",
			"either an id or a name"},
		"OnlyForce": {"POST", "/clusters/prod/node-groups/web/update-version", `{"forceProtected":true}`, 400,
			"InvalidParameterException", "needs force"},
		"VersionTooLong": {"POST", "/clusters/prod/node-groups/web/update-version",
			`{"version":"` + strings.Repeat("1", 256) + `"}`, 400, "InvalidParameterException", "version must have"},
		"ReleaseTooLong": {"POST", "/clusters/prod/node-groups/web/update-version",
			`{"releaseVersion":"` + strings.Repeat("1", 256) + `"}`, 400, "InvalidParameterException",
			"releaseVersion must have at most 255"},
		"NoAutoScaling": {"POST", "/clusters/prod/node-groups",
			`{"nodegroupName":"web","subnets":["subnet-1"],"nodeRole":"r"}`, 400, "InvalidParameterException",
			"berth:auto-scaling-group"},
		"TooManySubnets": {"POST", "/clusters/prod/node-groups",
			`{"nodegroupName":"web","nodeRole":"r","subnets":` + list(201, `"subnet-1"`) + `}`, 400,
			"InvalidParameterException", "There are 201 subnets, but at most 200 are possible."},
		"LabelTooLong": {"POST", "/clusters/prod/node-groups",
			`{"nodegroupName":"web","tags":{"berth:auto-scaling-group":"a"},"subnets":["subnet-1"],"nodeRole":"r","labels":{"a":"` + strings.Repeat("x", 64) + `"}}`, 400, "InvalidParameterException", "more than 63"},
		"NoAttribute": {"POST", "/clusters/prod/node-groups",
			`{"nodegroupName":"web","tags":{"berth:auto-scaling-group":"a"},"subnets":["subnet-1"],"nodeRole":"r","labels":{"a":""}}`, 400, "InvalidParameterException", "cannot be an attribute"},
		"TaintWithoutKey": {"POST", "/clusters/prod/node-groups", tainted(`[{"effect":"NO_SCHEDULE"}]`), 400,
			"InvalidParameterException", "cannot be the key of a taint"},
		"TaintValue": {"POST", "/clusters/prod/node-groups",
			tainted(`[{"key":"a","value":"x y","effect":"NO_SCHEDULE"}]`), 400,
			"InvalidParameterException", "cannot be the value of taint a"},
		"TaintEffect": {"POST", "/clusters/prod/node-groups", tainted(`[{"key":"a","effect":"NoSchedule"}]`), 400,
			"InvalidParameterException", `expected NO_SCHEDULE or NO_EXECUTE; did you mean "NO_SCHEDULE"?`},
		"SoftTaint": {"POST", "/clusters/prod/node-groups", tainted(`[{"key":"a","effect":"PREFER_NO_SCHEDULE"}]`),
			400, "InvalidParameterException", "PREFER_NO_SCHEDULE of taint a is not supported"},
		"TaintTwice": {"POST", "/clusters/prod/node-groups",
			tainted(`[{"key":"a","effect":"NO_EXECUTE"},{"key":"a","value":"b","effect":"NO_EXECUTE"}]`), 400,
			"InvalidParameterException", "twice with the effect NO_EXECUTE"},
		"TooManyTaints": {"POST", "/clusters/prod/node-groups",
			tainted("[" + strings.Repeat("{},", 50) + "{}]"), 400, "InvalidParameterException", "at most 50"},
		"TaintSetAndRemoved": {"POST", "/clusters/prod/node-groups/web/update-config",
			`{"taints":{"addOrUpdateTaints":[{"key":"a","effect":"NO_EXECUTE"}],` +
				`"removeTaints":[{"key":"a","value":"b","effect":"NO_EXECUTE"}]}}`,
			400, "InvalidParameterException", "in both addOrUpdateTaints and removeTaints"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, b.mux, c.method, c.path, c.body)
			expect(t, "status", got.status, c.status)
			expect(t, "kind", got.kind, c.kind)
			if message, _ := got.body["message"].(string); !strings.Contains(message, c.text) {
				t.Errorf("the message %q lacks %q", message, c.text)
			}
		})
	}
	got := call(t, b.mux, "GET", "/clusters/prod/node-groups/web", "")
	expect(t, "names", fmt.Sprint(got.body["clusterName"], got.body["nodegroupName"]), "prodweb")
	n.panics = true
	got = call(t, b.mux, "GET", "/clusters/prod/node-groups/web", "")
	expect(t, "after a panic", fmt.Sprint(got.status, " ", got.kind), "500 ServerException")

	// Without node groups the path does not exist, and with Loopback a page of another origin is
	// refused.
	w := httptest.NewRecorder()
	newBerth(t).mux.ServeHTTP(w, httptest.NewRequest("GET", "/clusters/prod/node-groups", http.NoBody))
	expect(t, "unserved", w.Code, 404)
	local := newBerth(t, withNodeGroups(n), func(o *wire.ServerOptions) { o.Loopback = true })
	expect(t, "foreign host", call(t, local.mux, "GET", "/clusters/prod/node-groups", "").kind, "AccessDeniedException")
}

// Clients read these members of every node group, whether anything was said about them or not.
func TestEKS_DefaultsOfANodeGroup(t *testing.T) {
	n := newNodeGroups()
	n.groups["bare"] = &cluster.NodeGroup{Name: "bare", Status: cluster.NodeGroupActive,
		Target: cluster.UpdateTarget{Image: "ami-1"}}
	b := newBerth(t, withNodeGroups(n))
	got, _ := call(t, b.mux, "GET", "/clusters/prod/node-groups/bare", "").body["nodegroup"].(map[string]any)
	for member, value := range map[string]any{
		"labels": map[string]any{}, "tags": map[string]any{}, "version": "", "releaseVersion": "ami-1",
		"capacityType": "ON_DEMAND", "diskSize": 20.0, "amiType": "CUSTOM", "instanceTypes": []any{},
		"subnets": []any{}, "health": map[string]any{"issues": []any{}},
		"updateConfig": map[string]any{"maxUnavailable": 1.0, "updateStrategy": "DEFAULT"},
	} {
		expect(t, member, got[member], value)
	}
	n.groups["bare"].Target.SourceTemplate = "lt-1"
	got, _ = call(t, b.mux, "GET", "/clusters/prod/node-groups/bare", "").body["nodegroup"].(map[string]any)
	expect(t, "disk size with a launch template", got["diskSize"], nil)
}
