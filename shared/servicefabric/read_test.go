package servicefabric_test

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/servicefabric"
)

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestReadsNineNodeManifest(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, node, nodeType, fault, upgrade string
		types                                   int
	}{
		"ClusterManifest.xml": {"nine-nodes", "Node05", "NodeType05", "fd:/DC02/Rack02", "UpgradeDomain2", 9},
		"ClusterConfig.json":  {"nine-vms", "vm5", "NodeType0", "fd:/dc2/r0", "UD2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := servicefabric.Read([]byte(file(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			conf := got.Configuration
			expect(t, "name", got.Name, c.cluster)
			expect(t, "nodes", len(got.Nodes), 9)
			expect(t, "node", got.Nodes[4].Attributes(), map[string]string{
				"berth.property.NodeName": c.node, "berth.node-type": c.nodeType, "berth.fault-domain": c.fault,
				"berth.upgrade-domain": c.upgrade,
			})
			expect(t, "types", len(conf.NodeTypes), c.types)
			properties, capacities := map[string]string{}, map[string]int64{}
			for _, n := range conf.NodeTypes {
				maps.Copy(properties, n.Properties)
				maps.Copy(capacities, n.Capacities)
			}
			expect(t, "properties", properties, map[string]string{"HasSSD": "true", "NodeColor": "green",
				"SomeProperty": "5"})
			expect(t, "capacities", capacities, map[string]int64{"ClientConnections": 65536})
			expect(t, "buffer", conf.Buffer, map[string]float64{"SomeMetric": 0.15})
			expect(t, "overbooking", conf.Overbooking,
				map[string]float64{"SomeOtherMetric": 0.2, "MetricWithInfiniteOverbooking": -1})
			expect(t, "policy", conf.DomainPolicy, cluster.PolicyAdaptive)
		})
	}
	got, err := servicefabric.Read([]byte(file(t, "ClusterManifest.xml")))
	expect(t, "error", err, nil)
	expect(t, "priority", got.Configuration.Priorities, cluster.Priorities{UpgradeDomain: 1})
	expect(t, "ignored", got.Ignored,
		[]string{"PlacementAndLoadBalancing/PLBRefreshGap", "Security/ClusterCredentialType"})
}

// Everything that Berth does not take is named, once: parameters with their section, elements and
// members with their path, but not what is inside them.
func TestNamesWhatIsIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"XML": {`<ClusterManifest><NodeTypes><NodeType Name="a"><Endpoints><HttpGatewayEndpoint/></Endpoints></NodeType>
			<NodeType Name="b"><Endpoints/></NodeType></NodeTypes><Certificates><NodeList/></Certificates>
			<FabricSettings><Section Name="Hosting"><Parameter Name="Timeout" Value="1"/></Section></FabricSettings></ClusterManifest>`,
			[]string{"Certificates", "Hosting/Timeout", "NodeTypes/NodeType/Endpoints"}},
		"JSON": {`{"name": "n", "apiVersion": "10-2017", "nodes": [{"nodeName": "a", "nodeTypeRef": "t", "metadata": {}}],
			"properties": {"diagnosticsStore": {"x": 1}, "nodeTypes": [{"name": "t", "isPrimary": true}],
			"fabricSettings": [{"name": "Setup", "parameters": [{"name": "FabricDataRoot", "value": "C:"}]}]}}`,
			[]string{"Setup/FabricDataRoot", "apiVersion", "nodeTypes/isPrimary", "nodes/metadata",
				"properties/diagnosticsStore"}},
	} {
		got, err := servicefabric.Read([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, name, got.Ignored, c.want)
	}
}

// settings returns a description with sections of fabricSettings; a section is its name and then
// names and values.
func settings(sections ...[]string) string {
	text := `<ClusterManifest><NodeTypes><NodeType Name="a"/></NodeTypes><FabricSettings>`
	for _, s := range sections {
		text += `<Section Name="` + s[0] + `">`
		for i := 1; i < len(s); i += 2 {
			text += `<Parameter Name="` + s[i] + `" Value="` + s[i+1] + `"/>`
		}
		text += `</Section>`
	}
	return text + `</FabricSettings></ClusterManifest>`
}

