package servicefabric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// A builder collects what either format says, and checks each part against the parts before it.
// Both formats have the same content in other words, so what is checked here is checked once.
type builder struct {
	out Cluster
	// Where each thing is described: nodes and node types by name, metrics with a buffer,
	// overbooking or threshold by name, and parameters by section and name.
	nodeLines, typeLines, metricLines, parameterLines map[string]int
	references                                        []typeReference
	defragmentation                                   defragmentation
	ignored                                           map[string]bool
}

// A typeReference is a node's reference to its node type, which may be described further down.
type typeReference struct {
	line     int
	nodeType string
}

func newBuilder() *builder {
	b := &builder{
		nodeLines: map[string]int{}, typeLines: map[string]int{}, metricLines: map[string]int{},
		parameterLines: map[string]int{}, ignored: map[string]bool{}, defragmentation: newDefragmentation(),
	}
	b.out.Reasons = map[string]string{}
	b.out.Configuration = cluster.Configuration{
		NodeTypes: map[string]cluster.NodeType{}, DomainPolicy: cluster.PolicyAdaptive,
		Buffer: map[string]float64{}, Overbooking: map[string]float64{}, Balancing: map[string]float64{},
		Activity: map[string]int64{},
	}
	return b
}

// addNode adds a node. Its type may be described further down, so finish checks that.
func (b *builder) addNode(line int, n Node) error {
	switch {
	case n.Name == "":
		return errorAt(line, "a node has no name")
	case b.nodeLines[n.Name] > 0:
		return errorAt(line, "node %q is described on line %d already", n.Name, b.nodeLines[n.Name])
	case n.Type == "":
		return errorAt(line, "node %q names no node type", n.Name)
	case len(b.out.Nodes) == maxNodes:
		return errorAt(line, "there are more than %d nodes", maxNodes)
	}
	if n.FaultDomain != "" && !strings.HasPrefix(n.FaultDomain, "fd:/") {
		return errorAt(line, "the fault domain of node %q is %q, expected a path such as fd:/dc1/r0", n.Name,
			n.FaultDomain)
	}
	b.nodeLines[n.Name] = line
	b.references = append(b.references, typeReference{line, n.Type})
	b.out.Nodes = append(b.out.Nodes, n)
	return nil
}

// addNodeType adds a node type without properties and capacities.
func (b *builder) addNodeType(line int, name string) error {
	switch {
	case name == "":
		return errorAt(line, "a node type has no name")
	case b.typeLines[name] > 0:
		return errorAt(line, "node type %q is described on line %d already", name, b.typeLines[name])
	}
	b.typeLines[name] = line
	b.out.Configuration.NodeTypes[name] = cluster.NodeType{
		Capacities: map[string]int64{},
		Properties: map[string]string{},
	}
	return nil
}

// addProperty adds a placement property to a node type that was added before. Any text is a value.
func (b *builder) addProperty(line int, nodeType, name, value string) error {
	if b.typeLines[nodeType] == 0 {
		return errorAt(line, "the placement property %q stands in no node type", name)
	}
	properties := b.out.Configuration.NodeTypes[nodeType].Properties
	if _, twice := properties[name]; twice || name == "" {
		return errorAt(line, "node type %q has the placement property %q without a name or twice", nodeType, name)
	}
	properties[name] = value
	return nil
}

