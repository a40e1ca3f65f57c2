package definition

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/cmd/berth/client"
	"berth/shared/cluster"
	"berth/shared/servicefabric"
	"berth/shared/wire/berthapi"
)

// Change is one difference between the description and the cluster.
type Change struct {
	Action string `json:"action"` // add, change, remove
	What   string `json:"what"`   // cluster, configuration, instance
	Name   string `json:"name"`   // setting, attribute or node
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
}

// String returns the change as a line: "+ cluster prod", "~ instance Node01 berth.node-type A ->
// B".
func (c Change) String() string {
	switch c.Action {
	case "add":
		return strings.TrimSpace(fmt.Sprintf("+ %s %s %s", c.What, c.Name, c.To))
	case "remove":
		return strings.TrimSpace(fmt.Sprintf("- %s %s %s", c.What, c.Name, c.From))
	}
	return fmt.Sprintf("~ %s %s %s -> %s", c.What, c.Name, c.From, c.To)
}

// Size is what a registered instance has: ECS CPU units and MiB of memory.
type Size struct{ CPU, Memory int }

// Plan is what has to change for a cluster to match a description.
type Plan struct {
	Changes []Change
	// Absent are the nodes without an instance.
	Absent []servicefabric.Node
	// Notes say what of the new configuration has no effect. They are known after ApplyChanges.
	Notes []string

	cluster       string
	create        bool
	configure     bool
	configuration *berthapi.Configuration
	revision      *int64 // of the configuration that it was compared with
	attributes    []attribute
}

// attribute is one attribute of an instance, as ECS has it. TargetID is the instance, in
// PutAttributes only.
type attribute struct {
	Name     string `json:"name"`
	Value    string `json:"value,omitempty"`
	TargetID string `json:"targetId,omitempty"`
}

// instance is what ECS says about one.
type instance struct {
	ARN        string      `json:"containerInstanceArn"`
	EC2        string      `json:"ec2InstanceId"`
	Attributes []attribute `json:"attributes"`
}

// attributeValue returns the value of an attribute, and whether the instance has it.
func (i *instance) attributeValue(name string) (string, bool) {
	at := slices.IndexFunc(i.Attributes, func(a attribute) bool { return a.Name == name })
	if at < 0 {
		return "", false
	}
	return i.Attributes[at].Value, true
}

// isNode reports whether the instance is the node. The name in its attributes decides; without one,
// its own id or its EC2 instance id.
func (i *instance) isNode(node string) bool {
	if name, ok := i.attributeValue(cluster.PropertyPrefix + "NodeName"); ok {
		return name == node
	}
	return i.EC2 == node || cluster.LastPart(i.ARN) == node
}

// PlanChanges returns what must change for the cluster to match the description. It changes
// nothing. A cluster that does not exist is planned to be created.
func PlanChanges(
	ctx context.Context, c *client.Client, clusterName string, want *servicefabric.Cluster,
) (*Plan, error) {
	p := &Plan{cluster: clusterName, configuration: berthapi.ConfigurationOf(&want.Configuration)}
	active, err := clusterExists(ctx, c, clusterName)
	if err != nil {
		return nil, err
	}
	var have berthapi.ConfigurationOutput
	var instances []*instance
	if active {
		if err := c.CallBerth(ctx, "DescribeClusterConfiguration", berthapi.ClusterInput{Cluster: clusterName},
			&have); err != nil {
			return nil, err
		}
		if instances, err = listInstances(ctx, c, clusterName); err != nil {
			return nil, err
		}
	} else {
		p.create = true
		p.Changes = append(p.Changes, Change{Action: "add", What: "cluster", Name: clusterName})
	}
	p.revision = have.Revision
	p.compareConfiguration(have.Configuration)
	for _, n := range want.Nodes {
		p.compareNode(n, instances)
	}
	return p, nil
}

// clusterExists reports whether the cluster is ACTIVE. ECS keeps deleted clusters as INACTIVE for a
// while.
func clusterExists(ctx context.Context, c *client.Client, name string) (bool, error) {
	var out struct {
		Clusters []struct {
			Status string `json:"status"`
		} `json:"clusters"`
	}
	if err := c.CallECS(ctx, "DescribeClusters", map[string]any{"clusters": []string{name}}, &out); err != nil {
		return false, err
	}
	return len(out.Clusters) > 0 && out.Clusters[0].Status == "ACTIVE", nil
}

// describePage is the most instances that one DescribeContainerInstances accepts.
const describePage = 100

// listInstances reads all instances of the cluster, page by page.
func listInstances(ctx context.Context, c *client.Client, clusterName string) (out []*instance, err error) {
	for token := ""; ; {
		in := map[string]any{"cluster": clusterName, "maxResults": describePage}
		if token != "" {
			in["nextToken"] = token
		}
		var page struct {
			ARNs []string `json:"containerInstanceArns"`
			Next string   `json:"nextToken"`
		}
		if err := c.CallECS(ctx, "ListContainerInstances", in, &page); err != nil {
			return nil, err
		}
		if len(page.ARNs) > 0 {
			var described struct {
				Instances []*instance `json:"containerInstances"`
			}
			if err := c.CallECS(ctx, "DescribeContainerInstances",
				map[string]any{"cluster": clusterName, "containerInstances": page.ARNs}, &described); err != nil {
				return nil, err
			}
			out = append(out, described.Instances...)
		}
		if token = page.Next; token == "" {
			return out, nil
		}
	}
}