// Metrics to defragment become metrics whose load is gathered. Where metrics ask for different
// numbers of empty nodes, the largest one counts and the others are named, as is what stands for a
// metric that is balanced.
func TestReadsDefragmentation(t *testing.T) {
	const empty, policy = "DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold",
		"DefragmentationEmptyNodeDistributionPolicy"
	for name, c := range map[string]struct {
		text    string
		want    *cluster.Rebalancing
		ignored []string
	}{
		"Number": {settings([]string{"DefragmentationMetrics", "B", "True", "A", "true", "C", "false"},
			[]string{empty, "A", "3", "B", "2", "C", "9"}, []string{policy, "A", "0", "C", "0"}),
			&cluster.Rebalancing{EmptyMetrics: []string{"A", "B"}, EmptyInstances: 3, EmptyOverDomains: true},
			[]string{policy + "/C", empty + "/B", empty + "/C"}},
		"Share": {settings([]string{"DefragmentationMetrics", "A", "true"}, []string{empty, "A", "0.25"},
			[]string{policy, "A", "1"}), &cluster.Rebalancing{EmptyMetrics: []string{"A"}, EmptyShare: 0.25}, nil},
		"OneNode": {settings([]string{"DefragmentationMetrics", "A", "true"}, []string{empty, "A", "1.0"}),
			&cluster.Rebalancing{EmptyMetrics: []string{"A"}, EmptyInstances: 1}, nil},
		"NoMetric": {settings([]string{"DefragmentationMetrics", "A", "false"}, []string{empty, "A", "2"}), nil,
			[]string{empty + "/A"}},
		"BesideBalancing": {settings([]string{"PlacementAndLoadBalancing", "LoadBalancingEnabled", "true"},
			[]string{"DefragmentationMetrics", "A", "true"}, []string{empty, "A", "2"}),
			&cluster.Rebalancing{Enabled: true, EmptyMetrics: []string{"A"}, EmptyInstances: 2}, nil},
		"NoNumber": {settings([]string{"DefragmentationMetrics", "A", "true"}),
			&cluster.Rebalancing{EmptyMetrics: []string{"A"}}, nil},
		"None": {settings([]string{"DefragmentationMetrics", "A", "true"}, []string{empty, "A", "0"}), nil,
			[]string{"DefragmentationMetrics/A"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := servicefabric.Read([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, "rebalancing", got.Configuration.Rebalancing, c.want)
			expect(t, "ignored", got.Ignored, c.ignored)
		})
	}
	for _, c := range [][]string{
		{"DefragmentationMetrics", "A", "yes"}, {empty, "A", "-0.1"}, {empty, "A", "1.5"}, {empty, "A", "NaN"},
		{empty, "A", "10001"}, {policy, "A", "2"}, {policy, "", "1"},
	} {
		if got, err := servicefabric.Read([]byte(settings(c))); err == nil {
			t.Errorf("%v is read as %+v, expected an error", c, got.Configuration.Rebalancing)
		}
	}
}

// The intervals and limits of balancing are Berth's where Berth has them. Those of placement and of
// the constraint check are named: Berth acts on changes, not at intervals.
func TestReadsIntervals(t *testing.T) {
	const section = "PlacementAndLoadBalancing"
	got, err := servicefabric.Read([]byte(settings([]string{section, "LoadBalancingEnabled", "true",
		"MinLoadBalancingInterval", "4.2", "BalancingDelayAfterNewNode", "120", "BalancingDelayAfterNodeDown", "90",
		"MovementPerPartitionThrottleThreshold", "7", "GlobalMovementThrottleThreshold", "100",
		"GlobalMovementThrottleCountingInterval", "300", "AffinityConstraintPriority", "1", "MinPlacementInterval", "1",
		"MinConstraintCheckInterval", "1"})))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "rebalancing", got.Configuration.Rebalancing, &cluster.Rebalancing{Enabled: true, IntervalSeconds: 5,
		SettleSeconds: 120, ServiceMovesInWindow: 7, MovesInWindow: 100, WindowSeconds: 300})
	expect(t, "priorities", got.Configuration.Priorities, cluster.Priorities{Affinity: 1})
	expect(t, "ignored", got.Ignored,
		[]string{section + "/MinConstraintCheckInterval", section + "/MinPlacementInterval"})
	for _, value := range []string{"-1", "soon", ""} {
		if _, err := servicefabric.Read([]byte(settings([]string{section, "BalancingDelayAfterNewNode",
			value}))); err == nil {
			t.Errorf("a delay of %q is read, expected an error", value)
		}
	}
}

