package wire_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/state"
)

// own calls an operation of Berth's own and returns the status and the answer as a map.
func (b *berth) own(t *testing.T, op, body string) (int, map[string]any) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "Berth_20261121."+op)
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, req)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s: %v in %s", op, err, w.Body)
	}
	return w.Code, out
}

func TestRebalanceCluster(t *testing.T) {
	b := newBerth(t)
	status, out := b.own(t, "RebalanceCluster", `{"cluster":"prod"}`)
	expect(t, "status", status, 200)
	expect(t, "answer", fmt.Sprint(out), "map[cluster:prod]")
	expect(t, "the balanced cluster", b.scheduler.balanced, "prod")
	status, out = b.own(t, "RebalanceCluster", `{"cluster":"none"}`)
	expect(t, "status for an unknown cluster", status, 400)
	expect(t, "error for an unknown cluster", out["__type"], "ClusterNotFoundException")
}

func TestConfiguration(t *testing.T) {
	b := newBerth(t)
	text := `{"nodeTypes":{"Blue":{"capacities":{"connections":100},"placementProperties":{"HasSSD":"true"}}},"domainPolicy":"adaptive",` +
		`"nodeBufferPercentage":{"connections":0.2},"nodeOverbookingPercentage":{"sessions":-1},"metricBalancingThresholds":{"connections":1.5},` +
		`"metricActivityThresholds":{"connections":10},"constraintPriorities":{"placementConstraint":0,"capacity":0,"faultDomain":0,"upgradeDomain":1},` +
		`"quorumBasedReplicaDistributionPerFaultDomains":true,"quorumBasedReplicaDistributionPerUpgradeDomains":true,` +
		`"quorumBasedLogicAutoSwitch":false,"moveExistingReplicaForPlacement":false}`
	status, put := b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":`+text+`}`)
	expect(t, "status", status, 200)
	_, got := b.own(t, "DescribeClusterConfiguration", `{"cluster":"prod"}`)
	expect(t, "what was put", got["configuration"], put["configuration"])
	expect(t, "notes", fmt.Sprint(put["notes"]), "[metricBalancingThresholds and metricActivityThresholds apply to "+
		"services with the tag berth:rebalancing=on, and to berth rebalance: rebalancing.enabled is not true.]")
	t.Run("Applications", func(t *testing.T) {
		b := newBerth(t)
		text := `{"shop":{"minimumNodes":1,"maximumNodes":3,"metrics":{"m":{"maximumNodeCapacity":4,` +
			`"totalApplicationCapacity":12,"nodeReservationCapacity":2}}},"blog":{}}`
		b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":{"applications":`+text+`}}`)
		var want map[string]any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		_, got := b.own(t, "DescribeClusterConfiguration", `{"cluster":"prod"}`)
		expect(t, "what was put", got["configuration"].(map[string]any)["applications"], any(want))
	})
	t.Run("RebalancingSwitchesThresholdsOn", func(t *testing.T) {
		all := `"rebalancing":{"enabled":true,"weights":{"CPU":1,"m":0.5},"safetyLevels":{"m":0.8},` +
			`"emptyMetrics":["m"],"emptyInstances":2,"emptyOverDomains":true,"settleSeconds":1,"intervalSeconds":2,` +
			`"movesAtOnce":3,"serviceMovesAtOnce":4,"serviceShare":0.5,"windowSeconds":6,"movesInWindow":7,` +
			`"serviceMovesInWindow":8}`
		b := newBerth(t)
		_, put := b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":{`+all+`,`+
			`"metricBalancingThresholds":{"m":2}}}`)
		expect(t, "notes", put["notes"], nil)
		var want map[string]any
		if err := json.Unmarshal([]byte("{"+all+"}"), &want); err != nil {
			t.Fatal(err)
		}
		_, got := b.own(t, "DescribeClusterConfiguration", `{"cluster":"prod"}`)
		expect(t, "what was put", got["configuration"].(map[string]any)["rebalancing"], want["rebalancing"])
		for bad, says := range map[string]string{
			`"weights":{"m":-1}`:       "The balancing weight of m is -1",
			`"safetyLevels":{"m":1.5}`: "The safety level of m is 1.5",
			`"movesAtOnce":101`:        "movesAtOnce is 101, but must be between 0 and 100",
			`"serviceShare":2`:         "serviceShare is 2",
			`"emptyInstances":1`:       "name the metrics in emptyMetrics",
		} {
			status, got := b.own(t, "PutClusterConfiguration",
				`{"cluster":"prod","configuration":{"rebalancing":{`+bad+`}}}`)
			if text, _ := got["message"].(string); status != 400 || !strings.Contains(text, says) {
				t.Errorf("%s: %d, %v, expected %q", bad, status, got, says)
			}
		}
	})
	var want map[string]any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	expect(t, "round trip", got["configuration"], any(want))
	expect(t, "revision", got["revision"], any(0.0)) // the scheduler of this test counts none
	expect(t, "revision of any", b.scheduler.configured.Rev, int64(0))
	status, _ = b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":`+text+`,"revision":6}`)
	expect(t, "status", status, 200)
	expect(t, "revision to come", b.scheduler.configured.Rev, int64(7))
	_, refused := b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":{},"revision":-1}`)
	expect(t, "message", refused["message"], any("revision is -1, but must be 0 or more."))
	expect(t, "capacity", b.scheduler.configured.NodeTypes["Blue"].Capacities["connections"], int64(100))
	expect(t, "priority", b.scheduler.configured.Priorities.UpgradeDomain, cluster.Priority(1))

	for name, c := range map[string]struct{ body, code, has string }{
		"Both": {`{"nodeBufferPercentage":{"m":0.1},"nodeOverbookingPercentage":{"m":0.1}}`, invalidParameter,
			"only one of them"},
		"Percent":   {`{"nodeBufferPercentage":{"m":20}}`, invalidParameter, "fraction from 0 to 1"},
		"Less":      {`{"nodeOverbookingPercentage":{"m":-0.5}}`, invalidParameter, "-1 for no limit"},
		"Priority":  {`{"constraintPriorities":{"capacity":3}}`, invalidParameter, "between -1 and 2"},
		"Policy":    {`{"domainPolicy":"spread"}`, invalidParameter, "domain policy"},
		"Capacity":  {`{"nodeTypes":{"a":{"capacities":{"m":-1}}}}`, invalidParameter, "must not be negative"},
		"OwnMetric": {`{"nodeTypes":{"a":{"capacities":{"CPU":1}}}}`, invalidParameter, "is no metric"},
		"Unknown":   {`{"nodeBuffer":{}}`, "SerializationException", "nodeBuffer"},
		"WrongType": {`{"nodeBufferPercentage":{"m":"a"}}`, "SerializationException", "nodeBufferPercentage"},
		"Unnamed":   {`{"nodeTypes":{"a":{"capacities":{"":1}}}}`, invalidParameter, "1 to 128 characters"},
		"LongName": {`{"nodeTypes":{"` + strings.Repeat("é", 129) + `":{}}}`, invalidParameter,
			"a name of 1 to 128 characters"},
		"TypeTwice": {`{"nodeTypes":{"a":{},"a":{"capacities":{"m":1}}}}`, "SerializationException",
			"configuration.nodeTypes.a is there twice"},
		"MetricTwice": {`{"nodeBufferPercentage":{"m":0.1,"m":0.2}}`, "SerializationException", "m is there twice"},
		"TooMuch":     {`{}}`, "SerializationException", "more than one"},
		"Nothing":     {`null`, invalidParameter, "configuration must be given"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBerth(t)
			status, out := b.own(t, "PutClusterConfiguration", `{"cluster":"prod","configuration":`+c.body+`}`)
			if status != 400 || out["__type"] != c.code || !strings.Contains(out["message"].(string), c.has) {
				t.Errorf("%d %v, want %s with %q", status, out, c.code, c.has)
			}
			if b.scheduler.configured != nil {
				t.Error("something changed")
			}
		})
	}
}