// compareConfiguration adds a change for each setting that differs. One difference replaces the
// whole configuration.
func (p *Plan) compareConfiguration(have *berthapi.Configuration) {
	was, is := flattenConfiguration(have), flattenConfiguration(p.configuration)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		before, had := was[name]
		after, has := is[name]
		action := "change"
		switch {
		case before == after && had == has:
			continue
		case !had:
			action = "add"
		case !has:
			action = "remove"
		}
		p.Changes = append(p.Changes, Change{action, "configuration", name, before, after})
		p.configure = true
	}
}

// flattenConfiguration returns a configuration with one entry per setting, such as
// nodeTypes.NodeType01.capacities.connections: 100.
func flattenConfiguration(c *berthapi.Configuration) map[string]string {
	out := map[string]string{}
	data, err := json.Marshal(c) // plain data cannot fail
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // keeps numbers as they were written
	if err != nil || d.Decode(&v) != nil {
		return out
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			for name, inner := range m {
				walk(strings.TrimPrefix(path+"."+name, "."), inner)
			}
			return
		}
		if m, ok := v.(map[string]any); ok && len(m) == 0 {
			v = "" // a node type without properties
		}
		out[path] = fmt.Sprint(v)
	}
	for name, inner := range v {
		walk(name, inner)
	}
	return out
}

// compareNode adds the attributes that the node's instance lacks, or notes that the node has none.
// Attributes that the description does not mention stay.
func (p *Plan) compareNode(n servicefabric.Node, instances []*instance) {
	at := slices.IndexFunc(instances, func(i *instance) bool { return i.isNode(n.Name) })
	if at < 0 {
		p.Absent = append(p.Absent, n)
		return
	}
	i := instances[at]
	wanted := n.Attributes()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value := wanted[name]
		was, had := i.attributeValue(name)
		if had && was == value {
			continue
		}
		action := "change"
		if !had {
			action = "add"
		}
		p.Changes = append(p.Changes, Change{Action: action, What: "instance", Name: n.Name + " " + name, From: was,
			To: value})
		p.attributes = append(p.attributes, attribute{Name: name, Value: value, TargetID: cluster.LastPart(i.ARN)})
	}
}

// RegisterAbsent adds an instance to the plan for each node without one.
func (p *Plan) RegisterAbsent() {
	for _, n := range p.Absent {
		p.Changes = append(p.Changes, Change{Action: "add", What: "instance", Name: n.Name, To: describeNode(n)})
	}
}

// describeNode returns a node's type, and its domains if it has any.
func describeNode(n servicefabric.Node) string {
	return strings.Join(slices.DeleteFunc([]string{n.Type, n.FaultDomain, n.UpgradeDomain},
		func(s string) bool { return s == "" }), " ")
}

// attributesPerCall is the most attributes that one PutAttributes accepts.
const attributesPerCall = 10

// ApplyChanges makes the changes: the cluster, its configuration, the attributes of instances, and
// if size is not nil an instance for each absent node. It stops at the first error, which also is that the
// configuration has changed since the plan was made; a new plan then continues. progress is called after each
// step.
func (p *Plan) ApplyChanges(ctx context.Context, c *client.Client, size *Size, progress func(done, of int)) error {
	steps := []func() error{}
	if p.create {
		steps = append(steps, func() error {
			return c.CallECS(ctx, "CreateCluster", map[string]any{"clusterName": p.cluster}, nil)
		})
	}
	if p.configure {
		steps = append(steps, func() error {
			var out berthapi.ConfigurationOutput
			in := berthapi.PutConfigurationInput{Cluster: p.cluster, Configuration: p.configuration,
				Revision: p.revision}
			err := c.CallBerth(ctx, "PutClusterConfiguration", in, &out)
			p.Notes = out.Notes
			return err
		})
	}
	for some := range slices.Chunk(p.attributes, attributesPerCall) {
		steps = append(steps, func() error {
			return c.CallECS(ctx, "PutAttributes", map[string]any{"cluster": p.cluster,
				"attributes": attributesWithTargets(some)}, nil)
		})
	}
	if size != nil {
		for _, n := range p.Absent {
			steps = append(steps, func() error { return registerInstance(ctx, c, p.cluster, n, *size) })
		}
	}
	for n, step := range steps {
		if err := step(); err != nil {
			return err
		}
		progress(n+1, len(steps))
	}
	return nil
}

// attributesWithTargets converts attributes for PutAttributes.
func attributesWithTargets(some []attribute) []map[string]string {
	var out []map[string]string
	for _, a := range some {
		out = append(out, map[string]string{"name": a.Name, "value": a.Value, "targetId": a.TargetID,
			"targetType": "container-instance"})
	}
	return out
}

// registerInstance registers an instance for a node, as its agent would. Only a simulated AWS can
// run tasks on it.
func registerInstance(
	ctx context.Context, c *client.Client, clusterName string, n servicefabric.Node, size Size,
) error {
	var attributes []map[string]string
	of := n.Attributes()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		attributes = append(attributes, map[string]string{"name": name, "value": of[name]})
	}
	return c.CallECS(ctx, "RegisterContainerInstance", map[string]any{
		"cluster": clusterName, "attributes": attributes, "totalResources": []map[string]any{
			{"name": "CPU", "type": "INTEGER", "integerValue": size.CPU},
			{"name": "MEMORY", "type": "INTEGER", "integerValue": size.Memory},
		},
	}, nil)
}

// AgentSetting returns the line of an ECS agent's configuration that makes its machine the node.
func AgentSetting(n servicefabric.Node) string {
	data, _ := json.Marshal(n.Attributes()) // a map of strings cannot fail
	return "ECS_INSTANCE_ATTRIBUTES=" + string(data)
}