// A document that is malformed or contradicts itself is refused with the line and the reason.
func TestRefusesMalformedManifests(t *testing.T) {
	manifest, config := file(t, "ClusterManifest.xml"), file(t, "ClusterConfig.json")
	for name, c := range map[string]struct {
		text, old, new string
		line           int
		reason         string
	}{
		"TypographicQuotes": {manifest, `Name="MetricWithInfiniteOverbooking" Value="-1.0"`,
			`Name=”MetricWithInfiniteOverbooking” Value=”-1.0”`, 46, "unquoted"},
		"CutOff":    {manifest, "</ClusterManifest>", "", 57, "unexpected EOF"},
		"WrongRoot": {"<ServiceManifest/>", "", "", 1, "expected ClusterManifest"},
		"NodeTwice": {manifest, `NodeName="Node02"`, `NodeName="Node01"`, 29, "line 28"},
		"TypeNowhere": {manifest, `NodeTypeRef="NodeType02"`, `NodeTypeRef="NodeTypeX"`, 29,
			`"NodeTypeX" is described nowhere`},
		"NoName":      {manifest, `NodeName="Node02"`, ``, 29, "has no name"},
		"FaultDomain": {manifest, `fd:/DC01/Rack02`, `DC01/Rack02`, 29, "expected a path such as fd:/dc1/r0"},
		"Capacity":    {manifest, `"65536"`, `"many"`, 14, `"many"`},
		"Negative":    {manifest, `"65536"`, `"-1"`, 14, `"-1"`},
		"Fraction":    {manifest, `"0.15"`, `"15"`, 42, "fraction from 0 to 1"},
		"Both":        {manifest, `"SomeOtherMetric"`, `"SomeMetric"`, 45, "only one of them"},
		"Priority": {manifest, `UpgradeDomainConstraintPriority" Value="1"`,
			`UpgradeDomainConstraintPriority" Value="9"`, 49, "from -1 to 2"},
		"MetricTwice": {manifest, `"MetricWithInfiniteOverbooking"`, `"SomeOtherMetric"`, 46,
			"on line 45 already"},
		"Threshold": {manifest, `"NodeOverbookingPercentage">`,
			`"MetricBalancingThresholds"><Parameter Name="M" Value="NaN"/>`, 44, "expected a number"},
		"NotNumber":   {manifest, `Value="0.2"`, `Value="much"`, 45, `"much"`},
		"Empty":       {" \n", "", "", 1, "empty"},
		"NothingSaid": {"{}", "", "", 1, "neither nodes nor node types"},

		"MissingBracket":  {config, "\n  ],\n  \"properties\"", "\n  \"properties\"", 70, ""},
		"WrongKind":       {config, `"nodes": [`, `"nodes": 3, "more": [`, 6, "nodes is no array"},
		"MemberTwice":     {config, `"iPAddress": "localhost"`, `"nodeName": "vm1"`, 9, "twice"},
		"NoPlainValue":    {config, `"faultDomain": "fd:/dc1/r0"`, `"faultDomain": {}`, 11, "no plain value"},
		"TypeNowhereJSON": {config, `"nodeTypeRef": "NodeType0"`, `"nodeTypeRef": "other"`, 7, "described nowhere"},
		"CapacityJSON":    {config, `"65536"`, `"1.5"`, 81, "whole number"},
		"Deep":            {strings.Repeat("[", 1<<20), "", "", 1, "nested"},
		"DeepXML":         {strings.Repeat("<a>", 100), "", "", 1, "expected ClusterManifest"},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.text
			if c.old != "" {
				if !strings.Contains(text, c.old) {
					t.Fatalf("the fixture has no %q", c.old)
				}
				text = strings.Replace(text, c.old, c.new, 1)
			}
			_, err := servicefabric.Read([]byte(text))
			var wrong *servicefabric.Error
			if !errors.As(err, &wrong) || wrong.Line != c.line || !strings.Contains(wrong.Reason, c.reason) {
				t.Errorf("%v, want line %d with %q", err, c.line, c.reason)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"ClusterManifest.xml", "ClusterConfig.json"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(`{"nodes":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := servicefabric.Read([]byte(text))
		var wrong *servicefabric.Error
		if err != nil && (!errors.As(err, &wrong) || wrong.Line < 1) {
			t.Errorf("%v has no line", err)
		}
		if err == nil && len(c.Nodes)+len(c.Configuration.NodeTypes) == 0 {
			t.Error("nothing was read, and nothing said")
		}
	})
}
