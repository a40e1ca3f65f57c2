package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Case is one case as in its file.
type Case struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Kind     string `json:"kind"`
	Evidence string `json:"evidence"`
	Note     string `json:"note"`
	Checked  bool   `json:"oracle_checked"`

	Nodes    []Node    `json:"nodes"`
	Service  *Service  `json:"service"`
	Logic    string    `json:"domain_logic"`
	Existing []string  `json:"existing"`
	Replicas []Replica `json:"replicas"`
	New      []Replica `json:"new"`
	Add      *int      `json:"replicas_to_add"`
	Drop     int       `json:"replicas_to_drop"`
	Config   Config    `json:"config"`
	Scaling  *Scaling  `json:"scaling"`
	// Affinity names, by partition, the partition that its replicas have to be beside.
	Affinity map[string]string `json:"affinity"`
	// Applications have limits; ApplicationOf names, by partition, the one that it belongs to.
	Applications  map[string]Application `json:"applications"`
	ApplicationOf map[string]string      `json:"application_of"`

	Expression string          `json:"expr"`
	Properties map[string]Text `json:"properties"`
	Primary    bool            `json:"eval_for_primary"`

	Expected map[string]json.RawMessage `json:"expected"`
}

// An Application limits the partitions that belong to it.
type Application struct {
	MinimumNodes int                         `json:"minimum_nodes"`
	MaximumNodes int                         `json:"maximum_nodes"`
	Metrics      map[string]ApplicationLimit `json:"metrics"`
}

// An ApplicationLimit is what an application may use of a metric, and what is reserved for it on
// each node.
type ApplicationLimit struct {
	Total       int64 `json:"total"`
	Node        int64 `json:"node"`
	Reservation int64 `json:"reservation"`
}

// A Node is an instance. If Fault or Upgrade is nil, that dimension has no rule.
type Node struct {
	Name        string            `json:"name"`
	Fault       *string           `json:"fd"`
	Upgrade     *string           `json:"ud"`
	Properties  map[string]Text   `json:"properties"`
	Capacities  map[string]Number `json:"capacities"`
	Load        map[string]Number `json:"load"`
	Up          *bool             `json:"up"`
	Deactivated string            `json:"deactivated"` // intent/state
}

// A Service is what its replicas have in common.
type Service struct {
	Target      int      `json:"target"`
	Constraint  string   `json:"constraint"`
	Metrics     []Metric `json:"metrics"`
	Partitions  int      `json:"partitions"`
	Blocked     []string `json:"blocked_nodes"`
	FaultPolicy string   `json:"fd_policy"`
	PlacePolicy string   `json:"place_policy"`
	OnEveryNode bool     `json:"on_every_node"`
	MoveCost    string   `json:"move_cost"`
}

// A Metric is a default load.
type Metric struct {
	Name   string `json:"name"`
	Load   Number `json:"load"`
	Weight string `json:"weight"`
}

// A Replica is a task of a partition; without a node it is a new one. Its constraint and blocked
// nodes are its service's: all replicas of a partition that name any name the same. Loads and costs
// are its own.
type Replica struct {
	Partition  string            `json:"partition"`
	Node       string            `json:"node"`
	Load       map[string]Number `json:"load"`
	Constraint string            `json:"constraint"`
	Blocked    []string          `json:"blocked_nodes"`
	MoveCost   string            `json:"move_cost"`
	Copies     int               `json:"copies"` // partitions of this kind, if more than one
}

