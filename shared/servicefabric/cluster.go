// Package servicefabric reads Service Fabric's own descriptions of a cluster, ClusterManifest.xml
// and ClusterConfig.json (P16): nodes with their fault and upgrade domains, node types with
// placement properties and capacities, and the settings of the Cluster Resource Manager. It knows
// no file and no API.
package servicefabric

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// Cluster is what a description says.
type Cluster struct {
	Name  string
	Nodes []Node
	// Configuration has the node types, buffer, overbooking, thresholds and priorities; its Head is
	// empty.
	Configuration cluster.Configuration
	// Ignored are the settings of the Cluster Resource Manager that mean nothing to Berth, in
	// order.
	Ignored []string
}

// Node is one node of the description.
type Node struct {
	Name          string
	Address       string
	Type          string
	FaultDomain   string // fd:/dc1/r0, empty where none is named
	UpgradeDomain string
}

// Attributes are the attributes of a container instance that is this node: name, node type and
// domains.
func (n Node) Attributes() map[string]string {
	out := map[string]string{cluster.PropertyPrefix + "NodeName": n.Name, cluster.AttributeNodeType: n.Type}
	if n.FaultDomain != "" {
		out[cluster.AttributeFaultDomain] = n.FaultDomain
	}
	if n.UpgradeDomain != "" {
		out[cluster.AttributeUpgrade] = n.UpgradeDomain
	}
	return out
}

// Error says what is wrong with a description, and on which line.
type Error struct {
	Line   int
	Reason string
}

// Error is the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

func wrong(line int, format string, args ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// Bounds of a description.
const (
	maxSize  = 8 << 20
	maxNodes = 10_000
	maxDepth = 64
)

// Read reads a description, XML or JSON as its first character tells. Comments and trailing commas
// in JSON are accepted; whatever else is malformed, contradicts itself or cannot be kept gives an
// *[Error].
func Read(data []byte) (*Cluster, error) {
	if len(data) > maxSize {
		return nil, wrong(1, "the description has %d bytes, at most %d are read", len(data), maxSize)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	b := newBuilder()
	var err error
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		err = wrong(1, "the description is empty")
	case text[0] == '<':
		err = readXML(b, data)
	default:
		err = readJSON(b, data)
	}
	if err != nil {
		return nil, err
	}
	return b.finish()
}

// builder gathers what either format says.
type builder struct {
	out    Cluster
	lines  map[string]int // of nodes, by name
	types  map[string]int // lines of node types
	refs   []reference
	metric map[string]int // line of each metric's buffer, overbooking or threshold
	said   map[string]int // line of each parameter, by section and name
}

type reference struct {
	line     int
	nodeType string
}

func newBuilder() *builder {
	b := &builder{lines: map[string]int{}, types: map[string]int{}, metric: map[string]int{}, said: map[string]int{}}
	b.out.Configuration = cluster.Configuration{
		NodeTypes: map[string]cluster.NodeType{}, DomainPolicy: cluster.PolicyAdaptive,
		Buffer: map[string]float64{}, Overbooking: map[string]float64{}, Balancing: map[string]float64{},
		Activity: map[string]int64{},
	}
	return b
}

func (b *builder) node(line int, n Node) error {
	switch {
	case n.Name == "":
		return wrong(line, "a node has no name")
	case b.lines[n.Name] > 0:
		return wrong(line, "node %q is described on line %d already", n.Name, b.lines[n.Name])
	case n.Type == "":
		return wrong(line, "node %q names no node type", n.Name)
	case len(b.out.Nodes) == maxNodes:
		return wrong(line, "there are more than %d nodes", maxNodes)
	}
	if n.FaultDomain != "" && !strings.HasPrefix(n.FaultDomain, "fd:/") {
		return wrong(line, "the fault domain of node %q is %q, expected a path such as fd:/dc1/r0", n.Name,
			n.FaultDomain)
	}
	b.lines[n.Name] = line
	b.refs = append(b.refs, reference{line, n.Type})
	b.out.Nodes = append(b.out.Nodes, n)
	return nil
}

func (b *builder) nodeType(line int, name string) error {
	switch {
	case name == "":
		return wrong(line, "a node type has no name")
	case b.types[name] > 0:
		return wrong(line, "node type %q is described on line %d already", name, b.types[name])
	}
	b.types[name] = line
	b.out.Configuration.NodeTypes[name] = cluster.NodeType{Capacities: map[string]int64{},
		Properties: map[string]string{}}
	return nil
}

func (b *builder) property(line int, nodeType, name, value string) error {
	if b.types[nodeType] == 0 {
		return wrong(line, "the placement property %q stands in no node type", name)
	}
	properties := b.out.Configuration.NodeTypes[nodeType].Properties
	if _, twice := properties[name]; twice || name == "" {
		return wrong(line, "node type %q has the placement property %q without a name or twice", nodeType, name)
	}
	properties[name] = value
	return nil
}

func (b *builder) capacity(line int, nodeType, name, value string) error {
	if b.types[nodeType] == 0 {
		return wrong(line, "the capacity %q stands in no node type", name)
	}
	capacities := b.out.Configuration.NodeTypes[nodeType].Capacities
	if _, twice := capacities[name]; twice || name == "" {
		return wrong(line, "node type %q has the capacity %q without a name or twice", nodeType, name)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 0 {
		return wrong(line, "the capacity %q of node type %q is %q, expected a whole number of 0 or more", name,
			nodeType, value)
	}
	if !cluster.IsMetric(name) {
		return wrong(line, "the capacity %q of node type %q is no metric: instances register it with ECS", name,
			nodeType)
	}
	capacities[name] = n
	return nil
}

// settings are the sections of fabricSettings that are one number per metric.
var settings = map[string]func(b *builder, name string, value float64) error{
	"NodeBufferPercentage": func(b *builder, name string,
		v float64) error {
		b.out.Configuration.Buffer[name] = v
		return nil
	},
	"NodeOverbookingPercentage": func(b *builder, name string,
		v float64) error {
		b.out.Configuration.Overbooking[name] = v
		return nil
	},
	"MetricBalancingThresholds": func(b *builder, name string,
		v float64) error {
		b.out.Configuration.Balancing[name] = v
		return nil
	},
	"MetricActivityThresholds": func(b *builder, name string, v float64) error {
		if v != float64(int64(v)) {
			return fmt.Errorf("expected a whole number")
		}
		b.out.Configuration.Activity[name] = int64(v)
		return nil
	},
}

// parameters are the parameters of the section PlacementAndLoadBalancing that mean something to
// Berth.
var parameters = map[string]func(c *cluster.Configuration, value string) error{
	"PlacementConstraintPriority":     priority(func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.Placement }),
	"CapacityConstraintPriority":      priority(func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.Capacity }),
	"FaultDomainConstraintPriority":   priority(func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.FaultDomain }),
	"UpgradeDomainConstraintPriority": priority(func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.UpgradeDomain }),
	"QuorumBasedReplicaDistributionPerFaultDomains": truth(func(c *cluster.Configuration, is bool) {
		c.QuorumFault = is
	}),
	"QuorumBasedReplicaDistributionPerUpgradeDomains": truth(func(c *cluster.Configuration, is bool) {
		c.QuorumUpgrade = is
	}),
	"QuorumBasedLogicAutoSwitch":      truth(func(c *cluster.Configuration, is bool) { c.NoSwitch = !is }),
	"MoveExistingReplicaForPlacement": truth(func(c *cluster.Configuration, is bool) { c.KeepInPlace = !is }),
}