func TestRules(t *testing.T) {
	b := newBerth(t)
	made := b.create(t, func(in *ecs.CreateServiceInput) {
		in.PlacementConstraints = []types.PlacementConstraint{{Type: types.PlacementConstraintTypeMemberOf,
			Expression: new("attribute:disk == ssd")}}
		in.PlacementStrategy = []types.PlacementStrategy{
			{Type: types.PlacementStrategyTypeSpread, Field: new("attribute:ecs.availability-zone")},
			{Type: types.PlacementStrategyTypeBinpack, Field: new("memory")},
		}
		in.Tags = []types.Tag{
			{Key: new("berth:constraint"), Value: new("HasSSD == true && (Tier > 2)")},
			{Key: new("berth:metrics"), Value: new("connections=10:High, sessions=3")},
			{Key: new("berth:domain-policy"), Value: new("Adaptive")},
		}
	})
	expect(t, "constraints", *made.PlacementConstraints[0].Expression, "attribute:disk == ssd")
	expect(t, "strategies", *made.PlacementStrategy[1].Field, "MEMORY")
	expect(t, "rules", b.scheduler.lastMade.Rules.Metrics,
		[]cluster.Metric{{Name: "connections", Load: 10, Weight: cluster.WeightHigh}, {Name: "sessions", Load: 3}})
	expect(t, "policy", b.scheduler.lastMade.Rules.DomainPolicy, cluster.PolicyAdaptive)
	expect(t, "constraint", b.scheduler.lastMade.Rules.NodeConstraint, "HasSSD == true && (Tier > 2)")

	name := *made.ServiceName
	status, out := b.own(t, "UpdateServiceRules",
		`{"cluster":"prod","service":"`+name+`","constraint":"","metrics":[{"name":"sessions","load":7,"weight":"Low"}],"moveCost":"high",`+
			`"scaling":"upper=9 lower=2 metric=sessions min=1 max=4"}`)
	expect(t, "status", status, 200)
	expect(t, "updated", out, map[string]any{
		"service": name, "moveCost": "High",
		"scaling": "metric=sessions lower=2 upper=9 min=1 max=4 increment=1 interval=60", "metrics": []any{map[string]any{"name": "sessions", "load": 7.0,
			"weight": "Low"}}, "domainPolicy": string(b.scheduler.lastMade.Rules.DomainPolicy),
	})
	b.scheduler.services["prod/"+name].Service.Blocked = &cluster.Diagnosis{Evaluated: 2, Unplaced: 1,
		Rejected: []cluster.Rejection{{Filter: cluster.FilterMemory, Count: 2, Need: 10, Best: 5}}}
	_, out = b.own(t, "DescribeServiceRules", `{"cluster":"prod","service":"`+name+`"}`)
	why := out["diagnosis"].(map[string]any)
	expect(t, "diagnosis", why["text"], any("0/2: 2 insufficient memory (needs 10 MiB, best free 5)"))
	expect(t, "rejected", why["rejected"], any([]any{map[string]any{"filter": "insufficient memory", "count": 2.0,
		"need": 10.0, "best": 5.0}}))
	_, out = b.own(t, "DescribeServiceRules", `{"cluster":"prod","service":"nobody"}`)
	expect(t, "missing", out["__type"], any("ServiceNotFoundException"))
}