// A Config is the cluster's configuration.
type Config struct {
	Buffer           map[string]float64 `json:"NodeBufferPercentage"`
	Overbooking      map[string]float64 `json:"NodeOverbookingPercentage"`
	Balancing        PerMetric[float64] `json:"MetricBalancingThreshold"`
	Activity         PerMetric[Number]  `json:"MetricActivityThreshold"`
	Placement        int                `json:"PlacementConstraintPriority"`
	Capacity         int                `json:"CapacityConstraintPriority"`
	Fault            int                `json:"FaultDomainConstraintPriority"`
	Upgrade          int                `json:"UpgradeDomainConstraintPriority"`
	MakeRoom         *bool              `json:"MoveExistingReplicaForPlacement"`
	UseReportedCosts *bool              `json:"UseMoveCostReports"`
	Costs            map[string]int64   `json:"MoveCost"`
	// Gathered are the metrics of defragmentation, Empty how many nodes should have none of their
	// load, or below 1 which share of them.
	Gathered map[string]bool    `json:"DefragmentationMetrics"`
	Empty    map[string]float64 `json:"DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold"`
	// EmptyPolicy is 0 per metric, or absent, if the empty nodes are to be over all domains, and 1 if not.
	EmptyPolicy map[string]int `json:"DefragmentationEmptyNodeDistributionPolicy"`
	Affinity    int            `json:"AffinityConstraintPriority"`
	// Priorities that no case sets: preferred locations, limits of applications and of moves.
	Location    int `json:"PreferredLocationConstraintPriority"`
	Scaleout    int `json:"ScaleoutCountConstraintPriority"`
	Application int `json:"ApplicationCapacityConstraintPriority"`
	Throttling  int `json:"ThrottlingConstraintPriority"`
}

// A Number is a whole number, however it is written.
type Number int64

// UnmarshalJSON reads a number without a fraction: 50, 50.0 or 5e1.
func (n *Number) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*int64)(n)); err == nil {
		return nil
	}
	var x float64
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	if *n = Number(x); float64(*n) != x {
		return fmt.Errorf("%s is no whole number", data)
	}
	return nil
}

// plainAmounts returns the same numbers, nil for none.
func plainAmounts(of map[string]Number) map[string]int64 {
	if of == nil {
		return nil
	}
	out := map[string]int64{}
	for name, n := range of {
		out[name] = int64(n)
	}
	return out
}

// A PerMetric is one value for all metrics, or one for each named metric.
type PerMetric[T any] struct {
	All   *T
	Named map[string]T
}

// UnmarshalJSON reads a number or an object of numbers.
func (p *PerMetric[T]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return json.Unmarshal(data, &p.Named)
	}
	return json.Unmarshal(data, &p.All)
}

// of returns the value of each of the metrics that has one.
func (p PerMetric[T]) of(metrics []string) map[string]T {
	out := map[string]T{}
	for _, m := range metrics {
		if v, ok := p.Named[m]; ok {
			out[m] = v
		} else if p.All != nil {
			out[m] = *p.All
		}
	}
	return out
}

// A Text is the value of a property: a string, or the text of a number or Boolean.
type Text string

// UnmarshalJSON reads a string, a number or a Boolean.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = Text(s)
		return nil
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch v.(type) {
	case float64, bool:
		*t = Text(bytes.TrimSpace(data))
		return nil
	}
	return fmt.Errorf("a property is a string, a number or a Boolean, not %s", data)
}

// An entry is a case, or the error of reading it.
type entry struct {
	file string
	Case
	err error
}

// readCases reads all JSON files of a folder, in the order of names.
func readCases(dir string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no JSON file in %s", dir)
	}
	slices.Sort(files)
	var out []entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var raw []json.RawMessage
		if err := json.Unmarshal(data, &raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, r := range raw {
			out = append(out, decode(filepath.Base(file), r))
		}
	}
	return out, nil
}

// decodeStrict is json.Unmarshal, but unknown fields are errors.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// decode reads one case. An unknown field is an error, and the entry still has the id and kind.
func decode(file string, data []byte) entry {
	e := entry{file: file}
	if e.err = decodeStrict(data, &e.Case); e.err != nil {
		var head struct{ ID, Kind string }
		_ = json.Unmarshal(data, &head) // what cannot be read has neither
		e.ID, e.Kind = head.ID, head.Kind
		return e
	}
	if !slices.Contains(kinds, e.Kind) {
		e.err = fmt.Errorf("unknown kind %q", e.Kind)
	}
	return e
}

var kinds = strings.Fields("constraint_expr placement fault_domain upgrade_domain quorum capacity buffer overbooking loadmove " +
	"affinity application balancing defragmentation scaling")