// addCapacity adds a capacity to a node type that was added before. ECS itself counts CPU, memory,
// GPUs and ports, so these cannot be metrics.
func (b *builder) addCapacity(line int, nodeType, name, value string) error {
	if b.typeLines[nodeType] == 0 {
		return errorAt(line, "the capacity %q stands in no node type", name)
	}
	capacities := b.out.Configuration.NodeTypes[nodeType].Capacities
	if _, twice := capacities[name]; twice || name == "" {
		return errorAt(line, "node type %q has the capacity %q without a name or twice", nodeType, name)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 0 {
		return errorAt(line, "the capacity %q of node type %q is %q, expected a whole number of 0 or more", name,
			nodeType, value)
	}
	if !cluster.IsMetric(name) {
		return errorAt(line, "the capacity %q of node type %q is no metric: instances register it with ECS", name,
			nodeType)
	}
	capacities[name] = n
	return nil
}

// metricSections are the sections of fabricSettings that have one number per metric.
var metricSections = map[string]func(c *cluster.Configuration, metric string, value float64) error{
	"NodeBufferPercentage":      setRatio(func(c *cluster.Configuration) map[string]float64 { return c.Buffer }),
	"NodeOverbookingPercentage": setRatio(func(c *cluster.Configuration) map[string]float64 { return c.Overbooking }),
	"MetricBalancingThresholds": setRatio(func(c *cluster.Configuration) map[string]float64 { return c.Balancing }),
	"MetricActivityThresholds":  setActivity,
}

// setRatio returns a setter of one metric's number in the map that of returns. finish checks its
// range.
func setRatio(of func(*cluster.Configuration) map[string]float64) func(*cluster.Configuration, string, float64) error {
	return func(c *cluster.Configuration, metric string, value float64) error {
		of(c)[metric] = value
		return nil
	}
}

// setActivity sets a metric's activity threshold, which is a load and so a whole number.
func setActivity(c *cluster.Configuration, metric string, value float64) error {
	if value != float64(int64(value)) {
		return fmt.Errorf("expected a whole number")
	}
	c.Activity[metric] = int64(value)
	return nil
}

// ignore notes a part of the description that Berth does not have, by its path.
func (b *builder) ignore(path ...string) { b.ignored[strings.Join(path, "/")] = true }

// addParameter adds one parameter of a section of fabricSettings. Parameters that Berth does not
// have are noted.
func (b *builder) addParameter(line int, section, name, value string) error {
	key := section + "\x00" + name
	isKnown := section == placementSection || metricSections[section] != nil || isDefragmentation(section)
	if isKnown && b.parameterLines[key] > 0 {
		return errorAt(line, "section %s has %q on line %d already", section, name, b.parameterLines[key])
	}
	b.parameterLines[key] = line
	if section == placementSection {
		return b.addPlacementParameter(line, name, value)
	}
	set := metricSections[section]
	switch {
	case isDefragmentation(section) && name != "":
		if err := b.defragmentation.add(section, name, value); err != nil {
			return errorAt(line, "%s of section %s is %q: %v", name, section, value, err)
		}
		return nil
	case set == nil && !isDefragmentation(section):
		b.ignore(section, name)
		return nil
	case name == "":
		return errorAt(line, "a parameter of section %s has no name", section)
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err == nil {
		err = set(&b.out.Configuration, name, number)
	}
	if err != nil {
		return errorAt(line, "%s of section %s is %q, which is no number that can stand there", name, section, value)
	}
	b.metricLines[name] = line
	return nil
}

// finish checks what depends on the whole description. It checks the settings of each metric by
// themselves first, in order of line, so that the error has the line of the metric that is wrong.
func (b *builder) finish() (*Cluster, error) {
	for _, r := range b.references {
		if b.typeLines[r.nodeType] == 0 {
			return nil, errorAt(r.line, "node type %q is described nowhere", r.nodeType)
		}
	}
	if len(b.out.Nodes)+len(b.typeLines) == 0 {
		return nil, errorAt(1, "the description has neither nodes nor node types")
	}
	for _, name := range slices.SortedFunc(maps.Keys(b.metricLines),
		func(x, y string) int { return cmp.Compare(b.metricLines[x], b.metricLines[y]) }) {
		c := &b.out.Configuration
		one := cluster.Configuration{
			Buffer: onlyKey(c.Buffer, name), Overbooking: onlyKey(c.Overbooking, name),
			Balancing: onlyKey(c.Balancing, name), Activity: onlyKey(c.Activity, name),
		}
		if err := cluster.CheckConfiguration(&one); err != nil {
			return nil, errorAt(b.metricLines[name], "%s", messageOf(err))
		}
	}
	for _, unused := range b.defragmentation.apply(&b.out.Configuration) {
		b.ignore(unused...)
	}
	if err := cluster.CheckConfiguration(&b.out.Configuration); err != nil {
		return nil, errorAt(1, "%s", messageOf(err))
	}
	b.out.Ignored = slices.Sorted(maps.Keys(b.ignored))
	return &b.out, nil
}

// onlyKey returns a map with the key alone, or nil if m does not have it.
func onlyKey[V any](m map[string]V, key string) map[string]V {
	if v, ok := m[key]; ok {
		return map[string]V{key: v}
	}
	return nil
}

// messageOf returns the message of an API error without its code, which would mean nothing here.
func messageOf(err error) string {
	if e, ok := err.(*cluster.Error); ok {
		return e.Message
	}
	return err.Error()
}
