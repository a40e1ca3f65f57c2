package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// Question is what would be placed: more tasks of a service, tasks of a definition, or tasks of a
// size. Rules are added to those of the service, or replace them where there is only room for one.
type Question struct {
	Service    string
	Definition string // family:revision, or a family for its newest revision
	Needs      cluster.Resources
	Ports      []cluster.Port
	Rules      cluster.Rules
	Count      int
	// Instance, where not empty, is one to say of why the tasks do not go there.
	Instance string
	// Moves asks for the moves that would be made, and for those that would make room.
	Moves bool
}

// IsEmpty reports whether the question names nothing to place.
func (q *Question) IsEmpty() bool {
	return q.Service == "" && q.Definition == "" && q.Needs == (cluster.Resources{}) && len(q.Ports) == 0 &&
		len(q.Rules.Metrics) == 0
}

// NotFound is what was asked about and is not there, with what is.
type NotFound struct {
	Kind, Name string
	Known      []string
}

// shown is how many names a message lists.
const shown = 10

// Error names it, what was asked for and what there is.
func (e *NotFound) Error() string {
	known := slices.Sorted(slices.Values(e.Known))
	more := len(known) - shown
	known = known[:min(len(known), shown)]
	if more > 0 {
		known = append(known, fmt.Sprintf("%d more", more))
	}
	if len(known) == 0 {
		return fmt.Sprintf("%s %q is not in the cluster, which has none", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %q is not in the cluster, expected one of: %s", e.Kind, e.Name, strings.Join(known, ", "))
}

// model is a cluster and what placement is asked with about it.
type model struct {
	snap    *snapshot.Snapshot
	engine  *placement.Engine
	planner *moves.Planner
	specs   map[string]*placement.Spec // of services, by name and task definition
}

func newModel(snap *snapshot.Snapshot) *model {
	engine := placement.New(snap)
	return &model{snap: snap, engine: engine, planner: moves.NewPlanner(engine), specs: map[string]*placement.Spec{}}
}

// findService finds a service by name.
func (m *model) findService(name string) (*cluster.Service, error) {
	if s := m.snap.Services[name]; s != nil {
		return s, nil
	}
	return nil, &NotFound{"service", name, slices.Collect(maps.Keys(m.snap.Services))}
}

// findDefinition finds a task definition by its full name, or the newest revision of a family.
func (m *model) findDefinition(name string) (*cluster.TaskDefinition, error) {
	if d := m.snap.Definitions[name]; d != nil {
		return d, nil
	}
	var newest *cluster.TaskDefinition
	for _, d := range m.snap.Definitions {
		if d.Family == name && (newest == nil || d.Revision > newest.Revision) {
			newest = d
		}
	}
	if newest == nil {
		return nil, &NotFound{"task definition", name, slices.Collect(maps.Keys(m.snap.Definitions))}
	}
	return newest, nil
}

// serviceSpec is what placement is asked with for the service's tasks. Without further rules it is
// the same each time.
func (m *model) serviceSpec(s *cluster.Service, further *cluster.Rules) (*placement.Spec, error) {
	key := s.Name + " " + s.Deployment.TaskDefinition
	if old := m.specs[key]; old != nil && further.IsEmpty() {
		return old, nil
	}
	def, err := m.findDefinition(s.Deployment.TaskDefinition)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	rules := mergeRules(s.Rules, *further)
	if s.Strategy == cluster.Replica {
		rules.DomainPolicy = cmp.Or(rules.DomainPolicy, m.snap.Configuration.DomainPolicy)
	}
	spec, err := placement.NewSpec(def, s.Short, serviceGroup+s.Name, &rules)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if provider := specs.NextProvider(m.snap, s); provider != "" {
		spec.Attributes = append(slices.Clone(spec.Attributes), cluster.AttributeProvider+"="+provider)
	}
	if further.IsEmpty() {
		m.specs[key] = spec
	}
	return spec, nil
}

// serviceGroup and familyGroup begin the groups that tasks are in unless the caller named one.
const (
	serviceGroup = "service:"
	familyGroup  = "family:"
)

// placementRequest is the question for the engine. The question gets the full name of its
// definition.
func (m *model) placementRequest(q *Question) (r placement.Request, err error) {
	r.Count = q.Count
	switch {
	case q.Service != "":
		s, err := m.findService(q.Service)
		if err != nil {
			return r, err
		}
		r.Target = max(s.Desired, m.countActive(s)+q.Count)
		r.Spec, err = m.serviceSpec(s, &q.Rules)
		return r, err
	case q.Definition != "":
		def, err := m.findDefinition(q.Definition)
		if err != nil {
			return r, err
		}
		q.Definition = def.Name()
		r.Spec, err = placement.NewSpec(def, m.standaloneOwner(), familyGroup+def.Family, &q.Rules)
		return r, err
	}
	r.Target = q.Count
	r.Spec, err = placement.NewSpec(&cluster.TaskDefinition{Needs: q.Needs, Ports: q.Ports}, nobody, "", &q.Rules)
	return r, err
}

// nobody owns tasks that have only a size: no short key is like it.
const nobody = "what-if"

// standaloneOwner is the owner of the cluster's standalone tasks, as one of them has it; nobody
// where there are none.
func (m *model) standaloneOwner() string {
	for t := range m.snap.Tasks() {
		if t.Service == "" && !t.Foreign {
			return t.Owner
		}
	}
	return nobody
}

func (m *model) countActive(s *cluster.Service) (n int) {
	for _, t := range m.snap.TasksOf(s.Short) {
		if t.IsActive() {
			n++
		}
	}
	return n
}

func mergeRules(a, b cluster.Rules) cluster.Rules {
	a.Constraints = slices.Concat(a.Constraints, b.Constraints)
	if b.Strategies != nil {
		a.Strategies = b.Strategies
	}
	if b.NodeConstraint != "" {
		a.NodeConstraint = b.NodeConstraint
	}
	if b.DomainPolicy != "" {
		a.DomainPolicy = b.DomainPolicy
	}
	if b.Metrics != nil {
		a.Metrics = b.Metrics
	}
	if b.Scoring != "" {
		a.Scoring = b.Scoring
	}
	return a
}

// describeTasks is what the tasks are called.
func (q *Question) describeTasks() string {
	switch {
	case q.Service != "":
		return "of service " + q.Service
	case q.Definition != "":
		return "of " + q.Definition
	}
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	n := &q.Needs
	add(n.CPU > 0, "%s CPU units", strconv.FormatFloat(float64(n.CPU)/cluster.CPUUnit, 'f', -1, 64))
	add(n.Memory > 0, "%d MiB", n.Memory)
	add(n.GPUs == 1 && n.PerGPU() == cluster.WholeGPU, "1 GPU")
	add(n.GPUs > 1, "%d GPUs", n.GPUs)
	add(n.GPUs == 1 && n.PerGPU() < cluster.WholeGPU, "%g of a GPU", float64(n.PerGPU())/cluster.WholeGPU)
	for _, p := range q.Ports {
		add(true, "port %d/%s", p.Number, p.Protocol)
	}
	for _, m := range q.Rules.Metrics {
		add(true, "%d %s", m.Load, m.Name)
	}
	return "with " + strings.Join(parts, ", ")
}