// TestPrimaryAndSecondaryLoads: Service Fabric's description of a metric is accepted, and its
// secondary load left out.
func TestPrimaryAndSecondaryLoads(t *testing.T) {
	b := newBerth(t)
	name := *b.create(t).ServiceName
	update := func(metric string) (int, map[string]any) {
		return b.own(t, "UpdateServiceRules", `{"cluster":"prod","service":"`+name+`","metrics":[`+metric+`]}`)
	}
	status, out := update(`{"name":"io","weight":"High","primaryDefaultLoad":10,"secondaryDefaultLoad":4}`)
	expect(t, "status", status, 200)
	expect(t, "metrics", out["metrics"], any([]any{map[string]any{"name": "io", "load": 10.0, "weight": "High"}}))
	expect(t, "notes", out["notes"],
		any([]any{"Metric io: each task has the primary load, 10; the secondary load, 4, is left out."}))
	_, out = update(`{"name":"io","primaryDefaultLoad":7}`)
	expect(t, "metrics", out["metrics"], any([]any{map[string]any{"name": "io", "load": 7.0}}))
	expect(t, "notes", out["notes"], nil)
	for _, wrong := range []string{
		`{"name":"io","secondaryDefaultLoad":4}`, `{"name":"io","load":1,"primaryDefaultLoad":4}`,
		`{"name":"io","primaryDefaultLoad":-1}`, `{"name":"io","defaultLoad":4}`,
	} {
		if status, out := update(wrong); status != 400 {
			t.Errorf("%s: %d %v", wrong, status, out)
		}
	}
}