func priority(of func(*cluster.Configuration) *cluster.Priority) func(*cluster.Configuration, string) error {
	return func(c *cluster.Configuration, value string) error {
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < -1 || n > 2 {
			return fmt.Errorf("expected a priority from -1 to 2")
		}
		*of(c) = cluster.Priority(n)
		return nil
	}
}

func truth(set func(*cluster.Configuration, bool)) func(*cluster.Configuration, string) error {
	return func(c *cluster.Configuration, value string) error {
		is, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(value)))
		if err != nil {
			return fmt.Errorf("expected true or false")
		}
		set(c, is)
		return nil
	}
}

const placementSection = "PlacementAndLoadBalancing"

// parameter takes in one parameter of a section of fabricSettings. Sections that are not about
// placement are passed over.
func (b *builder) parameter(line int, section, name, value string) error {
	key := section + "\x00" + name
	if (section == placementSection || settings[section] != nil) && b.said[key] > 0 {
		return wrong(line, "section %s has %q on line %d already", section, name, b.said[key])
	}
	b.said[key] = line
	if section == placementSection {
		set := parameters[name]
		if set == nil {
			b.out.Ignored = append(b.out.Ignored, section+"/"+name)
			return nil
		}
		if err := set(&b.out.Configuration, value); err != nil {
			return wrong(line, "%s of section %s is %q: %v", name, section, value, err)
		}
		return nil
	}
	set := settings[section]
	if set == nil {
		return nil
	}
	if name == "" {
		return wrong(line, "a parameter of section %s has no name", section)
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err == nil {
		err = set(b, name, number)
	}
	if err != nil {
		return wrong(line, "%s of section %s is %q, which is no number that can stand there", name, section, value)
	}
	b.metric[name] = line
	return nil
}

// finish checks what only the whole tells.
func (b *builder) finish() (*Cluster, error) {
	for _, r := range b.refs {
		if b.types[r.nodeType] == 0 {
			return nil, wrong(r.line, "node type %q is described nowhere", r.nodeType)
		}
	}
	if len(b.out.Nodes)+len(b.types) == 0 {
		return nil, wrong(1, "the description has neither nodes nor node types")
	}
	for _, name := range slices.SortedFunc(maps.Keys(b.metric),
		func(x, y string) int { return cmp.Compare(b.metric[x], b.metric[y]) }) {
		one := cluster.Configuration{}
		if v, ok := b.out.Configuration.Buffer[name]; ok {
			one.Buffer = map[string]float64{name: v}
		}
		if v, ok := b.out.Configuration.Overbooking[name]; ok {
			one.Overbooking = map[string]float64{name: v}
		}
		if v, ok := b.out.Configuration.Balancing[name]; ok {
			one.Balancing = map[string]float64{name: v}
		}
		if v, ok := b.out.Configuration.Activity[name]; ok {
			one.Activity = map[string]int64{name: v}
		}
		if err := cluster.CheckConfiguration(&one); err != nil {
			return nil, wrong(b.metric[name], "%s", message(err))
		}
	}
	if err := cluster.CheckConfiguration(&b.out.Configuration); err != nil {
		return nil, wrong(1, "%s", message(err))
	}
	slices.Sort(b.out.Ignored)
	return &b.out, nil
}

func message(err error) string {
	if e, ok := err.(*cluster.Error); ok {
		return e.Message
	}
	return err.Error()
}