func TestNetwork(t *testing.T) {
	b := newBerth(t)
	b.create(t, func(in *ecs.CreateServiceInput) {
		in.TaskDefinition = new("awsvpc")
		in.NetworkConfiguration = &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}}}
	})
	expect(t, "made", b.scheduler.lastMade.Network, &cluster.Network{Subnets: []string{"subnet-1"},
		SecurityGroups: []string{"sg-1"}})
	_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("awsvpc"),
		NetworkConfiguration: &types.NetworkConfiguration{
			AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-2"}},
		}})
	expect(t, "running", err, nil)
	expect(t, "asked", b.scheduler.lastSpec.Network, &cluster.Network{Subnets: []string{"subnet-2"}})
}

func TestLoadsAndRows(t *testing.T) {
	b := newBerth(t)
	for range 3 {
		_, err := b.RunTask(t.Context(), &ecs.RunTaskInput{Cluster: new("prod"), TaskDefinition: new("shop")})
		expect(t, "running", err, nil)
	}
	id := b.scheduler.tasks[0].ID
	nobody := strings.Repeat("0", 32)
	_, out := b.own(t, "ReportLoad",
		`{"cluster":"prod","reports":[{"task":"`+id+`","loads":{"m":4}},{"task":"`+nobody+`","loads":{"m":4}}]}`)
	expect(t, "failures", out["failures"], any([]any{map[string]any{"arn": account.ARN("task", "prod", nobody),
		"reason": "MISSING"}}))
	expect(t, "reported", b.scheduler.reported, []cluster.LoadReport{{Task: id, Loads: map[string]int64{"m": 4}}})
	status, _ := b.own(t, "ReportLoad", `{"cluster":"prod","reports":[]}`)
	expect(t, "none", status, 400)
	expect(t, "unknown operation", must2(b.own(t, "Nothing", `{}`))["__type"], any("UnknownOperationException"))
	expect(t, "misspelt member", must2(b.own(t, "RebalanceCluster", `{"clustr":"prod"}`))["message"],
		any(`clustr is not supported: this version of Berth does not know it; did you mean "cluster"?`))
	expect(t, "member in the wrong place", must2(b.own(t, "PutClusterConfiguration",
		`{"cluster":"prod","configuration":{},"nodeTypes":{}}`))["message"], any("nodeTypes is not supported: "+
		"this version of Berth does not know it; expected cluster, configuration or revision."))
	for _, body := range []string{"[]", "null", `"prod"`, " 1"} {
		status, out := b.own(t, "DescribeClusterConfiguration", body)
		expect(t, body, fmt.Sprint(status, out["__type"], out["message"]),
			"400SerializationExceptionThe request cannot be read: expected a JSON object.")
	}
	expect(t, "misspelt operation", must2(b.own(t, "RebalanceClustr", `{}`))["message"],
		any(`"RebalanceClustr" is no operation of Berth's own API; did you mean "RebalanceCluster"?`))

	var rows []any
	next := ""
	for range 5 {
		_, out = b.own(t, "ListClusterRows", `{"cluster":"prod","nextToken":"`+next+`"}`)
		rows = append(rows, out["rows"].([]any)...)
		expect(t, "time", out["at"], any("2026-11-04T12:00:00.123Z"))
		if next, _ = out["nextToken"].(string); next == "" {
			break
		}
	}
	expect(t, "rows", len(rows), 3)
	row, err := state.DecodeRow(rows[0].(map[string]any)["sort"].(string),
		must(json.Marshal(rows[0].(map[string]any)["row"]))(t))
	expect(t, "decoded", err, nil)
	expect(t, "row", row.(*cluster.Task).ID, id)
}

func must2[A, B any](_ A, b B) B { return b }
